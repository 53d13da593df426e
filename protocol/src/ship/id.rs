//! Which request a frame is about.

use crate::limits::{REQUESTS_IN_FLIGHT_MAX, REQUESTS_OWED_MAX};

/// A node's slots.
pub const SLOTS: usize = REQUESTS_IN_FLIGHT_MAX + REQUESTS_OWED_MAX;

/// The id of frames that are no answers: [`super::Notice`].
pub const NOTICE_ID: u64 = 0;

/// Bits of an id that name the slot.
const SLOT_BITS: u32 = 8;

const _: () = assert!(SLOTS <= 1 << SLOT_BITS);

/// A node's request. A node has [`SLOTS`] slots, each with one request under way at most; that of a
/// slot is told from the ones before it by its number, which grows for as long as the node is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    slot: usize,
    number: u64,
}

impl RequestId {
    /// The request of this number, from 1 on, in a slot below [`SLOTS`].
    #[must_use]
    pub const fn new(slot: usize, number: u64) -> Self {
        Self { slot, number }
    }

    /// What a frame's id says. `None`: it is no request's.
    #[must_use]
    pub const fn of_frame(id: u64) -> Option<Self> {
        let (slot, number) = ((id & ((1 << SLOT_BITS) - 1)) as usize, id >> SLOT_BITS);
        if slot < SLOTS && number > 0 { Some(Self { slot, number }) } else { None }
    }

    /// The id of its frames.
    #[must_use]
    pub const fn to_frame(self) -> u64 {
        self.number << SLOT_BITS | self.slot as u64
    }

    /// Its slot.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.slot
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }
}
