//! A cluster without processes: the real controller, database and store, and a plant that only notes its orders.

// Each test program uses its own part of this.
#![expect(dead_code, reason = "shared by several test programs")]

pub(crate) mod memory;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coppice_api::ClusterPaths;
use coppice_api::job::{JobDetail, Submission};
use coppice_api::node::NodeView;
use coppice_protocol::control::{Exit, MemoryStatus, NodeStatus, RankReport};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::{FromPset, StartJob, ToPset};
use coppice_protocol::retain::RankRetention;
use coppice_qemu::machine::Accelerator;
use coppice_service_node::controller::{Config, Controller, Event, Now, Request};
use coppice_service_node::database::{Database, FileKey, ProgramRow};
use coppice_service_node::plant::{HelperEvent, Incarnation, MachineEvent, Plant, PlantEvent, Secrets, Stop};
use coppice_service_node::store::ProgramStore;
use tokio::sync::oneshot;

use self::memory::Memory;

/// An order the controller gave.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    FindAccelerator,
    StartFabric(Incarnation),
    StopFabric(Stop),
    StartIoNode(PsetId, Incarnation),
    KillIoNode(PsetId),
    Tell(PsetId, Box<ToPset>),
    Boot(NodeId, Generation),
    KillMachine(NodeId),
}

/// Notes orders for somebody else to carry out.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotingPlant(pub(crate) Arc<Mutex<VecDeque<Order>>>);

impl NotingPlant {
    fn note(&self, order: Order) {
        self.0.lock().expect("not poisoned").push_back(order);
    }
}

impl Plant for NotingPlant {
    fn find_accelerator(&mut self) {
        self.note(Order::FindAccelerator);
    }
    fn start_fabric(&mut self, incarnation: Incarnation) {
        self.note(Order::StartFabric(incarnation));
    }
    fn stop_fabric(&mut self, how: Stop) {
        self.note(Order::StopFabric(how));
    }
    fn start_io_node(&mut self, pset: PsetId, incarnation: Incarnation) {
        self.note(Order::StartIoNode(pset, incarnation));
    }
    fn kill_io_node(&mut self, pset: PsetId) {
        self.note(Order::KillIoNode(pset));
    }
    fn tell(&mut self, pset: PsetId, message: &ToPset) {
        self.note(Order::Tell(pset, Box::new(message.clone())));
    }
    fn secrets(&mut self) -> Result<Secrets, String> {
        Ok(Secrets { key: NodeKey([7; 32]), seed: [8; 32] })
    }
    fn boot(&mut self, personality: &Personality, accelerator: Accelerator) {
        assert_eq!(accelerator, Accelerator::Tcg);
        self.note(Order::Boot(personality.node, personality.generation));
    }
    fn forget_personality(&mut self, _node: NodeId) {}
    fn kill_machine(&mut self, node: NodeId) {
        self.note(Order::KillMachine(node));
    }
}

/// Carries orders out as working processes would, or does not, as told.
#[derive(Debug)]
pub(crate) struct Behaviour {
    /// Machines come up.
    pub(crate) boots: bool,
    /// Processes of a job end by themselves, exiting with this status.
    pub(crate) exits: Option<u8>,
    /// Killed processes of a job end.
    pub(crate) obeys_kill: bool,
    /// Nodes answer orders to discard.
    pub(crate) discards: bool,
    /// Processes of a job get as far as to run.
    pub(crate) launches: bool,
    /// What the nodes remember.
    pub(crate) memory: Memory,
    /// Orders to discard that nodes have not answered, with the program.
    pub(crate) owed: BTreeMap<(NodeId, u64), Option<ProgramId>>,
    fabric: Incarnation,
    psets: Vec<Incarnation>,
    generations: Vec<Generation>,
    jobs: Vec<(PsetId, StartJob)>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            boots: true,
            exits: None,
            obeys_kill: true,
            discards: true,
            launches: true,
            memory: Memory::default(),
            owed: BTreeMap::new(),
            fabric: Incarnation::default(),
            psets: Vec::new(),
            generations: Vec::new(),
            jobs: Vec::new(),
        }
    }
}

