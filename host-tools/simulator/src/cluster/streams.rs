//! The bytes of connections: of nodes with each other, and with I/O nodes.

use coppice_endpoint::NetError;
use coppice_io_node::machine::Disconnected;
use coppice_protocol::ids::{NodeId, PsetId};

use super::dispatch::UNHEARD_NS_MAX;
use super::faults::Cut;
use super::links::LATE_NS_MAX;
use super::network::{Callee, ConnectionId, End, Phase};
use super::queue::{Event, MILLISECOND_NS, SECOND_NS};
use super::world::World;

/// Bytes at a time that an I/O node takes from a connection.
const READ_BYTES_MAX: usize = 64 * 1024;
/// How soon what was lost is sent again, ns.
const RETRANSMIT_NS_MIN: u64 = 50 * MILLISECOND_NS;
/// How long a node waits for word that its bytes have come, ns; then it takes the connection for broken, as its network
/// stack does.
const UNACKNOWLEDGED_NS_MAX: u64 = 20 * SECOND_NS;

impl World {
    /// When something that is sent on a connection now, towards an end, arrives, if it is carried then, ns.
    fn arrives_ns(&mut self, id: ConnectionId, towards: End, bytes: usize) -> u64 {
        let stations = self
            .network
            .lock()
            .get(id)
            .map(|connection| (connection.station(towards.other()), connection.station(towards)));
        let (now_ns, is_faulty) = (self.now_ns, self.is_faulty());
        match stations {
            Some(stations) => self.links.carry(stations, bytes, now_ns, is_faulty, &mut self.random),
            None => now_ns,
        }
    }

    /// What comes over the network comes later if that does not carry it now: it was lost, and is sent again. Gives it
    /// back if it does.
    pub(super) fn carried(&mut self, event: Event) -> Option<Event> {
        let (id, to) = match event {
            Event::Dialled(id) => (id, End::Called),
            Event::Answered(id, _) => (id, End::Caller),
            Event::Arrive(id, end) | Event::Acknowledged(id, end, _) => (id, end),
            _ => return Some(event),
        };
        let nodes = self.network.lock().get(id).map(|connection| (connection.node(to.other()), connection.node(to)));
        let Some((from_node, to_node)) = nodes else { return Some(event) };
        let is_up = self.host.fabric.is_some() && self.host.fabric_stopped_until_ns <= self.now_ns;
        if is_up && self.is_carried(from_node, to_node) {
            return Some(event);
        }
        let sender = if matches!(event, Event::Acknowledged(..)) { to } else { to.other() };
        if self.is_given_up(id, sender) {
            self.plan(0, Event::Broke(id, sender));
            return None;
        }
        let in_ns = RETRANSMIT_NS_MIN + self.random.delay(LATE_NS_MAX);
        self.plan(in_ns, event);
        None
    }

    /// Whether what one sends reaches the other. Who is no node is in no link's way.
    fn is_carried(&self, from: Option<NodeId>, to: Option<NodeId>) -> bool {
        let cuts = [from.map(Cut::From), to.map(Cut::To), from.zip(to).map(|(from, to)| Cut::Between(from, to))];
        !cuts.into_iter().flatten().any(|cut| self.cut_off.contains_key(&cut))
    }

    /// Whether a node that waits for word from another node has waited long enough. Nothing comes then any more.
    fn is_given_up(&mut self, id: ConnectionId, sender: End) -> bool {
        let mut connections = self.network.lock();
        let of_nodes = connections.get(id).filter(|connection| connection.io_node().is_none());
        let Some(connection) = of_nodes else { return false };
        let stream = connection.towards(sender.other());
        let is_given_up = stream.unacknowledged() > 0 && self.now_ns >= stream.heard_ns + UNACKNOWLEDGED_NS_MAX;
        connection.is_cut |= is_given_up;
        is_given_up
    }

    /// Puts bytes, or the end, on their way.
    fn send(&mut self, id: ConnectionId, towards: End, mut what: Option<Vec<u8>>) {
        let arrives_ns = self.arrives_ns(id, towards, what.as_ref().map_or(0, Vec::len));
        if let Some(bytes) = &mut what {
            self.corrupt(id, bytes);
        }
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        let stream = connection.towards(towards);
        if stream.sent == stream.acknowledged {
            stream.heard_ns = self.now_ns;
        }
        stream.sent += what.as_ref().map_or(0, Vec::len) as u64;
        stream.last_ns = stream.last_ns.max(arrives_ns);
        stream.under_way.push_back(what);
        let at_ns = stream.last_ns;
        drop(connections);
        self.queue.plan(at_ns, Event::Arrive(id, towards));
    }

