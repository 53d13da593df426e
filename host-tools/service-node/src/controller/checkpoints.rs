//! Checkpoints that are made of jobs by themselves, and jobs that go on from them when they have lost a node.
//!
//! The controller only says when: making a checkpoint, and finding one to go on from, takes long and is done by others
//! ([`CheckpointOrder`]). A job that may be restarted gives up its nodes and has not ended until it is known whether it
//! is: so whoever waits for its end hears at once how it goes on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coppice_api::checkpoint::{CheckpointCost, CheckpointName, CheckpointPolicy, CheckpointsMade, Continuation};
use coppice_api::cluster::ClusterState;
use coppice_api::limits::CHECKPOINTS_KEPT_DEFAULT;
use coppice_api::signal::{SIGINT, SIGTERM};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::ras::{RasKind, Severity};
use coppice_protocol::region::SlotKey;

use super::asked::Asked;
use super::job::Job;
use super::requests::Refused;
use super::{Controller, Now, interval, ras};
use crate::limits::{JOB_TIME_MAX, RESTART_TIME_MAX};
use crate::plant::{CheckpointEvent, CheckpointOrder, Plant};
use crate::records::What;

/// When checkpoints of a job are made by themselves: an interval after the last began, one at a time.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Nothing if none are made.
    every: Option<Duration>,
    /// When the last began, or all ranks ran.
    last: Option<Instant>,
    /// Nothing before all ranks run, and when the job comes to its end.
    next: Option<Instant>,
    is_making: bool,
    /// Those that ranks ask for.
    pub(super) asked: Asked,
}

impl Schedule {
    /// Nothing is due yet.
    pub(super) fn of(policy: Option<&CheckpointPolicy>) -> Self {
        let every = policy.map(|policy| Duration::from_millis(policy.every_ms).min(JOB_TIME_MAX));
        Self { every, ..Self::default() }
    }

    /// All ranks run.
    pub(super) fn begin(&mut self, now: Instant) {
        self.last = Some(now);
        self.asked.begin(now);
        self.next = self.every.map(|every| now + every);
    }

    /// They are made so often from now on.
    fn change(&mut self, every: Duration, now: Instant) {
        self.every = Some(every);
        if let (Some(last), Some(next)) = (self.last, &mut self.next) {
            *next = (last + every).max(now);
        }
    }

    /// When the next is due. Not while one is being made.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.next, self.asked.due()].into_iter().flatten().min().filter(|_| !self.is_making)
    }

    /// One begins.
    fn begun(&mut self, now: Instant) {
        self.begin(now);
        self.asked.begun(now);
        self.is_making = true;
    }

    /// One is made, or not. If that took longer than the interval, the next is due now: were it due since then, that
    /// would seem late ([`super::hearing`]).
    fn tried(&mut self, now: Instant) {
        self.next = self.next.map(|next| next.max(now));
        self.is_making = false;
    }

    /// No more are made.
    pub(super) fn end(&mut self) {
        self.asked = Asked::default();
        self.next = None;
    }
}

/// The newest checkpoint of a job that runs, as the next one needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Which.
    pub checkpoint: CheckpointName,
    /// Who led the job's nodes when it was made.
    pub by: u64,
    /// Pages that were not written since need not be kept again; or else nothing is said of them.
    pub is_base: bool,
    /// Where it lies in regions of nodes.
    pub slots: BTreeMap<NodeId, SlotKey>,
}

/// What is known of a job that may be restarted.
#[derive(Debug)]
pub(super) struct Awaited {
    /// What it ends with.
    exit_status: u8,
    lost_node: NodeId,
    /// It stays ended if it is not restarted by then.
    pub(super) deadline: Instant,
}

impl Job {
    /// A node is gone with ranks that ran there. Unless it is being ended for another reason, this ends it.
    pub(super) fn has_lost(&mut self, node: NodeId) {
        let has_live = self.ranks.live_on(node).next().is_some();
        if self.reason.is_none() && !self.is_being_killed() && has_live {
            self.lost_node.get_or_insert(node);
        }
    }

    /// The node whose loss ended it, if it is to go on from a checkpoint then. Not if somebody had it sent a signal
    /// that asks for its end: it may just have been about to come to that.
    fn to_be_restarted(&self) -> Option<NodeId> {
        let policy = self.submission.checkpoint_policy.filter(|policy| policy.max_restarts > 0);
        let is_asked = [SIGTERM, SIGINT].iter().any(|signal| self.asked.contains(signal));
        self.lost_node.filter(|_| policy.is_some() && !is_asked && self.ended_as_asked().is_none())
    }
}

impl<P: Plant> Controller<P> {
    /// A checkpoint of a job is due.
    pub(super) fn make_checkpoint(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let keep = job.submission.checkpoint_policy.map_or(CHECKPOINTS_KEPT_DEFAULT, |policy| policy.keep);
        job.schedule.begun(now.instant);
        self.plant.checkpoint(CheckpointOrder::Make { job: id, keep });
    }