impl Behaviour {
    pub(crate) fn generation(&self, node: NodeId) -> Generation {
        self.generations.get(node.0 as usize).copied().unwrap_or(Generation(0))
    }

    pub(crate) fn machine(&self, node: NodeId, event: MachineEvent) -> Event {
        Event::Plant(PlantEvent::Machine { node, generation: self.generation(node), event })
    }

    pub(crate) fn pset(&self, pset: PsetId, event: HelperEvent<FromPset>) -> Event {
        let incarnation = self.psets.get(pset.0 as usize).copied().unwrap_or_default();
        Event::Plant(PlantEvent::Pset { pset, incarnation, event })
    }

    pub(crate) fn said(&self, pset: PsetId, message: FromPset) -> Event {
        self.pset(pset, HelperEvent::Said(message))
    }

    pub(crate) fn fabric(&self, event: HelperEvent<()>) -> Event {
        Event::Plant(PlantEvent::Fabric { incarnation: self.fabric, event })
    }

    /// What comes of an order.
    pub(crate) fn carry_out(&mut self, order: &Order) -> Vec<Event> {
        match order {
            Order::FindAccelerator => vec![Event::Plant(PlantEvent::Accelerator(Ok(Accelerator::Tcg)))],
            Order::StartFabric(incarnation) => {
                self.fabric = *incarnation;
                vec![self.fabric(HelperEvent::Started { pid: 10 }), self.fabric(HelperEvent::Said(()))]
            }
            Order::StopFabric(_) => vec![self.fabric(HelperEvent::Ended("told to".into()))],
            Order::StartIoNode(pset, incarnation) => {
                set(&mut self.psets, pset.0, *incarnation);
                vec![
                    self.pset(*pset, HelperEvent::Started { pid: 100 + pset.0 }),
                    self.said(*pset, FromPset::Listening),
                ]
            }
            Order::KillIoNode(pset) => vec![self.pset(*pset, HelperEvent::Ended("killed".into()))],
            Order::Boot(node, generation) => {
                set(&mut self.generations, node.0, *generation);
                self.memory.boot(*node);
                self.owed.retain(|(of, _), _| of != node);
                if self.boots {
                    vec![self.machine(*node, MachineEvent::Started { pid: 1000 + node.0 })]
                } else {
                    vec![]
                }
            }
            Order::KillMachine(node) => {
                vec![self.machine(*node, MachineEvent::Ended { reason: "killed".into(), console: String::new() })]
            }
            Order::Tell(pset, message) => self.told(*pset, message),
        }
    }

    /// A node that has booted calls its I/O node.
    pub(crate) fn ready(&self, pset: PsetId, node: NodeId, generation: Generation) -> Event {
        let memory = MemoryStatus { total: 64 << 20, kernel: 4 << 20, free: 60 << 20, retained: 0 };
        let status = NodeStatus { kernel: "0.1".into(), boot_ns: 1000, boot_idle_ns: 400, memory };
        self.said(pset, FromPset::NodeReady { node, generation, status })
    }

