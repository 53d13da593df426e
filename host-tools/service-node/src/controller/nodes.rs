//! Booting nodes, and noticing that they are gone.

use coppice_api::cluster::ClusterState;
use coppice_protocol::control::{MemoryStatus, NodeStatus};
use coppice_protocol::ids::{Generation, MacAddress, NETWORK_PREFIX, NodeId};
use coppice_protocol::personality::Personality;
use coppice_protocol::pset::ToPset;
use coppice_protocol::ras::{RasKind, Severity};

use super::holdings::Holdings;
use super::node::{Node, Phase};
use super::{Controller, Now, ras};
use crate::limits::{BOOT_ATTEMPTS_MAX, BOOT_RETRY_TIME_GIVEN_UP, BOOT_TIME_MAX};
use crate::plant::{LastWords, MTU, MachineEvent, Plant};
use crate::records::What;

/// Most verbose level that nodes log on their consoles, as `log::LevelFilter` counts: informative.
const CONSOLE_LOG_LEVEL: u8 = 3;

impl<P: Plant> Controller<P> {
    /// Boots nodes that wait, as many at a time as the host takes.
    pub(super) fn boot_nodes(&mut self, now: Now) {
        // A boot that is not counted before it begins could be taken for another.
        let Some(accelerator) = self.accelerator.filter(|_| self.records.check().is_ok()) else { return };
        let room = self.config.boots_max.saturating_sub(self.nodes.booting().len());
        let may_boot = |node: &&NodeId| {
            let node = self.nodes.get(**node).filter(|node| node.may_boot(now.instant));
            let pset = node.and_then(|node| self.psets.get(node.pset.0 as usize));
            pset.is_some_and(|pset| pset.helper.is_listening())
        };
        let waiting: Vec<NodeId> = self.nodes.waiting().iter().filter(may_boot).copied().take(room).collect();
        for node in waiting {
            match self.prepare_boot(node, now) {
                Ok(personality) => self.plant.boot(&personality, accelerator),
                Err(reason) => self.boot_failed(node, &reason, now),
            }
        }
    }

    /// Counts the boot, makes its secrets, and tells the I/O node whom to expect.
    fn prepare_boot(&mut self, id: NodeId, now: Now) -> Result<Personality, String> {
        let generation = self.records.storage_mut().next_generation(id).map_err(|error| error.to_string())?;
        let secrets = self.plant.secrets()?;
        self.set_phase(id, Phase::Booting { deadline: now.instant + BOOT_TIME_MAX });
        let Some(node) = self.nodes.get_mut(id) else { return Err(format!("there is no node {id}")) };
        node.generation = generation;
        // Whatever an earlier boot held.
        node.holdings = Holdings::default();
        self.plant.tell(node.pset, &ToPset::AddNode { node: id, generation, key: secrets.key.clone() });
        Ok(Personality {
            node: id,
            generation,
            pset: node.pset,
            address: id.address(),
            prefix: NETWORK_PREFIX,
            mac: MacAddress::of(id.address()),
            mtu: MTU,
            io_node: node.pset.address(),
            key: secrets.key,
            seed: secrets.seed,
            realtime_ns: now.realtime_ns,
            log_level: CONSOLE_LOG_LEVEL,
            retention: self.config.retention,
            freeze_every_ns: self.config.freeze_every_ns,
        })
    }

    pub(super) fn machine_event(&mut self, id: NodeId, generation: Generation, event: MachineEvent, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.generation != generation {
            return;
        }
        match event {
            MachineEvent::Started { pid } => node.pid = Some(pid),
            MachineEvent::Ended { reason, last_words } => {
                node.pid = None;
                let (phase, job) = (node.phase(), node.job());
                let text = match last_words {
                    LastWords::None => reason,
                    LastWords::Tail(tail) => format!("{reason}; its console ends: {tail}"),
                    LastWords::Panic(cause) => {
                        self.record_ras(Some(id), &ras(Severity::Fatal, RasKind::KernelPanic, job, cause.clone()), now);
                        format!("{reason}; kernel panic: {cause}")
                    }
                };
                self.plant.forget_personality(id);
                match phase {
                    Phase::Booting { .. } => self.boot_failed(id, &text, now),
                    Phase::Ready | Phase::Busy(_) => self.lose_node(id, &text, Phase::Waiting, now),
                    Phase::Stopping => {
                        self.set_phase(id, Phase::Waiting);
                        self.end_impossible_jobs(now);
                    }
                    Phase::Waiting | Phase::Failed => {}
                }
            }
        }
        self.changed = true;
    }

    /// The node has authenticated and takes jobs.
    pub(super) fn node_ready(&mut self, id: NodeId, generation: Generation, status: NodeStatus, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.generation != generation || !matches!(node.phase(), Phase::Booting { .. }) {
            tracing::warn!(node = id.0, generation = generation.0, "ready, but not expected");
            return;
        }
        node.status = Some(status.clone());
        node.memory = Some(status.memory);
        self.nodes.forgive(id);
        self.set_phase(id, Phase::Ready);
        self.plant.forget_personality(id);
        let text = format!("node {id} is ready, boot {generation}, kernel {}", status.kernel);
        self.records.add(What::NodeReady(id, status), now);
        self.record_ras(Some(id), &ras(Severity::Info, RasKind::NodeReady, None, text), now);
    }

