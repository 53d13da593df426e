//! The real [`Plant`]: the fabric, the I/O nodes and QEMU, each a child process.
//!
//! Every child is started through the tether, so that none outlives this process however it ends, and from this
//! process's main thread, because that is what the tether watches. Each has a task that feeds it, reads it and waits
//! for its end; tasks talk to the controller through one bounded channel of events.

mod fabric;
mod helper;
mod io_node;
mod last_words;
mod machine;
mod region;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use coppice_api::link::{LinkShapes, Station};
use coppice_api::paths::ClusterPaths;
use coppice_protocol::ids::{JobId, NodeId, PsetId};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::{ToPset, encode};
use coppice_protocol::psets::PsetTable;
use coppice_protocol::world::JobKey;
use coppice_qemu::launch::Launcher;
use coppice_qemu::machine::Accelerator;
use coppice_qemu::probe::probe_cached;
use coppice_qemu::processor::Processor;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use self::fabric::{Port, fabric_commands, fabric_orders};
use self::helper::Link;
pub(crate) use self::helper::put_aside;
use crate::controller::Event;
use crate::host_files::HostFiles;
use crate::limits::{FABRIC_COMMANDS_MAX, IMPORT_TIME_MAX, IMPORTS_MAX, PSET_MESSAGES_MAX};
use crate::options::AcceleratorChoice;
use crate::output::OutputOrder;
use crate::output::keeper::{Keeper, KeptNow};
use crate::plant::{
    CheckpointOrder, FabricOrder, HelperEvent, Incarnation, MTU, Plant, PlantEvent, Secrets, SpawnOrder, Stop, Task,
};
use crate::profiles::{self, ProfileOrder};
use crate::store::{Held, ProgramStore, Source};

/// The programs a cluster is made of.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Starts QEMU.
    pub launcher: Launcher,
    /// What nodes boot.
    pub image: PathBuf,
    /// The fabric's program.
    pub fabric: PathBuf,
    /// The I/O node's program.
    pub io_node: PathBuf,
}

/// What the processes are started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Files and directories of the cluster.
    pub paths: ClusterPaths,
    /// Programs to start.
    pub programs: Programs,
    /// How nodes are to be executed.
    pub accelerator: AcceleratorChoice,
    /// Compute nodes.
    pub nodes: u32,
    /// Compute nodes per I/O node.
    pub pset_size: u32,
    /// Cores of each node.
    pub cores: u16,
    /// Memory of each node, bytes.
    pub memory_bytes: u64,
    /// Length of each node's region, bytes; 0: they have none.
    pub region_bytes: u64,
    /// Processor of each node; without one all that can be had.
    pub processor: Option<Processor>,
    /// Whether the nodes' clocks count instructions.
    pub icount: bool,
    /// Directory of checkpoints.
    pub storage: PathBuf,
}

/// All child processes of a cluster.
#[derive(Debug)]
pub struct Processes {
    setup: Setup,
    store: ProgramStore,
    files: HostFiles,
    /// Programs that are looked at.
    checks: Arc<Semaphore>,
    events: mpsc::Sender<Event>,
    keeper: Keeper,
    profiles: profiles::Keeper,
    /// Whoever carries these out. A job has one under way at a time, so jobs bound them.
    tasks: mpsc::UnboundedSender<Task>,
    fabric: Option<Link>,
    io_nodes: BTreeMap<PsetId, Link>,
    /// Set to true to kill the machine.
    machines: BTreeMap<NodeId, watch::Sender<bool>>,
}

impl Processes {
    /// No process yet; what takes long is for somebody else.
    #[must_use]
    pub fn new(
        setup: Setup,
        store: ProgramStore,
        events: mpsc::Sender<Event>,
        tasks: mpsc::UnboundedSender<Task>,
    ) -> Self {
        let keeper = Keeper::start(setup.paths.output(), events.clone());
        let profiles = profiles::Keeper::start(setup.paths.profiles());
        Self {
            setup,
            store,
            keeper,
            profiles,
            tasks,
            files: HostFiles::default(),
            checks: Arc::new(Semaphore::new(IMPORTS_MAX)),
            events,
            fabric: None,
            io_nodes: BTreeMap::new(),
            machines: BTreeMap::new(),
        }
    }

