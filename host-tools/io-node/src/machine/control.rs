//! The control service: what a node says of itself and of its ranks.

use coppice_protocol::control::{Dying, Ends, JobFailure, RankReport, ToIoNode, Waiting};
use coppice_protocol::ids::JobId;
use coppice_protocol::pset::FromPset;
use coppice_protocol::ranks::Ranks;
use coppice_protocol::retain::{Retained, RetainedProgram};
use coppice_protocol::session::Identity;
use coppice_protocol::ship::Owner;
use coppice_protocol::spawn::Spawn;

use super::ranks::RankState;
use super::{Machine, Now};

impl Machine {
    /// A node said something on its control connection.
    pub(super) fn heard_control(&mut self, identity: Identity, message: ToIoNode, now: Now) {
        match message {
            ToIoNode::Ready(status) => {
                self.nodes.set_status(identity, status);
                self.check_ready(identity, now);
            }
            ToIoNode::Pong { memory, .. } => {
                if self.nodes.set_memory(identity, memory) {
                    let Identity { node, generation } = identity;
                    self.outbox.push(FromPset::Memory { node, generation, memory });
                }
            }
            ToIoNode::Launched { job, ranks } => self.launched(identity, job, &ranks),
            ToIoNode::Ended(ends) => self.all_ended(identity, ends, now),
            ToIoNode::Failed(failure) => self.failed(identity, failure),
            ToIoNode::Waits(waiting) => self.waits_at_barrier(identity, waiting),
            ToIoNode::Retained(answer) => self.retained(identity, answer),
            ToIoNode::Discarded(answer) => self.outbox.push(FromPset::Discarded { node: identity.node, answer }),
            ToIoNode::Inspected(answer) => self.outbox.push(FromPset::Inspected { node: identity.node, answer }),
            ToIoNode::Kept(answer) => self.kept(identity, answer),
            ToIoNode::Dies(dying) => self.dies(identity, dying),
            ToIoNode::WantsCheckpoint { job } => self.wants_checkpoint(identity, job),
            ToIoNode::Spawns(spawn) => self.spawns(identity, spawn),
            ToIoNode::Joined { job, nodes } => self.known_to_have_joined(identity, job, nodes),
            ToIoNode::Overlay { job, said } => self.overlay_says(identity, job, said),
            ToIoNode::Ras(event) => self.report(identity.node, event),
        }
    }

    fn launched(&mut self, Identity { node, .. }: Identity, id: JobId, ranks: &Ranks) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.later.is_none()) else { return };
        // No node speaks for another's ranks.
        let Some(member) = job.ranks.on(node) else { return };
        let end = member.first.0.saturating_add(member.count);
        for rank in ranks.of_job(end) {
            let state = job.ranks.get_mut(rank).filter(|state| state.node == node);
            if state.is_some_and(RankState::launched) {
                self.outbox.launched(id, rank);
            }
        }
    }

    fn all_ended(&mut self, identity: Identity, Ends { held, reports }: Ends, now: Now) {
        for report in reports {
            self.ended(identity, report, &held, now);
        }
    }

    fn ended(&mut self, identity: Identity, report: RankReport, held: &[RetainedProgram], now: Now) {
        let owner = Owner { job: report.job, rank: report.rank };
        let Some((job, _)) = self.jobs.rank_on(identity.node, owner) else {
            tracing::warn!(node = %identity.node, ?owner, "report about a rank that is not there");
            return;
        };
        let place = job.place;
        // The node repeats what may have been lost with a connection.
        if self.end_rank(owner, now) {
            self.tell_end_when_closed(place, identity.node, report, held, now);
        }
    }

    fn failed(&mut self, Identity { node, .. }: Identity, failure: JobFailure) {
        // Also of a node whose ranks have ended meanwhile: the job goes on elsewhere.
        if self.jobs.get(failure.job).is_some_and(|job| job.is_on(node)) {
            self.outbox.push(FromPset::Failed { node, failure });
        } else {
            tracing::debug!(%node, ?failure, "of a job that has no rank there");
        }
    }

    fn dies(&mut self, Identity { node, .. }: Identity, dying: Dying) {
        if self.jobs.rank_on(node, Owner { job: dying.job, rank: dying.rank }).is_some() {
            self.outbox.push(FromPset::Dies { node, dying });
        }
    }

    fn wants_checkpoint(&mut self, Identity { node, .. }: Identity, job: JobId) {
        if self.jobs.get(job).is_some_and(|job| job.is_on(node)) {
            self.outbox.push(FromPset::WantsCheckpoint { job });
        }
    }

    fn spawns(&mut self, Identity { node, .. }: Identity, spawn: Spawn) {
        let owner = Owner { job: spawn.job, rank: spawn.rank };
        let is_there = self.jobs.rank_on(node, owner).is_some_and(|(job, _)| {
            job.ranks.get(spawn.rank).is_some_and(|rank| !rank.has_ended()) && spawn.wanted.is_within_limits()
        });
        if is_there {
            self.outbox.push(FromPset::Spawns { node, spawn });
        }
    }

    fn known_to_have_joined(&mut self, Identity { node, .. }: Identity, job: JobId, nodes: u32) {
        if self.jobs.get(job).is_some_and(|job| job.is_on(node)) {
            self.outbox.push(FromPset::Joined { node, job, nodes });
        }
    }

    /// The first of the pset's nodes that says so speaks for all.
    fn waits_at_barrier(&mut self, Identity { node, .. }: Identity, waiting: Waiting) {
        let job = self.jobs.get_mut(waiting.job).filter(|job| job.is_on(node));
        if job.is_some_and(|job| job.is_new_wait(waiting.barrier)) {
            self.outbox.push(FromPset::Waits(waiting));
        }
    }

    fn retained(&mut self, Identity { node, .. }: Identity, answer: Retained) {
        if self.jobs.was_told_to_retain(node, &answer) {
            self.outbox.push(FromPset::Retained { node, answer });
        } else {
            tracing::warn!(%node, ?answer, "answer to an order that was not given");
        }
    }
}
