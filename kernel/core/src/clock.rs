//! What time it is: monotonic since boot, and the host's wall clock.
//!
//! The node has no battery-backed clock of its own. It is told the time at boot (personality) and with each ping, and
//! keeps the difference to its monotonic clock. A ping arrives a little late, so what it says is a little early: the
//! latest estimate wins, and only a large step back (the host's clock was set) is followed.

use core::sync::atomic::Ordering;

use crate::executor::{self, WallClock};

/// Smaller steps back are taken for a ping's delay, ns.
const STEP_BACK_NS_MIN: u64 = 1_000_000_000;

/// What is known of the wall clock. On the host each simulated node has its own.
fn wall() -> &'static WallClock {
    #[cfg(target_os = "none")]
    static WALL: WallClock = WallClock::new();
    #[cfg(target_os = "none")]
    return &WALL;
    #[cfg(not(target_os = "none"))]
    executor::wall_clock()
}

/// Monotonic time, ns since boot.
#[must_use]
pub fn monotonic_ns() -> u64 {
    executor::now_ns()
}

/// Wall-clock time, ns since 1970.
#[must_use]
pub fn realtime_ns() -> u64 {
    wall().offset_ns.load(Ordering::Relaxed).saturating_add(monotonic_ns())
}

/// The machine was started at this wall-clock time, ns since 1970.
pub fn set_boot_time(realtime_ns: u64) {
    wall().offset_ns.store(realtime_ns, Ordering::Relaxed);
}

/// Somebody said that it was `realtime_ns` a moment ago.
pub(crate) fn heard(realtime_ns: u64) {
    let (wall, heard) = (wall(), realtime_ns.saturating_sub(monotonic_ns()));
    let known = wall.offset_ns.load(Ordering::Relaxed);
    wall.off_ping_ns.store(known.abs_diff(heard), Ordering::Relaxed);
    wall.offset_ns.store(better_offset(known, heard), Ordering::Relaxed);
}

/// By how much the wall clock differed from what the last ping said when that came, ns: by what the ping was late on
/// its way, if it was, and by what the clock had fallen behind since the ping that it follows. 0 before the first one.
pub(crate) fn off_ping_ns() -> u64 {
    wall().off_ping_ns.load(Ordering::Relaxed)
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
