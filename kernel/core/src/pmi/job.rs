//! A job on this node: the state machine, and who is to be told what comes of it.
//!
//! Everybody who moves the server does it in [`Job::with`], which then passes on what came of it, with no lock held:
//! ranks that may leave their barrier are woken, connections that have something to send too, those that are missing
//! are made, the clock is started.

mod spawns;
mod ways;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::task::Waker;

use coppice_protocol::control::{Exit, JobFailure, Waiting};
use coppice_protocol::ids::{JobId, JobNode, NodeId, Rank};
use coppice_protocol::pmi::{Conditions, Event, Placement, Server};
use coppice_protocol::spawn::Spawn;
use coppice_protocol::world::{NetworkTag, World};

use super::abort::{reason_of, status_of};
use super::peers;
use super::way::Way;
use crate::agent::Failures;
use crate::errno::Errno;
use crate::executor::{self, WaitQueue, race};
use crate::files::readiness::Watchers;
use crate::limits::{PMI_CHARGE_BYTES, PMI_NAMES_AHEAD_BYTES};
use crate::net::Neighbours;
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(crate) struct Job {
    id: JobId,
    signature: u64,
    /// What its programs' packets carry.
    tag: NetworkTag,
    /// This node, in the job's network.
    here: JobNode,
    placement: Placement,
    failures: Failures,
    neighbours: Arc<dyn Neighbours>,
    state: Mutex<State>,
    /// Those who wait at the descriptor of each rank of this node.
    seats: BTreeMap<Rank, Watchers>,
    /// The connections with each node that this one talks to.
    peers: BTreeMap<u32, Watchers>,
    /// Told when anything has changed.
    changed: WaitQueue,
    /// Told when the job is over. Who speaks for it changes it all the time and waits here.
    ended: WaitQueue,
}

struct State {
    /// `None` when the job is over.
    server: Option<Server>,
    /// What the server takes of the kernel's memory.
    charge: Charge,
    charged_bytes: usize,
    /// What ranks may publish next is charged.
    has_room: bool,
    /// Its ranks are being ended on purpose.
    is_killed: bool,
    /// It was said that it cannot go on.
    has_failed: bool,
    /// Ranks that were launched here.
    came: BTreeSet<Rank>,
    /// Of those, how many are not gone.
    present: usize,
    /// Connections with each node, and attempts to make one.
    ways: BTreeMap<u32, usize>,
    /// Nodes that were called ahead: once, whatever becomes of that.
    called_ahead: BTreeSet<u32>,
    /// A task keeps the time.
    has_clock: bool,
    /// Tasks that speak with ranks.
    guests: usize,
}

/// What came of a change.
#[derive(Default)]
struct Outcome {
    events: Vec<Event>,
    /// Nodes to which there is something to send over a connection that exists.
    heard_by: Vec<u32>,
    /// Nodes that are to be called.
    called: Vec<u32>,
    starts_clock: bool,
}

impl State {
    /// Charges what has been allocated, which is at most what one step of a barrier brings: so much the kernel has for
    /// itself. If there is no memory for more, the job fails. What ranks may publish next is charged before they do; if
    /// there is no memory for that, they may not.
    fn pay(&mut self) {
        let Some(server) = &mut self.server else { return };
        let bytes = server.memory_bytes();
        while self.charged_bytes < bytes {
            if self.charge.grow(PMI_CHARGE_BYTES).is_err() {
                return server.out_of_memory();
            }
            self.charged_bytes += PMI_CHARGE_BYTES;
        }
        if self.charged_bytes < bytes + PMI_NAMES_AHEAD_BYTES && self.charge.grow(PMI_CHARGE_BYTES).is_ok() {
            self.charged_bytes += PMI_CHARGE_BYTES;
        }
        self.has_room = self.charged_bytes >= bytes + PMI_NAMES_AHEAD_BYTES;
        server.set_room_for_names(self.has_room);
    }

