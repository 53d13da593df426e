//! The clocks: one that only goes forward, for protocols, and the host's time of day, for nodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// A monotonic clock that starts at 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// What it shows, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        ns(self.start.elapsed())
    }

    /// When it shows `at_ns`.
    #[must_use]
    pub fn instant(&self, at_ns: u64) -> Instant {
        self.start + Duration::from_nanos(at_ns)
    }
}

/// The host's `CLOCK_MONOTONIC`.
pub(crate) fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.try_into().unwrap_or_default()
}

/// The host's `CLOCK_REALTIME`, ns since 1970.
#[must_use]
pub fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ns(since)
}

/// A duration, ns.
#[must_use]
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Random bytes from the host's generator.
///
/// # Errors
/// If the host has none.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
