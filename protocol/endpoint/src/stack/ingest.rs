//! Packets that came: whose they are, and what is done with those that are nobody's.

use core::net::Ipv4Addr;

use coppice_protocol::ids::is_in_job_network;
use smoltcp::phy::{Device, DeviceCapabilities, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpPacket};

use super::aside::Aside;
use super::datagrams::Taken;
use super::net::{Net, new_socket};
use super::owner::Owner;
use super::settle::Cause;
use super::table::{Before, Key, Route};
use crate::accounts::Holding;
use crate::ethernet::Realm;
use crate::limits::USER_ACKNOWLEDGE_DELAY_NS;
use crate::{NetError, SocketError};

/// A packet that came, and room for the answer, as a device that has nothing else.
pub(crate) struct Single<'f, T> {
    pub(crate) packet: Option<&'f [u8]>,
    pub(crate) transmit: Option<T>,
}

impl<T: TxToken> Device for Single<'_, T> {
    type RxToken<'a>
        = Packet<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = T
    where
        Self: 'a;

    fn capabilities(&self) -> DeviceCapabilities {
        DeviceCapabilities::default()
    }

    fn receive(&mut self, _now: Instant) -> Option<(Packet<'_>, T)> {
        Some((Packet(self.packet.take()?), self.transmit.take()?))
    }

    fn transmit(&mut self, _now: Instant) -> Option<T> {
        self.transmit.take()
    }
}

pub(crate) struct Packet<'a>(&'a [u8]);

impl RxToken for Packet<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// What becomes of a segment.
enum Verdict {
    /// It is that socket's.
    For(Key),
    /// It is answered as the protocol has it for segments that nobody wants.
    Refused,
    /// It is as if it never came.
    Ignored,
}

/// Where a segment is from and to.
struct Segment {
    source: Ipv4Addr,
    source_port: u16,
    destination: Ipv4Addr,
    destination_port: u16,
    /// It asks for a connection.
    opens: bool,
}

impl Segment {
    /// Looks into `packet`; smoltcp looks again, and closer.
    fn of(packet: &Ipv4Packet<&[u8]>) -> Option<Self> {
        let tcp = TcpPacket::new_checked(packet.payload()).ok()?;
        Some(Self {
            source: packet.src_addr(),
            source_port: tcp.src_port(),
            destination: packet.dst_addr(),
            destination_port: tcp.dst_port(),
            opens: tcp.syn() && !tcp.ack() && !tcp.rst() && !tcp.fin(),
        })
    }
}

impl Net {
    /// Takes a packet that came over the wire, of this network. `transmit` is for the answer.
    pub(crate) fn take(&mut self, now: Instant, realm: Realm, packet: &[u8], transmit: impl TxToken) {
        let Ok(parsed) = Ipv4Packet::new_checked(packet) else { return };
        let own = match realm {
            Realm::Cluster => Some(self.address()),
            Realm::Job => self.job_address(),
        };
        let Some(own) = own else { return };
        let (source, destination) = (parsed.src_addr(), parsed.dst_addr());
        // Nobody puts this node's own addresses on a wire, no station of the cluster has an address of a job, and
        // nothing is sent here in pieces.
        let is_ours = source == own || source.is_loopback() || destination.is_loopback();
        let is_jobs = is_in_job_network(source);
        if is_ours || is_jobs != (realm == Realm::Job) || parsed.more_frags() || parsed.frag_offset() != 0 {
            return;
        }
        match parsed.next_header() {
            IpProtocol::Tcp if destination == own => {
                let Some(segment) = Segment::of(&parsed) else { return };
                match self.whose(now, realm, &segment) {
                    Verdict::For(key) => self.deliver(now, realm, key, packet, transmit),
                    Verdict::Refused => self.refuse(now, realm, packet, transmit),
                    Verdict::Ignored => {}
                }
            }
            IpProtocol::Tcp => {}
            IpProtocol::Udp if realm == Realm::Cluster => self.own_datagrams.take(own, &parsed),
            IpProtocol::Udp => match self.take_datagram(own, &parsed) {
                Taken::Nobodys => self.refuse(now, realm, packet, transmit),
                Taken::Done => {}
            },
            IpProtocol::Icmp if realm == Realm::Job && self.take_refusal(own, &parsed) => {}
            _ => self.refuse(now, realm, packet, transmit),
        }
    }

