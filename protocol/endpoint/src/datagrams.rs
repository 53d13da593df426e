//! Programs' datagrams: who waits for which, what came and what is to go.
//!
//! A datagram that came lies in its socket's queue until it is taken; one that is to go lies in one queue for all
//! sockets, in the order in which they were sent. Both are counted against the budget for programs' buffers and against
//! a limit of the socket: what comes beyond is lost, as it may be with datagrams; what is sent beyond has to wait.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_protocol::ids::JobNode;
use smoltcp::phy::{ChecksumCapabilities, Device, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr};

use crate::SocketError;
use crate::accounts::{Grant, Ticket};
use crate::cell::{Cell, Readiness};
use crate::ethernet::{Framed, Realm};
use crate::job::JobNetwork;
use crate::limits::{DATAGRAM_OVERHEAD_BYTES, DATAGRAM_QUEUE_BYTES, DATAGRAM_SEND_BYTES};
use crate::local::Name;
use crate::stack::ports::Claim;

/// Headers of IPv4 and UDP, bytes.
pub(crate) const HEADERS_BYTES: usize = 28;

/// Hops a datagram may take; there are none on one wire.
pub(crate) const HOP_LIMIT: u8 = 64;

/// A datagram and whom it is from or for.
pub(crate) struct Datagram {
    pub(crate) bytes: Vec<u8>,
    pub(crate) peer: Name,
    /// It is for all nodes of the job, and this is the next one.
    pub(crate) copies: Option<JobNode>,
    _grant: Grant,
    wipe: fn(&mut [u8]),
}

impl Datagram {
    pub(crate) fn new(bytes: Vec<u8>, peer: Name, grant: Grant, wipe: fn(&mut [u8])) -> Self {
        Self { bytes, peer, copies: None, _grant: grant, wipe }
    }

    /// What it counts in its socket's queues, bytes.
    fn cost(&self) -> usize {
        self.bytes.len() + DATAGRAM_OVERHEAD_BYTES
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        (self.wipe)(&mut self.bytes);
    }
}

/// A datagram socket of a program.
pub(crate) struct Socket {
    pub(crate) cell: Arc<Cell>,
    pub(crate) claim: Option<Claim>,
    /// The address it is bound to; all if none.
    pub(crate) address: Ipv4Addr,
    pub(crate) peer: Option<Name>,
    pub(crate) error: Option<SocketError>,
    /// It may send to all.
    pub(crate) broadcasts: bool,
    /// shutdown(2) was called, per direction.
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    _ticket: Ticket,
    received: VecDeque<Datagram>,
    received_bytes: usize,
    /// Of this socket in the queue of those that are to go.
    unsent_bytes: usize,
}

impl Socket {
    pub(crate) fn new(cell: Arc<Cell>, ticket: Ticket) -> Self {
        Self {
            cell,
            claim: None,
            address: Ipv4Addr::UNSPECIFIED,
            peer: None,
            error: None,
            broadcasts: false,
            read_shut: false,
            write_shut: false,
            _ticket: ticket,
            received: VecDeque::new(),
            received_bytes: 0,
            unsent_bytes: 0,
        }
    }

    /// Says what can be done with it now.
    pub(crate) fn update(&self, news: bool) {
        let readiness = Readiness {
            readable: !self.received.is_empty() || self.error.is_some() || self.read_shut,
            writable: self.has_room() || self.error.is_some() || self.write_shut,
            error: self.error.is_some(),
            hang_up: self.read_shut && self.write_shut,
            read_hang_up: self.read_shut,
        };
        self.cell.set(readiness, news);
    }

