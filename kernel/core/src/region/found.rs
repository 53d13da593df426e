//! Objects that lie in the region.

use alloc::vec::Vec;

use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::region::index::{self, ENTRY_BYTES};
use coppice_protocol::region::{SlotKey, State, check};

use super::Region;
use crate::errno::Errno;
use crate::quota::{Charge, Quota};
use alloc::sync::Arc;

/// The names of objects by where they lie.
pub(crate) struct Names {
    /// In order.
    places: Vec<(u64, ObjectId)>,
    _charge: Charge,
}

impl Names {
    /// The name of the object that lies there.
    pub(crate) fn at(&self, offset: u64) -> Option<ObjectId> {
        let found = self.places.binary_search_by_key(&offset, |(place, _)| *place).ok()?;
        Some(self.places[found].1)
    }
}

impl Region {
    /// The bytes of an object, if they are here and are what was pulled by its name.
    pub(crate) fn object(&self, name: &ObjectId) -> Option<Vec<u8>> {
        let drained = self.whole().filter(|(_, slot)| slot.state == State::Drained);
        for (number, slot) in drained {
            let extent = index::find(slot.index.bytes, name, |offset, entry| {
                // An entry that cannot be read names nothing.
                if !self.device.read(slot.index.offset.saturating_add(offset), entry) {
                    entry.fill(0);
                }
            });
            let Some(extent) = extent else { continue };
            let bytes = self.read(extent.offset, extent.bytes);
            match bytes.filter(|bytes| check(bytes) == extent.check) {
                Some(bytes) => return Some(bytes),
                None => log::warn!("slot {number} of the region is damaged: {name} is not where it is said to be"),
            }
        }
        None
    }

    /// The names of what a slot has, if it is drained, which takes so many bytes of `quota`. `None`: it is not, or it
    /// is not what it was.
    pub(crate) fn names(&self, of: SlotKey, quota: &Arc<Quota>) -> Result<Option<Names>, Errno> {
        let slot = self.slot(of.slot).filter(|slot| slot.state == State::Drained && slot.key == of.key);
        let Some(slot) = slot else { return Ok(None) };
        let entries = slot.index.bytes as usize / ENTRY_BYTES;
        let charge = quota.charge(slot.index.bytes as usize + entries * size_of::<(u64, ObjectId)>())?;
        let bytes = self.read(slot.index.offset, slot.index.bytes).ok_or(Errno::ENOMEM)?;
        if check(&bytes) != slot.index.check {
            return Ok(None);
        }
        let mut places = Vec::new();
        places.try_reserve_exact(entries).map_err(|_| Errno::ENOMEM)?;
        places.extend(index::entries(&bytes).map(|(name, extent)| (extent.offset, name)));
        places.sort_unstable_by_key(|(offset, _)| *offset);
        Ok(Some(Names { places, _charge: charge }))
    }
}
