//! The host's monotonic clock.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the clock was first asked.
#[must_use]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// There is no alarm on the host: [`super::cpu::wait_for_interrupt`] returns after a short time anyway.
pub fn set_alarm(_at_ns: Option<u64>) {}
