//! What `/dev`, `/proc` and `/sys` hold: the few entries that programs really need, made by the kernel. The job's root
//! has none of them, whatever the host's directory has by those names. In `/etc`, which is the root's, the kernel makes
//! the files that say how nodes are called; a listing of `/etc` is the root's.
//!
//! The entries are one table of normalised paths. A path leads here if its first real component is `dev`, `proc` or
//! `sys`, or if it names a file in `/etc` that is here; links at the I/O node do not lead here, nor descriptors of its
//! directories. What they say and are, which depends on who looks, is with processes ([`crate::process::special`]).

mod cores;
mod entries;
mod record;
mod text;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::text::ByteString;

use self::entries::ENTRIES;
pub(crate) use self::record::NodeRecord;
pub(crate) use self::text::Text;
use super::device::Device;
use super::path::{absolute, components};
use crate::errno::Errno;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory of other entries.
    Directory,
    /// A device.
    Device(Device),
    /// The controlling terminal, which no process has.
    Terminal,
    /// A text made when it is read.
    Text(Text),
    /// Where programs ask for checkpoints ([`super::asks`]).
    Checkpoint,
    /// Where programs offer counters to the overlay ([`super::counters`]).
    Counters,
    /// The program's own file.
    Program,
    /// The directory of memory that ranks share.
    Shared,
    /// The directory of open descriptors.
    Descriptors,
    /// An open descriptor.
    Descriptor(i32),
    /// The directory of the process's threads.
    Threads,
    /// The directory of one of them, by its id.
    Thread(u32),
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its place in the table; descriptors come behind it, then what cores have, then threads.
    index: u32,
    pub(crate) kind: Kind,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To the I/O node, by this path from the job's root.
    Shipped(ByteString),
    /// To an entry of the table.
    Special(Node),
    /// To a file of that name in `/dev/shm`, whether it is there or not.
    Shared(ByteString),
}

/// Where `path`, seen from the absolute directory `base`, leads; `pid` is whose `/proc/self` is also there by number.
///
/// # Errors
/// `ENOENT` if it is empty or there is no such entry, `ENAMETOOLONG`.
pub(crate) fn locate(base: &[u8], path: &[u8], pid: u32) -> Result<Place, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    if path.len() >= PATH_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    let full = absolute(base, path);
    let mut names: Vec<&[u8]> = Vec::new();
    let mut been_special = false;
    let mut rest = &full[..];
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'/');
        let (name, after) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 1..]));
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            _ if !names.is_empty() => names.push(name),
            b"dev" | b"proc" | b"sys" => {
                been_special = true;
                names.push(name);
            }
            _ if been_special => return Ok(shipped([b"/", rest].concat())),
            _ => return Ok(shipped(full)),
        }
        rest = after;
    }
    if names.is_empty() {
        // How the path ends counts for what can be done with it.
        let last = components(&full).rfind(|name| !name.is_empty());
        let end = last.filter(|name| matches!(*name, b"." | b"..")).unwrap_or_default();
        return Ok(Place::Shipped([b"/", end].concat().into()));
    }
    if names.first() == Some(&&b"proc"[..])
        && let Some(second) = names.get_mut(1)
        && (*second == b"thread-self" || number(second) == Some(pid))
    {
        *second = b"self";
    }
    // It has no directories, so nothing is behind a name.
    if let [b"dev", b"shm", name] = names[..] {
        return Ok(Place::Shared(name.into()));
    }
    find(&names).map(Place::Special)
}

/// Where a path leads that does not begin with the kernel's own directories.
fn shipped(path: Vec<u8>) -> Place {
    let own = {
        let mut names = components(&path).filter(|name| !matches!(*name, b"" | b"."));
        match (names.next(), names.next(), names.next()) {
            (Some(b"etc"), Some(name), None) => find(&[b"etc", name]).ok(),
            _ => None,
        }
    };
    own.map_or_else(|| Place::Shipped(path.into()), Place::Special)
}

/// A number as digits say it.
fn number<T: core::str::FromStr>(digits: &[u8]) -> Option<T> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn find(names: &[&[u8]]) -> Result<Node, Errno> {
    let mut path = Vec::with_capacity(names.iter().map(|name| 1 + name.len()).sum());
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if let Ok(index) = ENTRIES.binary_search_by_key(&&path[..], |(path, _)| path.as_bytes()) {
        return Ok(Node { index: index as u32, kind: ENTRIES[index].1 });
    }
    if let [b"proc", b"self", b"task", id, rest @ ..] = names {
        let id = number(id).ok_or(Errno::ENOENT)?;
        return of_thread(id, rest);
    }
    if let [b"sys", b"devices", b"system", b"cpu", name, ..] = names {
        return cores::find(name, &path[cores::DIRECTORY.len() + 1 + name.len()..]);
    }
    let digits = path.strip_prefix(b"/proc/self/fd/").or_else(|| path.strip_prefix(b"/dev/fd/"));
    match digits.and_then(number::<u16>) {
        Some(number) => {
            Ok(Node { index: ENTRIES.len() as u32 + u32::from(number), kind: Kind::Descriptor(number.into()) })
        }
        None => Err(Errno::ENOENT),
    }
}

