//! A thread notes where it is in its program, now and then, if somebody wants to know ([`crate::process::profile`]).
//!
//! It has its core come back when it has been in its program for about a period since the last time, however often it
//! came back by itself in between. How long that is exactly is random, a quarter more or less, so that nothing the
//! program does at regular intervals is seen more often than it is there. If it comes back late, because the core, or
//! the host below it, did something else, that counts as as many looks as were due by then: what is seen of a place is
//! the time that was spent there, as other clocks have it.

use coppice_protocol::limits::OVERLAY_STACK_DEPTH_MAX;

use super::Thread;

/// When a thread is next looked at.
pub(super) struct Sampling {
    /// How long it is in its program until then, ns; 0: that is not known.
    left_ns: u64,
    /// Where the random numbers are.
    noise: u64,
}

impl Sampling {
    /// Not yet. Those of different seeds have nothing in common.
    pub(super) const fn new(seed: u64) -> Self {
        Self { left_ns: 0, noise: seed.wrapping_mul(0xd134_2543_de82_ef95) }
    }

    /// How long it is in its program until it is looked at, ns, if it is every `period_ns` on average.
    #[inline]
    pub(super) fn left_ns(&mut self, period_ns: u64) -> u64 {
        // One that begins is anywhere in between.
        if self.left_ns == 0 || self.left_ns > period_ns.saturating_mul(2) {
            self.left_ns = 1 + self.random() % period_ns.max(1);
        }
        self.left_ns
    }

    /// It has been in its program for so long. How many looks are due now.
    #[inline]
    pub(super) fn due(&mut self, period_ns: u64, stay_ns: u64) -> u64 {
        let Some(late_ns) = stay_ns.checked_sub(self.left_ns) else {
            self.left_ns -= stay_ns;
            return 0;
        };
        let period_ns = period_ns.max(1);
        self.left_ns = self.next(period_ns).saturating_sub(late_ns % period_ns).max(1);
        1 + late_ns / period_ns
    }

    /// From three quarters of a period to five quarters.
    fn next(&mut self, period_ns: u64) -> u64 {
        let quarter = period_ns / 4;
        (period_ns - quarter + self.random() % (2 * quarter + 1)).max(1)
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.noise = self.noise.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.noise ^ self.noise >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Thread {
    /// It has just come back, with the registers that it had in its program, when so many looks were due.
    #[cold]
    #[inline(never)]
    pub(super) fn note_where_it_is(&self, looks: u64) {
        let regs = &self.user.regs;
        let mut stack = [0; OVERLAY_STACK_DEPTH_MAX];
        let count = self.process.space.lock().calls(regs.rip, regs.rsp, regs.rbp, &mut stack);
        self.process.profile.add(stack.get(..count).unwrap_or_default(), looks);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Sampling;

    #[test]
    fn looks_are_a_period_apart_on_average_and_no_two_alike() {
        const PERIOD_NS: u64 = 1_000_001;
        let mut sampling = Sampling::new(7);
        assert!((1..=PERIOD_NS).contains(&sampling.left_ns(PERIOD_NS)));
        let mut next = || {
            let left_ns = sampling.left_ns(PERIOD_NS);
            assert_eq!(sampling.due(PERIOD_NS, left_ns), 1);
            sampling.left_ns(PERIOD_NS)
        };
        let all: Vec<u64> = (0..10_000).map(|_| next()).collect();
        assert!(all.iter().all(|ns| (750_000..=1_250_002).contains(ns)));
        let mean = all.iter().sum::<u64>() / all.len() as u64;
        assert!(mean.abs_diff(PERIOD_NS) < PERIOD_NS / 100, "{mean} ns");
        let early = all.iter().filter(|ns| **ns < PERIOD_NS).count();
        assert!((4_800..5_200).contains(&early), "{early} came early");
    }

    #[test]
    fn stays_that_are_short_add_up() {
        let mut sampling = Sampling::new(8);
        let due = (0..1_000_000).map(|_| {
            sampling.left_ns(1_000);
            sampling.due(1_000, 10)
        });
        let count: u64 = due.sum();
        assert!((9_900..10_100).contains(&count), "{count} looks");
    }

    #[test]
    fn who_is_late_has_as_many_looks_as_were_due() {
        let mut sampling = Sampling::new(10);
        let (mut looks, mut all_ns) = (0, 0);
        for stay_ns in (0..1_000).map(|number| if number % 10 == 0 { 70_300 } else { 400 }) {
            sampling.left_ns(1_000);
            looks += sampling.due(1_000, stay_ns);
            all_ns += stay_ns;
        }
        assert!(looks.abs_diff(all_ns / 1_000) < all_ns / 1_000 / 50, "{looks} looks in {all_ns} ns");
    }

    #[test]
    fn another_period_holds_at_once() {
        let mut sampling = Sampling::new(9);
        assert!(sampling.left_ns(1 << 50) > 1 << 20);
        assert!(sampling.left_ns(1_000) <= 2_000);
        assert!(sampling.left_ns(3) <= 6);
    }
}
