//! Locks of files: those of ranges (fcntl(2)) and of whole files (flock(2)).
//!
//! A process has the locks of ranges it asks for itself, and its open files have those that were asked for in their
//! name: who has a lock never stands in its own way. Locks of files at the I/O node are had there, where those of all
//! ranks are ([`coppice_protocol::lock`]); here is written down which the process has, so that it is known what is to
//! be unlocked when something is closed, and what a checkpoint has to have. Others hold within the process.

pub(crate) mod record;
mod shipped;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;

use coppice_protocol::lock::{Span, Spans};
use coppice_protocol::ship::Handle;

use super::open_file::{Object, OpenFile};
use super::readiness::Watchers;
use super::turns::Turns;
use crate::errno::Errno;
use crate::limits::{LOCK_BYTES, LOCKS_FREE, LOCKS_MAX};
use crate::memory::FileIdentity;
use crate::quota::{Counted, Kind, Quota};
use crate::sync::{LockLevel, Mutex};

/// Which file, however it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockedFile {
    /// One at the I/O node.
    Shipped(FileIdentity),
    /// An object of the kernel's: where it is.
    Object(usize),
    /// One that has no file of its own. On Linux, they all have the same.
    Anonymous,
}

impl LockedFile {
    /// The file that is open.
    pub(crate) fn of(file: &OpenFile) -> Self {
        match &file.object {
            Object::Shipped(shipped) => Self::Shipped(shipped.identity()),
            Object::Shared(shared) => Self::Object(Arc::as_ptr(&shared.memory).addr()),
            Object::Pipe(end) => Self::Object(core::ptr::from_ref(end.channel()).addr()),
            Object::Event(_) | Object::Timer(_) | Object::Signals(_) | Object::Poller(_) => Self::Anonymous,
            _ => Self::Object(core::ptr::from_ref(file).addr()),
        }
    }
}

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockOwner {
    /// The process.
    Process,
    /// One of its open files: where it is.
    File(usize),
}

impl LockOwner {
    /// An open file as an owner.
    pub(crate) fn file(file: &OpenFile) -> Self {
        Self::File(core::ptr::from_ref(file).addr())
    }
}

/// A lock of a range, or one that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeLock {
    /// What is locked.
    pub(crate) file: LockedFile,
    /// Who has it.
    pub(crate) owner: LockOwner,
    /// Which bytes.
    pub(crate) span: Span,
}

impl RangeLock {
    /// One of a file that is open.
    pub(crate) fn of(file: &OpenFile, owner: LockOwner, span: Span) -> Self {
        Self { file: LockedFile::of(file), owner, span }
    }
}

/// What an owner has locked of a file.
struct Ranges {
    file: LockedFile,
    owner: LockOwner,
    /// Where it is at the I/O node, if it is there: an open file by which it was locked. It is open, or there would be
    /// no lock.
    handle: Option<Handle>,
    spans: Spans,
}

/// A lock of a whole file.
struct FileLock {
    file: LockedFile,
    owner: LockOwner,
    /// As with ranges.
    handle: Option<Handle>,
    exclusive: bool,
}

struct State {
    ranges: Vec<Ranges>,
    files: Vec<FileLock>,
    charged: Counted,
}

impl State {
    fn count(&self) -> usize {
        self.ranges.iter().map(|ranges| ranges.spans.count()).sum::<usize>() + self.files.len()
    }

    /// Sees to it that there may be so many more.
    fn make_room(&mut self, more: usize) -> Result<(), Errno> {
        let count = self.count() + more;
        if count > LOCKS_MAX || self.charged.cover(count).is_err() {
            return Err(Errno::ENOLCK);
        }
        let room = self.ranges.try_reserve(1).and_then(|()| self.files.try_reserve(1));
        room.map_err(|_| Errno::ENOLCK)
    }

    /// What its owner has of its file.
    fn own(&mut self, lock: &RangeLock) -> Option<&mut Ranges> {
        self.ranges.iter_mut().find(|ranges| ranges.file == lock.file && ranges.owner == lock.owner)
    }

    fn in_the_way(&self, lock: &RangeLock) -> Option<RangeLock> {
        let mut others = self.ranges.iter().filter(|other| other.file == lock.file && other.owner != lock.owner);
        others.find_map(|other| {
            Some(RangeLock { owner: other.owner, span: other.spans.in_the_way(&lock.span)?, ..*lock })
        })
    }