    /// What logs of jobs' output take.
    #[must_use]
    pub fn kept(&self) -> KeptNow {
        self.keeper.kept()
    }

    fn ports(&self) -> Vec<Port> {
        let table = PsetTable::new(self.setup.nodes, self.setup.pset_size);
        table.psets().map(Port::of_pset).chain(table.nodes().map(Port::of_node)).collect()
    }
}

impl Plant for Processes {
    fn find_accelerator(&mut self) {
        let (setup, events) = (self.setup.clone(), self.events.clone());
        tokio::spawn(async move {
            let found = find_accelerator(&setup).await;
            let _ = events.send(Event::Plant(PlantEvent::Accelerator(found))).await;
        });
    }

    fn start_fabric(&mut self, incarnation: Incarnation, links: &BTreeMap<Station, LinkShapes>) {
        let commands = fabric_commands(&self.ports(), links);
        let report = move |event| PlantEvent::Fabric { incarnation, event };
        let mut command = coppice_qemu::tether::command(&self.setup.programs.fabric);
        command.arg("--directory").arg(self.setup.paths.runtime());
        let started = helper::start(command, &self.setup.paths.helper_log("fabric"), FABRIC_COMMANDS_MAX);
        match started {
            Ok((process, link)) => {
                link.send(commands);
                let pid = process.pid;
                tokio::spawn(fabric::follow(process, self.events.clone(), report));
                self.report(report(HelperEvent::Started { pid }));
                self.fabric = Some(link);
            }
            Err(reason) => self.report(report(HelperEvent::Ended(reason))),
        }
    }

    fn stop_fabric(&mut self, how: Stop) {
        if let Some(link) = &self.fabric {
            match how {
                Stop::Orderly => link.send(fabric::shutdown_command()),
                Stop::AtOnce => link.kill(),
            }
        }
    }

    fn ask_fabric(&mut self) {
        if let Some(link) = &self.fabric {
            link.send(fabric::question(&self.ports()));
        }
    }

    fn tell_fabric(&mut self, request: u64, orders: &[FabricOrder]) {
        if let Some(link) = &self.fabric {
            link.send(fabric_orders(request, orders));
        }
    }

    fn start_io_node(&mut self, pset: PsetId, incarnation: Incarnation) {
        let report = move |event| PlantEvent::Pset { pset, incarnation, event };
        let command = coppice_qemu::tether::command(&self.setup.programs.io_node);
        let log = self.setup.paths.helper_log(&format!("io-node-{pset}"));
        match helper::start(command, &log, PSET_MESSAGES_MAX) {
            Ok((process, link)) => {
                let pid = process.pid;
                tokio::spawn(io_node::follow(process, self.events.clone(), report));
                self.report(report(HelperEvent::Started { pid }));
                self.io_nodes.insert(pset, link);
                let port = Port::of_pset(pset);
                let directory = self.setup.paths.runtime();
                let regions = (self.setup.region_bytes > 0).then(|| self.setup.paths.regions());
                self.tell(
                    pset,
                    &ToPset::Configure {
                        version: coppice_protocol::pset::VERSION,
                        pset,
                        mtu: MTU,
                        socket: coppice_api::path::bytes(port.station_socket(directory)),
                        fabric: coppice_api::path::bytes(port.switch_socket(directory)),
                        storage: Some(coppice_api::path::bytes(&self.setup.storage)),
                        regions: regions.map(coppice_api::path::bytes),
                    },
                );
            }
            Err(reason) => self.report(report(HelperEvent::Ended(reason))),
        }
    }

    fn kill_io_node(&mut self, pset: PsetId) {
        if let Some(link) = self.io_nodes.get(&pset) {
            link.kill();
        }
    }

    fn tell(&mut self, pset: PsetId, message: &ToPset) {
        let Some(link) = self.io_nodes.get(&pset) else { return };
        match encode(message) {
            Ok(bytes) => link.send(bytes),
            Err(error) => {
                // Bounded by what is accepted from users; if it happens the two ends do not agree any more.
                tracing::error!(pset = pset.0, %error, "cannot tell the I/O node");
                link.kill();
            }
        }
    }

