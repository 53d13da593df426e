//! The service node: the real controller, whose database and stored programs outlive it, and a plant that notes what it
//! orders.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use coppice_api::ClusterPaths;
use coppice_api::link::{LinkShape, LinkShapes, Station};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, PsetId};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::ToPset;
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::world::JobKey;
use coppice_qemu::machine::Accelerator;
use coppice_service_node::checkpoints::{self, Around};
use coppice_service_node::controller::{Config, Controller, Event, Now, Refused, Request};
use coppice_service_node::database::FileKey;
use coppice_service_node::output::OutputOrder;
use coppice_service_node::plant::{CheckpointOrder, FabricOrder, Incarnation, Plant, Secrets, SpawnOrder, Stop};
use coppice_service_node::profiles::ProfileOrder;
use coppice_service_node::records::Records;
use coppice_service_node::store::{Found, Held, Kind, ProgramStore, Source, stored_bytes};
use coppice_service_node::time;
use coppice_storage::Storage;
use tokio::sync::oneshot;

use super::Options;
use super::alarm::Alarm;
use super::leading::Leaders;
use super::machine::{MEMORY_BYTES, MEMORY_BYTES_TRIAL, MEMORY_BYTES_WHOLE};
use super::programs;
use super::regions::REGION_BYTES;
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
    CheckProgram(JobId, Held),
    Keep(OutputOrder),
    Checkpoint(CheckpointOrder),
    Profile(ProfileOrder),
    Spawn(SpawnOrder),
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
    fn check_program(&mut self, job: JobId, copy: Held, _source: Source) {
        self.note(Order::CheckProgram(job, copy));
    }
    fn keep(&mut self, order: OutputOrder) {
        self.note(Order::Keep(order));
    }
    fn record_profile(&mut self, order: ProfileOrder) -> bool {
        self.note(Order::Profile(order));
        true
    }
    fn profiles_written(&mut self) -> oneshot::Receiver<()> {
        oneshot::channel().1
    }
    fn checkpoint(&mut self, order: CheckpointOrder) {
        self.note(Order::Checkpoint(order));
    }
    fn spawn(&mut self, order: SpawnOrder) {
        self.note(Order::Spawn(order));
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
    /// What its store may hold, bytes: at times not all programs.
    store_bytes_max: u64,
    /// Programs that were ever stored.
    stored: BTreeSet<u64>,
    /// Jobs whose program was in the store when it was held for them.
    promised: BTreeSet<JobId>,
    config: Config,
    begin: Instant,
    /// How far the host's clock was set forwards and back, ns.
    set_ns: (u64, u64),
    /// What the service node goes by.
    clock: time::Clock,
    home: tempfile::TempDir,
    /// The directory of checkpoints, if there may be any, as the last service node has opened it.
    pub storage: Option<Arc<Storage>>,
    /// Who makes them.
    pub leaders: Option<Leaders>,
    /// Numbers that were given to those of earlier service nodes.
    led: u64,
    has_checkpoints: bool,
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
        let home = home()?;
        for (number, program) in programs::all().iter().enumerate() {
            fs::write(source_of(home.path(), number as u64), &program.file)?;
        }
        let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.path().as_os_str().to_owned());
        let paths = ClusterPaths::find_with("simulated".parse()?, variable, 0)?;
        paths.create()?;
        fs::create_dir_all(paths.regions())?;
        let store_bytes_max = draw_store_bytes(&mut random);
        let store = ProgramStore::open(paths.programs())?.limited(store_bytes_max);
        let config = Config {
            paths,
            nodes: options.nodes,
            cores: 1,
            memory_bytes: memory_bytes(options),
            region_bytes: options.trial.map_or(0, |trial| if trial.has_regions { REGION_BYTES } else { 0 }),
            pset_size: options.pset_size,
            retention: if random.chance(500) { RetentionPolicy::One } else { RetentionPolicy::Many },
            freeze_every_ns: 0,
            host_cores: 2,
            boots_max: BOOTS_MIN.max(options.nodes as usize / BOOTED_ONE_IN),
            link: LinkShape::default(),
        };
        let disk = HostDisk::new(config.paths.reserve())?;
        let noted = Noted { orders: VecDeque::new(), random, disk: disk.clone() };
        let begin = Instant::now();
        Ok(Self {
            controller: None,
            disk,
            disk_until_ns: 0,
            plant: NotingPlant(Arc::new(Mutex::new(noted))),
            store,
            store_bytes_max,
            stored: BTreeSet::new(),
            promised: BTreeSet::new(),
            config,
            begin,
            set_ns: (0, 0),
            clock: time::Clock::at(begin, BEGIN_NS),
            home,
            storage: None,
            leaders: None,
            led: 0,
            has_checkpoints: options.trial.is_some(),
            fabric: None,
            stopped_until_ns: 0,
            fabric_stopped_until_ns: 0,
            is_awaited: false,
            alarm: Alarm::default(),
        })
    }

    /// As the service node's loop does: the host's clock is looked at only while there is no job whose time is counted.
    fn now(&mut self, now_ns: u64) -> Now {
        let instant = self.begin + Duration::from_nanos(now_ns);
        if self.controller.as_ref().is_none_or(Controller::is_idle) {
            self.clock = time::Clock::at(instant, self.wall_ns(now_ns));
        }
        Now { instant, realtime_ns: self.clock.realtime_ns(instant) }
    }

    /// What the host's clock shows, ns since 1970.
    pub(super) fn wall_ns(&self, now_ns: u64) -> u64 {
        let (forwards_ns, back_ns) = self.set_ns;
        (BEGIN_NS + now_ns + forwards_ns).saturating_sub(back_ns)
    }

    /// Somebody sets it.
    pub(super) fn set_clock(&mut self, by_ns: u64, forwards: bool) {
        let (forwards_ns, back_ns) = &mut self.set_ns;
        *(if forwards { forwards_ns } else { back_ns }) += by_ns;
    }

    /// Memory of each node, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.config.memory_bytes
    }

    /// Bytes of each node's region.
    pub(super) fn region_bytes(&self) -> u64 {
        self.config.region_bytes
    }

    /// Where they lie, and that of a node.
    pub(super) fn regions_path(&self) -> PathBuf {
        self.config.paths.regions()
    }
    pub(super) fn region_path(&self, node: NodeId) -> PathBuf {
        self.config.paths.region(node.0)
    }

    /// What somebody leaves in the storage who is killed while he writes there.
    pub(super) fn leave_a_file(&self) {
        if let Some(storage) = &self.storage {
            // It may be there already.
            let _ = fs::write(storage.path().join("temporary").join("dead"), b"half");
        }
    }

    /// What the clocks of those show who lead.
    pub(super) fn times(&self, now_ns: u64) -> (Instant, Duration) {
        (self.begin + Duration::from_nanos(now_ns), Duration::from_nanos(self.wall_ns(now_ns)))
    }

    /// Somebody does something with checkpoints, as the controller wants it.
    pub(super) fn carry_out(&self, order: CheckpointOrder) {
        if let Some(Leaders { around, .. }) = &self.leaders {
            around.spawn(checkpoints::carry_out(around.clone(), order));
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.controller.is_some()
    }

    /// Starts it.
    pub(super) fn start(&mut self, now_ns: u64) -> anyhow::Result<()> {
        let records = Records::with_reserve(Box::new(self.disk.clone()), &self.config.paths.reserve())?;
        let now = self.now(now_ns);
        let controller = Controller::new(self.config.clone(), records, self.store.clone(), self.plant.clone(), now)?;
        if self.has_checkpoints {
            let storage = checkpoints::open(self.config.paths.checkpoints())?;
            self.leaders = Some(Leaders::new(Arc::clone(&storage), self.led, now.instant));
            self.storage = Some(storage);
        }
        self.controller.insert(controller).start(now);
        Ok(())
    }

    /// Kills it, if it is not dead by itself. What its records are kept in stays.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.controller = None;
        self.led = self.leaders.take().map_or(self.led, |leaders| leaders.numbers());
        self.disk.revive()?;
        while self.plant.take().is_some() {}
        // Another process knows nothing of who held what, nor what was hashed.
        self.store = ProgramStore::open(self.config.paths.programs())?.limited(self.store_bytes_max);
        self.promised.clear();
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

    /// As whoever takes a submission: the stored copy of a program, or one that is made now. And whether it is there.
    pub(super) fn copy_of(&mut self, number: u64, now_ns: u64) -> anyhow::Result<Option<Copied>> {
        let Some(file) = file_key(number) else { return Ok(None) };
        let known = match self.ask(|answer| Request::KnownProgram(file, answer), now_ns) {
            Some(Ok(known)) => known,
            Some(Err(_)) | None => return Ok(None),
        };
        let is_again = known.is_none() && !self.stored.insert(number);
        let copy = match known {
            Some(copy) => copy,
            None => self.store.import(&source_of(self.home.path(), number))?.0,
        };
        let is_there = self.has_copy(copy.id);
        Ok(Some(Copied { number, is_there, is_again, copy }))
    }

    /// Whether a program is in the store.
    pub(super) fn has_copy(&self, program: ProgramId) -> bool {
        self.store.path(program).exists()
    }

    /// Makes sure of the copy that a job needs. None: what was held for it is gone.
    pub(super) fn check_copy(&self, job: JobId, copy: &Held) -> Option<Result<Found, String>> {
        let number = programs::all().iter().position(|program| program.id == copy.id)?;
        let source = Source { kind: Kind::Program, path: source_of(self.home.path(), number as u64) };
        let found = self.store.ensure(copy, &source).map_err(|error| error.to_string());
        let is_kept = !self.promised.contains(&job) || matches!(found, Ok(Found::Sound));
        is_kept.then_some(found)
    }

    /// Submits a job of a program.
    pub(super) fn submit(
        &mut self,
        copied: Copied,
        submission: coppice_api::job::Submission,
        now_ns: u64,
    ) -> Option<Result<JobId, Refused>> {
        let Copied { number, is_there, copy, .. } = copied;
        let file = file_key(number)?;
        let submitted =
            self.ask(|answer| Request::Submit(Box::new(submission), copy, file, Vec::new(), answer), now_ns);
        if let (Some(Ok(job)), true) = (&submitted, is_there) {
            self.promised.insert(*job);
        }
        submitted
    }
}

