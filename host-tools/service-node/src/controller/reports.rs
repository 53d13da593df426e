//! What I/O nodes report.

use coppice_api::job::{RankOutcome, RankView, SyscallView};
use coppice_api::signal::SIGKILL;
use coppice_api::stream::JobEvent;
use coppice_protocol::control::{Dying, Exit, JobFailure, RankReport, Waiting};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pmi::{Departure, Failure};
use coppice_protocol::pset::{FromPset, NodeEnds};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::syscalls;

use super::job::{Job, Missing};
use super::jobs::empty_report;
use super::{Controller, Now};
use crate::plant::Plant;
use crate::records::What;

impl<P: Plant> Controller<P> {
    pub(super) fn pset_message(&mut self, pset: PsetId, message: FromPset, now: Now) {
        match message {
            // Handled where I/O nodes are started and watched.
            FromPset::Listening | FromPset::Alive => {}
            FromPset::Pulled { request, pulled } => self.pulled(pset, request, pulled, now),
            FromPset::Pulling { request, objects } => self.pulling(pset, request, objects, now),
            FromPset::Wiped { request, failed } => self.wiped(pset, request, failed),
            FromPset::NodeReady { node, generation, status } if self.is_in(node, pset) => {
                self.node_ready(node, generation, status, now);
            }
            FromPset::Memory { node, generation, memory } if self.is_in(node, pset) => {
                self.node_memory(node, generation, memory);
            }
            FromPset::NodeLost { node, generation, reason } if self.is_in(node, pset) => {
                self.node_unreachable(node, generation, &reason, now);
            }
            FromPset::Launched { job, ranks } => self.ranks_launched(pset, job, &ranks, now),
            FromPset::Ended(ends) => self.ranks_reported(pset, ends, now),
            FromPset::Failed { node, failure } => self.job_failed(pset, node, failure, now),
            FromPset::Waits(waiting) => self.ranks_wait(pset, waiting, now),
            FromPset::Dies { node, dying } => self.rank_dies(pset, node, dying),
            FromPset::Spawns { node, spawn } => self.spawn_wanted(pset, node, spawn),
            FromPset::Joined { node, job, nodes } => self.node_knows(pset, node, job, nodes),
            FromPset::Overlay { node, job, said } => self.overlay_heard(pset, node, job, &said, now),
            FromPset::WantsCheckpoint { job } => self.checkpoint_asked(pset, job, now),
            FromPset::Retained { node, answer } => self.node_retained(pset, node, answer, now),
            FromPset::Discarded { node, answer } => self.node_discarded(pset, node, &answer, now),
            FromPset::Inspected { node, answer } => self.node_inspected(node, answer),
            FromPset::Kept { node, answer } => self.node_kept(pset, node, &answer, now),
            FromPset::KeepFailed { request, reason } => self.keep_failed(pset, request, &reason, now),
            FromPset::Refused { job, ranks, reason } => self.ranks_refused(pset, job, &ranks, &reason, now),
            FromPset::Transferred(end) => self.transfer_ended(pset, end, now),
            FromPset::BroadcastBegun(begun) => self.broadcast_begun(pset, begun),
            FromPset::Transferring(progress) => self.transfer_goes_on(pset, progress, now),
            FromPset::Keeping(progress) => self.keep_goes_on(pset, progress),
            FromPset::Output { job, rank, stream, bytes } => self.output(pset, job, rank, stream, bytes, now),
            FromPset::InputTaken { job, bytes } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    // Never more room than what was sent: a wrong count must not widen the window.
                    let freed = (bytes as usize).min(job.input_under_way);
                    job.input_under_way -= freed;
                    job.input.add_permits(freed);
                }
            }
            FromPset::Ras { node, event } if node.is_none_or(|node| self.is_in(node, pset)) => {
                self.record_ras(node, &event, now);
            }
            other @ (FromPset::NodeReady { .. }
            | FromPset::Memory { .. }
            | FromPset::NodeLost { .. }
            | FromPset::Ras { .. }) => {
                tracing::warn!(pset = pset.0, ?other, "about a node of another pset");
            }
        }
    }

    fn is_in(&self, node: NodeId, pset: PsetId) -> bool {
        self.nodes.get(node).is_some_and(|node| node.pset == pset)
    }

    fn ranks_launched(&mut self, pset: PsetId, id: JobId, ranks: &Ranks, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let program = job.program.id;
        // A launch that is not to use a retained table of the program discards it.
        let mut discarded: Vec<NodeId> = Vec::new();
        let mut was_new = false;
        let size = u32::try_from(job.ranks.len()).unwrap_or(u32::MAX);
        for rank in ranks.of_job(size) {
            let Some(state) = job.ranks.get(rank).filter(|state| state.pset == pset) else {
                tracing::warn!(pset = pset.0, job = id.0, rank = rank.0, "launched, but not asked for");
                continue;
            };
            let (node, use_retained, has_ended) = (state.node, state.use_retained, state.has_ended());
            if job.ranks.launched(rank) && !has_ended {
                was_new = true;
                if !use_retained && discarded.last() != Some(&node) {
                    discarded.push(node);
                }
            }
        }
        if was_new {
            job.launch_goes_on(now.instant);
        }
        if was_new && job.is_running() {
            job.launch_is_over();
            job.times.running_ns.get_or_insert(now.realtime_ns);
            job.schedule.begin(now.instant);
            self.records.add(What::Running(id), now);
            self.tell_running(id);
            self.overlay_of_running(id, now);
        }
        self.all_drop_held(&discarded, program, now);
    }

    fn ranks_reported(&mut self, pset: PsetId, all: Vec<NodeEnds>, now: Now) {
        let mut ended: Vec<(JobId, Vec<RankView>)> = Vec::new();
        let mut held = Vec::new();
        for NodeEnds { node, ends } in all {
            let mut is_known = false;
            for report in ends.reports {
                let (id, rank) = (report.job, report.rank);
                let job = self.jobs.get_mut(&id);
                let is_its = |job: &&mut Job| {
                    let state = job.ranks.get(rank);
                    state.is_some_and(|state| state.node == node && state.pset == pset && !state.has_ended())
                };
                let Some(job) = job.filter(is_its) else {
                    tracing::debug!(pset = pset.0, job = id.0, rank = rank.0, "report of a rank that is over");
                    continue;
                };
                is_known = true;
                job.transfers.counted(&report.transfers);
                job.gone_after(report.barriers, Missing { rank, node, how: Departure::Ended(report.exit) });
                let view = view(node, report);
                match ended.last_mut() {
                    Some((of, views)) if *of == id => views.push(view),
                    _ => ended.push((id, vec![view])),
                }
            }
            if is_known {
                held.push((node, ends.held));
            }
        }
        self.set_all_held(held, now);
        for (id, reports) in ended {
            self.ranks_ended(id, reports, now);
            self.end_if_stuck(id, now);
        }
    }

    /// Whoever runs the job may take a core file of the rank.
    fn rank_dies(&mut self, pset: PsetId, node: NodeId, Dying { job: id, rank, signal }: Dying) {
        let Some(job) = self.jobs.get(&id) else { return };
        let state = job.ranks.get(rank).filter(|state| state.node == node && state.pset == pset && !state.has_ended());
        if state.is_some() && job.submission.core_file {
            job.feed.event(&JobEvent::Dies { rank: rank.0, signal });
        }
    }

    /// Ranks have waited for a while in a barrier.
    fn ranks_wait(&mut self, pset: PsetId, Waiting { job: id, barrier }: Waiting, now: Now) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.ranks.are_in(pset)) else { return };
        job.wait_in(barrier);
        self.end_if_stuck(id, now);
    }

    /// Ends a job whose ranks wait for one that has ended: it can no longer come.
    fn end_if_stuck(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(Missing { rank, node, how }) = job.missing() else { return };
        let failure = Failure::Missing { rank, node, how };
        job.failed(failure.code());
        self.kill_job(id, Some(failure.to_string()), now);
    }

    /// A rank ended its job, or its node found that the job cannot go on. The reason goes to the user as it is.
    fn job_failed(&mut self, pset: PsetId, node: NodeId, failure: JobFailure, now: Now) {
        let JobFailure { job: id, rank, code, reason } = failure;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // What it says of one that has lost a node comes too late.
        if job.restart.is_some() {
            return;
        }
        // Its ranks on that node may have ended meanwhile.
        if !job.ranks.are_on(node, pset) {
            return tracing::warn!(job = id.0, rank = rank.0, reason, "from a node without a rank of the job");
        }
        job.failed(code);
        self.kill_job(id, Some(reason), now);
    }

    fn ranks_refused(&mut self, pset: PsetId, id: JobId, ranks: &Ranks, reason: &str, now: Now) {
        let Some(job) = self.jobs.get(&id) else { return };
        let is_killed = job.is_being_killed();
        let report = |rank: Rank| {
            let node = job.ranks.get(rank).filter(|state| state.pset == pset)?.node;
            let reason = Some(reason.to_owned());
            Some(match is_killed {
                // It was killed before it began.
                true => RankView { signal: Some(SIGKILL), ..empty_report(rank, node, RankOutcome::Signalled, reason) },
                false => empty_report(rank, node, RankOutcome::NotStarted, reason),
            })
        };
        let size = u32::try_from(job.ranks.len()).unwrap_or(u32::MAX);
        let reports = ranks.of_job(size).filter_map(report).collect();
        self.ranks_ended(id, reports, now);
    }
}

fn view(node: NodeId, report: RankReport) -> RankView {
    let (outcome, exit, signal) = match report.exit {
        Exit::Status(status) => (RankOutcome::Exited, Some(status), None),
        Exit::Signal(signal) => (RankOutcome::Signalled, None, Some(signal)),
        Exit::NotStarted => (RankOutcome::NotStarted, None, None),
    };
    let syscall = |count: coppice_protocol::control::SyscallCount| SyscallView {
        number: count.number,
        name: syscalls::name(count.number).map(str::to_owned),
        calls: count.calls,
        unknown: count.unknown,
    };
    RankView {
        exit,
        signal,
        counters: report.counters,
        pages_retained: report.retention.found,
        pages_kept: report.retention.walk.kept,
        pages_dropped: report.retention.walk.dropped,
        pages_zeroed: report.retention.walk.zeroed,
        walk_ns: report.retention.walk.walk_ns,
        syscalls: report.syscalls.into_iter().map(syscall).collect(),
        ..empty_report(report.rank, node, outcome, report.reason)
    }
}
