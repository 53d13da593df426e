//! What nodes say to each other about a call that ranks make together, and the pieces in which they say what is long.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::status::Status;
use crate::ids::Rank;
use crate::limits::{PMIX_COLLECTIVE_BYTES_MAX, PMIX_PIECE_BYTES_MAX, RANKS_PER_NODE_MAX};

/// What a piece takes of memory beyond its bytes, about.
const OVERHEAD_BYTES: usize = 128;

/// What nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    /// All members of the sender's node have come, or one of them cannot: a piece of what they bring.
    Brings {
        number: u64,
        /// Lower numbers of the sender are over.
        oldest: u64,
        /// Members of the leader's node.
        yours: Vec<Rank>,
        status: Status,
        piece: Piece,
    },
    /// The leader waits for others.
    Waits { number: u64 },
    /// The leader has heard from all: a piece of what came of it.
    Tells { number: u64, status: Status, serial: u64, piece: Piece },
    /// The sender has heard what came of it.
    Thanks { number: u64 },
    /// The leader waits for these members of the receiver's node.
    Misses { members: Vec<Rank> },
    /// They may come.
    MayCome,
}

/// A piece of some bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) place: u32,
    pub(super) count: u32,
    pub(super) bytes: Box<[u8]>,
}

/// Pieces of what a node may bring or be told at most.
const PIECES_MAX: u32 = (PMIX_COLLECTIVE_BYTES_MAX / PMIX_PIECE_BYTES_MAX) as u32 + 1;

impl Word {
    /// Whether what is in it is.
    pub(super) fn is_within_limits(&self) -> bool {
        let most = RANKS_PER_NODE_MAX as usize;
        match self {
            Self::Brings { piece, yours, .. } => piece.is_within_limits() && yours.len() <= most,
            Self::Tells { piece, .. } => piece.is_within_limits(),
            Self::Misses { members } => members.len() <= most,
            Self::Waits { .. } | Self::Thanks { .. } | Self::MayCome => true,
        }
    }
}

impl Piece {
    fn is_within_limits(&self) -> bool {
        self.place < self.count && self.count <= PIECES_MAX && self.bytes.len() <= PMIX_PIECE_BYTES_MAX
    }
}

/// Those of some bytes.
pub(super) fn pieces(bytes: &[u8]) -> impl Iterator<Item = Piece> {
    let count = bytes.len().div_ceil(PMIX_PIECE_BYTES_MAX).max(1) as u32;
    (0..count).map(move |place| {
        let from = place as usize * PMIX_PIECE_BYTES_MAX;
        let piece = bytes.get(from..bytes.len().min(from + PMIX_PIECE_BYTES_MAX)).unwrap_or_default();
        Piece { place, count, bytes: piece.into() }
    })
}

/// Pieces that have come.
#[derive(Debug, Default)]
pub(super) struct Assembly(BTreeMap<u32, Box<[u8]>>);

impl Assembly {
    /// Takes one; gives the whole when that was the last.
    pub(super) fn take(&mut self, piece: Piece) -> Option<Vec<u8>> {
        self.0.insert(piece.place, piece.bytes);
        (self.0.len() == piece.count as usize)
            .then(|| core::mem::take(&mut self.0).into_values().flatten().collect::<Vec<u8>>())
    }

    /// What it takes of memory, about, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(|piece| piece.len() + OVERHEAD_BYTES).sum()
    }
}
