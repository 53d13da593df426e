//! Which libraries a program needs, and whether the job's root has them: looked for here as its dynamic linker will
//! look for them there, so that what is missing is said before anything starts.
//!
//! This says what a linker does that is set up as distributions set it up. So a library that is not found here is no
//! reason to refuse the program; a dynamic linker that is not there is.

mod cache;
mod needs;
mod root;

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use coppice_api::{ByteString, shown};

use self::cache::Cache;
use self::needs::Needs;
use self::root::Root;

/// Libraries of a program that are looked at; what more need is not looked for.
const LIBRARIES_MAX: usize = 4096;

/// Libraries that are named in a line.
const NAMED_MAX: usize = 5;

/// Where glibc looks at last, as distributions build it.
const GLIBC_DEFAULTS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// Where musl looks at last.
const MUSL_DEFAULTS: [&str; 3] = ["/lib", "/usr/local/lib", "/usr/lib"];

/// Subdirectories in which glibc looks first, for processors that can more.
const OF_PROCESSORS: [&str; 4] = ["", "glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v4"];

/// Looks whether the program's dynamic linker and its libraries are in the job's root. Gives a line on those that are
/// not found; files that cannot be read are somebody else's to complain of.
///
/// # Errors
/// The dynamic linker is not there.
pub(super) fn check(program: &Path, root: &Path, environment: &[ByteString]) -> anyhow::Result<Option<String>> {
    let Some(needs) = root::open_file(program).and_then(Needs::of) else { return Ok(None) };
    let (Some(linker), Ok(in_root)) = (needs.interpreter.clone(), Root::open(root)) else { return Ok(None) };
    if in_root.open_file(&linker).is_none() {
        return Err(anyhow!(
            "cannot run '{}': it is linked dynamically, and there is no {} in the root '{}'; run it with a root that \
             has that and its libraries, as --root / has, or link it statically",
            shown(program),
            shown(&linker),
            shown(root)
        ));
    }
    let place = program.strip_prefix(root).map_or_else(|_| program.to_owned(), |below| Path::new("/").join(below));
    let missing = Search::new(&in_root, &linker, environment).missing(place, needs);
    if missing.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(|name| shown(name).to_string()).collect();
    let more = missing.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(Some(format!(
        "'{}' needs {}{more}, which the root '{}' does not have where {} looks: install what has it there, or say \
         where it is with --env LD_LIBRARY_PATH=DIRECTORY",
        shown(program),
        named.join(", "),
        shown(root),
        shown(&linker)
    )))
}

/// Looks for libraries in a root.
struct Search<'a> {
    root: &'a Root,
    /// `LD_LIBRARY_PATH`.
    paths: Vec<PathBuf>,
    cache: Cache,
    defaults: Vec<PathBuf>,
    is_musl: bool,
}

/// A library, or the program.
struct Object {
    place: PathBuf,
    needs: Needs,
    /// `DT_RPATH` of those that needed it.
    inherited: Vec<PathBuf>,
}

impl<'a> Search<'a> {
    fn new(root: &'a Root, linker: &Path, environment: &[ByteString]) -> Self {
        let is_musl = linker.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-musl"));
        let set = environment.iter().rev().find_map(|pair| pair.strip_prefix(b"LD_LIBRARY_PATH="));
        let paths = set.map_or_else(Vec::new, |set| directories(set, b":;"));
        let (cache, defaults) = if is_musl {
            let listed = root.read("/etc/ld-musl-x86_64.path".as_ref());
            let listed = listed.map(|text| directories(&text, b":\n"));
            (Cache::default(), listed.unwrap_or_else(|| MUSL_DEFAULTS.map(PathBuf::from).into()))
        } else {
            let cache = root.read("/etc/ld.so.cache".as_ref()).map(|bytes| Cache::parse(&bytes)).unwrap_or_default();
            (cache, GLIBC_DEFAULTS.map(PathBuf::from).into())
        };
        Self { root, paths, cache, defaults, is_musl }
    }