    fn secrets(&mut self) -> Result<Secrets, String> {
        Ok(Secrets { key: NodeKey(random()?), seed: random()? })
    }

    fn job_key(&mut self) -> Result<JobKey, String> {
        random().map(JobKey)
    }

    fn check_program(&mut self, job: JobId, copy: Held, source: Source) {
        let (store, files) = (self.store.clone(), self.files.clone());
        let (checks, events) = (Arc::clone(&self.checks), self.events.clone());
        tokio::spawn(async move {
            // The semaphore is never closed; were it, going on without it does no harm.
            let _permit = checks.acquire_owned().await;
            let what = format!("{} '{}'", source.kind, coppice_api::shown(&source.path));
            let looked = files.work(&what, IMPORT_TIME_MAX, move || store.ensure(&copy, &source)).await;
            let found = match looked {
                Ok(found) => found.map_err(|error| error.to_string()),
                Err(refused) => Err(refused.message),
            };
            let _ = events.send(Event::Plant(PlantEvent::Program { job, found })).await;
        });
    }

    fn keep(&mut self, order: OutputOrder) {
        self.keeper.order(order);
    }

    fn record_profile(&mut self, order: ProfileOrder) -> bool {
        self.profiles.order(order)
    }

    fn profiles_written(&mut self) -> oneshot::Receiver<()> {
        self.profiles.written()
    }

    fn checkpoint(&mut self, order: CheckpointOrder) {
        self.begin(Task::Checkpoint(order));
    }

    fn spawn(&mut self, order: SpawnOrder) {
        self.begin(Task::Spawn(order));
    }

    fn boot(&mut self, personality: &Personality, accelerator: Accelerator) {
        let (kill, killed) = watch::channel(false);
        self.machines.insert(personality.node, kill);
        machine::boot(&self.setup, personality, accelerator, killed, self.events.clone());
    }

    fn forget_personality(&mut self, node: NodeId) {
        // Already gone when the machine ended after it was ready.
        let _ = std::fs::remove_file(self.setup.paths.personality(node.0));
    }

    fn kill_machine(&mut self, node: NodeId) {
        if let Some(kill) = self.machines.get(&node) {
            kill.send_replace(true);
        }
    }
}

impl Processes {
    fn begin(&self, task: Task) {
        // There is somebody who takes it as long as there is a cluster.
        let _ = self.tasks.send(task);
    }

    /// Reports without waiting: orders are given by whoever takes the reports.
    fn report(&self, event: PlantEvent) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let _ = events.send(Event::Plant(event)).await;
        });
    }
}

/// Thirty-two bytes from the system's generator.
fn random() -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    let count = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    // Requests of up to 256 bytes are never answered in part.
    match count {
        Ok(count) if count == bytes.len() => Ok(bytes),
        Ok(_) => Err("the system's random numbers were cut short".to_owned()),
        Err(errno) => Err(format!("the system has no random numbers: {errno}")),
    }
}

async fn find_accelerator(setup: &Setup) -> Result<Accelerator, String> {
    match (setup.accelerator, setup.icount) {
        (AcceleratorChoice::Kvm, true) => {
            return Err("--icount works only under emulation; use `coppice up --icount --accel tcg`".to_owned());
        }
        (AcceleratorChoice::Tcg, _) | (_, true) => return Ok(Accelerator::Tcg),
        _ => {}
    }
    let Programs { launcher, image, .. } = &setup.programs;
    let verdict = probe_cached(launcher, image, &setup.paths.accelerator_cache()).await;
    match (setup.accelerator, verdict.kvm_refused) {
        (AcceleratorChoice::Kvm, Some(reason)) => {
            Err(format!("--accel kvm does not work here: {reason}; use `coppice up --accel tcg`"))
        }
        (_, refused) => {
            tracing::info!(accelerator = %verdict.accelerator, refused, "accelerator");
            Ok(verdict.accelerator)
        }
    }
}