/// The copy of a program that is held for a job.
#[derive(Debug)]
pub(super) struct Copied {
    number: u64,
    copy: Held,
    /// Its bytes are in the store.
    is_there: bool,
    /// They were stored just now, and had been before.
    pub is_again: bool,
}

/// What the file of a program is known by.
fn file_key(number: u64) -> Option<FileKey> {
    let bytes = programs::all().get(usize::try_from(number).ok()?)?.bytes();
    Some(FileKey { device: 1, inode: number, bytes, modified_ns: 4, changed_ns: 5 })
}

/// Where users have a program.
fn source_of(home: &Path, number: u64) -> std::path::PathBuf {
    home.join(format!("script{number}"))
}

/// The service node's home: in memory where the host has such a directory, as what is stored is synced.
fn home() -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Memory of each node, bytes.
fn memory_bytes(options: &Options) -> u64 {
    match options {
        Options { trial: Some(_), .. } => MEMORY_BYTES_TRIAL,
        Options { is_whole: true, .. } => MEMORY_BYTES_WHOLE,
        _ => MEMORY_BYTES,
    }
}

/// What the store may hold, bytes: in some runs all programs, in the others at least each alone.
fn draw_store_bytes(random: &mut Random) -> u64 {
    let sizes = || programs::all().iter().map(|program| stored_bytes(program.bytes()));
    let (largest, all) = (sizes().max().unwrap_or(0), sizes().sum());
    if random.chance(300) { all } else { random.between(largest, all) }
}
