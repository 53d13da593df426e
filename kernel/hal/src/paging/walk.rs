//! Visiting every page of a range that holds a frame, and dropping those a caller does not want to keep. Costs what is
//! mapped, not what the range spans.

use core::sync::atomic::{AtomicU64, Ordering};

use super::entry::Raw;
use super::{Access, Entry, Marks, PageTable, TOP, index_at};
use crate::addr::{PAGE_BYTES, PageRange, UserPage};
use crate::frames::{Frame, FramePool};

/// What becomes of a page that was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays in the table.
    Keep,
    /// It leaves the table; its frame is zeroed and freed if nobody else holds it.
    Drop,
}

/// The entry of a page that is visited.
pub struct EntryMut<'a> {
    /// The table's pool.
    pool: &'static FramePool,
    /// Where it lies.
    slot: &'a AtomicU64,
}

impl EntryMut<'_> {
    /// What it says.
    #[must_use]
    pub fn get(&self) -> Entry {
        self.raw().decode()
    }

    /// Changes what may be done with the page.
    pub fn set(&mut self, access: Access, marks: Marks) {
        self.slot.store(self.raw().with(access, marks).0, Ordering::Relaxed);
    }

    /// Forgets that the page was written.
    pub fn clear_dirty(&mut self) {
        self.slot.store(self.raw().clean().0, Ordering::Relaxed);
    }

    /// A handle on the page's frame.
    #[must_use]
    pub fn frame(&self) -> Frame {
        super::Mapped::new(self.pool, self.slot, self.raw()).frame()
    }

    /// The entry now.
    fn raw(&self) -> Raw {
        Raw(self.slot.load(Ordering::Relaxed))
    }
}

impl PageTable {
    /// Calls `visit` for every page of the range that holds a frame, in ascending order, and does as it says. Tables
    /// left empty are freed.
    pub fn walk(&mut self, range: PageRange, mut visit: impl FnMut(UserPage, &mut EntryMut<'_>) -> Verdict) {
        if !range.is_empty() {
            self.walk_table(self.root, TOP, range.first_number(), range.end_number(), &mut visit);
        }
    }

    /// [`PageTable::walk`] in the table at `table`, for the pages numbered `start..end`, all below that table.
    fn walk_table(
        &self,
        table: u64,
        level: u32,
        start: u64,
        end: u64,
        visit: &mut impl FnMut(UserPage, &mut EntryMut<'_>) -> Verdict,
    ) {
        let span = 1_u64 << (9 * level);
        let mut number = start;
        while number < end {
            // Pages of this entry: up to the next multiple of its span.
            let stop = ((number / span + 1) * span).min(end);
            let slot = self.slot(table, index_at(number, level));
            let entry = Raw(slot.load(Ordering::Relaxed));
            if !entry.is_empty() {
                if level == 0 {
                    self.visit_page(table, slot, number, visit);
                } else {
                    self.walk_table(entry.address(), level - 1, number, stop, visit);
                    self.free_if_empty(table, slot, number);
                }
            }
            number = stop;
        }
    }

    /// Visits one page whose entry is in the table at `table`.
    fn visit_page(
        &self,
        table: u64,
        slot: &AtomicU64,
        number: u64,
        visit: &mut impl FnMut(UserPage, &mut EntryMut<'_>) -> Verdict,
    ) {
        let Some(page) = UserPage::containing(number * PAGE_BYTES as u64) else {
            return;
        };
        let before = Raw(slot.load(Ordering::Relaxed));
        match visit(page, &mut EntryMut { pool: self.pool, slot }) {
            Verdict::Keep if slot.load(Ordering::Relaxed) == before.0 => {}
            Verdict::Keep => self.forget(page, before),
            Verdict::Drop => {
                slot.store(0, Ordering::Relaxed);
                self.pool.counter(table).fetch_sub(1, Ordering::Relaxed);
                self.forget(page, before);
                // SAFETY: the entry that held this reference is cleared and forgotten.
                drop(unsafe { Frame::from_entry(self.pool, before.address()) });
            }
        }
    }

    /// Frees the table that the entry at `slot` of the table at `parent` points to, if it holds nothing.
    fn free_if_empty(&self, parent: u64, slot: &AtomicU64, number: u64) {
        let child = Raw(slot.load(Ordering::Relaxed)).address();
        if self.pool.counter(child).load(Ordering::Relaxed) != 0 {
            return;
        }
        slot.store(0, Ordering::Relaxed);
        self.pool.counter(parent).fetch_sub(1, Ordering::Relaxed);
        if let Some(page) = UserPage::containing(number * PAGE_BYTES as u64) {
            self.flush(page);
        }
        // SAFETY: the entry that held this reference is cleared and forgotten.
        drop(unsafe { Frame::from_entry(self.pool, child) });
    }
}
