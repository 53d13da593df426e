//! The bytes of connections, between nodes and I/O nodes.

use coppice_endpoint::NetError;
use coppice_io_node::machine::Disconnected;
use coppice_protocol::ids::{NodeId, PsetId};

use super::dispatch::UNHEARD_NS_MAX;
use super::machine::LifeId;
use super::network::{ConnectionId, End, Phase};
use super::queue::{Event, MILLISECOND_NS};
use super::world::World;

/// Bytes at a time that an I/O node takes from a connection.
const READ_BYTES_MAX: usize = 64 * 1024;
/// How late bytes come at most that a network lost at first, ns.
const LATE_NS_MAX: u64 = 400 * MILLISECOND_NS;
/// How soon what was lost is sent again, ns.
const RETRANSMIT_NS_MIN: u64 = 50 * MILLISECOND_NS;
/// What a link carries, ns per byte.
const NS_PER_BYTE: u64 = 8;

impl World {
    /// When something sent now arrives, if it is carried then, ns.
    fn arrives_ns(&mut self, bytes: usize) -> u64 {
        let late_ns = if self.is_faulty() && self.random.chance(20) { self.random.delay(LATE_NS_MAX) } else { 0 };
        self.now_ns + late_ns + 20_000 + self.random.delay(MILLISECOND_NS) + bytes as u64 * NS_PER_BYTE
    }

    /// What comes over the network comes later if that does not carry it now: it was lost, and is sent again. Gives it
    /// back if it does.
    pub(super) fn carried(&mut self, event: Event) -> Option<Event> {
        let (Event::Arrive(id, _) | Event::Dialled(id) | Event::Answered(id, _)) = event else { return Some(event) };
        let life = self.network.lock().get(id).map(|connection| connection.life);
        let node = life.and_then(|life| self.node_of(life));
        let is_cut_off = node.is_some_and(|node| self.cut_off.contains_key(&node));
        if self.host.fabric.is_some() && self.host.fabric_stopped_until_ns <= self.now_ns && !is_cut_off {
            return Some(event);
        }
        let in_ns = RETRANSMIT_NS_MIN + self.random.delay(LATE_NS_MAX);
        self.plan(in_ns, event);
        None
    }

    fn node_of(&self, life: LifeId) -> Option<NodeId> {
        self.machine(life).map(|_| life.node)
    }

    /// Puts bytes, or the end, on their way.
    fn send(&mut self, id: ConnectionId, towards: End, what: Option<Vec<u8>>) {
        let arrives_ns = self.arrives_ns(what.as_ref().map_or(0, Vec::len));
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        let stream = connection.towards(towards);
        stream.last_ns = stream.last_ns.max(arrives_ns);
        stream.under_way.push_back(what);
        let at_ns = stream.last_ns;
        drop(connections);
        self.queue.plan(at_ns, Event::Arrive(id, towards));
    }

    pub(super) fn move_from_io_node(&mut self, pset: PsetId, id: ConnectionId) {
        let now = self.io_node_now();
        loop {
            let room = self.network.lock().get(id).map_or(0, |connection| connection.room(End::Node));
            let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
            let Some(line) = io_node.connections.get(&id).copied() else { return };
            let bytes = io_node.machine.transmit(line);
            let piece = bytes.get(..room.min(bytes.len())).unwrap_or_default().to_vec();
            if piece.is_empty() {
                return;
            }
            io_node.machine.consume(line, piece.len(), now);
            self.send(id, End::Node, Some(piece));
        }
    }

    /// An I/O node takes what has arrived, as far as it wants it.
    pub(super) fn move_to_io_node(&mut self, pset: PsetId, id: ConnectionId) {
        let now = self.io_node_now();
        let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
        let Some(line) = io_node.connections.get(&id).copied() else { return };
        if !io_node.machine.is_read(line) {
            return;
        }
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        let stream = connection.towards(End::IoNode);
        let count = stream.arrived.len().min(READ_BYTES_MAX);
        if count > 0 {
            let rest = stream.arrived.split_off(count);
            let bytes = Vec::from(std::mem::replace(&mut stream.arrived, rest));
            connection.wake();
            drop(connections);
            io_node.machine.receive(line, &bytes);
            // What follows is among its effects: [`Effect::Move`], if it is to be read again.
            io_node.machine.listen(line, now);
        } else if stream.has_ended {
            connection.has_io_node = false;
            drop(connections);
            io_node.machine.disconnected(line, Disconnected::Closed, now);
        }
    }

