//! One job under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coppice_api::ahead::AheadDecision;
use coppice_api::checkpoint::{CheckpointsMade, Continuation};
use coppice_api::job::{EXIT_COPPICE, JobView, OnRankFailure, RankOutcome, Submission};
use coppice_api::retain::{Placement, RetainAnswer, RetentionSummary};
use coppice_api::signal::SIGKILL;
use coppice_api::transfer::TransferView;
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::INPUT_WINDOW_BYTES;
use coppice_protocol::pmi::Departure;
use coppice_protocol::world::JobKey;
use tokio::sync::Semaphore;

use super::checkpoints::{Awaited, Schedule};
use super::families::Descent;
use super::ranks::{RankEnd, RankState, Ranks};
use super::restart::Restoring;
use super::tracing_jobs::Tracer;
use super::transfers::Transfers;
use super::{Answer, Newest, Now, Place};
use crate::feed::Feed;
use crate::limits::{ATTACH_TIME_MAX, JOB_TIME_MAX, KILL_TIME_MAX, LAUNCH_TIME_MAX, RESTORE_TIME_MAX};
use crate::store::{Held, Kind, Source};

/// A rank that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) rank: Rank,
    pub(super) node: NodeId,
    pub(super) how: Departure,
}

/// Copies in the store that a job needs.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) program: Held,
    /// As the submission names them.
    pub(super) staged: Vec<Held>,
}

/// A job from its submission to its end.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) submission: Submission,
    pub(super) program: Held,
    /// The files it has staged, in the submission's order.
    pub(super) staged: Vec<Held>,
    /// What is known of their transfers.
    pub(super) transfers: Transfers,
    /// I/O nodes were told of it.
    pub(super) is_told: bool,
    /// It has nodes, which wait until this copy was looked at, as [`Job::needed`] counts.
    pub(super) awaits_copy: Option<usize>,
    /// What its nodes know each other by.
    pub(super) key: JobKey,
    /// How it has come to be, if a rank of another job has started it.
    pub(super) descent: Option<Descent>,
    /// The last number of a wish of each of its ranks for others to be started.
    wishes: BTreeMap<Rank, u64>,
    /// What its ranks are made from, if it goes on from a checkpoint.
    pub(super) restore: Option<Restoring>,
    /// When checkpoints are made of it by itself.
    pub(super) schedule: Schedule,
    /// Those that were made of it.
    pub(super) checkpoints_made: Option<CheckpointsMade>,
    /// The newest of them that is there.
    pub(super) newest: Option<Newest>,
    /// The node whose loss ends it.
    pub(super) lost_node: Option<NodeId>,
    /// Nothing of it is left on any node, and it is seen whether it goes on from a checkpoint.
    pub(super) restart: Option<Awaited>,
    /// It does, like this.
    pub(super) continued_as: Option<Continuation>,
    /// Empty while the job is queued.
    pub(super) ranks: Ranks,
    /// How it got its nodes.
    pub(super) placement: Option<Placement>,
    /// Whether its program is sent there ahead of the launch.
    pub(super) ahead: Option<AheadDecision>,
    pub(super) feed: Feed,
    /// Who traces it, beside whoever runs it.
    pub(super) tracer: Option<Tracer>,
    /// Who waits for its end.
    pub(super) waiters: Vec<Answer<JobView>>,
    /// Who waits until all of its ranks run.
    awaiting_running: Vec<Answer<Vec<Place>>>,
    /// A permit per byte of standard input that may be sent.
    pub(super) input: Arc<Semaphore>,
    /// Bytes of standard input sent and not yet read.
    pub(super) input_under_way: usize,
    pub(super) input_opened: bool,
    /// Standard input that came before the job was started.
    pub(super) early_input: Vec<Vec<u8>>,
    /// Signals that somebody had it sent.
    pub(super) asked: BTreeSet<u8>,
    /// How often an overlay of it was begun.
    pub(super) overlay_generation: u32,
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
    /// When there was something new of its launch, until all of its ranks run.
    launch_news: Option<Instant>,
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
    /// It has not begun, and there is nothing new of that.
    Launch,
    /// It has run long enough.
    Timeout,
    /// Its ranks did not end when killed.
    Kill,
    /// It has ended, and was not restarted in time.
    Restart,
    /// A checkpoint is to be made of it.
    Checkpoint,
}

