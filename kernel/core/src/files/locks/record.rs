//! The locks of a process as data.

use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{FileLock, LockOwner, LockedFile, Locks, RangeLock};
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
    first: u64,
    last: u64,
    exclusive: bool,
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
        let range = |lock: &RangeLock| {
            let file = catalogue.number_where(|file| LockedFile::of(file) == lock.file)?;
            let owner = owner(lock.owner)?;
            Some(RangeRecord { file, owner, first: lock.first, last: lock.last, exclusive: lock.exclusive })
        };
        let file = |lock: &FileLock| {
            let LockOwner::File(address) = lock.owner else { return None };
            Some(FileLockRecord { owner: catalogue.number_at(address)?, exclusive: lock.exclusive })
        };
        LocksRecord {
            ranges: state.ranges.iter().filter_map(range).collect(),
            files: state.files.iter().filter_map(file).collect(),
        }
    }

    /// Makes them again, of these files by their numbers.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(crate) fn make(&self, record: LocksRecord, files: &[Arc<OpenFile>]) -> Result<(), NotMade> {
        let file = |number: Number| files.get(number as usize).ok_or(BadFiles);
        for RangeRecord { file: of, owner, first, last, exclusive } in record.ranges {
            let owner = match owner {
                None => LockOwner::Process,
                Some(owner) => LockOwner::file(file(owner)?),
            };
            self.lock(RangeLock { file: LockedFile::of(file(of)?), owner, first, last, exclusive })?;
        }
        for FileLockRecord { owner, exclusive } in record.files {
            self.lock_file(file(owner)?, exclusive)?;
            self.any.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