/// The first place behind those of cores.
const THREADS_AT: u32 = 0x10_0000;

/// What there is of each thread.
const OF_THREAD: [&str; 3] = ["comm", "stat", "status"];

/// An entry of a thread's, if there is such a thread.
fn of_thread(id: u32, rest: &[&[u8]]) -> Result<Node, Errno> {
    let directory = Node::of_thread(id);
    let kind = match rest {
        [] => return Ok(directory),
        [b"comm"] => Text::Name(Some(id)),
        [b"stat"] => Text::Stat(Some(id)),
        [b"status"] => Text::Status(Some(id)),
        _ => return Err(Errno::ENOENT),
    };
    let place = OF_THREAD.iter().position(|name| name.as_bytes() == rest[0]).unwrap_or(0) as u32;
    Ok(Node { index: directory.index.wrapping_add(1 + place), kind: Kind::Text(kind) })
}

impl Node {
    /// The directory of a thread.
    pub(crate) const fn of_thread(id: u32) -> Self {
        let index = id.wrapping_mul(OF_THREAD.len() as u32 + 1).wrapping_add(THREADS_AT);
        Self { index, kind: Kind::Thread(id) }
    }

    /// A device, by whatever path.
    pub(crate) fn of_device(device: Device) -> Self {
        Self { index: 1000 + device.minor(), kind: Kind::Device(device) }
    }

    /// The program's own file.
    pub(crate) fn of_program() -> Self {
        let index = ENTRIES.iter().position(|(_, kind)| *kind == Kind::Program).unwrap_or_default();
        Self { index: index as u32, kind: Kind::Program }
    }

    /// A number that tells it from others.
    pub(crate) const fn inode(self) -> u64 {
        self.index as u64 + 1
    }

    /// Calls `each` with the names and the entries in it that are always there, in order.
    pub(crate) fn children(self, mut each: impl FnMut(&str, Self)) {
        if let Kind::Thread(id) = self.kind {
            for name in OF_THREAD {
                if let Ok(node) = of_thread(id, &[name.as_bytes()]) {
                    each(name, node);
                }
            }
            return;
        }
        if let Some(of) = self.core() {
            return cores::children(of, each);
        }
        let path = self.path();
        for (index, (child, kind)) in ENTRIES.iter().enumerate() {
            let name = child.strip_prefix(path.as_str()).and_then(|name| name.strip_prefix('/'));
            if let Some(name) = name.filter(|name| is_one_name(name)) {
                each(name, Self { index: index as u32, kind: *kind });
            }
        }
        if path == cores::DIRECTORY {
            cores::directories(each);
        }
    }

    /// Its path. Of descriptors by number, that of their directory; of what a thread has, that of the thread.
    pub(crate) fn path(self) -> String {
        if let Some(id) = self.thread() {
            return format!("/proc/self/task/{id}");
        }
        if let Some(of) = self.core() {
            return cores::path(of);
        }
        let entry = ENTRIES.get(self.index as usize);
        entry.map_or("/proc/self/fd", |(path, _)| path).to_owned()
    }

    /// The thread it is about, if it is about one.
    pub(crate) const fn thread(self) -> Option<u32> {
        match self.kind {
            Kind::Thread(id) => Some(id),
            Kind::Text(Text::Name(id) | Text::Stat(id) | Text::Status(id)) => id,
            _ => None,
        }
    }

    /// Whether it is a directory.
    pub(crate) const fn is_directory(self) -> bool {
        matches!(self.kind, Kind::Directory | Kind::Shared | Kind::Descriptors | Kind::Threads | Kind::Thread(_))
    }
}