    /// What is not found of what the program needs, and of what that needs.
    fn missing(&self, place: PathBuf, needs: Needs) -> BTreeSet<PathBuf> {
        let (mut known, mut missing) = (BTreeSet::new(), BTreeSet::new());
        let mut left = VecDeque::from([Object { place, needs, inherited: Vec::new() }]);
        while let Some(object) = left.pop_front() {
            let own = object.directories(&object.needs.rpath);
            let inherited: Vec<PathBuf> = own.into_iter().chain(object.inherited.iter().cloned()).collect();
            for name in &object.needs.libraries {
                if known.len() >= LIBRARIES_MAX || self.is_of_linker(name) || !known.insert(name.clone()) {
                    continue;
                }
                let found = self.find(&object, &inherited, name);
                let read = found.and_then(|place| Some((self.root.open_file(&place).and_then(Needs::of)?, place)));
                match read {
                    Some((needs, place)) => left.push_back(Object { place, needs, inherited: inherited.clone() }),
                    None => drop(missing.insert(name.clone())),
                }
            }
        }
        missing
    }

    /// Whether musl's dynamic linker is that library, too.
    fn is_of_linker(&self, name: &Path) -> bool {
        const OWN: [&[u8]; 9] = [b"c.", b"pthread.", b"rt.", b"m.", b"dl.", b"util.", b"xnet.", b"resolv.", b"crypt."];
        let name = name.as_os_str().as_bytes();
        let is_own = |rest: &[u8]| OWN.iter().any(|own| rest.starts_with(own));
        self.is_musl && (name.starts_with(b"ld-musl") || name.strip_prefix(b"lib").is_some_and(is_own))
    }

    fn find(&self, object: &Object, inherited: &[PathBuf], name: &Path) -> Option<PathBuf> {
        if name.as_os_str().as_bytes().contains(&b'/') {
            return Some(name.to_owned());
        }
        let runpath = object.directories(&object.needs.runpath);
        // musl takes either for both, and what those who need it have.
        let first: &[PathBuf] = if runpath.is_empty() || self.is_musl { inherited } else { &[] };
        let before = first.iter().chain(&self.paths).chain(&runpath);
        let cached = || self.cache.find(name.as_os_str().as_bytes()).find(|path| self.root.open_file(path).is_some());
        self.in_directories(before, name).or_else(cached).or_else(|| self.in_directories(self.defaults.iter(), name))
    }

    fn in_directories<'d>(&self, directories: impl Iterator<Item = &'d PathBuf>, name: &Path) -> Option<PathBuf> {
        let places = directories.flat_map(|directory| OF_PROCESSORS.map(|inside| directory.join(inside).join(name)));
        places.into_iter().find(|place| self.root.open_file(place).is_some())
    }
}

impl Object {
    /// The directories of a list that the file has, with what stands for others put in.
    fn directories(&self, list: &[u8]) -> Vec<PathBuf> {
        let origin = self.place.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
        let mut found = Vec::new();
        for library in [&b"lib/x86_64-linux-gnu"[..], b"lib64", b"lib"] {
            let values: [(&[u8], &[u8]); 3] = [(b"ORIGIN", origin), (b"PLATFORM", b"x86_64"), (b"LIB", library)];
            for directory in directories(&substituted(list, &values), b":") {
                if !found.contains(&directory) {
                    found.push(directory);
                }
            }
        }
        found
    }
}

/// A text with `$NAME` and `${NAME}` replaced by values.
fn substituted(text: &[u8], values: &[(&[u8], &[u8])]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((first, behind)) = rest.split_first() {
        let known = values.iter().filter(|_| *first == b'$').find_map(|(name, value)| {
            let braced = behind.strip_prefix(b"{").and_then(|inside| inside.strip_prefix(*name)?.strip_prefix(b"}"));
            Some((value, braced.or_else(|| behind.strip_prefix(*name))?))
        });
        match known {
            Some((value, after)) => {
                out.extend_from_slice(value);
                rest = after;
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

/// The directories of a list.
fn directories(list: &[u8], separators: &[u8]) -> Vec<PathBuf> {
    let names = list.split(|byte| separators.contains(byte)).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

#[cfg(test)]
mod tests;
