//! The nodes of the pset: which boot of each may connect, and which of its two connections it has.
//!
//! A node is *ready* from the moment it has both connections and has said so, until it is lost. A lost boot is
//! forgotten with its key: its node comes back as another generation or not at all.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use coppice_protocol::control::{MemoryStatus, NodeStatus};
use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Identity};
use coppice_protocol::ship::{Connection, Heard, Replies, Reply, RequestId};
use tokio::sync::Notify;

use crate::line::Line;

/// What a boot of a node asked for, and was answered: more than a connection knows.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    replies: RefCell<Replies>,
    answered: Notify,
}

impl Answers {
    /// As [`Replies::connected`].
    pub(crate) fn connected(&self) -> Connection {
        self.replies.borrow_mut().connected()
    }

    /// As [`Replies::hear`].
    pub(crate) fn hear(&self, connection: Connection, id: RequestId, changes: bool) -> Heard {
        self.replies.borrow_mut().hear(connection, id, changes)
    }

    /// As [`Replies::answered`].
    #[must_use]
    pub(crate) fn answered(&self, id: RequestId, reply: &Reply, bulk: &[u8]) -> bool {
        let is_wanted = self.replies.borrow_mut().answered(id, reply, bulk);
        self.answered.notify_waiters();
        is_wanted
    }

    /// Waits for the next answer after this was called.
    pub(crate) fn next(&self) -> impl Future<Output = ()> {
        self.answered.notified()
    }
}

/// How much more or less memory of a node must be free for it to be worth telling, bytes.
const MEMORY_NEWS_BYTES: u64 = 64 * 1024;

/// One boot of a node.
#[derive(Debug)]
struct Node {
    generation: Generation,
    key: NodeKey,
    control: Option<Rc<Line>>,
    ship: Option<Rc<Line>>,
    answers: Rc<Answers>,
    /// What the node said of itself, once it did.
    status: Option<NodeStatus>,
    /// The service node was told that the node is ready.
    ready: bool,
    /// Connections lost so far: tells a new loss from one that is being waited for.
    losses: u64,
}

impl Node {
    fn line(&mut self, channel: Channel) -> &mut Option<Rc<Line>> {
        match channel {
            Channel::Control => &mut self.control,
            Channel::Ship => &mut self.ship,
        }
    }

    fn cut(&mut self, reason: &'static str) {
        for line in [self.control.take(), self.ship.take()].into_iter().flatten() {
            line.cut(reason);
        }
    }
}

/// A connection that a ready node lost, to be asked about again after a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    identity: Identity,
    number: u64,
}

/// What a node's "ready" means.
#[derive(Debug)]
pub(crate) enum Readiness {
    /// Not yet: a connection is missing, or the message.
    Not,
    /// From now on.
    Now(NodeStatus),
    /// As before: only its connection is new.
    Still,
}

/// All nodes that may connect.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    table: HashMap<NodeId, Node>,
}

impl Nodes {
    fn get(&self, identity: Identity) -> Option<&Node> {
        self.table.get(&identity.node).filter(|node| node.generation == identity.generation)
    }

    fn get_mut(&mut self, identity: Identity) -> Option<&mut Node> {
        self.table.get_mut(&identity.node).filter(|node| node.generation == identity.generation)
    }

    /// A new boot of a node may connect; an earlier one is cut off.
    pub(crate) fn add(&mut self, identity: Identity, key: NodeKey) {
        self.remove(identity.node);
        let Identity { node, generation } = identity;
        let entry = Node {
            generation,
            key,
            control: None,
            ship: None,
            answers: Rc::default(),
            status: None,
            ready: false,
            losses: 0,
        };
        self.table.insert(node, entry);
    }

    /// A node is gone: its connections are cut, its key forgotten.
    pub(crate) fn remove(&mut self, node: NodeId) {
        if let Some(mut node) = self.table.remove(&node) {
            node.cut("the node was rebooted or removed");
        }
    }

    /// The key of exactly that boot.
    #[must_use]
    pub(crate) fn key(&self, identity: Identity) -> Option<NodeKey> {
        self.get(identity).map(|node| node.key.clone())
    }

