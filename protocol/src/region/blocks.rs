//! Which blocks of a region are used.

use alloc::vec::Vec;

use super::{BLOCK_BYTES, Extent, Slot, Table};

/// A bit for each block. The first, which has the headers, is always used.
#[derive(Clone, Debug)]
pub struct Blocks {
    words: Vec<u64>,
    count: usize,
    free: usize,
    /// Where the next free one is looked for.
    next: usize,
}

impl Blocks {
    /// Those of a region of this length, all free.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn new(region_bytes: u64) -> Result<Self, alloc::collections::TryReserveError> {
        let count = usize::try_from(region_bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        let mut words = Vec::new();
        words.try_reserve_exact(Self::memory_bytes(region_bytes) / size_of::<u64>())?;
        words.resize(count.div_ceil(64), 0);
        let mut blocks = Self { words, count, free: count, next: 0 };
        blocks.take(0);
        Ok(blocks)
    }

    /// What they take in memory, bytes.
    #[must_use]
    pub fn memory_bytes(region_bytes: u64) -> usize {
        let count = usize::try_from(region_bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        count.div_ceil(64).saturating_mul(size_of::<u64>())
    }

    /// How many are free.
    #[must_use]
    pub const fn free(&self) -> usize {
        self.free
    }

    /// Those of an extent are used. What lies outside is nothing.
    pub fn use_extent(&mut self, extent: Extent) {
        let numbers = extent.blocks();
        (numbers.start..numbers.end.min(self.count)).for_each(|number| self.take(number));
    }

    /// Those of a slot are used: its table, its objects and the room for its index, of which a drained one's header
    /// says only what the entries fill. Without a table that can be read, what the header says.
    pub fn use_slot(&mut self, slot: &Slot, table: Option<&Table>) {
        self.use_extent(slot.table);
        let room = table.map_or(0, Table::index_bytes_max);
        self.use_extent(Extent { bytes: slot.index.bytes.max(room), ..slot.index });
        table.into_iter().flat_map(Table::extents).for_each(|extent| self.use_extent(extent));
    }

    /// Whether one is used; those that there are not are.
    #[must_use]
    pub fn is_used(&self, number: usize) -> bool {
        self.words.get(number / 64).is_none_or(|word| word & 1 << (number % 64) != 0)
    }

    /// Runs of free ones, in order: where each lies.
    pub fn free_runs(&self) -> impl Iterator<Item = Extent> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let start = (from..self.count).find(|number| !self.is_used(*number))?;
            let end = (start..self.count).find(|number| self.is_used(*number)).unwrap_or(self.count);
            from = end;
            let bytes = (end - start) as u64 * BLOCK_BYTES;
            Some(Extent { offset: start as u64 * BLOCK_BYTES, bytes, check: 0 })
        })
    }

    /// Takes a free one: where it begins, bytes.
    pub fn alloc(&mut self) -> Option<u64> {
        let free = (self.next..self.count).find(|number| !self.is_used(*number))?;
        self.next = free + 1;
        self.take(free);
        Some(free as u64 * BLOCK_BYTES)
    }

    /// Takes a run of free ones for so many bytes, as far behind as there is one: where it begins, bytes.
    pub fn alloc_run(&mut self, bytes: u64) -> Option<u64> {
        let wanted = usize::try_from(bytes.div_ceil(BLOCK_BYTES)).ok().filter(|wanted| *wanted > 0)?;
        let mut end = self.count;
        while end >= wanted {
            let start = end - wanted;
            match (start..end).rev().find(|number| self.is_used(*number)) {
                Some(used) => end = used,
                None => {
                    (start..end).for_each(|number| self.take(number));
                    return Some(start as u64 * BLOCK_BYTES);
                }
            }
        }
        None
    }

    fn take(&mut self, number: usize) {
        if !self.is_used(number) {
            self.words[number / 64] |= 1 << (number % 64);
            self.free -= 1;
        }
    }
}

