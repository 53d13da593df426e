//! Files in a job's root, found as its ranks find them: no link leads out of it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io;

/// Longest text that is read, bytes.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Nobody waits for the other end of a pipe.
const TO_READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A regular file of this host, to be read, if it is there.
pub(super) fn open_file(path: &Path) -> Option<File> {
    regular(openat(CWD, path, TO_READ, Mode::empty()))
}

fn regular(opened: io::Result<OwnedFd>) -> Option<File> {
    let file = File::from(opened.ok()?);
    file.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(file)
}

/// See this module.
pub(super) struct Root(OwnedFd);

impl Root {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map(Self)
    }

    /// A regular file, to be read, if it is there.
    pub(super) fn open_file(&self, path: &Path) -> Option<File> {
        regular(openat2(&self.0, path, TO_READ, Mode::empty(), ResolveFlags::IN_ROOT))
    }

    /// What is in a file that is not long.
    pub(super) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(path)?.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}
