//! Random calls on random trees against the host's kernel: paths against `openat2` with `RESOLVE_IN_ROOT`, which is how
//! a chroot looks from within, and changes against the same calls made directly on a twin of the tree.

use std::path::Path;

use proptest::prelude::*;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Bench, at};

/// A directory opened for the host's own calls.
fn host_dir(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// Opens as a chroot-ed process would.
fn in_root(root: &impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o640) } else { Mode::empty() };
    loop {
        match rustix::fs::openat2(root, path, flags, mode, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS) {
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
}

/// Does the path leave the tree for a moment, so that a direct call would see the host's own directories?
fn leaves(root: &impl AsFd, path: &str) -> bool {
    if path.starts_with('/') {
        return true;
    }
    let beneath = |path: &str| {
        rustix::fs::openat2(
            root,
            path,
            OFlags::PATH,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        )
    };
    let parent = path.trim_end_matches('/').rsplit_once('/').map_or(".", |(parent, _)| parent);
    [parent, path].into_iter().any(|path| matches!(beneath(path), Err(Errno::XDEV | Errno::AGAIN)))
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d", "a", "b", "..", "."])
}

fn path() -> impl Strategy<Value = String> {
    let names = prop::collection::vec(name(), 1..6);
    (any::<bool>(), names, prop::bool::weighted(0.15)).prop_map(|(absolute, names, slash)| {
        format!("{}{}{}", if absolute { "/" } else { "" }, names.join("/"), if slash { "/" } else { "" })
    })
}

/// Text of a link: no slash behind it, for there `openat2` and this tell "is a directory" from "is missing"
/// differently.
fn text() -> impl Strategy<Value = String> {
    path().prop_map(|path| match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        text => text.to_owned(),
    })
}

/// How a tree is made: names of up to three components, each a directory, a file or a link.
#[derive(Clone, Debug)]
enum Item {
    Directory(String),
    File(String),
    Link(String, String),
}

fn item() -> impl Strategy<Value = Item> {
    let place =
        prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 1..4).prop_map(|names| names.join("/"));
    prop_oneof![
        3 => place.clone().prop_map(Item::Directory),
        1 => place.clone().prop_map(Item::File),
        3 => (place, text()).prop_map(|(place, text)| Item::Link(place, text)),
    ]
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    prop::collection::vec(item(), 1..16)
}

/// Makes the items that can be made where they belong; never through a link.
fn plant(root: &Path, items: &[Item]) {
    let root = host_dir(root);
    let parent_of = |place: &str| {
        let (parent, name) = place.rsplit_once('/').unwrap_or((".", place));
        let flags = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let parent = rustix::fs::openat2(&root, parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), flags);
        parent.ok().map(|parent| (parent, name.to_owned()))
    };
    for item in items {
        let place = match item {
            Item::Directory(place) | Item::File(place) | Item::Link(place, _) => place,
        };
        let Some((parent, name)) = parent_of(place) else { continue };
        // What is there already stays.
        let _ = match item {
            Item::Directory(_) => rustix::fs::mkdirat(&parent, name, Mode::RWXU),
            Item::File(_) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                rustix::fs::openat(&parent, name, flags, Mode::RWXU).map(drop)
            }
            Item::Link(_, text) => rustix::fs::symlinkat(text, &parent, name),
        };
    }
}

/// Every name of a tree with what it is, sorted.
fn picture(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let status = rustix::fs::lstat(&path).unwrap();
            let link = std::fs::read_link(&path).unwrap_or_default();
            let place = path.strip_prefix(root).unwrap();
            found.push(format!(
                "{place:?} {:o} {link:?} {}",
                status.st_mode,
                if link.as_os_str().is_empty() { 0 } else { 1 }
            ));
            if path.is_dir() && !path.is_symlink() {
                pending.push(path);
            }
        }
    }
    found.sort();
    found
}

fn open_flags() -> impl Strategy<Value = OFlags> {
    let access = prop::sample::select(vec![OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR]);
    let more = prop::collection::vec(
        prop::sample::select(vec![OFlags::NOFOLLOW, OFlags::DIRECTORY, OFlags::TRUNC, OFlags::APPEND]),
        0..2,
    );
    let create =
        prop::sample::select(vec![OFlags::empty(), OFlags::CREATE, OFlags::CREATE | OFlags::EXCL, OFlags::PATH]);
    (access, more, create).prop_map(|(access, more, create)| {
        if create == OFlags::PATH {
            // Without a mode of access, and with nothing that it does not know.
            return OFlags::PATH
                | more.into_iter().collect::<OFlags>().intersection(OFlags::NOFOLLOW | OFlags::DIRECTORY);
        }
        access | create | more.into_iter().collect::<OFlags>()
    })
}

