//! Jobs that are under way: sent signals, killed, ended.

use coppice_api::job::{JobView, RankOutcome, RankView};
use coppice_api::output::OutputView;
use coppice_api::signal::{SIGINT, SIGKILL, SIGTERM, name as signal_name};
use coppice_api::stream::JobEvent;
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::pset::ToPset;

use super::job::{Due, Job};
use super::node::Phase;
use super::ranks::RankState;
use super::requests::reply;
use super::{Controller, Now, Refused, restart, staging};
use crate::database::JobRow;
use crate::limits::{ATTACH_TIME_MAX, RESTART_TIME_MAX};
use crate::plant::Plant;
use crate::records::What;

impl<P: Plant> Controller<P> {
    /// Ends a job by `SIGKILL`, for a reason.
    pub(super) fn kill_job(&mut self, id: JobId, reason: Option<String>, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.restart.is_some() {
            return self.give_up_restart(id, reason.as_deref().unwrap_or("it was ended"), now);
        }
        if job.is_waiting() {
            return self.end_unstarted(id, 128 + SIGKILL, reason, now);
        }
        job.killing(reason, now.instant);
        for pset in job.ranks.live_psets() {
            self.plant.tell(pset, &ToPset::Kill { job: id });
        }
    }

    /// Ends a job that no I/O node knows of yet: it is in the queue, or its nodes wait for its program.
    pub(super) fn end_unstarted(&mut self, id: JobId, exit_status: u8, reason: Option<String>, now: Now) {
        self.scheduler.remove(id);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.reason = reason;
        let not_started = |(rank, state): (Rank, &RankState)| {
            empty_report(rank, state.node, RankOutcome::NotStarted, job.reason.clone())
        };
        let reports: Vec<RankView> = job.ranks.live().map(not_started).collect();
        // One that lost a rank has the exit status of that.
        let is_hurt = reports.len() < job.ranks.len();
        let exit_status = if is_hurt { job.exit_status() } else { exit_status };
        if !reports.is_empty() {
            self.records.add(What::Ranks(id, reports), now);
        }
        self.end_or_restart(id, exit_status, now);
    }

    /// Does with a job what somebody asked for by naming a signal: ends it, or passes the signal on to its ranks, which
    /// do about it what they have said.
    pub(super) fn signal_job(&mut self, id: JobId, signal: u8, now: Now) -> Result<(), Refused> {
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
        let reason = Some(asked_reason(signal));
        match signal {
            SIGKILL | SIGTERM | SIGINT if job.restart.is_some() => self.kill_job(id, reason, now),
            SIGKILL | SIGTERM | SIGINT if job.is_waiting() => self.end_unstarted(id, 128 + signal, reason, now),
            SIGKILL => self.kill_job(id, reason, now),
            _ if job.is_waiting() => {
                let name = signal_name(signal);
                return Err(Refused::conflict(&format!(
                    "job {id} waits for nodes and has no ranks yet that could take {name}; KILL, TERM and INT take it \
                     out of the queue"
                )));
            }
            _ => {
                job.asked.insert(signal);
                for pset in job.ranks.live_psets() {
                    self.plant.tell(pset, &ToPset::Signal { job: id, signal });
                }
            }
        }
        Ok(())
    }