fn is_one_name(path: &str) -> bool {
    !path.is_empty() && !path.contains('/')
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Device, ENTRIES, Kind, Place, Text, locate};
    use crate::errno::Errno;

    fn kind(base: &str, path: &str) -> Result<Kind, String> {
        match locate(base.as_bytes(), path.as_bytes(), 1000) {
            Ok(Place::Special(node)) => Ok(node.kind),
            Ok(Place::Shipped(path)) => Err(path.to_string()),
            Ok(Place::Shared(name)) => Err(format!("shared {name}")),
            Err(errno) => Err(format!("{errno:?}")),
        }
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(ENTRIES.is_sorted_by_key(|(path, _)| *path));
    }

    #[test]
    fn every_way_to_an_entry_leads_there() {
        let null = Ok(Kind::Device(Device::Null));
        for (base, path) in [
            ("/", "/dev/null"),
            ("/", "dev//null"),
            ("/a", "//dev/./null"),
            ("/dev", "null"),
            ("/proc/self", "../../dev/null"),
            ("/", "../dev/x/../null"),
        ] {
            assert_eq!(kind(base, path), null, "{base} {path}");
        }
        assert_eq!(kind("/", "/proc/self/exe"), Ok(Kind::Program));
        assert_eq!(kind("/", "/proc/1000/exe"), Ok(Kind::Program));
        assert_eq!(kind("/", "/proc/1001/exe"), Err("ENOENT".into()));
        assert_eq!(kind("/", "/proc/self/fd/12"), Ok(Kind::Descriptor(12)));
        assert_eq!(kind("/", "/dev/fd/-1"), Err("ENOENT".into()));
        assert_eq!(kind("/", "/dev/sda"), Err("ENOENT".into()));
        assert_eq!(kind("/", "/sys/devices/system/cpu/online"), Ok(Kind::Text(Text::Cores(None))));
        assert_eq!(kind("/", "/sys/fs/cgroup/cpu.max"), Err("ENOENT".into()));
        assert_eq!(kind("/", "/dev/shm/"), Ok(Kind::Shared));
        assert_eq!(kind("/dev/shm", "./a"), Err("shared a".into()));
        assert_eq!(kind("/", "/dev/shm/a/../b"), Err("shared b".into()));
        assert_eq!(kind("/", "/dev/shm/a/b"), Err("ENOENT".into()));
    }

    #[test]
    fn everything_else_is_the_io_nodes() {
        assert_eq!(kind("/", "/a/../b/"), Err("/a/../b/".into()));
        assert_eq!(kind("/w", "x"), Err("/w/x".into()));
        assert_eq!(kind("/", "/dev/../a"), Err("/a".into()));
        assert_eq!(kind("/dev", ".."), Err("/..".into()), "how it ends counts for what removes and renames");
        assert_eq!(kind("/dev", "../."), Err("/.".into()));
        assert_eq!(kind("/", "//"), Err("/".into()));
        assert_eq!(kind("/", "/devices"), Err("/devices".into()));
        assert_eq!(kind("/", "/etc/passwd"), Err("/etc/passwd".into()));
        assert_eq!(kind("/", "/etc"), Err("/etc".into()));
        assert_eq!(kind("/", "/etc/hosts/x"), Err("/etc/hosts/x".into()));
        assert_eq!(kind("/", "/a/../etc/hosts"), Err("/a/../etc/hosts".into()), "`a` may be a link");
        for path in ["/etc/hosts", "//etc/./hosts", "/dev/../etc/hosts"] {
            assert_eq!(kind("/", path), Ok(Kind::Text(Text::Hosts)), "{path}");
        }
        assert_eq!(kind("/etc", "hostname"), Ok(Kind::Text(Text::HostName)));
        assert_eq!(locate(b"/", b"", 1), Err(Errno::ENOENT));
        assert_eq!(locate(b"/", &[b'a'; 5000], 1), Err(Errno::ENAMETOOLONG));
    }

    #[test]
    fn names_are_bytes() {
        let shipped = |path: &[u8]| Ok(Place::Shipped(path.into()));
        assert_eq!(locate(b"/\xff", b"\xc3", 1), shipped(b"/\xff/\xc3"));
        assert_eq!(locate(b"/dev", b"../\xff/./x", 1), shipped(b"/\xff/./x"));
        assert_eq!(locate(b"/", b"etc/\xff", 1), shipped(b"/etc/\xff"));
        assert_eq!(locate(b"/", b"/dev/shm/\xff", 1), Ok(Place::Shared(b"\xff"[..].into())));
        for none in [&b"/dev/\xff"[..], b"/proc/\xff", b"/proc/self/fd/\xff", b"/proc/self/task/\xff"] {
            assert_eq!(locate(b"/", none, 1), Err(Errno::ENOENT));
        }
    }

    proptest! {
        #[test]
        fn no_path_panics_and_shipped_ones_are_absolute(base in "/[a-z./]{0,20}", path in any::<Vec<u8>>()) {
            if let Ok(Place::Shipped(path)) = locate(base.as_bytes(), &path, 1) {
                prop_assert!(path.starts_with(b"/"));
            }
        }
    }
}