    /// Whether it may send one more.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent_bytes < DATAGRAM_SEND_BYTES
    }

    /// Whether some of its datagrams have not gone.
    pub(crate) fn is_sending(&self) -> bool {
        self.unsent_bytes > 0
    }

    /// The datagrams that came, in their order.
    pub(crate) fn received(&self) -> impl Iterator<Item = &Datagram> {
        self.received.iter()
    }

    /// The next datagram that came.
    pub(crate) fn first(&self) -> Option<&Datagram> {
        self.received.front()
    }

    /// The length of the next one, bytes.
    pub(crate) fn first_bytes(&self) -> usize {
        self.first().map_or(0, |datagram| datagram.bytes.len())
    }

    pub(crate) fn drop_first(&mut self) {
        if let Some(datagram) = self.received.pop_front() {
            self.received_bytes -= datagram.cost();
            give_back(&mut self.received);
            self.update(false);
        }
    }

    pub(crate) fn fail(&mut self, error: SocketError) {
        self.error = Some(error);
        self.update(true);
    }

    /// How well a datagram fits, if it is for this socket: a connected one comes before one that takes all.
    fn fit(&self, source: Name, destination: Ipv4Addr) -> Option<u8> {
        let bound = match self.address {
            address if address.is_unspecified() => 0,
            address if address == destination || (address.is_loopback() && destination.is_loopback()) => 1,
            _ => return None,
        };
        match self.peer {
            Some(peer) if peer != source => None,
            peer => Some(bound + 2 * u8::from(peer.is_some())),
        }
    }

    /// Takes one in if there is room for it.
    fn take(&mut self, datagram: Datagram) {
        let has_room = self.received_bytes + datagram.cost() <= DATAGRAM_QUEUE_BYTES;
        if !self.read_shut && has_room && self.received.try_reserve(1).is_ok() {
            self.received_bytes += datagram.cost();
            self.received.push_back(datagram);
            self.update(true);
        }
    }
}

/// Number of a socket. Not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(u64);

/// All datagram sockets of a stack.
#[derive(Default)]
pub(crate) struct Datagrams {
    sockets: BTreeMap<Number, Socket>,
    ports: BTreeMap<u16, Vec<Number>>,
    /// What is to go over the wire, with the port it is from.
    unsent: VecDeque<(Number, u16, Datagram)>,
    next: u64,
}

impl Datagrams {
    pub(crate) fn add(&mut self, socket: Socket) -> Number {
        let number = Number(self.next);
        self.next += 1;
        self.sockets.insert(number, socket);
        number
    }

    pub(crate) fn get_mut(&mut self, number: Number) -> Option<&mut Socket> {
        self.sockets.get_mut(&number)
    }

    /// Removes a socket. What it sent still goes.
    pub(crate) fn remove(&mut self, number: Number) -> Option<Claim> {
        let claim = self.sockets.remove(&number)?.claim?;
        let port = claim.port();
        if let Some(there) = self.ports.get_mut(&port) {
            there.retain(|other| *other != number);
            if there.is_empty() {
                self.ports.remove(&port);
            }
        }
        Some(claim)
    }

    /// From now on datagrams for the port of `claim` are for the socket.
    pub(crate) fn bind(&mut self, number: Number, address: Ipv4Addr, claim: Claim) {
        if let Some(socket) = self.sockets.get_mut(&number) {
            self.ports.entry(claim.port()).or_default().push(number);
            (socket.address, socket.claim) = (address, Some(claim));
        }
    }

    /// Whose a datagram is.
    pub(crate) fn find(&self, source: Name, destination: Name) -> Option<Number> {
        let (address, port) = destination;
        let there = self.ports.get(&port)?.iter();
        let fits = there.filter_map(|number| Some((self.sockets.get(number)?.fit(source, address)?, *number)));
        fits.max().map(|(_, number)| number)
    }

    /// Those that a datagram to all is for.
    pub(crate) fn find_all(&self, source: Name, port: u16) -> Vec<Number> {
        let there = self.ports.get(&port).into_iter().flatten();
        let meant = |number: &&Number| {
            let fit = self.sockets.get(number).and_then(|socket| socket.fit(source, Ipv4Addr::UNSPECIFIED));
            fit.is_some()
        };
        there.filter(meant).copied().collect()
    }

