//! How often a process made which system call.

use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::control::SyscallCount;
use coppice_protocol::limits::SYSCALL_NUMBERS_MAX;

/// Counts by number; all numbers beyond [`SYSCALL_NUMBERS_MAX`] share the last place. Counting is one addition at an
/// index, because it is on the way of every call.
pub(crate) struct Counts {
    calls: Vec<u64>,
    unknown: Vec<u64>,
}

/// Where a number is counted.
fn place(number: u64) -> usize {
    usize::try_from(number).map_or(SYSCALL_NUMBERS_MAX, |number| number.min(SYSCALL_NUMBERS_MAX))
}

impl Counts {
    /// All zero.
    pub(crate) fn new() -> Self {
        Self { calls: vec![0; SYSCALL_NUMBERS_MAX + 1], unknown: vec![0; SYSCALL_NUMBERS_MAX + 1] }
    }

    /// A call was made.
    #[inline]
    pub(crate) fn made(&mut self, number: u64) {
        self.calls[place(number)] += 1;
    }

    /// The call that was counted last will be made, and counted, again.
    pub(crate) fn undo(&mut self, number: u64) {
        let calls = &mut self.calls[place(number)];
        *calls = calls.saturating_sub(1);
    }

    /// The call is none that Coppice has. Returns whether it is the first by that number.
    pub(crate) fn unknown(&mut self, number: u64) -> bool {
        let unknown = &mut self.unknown[place(number)];
        *unknown += 1;
        *unknown == 1
    }

    /// What was counted, by number.
    pub(crate) fn report(&self) -> Vec<SyscallCount> {
        let counted = self.calls.iter().zip(&self.unknown).enumerate();
        counted
            .filter(|(_, (calls, _))| **calls > 0)
            .map(|(index, (calls, unknown))| SyscallCount {
                number: i32::try_from(index).ok().filter(|_| index < SYSCALL_NUMBERS_MAX).unwrap_or(-1),
                calls: *calls,
                unknown: *unknown,
            })
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