    /// Ranks are over in whatever way. The job may be, too. They are recorded together.
    pub(super) fn ranks_ended(&mut self, id: JobId, mut reports: Vec<RankView>, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let is_being_killed = job.is_being_killed();
        reports.retain_mut(|report| {
            let rank = Rank(report.rank);
            report.retain = job.ranks.get(rank).and_then(|state| state.retain);
            // A signal that somebody had it sent is no consequence: it is what was asked for.
            let was_asked_for = report.signal.is_some_and(|signal| job.asked.contains(&signal));
            job.ranks.ended(rank, report, is_being_killed && !was_asked_for)
        });
        if reports.is_empty() {
            return;
        }
        let goes_on = job.goes_on_without_node();
        // Without that rank the job cannot come to its end.
        let is_outlived = |report: &&RankView| report.outcome == RankOutcome::Lost && goes_on;
        let failure = reports.iter().filter(|report| !is_outlived(report)).find_map(failure_of);
        let mut nodes: Vec<NodeId> = reports.iter().map(|report| NodeId(report.node)).collect();
        nodes.dedup();
        self.records.add(What::Ranks(id, reports), now);
        self.ended_in_family(id, &nodes);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // The node stays with the job until all of it is over: a block is given up as a whole.
        if job.is_over() {
            if let Some(signal) = job.ended_as_asked() {
                job.ended_because(asked_reason(signal));
            }
            if let Some(failure) = failure.or_else(|| job.first_lost()) {
                job.reason.get_or_insert(failure);
            }
            let status = job.exit_status();
            self.end_or_restart(id, status, now);
        } else if let Some(failure) = failure {
            // Each pset is told so once, however many are lost.
            match job.is_being_killed() {
                true => job.killing(Some(failure), now.instant),
                false => self.kill_job(id, Some(failure), now),
            }
        }
    }

    /// The node of ranks is gone.
    pub(super) fn ranks_lost(&mut self, id: JobId, node: NodeId, reason: &str, now: Now) {
        self.overlay_loses(id, node, now);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.goes_on_without_node() {
            let ranks: Vec<Rank> = job.ranks.live_on(node).collect();
            for pset in job.ranks.psets() {
                self.plant.tell(pset, &ToPset::NodeLost { job: id, node, ranks: ranks.clone() });
            }
        } else {
            job.has_lost(node);
        }
        let lost = |rank| empty_report(rank, node, RankOutcome::Lost, Some(reason.to_owned()));
        let reports = job.ranks.live_on(node).map(lost).collect();
        self.ranks_ended(id, reports, now);
    }

    /// Nothing of a job is left on any node.
    pub(super) fn finish_job(&mut self, id: JobId, exit_status: u8, now: Now) {
        // By now all nodes have said what they counted.
        self.record_transfers(id, now);
        self.end_overlay(id, now);
        let Some(mut job) = self.jobs.remove(&id) else { return };
        job.input.close();
        // One that was to be restarted has given them up before.
        if job.restart.is_none() {
            self.give_up_nodes(&job);
        }
        let (retention, pages_touched) = (job.retention(), job.pages_touched());
        let (reason, continued_as) = (job.reason.clone(), job.continued_as);
        let end = JobRow { exit_status, reason, retention, pages_touched, continued_as };
        self.records.add(What::Ended(id, end.clone()), now);
        let view = match self.records.job_alone(id) {
            Ok(Some(view)) => view,
            found => {
                tracing::error!(job = id.0, ?found, "ended, but not in the database");
                lost_view(&job, &end, now)
            }
        };
        restart::never_ran(&mut job);
        for waiter in job.waiters.drain(..) {
            reply(waiter, Ok(view.clone()));
        }
        job.feed.event(&JobEvent::Ended(Box::new(view)));
        self.left_family(id, job.descent.as_ref(), (exit_status, job.reason.as_deref()));
        self.close_log(id);
        self.counts.job_ended(&end, job.times.submitted_ns, job.times.started_ns, now.realtime_ns);
        tracing::info!(job = id.0, exit_status, reason = job.reason, "job ended");
        self.unclaimed.keep(id, job.feed, now.instant);
        if let Some(tracer) = job.tracer {
            self.unclaimed_traces.keep(id, tracer.into_feed(), now.instant);
        }
        self.changed = true;
    }

    /// Nothing of a job is left on its nodes: they take others.
    pub(super) fn give_up_nodes(&mut self, job: &Job) {
        for pset in job.ranks.psets() {
            self.plant.tell(pset, &ToPset::Forget { job: job.id });
        }
        for (node, _) in job.ranks.by_node() {
            if self.nodes.get(node).is_some_and(|node| node.phase() == Phase::Busy(job.id)) {
                self.set_phase(node, Phase::Ready);
            }
        }
    }