    fn outcome(&mut self, peers: &BTreeMap<u32, Watchers>) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(server) = &mut self.server else { return outcome };
        outcome.events.extend(core::iter::from_fn(|| server.poll_event()));
        for peer in peers.keys().copied() {
            let has_output = server.has_output(peer);
            let is_wanted = has_output || server.calls_ahead(peer) && self.called_ahead.insert(peer);
            if !is_wanted {
                continue;
            }
            let ways = self.ways.entry(peer).or_default();
            if *ways == 0 {
                *ways = 1;
                outcome.called.push(peer);
            } else if has_output {
                outcome.heard_by.push(peer);
            }
        }
        outcome.starts_clock = !self.has_clock && server.poll_timeout().is_some();
        self.has_clock |= outcome.starts_clock;
        outcome
    }
}

impl Job {
    /// For the ranks of a job on `node`. `None` if there are none.
    pub(super) fn new(
        id: JobId,
        world: &World,
        placement: Placement,
        node: NodeId,
        neighbours: Arc<dyn Neighbours>,
        failures: Failures,
        charge: Charge,
    ) -> Option<Arc<Self>> {
        let index = placement.index_of(node)?;
        let here = placement.place(index)?;
        let mut server = Server::new(id, &world.key.0, placement.clone(), node)?;
        server.set_startup(world.startup);
        server.walk_under(Conditions { nodes_per_core: world.nodes_per_core.into(), passage: world.passage });
        Some(Arc::new(Self {
            id,
            signature: server.signature(),
            tag: world.network_tag(id),
            here: placement.job_node(index),
            placement,
            failures,
            neighbours,
            seats: here.ranks().map(|rank| (rank, Watchers::new(charge.quota()))).collect(),
            peers: server.peers().into_iter().map(|peer| (peer, Watchers::new(charge.quota()))).collect(),
            state: Mutex::new(
                LockLevel::Interest,
                State {
                    server: Some(server),
                    charge,
                    charged_bytes: PMI_CHARGE_BYTES,
                    has_room: true,
                    is_killed: false,
                    has_failed: false,
                    came: BTreeSet::new(),
                    present: 0,
                    ways: BTreeMap::new(),
                    called_ahead: BTreeSet::new(),
                    has_clock: false,
                    guests: 0,
                },
            ),
            changed: WaitQueue::new(),
            ended: WaitQueue::new(),
        }))
    }

    pub(super) fn id(&self) -> JobId {
        self.id
    }

    /// What frames for the job carry.
    pub(super) fn signature(&self) -> u64 {
        self.signature
    }

    /// Which node of the job's network this is.
    pub(super) fn here(&self) -> JobNode {
        self.here
    }

    /// The job's name among PMI's.
    pub(super) fn space_name(&self) -> String {
        self.state.lock().server.as_ref().map_or_else(String::new, |server| String::from(server.space_name()))
    }

    /// Ranks in the job.
    pub(super) fn size(&self) -> u32 {
        self.placement.size()
    }

    /// Where the memory for what its ranks say is charged.
    pub(super) fn quota(&self) -> Arc<Quota> {
        Arc::clone(self.state.lock().charge.quota())
    }

    pub(super) fn neighbours(&self) -> &dyn Neighbours {
        &*self.neighbours
    }

    /// The node with this index in the job.
    pub(super) fn node(&self, index: u32) -> Option<NodeId> {
        self.placement.place(index).map(|place| place.node)
    }

    /// Whether the node with this index is one that this node talks to, and has this address.
    pub(super) fn is_peer(&self, index: u32, address: Ipv4Addr) -> bool {
        self.peers.contains_key(&index) && self.node(index).is_some_and(|node| node.address() == address)
    }

    /// Changes the server, and passes on what comes of it. `None`: the job is over.
    pub(super) fn with<R>(self: &Arc<Self>, change: impl FnOnce(&mut Server, u64) -> R) -> Option<R> {
        let (result, outcome) = {
            let mut state = self.state.lock();
            if !state.has_room {
                state.pay();
            }
            let result = change(state.server.as_mut()?, executor::now_ns());
            state.pay();
            (result, state.outcome(&self.peers))
        };
        self.pass_on(outcome);
        Some(result)
    }

