//! Visiting every page of a range that holds a frame, and dropping those a caller does not want to keep. Costs what is
//! mapped, not what the range spans.

use core::sync::atomic::{AtomicU64, Ordering};

use super::entry::Raw;
use super::{Access, ENTRIES, Entry, Marks, PageTable, TOP};
use crate::addr::{PAGE_BYTES, PageRange, UserPage};
use crate::frames::Frame;

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
    /// The table that is walked.
    table: &'a PageTable,
    /// Where it lies.
    slot: &'a AtomicU64,
    /// What it says.
    raw: Raw,
}

impl EntryMut<'_> {
    /// What it says.
    #[must_use]
    pub fn get(&self) -> Entry {
        self.raw.decode()
    }

    /// Changes what may be done with the page.
    pub fn set(&mut self, access: Access, marks: Marks) {
        self.put(|raw| raw.with(access, marks));
    }

    /// Forgets that the page was written.
    pub fn clear_dirty(&mut self) {
        self.put(Raw::clean);
    }

    /// A handle on the page's frame.
    #[must_use]
    pub fn frame(&self) -> Frame {
        super::Mapped::new(self.table.pool, self.slot, self.raw).frame()
    }

    /// Makes it say something else, if that is anything else.
    fn put(&mut self, change: impl Fn(Raw) -> Raw) {
        if change(self.raw) == self.raw {
            return;
        }
        if self.raw.is_present() {
            self.table.hold();
            // Other cores may have used the page since.
            self.raw = Raw(self.slot.load(Ordering::Relaxed));
        }
        self.raw = change(self.raw);
        self.slot.store(self.raw.0, Ordering::Relaxed);
    }
}

/// What a walk met and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Pages that were visited.
    pub visited: u64,
    /// Pages that left the table.
    pub dropped: u64,
    /// Frames that were zeroed and are free now: those of dropped pages that nobody else holds, and tables.
    pub zeroed: u64,
}

/// How much a walk may still do before it stops, to be gone on with later: pages it visits and tables it goes through,
/// each of which costs it at most about a thousand instructions, most of them for zeroing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(u32);

impl Effort {
    /// As much as it takes.
    pub const WHOLE: Self = Self(u32::MAX);

    /// So many pages and tables.
    #[must_use]
    pub const fn of(pages: u32) -> Self {
        Self(pages)
    }

    /// Whether there is none left.
    #[must_use]
    pub const fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Takes a part of it for something else that costs about as much as so many pages.
    #[inline]
    pub fn spend(&mut self, pages: u32) {
        self.0 = self.0.saturating_sub(pages);
    }
}

