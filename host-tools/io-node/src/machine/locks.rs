//! Locks of files that ranks have ([`coppice_protocol::lock`]): all is in memory here, so they are answered at once.
//!
//! What a rank has open is known by device and inode, from the answers to what it opened; so it is one file however it
//! was opened, and nobody locks what it has not opened. Processes on the host are not kept out, nor do their locks keep
//! ranks out. Of a job with ranks at several I/O nodes, none would know of the others' locks: it has none.

use std::collections::BTreeMap;

use coppice_protocol::lease::FileId;
use coppice_protocol::lock::{Asked, Denied, Holder, Locks, Place, Span, Whose};
use coppice_protocol::ship::{Call, FileStatus, Handle, Notice, Owner, Reply};
use rustix::io::Errno;

use super::effect::Answer;
use super::timers::Timer;
use super::{Machine, Now};
use crate::files::Result;

/// Locks, and what ranks have open.
#[derive(Debug, Default)]
pub(super) struct FileLocks {
    table: Locks,
    /// What each rank has open.
    open: BTreeMap<Owner, BTreeMap<Handle, FileId>>,
    /// A timer is set for the first turn that ends.
    is_timed: bool,
}

impl FileLocks {
    /// Ranks that have anything open, and those that have locks or wait for some.
    pub(super) fn count(&self) -> usize {
        self.open.len() + self.table.sizes().1
    }
}

impl Machine {
    /// Does what a rank asks about locks.
    pub(super) fn lock(&mut self, owner: Owner, call: &Call, now: Now) -> Result<Answer> {
        let mut called = Vec::new();
        let reply = self.lock_calling(owner, call, now, &mut called);
        self.tell_called(called, now);
        Ok((reply?, Vec::new()))
    }

    fn lock_calling(&mut self, owner: Owner, call: &Call, now: Now, called: &mut Vec<Owner>) -> Result<Reply> {
        let (asked, wait) = match call {
            Call::Lock { asked, wait } => (asked, *wait),
            Call::Unlock(asked) | Call::TestLock(asked) => (asked, None),
            Call::LockNothing { wait } => {
                self.locks.table.withdraw(owner, Some(*wait), now.ns, called);
                return Ok(Reply::Done);
            }
            _ => return Err(Errno::NOSYS),
        };
        let Asked { file: handle, whose, span } = *asked;
        let span = if whose == Whose::Whole { Span::whole(span.exclusive) } else { span };
        if span.first > span.last {
            return Err(Errno::INVAL);
        }
        let file = self.locks.open.get(&owner).and_then(|open| open.get(&handle)).ok_or(Errno::BADF)?;
        if !self.jobs.get(owner.job).is_some_and(|job| job.is_all_here()) {
            return Err(Errno::NOLCK);
        }
        let at = (Place::of(*file, whose), Holder::of(owner, handle, whose));
        let table = &mut self.locks.table;
        let done = match call {
            Call::TestLock(_) => {
                return Ok(table.test(at.0, at.1, &span).map_or(Reply::Done, |found| Reply::Locked(found.into())));
            }
            Call::Unlock(_) => table.unlock(at, (span.first, span.last), now.ns, called),
            _ => table.lock(at, span, wait, now.ns, called),
        };
        match done {
            Ok(()) => Ok(Reply::Done),
            Err(Denied::Taken) if wait.is_some() => Ok(Reply::Later),
            Err(Denied::Taken) => Err(Errno::AGAIN),
            Err(Denied::Deadlock) => Err(Errno::DEADLK),
            Err(Denied::TooMany) => Err(Errno::NOLCK),
        }
    }

    /// Tells those who are called, and sees to it that their turn ends.
    fn tell_called(&mut self, called: Vec<Owner>, now: Now) {
        for owner in called {
            self.notify(owner, &Notice::Lock(owner));
        }
        if let Some(over_ns) = self.locks.table.first_turn_over_ns()
            && !std::mem::replace(&mut self.locks.is_timed, true)
        {
            self.timers.set(over_ns.max(now.ns), Timer::LockTurn);
        }
    }

    /// Somebody's turn to lock something may be over.
    pub(super) fn lock_turn_is_over(&mut self, now: Now) {
        self.locks.is_timed = false;
        let mut called = Vec::new();
        self.locks.table.turns_over(now.ns, &mut called);
        self.tell_called(called, now);
    }

    /// A rank has opened something.
    pub(super) fn may_be_locked(&mut self, owner: Owner, handle: Handle, status: &FileStatus) {
        let file = FileId { device: status.device, inode: status.inode };
        self.locks.open.entry(owner).or_default().insert(handle, file);
    }

    /// A rank has closed something.
    pub(super) fn unlock_closed(&mut self, owner: Owner, handle: Handle, now: Now) {
        let Some(open) = self.locks.open.get_mut(&owner) else { return };
        let Some(file) = open.remove(&handle) else { return };
        let is_last = !open.values().any(|other| *other == file);
        if open.is_empty() {
            self.locks.open.remove(&owner);
        }
        let mut called = Vec::new();
        self.locks.table.closed((owner, handle), file, is_last, now.ns, &mut called);
        self.tell_called(called, now);
    }

    /// A rank has ended.
    pub(super) fn unlock_all(&mut self, owner: Owner, now: Now) {
        self.locks.open.remove(&owner);
        let mut called = Vec::new();
        self.locks.table.gone(owner, now.ns, &mut called);
        self.tell_called(called, now);
    }
}
