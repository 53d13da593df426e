//! A second table that shows pages as they are now, whatever is written then: it shares the frames, and the next write
//! to each goes to a copy. What it costs is what a program stands still for, so entries are gone through table by
//! table.
//!
//! From then on each entry says that the page is *unchanged*, until anything else is done with it than to read it:
//! whatever makes an entry, changes it or moves it leaves that out ([`super::entry`]). What an entry said before goes
//! along into the second table, whose entries thus say what is as it was in the snapshot before: as long as each
//! snapshot takes the same pages, and none is forgotten that was begun. That is for the caller to see to.

use core::sync::atomic::{AtomicU64, Ordering};

use super::entry::Raw;
use super::{ENTRIES, Marks, PageTable, index_at};
use crate::addr::{PageRange, UserPage};
use crate::frames::{Frame, FramePool};

impl PageTable {
    /// Maps the pages of the range in another table too, which has none of them and where no processor may use them,
    /// but for those that have any of these marks, and has the next write to each go to a copy. The table's program
    /// does not run. Returns how many pages that were; `None`, and the other is of no use, if there is no memory for
    /// its tables: then some writes go to copies that need not.
    pub fn snapshot(&mut self, range: PageRange, with: &mut Self, but: Marks) -> Option<u64> {
        self.snapshot_noting(range, with, but, true)
    }

    fn snapshot_noting(&mut self, range: PageRange, with: &mut Self, but: Marks, unchanged: bool) -> Option<u64> {
        // No core then remembers what entries said.
        self.deactivate();
        self.hold();
        let taken = self.snapshot_leaves(range, with, Raw::marked(but), Raw::unchanged_if(unchanged));
        self.let_go();
        with.let_go();
        taken
    }

    fn snapshot_leaves(&self, range: PageRange, with: &mut Self, but: u64, unchanged: u64) -> Option<u64> {
        let (mut taken, mut rest) = (0, range);
        while let Some(page) = self.first_in(rest) {
            let (from, to) = (self.leaf_table(page)?, with.tables_for(page)?);
            let first = index_at(page.number(), 0);
            let left = usize::try_from(range.end_number() - page.number()).unwrap_or(ENTRIES);
            let run = first..ENTRIES.min(first.saturating_add(left));
            let behind = page.number() + run.len() as u64;
            let more = snapshot_run(self.pool, &self.slots(from)[run.clone()], &with.slots(to)[run], but, unchanged);
            with.pool.counter(to).fetch_add(more, Ordering::Relaxed);
            taken += u64::from(more);
            if more == 0 {
                with.prune(page);
            }
            rest = PageRange::of_numbers(behind.min(range.end_number()), range.end_number());
        }
        Some(taken)
    }

    /// As [`Self::snapshot`], of one page. If others may write its frame (not `is_own`) it is not said to be unchanged.
    /// `None`: there is no memory for a table.
    pub fn snapshot_page(&mut self, page: UserPage, with: &mut Self, is_own: bool) -> Option<u64> {
        let range = PageRange::of_numbers(page.number(), page.number() + 1);
        self.snapshot_noting(range, with, Marks::empty(), is_own)
    }

    /// Has a page lie in another frame that has the same bytes: all else that its entry says stays as it is. What it
    /// lay in comes back or, if the page is not in the table, `frame`.
    ///
    /// # Panics
    /// If `frame` is a block of more than one page.
    pub fn replace(&mut self, page: UserPage, frame: Frame) -> Frame {
        assert!(frame.len() == crate::addr::PAGE_BYTES, "a page is mapped to one frame");
        let Some(slot) = self.leaf(page) else { return frame };
        let old = Raw(slot.load(Ordering::Relaxed));
        if old.is_empty() {
            return frame;
        }
        if old.is_present() {
            self.hold();
        }
        let address = frame.into_entry();
        let change = |entry| Some(Raw(entry).in_frame(address).0);
        // Other cores' processors may note at any time that they used the page.
        let changed = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        self.forget(page, changed.map_or(old, Raw));
        self.let_go();
        // SAFETY: the entry that held this reference was just replaced.
        unsafe { Frame::from_entry(self.pool, old.address()) }
    }
}

/// Takes the pages of a run of entries. Apart from all else, so that it has the processor's registers to itself.
#[inline(never)]
fn snapshot_run(pool: &FramePool, from: &[AtomicU64], to: &[AtomicU64], but: u64, unchanged: u64) -> u32 {
    let mut taken = 0;
    for (slot, copy) in from.iter().zip(to) {
        let raw = Raw(slot.load(Ordering::Relaxed));
        if !raw.holds_without(but) {
            continue;
        }
        // What the other table has of this range it has from here.
        pool.hold(raw.frame_number());
        copy.store(raw.held_only().0, Ordering::Relaxed);
        // No processor notes anything there now.
        slot.store(raw.to_be_copied(unchanged).0, Ordering::Relaxed);
        taken += 1;
    }
    taken
}
