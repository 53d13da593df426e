//! A node: the kernel's agent and function shipping, on an executor of its own.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coppice_core::agent;
use coppice_core::executor::{SimulatedCore, spawn};
use coppice_core::net::Credentials;
use coppice_core::ras::RasQueue;
use coppice_core::ship::Ship;
use coppice_protocol::control::MemoryStatus;
use coppice_protocol::ids::NodeId;
use coppice_protocol::personality::Personality;
use coppice_protocol::session::Identity;

use super::network::Network;
use super::process::{Observed, Scripted};
use super::wire::Dialler;

/// A boot of a node; no two of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LifeId {
    /// The node.
    pub node: NodeId,
    /// Boots of all nodes before it.
    pub number: u64,
}

/// What nodes say of their memory, bytes.
pub(super) const MEMORY_BYTES: u64 = 64 << 20;

std::thread_local! {
    /// Queues of boots that are over, for others: a node has its own for ever.
    static QUEUES: RefCell<Vec<&'static RasQueue>> = const { RefCell::new(Vec::new()) };
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

/// See this module.
pub(super) struct Machine {
    pub life: LifeId,
    pub personality: Personality,
    /// Nothing runs before it is booted.
    core: Option<SimulatedCore>,
    /// Behind the core, which uses it.
    events: Events,
    /// Its clock began then, ns.
    booted_ns: u64,
    is_off: Arc<AtomicBool>,
    /// It does nothing before then, ns.
    pub stopped_until_ns: u64,
    /// The time at which it is known to be due, ns.
    pub planned_ns: Option<u64>,
}

impl Machine {
    /// One that was switched on.
    pub(super) fn new(life: LifeId, personality: Personality) -> Self {
        let is_off = Arc::default();
        Self {
            life,
            personality,
            core: None,
            events: Events::new(),
            booted_ns: 0,
            is_off,
            stopped_until_ns: 0,
            planned_ns: None,
        }
    }

    /// Its kernel runs from now on.
    pub(super) fn boot(&mut self, network: &Network, observed: &Observed, now_ns: u64) {
        let Personality { node, generation, pset, key, .. } = self.personality.clone();
        let credentials = Credentials { identity: Identity { node, generation }, key };
        let dialler = Dialler { network: network.clone(), life: self.life, pset };
        let processes = Scripted::new(self.life, node, observed.clone());
        let is_off = Arc::clone(&self.is_off);
        let memory =
            MemoryStatus { total: MEMORY_BYTES, kernel: MEMORY_BYTES / 8, free: MEMORY_BYTES / 2, retained: 0 };
        let ras = self.events.0;
        self.booted_ns = now_ns;
        self.core.insert(SimulatedCore::new()).run(0, || {
            let ship = Ship::new();
            let (shipping, dial, proof) = (ship.clone(), dialler.clone(), credentials.clone());
            let shipping = spawn(async move { shipping.keep_connected(dial, proof).await });
            let node = agent::Node {
                credentials,
                ship,
                ras,
                memory: move || memory,
                power_off: move || is_off.store(true, Ordering::Relaxed),
                processes,
            };
            let agent = spawn(agent::run(dialler, node));
            debug_assert!(shipping.is_ok() && agent.is_ok(), "there are no other tasks");
        });
    }

    /// Runs whatever is ready or due.
    pub(super) fn run(&mut self, now_ns: u64) {
        if let Some(core) = &mut self.core {
            core.run(now_ns - self.booted_ns, || ());
        }
    }

    /// When it is due next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        Some(self.core.as_ref()?.deadline_ns()?.saturating_add(self.booted_ns))
    }

    /// Its kernel has switched it off.
    pub(super) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }
}
