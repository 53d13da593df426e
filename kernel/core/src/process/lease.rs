//! A hold for somebody who looks at a process from outside, question by question, and may be gone before he lets go: it
//! is over a while after the last question ([`LEASE_NS`]), whatever became of him.
//!
//! A task keeps it, and with it the process's threads, but not the process: that comes to its end as if nobody looked.

use alloc::sync::Arc;

use coppice_protocol::inspect::held::LEASE_NS;

use super::Process;
use super::hold::NotHeld;
use super::threads::Threads;
use crate::executor::{self, TooManyTasks};
use crate::sync::atomic::Ordering;
use crate::sync::{LockLevel, Mutex};

/// Until when the process is held, ns of the monotonic clock, if a task keeps the hold. 0: it is to let go.
pub(super) struct Lease(Mutex<Option<u64>>);

impl Lease {
    /// None.
    pub(super) const fn new() -> Self {
        Self(Mutex::new(LockLevel::Fact, None))
    }

    /// Whether it ends before this.
    fn ends_before(&self, until_ns: u64) -> bool {
        self.0.lock().is_none_or(|lease_ns| lease_ns < until_ns)
    }
}

/// A hold that a task keeps.
struct Kept(Arc<Threads>);

impl Kept {
    /// Until when it is to be kept; `None`: no longer, and nobody can renew it any more.
    fn until(&self) -> Option<u64> {
        let mut lease = self.0.hold.lease.0.lock();
        let is_over = self.0.is_ending() || lease.is_none_or(|until_ns| until_ns <= executor::now_ns());
        if is_over {
            *lease = None;
        }
        *lease
    }

    async fn run_out(self) {
        while let Some(until_ns) = self.until() {
            let hold = &self.0.hold;
            let is_over = || (self.0.is_ending() || hold.lease.ends_before(until_ns)).then_some(());
            // It may have been renewed meanwhile.
            let _ = executor::timeout_at(until_ns, hold.changed.wait_until(is_over)).await;
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.hold.let_go();
    }
}

impl Process {
    /// Has its threads held for [`LEASE_NS`] from now on.
    ///
    /// # Errors
    /// [`TooManyTasks`]: there is nobody who would let go.
    pub(crate) fn lease(&self) -> Result<(), TooManyTasks> {
        let hold = &self.threads.hold;
        let before = hold.lease.0.lock().replace(executor::now_ns().saturating_add(LEASE_NS));
        if before.is_some() {
            return Ok(());
        }
        hold.holders.fetch_add(1, Ordering::AcqRel);
        let kept = Kept(Arc::clone(&self.threads));
        self.call_all();
        executor::spawn(kept.run_out()).map(drop).inspect_err(|_| *hold.lease.0.lock() = None)
    }

    /// Has them held for as long anew. Returns whether they still were.
    pub(crate) fn renew_lease(&self) -> bool {
        let now_ns = executor::now_ns();
        let mut lease = self.threads.hold.lease.0.lock();
        let is_held = lease.is_some_and(|until_ns| until_ns > now_ns);
        if is_held {
            *lease = Some(now_ns.saturating_add(LEASE_NS));
        }
        is_held
    }

    /// They need not be held any more for whoever looked.
    pub(crate) fn end_lease(&self) {
        if let Some(until_ns) = self.threads.hold.lease.0.lock().as_mut() {
            *until_ns = 0;
        }
        self.threads.hold.changed.wake_all();
    }

    /// Waits until all threads are held that are to be, or the monotonic clock shows `deadline_ns`.
    ///
    /// # Errors
    /// [`NotHeld`].
    pub(crate) async fn settled(&self, deadline_ns: u64) -> Result<(), NotHeld> {
        self.threads.settled(deadline_ns).await
    }

    /// Waits until the process is at its end, for somebody who holds it.
    pub(crate) async fn ending(&self) {
        self.threads.hold.changed.wait_until(|| self.threads.is_ending().then_some(())).await;
    }
}
