//! What runs on the node and what ran: the ranks of one job at a time, and the reports of those that ended last.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use coppice_protocol::control::RankReport;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::RANKS_PER_NODE_MAX;

use super::reports::Reports;

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
    /// What became of those that were here.
    ended: Reports,
}

/// What becomes of an order to launch a rank.
pub(super) enum Entry {
    /// It is to be launched.
    New,
    /// It is here already.
    Known,
    /// It was here, and this became of it.
    Ended(Box<RankReport>),
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
        if let Some(report) = self.ended.of_rank(job, rank) {
            return Entry::Ended(Box::new(report));
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

    /// What others than processes left is to be wiped. `None`: not before that of processes is. False: a job is here,
    /// at whose end all is wiped; true: no process begins until it is.
    pub(super) fn begin_wiping(&mut self) -> Option<bool> {
        if self.wiping {
            return None;
        }
        self.wiping = self.alive.is_empty();
        Some(self.wiping)
    }

    /// Nothing is left of the processes that are gone.
    pub(super) fn wiped(&mut self) {
        self.wiping = false;
    }

    /// A rank has come to its end. Whether it was the last one here.
    pub(super) fn end(&mut self, report: &RankReport) -> bool {
        self.ranks.remove(&report.rank);
        let is_last = self.ranks.is_empty();
        if is_last {
            self.job = None;
        }
        self.ended.keep(report);
        is_last
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

    /// What became of the ranks of a job that were here and ended, as far as it is remembered.
    pub(super) fn reports_of(&self, job: JobId) -> impl Iterator<Item = RankReport> {
        self.ended.of(job)
    }
}