    fn lock(&mut self, lock: &RangeLock, handle: Option<Handle>) -> Result<(), Errno> {
        // One may become two, with another between them.
        self.make_room(2)?;
        if self.own(lock).is_none() {
            self.ranges.push(Ranges { file: lock.file, owner: lock.owner, handle, spans: Spans::new() });
        }
        if let Some(own) = self.own(lock) {
            own.handle = handle;
            own.spans.reserve().map_err(|_| Errno::ENOLCK)?;
            own.spans.lock(lock.span);
        }
        Ok(())
    }

    fn settle(&mut self) {
        self.ranges.retain(|ranges| ranges.spans.count() > 0);
        let count = self.count();
        self.charged.settle(count);
    }
}

/// The locks that a process has.
pub(crate) struct Locks {
    state: Mutex<State>,
    /// Those who wait for one.
    watchers: Watchers,
    /// Whether there was ever one: most processes need not look.
    any: AtomicBool,
    /// Whose turn it is to change one at the I/O node: so what is known here is as it is there.
    turns: Turns,
    /// It is not known what was done at the I/O node: the process may have locks there that are not known here.
    is_unsure: AtomicBool,
}

impl Locks {
    /// None. Those there will be are charged to `quota`.
    pub(crate) fn new(quota: &Arc<Quota>) -> Arc<Self> {
        let mut charged = Counted::new(LOCK_BYTES, LOCKS_FREE);
        charged.charge_to(quota, Kind::Object);
        let state = State { ranges: Vec::new(), files: Vec::new(), charged };
        Arc::new(Self {
            state: Mutex::new(LockLevel::OpenFile, state),
            watchers: Watchers::new(quota),
            any: AtomicBool::new(false),
            turns: Turns::new(),
            is_unsure: AtomicBool::new(false),
        })
    }

