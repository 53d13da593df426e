//! The open files of one rank at the I/O node.

use std::collections::HashMap;
use std::sync::Arc;

use cap_std::fs::Dir;
use coppice_protocol::limits::HANDLES_PER_RANK_MAX;
use coppice_protocol::ship::{FileStatus, Handle};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::Result;
use super::data::Source;

/// Directories longer than this, bytes, are listed off the event loop.
const DIRECTORY_BYTES_LARGE: u64 = 256 * 1024;

/// What a handle stands for.
#[derive(Debug)]
pub(super) enum Object {
    /// A regular file, or anything that was opened with `O_PATH`.
    File(OwnedFd),
    /// A directory, also one opened with `O_PATH`: relative paths can start at it.
    Directory(Arc<Dir>),
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Directory(dir) => dir.as_fd(),
        }
    }
}

impl AsRawFd for Object {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// An open file. The node keeps its offset.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(super) object: Arc<Object>,
    /// Writes wait for the disk (`O_SYNC`, `O_DSYNC`): not on the event loop.
    pub(super) synchronous: bool,
    /// A directory so long that listing it would hold the event loop up.
    pub(super) large_directory: bool,
    /// The same, to be read from.
    pub(super) source: Source,
    /// The job's root itself, whose `..` is itself.
    pub(super) root_inode: Option<u64>,
}

impl OpenFile {
    pub(super) fn new(descriptor: OwnedFd, status: &FileStatus, flags: OFlags) -> Self {
        let directory = FileType::from_raw_mode(status.mode) == FileType::Directory;
        let object = if directory {
            Object::Directory(Arc::new(Dir::from_std_file(descriptor.into())))
        } else {
            Object::File(descriptor)
        };
        let object = Arc::new(object);
        Self {
            source: Source::new(Arc::clone(&object)),
            object,
            synchronous: flags.intersects(OFlags::SYNC | OFlags::DSYNC),
            large_directory: directory && status.size > DIRECTORY_BYTES_LARGE,
            root_inode: None,
        }
    }
}

/// A rank's handles. Numbers are never used again in the rank's life.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: HashMap<Handle, OpenFile>,
    next: u32,
}

impl Handles {
    /// Refuses (`EMFILE`) when there is no room for one more, before anything is opened or made.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.open.len() >= HANDLES_PER_RANK_MAX || self.next == u32::MAX { Err(Errno::MFILE) } else { Ok(()) }
    }

    pub(super) fn insert(&mut self, file: OpenFile) -> Result<Handle> {
        self.check_room()?;
        let handle = Handle(self.next);
        self.next += 1;
        self.open.insert(handle, file);
        Ok(handle)
    }

    pub(super) fn get(&self, handle: Handle) -> Result<&OpenFile> {
        self.open.get(&handle).ok_or(Errno::BADF)
    }

    /// The directory a relative path starts at.
    pub(super) fn directory(&self, handle: Handle) -> Result<Arc<Dir>> {
        match &*self.get(handle)?.object {
            Object::Directory(dir) => Ok(Arc::clone(dir)),
            Object::File(_) => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn remove(&mut self, handle: Handle) -> Result<()> {
        // Closing can report what an earlier write could not: not on Linux's local file systems, and fsync is there.
        self.open.remove(&handle).map(drop).ok_or(Errno::BADF)
    }
}
