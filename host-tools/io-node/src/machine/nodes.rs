//! The nodes of the pset: which boot of each may connect, and which of its two connections it has.
//!
//! A node is *ready* from the moment it has both connections and has said so, until it is lost. A lost boot is
//! forgotten with its key: its node comes back as another generation or not at all.

use std::collections::BTreeMap;

use coppice_protocol::control::{MemoryStatus, NodeStatus};
use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Identity};
use coppice_protocol::ship::{Connection, Replies};

use super::lines::LineId;

/// How much more or less memory of a node must be free for it to be worth telling, bytes.
const MEMORY_NEWS_BYTES: u64 = 64 * 1024;

/// One boot of a node.
#[derive(Debug)]
struct Node {
    generation: Generation,
    key: NodeKey,
    control: Option<LineId>,
    ship: Option<LineId>,
    /// What it asked for, and was answered: more than a connection knows.
    replies: Replies,
    /// What the node said of itself, once it did.
    status: Option<NodeStatus>,
    /// The service node was told that the node is ready.
    ready: bool,
    /// Connections lost so far: tells a new loss from one that is being waited for.
    losses: u64,
    /// Why the last of them was.
    reason: String,
}

impl Node {
    fn line(&mut self, channel: Channel) -> &mut Option<LineId> {
        match channel {
            Channel::Control => &mut self.control,
            Channel::Ship => &mut self.ship,
        }
    }

    fn lines(&self) -> impl Iterator<Item = LineId> + use<> {
        [self.control, self.ship].into_iter().flatten()
    }
}

/// A connection that a ready node lost, to be asked about again after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loss {
    /// Whose loss it is.
    pub identity: Identity,
    number: u64,
}

/// What follows from a node's new connection.
#[derive(Debug)]
pub(super) struct Attached {
    /// The one whose place it took, to be ended.
    pub earlier: Option<LineId>,
    /// For shipping: which of the boot's connections it is.
    pub connection: Option<Connection>,
}

/// What a node's "ready" means.
#[derive(Debug)]
pub(super) enum Readiness {
    /// Not yet: a connection is missing, or the message.
    Not,
    /// From now on.
    Now(NodeStatus),
    /// As before: only its connection is new.
    Still,
}

/// All nodes that may connect.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    table: BTreeMap<NodeId, Box<Node>>,
}

impl Nodes {
    fn get(&self, identity: Identity) -> Option<&Node> {
        let node = self.table.get(&identity.node).map(Box::as_ref);
        node.filter(|node| node.generation == identity.generation)
    }

    fn get_mut(&mut self, identity: Identity) -> Option<&mut Node> {
        let node = self.table.get_mut(&identity.node).map(Box::as_mut);
        node.filter(|node| node.generation == identity.generation)
    }

    /// A new boot of a node may connect. Gives the connections of an earlier one, to be cut.
    pub(super) fn add(&mut self, identity: Identity, key: NodeKey) -> Vec<LineId> {
        let earlier = self.remove(identity.node);
        let Identity { node, generation } = identity;
        let entry = Node {
            generation,
            key,
            control: None,
            ship: None,
            replies: Replies::default(),
            status: None,
            ready: false,
            losses: 0,
            reason: String::new(),
        };
        self.table.insert(node, Box::new(entry));
        earlier
    }

    /// A node is gone, and its key is forgotten. Gives its connections, to be cut.
    pub(super) fn remove(&mut self, node: NodeId) -> Vec<LineId> {
        self.table.remove(&node).iter().flat_map(|node| node.lines()).collect()
    }

    /// The key of exactly that boot.
    #[must_use]
    pub(super) fn key(&self, identity: Identity) -> Option<NodeKey> {
        self.get(identity).map(|node| node.key.clone())
    }

    /// What that boot asked for, and the connection on which it does.
    pub(super) fn ship(&mut self, identity: Identity) -> Option<(&mut Replies, Option<LineId>)> {
        self.get_mut(identity).map(|node| (&mut node.replies, node.ship))
    }

