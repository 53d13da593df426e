//! A cluster without processes: the real controller, database and store, and a plant that only notes its orders.

// Each test program uses its own part of this.
#![expect(dead_code, reason = "shared by several test programs")]

pub(crate) mod behaviour;
pub(crate) mod cluster;
pub(crate) mod cutting;
pub(crate) mod links;
pub(crate) mod memory;
pub(crate) mod served;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use coppice_api::ClusterPaths;
use coppice_api::job::Submission;
use coppice_api::link::{LinkShapes, Station};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, PsetId};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::ToPset;
use coppice_protocol::world::JobKey;
use coppice_qemu::machine::Accelerator;
use coppice_service_node::database::{FileKey, ProgramRow};
use coppice_service_node::output::OutputOrder;
use coppice_service_node::plant::{CheckpointOrder, FabricOrder, Incarnation, Plant, Secrets, SpawnOrder, Stop};
use coppice_service_node::profiles::ProfileOrder;
use coppice_service_node::store::{Held, Source};
use coppice_storage::Storage;
use tokio::sync::oneshot;

pub(crate) use self::cluster::Cluster;

/// An order the controller gave.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    FindAccelerator,
    StartFabric(Incarnation, BTreeMap<Station, LinkShapes>),
    StopFabric(Stop),
    AskFabric,
    TellFabric(u64, Vec<FabricOrder>),
    StartIoNode(PsetId, Incarnation),
    KillIoNode(PsetId),
    Tell(PsetId, Box<ToPset>),
    CheckProgram(JobId),
    Keep(OutputOrder),
    Checkpoint(CheckpointOrder),
    Profile(ProfileOrder),
    Spawn(SpawnOrder),
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
    fn start_fabric(&mut self, incarnation: Incarnation, links: &BTreeMap<Station, LinkShapes>) {
        self.note(Order::StartFabric(incarnation, links.clone()));
    }
    fn stop_fabric(&mut self, how: Stop) {
        self.note(Order::StopFabric(how));
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
        Ok(Secrets { key: NodeKey([7; 32]), seed: [8; 32] })
    }
    fn job_key(&mut self) -> Result<JobKey, String> {
        Ok(JobKey([9; 32]))
    }
    fn check_program(&mut self, job: JobId, _copy: Held, _source: Source) {
        self.note(Order::CheckProgram(job));
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
    fn boot(&mut self, personality: &Personality, accelerator: Accelerator) {
        assert_eq!(accelerator, Accelerator::Tcg);
        self.note(Order::Boot(personality.node, personality.generation));
    }
    fn forget_personality(&mut self, _node: NodeId) {}
    fn kill_machine(&mut self, node: NodeId) {
        self.note(Order::KillMachine(node));
    }
}

/// A job of a program that needs little.
pub(crate) fn job(ranks: u32) -> Submission {
    Submission { arguments: vec!["arg".into()], ..Submission::plain("/bin/prog".into(), "prog".into(), ranks) }
}

pub(crate) const PROGRAM: ProgramRow = ProgramRow { id: ProgramId([3; 32]), bytes: 100, memory_bytes: 4096 };

/// Another program, the bytes of whose hash are all this.
pub(crate) fn program(hash: u8) -> ProgramRow {
    ProgramRow { id: ProgramId([hash; 32]), ..PROGRAM }
}

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

/// Checkpoints below a directory.
pub(crate) fn storage(home: &Path) -> Arc<Storage> {
    Arc::new(Storage::open(paths(home).checkpoints()).expect("a directory"))
}

/// Paths below a directory.
pub(crate) fn paths(home: &Path) -> ClusterPaths {
    let name = "test".parse().expect("a name");
    let variable = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.as_os_str().to_owned());
    let paths = ClusterPaths::find_with(name, variable, 0).expect("paths");
    paths.create().expect("directories");
    paths
}
