//! The locks of a process as data.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::lock::Span;
use serde::{Deserialize, Serialize};

use super::{FileLock, LockOwner, LockedFile, Locks, RangeLock, Ranges};
use crate::files::open_file::OpenFile;
use crate::files::record::{BadFiles, Catalogue, NotMade, Number};
use crate::sync::atomic::Ordering;

/// See this module. What is locked, and who has it, is said by the number of an open file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LocksRecord {
    ranges: Vec<RangeRecord>,
    files: Vec<FileLockRecord>,
}

/// A lock of a range.
#[derive(Debug, Serialize, Deserialize)]
struct RangeRecord {
    /// One of those that are open as what is locked.
    file: Number,
    /// `None`: the process.
    owner: Option<Number>,
    span: Span,
}

/// A lock of a whole file.
#[derive(Debug, Serialize, Deserialize)]
struct FileLockRecord {
    owner: Number,
    exclusive: bool,
}

impl Locks {
    /// Writes them down. The files they are of are open, or they would be gone.
    pub(crate) fn record(&self, catalogue: &Catalogue) -> LocksRecord {
        let state = self.state.lock();
        let owner = |owner| match owner {
            LockOwner::Process => Some(None),
            LockOwner::File(address) => catalogue.number_at(address).map(Some),
        };
        let ranges = |lock: &Ranges| {
            // What is locked at the I/O node is locked by that open file.
            let is_it = |file: &OpenFile| match lock.handle {
                Some(handle) => file.as_shipped().is_some_and(|shipped| shipped.handle == handle),
                None => LockedFile::of(file) == lock.file,
            };
            let (file, owner) = (catalogue.number_where(is_it)?, owner(lock.owner)?);
            let range = move |span: &Span| RangeRecord { file, owner, span: *span };
            Some(lock.spans.all().iter().map(range).collect::<Vec<_>>())
        };
        let file = |lock: &FileLock| {
            let LockOwner::File(address) = lock.owner else { return None };
            Some(FileLockRecord { owner: catalogue.number_at(address)?, exclusive: lock.exclusive })
        };
        LocksRecord {
            ranges: state.ranges.iter().filter_map(ranges).flatten().collect(),
            files: state.files.iter().filter_map(file).collect(),
        }
    }

    /// Makes them again, of these files by their numbers.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(crate) fn make(&self, record: LocksRecord, files: &[Arc<OpenFile>]) -> Result<(), NotMade> {
        let file = |number: Number| files.get(number as usize).ok_or(BadFiles);
        for RangeRecord { file: of, owner, span } in record.ranges {
            let owner = match owner {
                None => LockOwner::Process,
                Some(owner) => LockOwner::file(file(owner)?),
            };
            let of = file(of)?;
            let lock = RangeLock::of(of, owner, span);
            match of.as_shipped() {
                Some(shipped) => self.has_locked(&lock, shipped.handle)?,
                None => self.lock(&lock)?,
            }
            self.any.store(true, Ordering::Relaxed);
        }
        for FileLockRecord { owner, exclusive } in record.files {
            let owner = file(owner)?;
            match owner.as_shipped() {
                Some(_) => self.has_locked_file(owner, Some(exclusive))?,
                None => self.lock_file(owner, exclusive)?,
            }
            self.any.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
