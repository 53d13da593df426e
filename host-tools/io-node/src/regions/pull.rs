//! Pulling: each object of a slot is read, held against what the table says, and stored by its name, several at a time;
//! then the lists of the parts are made as a node makes them that stores its objects itself. When all is on stable
//! storage the slot gets its index.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

use coppice_protocol::checkpoint::{LISTED_MAX, Listing, ObjectId, Part};
use coppice_protocol::pset::Pulled;
use coppice_protocol::region::{SLOTS, Section, Slot, SlotKey, State, Table, TablePart, check};
use coppice_storage::{Named, Packing, Storage};
use rustix::io::Errno;

use super::PullBy;
use super::error::{RegionError, Result};
use super::file::Region;
use super::index::Index;
use crate::clock::ns;
use crate::limits::REGION_PARTS_MAX;

/// A pull that is under way.
struct Pull<'a> {
    region: &'a Region,
    storage: &'a Storage,
    packing: Packing<'a>,
    by: PullBy,
    progress: &'a mut dyn FnMut((u64, u64)),
    /// Objects that are stored, and that there are.
    objects: (u64, u64),
    hash_ns: u64,
    index: Index,
}

/// Objects of a part, that are stored by several threads: each takes the first that nobody has taken.
struct Objects<'a, 's> {
    region: &'a Region,
    storage: &'a Storage,
    packing: &'a Packing<'s>,
    sections: &'a [Section],
    clock: fn() -> Duration,
    taken: AtomicUsize,
    stored: AtomicUsize,
    hash_ns: AtomicU64,
    /// One thread failed: what the others have is not wanted.
    is_over: AtomicBool,
}

/// Stores what a slot has. One that was drained is stored anew, and stays as it is.
pub(super) fn pull(
    region: &Region,
    storage: &Storage,
    from: SlotKey,
    by: &PullBy,
    progress: &mut dyn FnMut((u64, u64)),
) -> Result<Pulled> {
    let (slot, table) = find(region, from)?;
    let all = table.parts.iter().map(|part| part.sections.len() as u64).sum();
    let packing = storage.packing()?;
    let mut pull =
        Pull { region, storage, packing, by: *by, progress, objects: (0, all), hash_ns: 0, index: Index::default() };
    let parts = table.parts.iter().map(|part| pull.part(part)).collect::<Result<Vec<Part>>>()?;
    let Pull { packing, hash_ns, index, .. } = pull;
    packing.finish()?;
    storage.settle()?;
    if slot.state == State::Local
        && let Err(error) = index.write(region, from.slot, slot)
    {
        // There is nothing in the region that is not in the storage.
        tracing::warn!(node = %region.node, %error, "a region has no index of what was pulled");
    }
    Ok(Pulled { parts, hash_ns })
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
        let names = self.names(&part.sections)?;
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

    /// The names of objects, which are stored from now on.
    fn names(&mut self, sections: &[Section]) -> Result<Vec<ObjectId>> {
        let Self { region, storage, ref packing, .. } = *self;
        let [taken, stored] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let (clock, hash_ns, is_over) = (self.by.clock, AtomicU64::new(0), AtomicBool::new(false));
        let objects = Objects { region, storage, packing, sections, clock, taken, stored, hash_ns, is_over };
        let all = thread::scope(|scope| {
            let start = || Builder::new().name("pull".into()).spawn_scoped(scope, || objects.store(|_| {})).ok();
            let others: Vec<_> = (1..self.by.threads.min(sections.len())).map_while(|_| start()).collect();
            let (before, all) = self.objects;
            let mine = objects.store(|stored| (self.progress)((before + stored, all)));
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|why| resume_unwind(why)));
            std::iter::once(mine).chain(others).collect::<Result<Vec<_>>>()
        })?;
        self.objects.0 += sections.len() as u64;
        self.hash_ns += objects.hash_ns.into_inner();
        let mut names: Vec<(usize, ObjectId)> = all.concat();
        names.sort_unstable_by_key(|(at, _)| *at);
        for (section, (_, object)) in sections.iter().zip(&names) {
            if let Some(extent) = section.extent() {
                self.index.add(*object, extent);
            }
        }
        Ok(names.into_iter().map(|(_, object)| object).collect())
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

impl Objects<'_, '_> {
    /// Stores objects until all are taken or a thread fails, and says how many are stored by all. Gives the places of
    /// those that it stored, and their names.
    fn store(&self, mut say: impl FnMut(u64)) -> Result<Vec<(usize, ObjectId)>> {
        let (mut names, mut buffer) = (Vec::new(), Vec::new());
        while !self.is_over.load(Ordering::Relaxed) {
            let at = self.taken.fetch_add(1, Ordering::Relaxed);
            let Some(section) = self.sections.get(at) else { break };
            let object = self.object(section, &mut buffer).inspect_err(|_| self.is_over.store(true, Ordering::Relaxed));
            names.push((at, object?));
            say(self.stored.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        }
        Ok(names)
    }

    /// The name of an object, which is stored from now on.
    fn object(&self, section: &Section, buffer: &mut Vec<u8>) -> Result<ObjectId> {
        let node = self.region.node;
        Ok(match *section {
            Section::New(extent) => {
                self.region.read_into(extent.offset, extent.bytes, buffer)?;
                let since = (self.clock)();
                let named = (check(buffer) == extent.check).then(|| Named::new(buffer));
                self.hash_ns.fetch_add(ns((self.clock)().saturating_sub(since)), Ordering::Relaxed);
                let named = named.ok_or(RegionError::Object { node, offset: extent.offset })?;
                self.packing.put(&named)?;
                named.id()
            }
            Section::Known(object, _) if self.storage.has(object)? => object,
            Section::Known(object, _) => return Err(RegionError::NotKept { node, object }),
        })
    }
}
