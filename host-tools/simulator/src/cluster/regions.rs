//! Nodes' regions: files of the host, that machines see as memory and their engines write, and that I/O nodes pull from
//! and wipe with their own code. An engine's writes and a pull's objects are events: whoever is killed between two of
//! them has done the ones before.

use std::fs::OpenOptions;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use anyhow::Context;
use coppice_hal::region::Region as Device;
use coppice_io_node::machine::{RegionAnswer, RegionOrder, RegionWork};
use coppice_io_node::regions::{PullBy, Regions};
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::region::BLOCK_BYTES;
use coppice_service_node::plant::Incarnation;
use coppice_storage::Storage;

use super::machine::LifeId;
use super::queue::{Event, MILLISECOND_NS};
use super::world::World;

/// Bytes of a region, where nodes have one.
pub(super) const REGION_BYTES: u64 = 64 * BLOCK_BYTES;

/// How long a node's engine takes for something, ns.
const ENGINE_NS_MAX: u64 = MILLISECOND_NS / 4;
/// How long an I/O node takes to pull an object, or to wipe, ns.
const OBJECT_NS_MAX: u64 = 2 * MILLISECOND_NS;

/// The region of a boot of a machine.
pub(super) struct Attached {
    pub device: &'static Device,
    /// The engine's next step is planned.
    is_planned: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.device.end();
    }
}

/// What an I/O node's thread does with a region: it goes on when it is told to, as far as to the next object. If nobody
/// tells it any more it is dead.
#[derive(Debug)]
pub(super) struct Working {
    go: Option<Sender<()>>,
    said: Receiver<Said>,
    thread: Option<JoinHandle<()>>,
}

/// What comes of that.
#[derive(Debug)]
enum Said {
    /// So many objects are stored, of so many.
    At((u64, u64)),
    Done(RegionAnswer),
}

/// With several threads, or a clock, no two runs would be the same.
const BY: PullBy = PullBy { threads: 1, clock: || Duration::ZERO };

/// It is dead.
struct Dead;

impl Working {
    fn new(order: RegionOrder, regions: Regions, storage: Arc<Storage>) -> Self {
        let (go, told) = channel();
        let (say, said) = channel();
        let thread = spawn(move || {
            if told.recv().is_err() {
                return;
            }
            let answer = regions.carry_out(&order, &storage, &BY, &mut |objects| {
                if say.send(Said::At(objects)).is_err() || told.recv().is_err() {
                    resume_unwind(Box::new(Dead));
                }
            });
            // Who is gone does not hear it.
            let _ = say.send(Said::Done(answer));
        });
        Self { go: Some(go), said, thread: Some(thread) }
    }

    /// Has it go on.
    fn go_on(&self) -> Option<Said> {
        self.go.as_ref()?.send(()).ok()?;
        self.said.recv().ok()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.go = None;
        if let Some(thread) = self.thread.take() {
            // It did not come to its end, or it did.
            let _ = thread.join();
        }
    }
}

impl World {
    /// The region of a node that is switched on, if nodes have one.
    pub(super) fn attach_region(&mut self, node: NodeId) -> Option<Attached> {
        let bytes = self.host.region_bytes();
        if bytes == 0 {
            return None;
        }
        let opened = || {
            let path = self.host.region_path(node);
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            if file.metadata()?.len() != bytes {
                file.set_len(bytes)?;
            }
            anyhow::Ok(file)
        };
        match opened().context("a node's region") {
            Ok(file) => Some(Attached { device: Device::of_file(file, bytes), is_planned: false }),
            Err(error) => {
                self.trouble = Some(error);
                None
            }
        }
    }

    /// A node's engine does the next thing soon, if it has any to do.
    pub(super) fn plan_engine(&mut self, life: LifeId) {
        let Some(region) = self.region_mut(life) else { return };
        if region.device.under_way() == 0 || std::mem::replace(&mut region.is_planned, true) {
            return;
        }
        let in_ns = self.random.delay(ENGINE_NS_MAX);
        self.plan(in_ns, Event::Engine(life));
    }

    /// A node's engine does something. Says whether there is that boot still.
    pub(super) fn engine_steps(&mut self, life: LifeId) -> bool {
        let Some(last) = self.region_mut(life).map(|region| region.device.under_way().saturating_sub(1)) else {
            return false;
        };
        let which = self.random.length(0, last);
        if let Some(region) = self.region_mut(life) {
            region.is_planned = false;
            region.device.step(which);
        }
        true
    }

    /// An I/O node is to do something with a region.
    pub(super) fn begin_region(&mut self, pset: PsetId, incarnation: Incarnation, order: RegionOrder) {
        if self.host.region_bytes() == 0 {
            let RegionOrder { node, work, .. } = order;
            let answer = match work {
                RegionWork::Pull(_) => work.failed(format!("node {node} has no region")),
                RegionWork::Wipe { .. } => RegionAnswer::Wiped(None),
            };
            if let Some(io_node) = self.io_nodes.get_mut(&pset) {
                io_node.machine.region_done(node, answer);
            }
            return;
        }
        let regions = Regions::open(Some(&self.host.regions_path()));
        if let (Some(storage), Some(io_node)) = (self.host.storage.clone(), self.io_nodes.get_mut(&pset)) {
            io_node.regions.insert(order.node, Working::new(order, regions, storage));
        }
        let in_ns = self.random.delay(OBJECT_NS_MAX);
        self.plan(in_ns, Event::Region(pset, incarnation, order.node));
    }

    /// It wipes, or pulls one object more.
    pub(super) fn region_goes_on(&mut self, pset: PsetId, incarnation: Incarnation, node: NodeId) {
        let io_node = self.io_nodes.get_mut(&pset);
        let Some(working) = io_node.and_then(|io_node| io_node.regions.remove(&node)) else { return };
        match working.go_on() {
            Some(Said::At(objects)) => {
                self.with_io_node(pset, |io_node, _| {
                    io_node.regions.insert(node, working);
                    io_node.machine.pulling(node, objects);
                });
                let in_ns = self.random.delay(OBJECT_NS_MAX);
                self.plan(in_ns, Event::Region(pset, incarnation, node));
            }
            Some(Said::Done(answer)) => {
                drop(working);
                self.with_io_node(pset, |io_node, _| io_node.machine.region_done(node, answer));
            }
            None => self.violate(format!("who was at the region of node {node} has panicked")),
        }
    }
}