    /// Has `waker` woken when a lock may be had that could not be.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.watchers.watch(waker)
    }

    /// The first lock that stands in the way of this one.
    pub(crate) fn in_the_way(&self, lock: &RangeLock) -> Option<RangeLock> {
        self.state.lock().in_the_way(lock)
    }

    /// The first lock of its owner's in this range.
    pub(crate) fn own(&self, lock: &RangeLock) -> Option<RangeLock> {
        let mut state = self.state.lock();
        let span = state.own(lock)?.spans.within(lock.span.first, lock.span.last).first().copied()?;
        Some(RangeLock { span, ..*lock })
    }

    /// Gives a range another lock of its owner's.
    ///
    /// # Errors
    /// `EAGAIN`: another lock is in the way. `ENOLCK`: there are too many.
    pub(crate) fn lock(&self, lock: &RangeLock) -> Result<(), Errno> {
        {
            let mut state = self.state.lock();
            if state.in_the_way(lock).is_some() {
                return Err(Errno::EAGAIN);
            }
            self.any.store(true, Ordering::Relaxed);
            let done = state.lock(lock, None);
            state.settle();
            done?;
        }
        // What was exclusive may be so no more.
        self.watchers.notify();
        Ok(())
    }

    /// Takes its owner's locks of a range away.
    ///
    /// # Errors
    /// `ENOLCK`: two would be left of one, and that is one too many.
    pub(crate) fn unlock(&self, lock: &RangeLock) -> Result<(), Errno> {
        {
            let mut state = self.state.lock();
            state.make_room(1)?;
            if let Some(own) = state.own(lock) {
                own.spans.reserve().map_err(|_| Errno::ENOLCK)?;
                own.spans.unlock(lock.span.first, lock.span.last);
            }
            state.settle();
        }
        self.watchers.notify();
        Ok(())
    }

    /// Gives an open file a lock of the whole file. What it had of it is gone even if it cannot have another, as on
    /// Linux.
    ///
    /// # Errors
    /// `EAGAIN`: another one's is in the way. `ENOLCK`: there are too many.
    pub(crate) fn lock_file(&self, file: &OpenFile, exclusive: bool) -> Result<(), Errno> {
        let (locked, owner) = (LockedFile::of(file), LockOwner::file(file));
        let (result, has_freed) = {
            let mut state = self.state.lock();
            if state.files.iter().any(|lock| lock.owner == owner && lock.exclusive == exclusive) {
                return Ok(());
            }
            state.make_room(1)?;
            self.any.store(true, Ordering::Relaxed);
            let before = state.files.len();
            state.files.retain(|lock| lock.owner != owner);
            let has_freed = state.files.len() < before;
            if state.files.iter().any(|lock| lock.file == locked && (lock.exclusive || exclusive)) {
                (Err(Errno::EAGAIN), has_freed)
            } else {
                state.files.push(FileLock { file: locked, owner, handle: None, exclusive });
                (Ok(()), has_freed)
            }
        };
        // Whoever waits for it watches, and is not to be called by its own attempts.
        if has_freed {
            self.watchers.notify();
        }
        result
    }

    /// Takes an open file's lock of the whole file away.
    pub(crate) fn unlock_file(&self, file: &OpenFile) {
        let owner = LockOwner::file(file);
        self.forget(|_| false, |lock| lock.owner == owner);
    }

    /// A descriptor was closed that stood for this file: the process has no lock of its ranges any more.
    pub(crate) fn closed(&self, file: &OpenFile) {
        if self.any.load(Ordering::Relaxed) {
            let locked = LockedFile::of(file);
            self.forget(|lock| lock.owner == LockOwner::Process && lock.file == locked, |_| false);
        }
    }

    /// An open file is gone.
    pub(crate) fn gone(&self, file: &OpenFile) {
        let owner = LockOwner::file(file);
        self.forget(|lock| lock.owner == owner, |lock| lock.owner == owner);
    }

    fn forget(&self, ranges: impl Fn(&Ranges) -> bool, files: impl Fn(&FileLock) -> bool) {
        {
            let mut state = self.state.lock();
            state.ranges.retain(|lock| !ranges(lock));
            state.files.retain(|lock| !files(lock));
            state.settle();
        }
        self.watchers.notify();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use coppice_protocol::lock::Span;

    use super::{LockOwner, LockedFile, Locks, RangeLock};
    use crate::errno::Errno;
    use crate::quota::tests::quota;

    const BYTES: u64 = 16;

    fn range(owner: u8, first: u64, last: u64, exclusive: bool) -> RangeLock {
        let owner = if owner == 0 { LockOwner::Process } else { LockOwner::File(owner.into()) };
        RangeLock { file: LockedFile::Anonymous, owner, span: Span { first, last, exclusive } }
    }

    #[test]
    fn locks_are_cut_and_joined() {
        let locks = Locks::new(&quota());
        assert_eq!(locks.lock(&range(0, 0, 9, true)), Ok(()));
        assert_eq!(locks.unlock(&range(0, 4, 5, true)), Ok(()));
        assert_eq!(locks.in_the_way(&range(1, 4, 5, true)), None);
        assert_eq!(locks.in_the_way(&range(1, 5, 6, false)), Some(range(0, 6, 9, true)));
        assert_eq!(locks.lock(&range(0, 4, 5, true)), Ok(()));
        assert_eq!(locks.in_the_way(&range(1, 9, u64::MAX, false)), Some(range(0, 0, 9, true)));
        assert_eq!(locks.lock(&range(1, 9, 9, false)), Err(Errno::EAGAIN));
        assert_eq!(locks.lock(&range(0, 8, 9, false)), Ok(()));
        assert_eq!(locks.lock(&range(1, 9, 9, false)), Ok(()));
        assert_eq!(locks.lock(&range(0, 9, 9, true)), Err(Errno::EAGAIN));
    }

    proptest! {
        /// Against a table of who has what of each byte.
        #[test]
        fn every_byte_is_locked_as_if_it_were_alone(
            steps in proptest::collection::vec((0..3_u8, 0..BYTES, 0..BYTES, any::<Option<bool>>()), 1..60),
        ) {
            let locks = Locks::new(&quota());
            let mut table = [[None; BYTES as usize]; 3];
            for (owner, one, other, kind) in steps {
                let (first, last) = (one.min(other), one.max(other));
                let asked = range(owner, first, last, kind.unwrap_or(false));
                let bytes = first as usize..=last as usize;
                let mut others = (0..3).filter(|index| *index != usize::from(owner));
                let is_refused = kind.is_some_and(|kind| {
                    others.any(|index| table[index][bytes.clone()].iter().flatten().any(|had| *had || kind))
                });
                let done = if kind.is_some() { locks.lock(&asked) } else { locks.unlock(&asked) };
                prop_assert_eq!(done.is_err(), is_refused);
                if done.is_ok() {
                    table[usize::from(owner)][bytes].fill(kind);
                }
                for (owner, had) in table.iter().enumerate() {
                    for (at, had) in had.iter().enumerate() {
                        let at = range(owner as u8, at as u64, at as u64, false);
                        prop_assert_eq!(locks.own(&at).map(|lock| lock.span.exclusive), *had);
                    }
                }
            }
        }
    }
}
