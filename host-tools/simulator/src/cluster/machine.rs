//! A node: the kernel's agent and function shipping, on an executor of its own.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coppice_core::agent;
use coppice_core::clock;
use coppice_core::executor::{SimulatedCore, spawn, spawn_program};
use coppice_core::launch::ProcessTable;
use coppice_core::memory::Retention;
use coppice_core::net::Credentials;
use coppice_core::overlay::{Auxiliary, Overlays};
use coppice_core::pmi::Pmi;
use coppice_core::process::NodeFacts;
use coppice_core::quota::{Quota, Store};
use coppice_core::ras::RasQueue;
use coppice_core::region::Region;
use coppice_core::ship::Ship;
use coppice_core::staging::Staging;
use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_protocol::control::MemoryStatus;
use coppice_protocol::ids::NodeId;
use coppice_protocol::personality::Personality;
use coppice_protocol::retain::RetentionPolicy;
use coppice_protocol::session::Identity;

use super::alarm::Alarm;
use super::clock::Clock;
use super::neighbours::Neighbourhood;
use super::network::Network;
use super::process::{Observed, Watched, frames_held};
use super::regions::Attached;
use super::sockets::NoSockets;
use super::wire::Dialler;

/// A boot of a node; no two of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LifeId {
    /// The node.
    pub node: NodeId,
    /// Boots of all nodes before it.
    pub number: u64,
}

/// The memory of a node, bytes: three programs that take much leave no room for others in it. The host has of it what
/// was ever used, and the records of all its frames.
pub(super) const MEMORY_BYTES: u64 = 280 * PAGE_BYTES as u64;
/// The memory of a node that runs only one small program, bytes.
pub(super) const MEMORY_BYTES_WHOLE: u64 = 128 * PAGE_BYTES as u64;
/// The memory of a node whose jobs have checkpoints, bytes: what a region's slots take to be kept account of is much.
pub(super) const MEMORY_BYTES_TRIAL: u64 = 2048 * PAGE_BYTES as u64;

std::thread_local! {
    /// Queues of events and memory of boots that are over, for others: a node has its own for ever.
    static QUEUES: RefCell<Vec<&'static RasQueue>> = const { RefCell::new(Vec::new()) };
    static POOLS: RefCell<Vec<&'static FramePool>> = const { RefCell::new(Vec::new()) };
}

