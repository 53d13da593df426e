//! What a slot has: the parts of a checkpoint, and the objects of each.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Extent;
use crate::checkpoint::{LISTED_MAX, OBJECT_BYTES_MAX, ObjectId, PartOf};
use crate::ids::JobId;

/// An object of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Section {
    /// It lies here, and has no name yet.
    New(Extent),
    /// The storage has it, by this name; and it lies here, too, if anywhere.
    Known(ObjectId, Option<Extent>),
}

impl Section {
    /// Where it lies in the region.
    #[must_use]
    pub const fn extent(&self) -> Option<Extent> {
        match self {
            Self::New(extent) => Some(*extent),
            Self::Known(_, extent) => *extent,
        }
    }
}

/// A part of a checkpoint before its objects have names: see [`crate::checkpoint::Listing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePart {
    /// Of what.
    pub of: PartOf,
    /// Bytes of its record, whose objects are the first.
    pub record_bytes: u64,
    /// Objects in order.
    pub sections: Vec<Section>,
}

/// All parts that a node has of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The job.
    pub job: JobId,
    /// As in [`super::SlotKey`].
    pub key: u64,
    /// The parts.
    pub parts: Vec<TablePart>,
}

/// A table that is none, or that names what is not in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table of a region's slot is damaged")]
pub struct NoTable;

impl Table {
    /// What the bytes of a slot's table say, which are those that its header tells of, in a region of this length.
    ///
    /// # Errors
    /// They do not say one, or one of somebody else, or what cannot be.
    pub fn read(bytes: &[u8], slot: &super::Slot, region_bytes: u64) -> Result<Self, NoTable> {
        if bytes.len() as u64 != slot.table.bytes || super::check(bytes) != slot.table.check {
            return Err(NoTable);
        }
        let (table, rest): (Self, _) = postcard::take_from_bytes(bytes).map_err(|_| NoTable)?;
        let fits = |section: &Section| {
            let extent = section.extent();
            extent.is_none_or(|extent| extent.fits(region_bytes) && extent.bytes <= OBJECT_BYTES_MAX as u64)
        };
        let is_one = rest.is_empty() && table.job == slot.job && table.key == slot.key;
        let all_fit = table.parts.iter().all(|part| {
            let records = part.record_bytes.div_ceil(OBJECT_BYTES_MAX as u64);
            records <= part.sections.len() as u64 && part.sections.iter().all(fits)
        });
        (is_one && all_fit).then_some(table).ok_or(NoTable)
    }

    /// As it is written.
    ///
    /// # Errors
    /// For want of memory.
    pub fn bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_allocvec(self)
    }

    /// Where all of it lies.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.parts.iter().flat_map(|part| &part.sections).filter_map(Section::extent)
    }

    /// Bytes that its index takes at most, with the listings of its parts.
    #[must_use]
    pub fn index_bytes_max(&self) -> u64 {
        let of_part = |part: &TablePart| {
            let sections = part.sections.len() as u64;
            let listings = sections.div_ceil(LISTED_MAX as u64).max(1);
            let entries = (sections + listings) * super::index::ENTRY_BYTES as u64;
            entries + sections * 32 + listings * LISTING_BYTES_BESIDE
        };
        self.parts.iter().map(of_part).sum()
    }
}

/// What a listing takes beside its names at most, bytes: two numbers and the name of the next.
const LISTING_BYTES_BESIDE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::super::{BLOCK_BYTES, Slot, State, check};
    use super::*;
    use crate::ids::Rank;

    #[test]
    fn a_table_of_somebody_else_or_beyond_the_region_is_none() {
        let region = 64 * BLOCK_BYTES;
        let extent = Extent { offset: 3 * BLOCK_BYTES, bytes: 4096, check: 1 };
        let sections = alloc::vec![Section::New(extent), Section::Known(ObjectId([3; 32]), None)];
        let part = TablePart { of: PartOf::Rank(Rank(0)), record_bytes: 20, sections };
        let table = Table { job: JobId(1), key: 5, parts: alloc::vec![part] };
        let slot = |table: &Table, bytes: &[u8]| {
            let table_at = Extent { offset: BLOCK_BYTES, bytes: bytes.len() as u64, check: check(bytes) };
            Slot { state: State::Local, job: table.job, key: table.key, table: table_at, index: extent }
        };
        let bytes = table.bytes().expect("encodes");
        let whose = slot(&table, &bytes);
        assert_eq!(Table::read(&bytes, &whose, region), Ok(table.clone()));
        assert_eq!(Table::read(&bytes, &Slot { key: 6, ..whose }, region), Err(NoTable));
        assert_eq!(Table::read(&bytes[1..], &whose, region), Err(NoTable));
        assert_eq!(Table::read(&bytes, &whose, 3 * BLOCK_BYTES), Err(NoTable), "it would lie outside");
        let mut damaged = bytes.clone();
        damaged[3] ^= 1;
        assert_eq!(Table::read(&damaged, &whose, region), Err(NoTable));
        let mut more = table;
        more.parts[0].record_bytes = 3 * BLOCK_BYTES;
        let bytes = more.bytes().expect("encodes");
        assert_eq!(Table::read(&bytes, &slot(&more, &bytes), region), Err(NoTable), "more records than objects");
    }
}