    /// The shipping connection of that boot.
    pub(crate) fn ship(&self, identity: Identity) -> Option<Rc<Line>> {
        self.get(identity).and_then(|node| node.ship.clone())
    }

    /// The shipping connection of a node.
    pub(crate) fn ship_of(&self, node: NodeId) -> Option<Rc<Line>> {
        self.table.get(&node).and_then(|node| node.ship.clone())
    }

    /// An authenticated connection. It takes the place of an earlier one for the same purpose. Gives what
    /// that boot asked for; `None` if it is not known any more.
    pub(crate) fn attach(&mut self, identity: Identity, line: &Rc<Line>) -> Option<Rc<Answers>> {
        let node = self.get_mut(identity)?;
        if let Some(earlier) = node.line(line.channel()).replace(Rc::clone(line)) {
            earlier.cut("the node connected again");
        }
        Some(Rc::clone(&node.answers))
    }

    /// A connection has ended. Gives the loss to wait for if it was in use by a ready node.
    pub(crate) fn detach(&mut self, identity: Identity, line: &Rc<Line>) -> Option<Loss> {
        let node = self.get_mut(identity)?;
        let slot = node.line(line.channel());
        if !slot.as_ref().is_some_and(|current| Rc::ptr_eq(current, line)) {
            return None;
        }
        *slot = None;
        node.losses += 1;
        node.ready.then_some(Loss { identity, number: node.losses })
    }

    /// Is a connection still missing after that loss? A later loss is waited for by itself.
    #[must_use]
    pub(crate) fn is_missing(&self, loss: Loss) -> bool {
        self.get(loss.identity)
            .is_some_and(|node| node.losses == loss.number && (node.control.is_none() || node.ship.is_none()))
    }

    /// A node said what it is.
    pub(crate) fn set_status(&mut self, identity: Identity, status: NodeStatus) {
        if let Some(node) = self.get_mut(identity) {
            node.status = Some(status);
        }
    }

    /// A node said how its memory is. Returns whether the service node is to be told: the node is ready, and what is
    /// free is not what it was by more than a little.
    pub(crate) fn set_memory(&mut self, identity: Identity, memory: MemoryStatus) -> bool {
        let Some(node) = self.get_mut(identity).filter(|node| node.ready) else { return false };
        let Some(status) = &mut node.status else { return false };
        let is_news = status.memory.free.abs_diff(memory.free) >= MEMORY_NEWS_BYTES;
        if is_news {
            status.memory = memory;
        }
        is_news
    }

    /// Asks whether a node is ready, which it is from then on.
    pub(crate) fn check_ready(&mut self, identity: Identity) -> Readiness {
        let Some(node) = self.get_mut(identity) else { return Readiness::Not };
        match &node.status {
            Some(status) if node.control.is_some() && node.ship.is_some() => {
                if std::mem::replace(&mut node.ready, true) { Readiness::Still } else { Readiness::Now(status.clone()) }
            }
            _ => Readiness::Not,
        }
    }

    /// A node does not answer, or did not come back: forgets it. True if it was ready before.
    pub(crate) fn lose(&mut self, identity: Identity) -> bool {
        let ready = self.get(identity).is_some_and(|node| node.ready);
        if ready {
            self.remove(identity.node);
        }
        ready
    }

    /// The boot and the control connection of a ready node.
    #[must_use]
    pub(crate) fn control(&self, node: NodeId) -> Option<(Generation, Rc<Line>)> {
        let node = self.table.get(&node).filter(|node| node.ready)?;
        Some((node.generation, Rc::clone(node.control.as_ref()?)))
    }

    /// Is the node ready?
    #[must_use]
    pub(crate) fn is_ready(&self, node: NodeId) -> bool {
        self.table.get(&node).is_some_and(|node| node.ready)
    }

    /// All control connections.
    #[must_use]
    pub(crate) fn controls(&self) -> Vec<Rc<Line>> {
        self.table.values().filter_map(|node| node.control.clone()).collect()
    }
}
