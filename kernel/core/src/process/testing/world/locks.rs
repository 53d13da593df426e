//! Locks at the played I/O node: the table that the real one has.

use alloc::vec::Vec;

use coppice_protocol::lease::FileId;
use coppice_protocol::lock::{Asked, Denied, Holder, Locks, Place};
use coppice_protocol::ship::{Call, Notice, Owner, Reply};

use super::World;
use crate::errno::Errno;
use crate::executor;

/// Who has which, and who is to be told to try again.
#[derive(Default)]
pub(crate) struct PlayedLocks {
    pub(super) table: Locks,
    pub(super) called: Vec<Owner>,
}

impl PlayedLocks {
    /// Whether anybody has or wants one, or is to be told.
    pub(super) fn is_anybody_waiting(&self) -> bool {
        !self.called.is_empty() || self.table.first_turn_over_ns().is_some()
    }

    /// Who is to be told next.
    pub(super) fn notice(&mut self) -> Option<Notice> {
        self.table.turns_over(executor::now_ns(), &mut self.called);
        self.called.pop().map(Notice::Lock)
    }
}

impl World {
    /// What is said about locks; `None`: it is about something else.
    pub(crate) fn lock(&mut self, owner: Owner, call: &Call) -> Option<Result<Reply, Errno>> {
        let now_ns = executor::now_ns();
        let (asked, wait) = match call {
            Call::Lock { asked, wait } => (*asked, *wait),
            Call::Unlock(asked) | Call::TestLock(asked) => (*asked, None),
            Call::LockNothing { wait } => {
                self.locks.table.withdraw(owner, Some(*wait), now_ns, &mut self.locks.called);
                return Some(Ok(Reply::Done));
            }
            Call::Close(handle) => {
                let inode = self.path_of(*handle).and_then(|path| self.status(&path)).map_or(0, |status| status.inode);
                let file = FileId { device: 0, inode };
                self.locks.table.closed((owner, *handle), file, false, now_ns, &mut self.locks.called);
                return None;
            }
            _ => return None,
        };
        self.calls.push(call.clone());
        Some(self.locked(owner, call, (asked, wait), now_ns))
    }

    fn locked(
        &mut self,
        owner: Owner,
        call: &Call,
        (asked, wait): (Asked, Option<u32>),
        now_ns: u64,
    ) -> Result<Reply, Errno> {
        let Asked { file, whose, span } = asked;
        let path = self.path_of(file)?;
        let file_id = FileId { device: 0, inode: self.status(&path)?.inode };
        let at = (Place::of(file_id, whose), Holder::of(owner, file, whose));
        let PlayedLocks { table, called } = &mut self.locks;
        let done = match call {
            Call::TestLock(_) => {
                return Ok(table.test(at.0, at.1, &span).map_or(Reply::Done, |found| Reply::Locked(found.into())));
            }
            Call::Unlock(_) => table.unlock(at, (span.first, span.last), now_ns, called),
            _ => table.lock(at, span, wait, now_ns, called),
        };
        match done {
            Ok(()) => Ok(Reply::Done),
            Err(Denied::Taken) if wait.is_some() => Ok(Reply::Later),
            Err(Denied::Taken) => Err(Errno::EAGAIN),
            Err(Denied::Deadlock) => Err(Errno::EDEADLK),
            Err(Denied::TooMany) => Err(Errno::ENOLCK),
        }
    }

    /// Ranks that have locks or wait for some.
    pub(crate) fn lockers(&self) -> usize {
        self.locks.table.sizes().1
    }
}