impl Job {
    pub(super) fn new(id: JobId, submission: Submission, needs: Needs, key: JobKey, now: Now) -> Self {
        let detached = submission.detached;
        let tracer = submission.traced.then(Tracer::awaited);
        let schedule = Schedule::of(submission.checkpoint_policy.as_ref());
        Self {
            id,
            submission,
            program: needs.program,
            staged: needs.staged,
            transfers: Transfers::default(),
            is_told: false,
            awaits_copy: None,
            key,
            descent: None,
            wishes: BTreeMap::new(),
            restore: None,
            schedule,
            checkpoints_made: None,
            newest: None,
            lost_node: None,
            restart: None,
            continued_as: None,
            ranks: Ranks::default(),
            placement: None,
            ahead: None,
            feed: if detached { Feed::default() } else { Feed::owned() },
            tracer,
            waiters: Vec::new(),
            awaiting_running: Vec::new(),
            input: Arc::new(Semaphore::new(INPUT_WINDOW_BYTES)),
            input_under_way: 0,
            input_opened: false,
            early_input: Vec::new(),
            overlay_generation: 0,
            asked: BTreeSet::new(),
            waited_in: None,
            first_gone: None,
            reason: None,
            exit_status: None,
            times: Times { submitted_ns: now.realtime_ns, started_ns: None, running_ns: None },
            started: None,
            launch_news: None,
            attach_deadline: (!detached).then(|| now.instant + ATTACH_TIME_MAX),
            run_deadline: None,
            kill_deadline: None,
        }
    }

    /// A copy that it needs, and what that was made from: 0 is its program, then come the files that it has staged.
    pub(super) fn needed(&self, number: usize) -> Option<(&Held, Source)> {
        let Some(staged) = number.checked_sub(1) else {
            let path = self.submission.program.clone();
            return Some((&self.program, Source { kind: Kind::Program, path }));
        };
        let path = self.submission.staged.get(staged)?.file.clone();
        Some((self.staged.get(staged)?, Source { kind: Kind::Data, path }))
    }

    /// The job was given its block.
    pub(super) fn start(&mut self, ranks: Ranks, placement: Placement, ahead: AheadDecision, now: Now) {
        self.ranks = ranks;
        self.placement = Some(placement);
        self.ahead = Some(ahead);
        self.times.started_ns = Some(now.realtime_ns);
        self.started = Some(now.instant);
        self.launch_news = Some(now.instant);
        self.run_deadline = self.timeout().map(|timeout| now.instant + timeout);
    }

    /// There is something new of its launch.
    pub(super) fn launch_goes_on(&mut self, now: Instant) {
        if let Some(news) = &mut self.launch_news {
            *news = now;
        }
    }

    /// All of its ranks run, or it does not come to that.
    pub(super) fn launch_is_over(&mut self) {
        self.launch_news = None;
    }

    /// When it has waited too long for its ranks to begin.
    fn launch_deadline(&self) -> Option<Instant> {
        let most = if self.restore.is_some() { RESTORE_TIME_MAX } else { LAUNCH_TIME_MAX };
        self.launch_news.filter(|_| !self.is_waiting()).map(|news| news + most)
    }

