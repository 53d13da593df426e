//! One job under way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coppice_api::job::{EXIT_COPPICE, RankOutcome, RankView, Submission};
use coppice_api::retain::{Placement, RetainAnswer, RetentionSummary};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::limits::INPUT_WINDOW_BYTES;
use coppice_protocol::pmi::Departure;
use coppice_protocol::world::JobKey;
use tokio::sync::Semaphore;

use super::Now;
use crate::feed::Feed;
use crate::limits::{ATTACH_TIME_MAX, JOB_TIME_MAX, KILL_TIME_MAX};
use crate::store::Held;

/// One rank of a job that has nodes.
#[derive(Debug)]
pub(super) struct RankState {
    pub(super) node: NodeId,
    pub(super) pset: PsetId,
    /// The node is believed to hold pages of the program, and is told to keep them for the launch.
    pub(super) use_retained: bool,
    /// What the node answered to that, of the first of its ranks.
    pub(super) retain: Option<RetainAnswer>,
    pub(super) launched: bool,
    pub(super) report: Option<RankView>,
}

/// A rank that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) rank: Rank,
    pub(super) node: NodeId,
    pub(super) how: Departure,
}

/// A job from its submission to its end.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) submission: Submission,
    pub(super) program: Held,
    /// It has nodes, which wait until its program was looked at.
    pub(super) awaits_program: bool,
    /// What its nodes know each other by.
    pub(super) key: JobKey,
    /// Empty while the job is queued.
    pub(super) ranks: Vec<RankState>,
    /// How it got its nodes.
    pub(super) placement: Option<Placement>,
    pub(super) feed: Feed,
    /// A permit per byte of standard input that may be sent.
    pub(super) input: Arc<Semaphore>,
    /// Bytes of standard input sent and not yet read.
    pub(super) input_under_way: usize,
    pub(super) input_opened: bool,
    /// Standard input that came before the job was started.
    pub(super) early_input: Vec<Vec<u8>>,
    /// Signals that somebody had it sent.
    pub(super) asked: BTreeSet<u8>,
    /// The barrier of PMI that ranks are known to wait in, or were.
    waited_in: Option<u64>,
    /// The rank that ended before all others as barriers count, and how many of them it had left.
    first_gone: Option<(u64, Missing)>,
    /// Why it ends, if not by itself; the first reason counts.
    pub(super) reason: Option<String>,
    /// What it exits with if that is not for its ranks to say.
    exit_status: Option<u8>,
    /// Its history, also for when its records cannot be read.
    pub(super) times: Times,
    started: Option<Instant>,
    attach_deadline: Option<Instant>,
    run_deadline: Option<Instant>,
    kill_deadline: Option<Instant>,
}

/// When a job came how far, ns since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) submitted_ns: u64,
    pub(super) started_ns: Option<u64>,
    pub(super) running_ns: Option<u64>,
}

/// What is due for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nobody opened its stream.
    Attach,
    /// It has run long enough.
    Timeout,
    /// Its ranks did not end when killed.
    Kill,
}

impl Job {
    pub(super) fn new(id: JobId, submission: Submission, program: Held, key: JobKey, now: Now) -> Self {
        Self {
            id,
            submission,
            program,
            awaits_program: false,
            key,
            ranks: Vec::new(),
            placement: None,
            feed: Feed::default(),
            input: Arc::new(Semaphore::new(INPUT_WINDOW_BYTES)),
            input_under_way: 0,
            input_opened: false,
            early_input: Vec::new(),
            asked: BTreeSet::new(),
            waited_in: None,
            first_gone: None,
            reason: None,
            exit_status: None,
            times: Times { submitted_ns: now.realtime_ns, started_ns: None, running_ns: None },
            started: None,
            attach_deadline: Some(now.instant + ATTACH_TIME_MAX),
            run_deadline: None,
            kill_deadline: None,
        }
    }

    /// The job was given its block.
    pub(super) fn start(&mut self, ranks: Vec<RankState>, placement: Placement, now: Now) {
        self.ranks = ranks;
        self.placement = Some(placement);
        self.times.started_ns = Some(now.realtime_ns);
        self.started = Some(now.instant);
        self.run_deadline = self.timeout().map(|timeout| now.instant + timeout);
    }

