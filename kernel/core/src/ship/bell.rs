//! What wakes those who wait for people or for others' locks: the I/O node says when it is worth trying again.

use crate::executor::WaitQueue;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rung when something may have become possible that was refused before.
pub(crate) struct Bell {
    /// How often it was rung.
    count: AtomicU64,
    waiting: WaitQueue,
}

impl Bell {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), waiting: WaitQueue::new() }
    }

    /// How often it was rung: to be asked before one tries.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until it is rung, if that was not since `count`.
    pub(crate) async fn rung_since(&self, count: u64) {
        self.waiting.wait_until(|| (self.count() != count).then_some(())).await;
    }

    /// Has all try again.
    pub(super) fn ring(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.waiting.wake_all();
    }
}

/// The bells of a rank.
pub(crate) struct Bells {
    /// There is room for output.
    pub(crate) output: Bell,
    /// There is input.
    pub(crate) input: Bell,
    /// A lock may be had.
    pub(crate) lock: Bell,
    /// How many waits for locks there were.
    pub(super) lock_waits: AtomicU32,
}

impl Bells {
    pub(super) const fn new() -> Self {
        Self { output: Bell::new(), input: Bell::new(), lock: Bell::new(), lock_waits: AtomicU32::new(0) }
    }
}
