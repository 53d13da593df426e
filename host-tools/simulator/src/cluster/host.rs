//! The service node: the real controller, whose database outlives it, and a plant that notes what it orders.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coppice_api::ClusterPaths;
use coppice_api::link::{LinkShape, LinkShapes, Station};
use coppice_protocol::ids::{JobId, NodeId, PsetId};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::ToPset;
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::world::JobKey;
use coppice_qemu::machine::Accelerator;
use coppice_service_node::controller::{Config, Controller, Event, Now, Refused, Request};
use coppice_service_node::database::{FileKey, ProgramRow};
use coppice_service_node::plant::{FabricOrder, Incarnation, Plant, Secrets, Stop};
use coppice_service_node::records::Records;
use coppice_service_node::store::{Held, ProgramStore, Source};
use tokio::sync::oneshot;

use super::Options;
use super::alarm::Alarm;
use super::machine::{MEMORY_BYTES, MEMORY_BYTES_WHOLE};
use super::programs;
use super::storage::HostDisk;
use crate::random::Random;

/// What the host's clock shows at the beginning, ns since 1970.
const BEGIN_NS: u64 = 1_800_000_000_000_000_000;
/// Nodes that are booted at a time: one of so many, and more than a few.
const BOOTED_ONE_IN: usize = 8;
const BOOTS_MIN: usize = 4;

/// What the controller has done.
#[derive(Debug)]
pub(super) enum Order {
    FindAccelerator,
    StartFabric(Incarnation, BTreeMap<Station, LinkShapes>),
    StopFabric,
    AskFabric,
    TellFabric(u64, Vec<FabricOrder>),
    StartIoNode(PsetId, Incarnation),
    KillIoNode(PsetId),
    Tell(PsetId, Box<ToPset>),
    CheckProgram(JobId),
    Boot(Box<Personality>),
    KillMachine(NodeId),
}

#[derive(Debug)]
struct Noted {
    orders: VecDeque<Order>,
    random: Random,
    disk: HostDisk,
}

/// Notes orders for the world.
#[derive(Clone, Debug)]
pub(super) struct NotingPlant(Arc<Mutex<Noted>>);

impl NotingPlant {
    fn note(&self, order: Order) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The dead order nothing.
        if noted.disk.step().is_some() {
            noted.orders.push_back(order);
        }
    }

    fn take(&self) -> Option<Order> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).orders.pop_front()
    }

    fn bytes(&self) -> [u8; 32] {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random.bytes()
    }
}

impl Plant for NotingPlant {
    fn find_accelerator(&mut self) {
        self.note(Order::FindAccelerator);
    }
    fn start_fabric(&mut self, incarnation: Incarnation, links: &BTreeMap<Station, LinkShapes>) {
        self.note(Order::StartFabric(incarnation, links.clone()));
    }
    fn stop_fabric(&mut self, _how: Stop) {
        self.note(Order::StopFabric);
    }
    fn ask_fabric(&mut self) {
        self.note(Order::AskFabric);
    }
    fn tell_fabric(&mut self, request: u64, orders: &[FabricOrder]) {
        self.note(Order::TellFabric(request, orders.to_vec()));
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
        Ok(Secrets { key: NodeKey(self.bytes()), seed: self.bytes() })
    }
    fn job_key(&mut self) -> Result<JobKey, String> {
        Ok(JobKey(self.bytes()))
    }
    fn check_program(&mut self, job: JobId, _copy: Held, _source: Source) {
        self.note(Order::CheckProgram(job));
    }
    fn boot(&mut self, personality: &Personality, _accelerator: Accelerator) {
        self.note(Order::Boot(Box::new(personality.clone())));
    }
    fn forget_personality(&mut self, _node: NodeId) {}
    fn kill_machine(&mut self, node: NodeId) {
        self.note(Order::KillMachine(node));
    }
}

/// See this module.
pub(super) struct Host {
    /// None while it is not running.
    controller: Option<Controller<NotingPlant>>,
    /// What its records are kept in.
    pub disk: HostDisk,
    /// The trouble with it is over then, ns.
    pub disk_until_ns: u64,
    plant: NotingPlant,
    store: ProgramStore,
    config: Config,
    begin: Instant,
    _home: tempfile::TempDir,
    /// The fabric's last start, and whether it runs.
    pub fabric: Option<Incarnation>,
    /// It does nothing before then, ns.
    pub stopped_until_ns: u64,
    /// The same for the fabric.
    pub fabric_stopped_until_ns: u64,
    /// Somebody is about to start it.
    pub is_awaited: bool,
    /// When it is looked whether something is due.
    pub alarm: Alarm,
}

