//! What all tasks of the I/O node share, and what happens to nodes and jobs.

use std::cell::RefCell;
use std::rc::Rc;

use coppice_endpoint::Stack;
use coppice_protocol::control::{Signal, ToNode};
use coppice_protocol::ids::{Generation, JobId, NodeId};
use coppice_protocol::limits::RAS_TEXT_BYTES_MAX;
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_protocol::ras::RasEvent;
use coppice_protocol::retain::{Discard, Retain};
use coppice_protocol::session::{Identity, SendError};
use coppice_protocol::ship::{NOTICE_ID, Notice, Owner};

use crate::clock::Clock;
use crate::jobs::{Job, Jobs, RankState};
use crate::limits::RECONNECT_GRACE;
use crate::line::Line;
use crate::link::Device;
use crate::nodes::{Loss, Nodes, Readiness};
use crate::opening::Openings;
use crate::outbox::Outbox;
use crate::peers::BadPeers;

/// The I/O node. No borrow of its tables lives across an await.
pub(crate) struct Server {
    /// Its station on the fabric.
    pub stack: Stack<Device>,
    /// Its clock.
    pub clock: Clock,
    /// To the service node.
    pub outbox: Outbox,
    /// The nodes of the pset.
    pub nodes: RefCell<Nodes>,
    /// The jobs on them.
    pub jobs: RefCell<Jobs>,
    /// Peers that failed to authenticate.
    pub bad_peers: RefCell<BadPeers>,
    /// The jobs that are not there yet.
    pub openings: Openings,
}

impl Server {
    /// No nodes and no jobs yet.
    #[must_use]
    pub(crate) fn new(stack: Stack<Device>, clock: Clock, outbox: Outbox, openings: Openings) -> Self {
        Self {
            stack,
            clock,
            outbox,
            nodes: RefCell::default(),
            jobs: RefCell::default(),
            bad_peers: RefCell::default(),
            openings,
        }
    }

    /// A rank by its owner, if it runs on `node`.
    pub(crate) fn rank_on(&self, node: NodeId, owner: Owner) -> Option<(Rc<Job>, Rc<RankState>)> {
        self.jobs.borrow().rank_on(node, owner)
    }

    /// Passes an event on, its text cut to the limit.
    pub(crate) async fn report(&self, node: NodeId, mut event: RasEvent) {
        event.text.truncate(event.text.floor_char_boundary(RAS_TEXT_BYTES_MAX));
        self.outbox.send(FromPset::Ras { node, event }).await;
    }

    /// A connection or a word of the node's may have been the last that was missing.
    pub(crate) async fn check_ready(&self, identity: Identity) {
        let readiness = self.nodes.borrow_mut().check_ready(identity);
        match readiness {
            Readiness::Not => {}
            Readiness::Now(status) => {
                let Identity { node, generation } = identity;
                self.outbox.send(FromPset::NodeReady { node, generation, status }).await;
            }
            // What was said on the lost connection may be lost with it; a node that heard it says so again.
            Readiness::Still => {
                let ranks = self.jobs.borrow().on_node(identity.node);
                for of_one in ranks.chunk_by(|(one, _), (other, _)| one.id() == other.id()) {
                    let ranks = of_one.iter().map(|(_, rank)| &**rank);
                    if let Some((job, _)) = of_one.first() {
                        self.send_launches_or_kill(job, identity.node, ranks).await;
                    }
                }
            }
        }
    }

    /// Waits whether a node comes back that lost a connection.
    pub(crate) async fn wait_for_return(&self, loss: Loss, identity: Identity, reason: String) {
        tokio::time::sleep(RECONNECT_GRACE).await;
        let missing = self.nodes.borrow().is_missing(loss);
        if missing {
            self.lose_node(identity, reason).await;
        }
    }

