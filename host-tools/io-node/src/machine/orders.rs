//! What the service node wants of jobs, and what happens to nodes with all that is on them.

use coppice_protocol::control::{Signal, ToNode};
use coppice_protocol::ids::{Generation, JobId, NodeId, Rank};
use coppice_protocol::inspect::Inspect;
use coppice_protocol::limits::RAS_TEXT_BYTES_MAX;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ranks::Ranks;
use coppice_protocol::ras::RasEvent;
use coppice_protocol::retain::{Discard, Retain};
use coppice_protocol::session::{Identity, SendError};
use coppice_protocol::ship::{NOTICE_ID, Notice, Owner};
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::trace::Traced;
use serde::Serialize;

use super::effect::Effect;
use super::jobs::Job;
use super::lines::LineId;
use super::nodes::Readiness;
use super::{Machine, Now};

impl Machine {
    /// Passes an event on, its text cut to the limit.
    pub(super) fn report(&mut self, node: NodeId, mut event: RasEvent) {
        event.text.truncate(event.text.floor_char_boundary(RAS_TEXT_BYTES_MAX));
        self.outbox.push(FromPset::Ras { node: Some(node), event });
    }

    /// A connection or a word of the node's may have been the last that was missing.
    pub(super) fn check_ready(&mut self, identity: Identity, now: Now) {
        match self.nodes.check_ready(identity) {
            Readiness::Not => {}
            Readiness::Now(status) => {
                let Identity { node, generation } = identity;
                self.outbox.push(FromPset::NodeReady { node, generation, status });
            }
            // What was said on the lost connection may be lost with it; a node that heard it says so again.
            Readiness::Still => {
                for job in self.jobs.live_on(identity.node) {
                    self.launch_or_kill(job, identity.node, now);
                }
                self.tell_keeps_again(identity.node);
            }
        }
    }

    /// A ready node is lost, and its ranks with it. The service node concludes that from the one message.
    pub(super) fn lose_node(&mut self, identity: Identity, reason: String, now: Now) {
        let Some(lines) = self.nodes.lose(identity) else { return };
        self.end_ranks_on(identity.node, now);
        let Identity { node, generation } = identity;
        tracing::warn!(%node, %generation, %reason, "node lost");
        self.outbox.push(FromPset::NodeLost { node, generation, reason });
        self.cut(lines, now);
    }

    /// Frees what the ranks on a node had. What is known of the end of others is told first.
    pub(super) fn end_ranks_on(&mut self, node: NodeId, now: Now) {
        self.tell_ends_on(node);
        for id in self.jobs.live_on(node) {
            let ranks = self.jobs.get(id).map(|job| job.ranks.live_on(node)).unwrap_or_default();
            for rank in ranks.of_job(u32::MAX) {
                self.end_rank(Owner { job: id, rank }, now);
            }
        }
    }

    /// A rank has ended, or never was: frees what it had. False if it had ended before.
    pub(super) fn end_rank(&mut self, owner: Owner, now: Now) -> bool {
        let Some(job) = self.jobs.get_mut(owner.job) else { return false };
        let (place, is_open) = (job.place, job.later.is_none());
        let Some(node) = job.ranks.end(owner.rank) else { return false };
        job.output.leave(owner.rank);
        self.owe_nothing(owner, place, now);
        self.closed_all(node, place, owner, now);
        self.unlock_all(owner, now);
        if is_open {
            self.effects.push(Effect::Close { place, rank: owner.rank, node });
        }
        self.tell_printers(owner.job);
        true
    }

    /// Tells ranks that have room for their output now.
    pub(super) fn tell_printers(&mut self, job: JobId) {
        let told = self.jobs.get_mut(job).map(|job| job.output.take_told()).unwrap_or_default();
        for rank in told {
            let owner = Owner { job, rank };
            self.notify(owner, &Notice::Output(owner));
        }
    }

