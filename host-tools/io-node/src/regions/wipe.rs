//! Wiping: the blocks of slots that go and of no slot that stays are taken out of the file, and then the slots' headers
//! made empty. Whoever is killed before that does it again: a table goes last of what its slot has.

use coppice_protocol::ids::JobId;
use coppice_protocol::region::{Blocks, Extent, SLOTS, Slot, SlotKey, State, index};

use super::error::Result;
use super::file::Region;

/// What is found in a region before something of it is wiped.
struct Found {
    /// Slots that go.
    headers: Vec<u8>,
    /// Blocks that go, if they do not stay.
    going: Blocks,
    /// Those of tables, among these.
    tables: Blocks,
    /// Blocks of slots that stay.
    staying: Blocks,
    /// The node fills a slot, in blocks that nobody else knows.
    is_filling: bool,
}

/// Wipes what there is of a job, or of all, but for that.
///
/// Without a job and an exception everything goes, also what no slot has: so that is for a node that does not run.
/// Where one fills a slot all the same, what no slot has stays.
pub(super) fn wipe(region: &Region, job: Option<JobId>, but: Option<SlotKey>) -> Result<()> {
    let is_all = job.is_none() && but.is_none();
    let mut found = Found::new(region)?;
    let mut damaged = Vec::new();
    for number in 0..SLOTS {
        let header = region.header(number)?;
        let slot = region.slot(&header);
        let goes =
            |slot: &Slot| job.is_none_or(|job| slot.job == job) && but != Some(SlotKey { slot: number, key: slot.key });
        match slot {
            Some(Slot { state: State::Filling, .. }) => found.is_filling = true,
            Some(slot) if goes(&slot) => found.add_going(region, number, &slot)?,
            Some(slot) => found.add_staying(region, &slot)?,
            None if header.iter().any(|byte| *byte != 0) => damaged.push(number),
            None => {}
        }
    }
    if is_all && !found.is_filling {
        found.going.use_extent(Extent { offset: 0, bytes: u64::MAX, check: 0 });
        // For a node that runs they are empty, and to be filled.
        found.headers.append(&mut damaged);
    } else if found.headers.is_empty() {
        return Ok(());
    }
    found.punch(region)?;
    for number in found.headers {
        region.write_header(number, None)?;
    }
    region.settle()
}

impl Found {
    fn new(region: &Region) -> Result<Self> {
        let [going, tables, staying] = [region.no_blocks()?, region.no_blocks()?, region.no_blocks()?];
        Ok(Self { headers: Vec::new(), going, tables, staying, is_filling: false })
    }

    /// Exactly what the slot has: a block that is not its own may be one that the node fills at this moment.
    fn add_going(&mut self, region: &Region, number: u8, slot: &Slot) -> Result<()> {
        self.headers.push(number);
        self.tables.use_extent(slot.table);
        self.going.use_extent(slot.table);
        self.going.use_extent(slot.index);
        let table = region.table(slot)?;
        table.iter().flat_map(|table| table.extents()).for_each(|extent| self.going.use_extent(extent));
        // The lists, which lie behind the index, are in there, too.
        use_index(&mut self.going, &region.index(slot)?);
        Ok(())
    }

    fn add_staying(&mut self, region: &Region, slot: &Slot) -> Result<()> {
        self.staying.use_slot(slot, region.table(slot)?.as_ref());
        use_index(&mut self.staying, &region.index(slot)?);
        Ok(())
    }

    fn punch(&self, region: &Region) -> Result<()> {
        let goes = |number: &usize| self.going.is_used(*number) && !self.staying.is_used(*number);
        for is_table in [false, true] {
            let mut run = 0..0;
            let numbers = region.block_numbers();
            for number in numbers.filter(|number| goes(number) && self.tables.is_used(*number) == is_table) {
                if run.end != number {
                    punch(region, run)?;
                    run = number..number;
                }
                run.end = number + 1;
            }
            punch(region, run)?;
        }
        Ok(())
    }
}

fn punch(region: &Region, run: core::ops::Range<usize>) -> Result<()> {
    if run.is_empty() { Ok(()) } else { region.punch(run) }
}

fn use_index(blocks: &mut Blocks, index: &[u8]) {
    index::extents(index).for_each(|extent| blocks.use_extent(extent));
}
