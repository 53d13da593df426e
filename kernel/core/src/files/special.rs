//! What `/dev`, `/proc` and `/sys` hold: the few entries that programs really need, made by the kernel. The job's root
//! has none of them, whatever the host's directory has by those names. In `/etc`, which is the root's, the kernel makes
//! the files that say how nodes are called ([`super::hosts`]); a listing of `/etc` is the root's.
//!
//! The entries are one table of normalised paths. A path leads here if its first real component is `dev`, `proc` or
//! `sys`, or if it names a file in `/etc` that is here; links at the I/O node do not lead here, nor descriptors of its
//! directories.

mod entries;
mod listing;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::ship::{FileStatus, FileSystemStatus};
use coppice_protocol::text::ByteString;

use self::entries::ENTRIES;
use self::listing::Listing;
use super::device::Device;
use super::path::{absolute, components};
pub(crate) use super::proc_text::Text;
use crate::abi::status::device;
use crate::errno::Errno;
use crate::process::Process;

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
    /// Its place in the table; descriptors come behind it, and threads behind those.
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
    let digits = path.strip_prefix(b"/proc/self/fd/").or_else(|| path.strip_prefix(b"/dev/fd/"));
    match digits.and_then(number::<u16>) {
        Some(number) => {
            Ok(Node { index: ENTRIES.len() as u32 + u32::from(number), kind: Kind::Descriptor(number.into()) })
        }
        None => Err(Errno::ENOENT),
    }
}

/// The first place behind those of descriptors.
const THREADS_AT: u32 = 0x10_0000;

/// What there is of each thread.
const OF_THREAD: [&[u8]; 3] = [b"comm", b"stat", b"status"];

/// An entry of a thread's, if there is such a thread.
fn of_thread(id: u32, rest: &[&[u8]]) -> Result<Node, Errno> {
    let base = id.wrapping_mul(OF_THREAD.len() as u32 + 1).wrapping_add(THREADS_AT);
    let kind = match rest {
        [] => return Ok(Node { index: base, kind: Kind::Thread(id) }),
        [b"comm"] => Text::Name(Some(id)),
        [b"stat"] => Text::Stat(Some(id)),
        [b"status"] => Text::Status(Some(id)),
        _ => return Err(Errno::ENOENT),
    };
    let place = OF_THREAD.iter().position(|name| *name == rest[0]).unwrap_or(0) as u32;
    Ok(Node { index: base.wrapping_add(1 + place), kind: Kind::Text(kind) })
}

const MODE_DIRECTORY: u32 = 0o040_555;
const MODE_SHARED: u32 = 0o041_777;
const MODE_DEVICE: u32 = 0o020_666;
const MODE_TEXT: u32 = 0o100_444;
/// What may be written by the process itself.
const MODE_NAME: u32 = 0o100_644;
const MODE_PROGRAM: u32 = 0o100_755;
const MODE_LINK: u32 = 0o120_777;
pub(super) const MODE_PIPE: u32 = 0o010_600;

/// Device numbers of what is on no disk, as Linux gives them to its own.
const PIPES: u64 = device(0, 13);
const SPECIAL: u64 = device(0, 5);

impl Node {
    /// Its path. Of descriptors by number, that of their directory; of what a thread has, that of the thread.
    pub(crate) fn path(self) -> String {
        if let Some(id) = self.thread() {
            return format!("/proc/self/task/{id}");
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

    /// What it links to, if it is a link.
    pub(crate) fn target(self, process: &Process) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Program => Some(process.identity.executable.to_vec()),
            Kind::Descriptors if self.path().starts_with("/dev") => Some(b"/proc/self/fd".to_vec()),
            Kind::Descriptor(number) if self.path().starts_with("/dev") => {
                Some(format!("/proc/self/fd/{number}").into_bytes())
            }
            Kind::Directory if self.path() == "/proc/self" => Some(format!("{}", process.identity.pid).into_bytes()),
            _ => None,
        }
    }

    /// What it is, links followed. Of descriptors, the link itself.
    pub(crate) fn status(self, process: &Process) -> FileStatus {
        let (mode, size) = match self.kind {
            Kind::Directory | Kind::Descriptors | Kind::Threads | Kind::Thread(_) => (MODE_DIRECTORY, 0),
            Kind::Text(Text::Name(_)) => (MODE_NAME, 0),
            Kind::Shared => (MODE_SHARED, 0),
            Kind::Device(device) => return Self::device_status(device),
            Kind::Terminal => {
                return FileStatus { special_device: device(5, 0), ..self.plain(MODE_DEVICE, 0) };
            }
            // As on Linux, texts in `/proc` do not say how long they are; files in `/etc` do.
            Kind::Text(text) if self.path().starts_with("/etc") => (MODE_TEXT, text.length(process)),
            Kind::Text(_) => (MODE_TEXT, 0),
            Kind::Program => (MODE_PROGRAM, process.identity.program_bytes),
            Kind::Descriptor(_) => (MODE_LINK, 0),
        };
        self.plain(mode, size)
    }