    fn pass_on(self: &Arc<Self>, outcome: Outcome) {
        let Outcome { events, heard_by, called, starts_clock } = outcome;
        for event in events {
            match event {
                Event::Released(rank) => self.notify_rank(rank),
                Event::Abort { rank, code, message } => {
                    self.fail(rank, status_of(code), reason_of(rank, code, &message))
                }
                Event::Spawn { rank, number, wanted } => {
                    self.failures.spawns(Spawn { job: self.id, rank, number, wanted });
                }
                Event::Waits { barrier } => self.failures.waits(Waiting { job: self.id, barrier }),
                Event::Failed(failure) => self.fail(failure.rank(), failure.code(), format!("{failure}")),
            }
        }
        for watchers in heard_by.iter().filter_map(|peer| self.peers.get(peer)) {
            watchers.notify();
        }
        for peer in called {
            // If there is no room for a task, the next change tries again.
            let _ = executor::spawn_on(0, peers::call(Way::reserved(self, peer)));
        }
        if starts_clock && executor::spawn_on(0, Arc::clone(self).keep_time()).is_err() {
            self.state.lock().has_clock = false;
        }
        self.changed.wake_all();
    }

    fn fail(&self, rank: Rank, code: u8, reason: String) {
        let is_killed = {
            let mut state = self.state.lock();
            state.has_failed = true;
            state.is_killed
        };
        if !is_killed {
            log::info!("pmi: job {}: {reason}", self.id);
            self.failures.report(JobFailure { job: self.id, rank, code, reason });
        }
    }

    // Ranks.

    /// A rank is launched here; false if it has no place here or was launched before.
    pub(super) fn admit(&self, rank: Rank) -> bool {
        let mut state = self.state.lock();
        let is_new = state.server.is_some() && self.seats.contains_key(&rank) && state.came.insert(rank);
        state.present += usize::from(is_new);
        is_new
    }

    /// Has `waker` woken when there may be something for a rank to read.
    ///
    /// # Errors
    /// `ENOMEM`: it is woken now.
    pub(super) fn watch_rank(&self, rank: Rank, waker: &Waker) -> Result<(), Errno> {
        self.seats.get(&rank).map_or(Ok(()), |watchers| watchers.watch(waker))
    }

    /// There is something for a rank to read, or room for what it says.
    pub(super) fn notify_rank(&self, rank: Rank) {
        if let Some(watchers) = self.seats.get(&rank) {
            watchers.notify();
        }
    }

    /// One more task speaks with a rank.
    pub(super) fn guest_came(&self) {
        self.state.lock().guests += 1;
    }

    /// One less.
    pub(super) fn guest_gone(&self) {
        {
            let mut state = self.state.lock();
            state.guests = state.guests.saturating_sub(1);
        }
        self.changed.wake_all();
    }

    /// A rank's process is gone.
    pub(super) fn rank_ended(self: &Arc<Self>, rank: Rank, exit: Exit) {
        self.with(|server, now_ns| server.rank_ended(rank, exit, now_ns));
    }

    /// A node of the job is gone, and these ranks with it. Which one in the job's network it is, if it is one.
    pub(super) fn node_lost(self: &Arc<Self>, node: NodeId, ranks: &[Rank]) -> Option<(NetworkTag, JobNode)> {
        self.with(|server, now_ns| server.node_lost(node, ranks, now_ns));
        self.placement.index_of(node).map(|index| (self.tag, self.placement.job_node(index)))
    }

    /// What is known of the job, and how many barriers its nodes have left. Then see [`Self::ranks_run`].
    ///
    /// # Errors
    /// `ENOMEM`; `ESRCH`: it is over.
    pub(super) fn record(&self) -> Result<(Vec<u8>, u64), Errno> {
        let record = self.state.lock().server.as_mut().map(Server::record).ok_or(Errno::ESRCH)?;
        let bytes = postcard::to_allocvec(&record).map_err(|_| Errno::ENOMEM)?;
        Ok((bytes, record.barriers()))
    }

