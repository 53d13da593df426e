//! Which signals are pending, for a look without the lock, and who wants to be told: signalfd(2)'s side of signals.
//!
//! There is one per process, from the first signalfd on.

use alloc::sync::Arc;

use super::readiness::Watchers;
use crate::abi::signal_set::SignalSet;
use crate::quota::Quota;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See this module.
pub(crate) struct SignalBoard {
    /// What is pending for the process or any of its threads.
    pending: AtomicU64,
    /// Who is told when a signal comes.
    pub(crate) watchers: Watchers,
}

impl SignalBoard {
    pub(crate) fn new(quota: &Arc<Quota>) -> Self {
        Self { pending: AtomicU64::new(0), watchers: Watchers::new(quota) }
    }

    /// What is pending for the process or any of its threads.
    pub(crate) fn pending(&self) -> SignalSet {
        SignalSet(self.pending.load(Ordering::Acquire))
    }

    /// Says what is pending now, and, if a signal `came`, tells those who want to know.
    pub(crate) fn post(&self, pending: SignalSet, came: bool) {
        self.pending.store(pending.0, Ordering::Release);
        if came {
            self.watchers.notify();
        }
    }
}

impl core::fmt::Debug for SignalBoard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SignalBoard({:?})", self.pending())
    }
}
