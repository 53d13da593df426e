//! Holding a process: all of its threads where nothing of them is anywhere but in what can be looked at.
//!
//! A thread that is held has left its program and its call. All it is lies in its [`ThreadImage`]: its registers, its
//! vector registers, and, if it waits in a call, the record of that ([`PendingCall`]). What made the call wait was
//! dropped, as if the thread had been rewound; when the hold is over, the call is made again from its record, so that
//! it waits until the same time, moves what it has not yet moved, and nobody can tell that it was held.
//!
//! A thread is held where it would next enter its program, or at once where it waits for something that may take as
//! long as it likes ([`super::Caller::interruptible`]). What the I/O node does for it, and pages that come, are waited
//! for: that is over soon, or the hold comes to its deadline.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::user::extended::{self, BadVector};
use coppice_hal::user::{Registers, UserThread};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::debugger::Debugger;
use super::dying::Dying;
use super::lease::Lease;
use super::threads::Threads;
use super::{Process, ThreadState};
use crate::executor::{self, WaitQueue};
use crate::sync::atomic::{AtomicU32, Ordering};

/// A call that waits, as far as it is not in the registers: the number is in `rax`, the arguments are where they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingCall {
    /// When its time is up, ns of the process's clock or of the one that the call names, once that is known;
    /// [`u64::MAX`]: never. Of a call that moves several messages, the time for the one that it moves.
    pub(crate) deadline_ns: Option<u64>,
    /// How far it is, bytes; of a call that moves several messages, in the one that it moves.
    pub(crate) done: u64,
    /// How many messages a call has moved that moves several.
    pub(crate) messages: u64,
    /// It was taken up again.
    pub(crate) taken_up: bool,
    /// When such a call is to move no more, ns of the process's clock, once that is known.
    pub(crate) messages_until_ns: Option<u64>,
}

/// Where a held thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Position {
    /// In its program.
    Program,
    /// In the call in its registers.
    Call(PendingCall),
    /// Asleep at a word of memory, where it lies among the others ([`super::futexes`]), until this time of the
    /// process's clock, ns. If `always`, the call is made again after a handler.
    Asleep { until_ns: u64, always: bool },
}

/// What a thread is while it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadImage {
    /// In a call, they are those behind its instruction, with its number in `rax`.
    pub(crate) registers: Registers,
    /// [`extended::bytes`] of them.
    pub(crate) vector: Vec<u8>,
    pub(crate) position: Position,
}

impl ThreadImage {
    /// That of a thread that goes on there.
    pub(crate) fn of(user: &mut UserThread, position: Position) -> Box<Self> {
        let mut vector = vec![0; extended::bytes()];
        user.save_vector(&mut vector);
        Box::new(Self { registers: user.regs, vector, position })
    }

    /// Makes a thread what the image says.
    ///
    /// # Errors
    /// [`BadVector`]: no processor of this kind can have its vector registers. All else was done.
    pub(crate) fn apply(&self, user: &mut UserThread) -> Result<(), BadVector> {
        if user.regs != self.registers {
            user.regs = self.registers;
            user.restore_all();
        }
        user.load_vector(&self.vector)
    }
}

/// Who holds the threads of a process.
pub(crate) struct Hold {
    pub(super) holders: AtomicU32,
    /// Of those who look at it from outside.
    pub(super) lease: Lease,
    /// One of them may be a debugger.
    pub(crate) debugger: Debugger,
    /// It waits to be ended.
    pub(crate) dying: Dying,
    /// The thread that is not held when all others are, or [`NO_THREAD`].
    exempt: AtomicU32,
    /// Told when a thread is held or gone, and when the last holder lets go.
    pub(super) changed: WaitQueue,
}

/// No thread has this id.
const NO_THREAD: u32 = 0;

impl Hold {
    /// Nobody.
    pub(crate) fn new() -> Self {
        Self {
            holders: AtomicU32::new(0),
            lease: Lease::new(),
            debugger: Debugger::none(),
            dying: Dying::new(),
            exempt: AtomicU32::new(NO_THREAD),
            changed: WaitQueue::new(),
        }
    }

    /// Whether threads are to be held.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.holders.load(Ordering::Acquire) > 0
    }

    /// Whether this one is.
    #[inline]
    pub(crate) fn is_asked_of(&self, tid: u32) -> bool {
        self.is_asked() && self.exempt.load(Ordering::Acquire) != tid
    }

    /// This one is not, when all others are; or there is none such.
    pub(super) fn exempt(&self, tid: Option<u32>) {
        self.exempt.store(tid.unwrap_or(NO_THREAD), Ordering::Release);
        if tid.is_some() {
            self.changed.wake_all();
        }
    }

    /// Whether there is one such.
    pub(super) fn has_exempt(&self) -> bool {
        self.exempt.load(Ordering::Acquire) != NO_THREAD
    }

    /// A thread is held, or gone.
    pub(crate) fn tell(&self) {
        if self.is_asked() {
            self.changed.wake_all();
        }
    }

    /// One of those who hold them does no more.
    pub(super) fn let_go(&self) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.wake_all();
        }
    }

    /// Waits until nobody holds this thread.
    pub(crate) async fn over(&self, tid: u32) {
        self.changed.wait_until(|| (!self.is_asked_of(tid)).then_some(())).await;
    }
}

/// A process could not be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotHeld {
    /// It is at its end.
    #[error("the process is at its end")]
    Ending,
    /// A thread waits for the I/O node.
    #[error("thread {tid} waits for the I/O node")]
    Waits {
        /// The first such thread.
        tid: u32,
    },
}

/// Holds the threads of a process until it is dropped.
pub(crate) struct Held(Arc<Process>);

impl Process {
    /// Has its threads held from now on. They are when [`Held::settled`] says so.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.threads.hold.holders.fetch_add(1, Ordering::AcqRel);
        self.call_all();
        Held(Arc::clone(self))
    }
}

impl Held {
    /// Waits until all threads are held, or the monotonic clock shows `deadline_ns`.
    ///
    /// # Errors
    /// [`NotHeld`].
    pub(crate) async fn settled(&self, deadline_ns: u64) -> Result<(), NotHeld> {
        self.0.threads.settled(deadline_ns).await
    }

    /// Whether they are this process's.
    pub(crate) fn is_of(&self, process: &Arc<Process>) -> bool {
        Arc::ptr_eq(&self.0, process)
    }

    /// The threads, which stay the same once they are held.
    pub(crate) fn threads(&self) -> Vec<Arc<ThreadState>> {
        self.0.threads.all()
    }
}

impl Threads {
    /// Waits until all of them are held, for somebody who holds them, or the monotonic clock shows `deadline_ns`.
    ///
    /// # Errors
    /// [`NotHeld`].
    pub(super) async fn settled(&self, deadline_ns: u64) -> Result<(), NotHeld> {
        let look = || {
            if self.is_ending() {
                return Some(Err(NotHeld::Ending));
            }
            self.runs().is_none().then_some(Ok(()))
        };
        match executor::timeout_at(deadline_ns, self.hold.changed.wait_until(look)).await {
            Ok(settled) => settled,
            Err(executor::Elapsed) => self.runs().map_or(Ok(()), |tid| Err(NotHeld::Waits { tid })),
        }
    }

    /// The first thread that is not held yet.
    fn runs(&self) -> Option<u32> {
        self.all().iter().find(|thread| !thread.is_held()).map(|thread| thread.tid)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.threads.hold.let_go();
    }
}