    pub(super) fn move_from_io_node(&mut self, pset: PsetId, id: ConnectionId) {
        let now = self.io_node_now(pset);
        loop {
            let room = self.network.lock().get(id).map_or(0, |connection| connection.room(End::Caller));
            let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
            let Some(line) = io_node.connections.get(&id).copied() else { return };
            let bytes = io_node.machine.transmit(line);
            let piece = bytes.get(..room.min(bytes.len())).unwrap_or_default().to_vec();
            if piece.is_empty() {
                return;
            }
            io_node.machine.consume(line, piece.len(), now);
            self.send(id, End::Caller, Some(piece));
        }
    }

    /// An I/O node takes what has arrived, as far as it wants it.
    pub(super) fn move_to_io_node(&mut self, pset: PsetId, id: ConnectionId) {
        let now = self.io_node_now(pset);
        let Some(io_node) = self.io_nodes.get_mut(&pset) else { return };
        let Some(line) = io_node.connections.get(&id).copied() else { return };
        if !io_node.machine.is_read(line) {
            return;
        }
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        let stream = connection.towards(End::Called);
        let count = stream.arrived.len().min(READ_BYTES_MAX);
        if count > 0 {
            let rest = stream.arrived.split_off(count);
            let bytes = Vec::from(std::mem::replace(&mut stream.arrived, rest));
            connection.wake(End::Caller);
            drop(connections);
            io_node.machine.receive(line, &bytes);
            // What follows is among its effects: [`Effect::Move`], if it is to be read again.
            io_node.machine.listen(line, now);
        } else if stream.has_ended {
            connection.at(End::Called).is_there = false;
            drop(connections);
            io_node.machine.disconnected(line, Disconnected::Closed, now);
        }
    }

    pub(super) fn end_from_io_node(&mut self, id: ConnectionId, last: Option<Vec<u8>>) {
        match last {
            Some(bytes) => {
                self.send(id, End::Caller, Some(bytes));
                self.send(id, End::Caller, None);
            }
            None => {
                let in_ns = self.random.delay(MILLISECOND_NS);
                self.plan(in_ns, Event::Broke(id, End::Caller));
            }
        }
        self.network.lock().leave(id, End::Called);
    }

    /// What nodes did at their ends of connections.
    pub(super) fn settle_network(&mut self) {
        loop {
            let touched = self.network.lock().take_touched();
            let Some(id) = touched else { return };
            End::BOTH.into_iter().for_each(|end| self.settle_end(id, end));
        }
    }

    fn settle_end(&mut self, id: ConnectionId, end: End) {
        let other = end.other();
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        if connection.life(end).is_none() || !connection.at(end).is_there {
            return;
        }
        let (callee, phase, has_other) = (connection.callee, connection.at(end).phase, connection.at(other).is_there);
        let written = std::mem::take(&mut connection.towards(other).written);
        let has_room = std::mem::take(&mut connection.towards(end).has_room);
        if matches!(phase, Phase::Broken(_)) {
            connections.leave(id, end);
        }
        drop(connections);
        let is_of_nodes = matches!(callee, Callee::Node(..));
        let has_written = !written.is_empty();
        if has_written && is_of_nodes {
            self.lose(id);
        }
        if has_written && (has_other || is_of_nodes) {
            self.send(id, other, Some(written));
        }
        match phase {
            Phase::Dialling => {
                let at_ns = self.arrives_ns(id, End::Called, 0);
                self.queue.plan(at_ns, Event::Dialled(id));
            }
            // The other one takes what is there, and then finds the end.
            Phase::Broken(NetError::Closed) if has_other && is_of_nodes => self.send(id, other, None),
            Phase::Broken(_) if has_other => {
                let in_ns = self.random.delay(MILLISECOND_NS);
                self.plan(in_ns, Event::Broke(id, other));
            }
            Phase::Open if !has_other && has_written && !is_of_nodes => {
                // Nobody acknowledges it.
                let in_ns = self.random.delay(UNHEARD_NS_MAX);
                self.plan(in_ns, Event::Broke(id, end));
            }
            _ => {}
        }
        match callee {
            // A node that took something has made room.
            Callee::IoNode(pset, _) if has_other => {
                self.with_io_node(pset, |_, _| ());
                self.move_from_io_node(pset, id);
                self.settle_io_node(pset);
            }
            Callee::Node(..) if has_room => self.acknowledge(id, end),
            _ => {}
        }
    }

    /// A node lets the other one know what has come, and that there is room.
    fn acknowledge(&mut self, id: ConnectionId, end: End) {
        let reached = self.network.lock().get(id).map(|connection| connection.towards(end).reached);
        if let Some(reached) = reached {
            let at_ns = self.arrives_ns(id, end.other(), 0);
            self.queue.plan(at_ns, Event::Acknowledged(id, end.other(), reached));
        }
    }

