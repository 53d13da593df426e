//! What time it is: monotonic since boot, and the host's wall clock.
//!
//! The node has no battery-backed clock of its own. It is told the time at boot (personality) and with each ping, and
//! keeps the difference to its monotonic clock. A ping arrives a little late, so what it says is a little early: the
//! latest estimate wins, and only a large step back (the host's clock was set) is followed.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::executor;

/// Smaller steps back are taken for a ping's delay, ns.
const STEP_BACK_NS_MIN: u64 = 1_000_000_000;

/// `CLOCK_REALTIME` minus monotonic time, ns. On the host each simulated node has its own.
fn offset_ns() -> &'static AtomicU64 {
    #[cfg(target_os = "none")]
    static OFFSET_NS: AtomicU64 = AtomicU64::new(0);
    #[cfg(target_os = "none")]
    return &OFFSET_NS;
    #[cfg(not(target_os = "none"))]
    executor::realtime_offset_ns()
}

/// Monotonic time, ns since boot.
#[must_use]
pub fn monotonic_ns() -> u64 {
    executor::now_ns()
}

/// Wall-clock time, ns since 1970.
#[must_use]
pub fn realtime_ns() -> u64 {
    offset_ns().load(Ordering::Relaxed).saturating_add(monotonic_ns())
}

/// The machine was started at this wall-clock time, ns since 1970.
pub fn set_boot_time(realtime_ns: u64) {
    offset_ns().store(realtime_ns, Ordering::Relaxed);
}

/// Somebody said that it was `realtime_ns` a moment ago.
pub(crate) fn heard(realtime_ns: u64) {
    let known = offset_ns().load(Ordering::Relaxed);
    offset_ns().store(better_offset(known, realtime_ns.saturating_sub(monotonic_ns())), Ordering::Relaxed);
}

fn better_offset(known_ns: u64, heard_ns: u64) -> u64 {
    if heard_ns.saturating_add(STEP_BACK_NS_MIN) < known_ns { heard_ns } else { known_ns.max(heard_ns) }
}

#[cfg(test)]
mod tests {
    use super::{STEP_BACK_NS_MIN, better_offset};

    #[test]
    fn the_least_delayed_ping_wins() {
        assert_eq!(better_offset(1000, 1500), 1500);
        assert_eq!(better_offset(1500, 1000), 1500);
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed() {
        assert_eq!(better_offset(STEP_BACK_NS_MIN * 3, STEP_BACK_NS_MIN), STEP_BACK_NS_MIN);
    }
}
