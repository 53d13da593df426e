//! An I/O node: its machine, and what the world knows of its process.

use std::collections::{BTreeMap, VecDeque};

use coppice_io_node::machine::{LineId, Machine};
use coppice_protocol::ids::NodeId;
use coppice_protocol::pset::ToPset;
use coppice_service_node::plant::Incarnation;

use super::alarm::Alarm;
use super::clock::Clock;
use super::disk::Disk;
use super::network::ConnectionId;
use super::regions::Working;

/// See this module.
#[derive(Debug)]
pub(super) struct IoNode {
    pub incarnation: Incarnation,
    pub machine: Machine,
    pub disk: Disk,
    /// What is done with regions, of one node each.
    pub regions: BTreeMap<NodeId, Working>,
    /// It was told who it is.
    pub is_configured: bool,
    /// Orders that wait until the service node has taken what there is to say.
    pub orders: VecDeque<ToPset>,
    pub lines: BTreeMap<LineId, ConnectionId>,
    pub connections: BTreeMap<ConnectionId, LineId>,
    /// When what was last said arrives at the service node, ns.
    pub said_ns: u64,
    /// Messages in the pipe to the service node.
    pub in_pipe: usize,
    /// It does nothing before then, ns.
    pub stopped_until_ns: u64,
    /// When it is looked whether something is due.
    pub alarm: Alarm,
    /// Its clock.
    pub clock: Clock,
}

/// Messages that the pipe to the service node holds.
pub(super) const PIPE_MESSAGES_MAX: usize = 64;

impl IoNode {
    pub(super) fn new(incarnation: Incarnation, clock: Clock, disk: Disk) -> Self {
        Self {
            incarnation,
            machine: Machine::default(),
            disk,
            regions: BTreeMap::new(),
            is_configured: false,
            orders: VecDeque::new(),
            lines: BTreeMap::new(),
            connections: BTreeMap::new(),
            said_ns: 0,
            in_pipe: 0,
            stopped_until_ns: 0,
            alarm: Alarm::default(),
            clock,
        }
    }

    /// When it is due next, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.machine.deadline().map(|shown_ns| self.clock.when_ns(shown_ns))
    }
}
