//! Wall-clock time as it is recorded.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The host's clock when it was last looked at, and how long ago that was by one that is never set: between two looks
/// time passes evenly, so that what is recorded as a duration is one, also if somebody sets the host's clock meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    looked: Instant,
    realtime_ns: u64,
}

impl Clock {
    /// Looks at the host's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Instant::now(), realtime_ns())
    }

    /// A clock that showed this then.
    #[must_use]
    pub fn at(looked: Instant, realtime_ns: u64) -> Self {
        Self { looked, realtime_ns }
    }

    /// What it shows at a later time, ns since 1970.
    #[must_use]
    pub fn realtime_ns(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.looked).as_nanos();
        self.realtime_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Now, ns since 1970.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Clock;

    #[test]
    fn time_passes_evenly_whatever_the_host_says() {
        let looked = Instant::now();
        let clock = Clock::at(looked, 1_000);
        assert_eq!(clock.realtime_ns(looked + Duration::from_nanos(7)), 1_007);
        assert_eq!(clock.realtime_ns(looked), 1_000);
        // A look at another time of the host's changes what is shown from then on.
        let later = looked + Duration::from_secs(1);
        assert_eq!(Clock::at(later, 5).realtime_ns(later + Duration::from_nanos(1)), 6);
    }
}
