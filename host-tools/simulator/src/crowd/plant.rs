//! What the controller orders, noted for the world to carry out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use coppice_api::link::{LinkShapes, Station};
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId};
use coppice_protocol::personality::{NodeKey, Personality};
use coppice_protocol::pset::{self, ToPset};
use coppice_protocol::world::JobKey;
use coppice_qemu::machine::Accelerator;
use coppice_service_node::output::OutputOrder;
use coppice_service_node::plant::{CheckpointOrder, FabricOrder, Incarnation, Plant, Secrets, SpawnOrder, Stop};
use coppice_service_node::profiles::ProfileOrder;
use coppice_service_node::store::{Held, Source};
use tokio::sync::oneshot;

/// The key of all nodes.
pub(super) const KEY: NodeKey = NodeKey([7; 32]);

/// An order.
#[derive(Debug)]
pub(super) enum Order {
    FindAccelerator,
    /// With the stations of its links.
    StartFabric(Incarnation, Vec<Station>),
    AskFabric,
    TellFabric(u64, Vec<FabricOrder>),
    StartIoNode(PsetId, Incarnation),
    /// As the bytes that go through the pipe.
    Tell(PsetId, Vec<u8>),
    CheckProgram(JobId),
    Boot(NodeId, Generation),
    KillMachine(NodeId),
}

/// See this module.
#[derive(Clone, Debug, Default)]
pub(super) struct Noting(Arc<Mutex<VecDeque<Order>>>);

impl Noting {
    fn note(&self, order: Order) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
    }

    pub(super) fn next(&self) -> Option<Order> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Plant for Noting {
    fn find_accelerator(&mut self) {
        self.note(Order::FindAccelerator);
    }
    fn start_fabric(&mut self, incarnation: Incarnation, links: &BTreeMap<Station, LinkShapes>) {
        self.note(Order::StartFabric(incarnation, links.keys().copied().collect()));
    }
    fn stop_fabric(&mut self, _how: Stop) {}
    fn ask_fabric(&mut self) {
        self.note(Order::AskFabric);
    }
    fn tell_fabric(&mut self, request: u64, orders: &[FabricOrder]) {
        self.note(Order::TellFabric(request, orders.to_vec()));
    }
    fn start_io_node(&mut self, pset: PsetId, incarnation: Incarnation) {
        self.note(Order::StartIoNode(pset, incarnation));
    }
    fn kill_io_node(&mut self, _pset: PsetId) {}
    fn tell(&mut self, pset: PsetId, message: &ToPset) {
        // As the service node does, whose time it takes.
        if let Ok(bytes) = pset::encode(message) {
            self.note(Order::Tell(pset, bytes));
        }
    }
    fn secrets(&mut self) -> Result<Secrets, String> {
        Ok(Secrets { key: KEY, seed: [8; 32] })
    }
    fn job_key(&mut self) -> Result<JobKey, String> {
        Ok(JobKey([9; 32]))
    }
    fn check_program(&mut self, job: JobId, _copy: Held, _source: Source) {
        self.note(Order::CheckProgram(job));
    }
    fn keep(&mut self, _order: OutputOrder) {}
    fn record_profile(&mut self, _order: ProfileOrder) -> bool {
        true
    }
    fn profiles_written(&mut self) -> oneshot::Receiver<()> {
        oneshot::channel().1
    }
    fn checkpoint(&mut self, _order: CheckpointOrder) {}
    fn spawn(&mut self, _order: SpawnOrder) {}
    fn boot(&mut self, personality: &Personality, _accelerator: Accelerator) {
        self.note(Order::Boot(personality.node, personality.generation));
    }
    fn forget_personality(&mut self, _node: NodeId) {}
    fn kill_machine(&mut self, node: NodeId) {
        self.note(Order::KillMachine(node));
    }
}
