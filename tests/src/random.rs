//! Random numbers of a seed, and what tests are told from outside.

use std::time::Duration;

/// Numbers that follow from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed. Seeds next to each other have nothing in common.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// A time below that many milliseconds, to the microsecond.
    pub fn time_below(&mut self, milliseconds: u64) -> Duration {
        Duration::from_micros(self.below(milliseconds * 1000))
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The number in a variable, if there is one.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn told(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}
