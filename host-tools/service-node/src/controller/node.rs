//! One compute node: what it is doing and what is known of it.

mod table;

use std::time::Instant;

use coppice_api::node::{MemoryView, NodeState, NodeView};
use coppice_protocol::control::{MemoryStatus, NodeStatus};
use coppice_protocol::ids::{Generation, JobId, NodeId, PsetId};

pub(super) use self::table::Nodes;
use super::Config;
use super::holdings::Holdings;
use crate::database::NodeRow;
use crate::limits::{BOOT_ATTEMPTS_MAX, BOOT_RETRY_TIME_GIVEN_UP, BOOT_RETRY_TIME_MIN};

/// What a node is doing.
///
/// ```text
/// Waiting ──► Booting ──► Ready ◄──► Busy
///    ▲  ▲        │          │          │
///    │  └────────┴── its machine ended ┤        (several times in a row while booting: Failed,
///                                                 and from time to time Waiting again)
///    └── Stopping ◄── it is to be ended ┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No machine; it is booted as soon as there is room.
    Waiting,
    /// The machine runs, the node has not called yet.
    Booting {
        /// When it counts as a failed boot.
        deadline: Instant,
    },
    /// Takes a job.
    Ready,
    /// Belongs to a job.
    Busy(JobId),
    /// The machine was told to end; its end has not been seen yet.
    Stopping,
    /// Given up.
    Failed,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) pset: PsetId,
    phase: Phase,
    pub(super) generation: Generation,
    /// Boots in a row that failed.
    failures: u32,
    /// All that failed since the service node started.
    boots_failed: u64,
    /// When it may be booted again after that.
    not_before: Option<Instant>,
    pub(super) pid: Option<u32>,
    pub(super) status: Option<NodeStatus>,
    /// Its memory when it was last heard of. What it had when it got ready, and jobs can have, is in the status.
    pub(super) memory: Option<MemoryStatus>,
    /// What it remembers of programs.
    pub(super) holdings: Holdings,
}

impl Node {
    pub(super) fn new(id: NodeId, pset: PsetId, row: NodeRow) -> Self {
        Self {
            id,
            pset,
            phase: Phase::Waiting,
            generation: Generation(row.generation),
            failures: 0,
            boots_failed: 0,
            not_before: None,
            pid: None,
            memory: row.status.as_ref().map(|status| status.memory),
            status: row.status,
            holdings: Holdings::new(row.last_program, row.retained),
        }
    }

    /// What it is doing.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The same as users see it.
    pub(super) fn state(&self) -> NodeState {
        match self.phase {
            Phase::Waiting => NodeState::Waiting,
            Phase::Booting { .. } => NodeState::Booting,
            Phase::Ready => NodeState::Ready,
            Phase::Busy(_) => NodeState::Busy,
            Phase::Stopping => NodeState::Stopping,
            Phase::Failed => NodeState::Failed,
        }
    }

    /// Boots that failed since the service node started.
    pub(super) fn boots_failed(&self) -> u64 {
        self.boots_failed
    }

    /// Whether it takes jobs or has one.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Busy(_))
    }

    /// Whether it may be booted at this time.
    pub(super) fn may_boot(&self, now: Instant) -> bool {
        self.phase == Phase::Waiting && self.not_before.is_none_or(|time| time <= now)
    }

    /// Its boot failed once more.
    fn boot_failed(&mut self, now: Instant) {
        self.failures += 1;
        self.boots_failed += 1;
        let wait = match self.failures {
            failures if failures >= BOOT_ATTEMPTS_MAX => BOOT_RETRY_TIME_GIVEN_UP,
            failures => BOOT_RETRY_TIME_MIN * 4u32.pow(failures - 1),
        };
        self.not_before = Some(now + wait);
    }

    /// Whether it has a machine, as far as is known.
    pub(super) fn has_machine(&self) -> bool {
        !matches!(self.phase, Phase::Waiting | Phase::Failed)
    }

    /// The job it belongs to.
    pub(super) fn job(&self) -> Option<JobId> {
        match self.phase {
            Phase::Busy(job) => Some(job),
            _ => None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Booting { deadline } => Some(deadline),
            Phase::Waiting | Phase::Failed => self.not_before,
            _ => None,
        }
    }

    pub(super) fn view(&self, config: &Config) -> NodeView {
        NodeView {
            node: self.id.0,
            pset: self.pset.0,
            state: self.state(),
            job: self.job().map(|job| job.0),
            generation: self.generation.0,
            address: self.id.address(),
            kernel: self.status.as_ref().map(|status| status.kernel.clone()),
            boot_ns: self.status.as_ref().map(|status| status.boot_ns),
            boot_idle_ns: self.status.as_ref().map(|status| status.boot_idle_ns),
            cores: self.status.as_ref().map(|status| status.cores),
            memory: self.memory.map(|memory| MemoryView {
                total_bytes: memory.total,
                kernel_bytes: memory.kernel,
                free_bytes: memory.free,
            }),
            region_bytes: config.region_bytes,
            last_program: self.holdings.last.clone(),
            retained: if self.is_up() { self.holdings.views() } else { Vec::new() },
            pid: self.pid,
            console: config.paths.console(self.id.0),
        }
    }
}
