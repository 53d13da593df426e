//! How long a program's task had the processor.

use crate::sync::atomic::{AtomicU64, Ordering};

use super::platform;

/// The time a program's task had the processor, in all its turns. Only its core writes it.
#[derive(Debug)]
pub struct RunTime {
    /// In turns that are over, ns.
    used_ns: AtomicU64,
    /// When its turn began, ns of the monotonic clock; [`NO_TURN`]: it has none now.
    since_ns: AtomicU64,
}

/// [`RunTime::since_ns`] of what does not run.
const NO_TURN: u64 = u64::MAX;

impl RunTime {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { used_ns: AtomicU64::new(0), since_ns: AtomicU64::new(NO_TURN) }
    }

    /// Goes on from so much, ns, before its first turn.
    pub fn go_on_from(&self, used_ns: u64) {
        self.used_ns.store(used_ns, Ordering::Release);
    }

    /// A turn begins.
    #[inline]
    pub(super) fn begin(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The turn ends after so long.
    #[inline]
    pub(super) fn end(&self, turn_ns: u64) {
        // Whoever looks between the two misses a turn for a moment, rather than having it twice.
        self.since_ns.store(NO_TURN, Ordering::Release);
        self.used_ns.store(self.used_ns.load(Ordering::Relaxed).saturating_add(turn_ns), Ordering::Release);
    }

    /// The time so far, ns, that of a turn under way included.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let used_ns = self.used_ns.load(Ordering::Acquire);
        match self.since_ns.load(Ordering::Acquire) {
            NO_TURN => used_ns,
            since_ns => used_ns.saturating_add(platform::now_ns().saturating_sub(since_ns)),
        }
    }
}

impl Default for RunTime {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::platform;
    use super::RunTime;

    #[test]
    fn only_turns_count() {
        let time = RunTime::new();
        platform::advance_to(1_000);
        assert_eq!(time.ns(), 0);
        time.begin(1_000);
        platform::advance_to(1_300);
        assert_eq!(time.ns(), 300);
        time.end(300);
        platform::advance_to(5_000);
        assert_eq!(time.ns(), 300);
        time.begin(5_000);
        platform::advance_to(5_100);
        assert_eq!(time.ns(), 400);
    }
}