/// A change to a tree.
#[derive(Clone, Debug)]
enum Change {
    Make(String),
    Remove(String, bool),
    Rename(String, String, u32),
    Link(String, String, bool),
    Symlink(String, String),
    Truncate(String),
    Mode(String, u32),
}

impl Change {
    fn paths(&self) -> Vec<&str> {
        match self {
            Self::Make(path) | Self::Remove(path, _) | Self::Truncate(path) | Self::Mode(path, _) => vec![path],
            Self::Symlink(_, path) => vec![path],
            Self::Rename(from, to, _) | Self::Link(from, to, _) => vec![from, to],
        }
    }

    fn make(&self, bench: &Bench) -> Result<(), Errno> {
        let files = &bench.files;
        match self {
            Self::Make(path) => files.make_directory(&at(path), 0o750),
            Self::Remove(path, directory) => files.remove(&at(path), *directory),
            Self::Rename(from, to, flags) => files.rename(&at(from), &at(to), *flags),
            Self::Link(from, to, follow) => files.link(&at(from), &at(to), *follow),
            Self::Symlink(text, path) => files.symbolic_link(text.as_bytes(), &at(path)),
            Self::Truncate(path) => files.truncate(&at(path), 3),
            Self::Mode(path, mode) => files.change_mode(&at(path), *mode),
        }
    }