    fn told(&mut self, pset: PsetId, message: &ToPset) -> Vec<Event> {
        match message {
            ToPset::Start(start) => {
                self.jobs.push((pset, start.clone()));
                let job = start.job;
                let mut events = Vec::new();
                for member in &start.members {
                    if let Some(answer) = self.memory.launch(start, *member) {
                        events.push(self.said(pset, FromPset::Retained { node: member.node, answer }));
                    }
                    if self.launches {
                        events.push(self.said(pset, FromPset::Launched { job, rank: member.rank }));
                    }
                }
                if let Some(status) = self.exits {
                    for member in &start.members {
                        events.push(self.ended(pset, job, member.rank, member.node, Exit::Status(status)));
                    }
                }
                events
            }
            ToPset::Kill { job, signal } if self.obeys_kill => {
                let started = self.jobs.iter().filter(|(of, start)| *of == pset && start.job == *job);
                let members: Vec<_> = started.flat_map(|(_, start)| start.members.clone()).collect();
                members
                    .iter()
                    .map(|member| self.ended(pset, *job, member.rank, member.node, Exit::Signal(*signal)))
                    .collect()
            }
            ToPset::Discard { request, program, nodes } => {
                self.owed.extend(nodes.iter().map(|node| ((*node, *request), *program)));
                if !self.discards {
                    return vec![];
                }
                nodes.iter().filter_map(|node| self.discarded(pset, *node, *request)).collect()
            }
            ToPset::Shutdown => {
                // Nodes power off, then the I/O node ends.
                let nodes = (0..).map(NodeId).take(self.generations.len());
                let off = nodes.map(|node| {
                    self.machine(node, MachineEvent::Ended { reason: "off".into(), console: String::new() })
                });
                off.chain([self.pset(pset, HelperEvent::Ended("told to".into()))]).collect()
            }
            _ => vec![],
        }
    }

    /// A rank ends; it leaves its program in the node's memory if it ran there.
    pub(crate) fn ended(&mut self, pset: PsetId, job: JobId, rank: Rank, node: NodeId, exit: Exit) -> Event {
        let retention = self.memory.end(job, rank, node).unwrap_or_default();
        self.said(pset, FromPset::Ended { node, report: RankReport { retention, ..report(job, rank, exit) } })
    }

    /// A node answers an order to discard, if it owes an answer.
    pub(crate) fn discarded(&mut self, pset: PsetId, node: NodeId, request: u64) -> Option<Event> {
        let program = self.owed.remove(&(node, request))?;
        let answer = self.memory.discard(node, request, program);
        Some(self.said(pset, FromPset::Discarded { node, answer }))
    }
}

fn set<T: Copy>(list: &mut Vec<T>, index: u32, value: T) {
    let index = index as usize;
    if list.len() <= index {
        list.resize(index + 1, value);
    }
    list[index] = value;
}

pub(crate) fn report(job: JobId, rank: Rank, exit: Exit) -> RankReport {
    RankReport {
        job,
        rank,
        exit,
        reason: None,
        launch_ns: 1,
        run_ns: 2,
        page_faults: 3,
        instruction_faults: 4,
        pages_fetched: 5,
        pages_peak: 6,
        bytes_written: 7,
        bytes_read: 8,
        syscalls: vec![],
        retention: RankRetention::default(),
    }
}

/// A job of a program that needs little.
pub(crate) fn job(ranks: u32) -> Submission {
    Submission {
        program: "/bin/prog".into(),
        name: "prog".into(),
        arguments: vec!["arg".into()],
        environment: vec![],
        root: "/".into(),
        directory: "/".into(),
        ranks,
        input_rank: None,
        timeout_ms: None,
        umask: 0o22,
        estimate_ms: None,
        retain: true,
        nodes: Vec::new(),
    }
}

pub(crate) const PROGRAM: ProgramRow = ProgramRow { id: ProgramId([3; 32]), bytes: 100, memory_bytes: 4096 };
pub(crate) const FILE: FileKey = FileKey { device: 1, inode: 2, bytes: 100, modified_ns: 4, changed_ns: 5 };

/// A file that is a static program, as far as can be seen from outside.
pub(crate) fn program_file() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(16, &2u16.to_le_bytes()); // ET_EXEC
    put(18, &62u16.to_le_bytes()); // x86-64
    put(20, &1u32.to_le_bytes());
    put(24, &0x40_0800u64.to_le_bytes()); // entry
    put(32, &64u64.to_le_bytes()); // program headers
    put(52, &64u16.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &1u16.to_le_bytes());
    put(64, &1u32.to_le_bytes()); // PT_LOAD
    put(68, &5u32.to_le_bytes()); // R X
    put(80, &0x40_0000u64.to_le_bytes());
    put(88, &0x40_0000u64.to_le_bytes());
    put(96, &4096u64.to_le_bytes());
    put(104, &4096u64.to_le_bytes());
    put(112, &4096u64.to_le_bytes());
    bytes
}

