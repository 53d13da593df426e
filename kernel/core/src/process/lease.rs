//! A hold for somebody who looks at a process from outside, question by question, and may be gone before he lets go: it
//! is over a while after the last question ([`LEASE_NS`]), whatever became of him. One at a time may; whoever debugs
//! the process has it also while its threads go on.
//!
//! A task keeps it, and with it the process's threads, but not the process: that comes to its end as if nobody looked.

use alloc::sync::{Arc, Weak};

use coppice_protocol::inspect::held::{ABANDONED_NS, LEASE_NS, NotTold};

use super::Process;
use super::hold::NotHeld;
use super::threads::Threads;
use crate::executor;
use crate::limits::HOLD_NS_MAX;
use crate::sync::atomic::Ordering;
use crate::sync::{LockLevel, Mutex};

/// Who has the process, if a task keeps that.
pub(super) struct Lease(Mutex<Option<Leased>>);

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// That of who has this number.
    One(u64),
    /// That of the first who asks for it.
    First,
    /// Nobody looks any more, and the process is not what it was yet.
    None,
}

/// Who has it.
#[derive(Clone, Copy)]
struct Leased {
    by: Holder,
    /// Until when, ns of the monotonic clock. 0: not any more.
    until_ns: u64,
    /// The threads are held for him.
    holds: bool,
}

impl Leased {
    fn is_over(&self) -> bool {
        self.until_ns <= executor::now_ns()
    }

    /// Whether others may have it.
    fn is_abandoned(&self) -> bool {
        self.until_ns.saturating_sub(LEASE_NS - ABANDONED_NS) <= executor::now_ns()
    }
}

impl Lease {
    /// None.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(LockLevel::Fact, None))
    }

    /// Whether it ends before this.
    fn ends_before(&self, until_ns: u64) -> bool {
        self.0.lock().is_none_or(|leased| leased.until_ns < until_ns)
    }
}

/// The instruction `int3`.
pub(crate) const BREAKPOINT: u8 = 0xcc;

/// What a task keeps.
struct Kept {
    process: Weak<Process>,
    threads: Arc<Threads>,
    is_over: bool,
}

impl Kept {
    /// Until when it is to be kept; `None`: no longer, and nobody can renew it any more.
    fn until(&mut self) -> Option<u64> {
        let mut lease = self.threads.hold.lease.0.lock();
        match *lease {
            Some(leased) if !self.threads.is_ending() && !leased.is_over() => Some(leased.until_ns),
            _ => {
                let holds = lease.is_some_and(|leased| leased.holds);
                *lease = Some(Leased { by: Holder::None, until_ns: u64::MAX, holds });
                None
            }
        }
    }

    async fn run_out(mut self) {
        while let Some(until_ns) = self.until() {
            let hold = &self.threads.hold;
            let is_over = || (self.threads.is_ending() || hold.lease.ends_before(until_ns)).then_some(());
            // It may have been renewed meanwhile.
            let _ = executor::timeout_at(until_ns, hold.changed.wait_until(is_over)).await;
        }
        if let Some(process) = self.process.upgrade()
            && self.threads.hold.debugger.first_planted().is_some()
            && !self.threads.is_ending()
        {
            process.lease_holds();
            let deadline_ns = executor::now_ns().saturating_add(HOLD_NS_MAX);
            // If some are not held in time, they are not in their program.
            let _ = self.threads.settled(deadline_ns).await;
            process.unplant();
        }
        let over = self.threads.hold.lease.0.lock().take();
        self.end(over);
    }

    fn end(&mut self, over: Option<Leased>) {
        self.is_over = true;
        let hold = &self.threads.hold;
        hold.debugger.leave();
        if let Some(process) = self.process.upgrade() {
            process.signals.lock().debugged(false);
        }
        hold.exempt(None);
        if over.is_some_and(|leased| leased.holds) {
            hold.let_go();
        } else {
            // They are to forget what they were to stop for.
            self.threads.all().iter().for_each(|thread| thread.call_attention());
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_over {
            let over = self.threads.hold.lease.0.lock().take();
            self.end(over);
        }
    }
}

impl Process {
    /// Has its threads held for `by` for [`LEASE_NS`] from now on.
    ///
    /// # Errors
    /// [`NotTold::Taken`]: somebody else has it; [`NotTold::Busy`]: there is no task for it.
    pub(crate) fn lease(self: &Arc<Self>, by: u64) -> Result<(), NotTold> {
        let may = |holder| holder == Holder::One(by) || holder == Holder::First;
        self.lease_to(Holder::One(by), may)
    }

