//! Locks of files: those of ranges (fcntl(2)) and of whole files (flock(2)).
//!
//! They hold within a process. It has the locks of ranges it asks for itself, and its open files have those that were
//! asked for in their name: who has a lock never stands in its own way.

pub(crate) mod record;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;

use super::open_file::{Object, OpenFile};
use super::readiness::Watchers;
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
    /// First byte.
    pub(crate) first: u64,
    /// Last byte.
    pub(crate) last: u64,
    /// Nobody else may have one of any of its bytes; else others may have such as this.
    pub(crate) exclusive: bool,
}

impl RangeLock {
    fn is_of(&self, other: &Self) -> bool {
        self.file == other.file && self.owner == other.owner
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.file == other.file && self.first <= other.last && other.first <= self.last
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner && self.overlaps(other) && (self.exclusive || other.exclusive)
    }

    /// Whether both are one lock: of one kind, with no byte between them.
    fn continues(&self, next: &Self) -> bool {
        let touches = self.last.checked_add(1).is_none_or(|behind| behind >= next.first);
        self.is_of(next) && self.exclusive == next.exclusive && touches
    }
}

/// A lock of a whole file.
struct FileLock {
    file: LockedFile,
    owner: LockOwner,
    exclusive: bool,
}

struct State {
    /// Those of one owner and file lie together, in the order of their bytes.
    ranges: Vec<RangeLock>,
    files: Vec<FileLock>,
    charged: Counted,
}

impl State {
    /// Sees to it that there may be so many more.
    fn make_room(&mut self, more: usize) -> Result<(), Errno> {
        let count = self.ranges.len() + self.files.len() + more;
        if count > LOCKS_MAX || self.charged.cover(count).is_err() {
            return Err(Errno::ENOLCK);
        }
        let room = self.ranges.try_reserve(more).and_then(|()| self.files.try_reserve(more));
        room.map_err(|_| Errno::ENOLCK)
    }

    /// Takes a range away from its owner's locks. Gives where in the list they are, or would be.
    fn cut(&mut self, range: &RangeLock) -> usize {
        let start = self.ranges.iter().position(|lock| lock.is_of(range)).unwrap_or(self.ranges.len());
        let mut at = start;
        while let Some(lock) = self.ranges.get(at).copied().filter(|lock| lock.is_of(range)) {
            if !lock.overlaps(range) {
                at += 1;
                continue;
            }
            self.ranges.remove(at);
            if lock.first < range.first {
                self.ranges.insert(at, RangeLock { last: range.first - 1, ..lock });
                at += 1;
            }
            if lock.last > range.last {
                self.ranges.insert(at, RangeLock { first: range.last + 1, ..lock });
                at += 1;
            }
        }
        start
    }

    /// Puts a lock where nothing of its owner's is, among those from `at` on.
    fn insert(&mut self, mut at: usize, range: RangeLock) {
        let is_before = |lock: &RangeLock| lock.is_of(&range) && lock.first < range.first;
        while self.ranges.get(at).is_some_and(is_before) {
            at += 1;
        }
        self.ranges.insert(at, range);
        // With the one behind it, and with the one before it.
        for at in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if let [one, next, ..] = self.ranges.get_mut(at..).unwrap_or_default()
                && one.continues(next)
            {
                one.last = one.last.max(next.last);
                self.ranges.remove(at + 1);
            }
        }
    }

    fn settle(&mut self) {
        let count = self.ranges.len() + self.files.len();
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
    pub(crate) fn in_the_way(&self, range: &RangeLock) -> Option<RangeLock> {
        self.state.lock().ranges.iter().find(|lock| lock.conflicts(range)).copied()
    }

    /// The first lock of its owner's in this range.
    pub(crate) fn own(&self, range: &RangeLock) -> Option<RangeLock> {
        self.state.lock().ranges.iter().find(|lock| lock.is_of(range) && lock.overlaps(range)).copied()
    }

    /// Gives a range another lock of its owner's.
    ///
    /// # Errors
    /// `EAGAIN`: another lock is in the way. `ENOLCK`: there are too many.
    pub(crate) fn lock(&self, range: RangeLock) -> Result<(), Errno> {
        {
            let mut state = self.state.lock();
            if state.ranges.iter().any(|lock| lock.conflicts(&range)) {
                return Err(Errno::EAGAIN);
            }
            // One may become two, with another between them.
            state.make_room(2)?;
            self.any.store(true, Ordering::Relaxed);
            let at = state.cut(&range);
            state.insert(at, range);
            state.settle();
        }
        // What was exclusive may be so no more.
        self.watchers.notify();
        Ok(())
    }

    /// Takes its owner's locks of a range away.
    ///
    /// # Errors
    /// `ENOLCK`: two would be left of one, and that is one too many.
    pub(crate) fn unlock(&self, range: &RangeLock) -> Result<(), Errno> {
        {
            let mut state = self.state.lock();
            state.make_room(1)?;
            state.cut(range);
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
                state.files.push(FileLock { file: locked, owner, exclusive });
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

    fn forget(&self, ranges: impl Fn(&RangeLock) -> bool, files: impl Fn(&FileLock) -> bool) {
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

    use super::{LockOwner, LockedFile, Locks, RangeLock};
    use crate::errno::Errno;
    use crate::quota::tests::quota;

    const BYTES: u64 = 16;

    fn range(owner: u8, first: u64, last: u64, exclusive: bool) -> RangeLock {
        let owner = if owner == 0 { LockOwner::Process } else { LockOwner::File(owner.into()) };
        RangeLock { file: LockedFile::Anonymous, owner, first, last, exclusive }
    }

    #[test]
    fn locks_are_cut_and_joined() {
        let locks = Locks::new(&quota());
        assert_eq!(locks.lock(range(0, 0, 9, true)), Ok(()));
        assert_eq!(locks.unlock(&range(0, 4, 5, true)), Ok(()));
        assert_eq!(locks.in_the_way(&range(1, 4, 5, true)), None);
        assert_eq!(locks.in_the_way(&range(1, 5, 6, false)), Some(range(0, 6, 9, true)));
        assert_eq!(locks.lock(range(0, 4, 5, true)), Ok(()));
        assert_eq!(locks.in_the_way(&range(1, 9, u64::MAX, false)), Some(range(0, 0, 9, true)));
        assert_eq!(locks.lock(range(1, 9, 9, false)), Err(Errno::EAGAIN));
        assert_eq!(locks.lock(range(0, 8, 9, false)), Ok(()));
        assert_eq!(locks.lock(range(1, 9, 9, false)), Ok(()));
        assert_eq!(locks.lock(range(0, 9, 9, true)), Err(Errno::EAGAIN));
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
                let done = if kind.is_some() { locks.lock(asked) } else { locks.unlock(&asked) };
                prop_assert_eq!(done.is_err(), is_refused);
                if done.is_ok() {
                    table[usize::from(owner)][bytes].fill(kind);
                }
                for (owner, had) in table.iter().enumerate() {
                    for (at, had) in had.iter().enumerate() {
                        let at = range(owner as u8, at as u64, at as u64, false);
                        prop_assert_eq!(locks.own(&at).map(|lock| lock.exclusive), *had);
                    }
                }
            }
        }
    }
}
