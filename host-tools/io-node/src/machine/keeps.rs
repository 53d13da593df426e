//! Files that nodes of the pset are to keep: nodes that come back are told again, until the service node says that the
//! transfer is over.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::control::ToNode;
use coppice_protocol::ids::NodeId;
use coppice_protocol::keep::{Keep, KeepFile, KeepProgress, Kept, KeptTransfer};
use coppice_protocol::pset::FromPset;
use coppice_protocol::session::Identity;

use super::Machine;
use super::effect::Effect;
use crate::limits::KEEPS_MAX;

/// All of them, at most [`KEEPS_MAX`], by the numbers of their requests.
#[derive(Debug, Default)]
pub(super) struct Keeps {
    table: BTreeMap<u64, Keeping>,
}

#[derive(Debug)]
struct Keeping {
    transfer: KeptTransfer,
    nodes: BTreeSet<NodeId>,
    /// Nodes that have not answered.
    pending: BTreeSet<NodeId>,
}

impl Keeps {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.table.len()
    }
}

impl Machine {
    /// Has nodes keep a file; it is sent from here if its home is.
    pub(super) fn keep(&mut self, order: KeepFile) {
        let request = order.transfer.request;
        if self.keeps.table.contains_key(&request) {
            return tracing::error!(request, "a file was to be kept twice");
        }
        if self.keeps.table.len() >= KEEPS_MAX {
            let reason = format!("the pset has {KEEPS_MAX} other files on their way to be kept; try again later");
            return self.outbox.push(FromPset::KeepFailed { request, reason });
        }
        let nodes: BTreeSet<NodeId> = order.nodes.iter().copied().collect();
        let keeping = Keeping { transfer: order.transfer.clone(), nodes: nodes.clone(), pending: nodes.clone() };
        self.keeps.table.insert(request, keeping);
        self.effects.push(Effect::Keep(Box::new(order)));
        nodes.into_iter().for_each(|node| self.tell_keep(request, node));
    }

    /// Tells a node what it is to keep. One without a connection is told when it comes back, or is lost.
    fn tell_keep(&mut self, request: u64, node: NodeId) {
        let Some(keeping) = self.keeps.table.get(&request) else { return };
        let Some((generation, _)) = self.nodes.control(node) else { return };
        let order = Keep { generation, node, transfer: keeping.transfer.clone() };
        self.send_control(node, &ToNode::Keep(order));
    }

    /// A node is back: what it was told may be lost. If it is not, it answers as it did.
    pub(super) fn tell_keeps_again(&mut self, node: NodeId) {
        let of_node = self.keeps.table.iter().filter(|(_, keeping)| keeping.pending.contains(&node));
        let requests: Vec<u64> = of_node.map(|(request, _)| *request).collect();
        requests.into_iter().for_each(|request| self.tell_keep(request, node));
    }

    /// A node has a file, or will not have it.
    pub(super) fn kept(&mut self, Identity { node, .. }: Identity, answer: Kept) {
        if let Some(keeping) = self.keeps.table.get_mut(&answer.request) {
            keeping.pending.remove(&node);
        }
        self.outbox.push(FromPset::Kept { node, answer });
    }

    /// A file is on its way. That is said if the service node has taken everything else, and not kept for later.
    pub fn keeping(&mut self, progress: KeepProgress) {
        if self.outbox.is_empty() && self.keeps.table.contains_key(&progress.request) {
            self.outbox.push(FromPset::Keeping(progress));
        }
    }

    /// The file of a request cannot be sent, for that reason.
    pub fn keep_failed(&mut self, request: u64, reason: String) {
        if self.keeps.table.contains_key(&request) {
            self.outbox.push(FromPset::KeepFailed { request, reason });
        }
    }

    /// The transfer of a file is over, or given up: nodes leave it.
    pub(super) fn end_keep(&mut self, request: u64) {
        let Some(Keeping { nodes, .. }) = self.keeps.table.remove(&request) else { return };
        self.effects.push(Effect::EndKeep(request));
        nodes.into_iter().for_each(|node| self.send_control(node, &ToNode::EndKeep { request }));
    }
}