    /// The same for the first who asks for it.
    ///
    /// # Errors
    /// As for [`Self::lease`].
    pub(super) fn lease_to_first(self: &Arc<Self>) -> Result<(), NotTold> {
        self.lease_to(Holder::First, |_| false)
    }

    /// `may` says from whom it may be taken before his time is over.
    fn lease_to(self: &Arc<Self>, by: Holder, may: impl Fn(Holder) -> bool) -> Result<(), NotTold> {
        let hold = &self.threads.hold;
        let until_ns = executor::now_ns().saturating_add(LEASE_NS);
        let before = {
            let mut lease = hold.lease.0.lock();
            let before = *lease;
            if before.is_some_and(|leased| !may(leased.by) && !leased.is_abandoned()) {
                return Err(NotTold::Taken);
            }
            *lease = Some(Leased { by, until_ns, holds: true });
            before
        };
        if !before.is_some_and(|leased| leased.holds) {
            hold.holders.fetch_add(1, Ordering::AcqRel);
        }
        hold.exempt(None);
        // Threads that notice that find that they are to be held.
        if before.is_some_and(|leased| leased.by != by) {
            hold.debugger.leave();
            self.signals.lock().debugged(false);
        }
        let kept = before.is_none().then(|| Kept {
            process: Arc::downgrade(self),
            threads: Arc::clone(&self.threads),
            is_over: false,
        });
        self.call_all();
        match kept {
            Some(kept) => executor::spawn(kept.run_out()).map(drop).map_err(|_| NotTold::Busy),
            None => Ok(()),
        }
    }

    /// Has it for as long anew. Returns whether its threads are held.
    ///
    /// # Errors
    /// [`NotTold::NotHeld`]: this one has it not, or not any more.
    pub(crate) fn renew_lease(&self, by: u64) -> Result<bool, NotTold> {
        let mut lease = self.threads.hold.lease.0.lock();
        let is_his = |leased: &&mut Leased| leased.by == Holder::One(by) && !leased.is_over();
        let leased = lease.as_mut().filter(is_his).ok_or(NotTold::NotHeld)?;
        leased.until_ns = executor::now_ns().saturating_add(LEASE_NS);
        Ok(leased.holds && !self.threads.hold.has_exempt())
    }

    /// Nobody of this number looks any more.
    pub(crate) fn end_lease(&self, by: u64) {
        if let Some(leased) = self.threads.hold.lease.0.lock().as_mut().filter(|leased| leased.by == Holder::One(by)) {
            leased.until_ns = 0;
        }
        self.threads.hold.changed.wake_all();
    }

    /// Whether somebody looks, or debugs.
    pub(crate) fn is_leased(&self) -> bool {
        self.threads.hold.lease.0.lock().is_some()
    }

    /// All threads go on, or only this one, while whoever looks goes on looking. Not so, if they are not held for him.
    pub(super) fn lease_lets_go(&self, only: Option<u32>) -> bool {
        let hold = &self.threads.hold;
        let is_held = match hold.lease.0.lock().as_mut().filter(|leased| leased.holds && !leased.is_over()) {
            Some(leased) => {
                leased.holds = only.is_some();
                true
            }
            None => false,
        };
        if is_held {
            hold.exempt(only);
            if only.is_none() {
                hold.let_go();
            }
        }
        is_held
    }

    /// All threads are held for whoever looks.
    pub(super) fn lease_holds(&self) {
        let hold = &self.threads.hold;
        let begins = match hold.lease.0.lock().as_mut() {
            Some(leased) => !core::mem::replace(&mut leased.holds, true),
            // He has just gone.
            None => return,
        };
        if begins {
            hold.holders.fetch_add(1, Ordering::AcqRel);
        }
        hold.exempt(None);
        self.call_all();
    }

    /// Makes the instructions what they were that a debugger has planted. The threads are held.
    pub(crate) fn unplant(&self) {
        let debugger = &self.threads.hold.debugger;
        while let Some((at, began)) = debugger.first_planted() {
            // Where the page is gone, it comes as it was; where the program has written, that stays.
            let _ = self.space.lock().exchange(at, began, |byte| byte == BREAKPOINT);
            debugger.is_unplanted(at);
        }
    }

    /// Waits until all threads are held that are to be, or the monotonic clock shows `deadline_ns`.
    ///
    /// # Errors
    /// [`NotHeld`].
    pub(crate) async fn settled(&self, deadline_ns: u64) -> Result<(), NotHeld> {
        self.threads.settled(deadline_ns).await
    }

    /// Waits until the process is at its end, for somebody who looks at it.
    pub(crate) async fn ending(&self) {
        self.threads.hold.changed.wait_until(|| self.threads.is_ending().then_some(())).await;
    }
}