    pub(super) fn end_from_io_node(&mut self, id: ConnectionId, last: Option<Vec<u8>>) {
        match last {
            Some(bytes) => {
                self.send(id, End::Node, Some(bytes));
                self.send(id, End::Node, None);
            }
            None => {
                let in_ns = self.random.delay(MILLISECOND_NS);
                self.plan(in_ns, Event::Broke(id, End::Node));
            }
        }
        self.network.lock().leave(id, End::IoNode);
    }

    /// What nodes did at their ends of connections.
    pub(super) fn settle_network(&mut self) {
        loop {
            let touched = self.network.lock().take_touched();
            let Some(id) = touched else { return };
            let mut connections = self.network.lock();
            let Some(connection) = connections.get(id) else { continue };
            let (pset, phase, has_io_node) = (connection.pset, connection.phase, connection.has_io_node);
            let written = std::mem::take(&mut connection.towards(End::IoNode).written);
            let is_over = matches!(phase, Phase::Broken(_));
            if is_over {
                connections.leave(id, End::Node);
            }
            drop(connections);
            match phase {
                Phase::Dialling => {
                    let at_ns = self.arrives_ns(0);
                    self.queue.plan(at_ns, Event::Dialled(id));
                }
                Phase::Broken(_) if has_io_node => {
                    let in_ns = self.random.delay(MILLISECOND_NS);
                    self.plan(in_ns, Event::Broke(id, End::IoNode));
                }
                Phase::Open if !has_io_node && !written.is_empty() => {
                    // Nobody acknowledges it.
                    let in_ns = self.random.delay(UNHEARD_NS_MAX);
                    self.plan(in_ns, Event::Broke(id, End::Node));
                }
                _ => {}
            }
            if !written.is_empty() && has_io_node {
                self.send(id, End::IoNode, Some(written));
            }
            // A node that took something has made room.
            if has_io_node {
                self.with_io_node(pset, |_, _| ());
                self.move_from_io_node(pset, id);
                self.settle_io_node(pset);
            }
        }
    }

    /// A node wants a connection.
    pub(super) fn dialled(&mut self, id: ConnectionId) {
        let Some((pset, channel, life)) =
            self.network.lock().get(id).map(|connection| (connection.pset, connection.channel, connection.life))
        else {
            return;
        };
        let Some(node) = self.node_of(life) else { return };
        let nonce = self.random.bytes();
        let now = self.io_node_now();
        // If nobody answers the node gives up.
        let Some(io_node) = self.io_nodes.get_mut(&pset).filter(|io_node| io_node.is_configured) else { return };
        let line = io_node.machine.accept(channel, (node.address(), 40_000), nonce, now);
        if let Some(line) = line {
            io_node.lines.insert(line, id);
            io_node.connections.insert(id, line);
            if let Some(connection) = self.network.lock().get(id) {
                connection.has_io_node = true;
            }
        }
        let at_ns = self.arrives_ns(0);
        self.queue.plan(at_ns, Event::Answered(id, line.is_some()));
        self.settle_io_node(pset);
    }

    /// The I/O node's answer is there.
    pub(super) fn answered(&mut self, id: ConnectionId, is_open: bool) {
        if let Some(connection) = self.network.lock().get(id)
            && connection.phase == Phase::Dialling
        {
            connection.phase = if is_open { Phase::Open } else { Phase::Broken(NetError::Refused) };
            connection.wake();
        }
    }

    /// An end learns that a connection is broken.
    pub(super) fn broke(&mut self, id: ConnectionId, end: End) {
        let now = self.io_node_now();
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        let pset = connection.pset;
        match end {
            End::Node => {
                if !matches!(connection.phase, Phase::Broken(_)) {
                    connection.phase = Phase::Broken(NetError::Reset);
                    connection.wake();
                }
            }
            End::IoNode => {
                connections.leave(id, End::IoNode);
                drop(connections);
                let line = self.io_nodes.get(&pset).and_then(|io_node| io_node.connections.get(&id)).copied();
                if let Some(line) = line {
                    let why = Disconnected::Broken(NetError::Reset);
                    self.with_io_node(pset, |io_node, _| io_node.machine.disconnected(line, why, now));
                }
            }
        }
    }

    /// Something arrives.
    pub(super) fn arrive(&mut self, id: ConnectionId, end: End) {
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        if connection.is_cut {
            return;
        }
        let pset = connection.pset;
        let stream = connection.towards(end);
        match stream.under_way.pop_front() {
            Some(Some(bytes)) if stream.arrived.is_empty() => stream.arrived = bytes.into(),
            Some(Some(bytes)) => stream.arrived.extend(bytes),
            Some(None) => stream.has_ended = true,
            None => {}
        }
        // What has arrived is acknowledged.
        connection.wake();
        drop(connections);
        if end == End::IoNode {
            self.move_to_io_node(pset, id);
            self.settle_io_node(pset);
        }
    }
}
