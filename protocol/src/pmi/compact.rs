//! Puts as few bytes: what nodes tell each other in a barrier is much the same for all ranks.
//!
//! Keys and values of different ranks differ in a few bytes, mostly the same ones: a port, an address, a number. So a
//! body says once what they have alike and where they differ, and then what they have there ([`rows`], [`holes`]).
//! Where they differ in numbers that are written with more or fewer digits, as in `description#node3$port#43211$`, they
//! have a *pattern* ([`pattern`]), and of the numbers the differences from those before are said. What is like nothing
//! before in that way is said by how it begins and ends ([`text`]). Names of nodes are in no body, but their indices.
//!
//! ```text
//! body:  an item for each key, and one for its value, until the end
//! item:  number  what follows
//!        0       a difference: the index of the node that put what follows, from the one before or 0; then a key
//!        1       which row it is like, from 1, and how many bytes of its last it has at the beginning and at the
//!                end; or 0; then the length of what is between, and the bytes; it begins a row
//!        2, 3    the same, the bytes being pairs of hexadecimal digits, small or capital
//!        4       the next pattern: how many numbers it has, lengths and bytes of the texts before, between and behind
//!                them; then as below
//!        5 + i   the next of row i, of those of keys or those of values: what is in its holes
//!        13 + i  the same with other holes: for each how many bytes before it are as they were, and its form and
//!                length; how many are behind the last one; and what is in them
//!        21 + i  pattern i: for each number its difference from that of the last item of this pattern, or 0
//! ```
//!
//! Numbers are as in [`number`]. A body stands alone, as frames come in any order. A pattern is said when it comes the
//! second time, as most that come once do not come again. A few bytes may stand for many: whoever reads a body looks at
//! each key and value, and at the sum, before they take memory.

mod digits;
mod holes;
mod items;
mod number;
mod packer;
mod pattern;
mod rows;
mod text;

use alloc::boxed::Box;
use alloc::vec::Vec;

use self::items::Items;
use self::number::{Reader, further};
use self::packer::Packer;
use super::frame::PeerError;
use super::space::Put;
use crate::limits::{
    PMI_BYTES_PER_JOB_MAX, PMI_KEY_BYTES_MAX, PMI_KEYS_PER_JOB_MAX, PMI_ROWS_MAX, PMI_VALUE_BYTES_MAX,
};

const ORIGIN: u64 = 0;
const PLAIN: u64 = 1;
const LOWER: u64 = 2;
const UPPER: u64 = 3;
const NEW_PATTERN: u64 = 4;
const FILLING: u64 = 5;
const HOLES: u64 = FILLING + PMI_ROWS_MAX as u64;
const FIRST_PATTERN: u64 = HOLES + PMI_ROWS_MAX as u64;

/// A put: of which node, the key and the value.
pub type Card = (u32, Box<[u8]>, Box<[u8]>);

/// An item is compared with those before it of its kind.
#[derive(Clone, Copy)]
enum Kind {
    Key,
    Value,
}

impl Kind {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Key => PMI_KEY_BYTES_MAX,
            Self::Value => PMI_VALUE_BYTES_MAX,
        }
    }
}

/// What is done to make bodies short; without any of it only indices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measures {
    /// Say patterns and numbers.
    pub patterns: bool,
    /// Leave out what begins or ends as the one before.
    pub front: bool,
    /// Leave out what is the same in any place, as one of several before.
    pub holes: bool,
    /// Pack hexadecimal digits.
    pub hexadecimal: bool,
}

impl Measures {
    /// As frames have it.
    pub const ALL: Self = Self { patterns: true, front: true, holes: true, hexadecimal: true };
}

/// The bodies of as many frames as these puts need, at least one: of which node, the key and the value.
///
/// # Errors
/// [`PeerError::OutOfMemory`].
pub fn pack<'a>(
    puts: impl IntoIterator<Item = (u32, &'a [u8], &'a [u8])>,
    measures: Measures,
) -> Result<Vec<Vec<u8>>, PeerError> {
    let (mut bodies, mut puts) = (Vec::new(), puts.into_iter().peekable());
    if puts.peek().is_none() {
        // As most are: no memory is taken for one.
        return Ok(Vec::from([Vec::new()]));
    }
    let mut packer = Packer::new(measures)?;
    for (origin, key, value) in puts {
        if !packer.push(origin, key, value) {
            bodies.push(core::mem::replace(&mut packer, Packer::new(measures)?).body);
            // The longest put fits in.
            packer.push(origin, key, value);
        }
    }
    bodies.push(packer.body);
    Ok(bodies)
}

/// What is in a body, as [`pack`] has it, if that is no more than a job may put.
///
/// # Errors
/// [`PeerError::Nonsense`].
pub fn unpack(body: &[u8]) -> Result<Vec<Card>, PeerError> {
    let (mut room, mut puts) = (Room::default(), Vec::new());
    unpack_with(body, |origin, Put { key, value }| {
        room.take(key.len() + value.len())?;
        puts.push((origin, key, value));
        Ok(())
    })?;
    Ok(puts)
}

/// What a job may put beyond what was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    keys: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { keys: PMI_KEYS_PER_JOB_MAX, bytes: PMI_BYTES_PER_JOB_MAX }
    }
}

impl Room {
    /// Takes what a key with its value needs.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), PeerError> {
        let left = self.keys.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        (self.keys, self.bytes) = left.ok_or(PeerError::Nonsense("more than a job may put"))?;
        Ok(())
    }
}

/// Gives what is in a body to `take`, one put after the other, each within the limits, until that is an error.
///
/// # Errors
/// [`PeerError::Nonsense`]: some may have been given before that; and what `take` says.
pub(super) fn unpack_with(
    body: &[u8],
    mut take: impl FnMut(u32, Put) -> Result<(), PeerError>,
) -> Result<(), PeerError> {
    let nonsense = PeerError::Nonsense("body");
    let (mut reader, mut items) = (Reader(body), Items::default());
    let mut origin = 0_u32;
    while !reader.is_empty() {
        let mut head = reader.number().ok_or(nonsense)?;
        if head == ORIGIN {
            let index = further(origin.into(), reader.number().ok_or(nonsense)?);
            origin = index.try_into().map_err(|_| nonsense)?;
            head = reader.number().ok_or(nonsense)?;
        }
        let key = items.item(&mut reader, head, Kind::Key).ok_or(nonsense)?;
        let head = reader.number().ok_or(nonsense)?;
        let value = items.item(&mut reader, head, Kind::Value).ok_or(nonsense)?;
        let entry = Put { key, value };
        if !entry.is_within_limits() {
            return Err(nonsense);
        }
        take(origin, entry)?;
    }
    Ok(())
}