    /// A ready node said how its memory is now.
    pub(super) fn node_memory(&mut self, id: NodeId, generation: Generation, memory: MemoryStatus) {
        if let Some(node) = self.nodes.get_mut(id)
            && node.generation == generation
            && node.is_up()
        {
            node.memory = Some(memory);
            self.changed = true;
        }
    }

    /// The I/O node cannot reach a node any more.
    pub(super) fn node_unreachable(&mut self, id: NodeId, generation: Generation, reason: &str, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if node.generation == generation && node.is_up() {
            self.lose_node(id, reason, Phase::Stopping, now);
            self.plant.kill_machine(id);
        }
    }

    /// Ends a node for a reason that lies elsewhere; it is booted again when that is mended.
    pub(super) fn end_node(&mut self, id: NodeId, reason: &str, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if !node.has_machine() || node.phase() == Phase::Stopping {
            return;
        }
        let job = node.job();
        self.set_phase(id, Phase::Stopping);
        self.plant.kill_machine(id);
        self.node_gone(id, now);
        if let Some(job) = job {
            self.ranks_lost(job, id, reason, now);
        }
    }

    /// Somebody wants a node booted anew.
    pub(super) fn reboot_node(&mut self, id: NodeId, now: Now) {
        self.nodes.forgive(id);
        let Some(node) = self.nodes.get(id) else { return };
        if node.phase() == Phase::Failed {
            self.set_phase(id, Phase::Waiting);
        } else {
            self.end_node(id, &format!("node {id} was rebooted on request"), now);
        }
    }

    /// A node is gone by itself: record it, end what ran on it.
    pub(super) fn lose_node(&mut self, id: NodeId, reason: &str, next: Phase, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let (job, why_cut_off) = (node.job(), self.links.why_cut_off(id, node.pset));
        let text = format!("node {id} was lost: {reason}{why_cut_off}");
        self.set_phase(id, next);
        self.record_ras(Some(id), &ras(Severity::Fatal, RasKind::NodeLost, job, text.clone()), now);
        self.node_gone(id, now);
        if let Some(job) = job {
            self.ranks_lost(job, id, &text, now);
        }
    }

    /// A boot came to nothing: once more after a while, or, after several, only from time to time.
    fn boot_failed(&mut self, id: NodeId, reason: &str, now: Now) {
        let failures = self.nodes.boot_failed(id, now.instant);
        let Some(node) = self.nodes.get(id) else { return };
        let pset = node.pset;
        let next = match node.phase() {
            // The machine is still there and its end will be seen.
            Phase::Stopping => Phase::Stopping,
            _ if failures >= BOOT_ATTEMPTS_MAX => Phase::Failed,
            _ => Phase::Waiting,
        };
        self.set_phase(id, next);
        self.node_gone(id, now);
        let given_up = failures >= BOOT_ATTEMPTS_MAX;
        let reason = format!("{reason}{}", self.links.why_cut_off(id, pset));
        let mut text = format!("node {id} did not get ready, attempt {failures} of {BOOT_ATTEMPTS_MAX}: {reason}");
        if given_up && self.state == ClusterState::Up {
            let seconds = BOOT_RETRY_TIME_GIVEN_UP.as_secs();
            text = format!("node {id} did not get ready and is tried again every {seconds} s: {reason}");
        }
        self.record_ras(Some(id), &ras(Severity::Error, RasKind::NodeLost, None, text.clone()), now);
        if given_up && self.state == ClusterState::Starting {
            self.fail(text);
        }
        if next == Phase::Failed {
            self.end_impossible_jobs(now);
        }
    }

    /// This boot of a node is over: nobody is to hear from it any more, and what it held is gone.
    fn node_gone(&mut self, id: NodeId, now: Now) {
        let Some(node) = self.nodes.get(id) else { return };
        self.plant.tell(node.pset, &ToPset::RemoveNode { node: id });
        self.void_holdings(id, now);
        self.inspections.node_lost(id);
    }

    pub(super) fn set_phase(&mut self, id: NodeId, phase: Phase) {
        self.nodes.set_phase(id, phase);
        self.changed = true;
    }

    pub(super) fn advance_nodes(&mut self, now: Now) {
        for node in self.nodes.due(now.instant) {
            match self.nodes.get(node).map(Node::phase) {
                Some(Phase::Booting { .. }) => {
                    self.set_phase(node, Phase::Stopping);
                    self.plant.kill_machine(node);
                    let reason = format!("it took longer than {} s; see its console", BOOT_TIME_MAX.as_secs());
                    self.boot_failed(node, &reason, now);
                }
                phase => self.wait_no_more(node, phase == Some(Phase::Failed)),
            }
        }
    }

    /// A node whose boots failed may be booted again; one that was given up, once.
    fn wait_no_more(&mut self, id: NodeId, was_given_up: bool) {
        self.nodes.wait_no_more(id);
        if was_given_up && self.state == ClusterState::Up {
            self.nodes.try_again(id);
            self.changed = true;
        }
    }
}
