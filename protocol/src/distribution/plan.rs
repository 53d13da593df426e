//! What all members of a transfer know before it begins.

use super::pieces::PacketSet;
use super::scheme::Scheme;
use crate::ids::Generation;
use crate::limits::{MEMBERS_PER_TRANSFER_MAX, PIECE_NS_MAX, PIECES_PER_TRANSFER_MAX};
use crate::program::tree::NODE_BYTES;
use crate::trees::{Branches, Topology, TreesOverPsets};

/// A transfer, unlike any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId {
    /// Its number, given by whoever ordered it.
    pub number: u64,
    /// How often it was begun.
    pub generation: Generation,
}

/// A link as the members believe it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bandwidth, bytes/s, at least 1.
    pub bytes_per_second: u64,
    /// Time that a packet takes from one member to another beside what the bandwidth makes of it, ns.
    pub latency_ns: u32,
    /// How long a member may stand still, as a machine does whose host has other things to do, without being taken for
    /// dead or late, ns.
    pub stall_ns: u32,
}

/// See this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which transfer.
    pub transfer: TransferId,
    /// Length of what is transferred, bytes.
    pub bytes: u64,
    /// Length of every piece but the last, bytes.
    pub piece_bytes: u32,
    /// Bytes of a piece in a packet.
    pub packet_bytes: u32,
    /// Bytes of a packet on the link beside those.
    pub overhead_bytes: u32,
    /// Members beside home, which is 0: 1 to this.
    pub members: u32,
    /// Which of them are near each other, if anything is known of that.
    pub topology: Topology,
    /// How.
    pub scheme: Scheme,
    /// Over what.
    pub link: Link,
}

/// Why a plan is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing to send, or a length of 0 somewhere.
    #[error("a transfer has bytes, pieces, packets and a bandwidth")]
    Empty,
    /// More than [`PIECES_PER_TRANSFER_MAX`].
    #[error("{0} pieces are more than {PIECES_PER_TRANSFER_MAX}")]
    Pieces(u64),
    /// More than a [`PacketSet`] has room for.
    #[error("{0} packets of a piece are more than {max}", max = PacketSet::PACKETS_MAX)]
    Packets(u32),
    /// A packet that no datagram can carry.
    #[error("packets of {0} bytes are longer than a datagram")]
    Packet(u64),
    /// A piece takes longer than [`PIECE_NS_MAX`].
    #[error("a piece takes {0} ns on the link, more than {PIECE_NS_MAX}")]
    Slow(u64),
    /// None, or more than [`MEMBERS_PER_TRANSFER_MAX`].
    #[error("{0} members, of 1 to {MEMBERS_PER_TRANSFER_MAX}")]
    Members(u32),
    /// Its psets have other members.
    #[error("{0} members, of psets with {1}")]
    Psets(u32, u32),
}

