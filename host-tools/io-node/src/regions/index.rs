//! The index of a slot that was pulled, with which a node finds by its name what lies in its region: also the lists of
//! objects, which are written behind it.

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::region::index::{ENTRY_BYTES, build};
use coppice_protocol::region::{Extent, Slot, State, check};

use super::error::Result;
use super::file::Region;

/// What will be in it.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<(ObjectId, Extent)>,
    listings: Vec<(ObjectId, Vec<u8>)>,
}

impl Index {
    /// An object lies there.
    pub(super) fn add(&mut self, object: ObjectId, extent: Extent) {
        self.entries.push((object, extent));
    }

    /// A list that lies nowhere yet.
    pub(super) fn add_listing(&mut self, object: ObjectId, bytes: Vec<u8>) {
        self.listings.push((object, bytes));
    }

    /// Writes it into the room that a slot has for it, and then the slot's header, which says that it is drained. What
    /// has no room is left out: whoever does not find it here has it from the storage.
    pub(super) fn write(mut self, region: &Region, number: u8, slot: Slot) -> Result<()> {
        let room = slot.index;
        self.write_listings(region, room)?;
        let mut index = build(self.entries);
        let most = usize::try_from(room.bytes).unwrap_or(usize::MAX) / ENTRY_BYTES * ENTRY_BYTES;
        index.truncate(most);
        region.write(room.offset, &index)?;
        region.settle()?;
        let index = Extent { offset: room.offset, bytes: index.len() as u64, check: check(&index) };
        region.write_header(number, Some(&Slot { state: State::Drained, index, ..slot }))?;
        region.settle()
    }

    /// Writes the lists behind as many entries as there may be, if they fit there.
    fn write_listings(&mut self, region: &Region, room: Extent) -> Result<()> {
        let entries = (self.entries.len() + self.listings.len()) * ENTRY_BYTES;
        let bytes: usize = self.listings.iter().map(|(_, bytes)| bytes.len()).sum();
        if (entries + bytes) as u64 > room.bytes {
            return Ok(());
        }
        let mut offset = room.offset + entries as u64;
        for (object, bytes) in std::mem::take(&mut self.listings) {
            region.write(offset, &bytes)?;
            let extent = Extent { offset, bytes: bytes.len() as u64, check: check(&bytes) };
            self.entries.push((object, extent));
            offset += bytes.len() as u64;
        }
        Ok(())
    }
}
