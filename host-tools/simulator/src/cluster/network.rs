//! Connections between nodes and I/O nodes: two streams of bytes each, in order and whole, that come after a time.
//!
//! What a network loses, doubles or mixes up below them shows as what TCP makes of it: bytes that come late and in
//! pieces, and ends that learn late or never that the other is gone. A stream holds a window's worth, sent or arrived,
//! until somebody takes it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use coppice_endpoint::NetError;
use coppice_protocol::ids::PsetId;
use coppice_protocol::session::Channel;

use super::machine::LifeId;

/// A connection; no two of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(pub(super) u64);

/// An end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Node,
    IoNode,
}

/// How far a connection is for its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The I/O node has not answered.
    Dialling,
    /// It has.
    Open,
    /// It turned the node down, or the connection broke.
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
}

impl Stream {
    /// Bytes that were sent and not taken.
    fn held(&self) -> usize {
        let under_way = self.under_way.iter().flatten().map(Vec::len).sum::<usize>();
        self.written.len() + under_way + self.arrived.len()
    }

    /// Bytes that have not arrived.
    pub(super) fn unacknowledged(&self) -> usize {
        self.written.len() + self.under_way.iter().flatten().map(Vec::len).sum::<usize>()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub life: LifeId,
    pub pset: PsetId,
    pub channel: Channel,
    pub window: usize,
    pub phase: Phase,
    /// Towards each end.
    to_node: Stream,
    to_io_node: Stream,
    /// Ends that are there.
    pub has_node: bool,
    pub has_io_node: bool,
    /// Nothing that is sent arrives any more.
    pub is_cut: bool,
    /// The node's task that waits for anything here.
    wakers: Vec<Waker>,
}

impl Connection {
    pub(super) fn towards(&mut self, end: End) -> &mut Stream {
        match end {
            End::Node => &mut self.to_node,
            End::IoNode => &mut self.to_io_node,
        }
    }

    pub(super) fn room(&mut self, towards: End) -> usize {
        let window = self.window;
        window.saturating_sub(self.towards(towards).held())
    }

    /// Something is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.to_node.under_way.is_empty() || !self.to_io_node.under_way.is_empty()
    }

    /// Has whoever waits at the node look again.
    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    pub(super) fn register(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }
}

/// All connections, and those at which a node did something since the world looked.
#[derive(Debug, Default)]
pub(super) struct Connections {
    table: BTreeMap<ConnectionId, Connection>,
    touched: VecDeque<ConnectionId>,
    opened: u64,
}

impl Connections {
    pub(super) fn dial(&mut self, life: LifeId, pset: PsetId, channel: Channel, window: usize) -> ConnectionId {
        self.opened += 1;
        let id = ConnectionId(self.opened);
        let connection = Connection {
            life,
            pset,
            channel,
            window,
            phase: Phase::Dialling,
            to_node: Stream::default(),
            to_io_node: Stream::default(),
            has_node: true,
            has_io_node: false,
            is_cut: false,
            wakers: Vec::new(),
        };
        self.table.insert(id, connection);
        self.touch(id);
        id
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
        match end {
            End::Node => connection.has_node = false,
            End::IoNode => connection.has_io_node = false,
        }
        if !connection.has_node && !connection.has_io_node {
            self.table.remove(&id);
        }
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