    fn make_directly(&self, root: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Make(path) => rustix::fs::mkdirat(root, path, Mode::from_raw_mode(0o750)),
            Self::Remove(path, directory) => {
                rustix::fs::unlinkat(root, path, if *directory { AtFlags::REMOVEDIR } else { AtFlags::empty() })
            }
            Self::Rename(from, to, flags) => {
                rustix::fs::renameat_with(root, from, root, to, RenameFlags::from_bits_retain(*flags))
            }
            Self::Link(from, to, follow) => rustix::fs::linkat(
                root,
                from,
                root,
                to,
                if *follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() },
            ),
            Self::Symlink(text, path) => rustix::fs::symlinkat(text, root, path),
            // There is no truncate(2) in rustix; opening without making anything gives the same errors here.
            Self::Truncate(path) => rustix::fs::openat(root, path, OFlags::WRONLY, Mode::empty())
                .and_then(|file| rustix::fs::ftruncate(file, 3)),
            // Linux's own answer and its own bits, but for the two that no program may give.
            Self::Mode(path, mode) => {
                rustix::fs::chmodat(root, path, Mode::from_raw_mode(*mode & !0o6000), AtFlags::empty())
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        path().prop_map(Change::Make),
        (path(), any::<bool>()).prop_map(|(path, directory)| Change::Remove(path, directory)),
        (path(), path(), 0..4u32).prop_map(|(from, to, flags)| Change::Rename(from, to, flags)),
        (path(), path(), any::<bool>()).prop_map(|(from, to, follow)| Change::Link(from, to, follow)),
        (text(), path()).prop_map(|(text, path)| Change::Symlink(text, path)),
        path().prop_map(Change::Truncate),
        (path(), 0o700..0o777u32, 0..8u32).prop_map(|(path, mode, special)| Change::Mode(path, mode | special << 9)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn paths_lead_where_they_do_in_a_chroot(items in items(), paths in prop::collection::vec(path(), 1..40)) {
        let bench = Bench::unguarded();
        plant(&bench.host(""), &items);
        let root = host_dir(&bench.host(""));
        let base = bench.open("a", OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW).ok();
        for path in paths {
            for follow in [true, false] {
                let flags = OFlags::PATH | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
                let expected = in_root(&root, &path, flags).and_then(rustix::fs::fstat).map(|found| found.st_ino);
                let found = bench.files.stat(&at(&path), follow).map(|found| found.inode);
                prop_assert_eq!(found, expected, "{} {}", path, follow);
                // The walk alone, and the one call alone, which tells all but what has too many links.
                let start = bench.files.start(&at(&path)).unwrap();
                let walked = start.find_slowly(path.as_bytes(), follow).and_then(rustix::fs::fstat);
                prop_assert_eq!(walked.map(|found| found.st_ino), expected, "walk {} {}", path, follow);
                let at_once = start.at_once(path.as_bytes(), path.starts_with('/'), flags);
                let at_once = at_once.map(|found| found.and_then(rustix::fs::fstat).map(|found| found.st_ino));
                prop_assert_eq!(at_once, Some(expected).filter(|expected| *expected != Err(Errno::LOOP)));
                if let (Some(base), false) = (base, path.starts_with('/')) {
                    let path = format!("a/{path}");
                    let expected = in_root(&root, &path, flags).and_then(rustix::fs::fstat).map(|found| found.st_ino);
                    let found = bench.files.stat(&super::below(base, &path[2..]), follow).map(|found| found.inode);
                    prop_assert_eq!(found, expected, "below a: {}", path);
                }
            }
            let expected = in_root(&root, &path, OFlags::PATH | OFlags::DIRECTORY);
            match (bench.files.resolve(&at(&path)), expected) {
                (Ok(resolved), Ok(expected)) => {
                    // A path without links leads to the same directory.
                    let strict = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
                    let again = rustix::fs::openat2(&root, &*resolved, OFlags::PATH, Mode::empty(), strict).unwrap();
                    let inode = |file: OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
                    prop_assert_eq!(inode(again), inode(expected));
                }
                (found, expected) => prop_assert_eq!(found.err(), expected.err(), "resolve {}", path),
            }
        }
    }

    #[test]
    fn opens_do_what_they_do_in_a_chroot(
        items in items(),
        opens in prop::collection::vec((path(), open_flags()), 1..20),
        walks in any::<bool>(),
    ) {
        let bench = Bench::resolving(walks);
        plant(&bench.host(""), &items);
        let twin = bench.dir.path().join("twin");
        std::fs::create_dir(&twin).unwrap();
        plant(&twin, &items);
        let root = host_dir(&twin);
        for (path, flags) in opens {
            let found = bench.files.open(&at(&path), flags.bits(), 0o640);
            let expected = in_root(&root, &path, flags);
            prop_assert_eq!(found.err(), expected.err(), "{} {:?}", path, flags);
        }
        prop_assert_eq!(picture(&bench.host("")), picture(&twin));
    }

    #[test]
    fn changes_are_those_of_direct_calls(
        items in items(),
        changes in prop::collection::vec(change(), 1..20),
        walks in any::<bool>(),
    ) {
        let bench = Bench::resolving(walks);
        plant(&bench.host(""), &items);
        let twin = bench.dir.path().join("twin");
        std::fs::create_dir(&twin).unwrap();
        plant(&twin, &items);
        let root = host_dir(&twin);
        for change in changes {
            if change.paths().into_iter().any(|path| leaves(&root, path)) {
                continue;
            }
            prop_assert_eq!(change.make(&bench), change.make_directly(&root), "{:?}", change);
        }
        prop_assert_eq!(picture(&bench.host("")), picture(&twin));
    }
}

#[test]
fn long_names_and_loops() {
    let bench = Bench::new();
    let root = host_dir(&bench.host(""));
    bench.link("loop", "loop");
    bench.link("ping", "pong");
    bench.link("pong", "/ping");
    bench.link("l0", "/");
    for index in 1..=41 {
        bench.link(&format!("l{index}"), format!("/l{}", index - 1));
    }
    let long_name = "n".repeat(256);
    let long_path = "./".repeat(2048);
    let longest_path = "./".repeat(2047);
    for path in ["loop", "ping/x", "l39", "l40", "l41", "", &long_name, &long_path, &longest_path, "a\0b"] {
        let expected = in_root(&root, path, OFlags::PATH).map(drop);
        // A path with a zero inside never reaches the host's kernel.
        let expected = if path.contains('\0') { Err(Errno::NOENT) } else { expected };
        assert_eq!(bench.files.stat(&at(path), true).map(drop), expected, "{path}");
        if path.is_empty() || path.len() > 4090 {
            continue;
        }
        let made = bench.files.make_directory(&at(&format!("{path}/new")), 0o700);
        assert_eq!(made.is_ok(), expected.is_ok(), "{path} {made:?}");
        let _ = rustix::fs::unlinkat(CWD, bench.host("new"), AtFlags::REMOVEDIR);
    }
}
