//! Clocks that run fast or slow: of a boot of a node, and of an I/O node.

use super::queue::SECOND_NS;
use crate::random::Random;

/// How far off most clocks are, parts in a million: what crystals are like that were never trimmed.
const DRIFT_PPM_MAX: u64 = 500;
/// One clock of so many is worse, as those of virtual machines are at times, by so much.
const BAD_ONE_IN: u64 = 10;
const BAD_DRIFT_PPM: (u64, u64) = (1000, 5000);
const MILLION: u128 = 1_000_000;

/// A clock that began at 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// When it began, ns.
    begun_ns: u64,
    /// What it shows after a second, µs.
    rate: u64,
}

impl Clock {
    /// One that begins now.
    pub(super) fn draw(random: &mut Random, now_ns: u64) -> Self {
        let (least, most) = if random.between(1, BAD_ONE_IN) == 1 { BAD_DRIFT_PPM } else { (0, DRIFT_PPM_MAX) };
        let drift = random.between(least, most);
        let rate = if random.chance(500) { 1_000_000 + drift } else { 1_000_000 - drift };
        Self { begun_ns: now_ns, rate }
    }

    /// Begins anew.
    pub(super) fn reset(&mut self, now_ns: u64) {
        self.begun_ns = now_ns;
    }

    /// What it shows, ns.
    pub(super) fn shows_ns(&self, now_ns: u64) -> u64 {
        let passed = u128::from(now_ns.saturating_sub(self.begun_ns));
        u64::try_from(passed * u128::from(self.rate) / MILLION).unwrap_or(u64::MAX)
    }

    /// The first moment at which it shows that much, ns; never, `u64::MAX`, is never.
    pub(super) fn when_ns(&self, shown_ns: u64) -> u64 {
        if shown_ns == u64::MAX {
            return u64::MAX;
        }
        let passed = (u128::from(shown_ns) * MILLION).div_ceil(u128::from(self.rate));
        self.begun_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// How far somebody sets the service node's clock at most, forwards or back, ns: hours, or a little.
pub(super) const SET_NS_MAX: u64 = 12 * 3600 * SECOND_NS;

#[cfg(test)]
mod tests {
    use super::{Clock, DRIFT_PPM_MAX};
    use crate::random::Random;

    #[test]
    fn what_is_due_is_due_when_it_is_looked_at_and_not_before() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let begun_ns = random.delay(1 << 40);
            let clock = Clock::draw(&mut random, begun_ns);
            let shown_ns = random.delay(1 << 40);
            let at_ns = clock.when_ns(shown_ns);
            assert!(clock.shows_ns(at_ns) >= shown_ns);
            assert!(at_ns == begun_ns || clock.shows_ns(at_ns - 1) < shown_ns);
        }
        assert!((0..100).all(|begun_ns| Clock::draw(&mut random, begun_ns).when_ns(u64::MAX) == u64::MAX));
    }

    #[test]
    fn most_are_a_little_off_and_some_are_worse() {
        let mut random = Random::new(2);
        let rates: Vec<u64> = (0..1000).map(|_| Clock::draw(&mut random, 0).rate).collect();
        let bad = rates.iter().filter(|rate| rate.abs_diff(1_000_000) > DRIFT_PPM_MAX).count();
        assert!((50..200).contains(&bad), "{bad}");
        assert!(rates.iter().any(|rate| *rate > 1_001_000) && rates.iter().any(|rate| *rate < 999_000));
    }
}
