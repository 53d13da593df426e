//! Connections that nodes make, with their I/O node and with each other: two streams of bytes each, in order and whole,
//! that come after a time.
//!
//! What a network loses, doubles or mixes up below them shows as what TCP makes of it: bytes that come late and in
//! pieces ([`super::links`]), and ends that learn late or never that the other is gone. What it changes shows, too, at
//! times: TCP's checksum is weak. A stream holds a window's worth, sent or arrived, until somebody takes it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use coppice_endpoint::NetError;
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::session::Channel;

use super::links::Station;
use super::machine::LifeId;

/// A connection; no two of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(pub(super) u64);

/// An end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node that made it.
    Caller,
    /// Whom that called.
    Called,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Caller, Self::Called];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Caller => Self::Called,
            Self::Called => Self::Caller,
        }
    }
}

/// Whom a node calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// Its I/O node.
    IoNode(PsetId, Channel),
    /// A node, at a port.
    Node(NodeId, u16),
}

/// How far a connection is for a node at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Who is called has not answered.
    Dialling,
    /// It has.
    Open,
    /// It turned the node down, or the connection broke, or the node has closed it.
    Broken(NetError),
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Written, and not yet on its way.
    pub written: Vec<u8>,
    /// On its way: bytes, or the end.
    pub under_way: VecDeque<Option<Vec<u8>>>,
    /// When the last of them arrives, ns.
    pub last_ns: u64,
    /// Arrived and not taken.
    pub arrived: VecDeque<u8>,
    /// The end has arrived.
    pub has_ended: bool,
    /// Bytes that were ever sent, that have arrived, and of which the sender knows that.
    pub sent: u64,
    pub reached: u64,
    pub acknowledged: u64,
    /// When the sender last heard of that, or began to wait for it, ns.
    pub heard_ns: u64,
    /// So much was taken at once that the sender may have waited for room.
    pub has_room: bool,
    /// Something was said for a job, and not only that there is none.
    pub is_used: bool,
}

impl Stream {
    /// Bytes that were sent and not taken.
    fn held(&self) -> usize {
        let under_way = self.under_way.iter().flatten().map(Vec::len).sum::<usize>();
        self.written.len() + under_way + self.arrived.len()
    }

    /// Bytes of which the sender does not know that they have arrived.
    pub(super) fn unacknowledged(&self) -> usize {
        self.written.len() + usize::try_from(self.sent - self.acknowledged).unwrap_or(usize::MAX)
    }

    /// The sender hears that so many bytes have arrived.
    pub(super) fn acknowledge(&mut self, reached: u64, now_ns: u64) {
        self.acknowledged = reached.max(self.acknowledged);
        self.heard_ns = now_ns;
    }
}

/// What is at an end.
#[derive(Debug)]
pub(super) struct Side {
    /// Towards it.
    incoming: Stream,
    /// Somebody is there.
    pub is_there: bool,
    /// If that is a node.
    pub phase: Phase,
    /// Its tasks that wait for anything here.
    wakers: Vec<Waker>,
}

impl Side {
    fn new(is_there: bool) -> Self {
        Self { incoming: Stream::default(), is_there, phase: Phase::Dialling, wakers: Vec::new() }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub caller: LifeId,
    pub callee: Callee,
    /// The boot of the node that was called and has answered.
    answered: Option<LifeId>,
    pub window: usize,
    sides: [Side; 2],
    /// Nothing that is sent arrives any more.
    pub is_cut: bool,
}

impl Connection {
    pub(super) fn at(&mut self, end: End) -> &mut Side {
        &mut self.sides[end as usize]
    }

    pub(super) fn towards(&mut self, end: End) -> &mut Stream {
        &mut self.at(end).incoming
    }

    /// The boot of the node at an end, if it is one.
    pub(super) fn life(&self, end: End) -> Option<LifeId> {
        match end {
            End::Caller => Some(self.caller),
            End::Called => self.answered,
        }
    }

    /// The node at an end, if it is one.
    pub(super) fn node(&self, end: End) -> Option<NodeId> {
        match (end, self.callee) {
            (End::Caller, _) => Some(self.caller.node),
            (End::Called, Callee::Node(node, _)) => Some(node),
            (End::Called, Callee::IoNode(..)) => None,
        }
    }

    /// Who is at an end, as links know it.
    pub(super) fn station(&self, end: End) -> Station {
        match (end, self.callee) {
            (End::Caller, _) => Station::Node(self.caller.node),
            (End::Called, Callee::Node(node, _)) => Station::Node(node),
            (End::Called, Callee::IoNode(pset, _)) => Station::IoNode(pset),
        }
    }

    /// The I/O node that was called, if it is one.
    pub(super) fn io_node(&self) -> Option<PsetId> {
        match self.callee {
            Callee::IoNode(pset, _) => Some(pset),
            Callee::Node(..) => None,
        }
    }

    pub(super) fn room(&mut self, towards: End) -> usize {
        let window = self.window;
        window.saturating_sub(self.towards(towards).held())
    }

    /// Something was said towards an end that nobody has taken there.
    pub(super) fn is_heard_soon(&self, towards: End) -> bool {
        self.sides[towards as usize].incoming.held() > 0
    }

    /// Something is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.sides.iter().any(|side| !side.incoming.under_way.is_empty())
    }

    /// Has whoever waits at an end look again.
    pub(super) fn wake(&mut self, end: End) {
        self.at(end).wakers.drain(..).for_each(Waker::wake);
    }

    pub(super) fn register(&mut self, end: End, waker: &Waker) {
        register(&mut self.at(end).wakers, waker);
    }
}