    /// What it is, a link not followed.
    pub(crate) fn link_status(self, process: &Process) -> FileStatus {
        match self.target(process) {
            // Everything else about `/proc/self` is a directory's.
            Some(_) if self.kind != Kind::Directory => self.plain(MODE_LINK, 0),
            _ => self.status(process),
        }
    }

    fn plain(self, mode: u32, size: u64) -> FileStatus {
        FileStatus {
            device: SPECIAL,
            inode: u64::from(self.index) + 1,
            mode,
            links: if self.is_directory() { 2 } else { 1 },
            size,
            block_size: 4096,
            blocks: size.div_ceil(512),
            ..FileStatus::default()
        }
    }

    /// What a device is, by whatever path.
    pub(crate) fn device_status(of: Device) -> FileStatus {
        let node = Self { index: 1000 + of.minor(), kind: Kind::Device(of) };
        FileStatus { special_device: device(Device::MAJOR, of.minor()), ..node.plain(MODE_DEVICE, 0) }
    }

    /// What standard stream `number` is: a pipe, as the host's own programs find them behind one.
    pub(crate) fn stream_status(number: u64, process: &Process) -> FileStatus {
        Self::object_status(MODE_PIPE, 1 + number, process)
    }

    /// What something is that programs make and that has no name.
    pub(crate) fn object_status(mode: u32, inode: u64, process: &Process) -> FileStatus {
        FileStatus {
            device: PIPES,
            inode,
            mode,
            links: 1,
            user: process.identity.user,
            group: process.identity.group,
            block_size: 4096,
            ..FileStatus::default()
        }
    }

    /// The names in a directory from `position` on, as getdents64(2) gives them, at most `limit` bytes, and the
    /// position behind them.
    ///
    /// # Errors
    /// `EINVAL`: there is no room for the first one. `ENOMEM`.
    pub(crate) fn list(self, process: &Process, position: u64, limit: usize) -> Result<(Vec<u8>, u64), Errno> {
        let mut listing = Listing::new(position, limit)?;
        for name in [".", ".."] {
            listing.add(name, DIRECTORY_TYPE, u64::from(self.index) + 1);
        }
        match self.kind {
            Kind::Descriptors => {
                let files = process.files.lock();
                files.numbers().for_each(|number| listing.add(format!("{number}"), LINK_TYPE, number as u64 + 1));
            }
            Kind::Shared => process.job.shared.list(|name, inode| listing.add(name, REGULAR_TYPE, inode)),
            Kind::Threads => {
                for thread in process.threads.all() {
                    if let Ok(node) = of_thread(thread.tid, &[]) {
                        listing.add(format!("{}", thread.tid), DIRECTORY_TYPE, u64::from(node.index) + 1);
                    }
                }
            }
            Kind::Thread(id) => {
                for name in OF_THREAD {
                    if let Ok(node) = of_thread(id, &[name]) {
                        listing.add(name, REGULAR_TYPE, u64::from(node.index) + 1);
                    }
                }
            }
            _ => {
                let path = self.path();
                for (index, (child, kind)) in ENTRIES.iter().enumerate() {
                    let name = child.strip_prefix(path.as_str()).and_then(|name| name.strip_prefix('/'));
                    if let Some(name) = name.filter(|name| is_one_name(name)) {
                        let node = Self { index: index as u32, kind: *kind };
                        listing.add(name, (node.link_status(process).mode >> 12) as u8, u64::from(node.index) + 1);
                    }
                }
            }
        }
        listing.finish()
    }

    /// What the file system it is on is.
    pub(crate) fn file_system(self, process: &Process) -> FileSystemStatus {
        if self.kind == Kind::Shared {
            return process.job.shared.file_system();
        }
        const PROC_MAGIC: u64 = 0x9fa0;
        const SYSFS_MAGIC: u64 = 0x6265_6572;
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        let kind = match self.path() {
            path if path.starts_with("/proc") => PROC_MAGIC,
            path if path.starts_with("/sys") => SYSFS_MAGIC,
            _ => TMPFS_MAGIC,
        };
        FileSystemStatus { kind, block_size: 4096, fragment_size: 4096, name_bytes_max: 255, ..Default::default() }
    }
}

/// `DT_DIR`, `DT_REG` and `DT_LNK`.
const DIRECTORY_TYPE: u8 = 4;
const REGULAR_TYPE: u8 = 8;
const LINK_TYPE: u8 = 10;

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
        assert_eq!(kind("/", "/sys/devices/system/cpu/online"), Ok(Kind::Text(Text::Cores)));
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