    /// Hands a packet to its socket.
    fn deliver(&mut self, now: Instant, realm: Realm, key: Key, packet: &[u8], transmit: impl TxToken) {
        let (Some(entry), Some(side)) = (self.table.get_mut(key), self.sides.get_mut(realm)) else { return };
        if entry.realm() != realm {
            return;
        }
        entry.heard(now);
        let Ok(ip) = Ipv4Packet::new_checked(packet) else { return };
        if TcpPacket::new_checked(ip.payload()).is_ok_and(|tcp| entry.says_nothing(&tcp)) {
            return;
        }
        let before = Before::of(entry.socket());
        let mut device = Single { packet: Some(packet), transmit: Some(transmit) };
        side.interface.poll_ingress_single(now, &mut device, &mut entry.set);
        self.settle(key, before, Cause::Packet);
        self.table.enqueue(key);
    }

    /// Has a packet answered that no socket wants.
    fn refuse(&mut self, now: Instant, realm: Realm, packet: &[u8], transmit: impl TxToken) {
        let Some(side) = self.sides.get_mut(realm) else { return };
        let mut device = Single { packet: Some(packet), transmit: Some(transmit) };
        side.interface.poll_ingress_single(now, &mut device, &mut self.nobody);
    }

    fn whose(&mut self, now: Instant, realm: Realm, segment: &Segment) -> Verdict {
        let route = Route::new(segment.source, segment.source_port, segment.destination_port);
        if let Some(key) = self.table.find(route) {
            if !segment.opens || !self.is_past(key) {
                return Verdict::For(key);
            }
            // The peer uses the port for a new connection.
            self.table.forget_route(key);
        }
        if segment.opens { self.offer(now, realm, segment, route) } else { Verdict::Refused }
    }

    /// Whether a connection is closed in both directions.
    fn is_past(&self, key: Key) -> bool {
        self.table.get(key).is_none_or(|entry| !entry.socket().is_open())
    }

    /// A peer asks for a connection: a socket for it, if somebody listens and has room.
    fn offer(&mut self, now: Instant, realm: Realm, segment: &Segment, route: Route) -> Verdict {
        if realm == Realm::Job && self.again.refuses(route, now) {
            return Verdict::Refused;
        }
        let found = self.listeners.find(segment.destination, segment.destination_port);
        let Some((place, listener)) = found.filter(|(_, listener)| listener.realm() == realm) else {
            return Verdict::Refused;
        };
        let (is_full, sizes) = (listener.is_full(), listener.sizes);
        let owner = Owner::Listener { place, ready: false, aside: Aside::default() };
        let made = match sizes {
            Some(_) if is_full => return Verdict::Refused,
            None if is_full => return Verdict::Ignored,
            Some(sizes) => self.add(sizes, owner).map_err(|_: NetError| ()),
            None => self.add_for_program(owner, segment.destination_port).map_err(|_: SocketError| ()),
        };
        let Ok(key) = made else { return Verdict::Ignored };
        if let Some(entry) = self.table.get_mut(key) {
            // A socket that is new, and a port that is not 0.
            let _ = entry.socket_mut().listen(segment.destination_port);
        }
        self.table.lead(route, key);
        if let Some(listener) = self.listeners.get_mut(place) {
            listener.making.push(key);
        }
        Verdict::For(key)
    }

    /// A socket for a connection that a program may accept.
    fn add_for_program(&mut self, owner: Owner, port: u16) -> Result<Key, SocketError> {
        let ticket = self.ticket()?;
        let ((receive, received), (transmit, transmitted)) = (self.accounts.ring()?, self.accounts.ring()?);
        let holding = Holding { ticket: Some(ticket), _rings: [received, transmitted] };
        let socket = new_socket(receive, transmit, USER_ACKNOWLEDGE_DELAY_NS);
        let key = self.table.add(socket, owner, Some(holding)).ok_or(SocketError::NoMemory)?;
        let claim = self.ports.accept(port);
        if let Some(entry) = self.table.get_mut(key) {
            entry.claim = Some(claim);
        }
        Ok(key)
    }
}
