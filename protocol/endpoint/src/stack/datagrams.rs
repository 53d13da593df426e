//! Datagrams that came over the wire, and word of those that nobody wanted.

use core::net::Ipv4Addr;

use smoltcp::wire::{Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, IpProtocol, Ipv4Packet, UdpPacket};

use super::net::Net;
use crate::local::Name;

/// What became of a datagram.
pub(crate) enum Taken {
    /// Nobody has the port, and the sender is to hear of it.
    Nobodys,
    /// Somebody got it, or it is as if it never came.
    Done,
}

impl Net {
    /// Takes a datagram that came over the wire.
    pub(crate) fn take_datagram(&mut self, own: Ipv4Addr, packet: &Ipv4Packet<&[u8]>) -> Taken {
        let (source, destination) = (packet.src_addr(), packet.dst_addr());
        let Ok(udp) = UdpPacket::new_checked(packet.payload()) else { return Taken::Done };
        let is_whole = packet.verify_checksum() && udp.verify_checksum(&source.into(), &destination.into());
        if !is_whole || source.is_unspecified() || self.is_broadcast(source) {
            return Taken::Done;
        }
        let (from, to) = ((source, udp.src_port()), (destination, udp.dst_port()));
        if destination == own {
            let Some(socket) = self.datagrams.find(from, to) else { return Taken::Nobodys };
            self.hand_over(socket, from, udp.payload());
        } else if self.is_broadcast(destination) {
            for socket in self.datagrams.find_all(from, to.1) {
                self.hand_over(socket, from, udp.payload());
            }
        }
        Taken::Done
    }

    /// Copies a datagram into a socket's queue; without memory it is lost.
    fn hand_over(&mut self, socket: crate::datagrams::Number, from: Name, payload: &[u8]) {
        if let Ok(mut datagram) = self.datagram(payload.len(), from) {
            datagram.bytes.copy_from_slice(payload);
            self.datagrams.deliver(socket, datagram);
        }
    }

    /// Takes word from a peer that nobody has a port that was sent to. False if the message is something else.
    pub(crate) fn take_refusal(&mut self, own: Ipv4Addr, packet: &Ipv4Packet<&[u8]>) -> bool {
        let Ok(icmp) = Icmpv4Packet::new_checked(packet.payload()) else { return false };
        let says_so = icmp.msg_type() == Icmpv4Message::DstUnreachable
            && Icmpv4DstUnreachable::from(icmp.msg_code()) == Icmpv4DstUnreachable::PortUnreachable;
        if !says_so {
            return false;
        }
        if packet.dst_addr() == own
            && icmp.verify_checksum()
            && let Some((sender, peer)) = quoted(icmp.data())
            && sender.0 == own
            && peer.0 == packet.src_addr()
        {
            self.datagrams.refused(sender, peer);
        }
        true
    }
}

/// Whom a datagram was from and for whose first bytes these are.
fn quoted(bytes: &[u8]) -> Option<(Name, Name)> {
    let header_bytes = usize::from(bytes.first()? & 0xf) * 4;
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(at..at + 4)?).ok()?));
    let port = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let is_udp = *bytes.get(9)? == u8::from(IpProtocol::Udp);
    let names = ((address(12)?, port(header_bytes)?), (address(16)?, port(header_bytes + 2)?));
    is_udp.then_some(names)
}
