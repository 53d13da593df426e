//! What nodes of a job say to each other about what ranks have put ([`super::exchange`]), and about calls that they
//! make together ([`super::collective`]), and about what ranks are to be told ([`super::relay`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::call::CallId;
use super::dialect::Dialect;
use super::relay::Telling;
use super::word::Word;
use crate::ids::Rank;
use crate::limits::{PMIX_CARDS_BYTES_MAX, PMIX_PIECE_BYTES_MAX};
use crate::pmi::PeerError;

/// From one node to another, by their index in the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parcel {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) about: About,
}

/// What a parcel is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum About {
    /// The card of a rank.
    Card(Rank, Says),
    /// A call.
    Call(CallId, Word),
    /// What ranks are to be told.
    Event(Telling),
}

/// What is in a parcel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Says {
    /// The sender wants the card, written so, and wants to hear when there is another. It has asked so often before
    /// without hearing anything: each time a parcel goes another way, and so does the answer.
    Wants(Dialect, u32),
    /// A piece of it.
    Piece {
        /// Pieces of two versions do not fit together.
        version: u64,
        number: u32,
        count: u32,
        bytes: Box<[u8]>,
    },
    /// There is nothing yet.
    Nothing,
    /// There is something new.
    News,
    /// The rank has left, or writes otherwise: there will be nothing.
    Gone,
}

/// Pieces that a card has at most.
pub(super) const PIECES_MAX: u32 = (PMIX_CARDS_BYTES_MAX / PMIX_PIECE_BYTES_MAX) as u32 + 1;

impl Parcel {
    /// The body of a frame.
    pub(super) fn encode(&self) -> Result<Vec<u8>, PeerError> {
        // Plain data into a growing vector has no other way to fail.
        postcard::to_allocvec(self).map_err(|_| PeerError::OutOfMemory)
    }

    /// Understands the body of a frame in a job of so many nodes.
    pub(super) fn decode(body: &[u8], nodes: u32) -> Result<Self, PeerError> {
        let Ok((parcel, [])) = postcard::take_from_bytes::<Self>(body) else {
            return Err(PeerError::Nonsense("parcel"));
        };
        let is_within_limits = match &parcel.about {
            About::Card(_, Says::Piece { number, count, bytes, .. }) => {
                number < count && *count <= PIECES_MAX && bytes.len() <= PMIX_PIECE_BYTES_MAX
            }
            About::Card(_, Says::Wants(..) | Says::Nothing | Says::News | Says::Gone) => true,
            About::Call(_, word) => word.is_within_limits(),
            About::Event(telling) => telling.is_within_limits(nodes),
        };
        let are_two = parcel.from < nodes && parcel.to < nodes && parcel.from != parcel.to;
        if is_within_limits && are_two { Ok(parcel) } else { Err(PeerError::Nonsense("what a parcel says")) }
    }
}
