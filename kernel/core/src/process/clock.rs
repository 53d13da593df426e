//! The clock of a process: the node's monotonic clock, moved by as much as makes it go on from where it stood when the
//! process was taken up again elsewhere. What a process knows of time (deadlines, timers, what clocks say) is by this
//! one; what its kernel waits for is by the node's.

use crate::clock;
use crate::sync::atomic::{AtomicI64, Ordering};

/// See this module.
pub(crate) struct ProcessClock {
    /// What it is ahead of the node's, ns.
    ahead_ns: AtomicI64,
}

impl ProcessClock {
    /// The node's.
    pub(crate) const fn new() -> Self {
        Self { ahead_ns: AtomicI64::new(0) }
    }

    /// What it shows, ns.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.of_node(clock::monotonic_ns())
    }

    /// From now on it shows this time, ns.
    pub(crate) fn set(&self, now_ns: u64) {
        self.ahead_ns.store(now_ns.wrapping_sub(clock::monotonic_ns()).cast_signed(), Ordering::Relaxed);
    }

    /// What it shows when the node's shows `node_ns`. [`u64::MAX`] stands for never, on both.
    pub(crate) fn of_node(&self, node_ns: u64) -> u64 {
        moved(node_ns, self.ahead_ns.load(Ordering::Relaxed))
    }

    /// What the node's shows when it shows `own_ns`.
    pub(crate) fn on_node(&self, own_ns: u64) -> u64 {
        moved(own_ns, self.ahead_ns.load(Ordering::Relaxed).saturating_neg())
    }
}

fn moved(at_ns: u64, by_ns: i64) -> u64 {
    if at_ns == u64::MAX { at_ns } else { at_ns.saturating_add_signed(by_ns) }
}

#[cfg(test)]
mod tests {
    use super::ProcessClock;
    use crate::executor;

    #[test]
    fn a_clock_goes_on_from_where_it_was_set() {
        let clock = ProcessClock::new();
        let node_ns = executor::now_ns();
        assert_eq!((clock.now_ns(), clock.on_node(77)), (node_ns, 77));
        clock.set(node_ns + 5_000);
        assert_eq!((clock.now_ns(), clock.on_node(clock.now_ns() + 10)), (node_ns + 5_000, node_ns + 10));
        assert!(executor::run_to_end(executor::sleep(30)).is_ok());
        assert_eq!(clock.now_ns(), node_ns + 5_030);
        clock.set(3);
        // What was to be before the node began is over; what is never, is so on both clocks.
        assert_eq!((clock.of_node(0), clock.on_node(u64::MAX), clock.of_node(u64::MAX)), (0, u64::MAX, u64::MAX));
    }
}
