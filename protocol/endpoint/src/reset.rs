//! The answer to a segment of a connection that no job here has: a reset (RFC 9293, 3.10.7.1), made of the segment
//! alone.

use core::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber};

/// Length of the packet of a segment without bytes, bytes: two headers without options.
pub(crate) const BARE_BYTES: usize = 40;

const HOP_LIMIT: u8 = 64;

/// See this module.
pub(crate) struct Reset {
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    sequence: TcpSeqNumber,
    acknowledged: Option<TcpSeqNumber>,
}

impl Reset {
    /// What `packet` is answered with. `None`: nothing, as it is no segment, or a reset itself.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let ip = Ipv4Packet::new_checked(packet).ok()?;
        if ip.next_header() != IpProtocol::Tcp || ip.more_frags() || ip.frag_offset() != 0 {
            return None;
        }
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        if tcp.rst() || !ip.verify_checksum() || !tcp.verify_checksum(&from.into(), &to.into()) {
            return None;
        }
        let (source, destination) = ((to, tcp.dst_port()), (from, tcp.src_port()));
        if source.1 == 0 || destination.1 == 0 {
            return None;
        }
        let (sequence, acknowledged) = match tcp.ack() {
            true => (tcp.ack_number(), None),
            false => (TcpSeqNumber(0), Some(tcp.seq_number() + tcp.segment_len())),
        };
        Some(Self { source, destination, sequence, acknowledged })
    }

    /// Writes it into as many bytes as it has.
    pub(crate) fn emit(&self, packet: &mut [u8]) {
        let segment = Bare {
            source: self.source,
            destination: self.destination,
            control: TcpControl::Rst,
            sequence: self.sequence,
            acknowledged: self.acknowledged,
            window: 0,
        };
        segment.emit(packet);
    }
}

/// A segment without bytes or options.
pub(crate) struct Bare {
    pub(crate) source: (Ipv4Addr, u16),
    pub(crate) destination: (Ipv4Addr, u16),
    pub(crate) control: TcpControl,
    pub(crate) sequence: TcpSeqNumber,
    pub(crate) acknowledged: Option<TcpSeqNumber>,
    /// As it stands in the segment.
    pub(crate) window: u16,
}

impl Bare {
    /// Writes its packet into [`BARE_BYTES`] bytes.
    pub(crate) fn emit(&self, packet: &mut [u8]) {
        let checksums = ChecksumCapabilities::default();
        let tcp = TcpRepr {
            src_port: self.source.1,
            dst_port: self.destination.1,
            control: self.control,
            seq_number: self.sequence,
            ack_number: self.acknowledged,
            window_len: self.window,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let ip = Ipv4Repr {
            src_addr: self.source.0,
            dst_addr: self.destination.0,
            next_header: IpProtocol::Tcp,
            payload_len: tcp.buffer_len(),
            hop_limit: HOP_LIMIT,
        };
        let mut packet = Ipv4Packet::new_unchecked(packet);
        ip.emit(&mut packet, &checksums);
        let mut segment = TcpPacket::new_unchecked(packet.payload_mut());
        tcp.emit(&mut segment, &self.source.0.into(), &self.destination.0.into(), &checksums);
    }
}