impl Extent {
    /// The blocks that it lies in, by number.
    #[must_use]
    pub fn blocks(&self) -> core::ops::Range<usize> {
        let number = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let end = self.offset.saturating_add(self.bytes).div_ceil(BLOCK_BYTES);
        number(self.offset / BLOCK_BYTES)..number(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Section, State, TablePart};
    use super::*;
    use crate::checkpoint::PartOf;
    use crate::ids::{JobId, Rank};

    #[test]
    fn blocks_are_given_once() {
        let mut blocks = Blocks::new(10 * BLOCK_BYTES + 7).expect("memory");
        assert_eq!(blocks.free(), 9);
        blocks.use_extent(Extent { offset: BLOCK_BYTES + 1, bytes: BLOCK_BYTES, check: 0 });
        assert_eq!(blocks.free(), 7, "it lies in two");
        assert!(blocks.free_runs().map(|run| run.blocks()).eq(core::iter::once(3..10)));
        assert_eq!(blocks.alloc_run(2 * BLOCK_BYTES), Some(8 * BLOCK_BYTES));
        let mut given = alloc::vec![];
        while let Some(offset) = blocks.alloc() {
            given.push(offset / BLOCK_BYTES);
        }
        assert_eq!(given, [3, 4, 5, 6, 7]);
        assert_eq!((blocks.free(), blocks.alloc_run(1)), (0, None));
    }

    #[test]
    fn a_drained_slot_keeps_its_room() {
        let at = |block: u64, bytes| Extent { offset: block * BLOCK_BYTES, bytes, check: 0 };
        // So many that their entries fill one block, and their names in the listings most of another.
        let sections = alloc::vec![Section::New(at(9, 1)); BLOCK_BYTES as usize / 48];
        let part = TablePart { of: PartOf::Rank(Rank(0)), record_bytes: 0, sections };
        let table = Table { job: JobId(1), key: 2, parts: alloc::vec![part] };
        assert!((BLOCK_BYTES + 1..2 * BLOCK_BYTES).contains(&table.index_bytes_max()));
        let slot = Slot { state: State::Drained, job: JobId(1), key: 2, table: at(2, 5), index: at(4, 48) };
        let used = |table| {
            let mut blocks = Blocks::new(20 * BLOCK_BYTES).expect("memory");
            blocks.use_slot(&slot, table);
            (1..20).filter(|number| blocks.is_used(*number)).collect::<Vec<_>>()
        };
        assert_eq!(used(Some(&table)), [2, 4, 5, 9]);
        assert_eq!(used(None), [2, 4]);
    }

    #[test]
    fn runs_go_between_what_is_used() {
        let mut blocks = Blocks::new(10 * BLOCK_BYTES).expect("memory");
        blocks.use_extent(Extent { offset: 8 * BLOCK_BYTES, bytes: 1, check: 0 });
        assert_eq!(blocks.alloc_run(2 * BLOCK_BYTES), Some(6 * BLOCK_BYTES));
        assert_eq!(blocks.alloc_run(1), Some(9 * BLOCK_BYTES));
        blocks.use_extent(Extent { offset: 3 * BLOCK_BYTES, bytes: 1, check: 0 });
        let runs: alloc::vec::Vec<_> = blocks.free_runs().map(|run| run.blocks()).collect();
        assert_eq!(runs, [1..3, 4..6]);
        assert_eq!(blocks.alloc_run(6 * BLOCK_BYTES), None);
        assert_eq!(blocks.alloc_run(2 * BLOCK_BYTES), Some(4 * BLOCK_BYTES));
        assert_eq!(blocks.free_runs().map(|run| run.bytes).collect::<alloc::vec::Vec<_>>(), [2 * BLOCK_BYTES]);
        assert_eq!(blocks.alloc_run(2 * BLOCK_BYTES), Some(BLOCK_BYTES));
        assert_eq!((blocks.free(), blocks.free_runs().count()), (0, 0));
    }
}
