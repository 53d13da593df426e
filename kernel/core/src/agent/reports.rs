//! The reports of ranks that ended last, for orders that come twice.
//!
//! They stay for as long as the node has other work, so they lie one behind the other in one block of memory, encoded:
//! as values, each would be several small blocks, and each of those would hold a page of the kernel's heap that is
//! free otherwise.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use coppice_protocol::control::RankReport;
use coppice_protocol::ids::{JobId, Rank};

use crate::limits::{JOBS_KEPT_MAX, REPORTS_KEPT_MAX};

/// Whose report it is, and how long.
struct Kept {
    job: JobId,
    rank: Rank,
    bytes: usize,
}

/// Reports, oldest first. Those of a job lie together, as one job is on a node at a time.
pub(super) struct Reports {
    kept: VecDeque<Kept>,
    /// All of them, encoded.
    encoded: Vec<u8>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { kept: VecDeque::with_capacity(REPORTS_KEPT_MAX), encoded: Vec::new() }
    }
}

impl Reports {
    /// Keeps one more. At [`REPORTS_KEPT_MAX`] and [`JOBS_KEPT_MAX`] the oldest are forgotten; and so is this one if
    /// there is no memory for it, as if it were old.
    pub(super) fn keep(&mut self, report: &RankReport) {
        while self.kept.len() >= REPORTS_KEPT_MAX || self.jobs_before(report.job) >= JOBS_KEPT_MAX {
            self.forget_oldest();
        }
        let Ok(encoded) = postcard::to_allocvec(report) else { return };
        if self.encoded.try_reserve(encoded.len()).is_ok() {
            self.encoded.extend_from_slice(&encoded);
            self.kept.push_back(Kept { job: report.job, rank: report.rank, bytes: encoded.len() });
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.encoded.drain(..oldest.bytes);
        }
    }

    /// Other jobs that are remembered.
    fn jobs_before(&self, job: JobId) -> usize {
        let others = self.kept.iter().map(|kept| kept.job).filter(|other| *other != job);
        others.fold((0, None), |(count, last), other| (count + usize::from(last != Some(other)), Some(other))).0
    }

    /// The reports of a job.
    pub(super) fn of(&self, job: JobId) -> impl Iterator<Item = RankReport> {
        self.find(move |kept| kept.job == job)
    }

    /// The report of a rank.
    pub(super) fn of_rank(&self, job: JobId, rank: Rank) -> Option<RankReport> {
        self.find(move |kept| (kept.job, kept.rank) == (job, rank)).next()
    }

    fn find(&self, is_wanted: impl Fn(&Kept) -> bool) -> impl Iterator<Item = RankReport> {
        let with_place = self.kept.iter().scan(0, |end, kept| {
            *end += kept.bytes;
            Some((kept, *end - kept.bytes..*end))
        });
        let wanted = with_place.filter(move |(kept, _)| is_wanted(kept));
        wanted.filter_map(|(_, place)| postcard::from_bytes(self.encoded.get(place)?).ok())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use coppice_protocol::control::{Exit, RankReport, SyscallCount};
    use coppice_protocol::ids::{JobId, Rank};
    use coppice_protocol::limits::RANKS_PER_NODE_MAX;

    use super::Reports;
    use crate::limits::{JOBS_KEPT_MAX, REPORTS_KEPT_MAX};

    #[test]
    fn reports_of_few_jobs_are_kept_but_of_all_their_ranks() {
        let mut reports = Reports::default();
        let kept = |reports: &Reports, job| reports.of(JobId(job)).count();
        for job in 1..=100 {
            reports.keep(&RankReport::ended(JobId(job), Rank(0), Exit::Status(0)));
        }
        assert_eq!(reports.kept.len(), JOBS_KEPT_MAX);
        assert_eq!((kept(&reports, 100 - JOBS_KEPT_MAX as u64), kept(&reports, 100)), (0, 1));
        for rank in 0..RANKS_PER_NODE_MAX {
            reports.keep(&RankReport::ended(JobId(101), Rank(rank), Exit::Status(0)));
        }
        assert_eq!(kept(&reports, 101), RANKS_PER_NODE_MAX as usize);
        assert_eq!(kept(&reports, 100), 1);
        assert!(reports.kept.len() <= REPORTS_KEPT_MAX);
    }

    #[test]
    fn what_is_kept_is_what_was_reported() {
        let mut reports = Reports::default();
        let of = |job, rank| RankReport {
            reason: Some("a reason of its own ".repeat(rank as usize)),
            syscalls: (0..rank as i32).map(|number| SyscallCount { number, calls: 5, unknown: 0 }).collect(),
            ..RankReport::ended(JobId(job), Rank(rank), Exit::Signal(9))
        };
        for job in 0..30 {
            (0..4).for_each(|rank| reports.keep(&of(job, rank)));
        }
        let expected: Vec<_> = (0..4).map(|rank| of(29, rank)).collect();
        assert_eq!(reports.of(JobId(29)).collect::<Vec<_>>(), expected);
        assert_eq!(reports.of_rank(JobId(28), Rank(3)), Some(of(28, 3)));
        assert_eq!(reports.of_rank(JobId(28), Rank(4)), None);
        assert_eq!(reports.encoded.len(), reports.kept.iter().map(|kept| kept.bytes).sum::<usize>());
    }
}