impl Host {
    /// One that was not started yet.
    pub(super) fn new(options: &Options, mut random: Random) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.path().as_os_str().to_owned());
        let paths = ClusterPaths::find_with("simulated".parse()?, variable, 0)?;
        paths.create()?;
        let store = ProgramStore::open(paths.programs())?;
        let config = Config {
            paths,
            nodes: options.nodes,
            cores: 1,
            memory_bytes: if options.is_whole { MEMORY_BYTES_WHOLE } else { MEMORY_BYTES },
            pset_size: options.pset_size,
            retention: if random.chance(500) { RetentionPolicy::One } else { RetentionPolicy::Many },
            boots_max: BOOTS_MIN.max(options.nodes as usize / BOOTED_ONE_IN),
            link: LinkShape::default(),
        };
        let disk = HostDisk::new(config.paths.reserve())?;
        let noted = Noted { orders: VecDeque::new(), random, disk: disk.clone() };
        Ok(Self {
            controller: None,
            disk,
            disk_until_ns: 0,
            plant: NotingPlant(Arc::new(Mutex::new(noted))),
            store,
            config,
            begin: Instant::now(),
            _home: home,
            fabric: None,
            stopped_until_ns: 0,
            fabric_stopped_until_ns: 0,
            is_awaited: false,
            alarm: Alarm::default(),
        })
    }

    fn now(&self, now_ns: u64) -> Now {
        Now { instant: self.begin + Duration::from_nanos(now_ns), realtime_ns: BEGIN_NS + now_ns }
    }

    /// Memory of each node, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.config.memory_bytes
    }

    pub(super) fn is_up(&self) -> bool {
        self.controller.is_some()
    }

    /// Starts it.
    pub(super) fn start(&mut self, now_ns: u64) -> anyhow::Result<()> {
        let records = Records::with_reserve(Box::new(self.disk.clone()), &self.config.paths.reserve())?;
        let now = self.now(now_ns);
        let controller = Controller::new(self.config.clone(), records, self.store.clone(), self.plant.clone(), now)?;
        self.controller.insert(controller).start(now);
        Ok(())
    }

    /// Kills it, if it is not dead by itself. What its records are kept in stays.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.controller = None;
        self.disk.revive()?;
        while self.plant.take().is_some() {}
        self.fabric = None;
        (self.stopped_until_ns, self.alarm) = (0, Alarm::default());
        Ok(())
    }

    pub(super) fn handle(&mut self, event: Event, now_ns: u64) {
        let now = self.now(now_ns);
        if let Some(controller) = &mut self.controller {
            controller.handle(event, now);
        }
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        let now = self.now(now_ns);
        if let Some(controller) = &mut self.controller {
            controller.advance(now);
        }
    }

    /// When it is due next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let deadline = self.controller.as_ref()?.deadline()?;
        let since = deadline.saturating_duration_since(self.begin).as_nanos();
        Some(u64::try_from(since).unwrap_or(u64::MAX))
    }

    pub(super) fn next_order(&mut self) -> Option<Order> {
        self.plant.take()
    }

    /// Asks, and gives the answer if it came at once.
    pub(super) fn ask<T>(
        &mut self,
        request: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Request,
        now_ns: u64,
    ) -> Option<Result<T, Refused>> {
        let (answer, mut answered) = oneshot::channel();
        self.handle(Event::Request(request(answer)), now_ns);
        // What the dead answer nobody hears.
        if self.disk.is_dead() { None } else { answered.try_recv().ok() }
    }

    /// Submits a job of a program.
    pub(super) fn submit(
        &mut self,
        number: u64,
        submission: coppice_api::job::Submission,
        now_ns: u64,
    ) -> Option<Result<JobId, Refused>> {
        let program = programs::all().get(usize::try_from(number).ok()?)?;
        let (bytes, memory_bytes) = (program.bytes(), program.memory_bytes());
        let held = self.store.hold(ProgramRow { id: program.id, bytes, memory_bytes });
        let file = FileKey { device: 1, inode: number, bytes, modified_ns: 4, changed_ns: 5 };
        self.ask(|answer| Request::Submit(Box::new(submission), held, file, Vec::new(), answer), now_ns)
    }
}