    /// A ready node is lost, and its ranks with it. The service node concludes that from the one message.
    pub(crate) async fn lose_node(&self, identity: Identity, reason: String) {
        let was_ready = self.nodes.borrow_mut().lose(identity);
        if was_ready {
            self.end_ranks_on(identity.node);
            let Identity { node, generation } = identity;
            tracing::warn!(%node, %generation, %reason, "node lost");
            self.outbox.send(FromPset::NodeLost { node, generation, reason }).await;
        }
    }

    /// Frees what the ranks on a node had.
    pub(crate) fn end_ranks_on(&self, node: NodeId) {
        for (job, rank) in self.jobs.borrow().on_node(node) {
            self.end_rank(&job, &rank);
        }
    }

    /// A rank has ended, or never was: frees what it had. False if it had ended before.
    pub(crate) fn end_rank(&self, job: &Job, rank: &RankState) -> bool {
        let ends = rank.end();
        if ends {
            job.output.borrow_mut().leave(rank.owner().rank);
            self.tell_printers(job);
        }
        ends
    }

    /// Tells ranks that have room for their output now.
    pub(crate) fn tell_printers(&self, job: &Job) {
        let told = job.output.borrow_mut().take_told();
        told.into_iter().filter_map(|rank| job.rank(rank)).for_each(|rank| {
            self.notify(rank, Notice::Output(rank.owner()));
        });
    }

    /// More input of a job; none is the end.
    fn input(&self, id: JobId, bytes: &[u8]) {
        // Input for a job that just ended has nobody to read it.
        let Some(job) = self.jobs.borrow().get(id) else { return };
        let is_wanted = job.input.borrow_mut().push(bytes);
        if let Some(rank) = job.input_rank().filter(|_| is_wanted) {
            self.notify(rank, Notice::Input(rank.owner()));
        }
    }

    /// The user took that much of a job's output.
    fn output_taken(&self, id: JobId, bytes: usize) {
        let Some(job) = self.jobs.borrow().get(id) else { return };
        job.output.borrow_mut().taken(bytes);
        self.tell_printers(&job);
    }

    fn notify(&self, rank: &RankState, notice: Notice) {
        let line = self.nodes.borrow().ship_of(rank.node());
        // Without a connection, the node asks again when it has one.
        let sent = line.map(|line| line.send(NOTICE_ID, &notice, Vec::new()));
        if let Some(Err(error)) = sent {
            tracing::debug!(%error, ?notice, "notice was not sent");
        }
    }

    /// Launches all ranks of a job.
    pub(crate) async fn launch_all(&self, job: &Job) {
        let ranks: Vec<&RankState> = job.ranks().map(|rank| &**rank).collect();
        for on_one in ranks.chunk_by(|one, other| one.node() == other.node()) {
            if let Some(first) = on_one.first() {
                self.send_launches_or_kill(job, first.node(), on_one.iter().copied()).await;
            }
        }
    }

    /// Does what is ordered about a job; what is no such order does nothing.
    pub(crate) fn execute_for_job(&self, command: ToPset) {
        match command {
            ToPset::Kill { job } => self.kill(job),
            ToPset::Signal { job, signal } => self.signal(job, signal),
            ToPset::Forget { job } => self.forget(job),
            ToPset::Input { job, bytes } => self.input(job, &bytes),
            // Does not fit only on machines where nothing of this runs.
            ToPset::OutputTaken { job, bytes } => self.output_taken(job, usize::try_from(bytes).unwrap_or(usize::MAX)),
            _ => {}
        }
    }