impl PageTable {
    /// Calls `visit` for every page of the range that holds a frame, in ascending order, and does as it says. Tables
    /// left empty are freed.
    pub fn walk(&mut self, range: PageRange, visit: impl FnMut(UserPage, &mut EntryMut<'_>) -> Verdict) -> Walked {
        self.walk_part(range, &mut { Effort::WHOLE }, visit).0
    }

    /// As [`PageTable::walk`], but only as far as the effort goes. Returns what of the range is left, which is empty at
    /// the end of the walk. Always comes a page on, if there is one.
    pub fn walk_part(
        &mut self,
        range: PageRange,
        effort: &mut Effort,
        visit: impl FnMut(UserPage, &mut EntryMut<'_>) -> Verdict,
    ) -> (Walked, PageRange) {
        self.walk_unless(None, range, effort, visit)
    }

    /// Calls `see` for every page of the range that holds a frame, in ascending order, as far as the effort goes.
    /// Returns what of the range is left. Nothing changes: tables that hold nothing stay, too.
    pub fn look(&self, range: PageRange, effort: &mut Effort, mut see: impl FnMut(UserPage)) -> PageRange {
        let visit = |page, _: &mut EntryMut<'_>| {
            see(page);
            Verdict::Keep
        };
        Walk::over(self, range, None, *effort, visit).run(false, effort).1
    }

    /// As [`PageTable::walk_part`], but pages whose entries are settled stay without being asked about.
    fn walk_unless(
        &self,
        settled: Option<Settled>,
        range: PageRange,
        effort: &mut Effort,
        visit: impl FnMut(UserPage, &mut EntryMut<'_>) -> Verdict,
    ) -> (Walked, PageRange) {
        let walked = Walk::over(self, range, settled, *effort, visit).run(true, effort);
        self.let_go();
        walked
    }

    /// Keeps the pages of the range that have all of these marks, with these rights, and drops the others, as far as
    /// the effort goes. Returns what of the range is left.
    pub fn keep_marked(
        &mut self,
        range: PageRange,
        marks: Marks,
        access: Access,
        effort: &mut Effort,
    ) -> (Walked, PageRange) {
        let (marked, rights) = (Raw::marked(marks), Raw::rights(access));
        // Most pages have the marks and the rights already.
        let mask = marked | Raw::RIGHTS | Raw::unchanged_if(true);
        let settled = Settled { mask, value: marked | rights };
        self.walk_unless(Some(settled), range, effort, |_, entry| {
            if entry.raw.0 & marked != marked {
                return Verdict::Drop;
            }
            entry.put(|raw| raw.with_rights(rights));
            Verdict::Keep
        })
    }

    /// Maps the pages of the range that have all of these marks in another table too, with these rights, where that has
    /// nothing. Returns how many pages that were; those are left out for whose tables there is no memory.
    pub fn share_marked(&mut self, range: PageRange, marks: Marks, access: Access, with: &mut Self) -> u64 {
        let marked = Raw::marked(marks);
        // Neighbours are in one table.
        let mut leaf = None;
        let mut shared = 0;
        self.walk_unless(None, range, &mut { Effort::WHOLE }, |page, entry| {
            let run = page.number() / ENTRIES as u64;
            if entry.raw.0 & marked != marked {
                return Verdict::Keep;
            }
            let table = match leaf.filter(|(known, _)| *known == run) {
                Some((_, table)) => Some(table),
                None => with.tables_for(page),
            };
            leaf = table.map(|table| (run, table));
            let Some(table) = table else { return Verdict::Keep };
            let slot = with.slot(table, page.number() as usize % ENTRIES);
            if slot.load(Ordering::Relaxed) == 0 {
                // The new entry holds the reference.
                slot.store(Raw::page(entry.frame().into_entry(), access, marks).0, Ordering::Relaxed);
                with.pool.counter(table).fetch_add(1, Ordering::Relaxed);
                shared += 1;
            }
            Verdict::Keep
        });
        with.let_go();
        shared
    }

    /// How many frames the table itself takes, the top-level one included.
    #[must_use]
    pub fn frames(&self) -> u64 {
        1 + self.tables_below(self.root, TOP)
    }

    /// Frames of the tables below the one at `table`, which is of `level`.
    fn tables_below(&self, table: u64, level: u32) -> u64 {
        let mut left = self.pool.counter(table).load(Ordering::Relaxed);
        let mut tables = 0;
        for slot in self.slots(table) {
            if left == 0 {
                break;
            }
            let entry = Raw(slot.load(Ordering::Relaxed));
            if !entry.is_empty() {
                left -= 1;
                tables += 1;
                if level > 1 {
                    tables += self.tables_below(entry.address(), level - 1);
                }
            }
        }
        tables
    }
}

/// Entries that are looked at together: neighbours are mostly alike, all empty or all settled, and are passed over
/// together.
const RUN: usize = 8;

/// Which entries need no visit: those that have this value under this mask.
#[derive(Clone, Copy)]
struct Settled {
    mask: u64,
    value: u64,
}

/// A walk under way.
struct Walk<'a, V> {
    tables: &'a PageTable,
    /// Entries of pages that stay as they are.
    settled: Option<Settled>,
    /// Number of the first page to visit.
    start: u64,
    /// Number of the page behind the last one.
    end: u64,
    visit: V,
    /// Tables left empty are freed.
    prunes: bool,
    /// Pages and tables it may still go through.
    effort: u32,
    /// Number of the page before which it stopped.
    rest: u64,
    walked: Walked,
}

impl<'a, V: FnMut(UserPage, &mut EntryMut<'_>) -> Verdict> Walk<'a, V> {
    /// One that has not begun.
    fn over(tables: &'a PageTable, range: PageRange, settled: Option<Settled>, effort: Effort, visit: V) -> Self {
        let (start, end) = (range.first_number(), range.end_number());
        // Tables on the way to the first page are not counted, so that it comes on in any case.
        let effort = effort.0.max(1).saturating_add(TOP + 1);
        Self { tables, settled, start, end, visit, prunes: true, effort, rest: end, walked: Walked::default() }
    }

    /// Walks, and says what it did and what of the range is left.
    fn run(mut self, prunes: bool, effort: &mut Effort) -> (Walked, PageRange) {
        self.prunes = prunes;
        if self.start < self.end {
            self.table(self.tables.root, TOP, 0);
        }
        effort.0 = self.effort.min(effort.0);
        (self.walked, PageRange::of_numbers(self.rest, self.end))
    }

    /// Visits the pages below the table at `table`, whose first entry is for the page numbered `base`. Returns whether
    /// the walk goes on.
    fn table(&mut self, table: u64, level: u32, base: u64) -> bool {
        // Pages per entry.
        let span = 1_u64 << (9 * level);
        let first = self.start.saturating_sub(base) / span;
        let behind = (self.end - base).div_ceil(span).min(ENTRIES as u64);
        let Some(slots) = self.tables.slots(table).get(first as usize..behind as usize) else { return true };
        self.effort = self.effort.saturating_sub(1);
        // Entries that hold something: behind the last of them nothing needs to be looked at.
        let mut left = self.tables.pool.counter(table).load(Ordering::Relaxed);
        let mut number = base + first * span;
        let (runs, rest) = slots.as_chunks::<RUN>();
        for run in runs {
            if left == 0 {
                return true;
            }
            if run.iter().fold(0, |all, slot| all | slot.load(Ordering::Relaxed)) == 0 {
                number += RUN as u64 * span;
                continue;
            }
            if level == 0
                && let Some(Settled { mask, value }) = self.settled
                && self.effort > 0
                && run.iter().all(|slot| slot.load(Ordering::Relaxed) & mask == value)
            {
                self.walked.visited += RUN as u64;
                self.effort -= 1;
                left -= RUN as u32;
                number += RUN as u64;
                continue;
            }
            for slot in run {
                match self.entry(table, level, slot, number) {
                    Some(led) => left -= u32::from(led),
                    None => return false,
                }
                number += span;
            }
        }
        for slot in rest {
            if self.entry(table, level, slot, number).is_none() {
                return false;
            }
            number += span;
        }
        true
    }

    /// Visits what the entry at `slot` of the table at `table` leads to, the page numbered `number` being the first.
    /// Returns whether it led anywhere; `None`: the walk stops.
    #[inline]
    fn entry(&mut self, table: u64, level: u32, slot: &AtomicU64, number: u64) -> Option<bool> {
        let entry = Raw(slot.load(Ordering::Relaxed));
        if entry.is_empty() {
            return Some(false);
        }
        if self.effort == 0 {
            self.rest = number.max(self.start);
            return None;
        }
        if level == 0 {
            self.effort -= 1;
            self.page(table, slot, entry, number);
        } else {
            let goes_on = self.table(entry.address(), level - 1, number);
            if self.prunes {
                self.free_if_empty(table, slot, number);
            }
            if !goes_on {
                return None;
            }
        }
        Some(true)
    }

    /// Visits one page whose entry, at `slot`, is in the table at `table`.
    #[inline]
    fn page(&mut self, table: u64, slot: &AtomicU64, before: Raw, number: u64) {
        let Some(page) = UserPage::containing(number * PAGE_BYTES as u64) else {
            return;
        };
        let pool = self.tables.pool;
        self.walked.visited += 1;
        let mut entry = EntryMut { table: self.tables, slot, raw: before };
        match (self.visit)(page, &mut entry) {
            Verdict::Keep if entry.raw == before => {}
            Verdict::Keep => self.tables.forget(page, before),
            Verdict::Drop => {
                if before.is_present() {
                    self.tables.hold();
                }
                slot.store(0, Ordering::Relaxed);
                pool.counter(table).fetch_sub(1, Ordering::Relaxed);
                self.tables.forget(page, before);
                self.walked.dropped += 1;
                // SAFETY: the entry that held this reference is cleared and forgotten.
                let frame = unsafe { Frame::from_entry(pool, before.address()) };
                self.walked.zeroed += u64::from(frame.release());
            }
        }
    }

    /// Frees the table that the entry at `slot` of the table at `parent` points to, if it holds nothing.
    fn free_if_empty(&mut self, parent: u64, slot: &AtomicU64, number: u64) {
        let pool = self.tables.pool;
        let child = Raw(slot.load(Ordering::Relaxed)).address();
        if pool.counter(child).load(Ordering::Relaxed) != 0 {
            return;
        }
        // Processors remember where tables are, too.
        self.tables.hold();
        slot.store(0, Ordering::Relaxed);
        pool.counter(parent).fetch_sub(1, Ordering::Relaxed);
        if let Some(page) = UserPage::containing(number * PAGE_BYTES as u64) {
            self.tables.flush(page);
        }
        self.walked.zeroed += u64::from(self.tables.retire(child));
    }
}
