//! All nodes, sorted by what they are doing and by when something is due for them, so that nobody who wants to know
//! either looks at all of them.

use std::collections::BTreeSet;
use std::time::Instant;

use coppice_api::node::NodeState;
use coppice_protocol::ids::NodeId;

use super::{Node, Phase};
use crate::controller::walks::walked;
use crate::limits::BOOT_ATTEMPTS_MAX;

/// The nodes of a cluster. Their phases and deadlines change here alone.
#[derive(Debug, Default)]
pub(in crate::controller) struct Nodes {
    all: Vec<Node>,
    waiting: BTreeSet<NodeId>,
    booting: BTreeSet<NodeId>,
    ready: BTreeSet<NodeId>,
    busy: BTreeSet<NodeId>,
    stopping: BTreeSet<NodeId>,
    failed: BTreeSet<NodeId>,
    deadlines: BTreeSet<(Instant, NodeId)>,
}

impl Nodes {
    /// Nodes as they were recorded, in order of their numbers from 0.
    pub(in crate::controller) fn new(all: Vec<Node>) -> Self {
        let mut nodes = Self::default();
        for node in &all {
            nodes.set_of(node.phase).insert(node.id);
        }
        Self { all, ..nodes }
    }

    pub(in crate::controller) fn len(&self) -> usize {
        self.all.len()
    }

    pub(in crate::controller) fn get(&self, node: NodeId) -> Option<&Node> {
        self.all.get(node.0 as usize)
    }

    pub(in crate::controller) fn get_mut(&mut self, node: NodeId) -> Option<&mut Node> {
        self.all.get_mut(node.0 as usize)
    }

    pub(in crate::controller) fn iter(&self) -> impl Iterator<Item = &Node> {
        walked(self.all.iter())
    }

    pub(in crate::controller) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        walked(self.all.iter_mut())
    }

    pub(in crate::controller) fn waiting(&self) -> &BTreeSet<NodeId> {
        &self.waiting
    }

    pub(in crate::controller) fn booting(&self) -> &BTreeSet<NodeId> {
        &self.booting
    }

    pub(in crate::controller) fn ready(&self) -> &BTreeSet<NodeId> {
        &self.ready
    }

    pub(in crate::controller) fn failed(&self) -> &BTreeSet<NodeId> {
        &self.failed
    }

    /// How many do what.
    pub(in crate::controller) fn by_state(&self) -> impl Iterator<Item = (NodeState, usize)> {
        let states = [
            (NodeState::Waiting, &self.waiting),
            (NodeState::Booting, &self.booting),
            (NodeState::Ready, &self.ready),
            (NodeState::Busy, &self.busy),
            (NodeState::Stopping, &self.stopping),
            (NodeState::Failed, &self.failed),
        ];
        states.into_iter().map(|(state, nodes)| (state, nodes.len()))
    }

    /// How many take jobs or have one.
    pub(in crate::controller) fn up(&self) -> usize {
        self.ready.len() + self.busy.len()
    }

    /// Whether any has a machine, as far as is known.
    pub(in crate::controller) fn have_machines(&self) -> bool {
        self.waiting.len() + self.failed.len() < self.all.len()
    }

    /// When something is due for the first of them.
    pub(in crate::controller) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Those for which something is due, by their numbers.
    pub(in crate::controller) fn due(&self, now: Instant) -> BTreeSet<NodeId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, node)| *node).collect()
    }

    /// A node does something else from now on. One that was given up while its machine was being ended stays given up.
    pub(in crate::controller) fn set_phase(&mut self, node: NodeId, phase: Phase) {
        self.change(node, |node| {
            let is_given_up = phase == Phase::Waiting && node.failures >= BOOT_ATTEMPTS_MAX;
            node.phase = if is_given_up { Phase::Failed } else { phase };
        });
    }

    /// A node's boot failed once more. Returns how many in a row did.
    pub(in crate::controller) fn boot_failed(&mut self, node: NodeId, now: Instant) -> u32 {
        self.change(node, |node| node.boot_failed(now));
        self.get(node).map_or(0, |node| node.failures)
    }

    /// Boots of a node that failed count no more.
    pub(in crate::controller) fn forgive(&mut self, node: NodeId) {
        self.change(node, |node| (node.failures, node.not_before) = (0, None));
    }

    /// A node has waited long enough after its failed boots.
    pub(in crate::controller) fn wait_no_more(&mut self, node: NodeId) {
        self.change(node, |node| node.not_before = None);
    }

    /// A node that was given up is tried once more.
    pub(in crate::controller) fn try_again(&mut self, node: NodeId) {
        self.change(node, |node| (node.failures, node.phase) = (BOOT_ATTEMPTS_MAX - 1, Phase::Waiting));
    }

    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let Some(node) = self.all.get_mut(id.0 as usize) else { return };
        let before = (node.phase, node.deadline());
        change(node);
        let after = (node.phase, node.deadline());
        self.set_of(before.0).remove(&id);
        self.set_of(after.0).insert(id);
        if let Some(deadline) = before.1 {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(deadline) = after.1 {
            self.deadlines.insert((deadline, id));
        }
    }

    fn set_of(&mut self, phase: Phase) -> &mut BTreeSet<NodeId> {
        match phase {
            Phase::Waiting => &mut self.waiting,
            Phase::Booting { .. } => &mut self.booting,
            Phase::Ready => &mut self.ready,
            Phase::Busy(_) => &mut self.busy,
            Phase::Stopping => &mut self.stopping,
            Phase::Failed => &mut self.failed,
        }
    }
}
