//! Which signals are pending, for a look without the lock, and who wants to be told: signalfd(2)'s side of signals.
//!
//! There is one per process, from the first signalfd on.

use alloc::sync::Arc;

use crate::sync::atomic::{AtomicU64, Ordering};

use crate::abi::signal_set::SignalSet;
use crate::files::readiness::Watchers;
use crate::quota::Quota;

/// See this module.
pub(crate) struct Board {
    /// What is pending for the process or any of its threads.
    pending: AtomicU64,
    /// Who is told when a signal comes.
    pub(crate) watchers: Watchers,
}

impl Board {
    pub(super) fn new(quota: &Arc<Quota>) -> Self {
        Self { pending: AtomicU64::new(0), watchers: Watchers::new(quota) }
    }

    /// What is pending for the process or any of its threads.
    pub(crate) fn pending(&self) -> SignalSet {
        SignalSet(self.pending.load(Ordering::Acquire))
    }

    /// Says what is pending now, and, if a signal `came`, tells those who want to know.
    pub(super) fn post(&self, pending: SignalSet, came: bool) {
        self.pending.store(pending.0, Ordering::Release);
        if came {
            self.watchers.notify();
        }
    }
}

impl core::fmt::Debug for Board {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Board({:?})", self.pending())
    }
}