    /// Tells a node what it shall do with its ranks of a job: run them, or end them if the job was killed.
    async fn send_launches_or_kill<'a>(
        &self,
        job: &Job,
        node: NodeId,
        ranks: impl Iterator<Item = &'a RankState> + Clone,
    ) {
        if job.killed.get() {
            return self.send_kill(job.id(), node);
        }
        let control = self.nodes.borrow().control(node);
        let (launched, reason) = match control {
            Some((generation, line)) => match launch(&line, generation, job, ranks.clone()) {
                (_, Ok(())) => return job.signals().iter().for_each(|signal| self.send_signal(*signal, node)),
                (launched, Err(error)) => (launched, format!("cannot launch on node {node}: {error}")),
            },
            // The connection is expected back, and the launches go out then.
            None if self.nodes.borrow().is_ready(node) => return,
            None => (0, format!("node {node} is not ready")),
        };
        for rank in ranks.skip(launched) {
            let owner = rank.owner();
            self.refuse(owner, job, rank, reason.clone()).await;
        }
    }

    async fn refuse(&self, Owner { job: id, rank: number }: Owner, job: &Job, rank: &RankState, reason: String) {
        if self.end_rank(job, rank) {
            self.outbox.send(FromPset::Refused { job: id, rank: number, reason }).await;
        }
    }

    fn send_kill(&self, job: JobId, node: NodeId) {
        let control = self.nodes.borrow().control(node);
        let sent = control.map(|(_, line)| line.send(0, &ToNode::Kill { job }, Vec::new()));
        if let Some(Err(error)) = sent {
            tracing::warn!(%node, %job, %error, "kill was not sent");
        }
    }

    fn send_signal(&self, signal: Signal, node: NodeId) {
        let control = self.nodes.borrow().control(node);
        let sent = control.map(|(_, line)| line.send(0, &ToNode::Signal(signal), Vec::new()));
        if let Some(Err(error)) = sent {
            tracing::warn!(%node, job = %signal.job, %error, "signal was not sent");
        }
    }

    /// Tells nodes to give retained pages back. One that is not ready holds nothing, or is about to be lost.
    pub(crate) fn discard(&self, order: Discard, nodes: &[NodeId]) {
        for node in nodes {
            let control = self.nodes.borrow().control(*node);
            let sent = control.map(|(_, line)| line.send(0, &ToNode::Discard(order), Vec::new()));
            if let Some(Err(error)) = sent {
                tracing::warn!(%node, %error, "discard was not sent");
            }
        }
    }

    /// Ends a job's ranks.
    fn kill(&self, id: JobId) {
        let Some(job) = self.jobs.borrow().get(id) else { return };
        job.killed.set(true);
        job.live_nodes().into_iter().for_each(|node| self.send_kill(id, node));
    }

    /// Sends a job's ranks a signal. A node whose connection is expected back gets it then.
    fn signal(&self, id: JobId, signal: u8) {
        let Some(job) = self.jobs.borrow().get(id) else { return };
        let signal = job.add_signal(signal);
        job.live_nodes().into_iter().for_each(|node| self.send_signal(signal, node));
    }

    /// Frees everything of a job, also of ranks that should not be there any more.
    fn forget(&self, id: JobId) {
        let Some(job) = self.jobs.borrow_mut().remove(id) else { return };
        let mut told = None;
        for rank in job.ranks() {
            if self.end_rank(&job, rank) && told.replace(rank.node()) != Some(rank.node()) {
                self.send_kill(id, rank.node());
            }
        }
    }
}

/// Tells a node to run ranks of a job. If it is believed to hold the program's page table it is told to retain that
/// first, once: all orders go out together, and come one after the other. Says how many ranks it was told to run.
fn launch<'a>(
    line: &Line,
    generation: Generation,
    job: &Job,
    ranks: impl Iterator<Item = &'a RankState> + Clone,
) -> (usize, Result<(), SendError>) {
    if ranks.clone().any(RankState::uses_retained) {
        let order = Retain { job: job.id(), generation, program: job.program_id() };
        if let Err(error) = line.send(0, &ToNode::Retain(order), Vec::new()) {
            return (0, Err(error));
        }
    }
    let mut launched = 0;
    for rank in ranks {
        if let Err(error) = line.send(0, &ToNode::Launch(job.launch(rank)), Vec::new()) {
            return (launched, Err(error));
        }
        launched += 1;
    }
    (launched, Ok(()))
}
