//! What a node knows of the wall clock; [`crate::clock`] keeps it.

use core::sync::atomic::AtomicU64;
#[cfg(not(target_os = "none"))]
use core::sync::atomic::Ordering;

/// See this module.
pub(crate) struct WallClock {
    /// `CLOCK_REALTIME` minus monotonic time, ns.
    pub(crate) offset_ns: AtomicU64,
    /// By how much it differed from the last ping when that came, ns.
    pub(crate) off_ping_ns: AtomicU64,
}

impl WallClock {
    /// That of a node that was told nothing.
    pub(crate) const fn new() -> Self {
        Self { offset_ns: AtomicU64::new(0), off_ping_ns: AtomicU64::new(0) }
    }

    /// As new.
    #[cfg(not(target_os = "none"))]
    pub(super) fn reset(&self) {
        self.offset_ns.store(0, Ordering::Relaxed);
        self.off_ping_ns.store(0, Ordering::Relaxed);
    }
}