fn register(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

/// A port of a node that others may call.
#[derive(Debug)]
struct Port {
    backlog: usize,
    window: usize,
    /// Connections that nobody has taken.
    waiting: VecDeque<ConnectionId>,
    wakers: Vec<Waker>,
}

/// All connections, and those at which a node did something since the world looked.
#[derive(Debug, Default)]
pub(super) struct Connections {
    table: BTreeMap<ConnectionId, Connection>,
    ports: BTreeMap<(LifeId, u16), Port>,
    touched: VecDeque<ConnectionId>,
    opened: u64,
    /// Connections of each boot of a node with its I/O node that are over.
    lost: BTreeMap<LifeId, u64>,
}

impl Connections {
    pub(super) fn dial(&mut self, caller: LifeId, callee: Callee, window: usize) -> ConnectionId {
        self.opened += 1;
        let id = ConnectionId(self.opened);
        let sides = [Side::new(true), Side::new(false)];
        let connection = Connection { caller, callee, answered: None, window, sides, is_cut: false };
        self.table.insert(id, connection);
        self.touch(id);
        id
    }

    /// A call reaches a boot of a node. Whether there is room for it at that port.
    pub(super) fn knock(&mut self, id: ConnectionId, life: LifeId) -> bool {
        let Some(connection) = self.table.get_mut(&id) else { return false };
        let Callee::Node(_, port) = connection.callee else { return false };
        let Some(port) = self.ports.get_mut(&(life, port)) else { return false };
        if port.waiting.len() >= port.backlog {
            return false;
        }
        connection.answered = Some(life);
        connection.window = connection.window.min(port.window);
        let side = connection.at(End::Called);
        (side.is_there, side.phase) = (true, Phase::Open);
        port.waiting.push_back(id);
        port.wakers.drain(..).for_each(Waker::wake);
        true
    }

    /// Has a node be called at a port; false if it is already.
    pub(super) fn listen(&mut self, at: (LifeId, u16), backlog: usize, window: usize) -> bool {
        let port = Port { backlog, window, waiting: VecDeque::new(), wakers: Vec::new() };
        let is_free = !self.ports.contains_key(&at);
        if is_free {
            self.ports.insert(at, port);
        }
        is_free
    }

    /// The next call at a port: the connection, and the node that made it. If there is none, `waker` is woken when
    /// there is.
    pub(super) fn accept(&mut self, at: (LifeId, u16), waker: &Waker) -> Option<(ConnectionId, NodeId)> {
        let port = self.ports.get_mut(&at)?;
        while let Some(id) = port.waiting.pop_front() {
            if let Some(connection) = self.table.get(&id) {
                return Some((id, connection.caller.node));
            }
        }
        register(&mut port.wakers, waker);
        None
    }

    /// Nobody listens at a port any more. Those that wait there nobody answers.
    pub(super) fn unlisten(&mut self, at: (LifeId, u16)) {
        let waiting = self.ports.remove(&at).map(|port| port.waiting).unwrap_or_default();
        for id in waiting {
            if let Some(connection) = self.table.get_mut(&id) {
                connection.at(End::Called).phase = Phase::Broken(NetError::Reset);
                self.touch(id);
            }
        }
    }

    pub(super) fn get(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.table.get_mut(&id)
    }

    pub(super) fn touch(&mut self, id: ConnectionId) {
        if self.touched.back() != Some(&id) {
            self.touched.push_back(id);
        }
    }

    pub(super) fn take_touched(&mut self) -> Option<ConnectionId> {
        self.touched.pop_front()
    }

    /// An end is gone. With the other the connection is.
    pub(super) fn leave(&mut self, id: ConnectionId, end: End) {
        let Some(connection) = self.table.get_mut(&id) else { return };
        connection.at(end).is_there = false;
        if connection.io_node().is_some() {
            *self.lost.entry(connection.caller).or_default() += 1;
        }
        if !connection.at(end.other()).is_there {
            self.table.remove(&id);
        }
    }

    /// A boot of a node is gone: nobody says anything at its ends any more.
    pub(super) fn leave_all(&mut self, life: LifeId) {
        for end in End::BOTH {
            for id in self.of(|connection| connection.life(end) == Some(life)) {
                self.leave(id, end);
            }
        }
        self.lost.remove(&life);
    }

    /// How often an end of a connection of a boot with its I/O node has gone, and with it what was said there.
    pub(super) fn lost_by(&self, life: LifeId) -> u64 {
        self.lost.get(&life).copied().unwrap_or_default()
    }

    /// Connections with other nodes that a boot of a node made, or on which it has said something for a job of its own,
    /// and that it has not closed.
    pub(super) fn used_by(&mut self, life: LifeId) -> usize {
        let mut used = 0;
        for connection in self.table.values_mut().filter(|connection| connection.io_node().is_none()) {
            for end in End::BOTH {
                let is_used = end == End::Caller || connection.towards(End::Caller).is_used;
                let is_its = connection.life(end) == Some(life) && connection.at(end).is_there;
                let is_open = !matches!(connection.at(end).phase, Phase::Broken(_));
                used += usize::from(is_its && is_open && is_used);
            }
        }
        used
    }

    /// Those of a node's boot, or of an I/O node.
    pub(super) fn of(&self, is_it: impl Fn(&Connection) -> bool) -> Vec<ConnectionId> {
        self.table.iter().filter(|(_, connection)| is_it(connection)).map(|(id, _)| *id).collect()
    }
}

/// The connections as nodes and the world share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Network(Arc<Mutex<Connections>>);

impl Network {
    pub(super) fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