    /// A node hears that so many of its bytes have come.
    pub(super) fn acknowledged(&mut self, id: ConnectionId, end: End, reached: u64) {
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id).filter(|connection| !connection.is_cut) else { return };
        connection.towards(end.other()).acknowledge(reached, self.now_ns);
        connection.wake(end);
    }

    /// A node wants a connection.
    pub(super) fn dialled(&mut self, id: ConnectionId) {
        let called = self.network.lock().get(id).map(|connection| (connection.callee, connection.caller));
        match called {
            Some((Callee::IoNode(pset, channel), caller)) => {
                let nonce = self.random.bytes();
                let now = self.io_node_now(pset);
                // If nobody answers the node gives up.
                let Some(io_node) = self.io_nodes.get_mut(&pset).filter(|io_node| io_node.is_configured) else {
                    return;
                };
                let line = io_node.machine.accept(channel, (caller.node.address(), 40_000), nonce, now);
                if let Some(line) = line {
                    io_node.lines.insert(line, id);
                    io_node.connections.insert(id, line);
                    if let Some(connection) = self.network.lock().get(id) {
                        connection.at(End::Called).is_there = true;
                    }
                }
                self.answer(id, line.is_some());
                self.settle_io_node(pset);
            }
            Some((Callee::Node(node, _), _)) => match self.machines.get(&node).filter(|machine| machine.is_booted()) {
                Some(machine) => {
                    let is_open = self.network.lock().knock(id, machine.life);
                    self.answer(id, is_open);
                }
                // It is called again until somebody answers, or it is given up.
                None => {
                    let in_ns = RETRANSMIT_NS_MIN + self.random.delay(LATE_NS_MAX);
                    self.plan(in_ns, Event::Dialled(id));
                }
            },
            None => {}
        }
    }

    fn answer(&mut self, id: ConnectionId, is_open: bool) {
        let at_ns = self.arrives_ns(id, End::Caller, 0);
        self.queue.plan(at_ns, Event::Answered(id, is_open));
    }

    /// The answer to a node's call is there.
    pub(super) fn answered(&mut self, id: ConnectionId, is_open: bool) {
        if let Some(connection) = self.network.lock().get(id)
            && connection.at(End::Caller).phase == Phase::Dialling
        {
            connection.at(End::Caller).phase = if is_open { Phase::Open } else { Phase::Broken(NetError::Refused) };
            connection.wake(End::Caller);
        }
    }

    /// An end learns that a connection is broken.
    pub(super) fn broke(&mut self, id: ConnectionId, end: End) {
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        match connection.io_node().filter(|_| end == End::Called) {
            None => {
                let phase = &mut connection.at(end).phase;
                if !matches!(phase, Phase::Broken(_)) {
                    *phase = Phase::Broken(NetError::Reset);
                    connection.wake(end);
                }
            }
            Some(pset) => {
                connections.leave(id, End::Called);
                drop(connections);
                let line = self.io_nodes.get(&pset).and_then(|io_node| io_node.connections.get(&id)).copied();
                if let Some(line) = line {
                    let why = Disconnected::Broken(NetError::Reset);
                    self.with_io_node(pset, |io_node, now| io_node.machine.disconnected(line, why, now));
                }
            }
        }
    }

    /// Something arrives.
    pub(super) fn arrive(&mut self, id: ConnectionId, end: End) {
        let mut connections = self.network.lock();
        let Some(connection) = connections.get(id) else { return };
        let io_node = connection.io_node();
        let nobody = connection.is_cut || !connection.at(end).is_there;
        if io_node.is_none() && nobody {
            let is_cut = connection.is_cut;
            let life = connection.life(end);
            drop(connections);
            return self.arrive_nowhere(
                id,
                end.other(),
                is_cut || life.is_some_and(|life| self.machine(life).is_some()),
            );
        }
        if connection.is_cut {
            return;
        }
        let stream = connection.towards(end);
        match stream.under_way.pop_front() {
            Some(Some(bytes)) => {
                stream.reached += bytes.len() as u64;
                if stream.arrived.is_empty() {
                    stream.arrived = bytes.into();
                } else {
                    stream.arrived.extend(bytes);
                }
            }
            Some(None) => stream.has_ended = true,
            None => {}
        }
        if io_node.is_some() {
            // That is known at once.
            stream.acknowledge(stream.reached, self.now_ns);
            connection.wake(End::Caller);
        }
        connection.wake(end);
        drop(connections);
        match io_node {
            Some(pset) if end == End::Called => {
                self.move_to_io_node(pset, id);
                self.settle_io_node(pset);
            }
            Some(_) => {}
            None => self.acknowledge(id, end),
        }
    }

    /// A node's bytes come where nobody has the connection any more: it is told so, or finds out by itself.
    fn arrive_nowhere(&mut self, id: ConnectionId, sender: End, is_told: bool) {
        let within_ns = if is_told { MILLISECOND_NS } else { UNHEARD_NS_MAX };
        let in_ns = self.random.delay(within_ns);
        self.plan(in_ns, Event::Broke(id, sender));
    }
}
