//! What runs on the node and what ran: the ranks of one job at a time, and the reports of those that ended last.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::control::RankReport;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::RANKS_PER_NODE_MAX;

use crate::limits::{JOBS_KEPT_MAX, REPORTS_KEPT_MAX};

/// What runs and what ran.
#[derive(Default)]
pub(super) struct Ledger {
    /// The job whose ranks are here: as long as one of them was launched and its end is not reported.
    job: Option<JobId>,
    /// These ranks.
    ranks: BTreeSet<Rank>,
    /// Those of them that have a process.
    alive: BTreeSet<Rank>,
    /// Nothing of the job runs, and what it left in the kernel is being wiped.
    wiping: bool,
    /// The job that was sent a signal last, and the number of that.
    signalled: Option<(JobId, u32)>,
    /// Reports, oldest first, for orders that come twice.
    ended: VecDeque<RankReport>,
}

/// What becomes of an order to launch a rank.
pub(super) enum Entry {
    /// It is to be launched.
    New,
    /// It is here already.
    Known,
    /// It was here, and this became of it.
    Ended(RankReport),
    /// There is no place for it.
    Refused(String),
}

impl Ledger {
    /// The job that has the node.
    pub(super) const fn job(&self) -> Option<JobId> {
        self.job
    }

    /// A rank is to be launched.
    pub(super) fn enter(&mut self, job: JobId, rank: Rank) -> Entry {
        if self.job == Some(job) && self.ranks.contains(&rank) {
            return Entry::Known;
        }
        if let Some(report) = self.reports_of(job).find(|report| report.rank == rank) {
            return Entry::Ended(report.clone());
        }
        if let Some(other) = self.job.filter(|other| *other != job) {
            return Entry::Refused(format!("node is busy with job {other}"));
        }
        if self.ranks.len() >= RANKS_PER_NODE_MAX as usize {
            return Entry::Refused(format!("node has {RANKS_PER_NODE_MAX} ranks already"));
        }
        self.job = Some(job);
        self.ranks.insert(rank);
        Entry::New
    }

    /// The process of a rank that was entered is to begin. `None`: not before the ranks that ended are wiped away.
    pub(super) fn begin(&mut self, rank: Rank) -> Option<()> {
        if self.wiping {
            return None;
        }
        self.alive.insert(rank);
        Some(())
    }

    /// The process of a rank is gone. True: it was the last one, and nothing of it is to be left when the rank's end is
    /// reported; no other begins until then.
    pub(super) fn gone(&mut self, rank: Rank) -> bool {
        self.alive.remove(&rank);
        self.wiping |= self.alive.is_empty();
        self.alive.is_empty()
    }

    /// Nothing is left of the processes that are gone.
    pub(super) fn wiped(&mut self) {
        self.wiping = false;
    }

    /// A rank has come to its end. At [`REPORTS_KEPT_MAX`] and [`JOBS_KEPT_MAX`] the oldest reports are forgotten.
    pub(super) fn end(&mut self, report: RankReport) {
        self.ranks.remove(&report.rank);
        if self.ranks.is_empty() {
            self.job = None;
        }
        while self.ended.len() >= REPORTS_KEPT_MAX || self.jobs_before(report.job) >= JOBS_KEPT_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(report);
    }

    /// A signal of this number is to be sent to a job. False: the job is not here, or it was sent before.
    pub(super) fn take_signal(&mut self, job: JobId, sequence: u32) -> bool {
        let was_sent = self.signalled.is_some_and(|(of, last)| of == job && sequence <= last);
        let is_due = self.job == Some(job) && !was_sent;
        if is_due {
            self.signalled = Some((job, sequence));
        }
        is_due
    }

    /// Other jobs that are remembered. The reports of a job lie together, as one job is here at a time.
    fn jobs_before(&self, job: JobId) -> usize {
        let mut jobs: Vec<JobId> = self.ended.iter().map(|report| report.job).filter(|other| *other != job).collect();
        jobs.dedup();
        jobs.len()
    }

    /// What became of the ranks of a job that were here and ended, as far as it is remembered.
    pub(super) fn reports_of(&self, job: JobId) -> impl Iterator<Item = &RankReport> {
        self.ended.iter().filter(move |report| report.job == job)
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::control::Exit;
    use coppice_protocol::ids::{JobId, Rank};
    use coppice_protocol::limits::RANKS_PER_NODE_MAX;

    use super::super::tests::report;
    use super::Ledger;
    use crate::limits::{JOBS_KEPT_MAX, REPORTS_KEPT_MAX};

    #[test]
    fn reports_of_few_jobs_are_kept_but_of_all_their_ranks() {
        let mut ledger = Ledger::default();
        let kept = |ledger: &Ledger, job| ledger.reports_of(JobId(job)).count();
        for job in 1..=100 {
            ledger.end(report(JobId(job), Rank(0), Exit::Status(0)));
        }
        assert_eq!(ledger.ended.len(), JOBS_KEPT_MAX);
        assert_eq!((kept(&ledger, 100 - JOBS_KEPT_MAX as u64), kept(&ledger, 100)), (0, 1));
        for rank in 0..RANKS_PER_NODE_MAX {
            ledger.end(report(JobId(101), Rank(rank), Exit::Status(0)));
        }
        assert_eq!(kept(&ledger, 101), RANKS_PER_NODE_MAX as usize);
        assert_eq!(kept(&ledger, 100), 1);
        assert!(ledger.ended.len() <= REPORTS_KEPT_MAX);
    }
}
