//! A [`Machine`] that speaks: datagrams in and out, with what it counts. It still has no bytes of the file.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::effect::{Effect, Outcome};
use super::machine::Machine;
use super::message::Message;
use super::packet::{Content, Envelope, PacketError, TransferKey, decode, encode};
use super::pieces::PacketSet;
use super::plan::Plan;
use crate::staging::Roster;

/// What a member has sent and heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets of pieces that it sent.
    pub packets_sent: u64,
    /// The same on the link, with all headers, bytes.
    pub bytes_sent: u64,
    /// Packets of pieces that came, those included that were there already.
    pub packets_received: u64,
    /// Pieces that it asked others for, as often as it did.
    pub asked: u64,
    /// Pieces, or packets of them, that others asked it for and that it sent.
    pub answered: u64,
    /// Pieces that were not those of the file.
    pub wrong: u64,
    /// What came of pieces from members of other psets, on the link with all headers, bytes.
    pub crossed_bytes: u64,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this datagram.
    Datagram {
        /// To whom.
        to: Ipv4Addr,
        /// What.
        bytes: Vec<u8>,
    },
    /// Send these packets of a piece: [`Party::packet`] makes datagrams of them.
    Packets {
        /// To which member.
        to: u32,
        /// Which piece.
        piece: u32,
        /// Which packets.
        packets: PacketSet,
    },
    /// Look whether a piece, all of whose packets are there, is right; then [`Party::checked`].
    Check {
        /// Which piece.
        piece: u32,
    },
    /// A piece was wrong.
    Wrong {
        /// Which piece.
        piece: u32,
        /// Who sent it, if it was one alone.
        from: Option<u32>,
    },
    /// It is over: see [`Effect::End`].
    End(Outcome),
}

/// See this module.
#[derive(Debug)]
pub struct Party {
    plan: Plan,
    key: TransferKey,
    roster: Roster,
    me: u32,
    machine: Machine,
    tally: Tally,
}

impl Party {
    /// Member `me` of a transfer, or home. `seed` is for its random choices. `None` if there is no memory.
    #[must_use]
    pub fn new(plan: &Plan, key: TransferKey, roster: Roster, me: u32, seed: u64, now_ns: u64) -> Option<Self> {
        let machine = Machine::new(plan, me, seed, now_ns)?;
        Some(Self { plan: plan.clone(), key, roster, me, machine, tally: Tally::default() })
    }

    /// What is known of the transfer beforehand.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Who its members are.
    #[must_use]
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Its machine.
    pub const fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// As [`Machine::is_needed`].
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.machine.is_needed()
    }

    /// What it counted.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        Tally { answered: self.machine.answered(), ..self.tally }
    }

    /// A datagram came from `source`. `keep` is called with a packet's bytes if they are to be kept.
    ///
    /// # Errors
    /// [`PacketError`]: it is as if it never came.
    pub fn receive(
        &mut self,
        source: Ipv4Addr,
        datagram: &[u8],
        now_ns: u64,
        keep: impl FnOnce(u32, u32, &[u8]),
    ) -> Result<(), PacketError> {
        let (envelope, content) = decode(&self.plan, &self.key, self.me, datagram)?;
        let Envelope { from, elapsed_ns, .. } = envelope;
        // Members have one key, and none shall be blamed for what another says.
        if self.roster.address(from) != Some(source) {
            return Err(PacketError::Address);
        }
        match content {
            Content::Packet { piece, packet, bytes } => {
                self.tally.packets_received += 1;
                if self.plan.topology.is_across(from, self.me) {
                    self.tally.crossed_bytes += bytes.len() as u64 + u64::from(self.plan.overhead_bytes);
                }
                let kept = self.machine.arrived(from, piece, PacketSet::one(packet), elapsed_ns, now_ns);
                if kept == PacketSet::one(packet) {
                    keep(piece, packet, bytes);
                }
            }
            Content::Message(message) => self.machine.heard(from, message, elapsed_ns, now_ns),
        }
        Ok(())
    }

    /// It was looked whether a piece is right.
    pub fn checked(&mut self, piece: u32, is_right: bool, now_ns: u64) {
        self.machine.checked(piece, is_right, now_ns);
    }

    /// What is to be done next. What cannot be said for want of memory is lost, as if on the way.
    pub fn next(&mut self, now_ns: u64) -> Option<Step> {
        loop {
            return Some(match self.machine.take()? {
                Effect::Send { to, piece, packets } => Step::Packets { to, piece, packets },
                Effect::Say { to, message } => {
                    let asks = matches!(message, Message::Ask { .. } | Message::AskAny { .. });
                    self.tally.asked += u64::from(asks);
                    let Some(datagram) = self.datagram(to, &Content::Message(message), now_ns) else { continue };
                    let (to, bytes) = datagram;
                    Step::Datagram { to, bytes }
                }
                Effect::Check { piece } => Step::Check { piece },
                Effect::Wrong { piece, from } => {
                    self.tally.wrong += 1;
                    Step::Wrong { piece, from }
                }
                Effect::End(outcome) => Step::End(outcome),
            });
        }
    }

    /// A packet of a piece for a member, and where that is. `None` if there is no memory for it.
    pub fn packet(
        &mut self,
        to: u32,
        piece: u32,
        packet: u32,
        bytes: &[u8],
        now_ns: u64,
    ) -> Option<(Ipv4Addr, Vec<u8>)> {
        self.tally.packets_sent += 1;
        self.tally.bytes_sent += bytes.len() as u64 + u64::from(self.plan.overhead_bytes);
        self.datagram(to, &Content::Packet { piece, packet, bytes }, now_ns)
    }

    fn datagram(&self, to: u32, content: &Content<'_>, now_ns: u64) -> Option<(Ipv4Addr, Vec<u8>)> {
        let envelope = Envelope { from: self.me, to, elapsed_ns: self.machine.elapsed_ns(now_ns) };
        let bytes = encode(self.plan.transfer, &self.key, envelope, content)?;
        Some((self.roster.address(to)?, bytes))
    }
}
