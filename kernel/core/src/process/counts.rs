//! How often a process made which system call.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::control::SyscallCount;
use coppice_protocol::limits::SYSCALL_NUMBERS_MAX;

/// Counts by number. Counting is one addition at an index, because it is on the way of every call.
pub(crate) struct Counts {
    by_number: Box<[Count; SYSCALL_NUMBERS_MAX]>,
    /// All numbers beyond those.
    others: Count,
    /// How many different numbers were unknown.
    unknown_numbers: u32,
}

/// Unknown calls of one process that are told as events, by number; a program that tries them all is not to drown
/// everything else. All are counted.
const UNKNOWN_TOLD_MAX: u32 = 16;

#[derive(Clone, Copy, Default)]
struct Count {
    calls: u64,
    unknown: u64,
}

impl Counts {
    /// All zero.
    pub(crate) fn new() -> Self {
        // Made on the heap: the kernel's stack is small.
        let by_number = vec![Count::default(); SYSCALL_NUMBERS_MAX].into_boxed_slice();
        Self {
            by_number: by_number.try_into().unwrap_or_else(|_| unreachable!("as many as were made")),
            others: Count::default(),
            unknown_numbers: 0,
        }
    }

    #[inline]
    fn of(&mut self, number: u64) -> &mut Count {
        match usize::try_from(number).ok().and_then(|number| self.by_number.get_mut(number)) {
            Some(count) => count,
            None => &mut self.others,
        }
    }

    /// A call was made.
    #[inline]
    pub(crate) fn made(&mut self, number: u64) {
        self.of(number).calls += 1;
    }

    /// The call that was counted last will be made, and counted, again.
    pub(crate) fn undo(&mut self, number: u64) {
        self.of(number).calls -= 1;
    }

    /// The call is none that Coppice has. Returns whether that is news: the first by that number, and one of the first
    /// [`UNKNOWN_TOLD_MAX`] numbers.
    pub(crate) fn unknown(&mut self, number: u64) -> bool {
        let count = self.of(number);
        count.unknown += 1;
        let is_first = count.unknown == 1;
        self.unknown_numbers += u32::from(is_first);
        is_first && self.unknown_numbers <= UNKNOWN_TOLD_MAX
    }

    /// What was counted, by number.
    pub(crate) fn report(&self) -> Vec<SyscallCount> {
        let by_number = self.by_number.iter().zip(0..);
        by_number
            .chain([(&self.others, -1)])
            .filter(|(count, _)| count.calls > 0)
            .map(|(count, number)| SyscallCount { number, calls: count.calls, unknown: count.unknown })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::control::SyscallCount;

    use super::Counts;

    #[test]
    fn numbers_are_counted_apart_and_wild_ones_together() {
        let mut counts = Counts::new();
        for number in [1, 1, 39, 512, u64::MAX] {
            counts.made(number);
        }
        counts.undo(39);
        assert!(counts.unknown(512));
        assert!(!counts.unknown(u64::MAX));
        let report = counts.report();
        assert_eq!(
            report,
            [SyscallCount { number: 1, calls: 2, unknown: 0 }, SyscallCount { number: -1, calls: 2, unknown: 2 },]
        );
    }
}
