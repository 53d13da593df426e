//! The controller with everything it orders about.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use coppice_api::job::{JobDetail, Submission};
use coppice_api::link::LinkShape;
use coppice_api::node::NodeView;
use coppice_protocol::checkpoint::Restore;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{FromPset, Member, ToPset};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::retain::RetentionPolicy;
use coppice_service_node::controller::{Config, Controller, Event, Now, Refused, Request};
use coppice_service_node::database::{Database, ProgramRow};
use coppice_service_node::plant::{LastWords, MachineEvent};
use coppice_service_node::records::Records;
use coppice_service_node::store::ProgramStore;
use tokio::sync::oneshot;

use super::behaviour::Behaviour;
use super::served::TICK;
use super::{FILE, NotingPlant, Order, PROGRAM, job, paths};

/// A controller with what carries its orders out, in time that passes only when told.
pub(crate) struct Cluster {
    pub(crate) controller: Controller<NotingPlant>,
    pub(crate) behaviour: Behaviour,
    /// All orders so far.
    pub(crate) orders: Vec<Order>,
    pub(crate) store: ProgramStore,
    plant: NotingPlant,
    now: Instant,
    since: Instant,
    /// When machines that were started will call.
    calls: VecDeque<(NodeId, Generation)>,
    nodes: u32,
    pset_size: u32,
    pub(crate) home: tempfile::TempDir,
}

/// A rank as I/O nodes were told to start it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) rank: Rank,
    pub(crate) node: NodeId,
    pub(crate) use_retained: bool,
    pub(crate) restore: Option<Restore>,
}

impl Cluster {
    pub(crate) fn new(nodes: u32, pset_size: u32) -> Self {
        Self::in_home(tempfile::tempdir().expect("directory"), nodes, pset_size, RetentionPolicy::One)
    }

    /// A cluster whose nodes are ready and keep many programs.
    pub(crate) fn keeping_many(nodes: u32, pset_size: u32) -> Self {
        let home = tempfile::tempdir().expect("directory");
        let mut cluster = Self::in_home(home, nodes, pset_size, RetentionPolicy::Many);
        cluster.behaviour.memory.policy = RetentionPolicy::Many;
        cluster.settle();
        cluster
    }

    /// A new controller on the files of the one that was killed.
    pub(crate) fn restarted(self) -> Self {
        let Self { controller, home, pset_size, nodes, .. } = self;
        drop(controller);
        Self::in_home(home, nodes, pset_size, RetentionPolicy::One)
    }

    pub(crate) fn in_home(home: tempfile::TempDir, nodes: u32, pset_size: u32, retention: RetentionPolicy) -> Self {
        Self::with_store(home, nodes, pset_size, retention, LinkShape::default(), |store| store)
    }

    /// A cluster whose store has hardly any room, and whose nodes are ready.
    pub(crate) fn without_room(nodes: u32) -> Self {
        Self::with_room(nodes, 1)
    }

    /// A cluster whose store has room for so many bytes, and whose nodes are ready.
    pub(crate) fn with_room(nodes: u32, bytes: u64) -> Self {
        let home = tempfile::tempdir().expect("directory");
        let mut cluster = Self::with_store(home, nodes, nodes, RetentionPolicy::One, LinkShape::default(), |store| {
            store.limited(bytes)
        });
        cluster.settle();
        cluster
    }

    /// A cluster whose links have that bandwidth, bits/s, and whose nodes are ready.
    pub(crate) fn linked(nodes: u32, bits_per_s: u64) -> Self {
        let home = tempfile::tempdir().expect("directory");
        let link = LinkShape { bandwidth_bits_per_s: Some(bits_per_s), ..LinkShape::default() };
        let mut cluster = Self::with_store(home, nodes, nodes, RetentionPolicy::Many, link, |store| store);
        cluster.behaviour.memory.policy = RetentionPolicy::Many;
        cluster.settle();
        cluster
    }

