//! What the entries of [`crate::files::special`] are to a process that looks at them: links, texts, listings.

mod excerpt;
pub(crate) mod hosts;
mod limits;
mod listing;
mod own_texts;
mod program;
mod texts;

use alloc::format;
use alloc::vec::Vec;

use coppice_protocol::ship::{FileStatus, FileSystemStatus};

use self::listing::Listing;
pub(super) use self::program::read_program;
use crate::abi::status::device;
use crate::errno::Errno;
use crate::files::Device;
use crate::files::special::{Kind, Node, Text};
use crate::process::Process;

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

/// `DT_DIR`, `DT_REG` and `DT_LNK`.
const DIRECTORY_TYPE: u8 = 4;
const REGULAR_TYPE: u8 = 8;
const LINK_TYPE: u8 = 10;

impl Node {
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
            Kind::Text(Text::Name(_)) | Kind::Checkpoint | Kind::Counters => (MODE_NAME, 0),
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
            inode: self.inode(),
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
        FileStatus { special_device: device(Device::MAJOR, of.minor()), ..Self::of_device(of).plain(MODE_DEVICE, 0) }
    }

    /// What standard stream `number` is: a pipe, as the host's own programs find them behind one.
    pub(crate) fn standard_status(number: u64, process: &Process) -> FileStatus {
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
            listing.add(name, DIRECTORY_TYPE, self.inode());
        }
        match self.kind {
            Kind::Descriptors => {
                let files = process.files.lock();
                files.numbers().for_each(|number| listing.add(format!("{number}"), LINK_TYPE, number as u64 + 1));
            }
            Kind::Shared => process.job.shared.list(|name, inode| listing.add(name, REGULAR_TYPE, inode)),
            Kind::Threads => {
                for thread in process.threads.all() {
                    listing.add(format!("{}", thread.tid), DIRECTORY_TYPE, Self::of_thread(thread.tid).inode());
                }
            }
            _ => self.children(|name, node| {
                listing.add(name, (node.link_status(process).mode >> 12) as u8, node.inode());
            }),
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