    /// Something was done with checkpoints of a job.
    pub(super) fn checkpoint_event(&mut self, id: JobId, event: CheckpointEvent, now: Now) {
        match event {
            CheckpointEvent::Made(newest, cost) => self.checkpoint_made(id, newest, cost, now),
            CheckpointEvent::NoBase => {
                if let Some(newest) = self.jobs.get_mut(&id).and_then(|job| job.newest.as_mut()) {
                    newest.is_base = false;
                }
            }
            CheckpointEvent::Deleted(checkpoint) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.newest.take_if(|newest| newest.checkpoint == checkpoint);
                }
            }
            CheckpointEvent::Tried { troubles } => {
                let Some(job) = self.jobs.get_mut(&id) else { return };
                job.schedule.tried(now.instant);
                self.ask_is_over(id, now);
                let Some(job) = self.jobs.get(&id) else { return };
                if job.is_being_killed() || job.restart.is_some() {
                    // None can be made of what comes to its end.
                    return;
                }
                for text in troubles {
                    self.record_ras(None, &ras(Severity::Warn, RasKind::CheckpointFailed, Some(id), text), now);
                }
            }
            CheckpointEvent::NotRestarted { reason } => self.not_restarted(id, &reason, now),
        }
    }

    fn checkpoint_made(&mut self, id: JobId, newest: Newest, cost: CheckpointCost, now: Now) {
        let before = match self.jobs.get(&id) {
            Some(job) => job.checkpoints_made,
            // It has ended just now.
            None => self.records.job_alone(id).ok().flatten().and_then(|job| job.checkpoints_made),
        };
        let count = before.map_or(0, |made| made.count).saturating_add(1);
        let chosen = self.jobs.get(&id).and_then(|job| interval::chosen(&job.submission, cost.pause_us));
        let interval_ms = chosen.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
        let made = CheckpointsMade { count, last: newest.checkpoint, cost: Some(cost), interval_ms };
        if let Some(job) = self.jobs.get_mut(&id) {
            if let Some(every) = chosen {
                tracing::info!(job = id.0, pause_us = cost.pause_us, ?every, "chose how often checkpoints are made");
                job.schedule.change(every, now.instant);
            }
            job.checkpoints_made = Some(made);
            job.newest = Some(newest);
        }
        self.records.add(What::Checkpoints(id, made), now);
        self.tell_checkpointed(id);
    }

    /// All ranks of a job are over: it has ended, unless it may go on from a checkpoint.
    pub(super) fn end_or_restart(&mut self, id: JobId, exit_status: u8, now: Now) {
        let is_stopping = self.state == ClusterState::Stopping;
        let lost = self.jobs.get(&id).filter(|_| !is_stopping).and_then(Job::to_be_restarted);
        let Some(lost_node) = lost else { return self.finish_job(id, exit_status, now) };
        self.end_overlay(id, now);
        let Some(mut job) = self.jobs.remove(&id) else { return };
        self.give_up_nodes(&job);
        job.awaits_restart(Awaited { exit_status, lost_node, deadline: now.instant + RESTART_TIME_MAX });
        tracing::info!(job = id.0, lost = lost_node.0, "to be restarted from a checkpoint");
        let submission = Box::new(job.submission.clone());
        self.plant.checkpoint(CheckpointOrder::Restart { job: id, submission });
        self.jobs.insert(id, job);
        self.changed = true;
    }

    /// Whether a job still waits to be restarted.
    pub(super) fn check_continued(&self, id: JobId) -> Result<(), Refused> {
        match self.jobs.get(&id) {
            Some(job) if job.restart.is_some() => Ok(()),
            _ => Err(Refused::conflict(&format!("job {id} does not wait to be restarted any more"))),
        }
    }

    /// A job that lost a node has ended, and goes on as another.
    pub(super) fn continued(&mut self, id: JobId, successor: JobId, checkpoint: CheckpointName, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(Awaited { exit_status, lost_node, .. }) = job.restart else { return };
        job.continued_as = Some(Continuation { job: successor.0, checkpoint, lost_node: lost_node.0 });
        tracing::info!(job = id.0, successor = successor.0, %checkpoint, "goes on");
        self.finish_job(id, exit_status, now);
    }

    /// A job that lost a node stays ended, which its user did not want.
    pub(super) fn not_restarted(&mut self, id: JobId, why: &str, now: Now) {
        if self.check_continued(id).is_ok() {
            let text = format!("job {id} is not restarted: {why}");
            self.record_ras(None, &ras(Severity::Error, RasKind::RestartFailed, Some(id), text), now);
            self.give_up_restart(id, why, now);
        }
    }

    /// A job that lost a node stays ended.
    pub(super) fn give_up_restart(&mut self, id: JobId, why: &str, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(Awaited { exit_status, .. }) = job.restart else { return };
        let lost = job.reason.take().unwrap_or_else(|| "a node was lost".to_owned());
        job.reason = Some(format!("{lost}; not restarted: {why}"));
        self.finish_job(id, exit_status, now);
    }
}