    fn with_store(
        home: tempfile::TempDir,
        nodes: u32,
        pset_size: u32,
        retention: RetentionPolicy,
        link: LinkShape,
        change: impl FnOnce(ProgramStore) -> ProgramStore,
    ) -> Self {
        let paths = paths(home.path());
        let database = Database::open(&paths.database()).expect("database");
        let records = Records::with_reserve(Box::new(database), &paths.reserve()).expect("records");
        let store = change(ProgramStore::open(paths.programs()).expect("store"));
        let config = Config {
            paths,
            nodes,
            cores: 2,
            memory_bytes: 64 << 20,
            region_bytes: 128 << 20,
            pset_size,
            retention,
            freeze_every_ns: 0,
            host_cores: 2,
            boots_max: 4,
            link,
        };
        let plant = NotingPlant::default();
        let now = Instant::now();
        let at = Now { instant: now, realtime_ns: 1 };
        let mut controller = Controller::new(config, records, store.clone(), plant.clone(), at).expect("controller");
        controller.start(at);
        Self {
            controller,
            behaviour: Behaviour::default(),
            orders: Vec::new(),
            store,
            plant,
            now,
            since: now,
            calls: VecDeque::new(),
            nodes,
            pset_size,
            home,
        }
    }

    fn pset_of(&self, node: NodeId) -> PsetId {
        PsetTable::new(self.nodes, self.pset_size).pset_of(node).expect("a node of the cluster")
    }

    /// A cluster whose nodes are ready.
    pub(crate) fn up(nodes: u32, pset_size: u32) -> Self {
        let mut cluster = Self::new(nodes, pset_size);
        cluster.settle();
        cluster
    }

    /// Serves requests from a queue, carrying out orders, until the cluster is down.
    pub(crate) async fn serve(mut self, mut queue: tokio::sync::mpsc::Receiver<Event>) -> Self {
        while !self.controller.is_down() {
            let Some(event) = queue.recv().await else { break };
            self.event(event);
        }
        self
    }

    /// The same while a second passes in each tick.
    pub(crate) async fn serve_in_time(mut self, mut queue: tokio::sync::mpsc::Receiver<Event>) -> Self {
        let mut ticks = tokio::time::interval(TICK);
        while !self.controller.is_down() {
            tokio::select! {
                event = queue.recv() => match event {
                    Some(event) => self.event(event),
                    None => break,
                },
                _ = ticks.tick() => self.pass(Duration::from_secs(1)),
            }
        }
        self
    }

    pub(crate) fn now(&self) -> Now {
        let passed = self.now.saturating_duration_since(self.since);
        Now { instant: self.now, realtime_ns: 1 + u64::try_from(passed.as_nanos()).expect("not for centuries") }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.controller.handle(event, self.now());
        self.settle();
    }

    /// Carries orders out until there are none.
    pub(crate) fn settle(&mut self) {
        loop {
            let order = self.plant.0.lock().expect("not poisoned").pop_front();
            let events = match order {
                Some(order) => {
                    if let Order::Boot(node, generation) = order
                        && self.behaviour.boots
                    {
                        self.calls.push_back((node, generation));
                    }
                    self.orders.push(order.clone());
                    self.behaviour.carry_out(&order)
                }
                None => match self.calls.pop_front() {
                    Some((node, generation)) => {
                        let pset = self.pset_of(node);
                        vec![self.behaviour.ready(pset, node, generation)]
                    }
                    None => return,
                },
            };
            for event in events {
                self.controller.handle(event, self.now());
            }
        }
    }