    /// Hands a datagram to its socket.
    pub(crate) fn deliver(&mut self, number: Number, datagram: Datagram) {
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.take(datagram);
        }
    }

    /// Puts a datagram into the queue of those that are to go.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`]: it does not go.
    pub(crate) fn send(&mut self, number: Number, from_port: u16, datagram: Datagram) -> Result<(), SocketError> {
        self.unsent.try_reserve(1).map_err(|_| SocketError::NoMemory)?;
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.unsent_bytes += datagram.cost();
            socket.update(false);
            self.unsent.push_back((number, from_port, datagram));
        }
        Ok(())
    }

    /// A peer says that nobody has the port that `number` sent to.
    pub(crate) fn refused(&mut self, own: Name, peer: Name) {
        let there = self.ports.get(&own.1).into_iter().flatten().copied();
        let connected: Vec<Number> =
            there.filter(|number| self.sockets.get(number).is_some_and(|socket| socket.peer == Some(peer))).collect();
        for number in connected {
            if let Some(socket) = self.sockets.get_mut(&number) {
                socket.fail(SocketError::Refused);
            }
        }
    }

    /// Whether nothing is to go.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Forgets what is to go.
    pub(crate) fn forget_unsent(&mut self) {
        while let Some((number, _, datagram)) = self.unsent.pop_front() {
            self.sent(number, &datagram);
        }
        give_back(&mut self.unsent);
    }

    fn sent(&mut self, number: Number, datagram: &Datagram) {
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.unsent_bytes -= datagram.cost();
            socket.update(false);
        }
    }

    /// Sends what there is to send, until the device has no room or `budget` frames have gone. Returns what is left of
    /// that. A datagram for all goes to each other node of the job in turn, as no other station is to hear of it.
    pub(crate) fn transmit<D: Device>(
        &mut self,
        now: Instant,
        device: &mut Framed<D>,
        job: &JobNetwork,
        mut budget: usize,
    ) -> usize {
        device.realm = Realm::Job;
        while budget > 0
            && let Some((_, port, datagram)) = self.unsent.front_mut()
        {
            let source = (job.own().address(), *port);
            if let Some(copies) = &mut datagram.copies {
                copies.0 += u32::from(*copies == job.own());
                if copies.0 < job.count() {
                    let Some(token) = device.transmit_to(now, *copies) else { break };
                    copies.0 += 1;
                    budget -= 1;
                    emit(source, datagram, token);
                    continue;
                }
            } else {
                let Some(token) = device.transmit(now) else { break };
                budget -= 1;
                emit(source, datagram, token);
            }
            if let Some((number, _, datagram)) = self.unsent.pop_front() {
                self.sent(number, &datagram);
            }
        }
        give_back(&mut self.unsent);
        budget
    }
}

/// Places that a queue keeps when it is empty.
const PLACES_KEPT: usize = 16;

/// Gives the memory of a queue that was long back when it is empty.
fn give_back<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > PLACES_KEPT {
        *queue = VecDeque::new();
    }
}

/// Puts a datagram onto the wire.
fn emit((source, source_port): Name, datagram: &Datagram, token: impl TxToken) {
    let (destination, dst_port) = datagram.peer;
    let udp = UdpRepr { src_port: source_port, dst_port };
    let ip = Ipv4Repr {
        src_addr: source,
        dst_addr: destination,
        next_header: IpProtocol::Udp,
        payload_len: udp.header_len() + datagram.bytes.len(),
        hop_limit: HOP_LIMIT,
    };
    let checksums = ChecksumCapabilities::default();
    token.consume(HEADERS_BYTES + datagram.bytes.len(), |packet| {
        let mut packet = Ipv4Packet::new_unchecked(packet);
        ip.emit(&mut packet, &checksums);
        let mut payload = UdpPacket::new_unchecked(packet.payload_mut());
        let fill = |payload: &mut [u8]| payload.copy_from_slice(&datagram.bytes);
        udp.emit(&mut payload, &source.into(), &destination.into(), datagram.bytes.len(), fill, &checksums);
    });
}