impl Plan {
    /// Whether it is one that can be carried out.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn check(&self) -> Result<(), PlanError> {
        if [self.bytes, self.piece_bytes.into(), self.packet_bytes.into(), self.link.bytes_per_second].contains(&0) {
            return Err(PlanError::Empty);
        }
        let pieces = self.bytes.div_ceil(self.piece_bytes.into());
        if pieces > PIECES_PER_TRANSFER_MAX.into() {
            return Err(PlanError::Pieces(pieces));
        }
        // One more than those of its bytes.
        let packets = self.piece_bytes.div_ceil(self.packet_bytes).saturating_add(1);
        if packets > PacketSet::PACKETS_MAX {
            return Err(PlanError::Packets(packets));
        }
        let packet = u64::from(self.packet_bytes) + u64::from(self.overhead_bytes);
        if packet > u16::MAX.into() {
            return Err(PlanError::Packet(packet));
        }
        let piece_ns = self.piece_ns().max(self.link.latency_ns.into());
        if piece_ns > PIECE_NS_MAX {
            return Err(PlanError::Slow(piece_ns));
        }
        if !(1..=MEMBERS_PER_TRANSFER_MAX).contains(&self.members) {
            return Err(PlanError::Members(self.members));
        }
        if let Some(of_psets) = self.topology.members().filter(|of_psets| *of_psets != self.members) {
            return Err(PlanError::Psets(self.members, of_psets));
        }
        Ok(())
    }

    /// How many pieces there are.
    #[must_use]
    pub fn pieces(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(self.piece_bytes.max(1).into())).unwrap_or(u32::MAX)
    }

    /// Length of a piece, bytes; 0 if it does not exist.
    #[must_use]
    pub fn piece_length(&self, piece: u32) -> u32 {
        let rest = self.bytes.saturating_sub(u64::from(piece) * u64::from(self.piece_bytes));
        u32::try_from(rest).unwrap_or(u32::MAX).min(self.piece_bytes)
    }

    /// How many packets the bytes of a piece take.
    fn data_packets(&self, piece: u32) -> u32 {
        self.piece_length(piece).div_ceil(self.packet_bytes.max(1))
    }

    /// Length of what shows that a piece belongs to the file: the nodes of its hash tree beside the way from the piece
    /// to its root, at most. They come as the last packet of the piece.
    #[must_use]
    pub fn proof_bytes(&self) -> u32 {
        self.pieces().next_power_of_two().ilog2() * NODE_BYTES as u32
    }

    /// The packets of a piece: its bytes, and its proof, if there are several pieces.
    #[must_use]
    pub fn packets(&self, piece: u32) -> PacketSet {
        match self.data_packets(piece) {
            0 => PacketSet::default(),
            packets => PacketSet::first(packets + u32::from(self.proof_bytes() > 0)),
        }
    }

    /// Length of a packet, the most that it can be if it is a proof; `None` if there is none such.
    #[must_use]
    pub fn packet_length(&self, piece: u32, packet: u32) -> Option<u32> {
        let data = self.data_packets(piece);
        if packet < data {
            return Some((self.piece_length(piece) - packet * self.packet_bytes).min(self.packet_bytes));
        }
        Some(self.proof_bytes()).filter(|bytes| packet == data && data > 0 && *bytes > 0)
    }

    /// Whether a packet is the proof of its piece.
    #[must_use]
    pub fn is_proof(&self, piece: u32, packet: u32) -> bool {
        packet == self.data_packets(piece) && packet > 0
    }

    /// Bytes on the link that some packets of a piece are.
    #[must_use]
    pub fn wire_bytes(&self, piece: u32, packets: PacketSet) -> u64 {
        let all = self.packets(piece);
        if packets == all {
            let proof = if all.is_empty() { 0 } else { self.proof_bytes() };
            return u64::from(self.piece_length(piece) + proof) + u64::from(all.count() * self.overhead_bytes);
        }
        let length = |packet| self.packet_length(piece, packet).unwrap_or(0) + self.overhead_bytes;
        packets.within(all).numbers().map(|packet| u64::from(length(packet))).sum()
    }

    /// How long bytes take on the link, ns.
    #[must_use]
    pub const fn link_ns(&self, bytes: u64) -> u64 {
        let ns = bytes as u128 * 1_000_000_000 / self.link.bytes_per_second as u128;
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }

    /// How long a whole piece takes on the link, ns.
    #[must_use]
    pub fn piece_ns(&self) -> u64 {
        self.link_ns(self.wire_bytes(0, self.packets(0))).max(1)
    }

    /// The two trees over its members.
    #[must_use]
    pub fn two_trees(&self) -> TreesOverPsets {
        TreesOverPsets::new(self.members, &self.topology)
    }

    /// The branches that its members are in, at most so many.
    #[must_use]
    pub fn branches(&self, branches: u32, layers: u8) -> Branches {
        Branches::new(self.members, branches.min(self.pieces()), layers.into())
    }
}
