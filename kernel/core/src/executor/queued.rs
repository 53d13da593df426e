//! Whether a task is in its core's queue: at most once, and whatever was done before it was woken is seen when it is
//! polled, whoever woke it.

use super::atomic::{AtomicBool, Ordering};

/// The flag of a task.
pub(super) struct Queued(AtomicBool);

impl Queued {
    /// Over a flag that is down.
    pub(super) const fn of(flag: AtomicBool) -> Self {
        Self(flag)
    }

    /// The task is woken. Returns whether it has to be queued.
    pub(super) fn wake(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The task was taken out of the queue and is polled now. Not a mere store: who woke it while it was queued did
    /// something before, which the poll is to see.
    pub(super) fn taken(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
