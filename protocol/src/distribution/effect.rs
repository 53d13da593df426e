//! What a machine wants done.

use alloc::vec::Vec;

use super::message::Message;
use super::pieces::PacketSet;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send these packets of a piece.
    Send {
        /// To whom.
        to: u32,
        /// Which piece.
        piece: u32,
        /// Which packets.
        packets: PacketSet,
    },
    /// Say something.
    Say {
        /// To whom.
        to: u32,
        /// What.
        message: Message,
    },
    /// Look whether a piece, all of whose packets are there, is right; then [`Machine::checked`].
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
    /// It is over, once: at home when all members are whole or lost, at a member when it is whole, or is to give up.
    End(Outcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The member has all pieces; it goes on serving others.
    Whole,
    /// At home: all have everything but these, which do not answer, or get no further.
    All {
        /// Members, in no order.
        lost: Vec<u32>,
    },
    /// At a member: nothing came for too long.
    Silence,
}
