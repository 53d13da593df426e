//! The open files of one rank at the I/O node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;
use coppice_protocol::limits::HANDLES_PER_RANK_MAX;
use coppice_protocol::ship::{FileStatus, Handle};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::Result;
use super::data::Source;
use crate::descriptors::{Descriptor, JobDescriptors};

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
    /// Writes wait for the disk (`O_SYNC`, `O_DSYNC`), whatever file system it is.
    pub(super) synchronous: bool,
    /// The same, to be read from.
    pub(super) source: Source,
    /// The job's root itself, whose `..` is itself.
    pub(super) root_inode: Option<u64>,
    /// What it counts as until it is closed.
    _descriptor: Descriptor,
}

impl OpenFile {
    pub(super) fn new(descriptor: OwnedFd, status: &FileStatus, flags: OFlags, descriptor_taken: Descriptor) -> Self {
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
            root_inode: None,
            _descriptor: descriptor_taken,
        }
    }
}

/// A rank's handles. Numbers are never used again in the rank's life.
#[derive(Debug)]
pub(crate) struct Handles {
    /// Held for a look alone, never while anything is done with a file.
    table: Mutex<Table>,
    job: Arc<JobDescriptors>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<Handle, Arc<OpenFile>>,
    next: u32,
}

impl Handles {
    /// None yet.
    pub(super) fn new(job: Arc<JobDescriptors>) -> Self {
        Self { table: Mutex::default(), job }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.table().open.is_empty()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one more, before anything is opened or made.
    ///
    /// # Errors
    /// `EMFILE` if the rank has [`HANDLES_PER_RANK_MAX`], `ENFILE` if the job has its share.
    pub(super) fn room(&self) -> Result<Descriptor> {
        let held = {
            let table = self.table();
            if table.open.len() >= HANDLES_PER_RANK_MAX || table.next == u32::MAX {
                return Err(Errno::MFILE);
            }
            table.open.len()
        };
        self.job.take(held)
    }

    pub(super) fn insert(&self, file: OpenFile) -> Result<Handle> {
        let mut table = self.table();
        let handle = Handle(table.next);
        table.next = table.next.checked_add(1).ok_or(Errno::MFILE)?;
        table.open.insert(handle, Arc::new(file));
        Ok(handle)
    }

    pub(super) fn get(&self, handle: Handle) -> Result<Arc<OpenFile>> {
        self.table().open.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// The directory a relative path starts at.
    pub(super) fn directory(&self, handle: Handle) -> Result<Arc<Dir>> {
        match &*self.get(handle)?.object {
            Object::Directory(dir) => Ok(Arc::clone(dir)),
            Object::File(_) => Err(Errno::NOTDIR),
        }
    }

    pub(super) fn remove(&self, handle: Handle) -> Result<()> {
        // Closing can report what an earlier write could not: not on Linux's local file systems, and fsync is there.
        let removed = self.table().open.remove(&handle);
        removed.map(drop).ok_or(Errno::BADF)
    }
}
