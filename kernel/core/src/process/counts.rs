//! How often a process made which system call.
//!
//! Counting is on the way of every call, so each core counts for itself: an addition at an index, to which no other
//! core writes. Threads find their core's counts when they come to it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::sync::{LockLevel, Mutex};
use coppice_protocol::control::SyscallCount;
use coppice_protocol::limits::SYSCALL_NUMBERS_MAX;

/// Unknown calls of one process that are told as events, by number; a program that tries them all is not to drown
/// everything else. All are counted.
const UNKNOWN_TOLD_MAX: usize = 16;

/// Number under which all are counted and told for which there is no place of their own.
const OTHERS: i32 = -1;

/// The counts of a process.
pub(crate) struct Counts {
    cores: Mutex<BTreeMap<usize, Arc<CoreCounts>>>,
    /// Unknown numbers that were told.
    told: Mutex<BTreeSet<i32>>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { cores: Mutex::new(LockLevel::Fact, BTreeMap::new()), told: Mutex::new(LockLevel::Fact, BTreeSet::new()) }
    }
}

/// What a process's threads on one core have counted. Only that core writes to it.
pub(crate) struct CoreCounts {
    by_number: Box<[Count]>,
    /// All numbers beyond those.
    others: Count,
}

#[derive(Default)]
struct Count {
    calls: AtomicU64,
    unknown: AtomicU64,
}

/// Adds to a number that no other core writes to.
#[inline]
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl CoreCounts {
    fn new() -> Self {
        Self { by_number: (0..SYSCALL_NUMBERS_MAX).map(|_| Count::default()).collect(), others: Count::default() }
    }

    #[inline]
    fn of(&self, number: u64) -> &Count {
        usize::try_from(number).ok().and_then(|number| self.by_number.get(number)).unwrap_or(&self.others)
    }

    /// A call was made.
    #[inline]
    pub(crate) fn made(&self, number: u64) {
        add(&self.of(number).calls, 1);
    }

    /// The call that was counted last will be made, and counted, again.
    pub(crate) fn undo(&self, number: u64) {
        add(&self.of(number).calls, 1_u64.wrapping_neg());
    }

    /// The call is none that Coppice has.
    fn unknown(&self, number: u64) {
        add(&self.of(number).unknown, 1);
    }
}

impl Counts {
    /// Where threads on a core count.
    pub(crate) fn on(&self, core: usize) -> Arc<CoreCounts> {
        Arc::clone(self.cores.lock().entry(core).or_insert_with(|| Arc::new(CoreCounts::new())))
    }

    /// A call on the core of `counts` is none that Coppice has. Returns whether that is news: the first by that number,
    /// and one of the first [`UNKNOWN_TOLD_MAX`] numbers.
    pub(crate) fn unknown(&self, counts: &CoreCounts, number: u64) -> bool {
        counts.unknown(number);
        let number = i32::try_from(number).ok().filter(|number| (*number as usize) < SYSCALL_NUMBERS_MAX);
        let mut told = self.told.lock();
        told.len() < UNKNOWN_TOLD_MAX && told.insert(number.unwrap_or(OTHERS))
    }

    /// What was counted, by number.
    pub(crate) fn report(&self) -> Vec<SyscallCount> {
        // An overlay asks again and again, so numbers that were never called are to cost next to nothing.
        let cores = self.cores.lock();
        let mut called = [0_u64; SYSCALL_NUMBERS_MAX.div_ceil(64)];
        for core in cores.values() {
            for (some, called) in core.by_number.chunks(64).zip(&mut called) {
                for (place, count) in some.iter().enumerate() {
                    *called |= u64::from(count.calls.load(Ordering::Relaxed) > 0) << place;
                }
            }
        }
        let mut report =
            Vec::with_capacity(1 + called.iter().map(|called| called.count_ones() as usize).sum::<usize>());
        let mut add = |number, of: &dyn Fn(&CoreCounts) -> &Count| {
            let mut sum = SyscallCount { number, calls: 0, unknown: 0 };
            for count in cores.values().map(|core| of(core)) {
                sum.calls = sum.calls.wrapping_add(count.calls.load(Ordering::Relaxed));
                sum.unknown = sum.unknown.wrapping_add(count.unknown.load(Ordering::Relaxed));
            }
            if sum.calls > 0 {
                report.push(sum);
            }
        };
        for (index, number) in (0..SYSCALL_NUMBERS_MAX).zip(0..) {
            if called[index / 64] & 1 << (index % 64) != 0 {
                add(number, &|core| &core.by_number[index]);
            }
        }
        add(OTHERS, &|core| &core.others);
        report
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::control::SyscallCount;

    use super::Counts;

    #[test]
    fn numbers_are_counted_apart_and_wild_ones_together() {
        let counts = Counts::default();
        let (here, there) = (counts.on(0), counts.on(1));
        for number in [1, 39, 512, u64::MAX] {
            here.made(number);
        }
        there.made(1);
        here.undo(39);
        assert!(counts.unknown(&here, 512));
        assert!(!counts.unknown(&there, u64::MAX));
        let report = counts.report();
        assert_eq!(
            report,
            [SyscallCount { number: 1, calls: 2, unknown: 0 }, SyscallCount { number: -1, calls: 2, unknown: 2 },]
        );
    }

    #[test]
    fn unknown_calls_are_told_once_and_not_for_ever() {
        let counts = Counts::default();
        let (here, there) = (counts.on(0), counts.on(1));
        assert!(counts.unknown(&here, 400) && !counts.unknown(&here, 400) && !counts.unknown(&there, 400));
        let told = (401..500).filter(|number| counts.unknown(&there, *number)).count();
        assert_eq!(told, super::UNKNOWN_TOLD_MAX - 1);
    }
}
