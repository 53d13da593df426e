//! Ends of ranks that are told together: those of a node mostly end at about the same time, and what the node holds
//! then is said once for all of them.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{RankReport, SyscallCount};
use crate::limits::ENDS_BYTES_MAX;
use crate::retain::RetainedProgram;
use crate::transfer::MemberCounts;

/// Ranks of a node that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// What the node holds now, the program that ran last first, files behind programs. At most
    /// [`crate::limits::RETAINED_PROGRAMS_MAX`] of these and [`crate::limits::KEPT_FILES_MAX`] of those.
    pub held: Vec<RetainedProgram>,
    /// What became of them, in the order in which they ended. So many that [`Ends::bytes`] is at most
    /// [`ENDS_BYTES_MAX`], or one.
    pub reports: Vec<RankReport>,
}

impl Ends {
    /// What the reports may take in a message, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.reports.iter().map(RankReport::bytes_max).sum()
    }

    /// Whether there is room for one more.
    #[must_use]
    pub fn has_room_for(&self, report: &RankReport) -> bool {
        self.reports.is_empty() || self.bytes() + report.bytes_max() <= ENDS_BYTES_MAX
    }
}

/// The longest that a number of 64 bits is in a message, bytes.
const NUMBER_BYTES_MAX: usize = 10;

/// The numbers of a report that are always there, with some room.
const NUMBERS: usize = 24;

impl RankReport {
    /// What it may take in a message, bytes.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let numbers = |size: usize| size.div_ceil(size_of::<u64>()) * NUMBER_BYTES_MAX;
        NUMBERS * NUMBER_BYTES_MAX
            + self.reason.as_ref().map_or(0, String::len)
            + self.syscalls.len() * numbers(size_of::<SyscallCount>())
            + self.transfers.len() * numbers(size_of::<MemberCounts>())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::Ends;
    use crate::control::{Exit, RankCounters, RankReport, SyscallCount};
    use crate::ids::{JobId, Rank};
    use crate::limits::{ENDS_BYTES_MAX, RAS_TEXT_BYTES_MAX, SYSCALL_NUMBERS_MAX};
    use crate::retain::{RankRetention, WalkCounts};
    use crate::transfer::MemberCounts;

    /// One whose numbers could not be longer.
    fn longest() -> RankReport {
        const N: u64 = u64::MAX;
        let count = SyscallCount { number: i32::MIN, calls: N, unknown: N };
        let counters = RankCounters {
            launch_ns: N,
            run_ns: N,
            page_faults: N,
            instruction_faults: N,
            pages_fetched: N,
            pages_peak: N,
            bytes_written: N,
            bytes_read: N,
            lookups: N,
            files_opened: N,
            file_pages_fetched: N,
            file_pages_found: N,
        };
        let walk = WalkCounts { kept: N, dropped: N, zeroed: N, discarded: N, walk_ns: N };
        let counts = MemberCounts { file: u8::MAX, asked: N, answered: N, wrong: N, crossed_bytes: N };
        RankReport {
            reason: Some("x".repeat(RAS_TEXT_BYTES_MAX)),
            counters,
            syscalls: vec![count; SYSCALL_NUMBERS_MAX + 1],
            retention: RankRetention { found: N, walk },
            barriers: N,
            transfers: vec![counts; 16],
            ..RankReport::ended(JobId(N), Rank(u32::MAX), Exit::Signal(255))
        }
    }

    #[test]
    fn a_report_takes_no_more_than_is_reckoned() {
        for report in [longest(), RankReport::ended(JobId(1), Rank(1), Exit::NotStarted)] {
            let bytes = postcard::to_allocvec(&report).unwrap().len();
            assert!(bytes <= report.bytes_max(), "{bytes} of {}", report.bytes_max());
        }
    }

    #[test]
    fn reports_are_told_together_up_to_a_limit() {
        let report = RankReport { reason: Some(String::from("why")), ..longest() };
        let mut ends = Ends::default();
        while ends.has_room_for(&report) {
            ends.reports.push(report.clone());
        }
        assert!(ends.reports.len() > 1 && ends.bytes() <= ENDS_BYTES_MAX);
        assert!(ends.bytes() + report.bytes_max() > ENDS_BYTES_MAX);
    }
}