    /// Lets time pass, with everything that becomes due on the way.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.controller.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.controller.advance(self.now());
            self.settle();
        }
        self.now = end;
    }

    /// Time passes in which the controller does not run; then it does what is due.
    pub(crate) fn sleep(&mut self, time: Duration) {
        self.now += time;
        self.controller.advance(self.now());
        self.settle();
    }

    /// Asks and returns the answer, which must be there at once.
    pub(crate) fn ask<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request,
    ) -> Result<T, Refused> {
        self.ask_and_wait(request).try_recv().expect("answered at once")
    }

    /// Asks and returns where the answer will be.
    pub(crate) fn ask_and_wait<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request,
    ) -> oneshot::Receiver<Result<T, Refused>> {
        let (answer, answered) = oneshot::channel();
        self.event(Event::Request(request(answer)));
        answered
    }

    pub(crate) fn submit(&mut self, job: Submission) -> Result<JobId, Refused> {
        self.submit_program(PROGRAM, job)
    }

    pub(crate) fn submit_program(&mut self, program: ProgramRow, job: Submission) -> Result<JobId, Refused> {
        let program = self.store.hold(program);
        self.ask(|answer| Request::Submit(Box::new(job), program, FILE, Vec::new(), answer))
    }

    /// A job as it is recorded.
    pub(crate) fn job(&mut self, job: JobId) -> JobDetail {
        self.ask(|answer| Request::Job(job, answer)).expect("job")
    }

    pub(crate) fn nodes(&mut self) -> Vec<NodeView> {
        self.ask(Request::Nodes).expect("nodes")
    }

    /// Asks while none of the controller's orders is carried out.
    pub(crate) fn ask_only<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request,
    ) -> Result<T, Refused> {
        let (answer, mut answered) = oneshot::channel();
        self.controller.handle(Event::Request(request(answer)), self.now());
        answered.try_recv().expect("answered at once")
    }

    /// Ranks of a job end by themselves.
    pub(crate) fn end(&mut self, job: JobId) {
        let coppice_api::job::JobView { ranks, ranks_per_node, nodes, .. } = self.job(job).job;
        let each = nodes.into_iter().flat_map(|node| std::iter::repeat_n(node, ranks_per_node as usize));
        for (node, rank) in each.zip(0..ranks) {
            let pset = self.pset_of(NodeId(node));
            let ended = self.behaviour.ended(pset, job, Rank(rank), NodeId(node), Exit::Status(0));
            self.event(ended);
        }
    }

    /// Runs a program on certain nodes from beginning to end.
    pub(crate) fn run_on(&mut self, program: ProgramRow, nodes: &[u32]) -> JobId {
        let job = Submission { nodes: nodes.to_vec(), ..job(u32::try_from(nodes.len()).expect("few")) };
        let id = self.submit_program(program, job).expect("accepted");
        self.end(id);
        id
    }

    /// The ranks of a job as the I/O nodes were told to start them, in order.
    pub(crate) fn members(&self, job: JobId) -> Vec<Placed> {
        let starts = self.told().filter_map(|(_, message)| match message {
            ToPset::Start(start) if start.job == job => Some(start.members.clone()),
            _ => None,
        });
        let ranks = |Member { node, first, count, use_retained, restore }: Member| {
            let place = move |index: u32| Placed {
                rank: Rank(first.0 + index),
                node,
                use_retained,
                restore: restore.as_ref().and_then(|restore| restore.of(index as usize)),
            };
            (0..count).map(place)
        };
        starts.flatten().flat_map(ranks).collect()
    }

    /// A node's machine is gone all of a sudden.
    pub(crate) fn lose_machine(&mut self, node: u32) {
        self.end_machine(node, "QEMU was ended by signal 9", LastWords::Tail("last words".into()));
    }

    /// A node's machine ends by itself.
    pub(crate) fn end_machine(&mut self, node: u32, reason: &str, last_words: LastWords) {
        let ended = MachineEvent::Ended { reason: reason.into(), last_words };
        let event = self.behaviour.machine(NodeId(node), ended);
        self.event(event);
    }

    /// The I/O node of a node says something.
    pub(crate) fn said(&mut self, node: u32, message: FromPset) {
        let event = self.behaviour.said(self.pset_of(NodeId(node)), message);
        self.event(event);
    }

    pub(crate) fn told(&self) -> impl Iterator<Item = (PsetId, &ToPset)> {
        self.orders.iter().filter_map(|order| match order {
            Order::Tell(pset, message) => Some((*pset, &**message)),
            _ => None,
        })
    }
}
