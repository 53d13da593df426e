//! What members say to each other beside pieces.

use super::pieces::{PacketSet, PieceSet};
use super::ranges::MemberRanges;

/// See this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Send me these packets of a piece.
    Ask {
        /// Which piece.
        piece: u32,
        /// Which packets.
        packets: PacketSet,
    },
    /// Send me any piece that is not among these.
    AskAny {
        /// What I have, or am getting.
        has: PieceSet,
    },
    /// I do not have it, or nothing of it if no piece was named.
    NotHere {
        /// What was asked for.
        piece: Option<u32>,
    },
    /// I have it and too much to do; ask somebody else, or later.
    Busy {
        /// What was asked for.
        piece: Option<u32>,
    },
    /// Send me no more pieces of this tree unasked.
    Leave {
        /// 0 or 1.
        tree: u8,
    },
    /// Whoever was to pass pieces of a tree on to me is silent or fails: send them to me, and nothing more to it.
    Adopt {
        /// 0 or 1.
        tree: u8,
        /// Who that is.
        instead_of: u32,
        /// The first piece that I lack.
        first: u32,
        /// It is slow, or sends what is wrong. If it is only silent, ask it first whether it is there.
        is_sure: bool,
    },
    /// I do so from now on.
    Adopted {
        /// 0 or 1.
        tree: u8,
    },
    /// Others get what I passed on to you, as you were silent or slow: ask for what you lack.
    Dropped {
        /// 0 or 1.
        tree: u8,
    },
    /// One that passes pieces on to you is slow, or silent: ask whoever stands in for it.
    Failing {
        /// 0 or 1.
        tree: u8,
        /// Who that is.
        who: u32,
    },
    /// What you passed on to me has come up to this piece, or is lost.
    Arrived {
        /// The last one of which something came.
        piece: u32,
        /// Of how many others of its tree something came and something is missing.
        open: u32,
    },
    /// These are whole.
    Whole {
        /// Who.
        members: MemberRanges,
    },
    /// I have heard of so many that are.
    Heard {
        /// How many of those that were named.
        count: u32,
    },
    /// All are whole or lost: who wants to leave may.
    Over,
    /// Are you there?
    Probe,
    /// I am, with so many pieces.
    Present {
        /// How many.
        pieces: u32,
    },
}
