//! The super-block and the headers of slots.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{BLOCK_BYTES, HEADER_BYTES, VERSION, seal, unseal};
use crate::ids::JobId;

/// What a region begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuperBlock {
    magic: [u8; 8],
    version: u32,
    bytes: u64,
}

const MAGIC: [u8; 8] = *b"coppice\n";

impl SuperBlock {
    /// That of a region of this length.
    #[must_use]
    pub const fn of(bytes: u64) -> Self {
        Self { magic: MAGIC, version: VERSION, bytes }
    }

    /// As it is written.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        seal(self)
    }

    /// Whether a region that begins so, with [`HEADER_BYTES`], is one of this version and length.
    #[must_use]
    pub fn is_at(header: &[u8], bytes: u64) -> bool {
        unseal::<Self>(header) == Some(Self::of(bytes))
    }
}

/// Whose a slot is, and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The node's, which writes objects.
    Filling,
    /// The I/O node's: all that the table says is there.
    Local,
    /// The I/O node's: all of it is in the storage too, and there is an index.
    Drained,
}

/// Which filling of which slot: whoever has an older one gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotKey {
    /// The slot, less than [`super::SLOTS`].
    pub slot: u8,
    /// What no other filling has: the number of whoever led the checkpoint.
    pub key: u64,
}

/// A run of bytes in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Where it begins, bytes from the start of the region.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Their [`super::check`].
    pub check: u64,
}

impl Extent {
    /// Whether it lies in blocks of a region of this length.
    #[must_use]
    pub fn fits(&self, region_bytes: u64) -> bool {
        let end = self.offset.checked_add(self.bytes);
        self.offset >= BLOCK_BYTES && end.is_some_and(|end| end <= region_bytes / BLOCK_BYTES * BLOCK_BYTES)
    }
}

/// What the header of a slot says. One that cannot be read is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// How far it is.
    pub state: State,
    /// The job whose it is.
    pub job: JobId,
    /// As in [`SlotKey`].
    pub key: u64,
    /// The [`super::Table`]; nothing while it is filled.
    pub table: Extent,
    /// The room that the node left for the [`super::index`], with no check: [`super::Table::index_bytes_max`]. When it
    /// is drained, the index itself, which the room begins with; the rest of the room is still the slot's, as the
    /// listings lie there ([`super::Blocks::use_slot`]).
    pub index: Extent,
}

impl Slot {
    /// As it is written.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let bytes = seal(self);
        debug_assert!(bytes.len() as u64 <= HEADER_BYTES);
        bytes
    }

    /// What a header says, of [`HEADER_BYTES`], in a region of this length. `None`: the slot is empty.
    #[must_use]
    pub fn read(header: &[u8], region_bytes: u64) -> Option<Self> {
        let slot: Self = unseal(header)?;
        let fits = slot.state == State::Filling || slot.table.fits(region_bytes) && slot.index.fits(region_bytes);
        fits.then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: u64 = 64 * BLOCK_BYTES;

    fn slot() -> Slot {
        let table = Extent { offset: BLOCK_BYTES, bytes: 100, check: 7 };
        let index = Extent { offset: 2 * BLOCK_BYTES, bytes: 1000, check: 0 };
        Slot { state: State::Local, job: JobId(3), key: 9, table, index }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_no_other() {
        let mut page = alloc::vec![0; HEADER_BYTES as usize];
        assert_eq!(Slot::read(&page, REGION), None, "nothing was ever written");
        let written = slot().bytes();
        page[..written.len()].copy_from_slice(&written);
        assert_eq!(Slot::read(&page, REGION), Some(slot()));
        for bit in 0..written.len() * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Slot::read(&page, REGION), None, "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        for torn in 0..written.len() {
            let mut page = page.clone();
            page[torn..].fill(0);
            // Its last bytes may be zeros anyway.
            let is_whole = page.starts_with(&written);
            assert_eq!(Slot::read(&page, REGION).is_some(), is_whole, "{torn} bytes of it");
        }
        assert_eq!(Slot::read(&page, 2 * BLOCK_BYTES), None, "its index would be outside");
    }

    #[test]
    fn a_region_of_another_length_or_version_is_none() {
        let mut page = SuperBlock::of(REGION).bytes();
        assert!(SuperBlock::is_at(&page, REGION));
        assert!(!SuperBlock::is_at(&page, REGION * 2));
        let other = SuperBlock { version: VERSION + 1, ..SuperBlock::of(REGION) };
        page = seal(&other);
        assert!(!SuperBlock::is_at(&page, REGION));
    }

    #[test]
    fn extents_lie_in_blocks() {
        let fits = |offset, bytes| Extent { offset, bytes, check: 0 }.fits(REGION + 5);
        assert!(fits(BLOCK_BYTES, REGION - BLOCK_BYTES));
        assert!(!fits(BLOCK_BYTES, REGION - BLOCK_BYTES + 1), "it ends behind the last block");
        assert!(!fits(0, 1), "headers are there");
        assert!(!fits(u64::MAX, 2));
    }
}