    /// The shipping connection of a node.
    pub(super) fn ship_of(&self, node: NodeId) -> Option<LineId> {
        self.table.get(&node).and_then(|node| node.ship)
    }

    /// An authenticated connection. It takes the place of an earlier one for the same purpose. `None` if that boot is
    /// not known any more.
    pub(super) fn attach(&mut self, identity: Identity, channel: Channel, line: LineId) -> Option<Attached> {
        let node = self.get_mut(identity)?;
        let earlier = node.line(channel).replace(line);
        let connection = (channel == Channel::Ship).then(|| node.replies.connected());
        Some(Attached { earlier, connection })
    }

    /// A connection has ended. Gives the loss to wait for if it was in use by a ready node.
    pub(super) fn detach(
        &mut self,
        identity: Identity,
        channel: Channel,
        line: LineId,
        reason: String,
    ) -> Option<Loss> {
        let node = self.get_mut(identity)?;
        node.line(channel).take_if(|current| *current == line)?;
        node.losses += 1;
        node.reason = reason;
        node.ready.then_some(Loss { identity, number: node.losses })
    }

    /// Is a connection still missing after that loss, and why? A later loss is waited for by itself.
    pub(super) fn is_missing(&self, loss: Loss) -> Option<String> {
        let node = self.get(loss.identity)?;
        let is_missing = node.losses == loss.number && (node.control.is_none() || node.ship.is_none());
        is_missing.then(|| node.reason.clone())
    }

    /// A node said what it is.
    pub(super) fn set_status(&mut self, identity: Identity, status: NodeStatus) {
        if let Some(node) = self.get_mut(identity) {
            node.status = Some(status);
        }
    }

    /// A node said how its memory is. Returns whether the service node is to be told: the node is ready, and what is
    /// free is not what it was by more than a little.
    pub(super) fn set_memory(&mut self, identity: Identity, memory: MemoryStatus) -> bool {
        let Some(node) = self.get_mut(identity).filter(|node| node.ready) else { return false };
        let Some(status) = &mut node.status else { return false };
        let is_news = status.memory.free.abs_diff(memory.free) >= MEMORY_NEWS_BYTES;
        if is_news {
            status.memory = memory;
        }
        is_news
    }

    /// Asks whether a node is ready, which it is from then on.
    pub(super) fn check_ready(&mut self, identity: Identity) -> Readiness {
        let Some(node) = self.get_mut(identity) else { return Readiness::Not };
        match &node.status {
            Some(status) if node.control.is_some() && node.ship.is_some() => {
                if std::mem::replace(&mut node.ready, true) { Readiness::Still } else { Readiness::Now(status.clone()) }
            }
            _ => Readiness::Not,
        }
    }

    /// A node does not answer, or did not come back: forgets it, if it was ready before, and gives its connections, to
    /// be cut.
    pub(super) fn lose(&mut self, identity: Identity) -> Option<Vec<LineId>> {
        let is_ready = self.get(identity).is_some_and(|node| node.ready);
        is_ready.then(|| self.remove(identity.node))
    }

    /// The boot and the control connection of a ready node.
    #[must_use]
    pub(super) fn control(&self, node: NodeId) -> Option<(Generation, LineId)> {
        let node = self.table.get(&node).filter(|node| node.ready)?;
        Some((node.generation, node.control?))
    }

    /// The control connection of a node, ready or not.
    pub(super) fn control_line(&self, node: NodeId) -> Option<LineId> {
        self.table.get(&node).and_then(|node| node.control)
    }

    /// Is the node ready?
    #[must_use]
    pub(super) fn is_ready(&self, node: NodeId) -> bool {
        self.table.get(&node).is_some_and(|node| node.ready)
    }

    /// All control connections.
    #[must_use]
    pub(super) fn controls(&self) -> Vec<LineId> {
        self.table.values().filter_map(|node| node.control).collect()
    }
}