/// Paths below a directory.
pub(crate) fn paths(home: &Path) -> ClusterPaths {
    let name = "test".parse().expect("a name");
    let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.as_os_str().to_owned());
    let paths = ClusterPaths::find_with(name, variable, 0).expect("paths");
    paths.create().expect("directories");
    paths
}

/// A controller with what carries its orders out, in time that passes only when told.
pub(crate) struct Cluster {
    pub(crate) controller: Controller<NotingPlant>,
    pub(crate) behaviour: Behaviour,
    /// All orders so far.
    pub(crate) orders: Vec<Order>,
    plant: NotingPlant,
    now: Instant,
    since: Instant,
    /// When machines that were started will call.
    calls: VecDeque<(NodeId, Generation)>,
    pset_size: u32,
    pub(crate) home: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn new(nodes: u32, pset_size: u32) -> Self {
        Self::in_home(tempfile::tempdir().expect("directory"), nodes, pset_size)
    }

    pub(crate) fn in_home(home: tempfile::TempDir, nodes: u32, pset_size: u32) -> Self {
        let paths = paths(home.path());
        let database = Database::open(&paths.database()).expect("database");
        let store = ProgramStore::open(paths.programs()).expect("store");
        let config = Config { paths, nodes, memory_bytes: 64 << 20, pset_size };
        let plant = NotingPlant::default();
        let now = Instant::now();
        let at = Now { instant: now, realtime_ns: 1 };
        let mut controller = Controller::new(config, database, store, plant.clone(), at).expect("controller");
        controller.start(at);
        Self {
            controller,
            behaviour: Behaviour::default(),
            orders: Vec::new(),
            plant,
            now,
            since: now,
            calls: VecDeque::new(),
            pset_size,
            home,
        }
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
                        let pset = PsetId(node.0 / self.pset_size);
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

    /// Asks and returns the answer.
    pub(crate) fn ask<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<Result<T, coppice_service_node::controller::Refused>>) -> Request,
    ) -> Result<T, coppice_service_node::controller::Refused> {
        let (answer, mut answered) = oneshot::channel();
        self.event(Event::Request(request(answer)));
        answered.try_recv().expect("answered at once")
    }

    pub(crate) fn submit(&mut self, job: Submission) -> Result<JobId, coppice_service_node::controller::Refused> {
        self.submit_program(PROGRAM, job)
    }

    pub(crate) fn submit_program(
        &mut self,
        program: ProgramRow,
        job: Submission,
    ) -> Result<JobId, coppice_service_node::controller::Refused> {
        self.ask(|answer| Request::Submit(Box::new(job), program, FILE, answer))
    }

    /// A job as it is recorded.
    pub(crate) fn job(&mut self, job: JobId) -> JobDetail {
        self.ask(|answer| Request::Job(job, answer)).expect("job")
    }

    pub(crate) fn nodes(&mut self) -> Vec<NodeView> {
        self.ask(Request::Nodes).expect("nodes")
    }

    /// Ranks of a job end by themselves.
    pub(crate) fn end(&mut self, job: JobId) {
        let nodes = self.job(job).job.nodes;
        for (node, rank) in nodes.into_iter().zip(0..) {
            let pset = PsetId(node / self.pset_size);
            let ended = self.behaviour.ended(pset, job, Rank(rank), NodeId(node), Exit::Status(0));
            self.event(ended);
        }
    }

    /// The I/O node of a node says something.
    pub(crate) fn said(&mut self, node: u32, message: FromPset) {
        let event = self.behaviour.said(PsetId(node / self.pset_size), message);
        self.event(event);
    }

    pub(crate) fn told(&self) -> impl Iterator<Item = (PsetId, &ToPset)> {
        self.orders.iter().filter_map(|order| match order {
            Order::Tell(pset, message) => Some((*pset, &**message)),
            _ => None,
        })
    }
}