    /// Ranks run again after [`Self::record`], or go on running.
    pub(super) fn ranks_run(self: &Arc<Self>) {
        self.with(Server::ranks_run);
    }

    /// What its ranks run, and which ids their processes have.
    pub(super) fn set_program(&self, path: &[u8], ids: (u32, u32)) {
        if let Some(server) = &mut self.state.lock().server {
            server.set_program(path, ids);
        }
    }

    /// What was written down is to come.
    pub(super) fn await_record(&self) {
        if let Some(server) = &mut self.state.lock().server {
            server.await_record();
        }
    }

    /// The job goes on when a rank ends that has not finalized.
    pub(super) fn set_outlives_ranks(&self) {
        if let Some(server) = &mut self.state.lock().server {
            server.set_outlives_ranks();
        }
    }

    /// Goes on from what was written down.
    ///
    /// # Errors
    /// `EINVAL`: it is of another job, or this one has gone on already. `ESRCH`: it is over.
    pub(super) fn restore(self: &Arc<Self>, record: &[u8]) -> Result<(), Errno> {
        let record = postcard::from_bytes(record).map_err(|_| Errno::EINVAL)?;
        let restored = self.with(|server, now_ns| server.restore(record, now_ns));
        restored.ok_or(Errno::ESRCH)?.map_err(|_| Errno::EINVAL)
    }

    /// Barriers that the ranks here have left.
    pub(super) fn barriers(&self) -> u64 {
        self.state.lock().server.as_ref().map_or(0, Server::barriers)
    }

    /// A rank gives up its place. Whether it was the last one that was ever to come here.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state.lock();
        state.present = state.present.saturating_sub(1);
        state.present == 0 && (state.is_killed || state.came.len() == self.seats.len())
    }

    /// The job's ranks are being ended on purpose.
    pub(super) fn kill(&self) {
        {
            let mut state = self.state.lock();
            state.is_killed = true;
            if let Some(server) = &mut state.server {
                server.set_ending();
            }
        }
        self.changed.wake_all();
    }

    /// Whether no rank of it is here.
    pub(super) fn is_deserted(&self) -> bool {
        self.state.lock().present == 0
    }

    // The end.

    /// Whether ranks of other nodes may want what is known here, when none runs here any more.
    pub(super) fn is_wanted(&self) -> bool {
        let state = self.state.lock();
        !self.peers.is_empty() && !state.is_killed && !state.has_failed
    }

    /// The job is over here: forgets its keys and values, and ends its tasks.
    pub(super) fn close(&self) {
        let server = self.state.lock().server.take();
        drop(server);
        self.seats.values().chain(self.peers.values()).for_each(Watchers::notify);
        self.ended.wake_all();
        self.changed.wake_all();
    }

    /// Whether it is.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().server.is_none()
    }

    /// Waits until the job is over.
    pub(super) async fn over(&self) {
        self.ended.wait_until(|| self.is_over().then_some(())).await;
    }

    /// Waits until none of its tasks is left.
    pub(super) async fn vacated(&self) {
        self.changed
            .wait_until(|| {
                let state = self.state.lock();
                (!state.has_clock && state.guests == 0 && state.ways.values().all(|ways| *ways == 0)).then_some(())
            })
            .await;
    }

    // Time.

    /// Tells the server what time it is, as long as it wants to know.
    async fn keep_time(self: Arc<Self>) {
        while let Some(at_ns) = self.timeout() {
            let put_forward = self.changed.wait_until(|| (self.peek_timeout() != Some(at_ns)).then_some(()));
            let _ = race(put_forward, executor::sleep_until(at_ns)).await;
            self.with(Server::handle_timeout);
        }
        self.changed.wake_all();
    }

    fn peek_timeout(&self) -> Option<u64> {
        self.state.lock().server.as_ref().and_then(Server::poll_timeout)
    }

    /// When the server wants to know the time; if never, the clock stops.
    fn timeout(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let timeout = state.server.as_ref().and_then(Server::poll_timeout);
        state.has_clock = timeout.is_some();
        timeout
    }
}