    fn timeout(&self) -> Option<Duration> {
        self.submission.timeout_ms.map(|ms| Duration::from_millis(ms).min(JOB_TIME_MAX))
    }

    /// How long it lasts at most, if its user said so.
    fn bounds(&self) -> impl Iterator<Item = Duration> {
        let estimate = self.submission.estimate_ms.map(Duration::from_millis);
        estimate.into_iter().chain(self.timeout())
    }

    /// How long it lasts at most from its start, as far as is known.
    pub(super) fn bound(&self) -> Option<Duration> {
        self.bounds().min()
    }

    /// How long it still lasts at most. An estimate that it has exceeded says nothing.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let lasted = now.saturating_duration_since(self.started?);
        self.bounds().filter_map(|bound| bound.checked_sub(lasted)).min()
    }

    pub(super) fn attached(&mut self) {
        self.attach_deadline = None;
    }

    pub(super) fn is_queued(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Whether no I/O node knows of it yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_queued() || self.awaits_program
    }

    /// Ranks are being killed from now on.
    pub(super) fn killing(&mut self, reason: Option<String>, now: Instant) {
        if self.reason.is_none() {
            self.reason = reason;
        }
        self.run_deadline = None;
        self.attach_deadline = None;
        self.kill_deadline.get_or_insert(now + KILL_TIME_MAX);
    }

    /// One of its nodes says that it cannot go on, and what it is to exit with. That stands unless it is being ended
    /// for another reason.
    pub(super) fn failed(&mut self, exit_status: u8) {
        if self.reason.is_none() {
            self.exit_status = Some(exit_status);
        }
    }

    /// A rank has ended after so many barriers.
    pub(super) fn gone_after(&mut self, barriers: u64, rank: Missing) {
        if self.first_gone.is_none_or(|(first, _)| barriers < first) {
            self.first_gone = Some((barriers, rank));
        }
    }

    /// Ranks wait in this barrier.
    pub(super) fn wait_in(&mut self, barrier: u64) {
        self.waited_in = self.waited_in.max(Some(barrier));
    }

    /// A rank that others wait for in a barrier, and that ended before it. `None` also if the job is being ended.
    pub(super) fn missing(&self) -> Option<Missing> {
        let is_ending = self.reason.is_some() || self.ended_as_asked().is_some();
        let (barriers, rank) = self.first_gone.filter(|_| !is_ending)?;
        (barriers <= self.waited_in?).then_some(rank)
    }

    /// Whether its ranks are being killed.
    pub(super) fn is_being_killed(&self) -> bool {
        self.kill_deadline.is_some()
    }

    /// The signal that somebody had it sent, if that is what ended one of its ranks.
    pub(super) fn ended_as_asked(&self) -> Option<u8> {
        let reports = self.ranks.iter().filter_map(|state| state.report.as_ref());
        reports.filter_map(|report| report.signal).find(|signal| self.asked.contains(signal))
    }

    /// It ended for this reason, unless it was ended for another. What its nodes then found is a consequence.
    pub(super) fn ended_because(&mut self, reason: String) {
        if self.reason.is_none() || self.exit_status.take().is_some() {
            self.reason = Some(reason);
        }
    }

    /// Psets that still have ranks of the job.
    pub(super) fn live_psets(&self) -> Vec<PsetId> {
        let mut psets: Vec<PsetId> = self.live_ranks().map(|(_, state)| state.pset).collect();
        psets.sort_unstable();
        psets.dedup();
        psets
    }

    /// Every pset the job is on.
    pub(super) fn psets(&self) -> Vec<PsetId> {
        let mut psets: Vec<PsetId> = self.ranks.iter().map(|state| state.pset).collect();
        psets.sort_unstable();
        psets.dedup();
        psets
    }

    /// Ranks that have not ended.
    pub(super) fn live_ranks(&self) -> impl Iterator<Item = (Rank, &RankState)> {
        let numbered = self.ranks.iter().zip(0..).map(|(state, number)| (Rank(number), state));
        numbered.filter(|(_, state)| state.report.is_none())
    }

    pub(super) fn rank_mut(&mut self, rank: Rank) -> Option<&mut RankState> {
        self.ranks.get_mut(rank.0 as usize)
    }

    /// The ranks on a node.
    pub(super) fn ranks_on(&self, node: NodeId) -> impl Iterator<Item = Rank> {
        let numbered = self.ranks.iter().zip(0..);
        numbered.filter(move |(state, _)| state.node == node).map(|(_, number)| Rank(number))
    }

    /// The first rank on a node, which has what is the node's as a whole.
    pub(super) fn first_rank_on(&mut self, node: NodeId) -> Option<&mut RankState> {
        self.ranks.iter_mut().find(|state| state.node == node)
    }

    /// Its nodes in the order of the ranks, each with its ranks.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &[RankState]> {
        self.ranks.chunk_by(|one, other| one.node == other.node)
    }

    /// Whether every rank has ended.
    pub(super) fn is_over(&self) -> bool {
        !self.is_queued() && self.live_ranks().next().is_none()
    }

    /// Whether every rank was started.
    pub(super) fn is_running(&self) -> bool {
        !self.is_queued() && self.ranks.iter().all(|state| state.launched)
    }

    /// What retained page tables saved it; nothing if it never had nodes.
    pub(super) fn retention(&self) -> Option<RetentionSummary> {
        // Without a table, what a rank found is what another of the job had fetched just before.
        let had_none = |ranks: &[RankState]| {
            let answer = ranks.iter().find_map(|state| state.retain);
            answer == Some(RetainAnswer::Absent) || !ranks.iter().any(|state| state.use_retained)
        };
        let add = |sum: RetentionSummary, ranks: &[RankState]| {
            let reports = ranks.iter().filter_map(|state| state.report.as_ref());
            let warm: Vec<&RankView> = reports.filter(|report| report.pages_retained > 0).collect();
            let warm = if had_none(ranks) { Vec::new() } else { warm };
            let found = warm.iter().map(|report| report.pages_retained).max();
            let fetched = warm.iter().fold(0_u64, |sum, report| sum.saturating_add(report.pages_fetched));
            RetentionSummary {
                warm_ranks: sum.warm_ranks.saturating_add(u32::try_from(warm.len()).unwrap_or(u32::MAX)),
                warm_nodes: sum.warm_nodes.saturating_add(u32::from(found.is_some())),
                pages_kept: sum.pages_kept.saturating_add(found.unwrap_or(0)),
                pages_fetched: sum.pages_fetched.saturating_add(fetched),
            }
        };
        (!self.is_queued()).then(|| self.nodes().fold(RetentionSummary::default(), add))
    }

    /// What `run` exits with.
    pub(super) fn exit_status(&self) -> u8 {
        let reports = || self.ranks.iter().filter_map(|state| state.report.as_ref());
        let failed = |report: &RankView| matches!(report.outcome, RankOutcome::Lost | RankOutcome::NotStarted);
        if let Some(status) = self.exit_status {
            status
        } else if reports().any(failed) {
            EXIT_COPPICE
        } else {
            reports().map(rank_exit_status).max().unwrap_or(EXIT_COPPICE)
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.attach_deadline, self.run_deadline, self.kill_deadline].into_iter().flatten().min()
    }

    pub(super) fn due(&self, now: Instant) -> Option<Due> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.kill_deadline) {
            Some(Due::Kill)
        } else if is_due(self.run_deadline) {
            Some(Due::Timeout)
        } else if is_due(self.attach_deadline) {
            Some(Due::Attach)
        } else {
            None
        }
    }
}

/// A rank's part in the exit status of its job, as shells have it.
fn rank_exit_status(report: &RankView) -> u8 {
    match (report.exit, report.signal) {
        (Some(status), _) => status,
        (None, Some(signal)) => 128u8.saturating_add(signal),
        (None, None) => EXIT_COPPICE,
    }
}
