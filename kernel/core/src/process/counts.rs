//! How often a process made which system call.
//!
//! Counting is on the way of every call, so each core counts for itself: an addition at an index, to which no other
//! core writes. Threads find their core's counts when they come to it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
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
    /// How often each of the unknown numbers was called, which is rare.
    unknown: Mutex<BTreeMap<i32, u64>>,
}

impl Default for Counts {
    fn default() -> Self {
        let (cores, unknown) = (BTreeMap::new(), BTreeMap::new());
        Self { cores: Mutex::new(LockLevel::Fact, cores), unknown: Mutex::new(LockLevel::Fact, unknown) }
    }
}

/// What a process's threads on one core have counted. Only that core writes to it.
pub(crate) struct CoreCounts {
    by_number: Box<[AtomicU64]>,
    /// All numbers beyond those.
    others: AtomicU64,
}

/// Adds to a number that no other core writes to.
#[inline]
fn add(to: &AtomicU64, count: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

impl CoreCounts {
    fn new() -> Self {
        Self { by_number: (0..SYSCALL_NUMBERS_MAX).map(|_| AtomicU64::new(0)).collect(), others: AtomicU64::new(0) }
    }

    #[inline]
    fn of(&self, number: u64) -> &AtomicU64 {
        usize::try_from(number).ok().and_then(|number| self.by_number.get(number)).unwrap_or(&self.others)
    }

    /// A call was made.
    #[inline]
    pub(crate) fn made(&self, number: u64) {
        add(self.of(number), 1);
    }

    /// The call that was counted last will be made, and counted, again.
    pub(crate) fn undo(&self, number: u64) {
        add(self.of(number), 1_u64.wrapping_neg());
    }
}

impl Counts {
    /// Where threads on a core count.
    pub(crate) fn on(&self, core: usize) -> Arc<CoreCounts> {
        Arc::clone(self.cores.lock().entry(core).or_insert_with(|| Arc::new(CoreCounts::new())))
    }

    /// A call is none that Coppice has. Returns whether that is news: the first by that number, and one of the first
    /// [`UNKNOWN_TOLD_MAX`] numbers.
    pub(crate) fn unknown(&self, number: u64) -> bool {
        let number = i32::try_from(number).ok().filter(|number| (*number as usize) < SYSCALL_NUMBERS_MAX);
        let mut unknown = self.unknown.lock();
        let before = unknown.len();
        let count = unknown.entry(number.unwrap_or(OTHERS)).or_default();
        *count += 1;
        before < UNKNOWN_TOLD_MAX && *count == 1
    }

    /// What was counted, by number.
    pub(crate) fn report(&self) -> Vec<SyscallCount> {
        let unknown = self.unknown.lock().clone();
        let cores = self.cores.lock();
        let count = |number, of: &dyn Fn(&CoreCounts) -> u64| {
            let calls = cores.values().map(|core| of(core)).fold(0, u64::wrapping_add);
            SyscallCount { number, calls, unknown: unknown.get(&number).copied().unwrap_or(0) }
        };
        let by_number = (0..SYSCALL_NUMBERS_MAX)
            .zip(0..)
            .map(|(index, number)| count(number, &|core: &CoreCounts| core.by_number[index].load(Ordering::Relaxed)));
        let others = count(OTHERS, &|core: &CoreCounts| core.others.load(Ordering::Relaxed));
        by_number.chain([others]).filter(|count| count.calls > 0).collect()
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
        assert!(counts.unknown(512));
        assert!(!counts.unknown(u64::MAX));
        let report = counts.report();
        assert_eq!(
            report,
            [SyscallCount { number: 1, calls: 2, unknown: 0 }, SyscallCount { number: -1, calls: 2, unknown: 2 },]
        );
    }

    #[test]
    fn unknown_calls_are_told_once_and_not_for_ever() {
        let counts = Counts::default();
        assert!(counts.unknown(400) && !counts.unknown(400) && !counts.unknown(400));
        let told = (401..500).filter(|number| counts.unknown(*number)).count();
        assert_eq!(told, super::UNKNOWN_TOLD_MAX - 1);
    }
}
