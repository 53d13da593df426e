//! A node's region: a file of the host that the node's machine shows it as memory and writes for it as a disk, which
//! outlives the machine. Checkpoints lie there first, and the I/O node pulls them from there: the node does nothing for
//! it.
//!
//! The region begins with a [`SuperBlock`], then there are [`SLOTS`] headers ([`Slot`]), a page each; these fill the
//! first *block*. In the blocks behind, of [`BLOCK_BYTES`] each, lie objects, tables and indices. A slot is one
//! checkpoint of what the node has of one job:
//!
//! 1. The node takes a slot that is empty and fills it: objects first, then the [`Table`] of them, last the header that
//!    says so ([`State::Local`]). Until then there is nothing.
//! 2. The service node has the I/O node pull it: it reads each object, holds it against what the table says, stores it,
//!    writes an [`index`] of their names, and last the header that says so ([`State::Drained`]).
//! 3. When a newer checkpoint is complete, or the checkpoint is deleted, the I/O node wipes the slot: its blocks, and
//!    last its header, which is then empty. One that was given up, or that the node was filling when it went, the node
//!    empties itself, and makes zeros of all that no slot has.
//!
//! So a slot is the node's while it is empty or being filled, and the I/O node's from then on: nothing is ever written
//! by both. Which blocks are used is not written down, but follows from the tables. A table may name objects that an
//! older slot has, too; blocks are wiped when no slot has them. What is torn, damaged or of another version is not
//! there.

mod blocks;
pub mod index;
mod slot;
mod table;

pub use self::blocks::Blocks;
pub use self::slot::{Extent, Slot, SlotKey, State, SuperBlock};
pub use self::table::{NoTable, Section, Table, TablePart};

use alloc::vec::Vec;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checkpoint::OBJECT_BYTES_MAX;

/// Version of what is written here.
pub const VERSION: u32 = 2;

/// Bytes of a block: as many as an object has at most.
pub const BLOCK_BYTES: u64 = OBJECT_BYTES_MAX as u64;

/// Bytes of the super-block and of each header.
pub const HEADER_BYTES: u64 = 4096;

/// Checkpoints that a region has at most.
pub const SLOTS: u8 = 4;

/// Bytes of the smallest region.
pub const REGION_BYTES_MIN: u64 = 16 * BLOCK_BYTES;

const _: () = assert!(HEADER_BYTES * (SLOTS as u64 + 1) <= BLOCK_BYTES);

/// Bytes in front of what is sealed: the check, and the length.
const SEAL_BYTES: usize = 12;

/// What is held against the bytes of an extent: whether they are what was written, for whom nobody means ill.
#[must_use]
pub fn check(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

/// Where a slot's header is, bytes from the start.
#[must_use]
pub const fn header_offset(slot: u8) -> u64 {
    (slot as u64 + 1) * HEADER_BYTES
}

/// A header as bytes: whether it is whole can be seen.
fn seal(value: &impl Serialize) -> Vec<u8> {
    let mut sealed = alloc::vec![0; SEAL_BYTES];
    // Fails only for want of memory, for such as these; then it is none when it is read.
    sealed.extend(postcard::to_allocvec(value).unwrap_or_default());
    let length = u32::try_from(sealed.len() - SEAL_BYTES).unwrap_or(0);
    sealed[8..SEAL_BYTES].copy_from_slice(&length.to_le_bytes());
    let check = check(&sealed[8..]);
    sealed[..8].copy_from_slice(&check.to_le_bytes());
    sealed
}

/// What [`seal`] made; `None`: it is not whole, or there never was one.
fn unseal<Value: DeserializeOwned>(bytes: &[u8]) -> Option<Value> {
    let (seal, rest) = bytes.split_at_checked(SEAL_BYTES)?;
    let (wanted, length) = seal.split_first_chunk::<8>()?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    let end = SEAL_BYTES.checked_add(usize::try_from(length).ok()?)?;
    let is_whole = length > 0 && u64::from_le_bytes(*wanted) == check(bytes.get(8..end)?);
    is_whole.then(|| postcard::from_bytes(rest.get(..length as usize)?).ok())?
}