    /// Why it does not begin: a rank that was not launched, by its node.
    pub(super) fn why_not_launched(&self) -> Option<String> {
        let (rank, node) = self.ranks.first_unlaunched()?;
        let most = if self.restore.is_some() { RESTORE_TIME_MAX } else { LAUNCH_TIME_MAX };
        Some(format!("node {node} has not launched rank {rank}, and there was nothing new for {} s", most.as_secs()))
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

    /// Somebody waits for its end.
    pub(super) fn wait(&mut self, answer: Answer<JobView>) {
        // Whoever has gone away since does not wait any more; so there are no more than there are connections.
        self.waiters.retain(|waiter| !waiter.is_closed());
        self.waiters.push(answer);
    }

    /// Somebody waits until all of its ranks run.
    pub(super) fn awaits_running(&mut self, answer: Answer<Vec<Place>>) {
        self.awaiting_running.push(answer);
    }

    /// Those who do, which are told now.
    pub(super) fn take_awaiting_running(&mut self) -> Vec<Answer<Vec<Place>>> {
        std::mem::take(&mut self.awaiting_running)
    }

    pub(super) fn attached(&mut self) {
        self.attach_deadline = None;
    }

    pub(super) fn is_queued(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Whether no I/O node knows of it yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_queued() || !self.is_told
    }

    /// Whether nodes of its family are to know of it before it is started.
    pub(super) fn awaits_family(&self) -> bool {
        self.descent.is_some() && self.is_waiting() && self.awaits_copy.is_none()
    }

    /// Whether a wish of a rank for others to be started has not come before.
    pub(super) fn is_new_wish(&mut self, rank: Rank, number: u64) -> bool {
        let last = self.wishes.entry(rank).or_default();
        let is_new = number > *last;
        *last = number.max(*last);
        is_new
    }

    /// Ranks are being killed from now on.
    pub(super) fn killing(&mut self, reason: Option<String>, now: Instant) {
        if self.reason.is_none() {
            self.reason = reason;
        }
        self.launch_news = None;
        self.run_deadline = None;
        self.attach_deadline = None;
        self.schedule.end();
        self.kill_deadline.get_or_insert(now + KILL_TIME_MAX);
    }

    /// Nothing of it is left on any node, and it is going to be seen whether it goes on. Nothing else is due any more.
    pub(super) fn awaits_restart(&mut self, awaited: Awaited) {
        (self.attach_deadline, self.run_deadline, self.kill_deadline) = (None, None, None);
        (self.awaits_copy, self.is_told, self.launch_news) = (None, true, None);
        self.schedule.end();
        self.restart = Some(awaited);
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

    /// A rank that others wait for in a barrier, and that ended before it. `None` also if the job is being ended, or
    /// goes on without ranks: then its nodes know who can be told.
    pub(super) fn missing(&self) -> Option<Missing> {
        let is_ending = self.outlives_ranks() || self.reason.is_some() || self.ended_as_asked().is_some();
        let (barriers, rank) = self.first_gone.filter(|_| !is_ending)?;
        (barriers <= self.waited_in?).then_some(rank)
    }

    /// Whether it goes on when ranks of it fail, or are lost with their node.
    pub(super) fn outlives_ranks(&self) -> bool {
        self.submission.on_rank_failure == OnRankFailure::Continue
    }

    /// Whether it goes on when one of its nodes is lost. One whose nodes wait for its program does not begin without.
    pub(super) fn goes_on_without_node(&self) -> bool {
        self.outlives_ranks() && !self.is_waiting() && !self.is_being_killed()
    }

    /// Why the first rank that was lost was, if one was.
    pub(super) fn first_lost(&self) -> Option<String> {
        self.ranks.first_lost().map(str::to_owned)
    }

    /// Whether its ranks are being killed.
    pub(super) fn is_being_killed(&self) -> bool {
        self.kill_deadline.is_some()
    }

    /// The signal that somebody had it sent, if that is what ended one of its ranks.
    pub(super) fn ended_as_asked(&self) -> Option<u8> {
        let asked = self.ranks.signals().filter(|(signal, _)| self.asked.contains(signal));
        asked.min_by_key(|(_, rank)| *rank).map(|(signal, _)| signal)
    }

    /// It ended for this reason, unless it was ended for another. What its nodes then found is a consequence.
    pub(super) fn ended_because(&mut self, reason: String) {
        if self.reason.is_none() || self.exit_status.take().is_some() {
            self.reason = Some(reason);
        }
    }

    /// Whether every rank has ended.
    pub(super) fn is_over(&self) -> bool {
        !self.is_queued() && self.ranks.have_ended()
    }

    /// Whether every rank was started.
    pub(super) fn is_running(&self) -> bool {
        !self.is_queued() && self.ranks.were_launched()
    }

    /// What its transfers took that are over.
    pub(super) fn transfer_views(&self) -> Vec<TransferView> {
        if !self.transfers.have_ended() {
            return Vec::new();
        }
        let nodes: Vec<NodeId> = self.ranks.by_node().map(|(node, _)| node).collect();
        self.transfers.views(&nodes)
    }

    /// What retained page tables saved it; nothing if it never had nodes.
    pub(super) fn retention(&self) -> Option<RetentionSummary> {
        // Without a table, what a rank found is what another of the job had fetched just before.
        let had_none = |ranks: &[RankState]| {
            let answer = ranks.iter().find_map(|state| state.retain);
            answer == Some(RetainAnswer::Absent) || !ranks.iter().any(|state| state.use_retained)
        };
        let add = |sum: RetentionSummary, (_, ranks): (NodeId, &[RankState])| {
            let ends = ranks.iter().filter_map(RankState::end);
            let warm: Vec<&RankEnd> = ends.filter(|end| end.pages_retained > 0).collect();
            let warm = if had_none(ranks) { Vec::new() } else { warm };
            let found = warm.iter().map(|end| end.pages_retained).max();
            let fetched = warm.iter().fold(0_u64, |sum, end| sum.saturating_add(end.pages_fetched));
            RetentionSummary {
                warm_ranks: sum.warm_ranks.saturating_add(u32::try_from(warm.len()).unwrap_or(u32::MAX)),
                warm_nodes: sum.warm_nodes.saturating_add(u32::from(found.is_some())),
                pages_kept: sum.pages_kept.saturating_add(found.unwrap_or(0)),
                pages_fetched: sum.pages_fetched.saturating_add(fetched),
            }
        };
        (!self.is_queued()).then(|| self.ranks.by_node().fold(RetentionSummary::default(), add))
    }

    /// What `run` exits with.
    pub(super) fn exit_status(&self) -> u8 {
        let failed = |end: &RankEnd| matches!(end.outcome, RankOutcome::Lost | RankOutcome::NotStarted);
        if let Some(status) = self.exit_status {
            status
        } else if self.ranks.ends().any(failed) {
            EXIT_COPPICE
        } else {
            self.ranks.ends().map(rank_exit_status).max().unwrap_or(EXIT_COPPICE)
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let restart = self.restart.as_ref().map(|awaited| awaited.deadline);
        let deadlines = [self.attach_deadline, self.run_deadline, self.kill_deadline, self.schedule.due(), restart];
        let deadlines = deadlines.into_iter().chain([self.launch_deadline()]);
        deadlines.flatten().min()
    }

    pub(super) fn due(&self, now: Instant) -> Option<Due> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.kill_deadline) {
            Some(Due::Kill)
        } else if is_due(self.run_deadline) {
            Some(Due::Timeout)
        } else if is_due(self.attach_deadline) {
            Some(Due::Attach)
        } else if is_due(self.launch_deadline()) {
            Some(Due::Launch)
        } else if is_due(self.restart.as_ref().map(|awaited| awaited.deadline)) {
            Some(Due::Restart)
        } else if is_due(self.schedule.due()) {
            Some(Due::Checkpoint)
        } else {
            None
        }
    }
}

/// A rank's part in the exit status of its job, as shells have it.
fn rank_exit_status(end: &RankEnd) -> u8 {
    let status = match (end.exit, end.signal) {
        (Some(status), _) => status,
        (None, Some(signal)) => 128u8.saturating_add(signal),
        (None, None) => EXIT_COPPICE,
    };
    if end.was_being_killed { status.min(128 + SIGKILL) } else { status }
}
