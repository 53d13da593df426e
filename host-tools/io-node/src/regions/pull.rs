//! Pulling: each object of a slot is read, held against what the table says, and stored by its name; then the lists of
//! the parts are made as a node makes them that stores its objects itself. When all is on stable storage the slot gets
//! its index.

use coppice_protocol::checkpoint::{LISTED_MAX, Listing, ObjectId, Part};
use coppice_protocol::region::index::Place;
use coppice_protocol::region::{SLOTS, Section, Slot, SlotKey, State, Table, TablePart};
use coppice_storage::Storage;
use rustix::io::Errno;

use super::error::{RegionError, Result};
use super::file::Region;
use super::index::Index;
use crate::limits::REGION_PARTS_MAX;

/// A pull that is under way.
struct Pull<'a> {
    region: &'a Region,
    storage: &'a Storage,
    progress: &'a mut dyn FnMut((u64, u64)),
    /// Objects that are stored, and that there are.
    objects: (u64, u64),
    index: Index,
    /// What was read last.
    buffer: Vec<u8>,
}

/// Stores what a slot has. One that was drained is stored anew, and stays as it is.
pub(super) fn pull(
    region: &Region,
    storage: &Storage,
    from: SlotKey,
    progress: &mut dyn FnMut((u64, u64)),
) -> Result<Vec<Part>> {
    let (slot, table) = find(region, from)?;
    let all = table.parts.iter().map(|part| part.sections.len() as u64).sum();
    let (index, buffer) = (Index::default(), Vec::new());
    let mut pull = Pull { region, storage, progress, objects: (0, all), index, buffer };
    let parts = table.parts.iter().map(|part| pull.part(part)).collect::<Result<Vec<Part>>>()?;
    storage.settle()?;
    if slot.state == State::Local
        && let Err(error) = pull.index.write(region, from.slot, slot)
    {
        // There is nothing in the region that is not in the storage.
        tracing::warn!(node = %region.node, %error, "a region has no index of what was pulled");
    }
    Ok(parts)
}

/// What there is to be pulled.
fn find(region: &Region, from: SlotKey) -> Result<(Slot, Table)> {
    let node = region.node;
    if !region.is_one() {
        return Err(RegionError::Version(node));
    }
    let empty = RegionError::Empty { node, of: from };
    if from.slot >= SLOTS {
        return Err(empty);
    }
    let slot = region.slot(&region.header(from.slot)?).filter(|slot| slot.state != State::Filling).ok_or(empty)?;
    if slot.key != from.key {
        return Err(RegionError::Other { node, of: from, found: slot.key });
    }
    let table = region.table(&slot)?.ok_or(RegionError::Table { node, slot: from.slot })?;
    if table.parts.len() > REGION_PARTS_MAX {
        return Err(RegionError::Parts { node, parts: table.parts.len() });
    }
    Ok((slot, table))
}

impl Pull<'_> {
    fn part(&mut self, part: &TablePart) -> Result<Part> {
        let names = part.sections.iter().map(|section| self.object(section)).collect::<Result<Vec<ObjectId>>>()?;
        // Each names the next one, so that is there before it.
        let mut next = None;
        for run in (0..names.len().div_ceil(LISTED_MAX).max(1)).rev() {
            let objects = names[run * LISTED_MAX..names.len().min((run + 1) * LISTED_MAX)].to_vec();
            let record_bytes = if run == 0 { part.record_bytes } else { 0 };
            next = Some(self.listing(&Listing { record_bytes, objects, next })?);
        }
        // There is at least one list.
        let object = next.ok_or_else(|| self.no_memory())?;
        Ok(Part { of: part.of, object })
    }

    /// The name of an object, which is stored from now on.
    fn object(&mut self, section: &Section) -> Result<ObjectId> {
        let node = self.region.node;
        let object = match *section {
            Section::New(extent) if self.region.read_extent(extent, &mut self.buffer)? => {
                self.storage.put(&self.buffer)?
            }
            Section::New(extent) => return Err(RegionError::Object { node, offset: extent.offset }),
            Section::Known(object, _) if self.storage.has(object)? => object,
            Section::Known(object, _) => return Err(RegionError::NotKept { node, object }),
        };
        if let Some(extent) = section.extent() {
            // An object's length is no more than that of a table that was read.
            let place = Place { offset: extent.offset, bytes: u32::try_from(extent.bytes).unwrap_or(u32::MAX) };
            self.index.add(object, place);
        }
        self.objects.0 += 1;
        (self.progress)(self.objects);
        Ok(object)
    }

    fn listing(&mut self, listing: &Listing) -> Result<ObjectId> {
        let bytes = listing.bytes().map_err(|_| self.no_memory())?;
        let object = self.storage.put(&bytes)?;
        self.index.add_listing(object, bytes);
        Ok(object)
    }

    fn no_memory(&self) -> RegionError {
        RegionError::Host { what: "list what is in", node: self.region.node, error: Errno::NOMEM.into() }
    }
}