    /// More input of a job; none is the end.
    fn input(&mut self, id: JobId, bytes: &[u8]) {
        // Input for a job that just ended has nobody to read it.
        let Some(job) = self.jobs.get_mut(id) else { return };
        let is_wanted = job.input.push(bytes);
        if let Some(owner) = job.input_rank().filter(|_| is_wanted).map(|rank| rank.owner) {
            self.notify(owner, &Notice::Input(owner));
        }
    }

    /// The user took that much of a job's output.
    fn output_taken(&mut self, id: JobId, bytes: usize) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.output.taken(bytes);
        self.tell_printers(id);
    }

    /// Says something to a rank's node.
    pub(super) fn notify(&mut self, owner: Owner, notice: &Notice) {
        let rank = self.jobs.get(owner.job).and_then(|job| job.ranks.get(owner.rank));
        if let Some(node) = rank.map(|rank| rank.node) {
            self.notify_node(node, notice);
        }
    }

    /// The same to a node.
    pub(super) fn notify_node(&mut self, node: NodeId, notice: &Notice) {
        let line = self.nodes.ship_of(node);
        // Without a connection, the node asks again when it has one.
        let sent = line.map(|line| self.send(line, NOTICE_ID, notice, Vec::new()));
        if let Some(Err(error)) = sent {
            tracing::debug!(%error, ?notice, "notice was not sent");
        }
    }

    /// Does what is ordered about a job, now or when it is open; what is no such order does nothing.
    pub(super) fn order_for_job(&mut self, order: ToPset, now: Now) {
        let (ToPset::Kill { job }
        | ToPset::Signal { job, .. }
        | ToPset::Trace { job, .. }
        | ToPset::Checkpointed { job, .. }
        | ToPset::NodeLost { job, .. }
        | ToPset::Joined(Joined { job, .. })
        | ToPset::Spawned(Spawned { job, .. })
        | ToPset::Overlay { job, .. }
        | ToPset::Forget { job }
        | ToPset::Input { job, .. }
        | ToPset::OutputTaken { job, .. }) = order
        else {
            return;
        };
        if self.is_kept_for_later(job, &order) {
            return;
        }
        match order {
            ToPset::Kill { job } => self.kill(job),
            ToPset::Signal { job, signal } => self.signal(job, signal),
            ToPset::Trace { job, traced } => self.trace(job, traced),
            ToPset::Checkpointed { job, made } => self.checkpointed(job, made),
            ToPset::NodeLost { job, node, ranks } => self.node_of_job_lost(job, node, ranks),
            ToPset::Joined(joined) => self.joined(joined),
            ToPset::Spawned(spawned) => self.spawned(spawned),
            ToPset::Overlay { job, node, order } => self.order_overlay(job, node, order),
            ToPset::Forget { job } => self.forget(job, now),
            ToPset::Input { job, bytes } => self.input(job, &bytes),
            // Does not fit only on machines where nothing of this runs.
            ToPset::OutputTaken { job, bytes } => self.output_taken(job, usize::try_from(bytes).unwrap_or(usize::MAX)),
            _ => {}
        }
    }

    /// Launches all ranks of a job.
    pub(super) fn launch_all(&mut self, job: JobId, now: Now) {
        let Some(of) = self.jobs.get_mut(job) else { return };
        of.is_launched = true;
        for node in of.ranks.live_nodes() {
            self.launch_or_kill(job, node, now);
        }
    }

    /// Tells a node what it shall do with its ranks of a job: run them, and end them then if the job was killed. Of a
    /// rank that it was never told to run, or was on a connection that is lost, a node could not say that it has ended.
    fn launch_or_kill(&mut self, id: JobId, node: NodeId, now: Now) {
        let Some(job) = self.jobs.get(id).filter(|job| job.later.is_none()) else { return };
        let (ranks, is_killed) = (job.ranks.live_on(node), job.is_killed);
        let (launched, reason) = match self.nodes.control(node) {
            Some((generation, line)) => match self.launch((node, line), generation, id, &ranks) {
                (_, Ok(())) if is_killed => return self.send_kill(id, node),
                (_, Ok(())) => {
                    if let Some(traced) = self.jobs.get(id).and_then(Job::traced) {
                        self.send_control(node, &ToNode::Trace { job: id, traced });
                    }
                    if let Some(made) = self.jobs.get(id).and_then(Job::checkpointed) {
                        self.send_control(node, &ToNode::Checkpointed { job: id, made });
                    }
                    let of_overlay = self.overlay_again(id, node);
                    for order in self.losses(id).into_iter().chain(self.of_spawns(id, node)).chain(of_overlay) {
                        self.send_control(node, &order);
                    }
                    let signals = self.jobs.get(id).map(Job::signals).unwrap_or_default();
                    return signals.into_iter().for_each(|signal| self.send_signal(signal, node));
                }
                // Something that came on it made no sense; it is about to end, and as below then.
                (_, Err(SendError::NotEstablished)) => return,
                (launched, Err(error)) => (launched, format!("cannot launch on node {node}: {error}")),
            },
            // The connection is expected back, and the launches go out then.
            None if self.nodes.is_ready(node) => return,
            None => (0, format!("node {node} is not ready")),
        };
        let others = ranks.without_first(launched);
        for rank in others.of_job(u32::MAX) {
            self.end_rank(Owner { job: id, rank }, now);
        }
        self.outbox.push(FromPset::Refused { job: id, ranks: others, reason });
    }

    /// Tells a node to run ranks of a job. If it is believed to hold the program's page table it is told to retain that
    /// first, once, unless they are to be ended at once: all orders go out together, and come one after the other. Says
    /// how many ranges of ranks it was told to run.
    fn launch(
        &mut self,
        (node, line): (NodeId, LineId),
        generation: Generation,
        id: JobId,
        ranks: &Ranks,
    ) -> (usize, Result<(), SendError>) {
        let Some((job, member)) = self.jobs.get(id).and_then(|job| Some((job, job.ranks.on(node)?))) else {
            return (0, Ok(()));
        };
        let mut orders = Vec::new();
        if !job.is_killed && member.use_retained {
            let order = Retain { job: id, generation, program: job.program_id() };
            orders.push(ToNode::Retain(order));
        }
        let has_manifest = job.keeps_files() && self.manifests.has(job.root(), job.program_id());
        orders.extend(ranks.ranges().iter().map(|range| ToNode::Launch(job.launch(member, *range, has_manifest))));
        let mut launched = 0;
        for order in orders {
            if let Err(error) = self.send(line, 0, &order, Vec::new()) {
                return (launched, Err(error));
            }
            launched += usize::from(matches!(order, ToNode::Launch(_)));
        }
        (launched, Ok(()))
    }

    /// Says something to a node that is ready and connected.
    pub(super) fn send_control(&mut self, node: NodeId, order: &(impl Serialize + std::fmt::Debug)) {
        let control = self.nodes.control(node);
        let sent = control.map(|(_, line)| self.send(line, 0, order, Vec::new()));
        if let Some(Err(error)) = sent {
            tracing::warn!(%node, ?order, %error, "order was not sent");
        }
    }

    fn send_kill(&mut self, job: JobId, node: NodeId) {
        self.send_control(node, &ToNode::Kill { job });
    }

    fn send_signal(&mut self, signal: Signal, node: NodeId) {
        self.send_control(node, &ToNode::Signal(signal));
    }

    /// Tells nodes to give retained pages back. One that is not ready holds nothing, or is about to be lost.
    pub(super) fn discard(&mut self, order: Discard, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| self.send_control(*node, &ToNode::Discard(order)));
    }

    /// Has a node say something of a rank. One that is not ready says nothing.
    pub(super) fn inspect(&mut self, node: NodeId, inspect: Inspect) {
        self.send_control(node, &ToNode::Inspect(inspect));
    }

    /// Ends a job's ranks.
    fn kill(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.is_killed = true;
        job.ranks.live_nodes().into_iter().for_each(|node| self.send_kill(id, node));
    }

    /// Sends a job's ranks a signal. A node whose connection is expected back gets it then.
    fn signal(&mut self, id: JobId, signal: u8) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let signal = job.add_signal(signal);
        job.ranks.live_nodes().into_iter().for_each(|node| self.send_signal(signal, node));
    }

    /// Has what some of a job's ranks do printed. A node whose connection is expected back hears of it then.
    fn trace(&mut self, id: JobId, traced: Traced) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.trace(traced);
        job.ranks.live_nodes().into_iter().for_each(|node| self.send_control(node, &ToNode::Trace { job: id, traced }));
    }

    /// Tells a job's nodes of its checkpoints. One whose connection is expected back hears of them then.
    fn checkpointed(&mut self, id: JobId, made: u64) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.has_checkpoints(made);
        job.ranks
            .live_nodes()
            .into_iter()
            .for_each(|node| self.send_control(node, &ToNode::Checkpointed { job: id, made }));
    }

    /// Tells a job's nodes that it goes on without one. A node whose connection is expected back hears of it then.
    fn node_of_job_lost(&mut self, id: JobId, lost: NodeId, ranks: Vec<Rank>) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.goes_on_without(lost, ranks.clone());
        let order = ToNode::NodeLost { job: id, node: lost, ranks };
        // Those whose ranks have all ended still answer others.
        for node in job.nodes_that_share().into_iter().filter(|node| *node != lost) {
            self.send_control(node, &order);
        }
    }

    /// What a job's nodes are told of those that it goes on without.
    fn losses(&self, job: JobId) -> Vec<ToNode> {
        let lost = self.jobs.get(job).into_iter().flat_map(Job::lost);
        lost.map(|(node, ranks)| ToNode::NodeLost { job, node, ranks: ranks.clone() }).collect()
    }

    /// Tells a job's nodes that others have come to its network, each now or when its connection is back.
    fn joined(&mut self, joined: Joined) {
        let Some(job) = self.jobs.get_mut(joined.job) else { return };
        job.joined(joined.clone());
        if !job.is_launched {
            // Its nodes know no network of it yet, and would take that for one of which they need to know nothing.
            return;
        }
        job.ranks.live_nodes().into_iter().for_each(|node| self.send_control(node, &ToNode::Joined(joined.clone())));
    }

    /// Tells a rank's node what came of what it wanted to be started, now or when its connection is back.
    fn spawned(&mut self, spawned: Spawned) {
        let Some(job) = self.jobs.get_mut(spawned.job) else { return };
        let Some(node) = job.ranks.get(spawned.rank).map(|rank| rank.node) else { return };
        job.spawned(spawned.clone());
        self.send_control(node, &ToNode::Spawned(spawned));
    }

    /// What a node of a job is told of ranks that others have started.
    fn of_spawns(&self, job: JobId, node: NodeId) -> Vec<ToNode> {
        self.jobs.get(job).map(|job| job.of_spawns(node).collect()).unwrap_or_default()
    }

    /// Frees everything of a job, also of ranks that should not be there any more, and what its nodes keep of it for
    /// each other.
    fn forget(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get(id) else { return };
        let (place, nodes, sharing) = (job.place, job.ranks.live_nodes(), job.nodes_that_share());
        let owners: Vec<Owner> = job.ranks.iter().map(|rank| rank.owner).collect();
        for owner in owners {
            self.end_rank(owner, now);
        }
        let held = self.jobs.remove(id).map(|mut job| job.broadcasts.take_held()).unwrap_or_default();
        // Nodes have their places for calls until these are answered.
        held.into_iter().for_each(|(identity, request)| self.go_on_with(identity, request, now));
        self.effects.push(Effect::Drop(place));
        nodes.into_iter().for_each(|node| self.send_kill(id, node));
        sharing.into_iter().for_each(|node| self.send_control(node, &ToNode::Forget { job: id }));
    }
}