/// A queue of events, for as long as a boot lasts.
struct Events(&'static RasQueue);

impl Events {
    fn new() -> Self {
        Self(QUEUES.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::leak(Box::new(RasQueue::new()))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
        QUEUES.with_borrow_mut(|queues| queues.push(self.0));
    }
}

/// A node's frames, for as long as a boot lasts. Behind everything that has any.
struct Memory {
    frames: &'static FramePool,
    observed: Observed,
}

impl Memory {
    fn new(observed: Observed, bytes: u64) -> Self {
        let is_it = |pool: &mut &FramePool| u64::from(pool.total_frames()) * PAGE_BYTES as u64 == bytes;
        let free = POOLS.with_borrow_mut(|pools| pools.pop_if(is_it));
        let frames = free.unwrap_or_else(|| FramePool::lazily(bytes as usize));
        Self { frames, observed }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The frames of tables that nobody uses.
        while self.frames.release_quarantined(u32::MAX) > 0 {}
        let usage = self.frames.usage();
        if usage.tables + usage.user + usage.pristine > 0 {
            return self.observed.violate(format!("memory is left of a boot that is over: {usage:?}"));
        }
        POOLS.with_borrow_mut(|pools| pools.push(self.frames));
    }
}

/// See this module.
pub(super) struct Machine {
    pub life: LifeId,
    pub personality: Personality,
    /// Nothing runs before it is booted.
    core: Option<SimulatedCore>,
    /// Behind the core, which has it write.
    pub region: Option<Attached>,
    /// What it keeps of programs.
    pub retention: Arc<Retention>,
    /// What its kernel keeps for programs.
    quota: Arc<Quota>,
    /// Behind the core, which uses them, and what is retained.
    events: Events,
    memory: Memory,
    /// Its clock, which begins when its kernel does.
    clock: Clock,
    is_off: Arc<AtomicBool>,
    /// It does nothing before then, ns.
    pub stopped_until_ns: u64,
    /// When it is looked whether something is due.
    pub alarm: Alarm,
}

impl Machine {
    /// One that was switched on.
    pub(super) fn new(
        life: LifeId,
        personality: Personality,
        observed: &Observed,
        memory_bytes: u64,
        (clock, region): (Clock, Option<Attached>),
    ) -> Self {
        let (is_off, retention) = (Arc::default(), Arc::new(Retention::new(personality.retention)));
        let memory = Memory::new(observed.clone(), memory_bytes);
        let quota = Arc::new(Quota::new(Store::new(memory.frames, retention.clone())));
        Self {
            life,
            personality,
            core: None,
            region,
            retention,
            quota,
            events: Events::new(),
            memory,
            clock,
            is_off,
            stopped_until_ns: 0,
            alarm: Alarm::default(),
        }
    }

    /// Its kernel runs from now on.
    pub(super) fn boot(&mut self, network: &Network, observed: &Observed, now_ns: u64) {
        let Personality { node, generation, pset, key, realtime_ns, .. } = self.personality.clone();
        let credentials = Credentials { identity: Identity { node, generation }, key };
        let neighbours = Neighbourhood { network: network.clone(), life: self.life };
        let connections = network.clone();
        let dialler = Dialler { network: network.clone(), life: self.life, pset };
        let is_off = Arc::clone(&self.is_off);
        let (frames, ras) = (self.memory.frames, self.events.0);
        let (retention, quota, life) = (Arc::clone(&self.retention), Arc::clone(&self.quota), self.life);
        let keeps_one = self.personality.retention == RetentionPolicy::One;
        let device = self.region.as_ref().map(|region| region.device);
        self.clock.reset(now_ns);
        observed.lock().running = Some(life);
        self.core.insert(SimulatedCore::new()).run(0, || {
            clock::set_boot_time(realtime_ns);
            let ship = Ship::new();
            let (shipping, dial, proof) = (ship.clone(), dialler.clone(), credentials.clone());
            let shipping = spawn(async move { shipping.keep_connected(dial, proof).await });
            let reaped = Arc::clone(&retention);
            let reaping = spawn_program(async move { reaped.reaper().run(frames).await });
            let retained = Arc::clone(&retention);
            let neighbours = Arc::new(neighbours);
            let staging = Staging::new(Arc::clone(&neighbours) as _, Arc::clone(&quota), &retention);
            let overlay_neighbours = Arc::clone(&neighbours) as _;
            let pmi = Pmi::new(node, neighbours, Arc::clone(&quota));
            let listening = spawn(pmi.clone().listen());
            let network = Arc::new(NoSockets);
            let (retention_of, quota_of) = (Arc::clone(&retention), Arc::clone(&quota));
            let region = device.and_then(|device| Region::new(device, frames));
            for region in region.iter().cloned() {
                let preparing = Arc::clone(&region);
                let tasks = [spawn(region.hear()).is_ok(), spawn(preparing.prepare()).is_ok()];
                debug_assert_eq!(tasks, [true; 2], "there are no other tasks");
            }
            let facts = NodeFacts::new(frames, (retention_of, quota_of), network, staging, region);
            let auxiliary = Auxiliary::new(&facts, memory_status(frames, &retained).total, Arc::default());
            let overlays = Overlays::new(node, overlay_neighbours, Arc::clone(&quota), auxiliary);
            let hearing = spawn_program(overlays.clone().listen());
            let table = ProcessTable::new(facts, pmi, overlays);
            let node = agent::Node {
                credentials,
                ship,
                ras,
                memory: move || memory_status(frames, &retained),
                power_off: move || is_off.store(true, Ordering::Relaxed),
                processes: Watched {
                    life,
                    observed: observed.clone(),
                    table,
                    frames,
                    retention,
                    keeps_one,
                    quota,
                    network: connections,
                    asked: Arc::default(),
                    region: device,
                },
            };
            let agent = spawn(agent::run(dialler, node));
            let tasks = [shipping.is_ok(), reaping.is_ok(), listening.is_ok(), hearing.is_ok(), agent.is_ok()];
            debug_assert_eq!(tasks, [true; 5], "there are no other tasks");
        });
    }

    /// Its kernel runs.
    pub(super) fn is_booted(&self) -> bool {
        self.core.is_some()
    }

    /// Whether so many bytes are more than there are for programs and for what they have the kernel keep.
    pub(super) fn lacks(&self, bytes: usize) -> bool {
        bytes.div_ceil(PAGE_BYTES) > self.memory.frames.available_frames() as usize
    }

    /// Frames that programs and their page tables have, and those of them that are retained.
    pub(super) fn frames_held(&self) -> (u64, u64) {
        frames_held(self.memory.frames, &self.retention)
    }

    /// What its kernel keeps for programs, bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.quota.taken()
    }

    /// Runs whatever is ready or due.
    pub(super) fn run(&mut self, now_ns: u64) {
        if let Some(core) = &mut self.core {
            self.memory.observed.lock().running = Some(self.life);
            core.run(self.clock.shows_ns(now_ns), || ());
        }
    }

    /// The engine of its region has done something.
    pub(super) fn engine_has_done_something(&self) {
        if let Some(core) = &self.core {
            core.interrupt_by_region();
        }
    }

    /// When it is due next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        Some(self.clock.when_ns(self.core.as_ref()?.deadline_ns()?))
    }

    /// An alarm that was planned is there: whether something is due.
    pub(super) fn rings(&mut self, now_ns: u64) -> bool {
        let due_ns = self.due_ns();
        self.alarm.rings(due_ns, now_ns)
    }

    /// Its kernel has switched it off.
    pub(super) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }
}

fn memory_status(frames: &FramePool, retention: &Retention) -> MemoryStatus {
    let usage = frames.usage();
    let bytes = |frames: u32| u64::from(frames) * PAGE_BYTES as u64;
    MemoryStatus {
        total: bytes(usage.total),
        kernel: bytes(usage.kernel),
        free: bytes(usage.free),
        retained: retention.bytes(),
    }
}