    pub(super) fn advance_jobs(&mut self, now: Now) {
        let due: Vec<(JobId, Due)> =
            self.jobs.values().filter_map(|job| Some((job.id, job.due(now.instant)?))).collect();
        for (id, due) in due {
            match due {
                Due::Attach => {
                    let reason = format!("nobody took its output within {} s", ATTACH_TIME_MAX.as_secs());
                    self.kill_job(id, Some(reason), now);
                }
                Due::Timeout => {
                    let ms = self.jobs.get(&id).and_then(|job| job.submission.timeout_ms).unwrap_or_default();
                    let seconds = std::time::Duration::from_millis(ms).as_secs_f64();
                    self.kill_job(id, Some(format!("ended by --timeout after {seconds} s")), now);
                }
                Due::Launch => self.launch_is_late(id, now),
                Due::Kill => self.lose_stuck_nodes(id, now),
                Due::Restart => {
                    let reason = format!("that took longer than {} s", RESTART_TIME_MAX.as_secs());
                    self.not_restarted(id, &reason, now);
                }
                Due::Checkpoint => self.make_checkpoint(id, now),
            }
        }
    }

    /// A job's ranks do not all begin.
    fn launch_is_late(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.launch_is_over();
        // If those that have not begun have all ended, it goes on without.
        if let Some(reason) = job.why_not_launched() {
            self.kill_job(id, Some(reason), now);
        }
    }

    /// Nodes that do not end a killed job are of no more use in this boot.
    fn lose_stuck_nodes(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get(&id) else { return };
        let stuck: Vec<NodeId> = job.ranks.live_nodes().collect();
        for node in stuck {
            let reason = format!("it did not end job {id} within {} s", crate::limits::KILL_TIME_MAX.as_secs());
            self.lose_node(node, &reason, Phase::Stopping, now);
            self.plant.kill_machine(node);
        }
    }
}

/// The reason recorded for the end of a job that somebody asked for.
fn asked_reason(signal: u8) -> String {
    format!("ended by {} on request", signal_name(signal))
}

/// Why a job cannot go on as it was meant to, if that is what the end of a rank means.
fn failure_of(report: &RankView) -> Option<String> {
    match report.outcome {
        RankOutcome::Lost => report.reason.clone(),
        RankOutcome::NotStarted => {
            let reason = report.reason.as_deref().unwrap_or("the node does not say why");
            Some(format!("rank {} could not be started on node {}: {reason}", report.rank, report.node))
        }
        RankOutcome::Exited | RankOutcome::Signalled => None,
    }
}

/// A report of a rank that cannot report itself.
pub(super) fn empty_report(rank: Rank, node: NodeId, outcome: RankOutcome, reason: Option<String>) -> RankView {
    RankView::ended(rank.0, node.0, outcome, reason)
}

/// The view of a job that the database cannot show.
fn lost_view(job: &Job, end: &JobRow, now: Now) -> JobView {
    JobView {
        staged: staging::asked(&job.submission, &job.program, &job.staged),
        transfers: job.transfer_views(),
        job: job.id.0,
        state: coppice_api::job::JobState::Ended,
        name: job.submission.name.clone(),
        arguments: job.submission.arguments.clone(),
        program: job.program.id.to_string(),
        root: job.submission.root.clone(),
        directory: job.submission.directory.clone(),
        ranks: job.submission.ranks,
        ranks_per_node: job.submission.ranks_per_node,
        nodes: job.ranks.by_node().map(|(node, _)| node.0).collect(),
        submitted_at_ns: job.times.submitted_ns,
        started_at_ns: job.times.started_ns,
        running_at_ns: job.times.running_ns,
        ended_at_ns: Some(now.realtime_ns),
        estimate_ms: job.submission.estimate_ms,
        placement: job.placement.clone(),
        ahead: job.ahead.clone(),
        retention: end.retention,
        exit_status: Some(end.exit_status),
        reason: end.reason.clone(),
        detached: job.submission.detached,
        output: job.submission.keep_output.map(OutputView::limited),
        restarted_from: job.submission.restarted_from,
        spawned_by: job.submission.spawned_by,
        checkpoint_policy: job.submission.checkpoint_policy,
        checkpoints_made: job.checkpoints_made,
        continued_as: end.continued_as,
    }
}
