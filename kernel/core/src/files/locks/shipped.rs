//! Locks of files at the I/O node, which are had there. What is known here is changed in turn, when it was done there.

use alloc::vec::Vec;

use coppice_protocol::lock::{Asked, Span, Whose};
use coppice_protocol::ship::{Call, Handle, Reply};

use super::{FileLock, LockOwner, LockedFile, Locks, RangeLock};
use crate::errno::Errno;
use crate::files::open_file::OpenFile;
use crate::files::turns::Turn;
use crate::ship::Client;
use crate::sync::atomic::Ordering;

impl Locks {
    /// Waits until nobody else changes a lock at the I/O node.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        self.any.store(true, Ordering::Relaxed);
        self.turns.take().await
    }

    /// In one's turn: a range is locked at the I/O node, by this handle of it.
    ///
    /// # Errors
    /// `ENOLCK`: there are too many.
    pub(crate) fn has_locked(&self, lock: &RangeLock, handle: Handle) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let done = state.lock(lock, Some(handle));
        state.settle();
        done
    }

    /// In one's turn: an open file was locked as a whole at the I/O node, or (`None`) has lost what it had.
    ///
    /// # Errors
    /// `ENOLCK`: there are too many.
    pub(crate) fn has_locked_file(&self, file: &OpenFile, exclusive: Option<bool>) -> Result<(), Errno> {
        let owner = LockOwner::file(file);
        let mut state = self.state.lock();
        state.files.retain(|lock| lock.owner != owner);
        let done = match (exclusive, file.as_shipped()) {
            (Some(exclusive), Some(shipped)) => state.make_room(1).map(|()| {
                let (file, handle) = (LockedFile::of(file), Some(shipped.handle));
                state.files.push(FileLock { file, owner, handle, exclusive });
            }),
            _ => Ok(()),
        };
        state.settle();
        done
    }

    /// What was asked may have been done at the I/O node, or not.
    pub(crate) fn is_unsure_of(&self, failed: Errno) {
        if failed == Errno::EIO {
            self.is_unsure.store(true, Ordering::Relaxed);
        }
    }

    /// What is to be unlocked at the I/O node when a descriptor of this file is closed. `is_last`: it is open by none
    /// else.
    pub(crate) fn to_unlock(&self, file: &OpenFile, is_last: bool) -> Vec<Asked> {
        let Some(shipped) = file.as_shipped().filter(|_| self.any.load(Ordering::Relaxed)) else { return Vec::new() };
        let (locked, owner, span) = (LockedFile::of(file), LockOwner::file(file), Span::whole(false));
        let is_unsure = self.is_unsure.load(Ordering::Relaxed);
        let state = self.state.lock();
        let has = |owner| state.ranges.iter().any(|ranges| ranges.file == locked && ranges.owner == owner);
        let kinds = [
            (Whose::Process, has(LockOwner::Process)),
            (Whose::OpenFile, is_last && has(owner)),
            (Whose::Whole, is_last && state.files.iter().any(|lock| lock.owner == owner)),
        ];
        let asked = |(whose, has)| (has || is_unsure).then_some(Asked { file: shipped.handle, whose, span });
        kinds.into_iter().filter_map(asked).collect()
    }

    /// Whether the process may have any lock at the I/O node.
    pub(crate) fn has_shipped(&self) -> bool {
        self.any.load(Ordering::Relaxed) && (self.is_unsure.load(Ordering::Relaxed) || !self.shipped().is_empty())
    }

    /// All locks that it has there.
    fn shipped(&self) -> Vec<Asked> {
        let state = self.state.lock();
        let ranges = state.ranges.iter().flat_map(|ranges| {
            let whose = if ranges.owner == LockOwner::Process { Whose::Process } else { Whose::OpenFile };
            let asked = move |file| ranges.spans.all().iter().map(move |span| Asked { file, whose, span: *span });
            ranges.handle.into_iter().flat_map(asked)
        });
        let files = state.files.iter().filter_map(|lock| {
            Some(Asked { file: lock.handle?, whose: Whose::Whole, span: Span::whole(lock.exclusive) })
        });
        ranges.chain(files).collect()
    }

    /// Locks at the I/O node what it had locked there, for a process that is made again from a checkpoint.
    ///
    /// # Errors
    /// `EAGAIN`: somebody else has locked it. Else as [`Client::call`].
    pub(crate) async fn lock_again(&self, client: &Client) -> Result<(), Errno> {
        for asked in self.shipped() {
            match client.call(Call::Lock { asked, wait: None }, Vec::new()).await? {
                (Reply::Done, _) => {}
                _ => return Err(Errno::EIO),
            }
        }
        Ok(())
    }
}
