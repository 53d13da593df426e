//! A program's page table: the four levels the processor walks, in frames of the pool.
//!
//! The lower half is the program's. The upper half is the kernel's, the same in every table: its top-level entries are
//! copied when a table is made, so the kernel must have made all the top-level entries it will ever need before that.
//!
//! An entry that is not 0 holds a reference on its frame, whether the processor may use it or not (a page without any
//! access is kept, as `PROT_NONE` wants it). What the hardware cannot say is in the entry's software bits: [`Marks`].
//! Each table counts its entries in its frame's record, so an empty table is freed at once.
//!
//! The kernel never follows a program's addresses itself: it looks a page up here and copies through the direct map.

use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "none")]
pub(crate) use self::cpu::{InUse, forget_retired, load_kernel, may_halt, root_of_kernel as kernel_root};
pub(crate) use self::cpu::{is_forgotten, retired};
pub use self::entry::{Access, Entry, Marks};
use self::entry::{PARENT, Raw};
pub(crate) use self::handle::Root;
pub use self::handle::TableHandle;
use crate::addr::{PageRange, UserPage};
use crate::frames::{Frame, FrameKind, FramePool};

mod cpu;
mod entry;
mod handle;
mod mapped;
mod snapshot;
#[cfg(test)]
mod tests;
mod walk;

pub use self::mapped::Mapped;
pub use self::walk::{Effort, EntryMut, Verdict, Walked};

/// Entries in a table.
const ENTRIES: usize = 512;

/// Entries of the top-level table that are the program's.
const USER_ENTRIES: usize = ENTRIES / 2;

/// Level of the top table; level 0 holds the entries of pages.
const TOP: u32 = 3;

/// A program's page table. Dropping it drops all its frames.
pub struct PageTable {
    /// Where its frames come from.
    pool: &'static FramePool,
    /// Physical address of the top-level table.
    root: u64,
    /// The same, for those who use the table.
    handle: TableHandle,
    /// The other cores that use the table are out of their programs, and stay out.
    held: Cell<bool>,
    /// They are to stay out for more than one change.
    together: bool,
    /// Tables were retired since: halted cores are to forget them, too.
    retired: Cell<bool>,
}

/// There was no frame for a table. The frame that was to be mapped comes back.
#[derive(Debug)]
pub struct NoTable(pub Frame);

impl PageTable {
    /// A table with nothing in the user's half. `None` if there is no frame for it.
    #[must_use]
    pub fn new(pool: &'static FramePool) -> Option<Self> {
        let root = pool.alloc(FrameKind::Table)?.into_entry();
        let handle = TableHandle(Arc::new(Root::new(pool, root)));
        let table = Self { pool, root, handle, held: Cell::new(false), together: false, retired: Cell::new(false) };
        if let Some(kernel) = cpu::kernel_root() {
            let (from, to) = (table.slots(kernel), table.slots(root));
            for (from, to) in from.iter().zip(to).skip(USER_ENTRIES) {
                // The new table is all zeros, and the kernel's half nearly so.
                match from.load(Ordering::Relaxed) {
                    0 => {}
                    entry => to.store(entry, Ordering::Relaxed),
                }
            }
        }
        Some(table)
    }

    /// What stands for the table where threads are entered.
    #[must_use]
    pub fn handle(&self) -> TableHandle {
        self.handle.clone()
    }

    /// Makes sure that no core uses this table or remembers anything of it: the core that runs goes over to the
    /// kernel's own. Threads on other cores left it when they ended ([`TableHandle::leave`]).
    ///
    /// # Panics
    /// If one did not.
    pub fn deactivate(&self) {
        self.handle.leave();
        cpu::assert_unused(&self.handle.0);
    }

    /// Makes several changes, for which the other cores that use the table are paused once at most, and not for each.
    pub fn together<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> R {
        let outermost = !core::mem::replace(&mut self.together, true);
        let result = change(self);
        if outermost {
            self.together = false;
            self.let_go();
        }
        result
    }

    /// Returns when every other core that uses the table has been out of its program since the call: what it does there
    /// then comes after all that happened on this core before.
    pub fn fence(&self) {
        self.hold();
        self.let_go();
    }

    /// Has all other cores that use the table leave their programs, until [`PageTable::let_go`]: something is about to
    /// be taken away from these. What is only given needs no such thing: who does not know of it yet faults, and
    /// finds it.
    #[inline]
    fn hold(&self) {
        if !self.held.replace(true) {
            cpu::pause(&self.handle.0);
        }
    }

    /// A change is done: lets the other cores in again.
    #[inline]
    fn let_go(&self) {
        if !self.together && self.held.replace(false) {
            if self.retired.replace(false) {
                cpu::rouse(&self.handle.0);
            }
            cpu::resume(&self.handle.0);
        }
    }

    /// Maps `page` to `frame`. What was mapped there before comes back.
    ///
    /// # Errors
    /// [`NoTable`] with the frame if there is no memory for a table on the way; nothing has changed then.
    ///
    /// # Panics
    /// If `frame` is a block of more than one page.
    pub fn map(
        &mut self,
        page: UserPage,
        frame: Frame,
        access: Access,
        marks: Marks,
    ) -> Result<Option<Frame>, NoTable> {
        assert!(frame.len() == crate::addr::PAGE_BYTES, "a page is mapped to one frame");
        let Some(leaf_table) = self.tables_for(page) else {
            self.let_go();
            return Err(NoTable(frame));
        };
        let slot = self.slot(leaf_table, index_at(page.number(), 0));
        if Raw(slot.load(Ordering::Relaxed)).is_present() {
            self.hold();
        }
        let new = Raw::page(frame.into_entry(), access, marks);
        let old = Raw(slot.swap(new.0, Ordering::Relaxed));
        if old.is_empty() {
            self.pool.counter(leaf_table).fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        self.forget(page, old);
        self.let_go();
        // SAFETY: the entry that held this reference was just replaced.
        Ok(Some(unsafe { Frame::from_entry(self.pool, old.address()) }))
    }

    /// Makes sure that a later [`PageTable::map`] of `page` finds its tables. Undone by [`PageTable::prune`]. Returns
    /// whether it worked.
    #[must_use]
    pub fn prepare(&mut self, page: UserPage) -> bool {
        let there = self.tables_for(page).is_some();
        self.let_go();
        there
    }

    /// Frees the tables on the way to `page` that hold nothing.
    pub fn prune(&mut self, page: UserPage) {
        self.free_empty(page);
        self.let_go();
    }

    /// As [`PageTable::prune`], as a part of a change.
    fn free_empty(&mut self, page: UserPage) {
        let mut path = [self.root; TOP as usize + 1];
        let mut lowest = TOP;
        while lowest > 0 {
            let entry = Raw(self.slot(path[lowest as usize], index_at(page.number(), lowest)).load(Ordering::Relaxed));
            if entry.is_empty() {
                break;
            }
            lowest -= 1;
            path[lowest as usize] = entry.address();
        }
        for level in lowest..TOP {
            let table = path[level as usize];
            if self.pool.counter(table).load(Ordering::Relaxed) != 0 {
                break;
            }
            // Processors remember where tables are, too.
            self.hold();
            let parent = path[level as usize + 1];
            self.slot(parent, index_at(page.number(), level + 1)).store(0, Ordering::Relaxed);
            self.pool.counter(parent).fetch_sub(1, Ordering::Relaxed);
            self.flush(page);
            self.retire(table);
        }
    }

    /// Gives the frame of an empty table back to which no entry leads any more, and of which this core's processor
    /// remembers nothing. Others' may until they enter the program again. Returns whether nobody else holds it.
    fn retire(&self, table: u64) -> bool {
        // SAFETY: the parent's entry, which held the reference, is gone and so is what the processor remembered of it.
        let frame = unsafe { Frame::from_entry(self.pool, table) };
        match cpu::others(&self.handle.0) {
            0 => frame.release(),
            cores => {
                self.retired.set(true);
                self.pool.retire(frame, cores);
                true
            }
        }
    }

    /// Takes the page out of the table.
    pub fn unmap(&mut self, page: UserPage) -> Option<Frame> {
        self.take(page).map(|(frame, _)| frame)
    }

    /// Takes the page out of the table together with what its entry said.
    pub fn take(&mut self, page: UserPage) -> Option<(Frame, Entry)> {
        let leaf_table = self.leaf_table(page)?;
        let slot = self.slot(leaf_table, index_at(page.number(), 0));
        if Raw(slot.load(Ordering::Relaxed)).is_present() {
            self.hold();
        }
        let old = Raw(slot.swap(0, Ordering::Relaxed));
        if old.is_empty() {
            return None;
        }
        self.forget(page, old);
        if self.pool.counter(leaf_table).fetch_sub(1, Ordering::Relaxed) == 1 {
            self.free_empty(page);
        }
        self.let_go();
        // SAFETY: the entry that held this reference was just cleared.
        let frame = unsafe { Frame::from_entry(self.pool, old.address()) };
        Some((frame, old.decode()))
    }

    /// Moves what is at `page` to `target`, where nothing is and whose tables were made ([`PageTable::prepare`]): then
    /// it cannot fail. Returns whether there was anything to be moved, and a place for it. The tables of `page` stay,
    /// even if nothing is left in them: they may have been made for what is yet to come.
    pub fn relocate(&mut self, page: UserPage, target: UserPage) -> bool {
        let Some((from, to)) = self.leaf_table(page).zip(self.leaf_table(target)) else { return false };
        let (slot, place) = (self.slot(from, index_at(page.number(), 0)), self.slot(to, index_at(target.number(), 0)));
        let entry = Raw(slot.load(Ordering::Relaxed));
        if entry.is_empty() || !Raw(place.load(Ordering::Relaxed)).is_empty() {
            return false;
        }
        if entry.is_present() {
            self.hold();
        }
        let entry = Raw(slot.swap(0, Ordering::Relaxed));
        place.store(entry.moved().0, Ordering::Relaxed);
        self.pool.counter(to).fetch_add(1, Ordering::Relaxed);
        self.forget(page, entry);
        self.pool.counter(from).fetch_sub(1, Ordering::Relaxed);
        self.let_go();
        true
    }

    /// Takes all pages from `page` on out, as a table of their own; most of them are not looked at. No processor may
    /// ever have used the table. `None`, and nothing changes, if there is no memory for the tables of the other.
    #[must_use]
    pub fn split_off(&mut self, page: UserPage) -> Option<Self> {
        let mut other = Self::new(self.pool)?;
        if !other.prepare(page) {
            return None;
        }
        let (mut from, mut to) = (self.root, other.root);
        for level in (0..=TOP).rev() {
            let index = index_at(page.number(), level);
            let end = if level == TOP { USER_ENTRIES } else { ENTRIES };
            // Of what the entry for the page itself leads to, a part stays, but for the page.
            for index in index + usize::from(level > 0)..end {
                let entry = self.slot(from, index).swap(0, Ordering::Relaxed);
                if entry != 0 {
                    other.slot(to, index).store(entry, Ordering::Relaxed);
                    self.pool.counter(from).fetch_sub(1, Ordering::Relaxed);
                    self.pool.counter(to).fetch_add(1, Ordering::Relaxed);
                }
            }
            let below = Raw(self.slot(from, index).load(Ordering::Relaxed));
            if level == 0 || below.is_empty() {
                break;
            }
            from = below.address();
            to = Raw(other.slot(to, index).load(Ordering::Relaxed)).address();
        }
        self.prune(page);
        other.prune(page);
        Some(other)
    }

    /// What the table says of a page; `None` if it holds no frame.
    #[must_use]
    pub fn entry(&self, page: UserPage) -> Option<Entry> {
        let raw = Raw(self.leaf(page)?.load(Ordering::Relaxed));
        (!raw.is_empty()).then(|| raw.decode())
    }

    /// A handle on the page's frame.
    #[must_use]
    pub fn frame(&self, page: UserPage) -> Option<Frame> {
        self.lookup(page).map(|mapped| mapped.frame())
    }

    /// The page, for looking at it and copying from and to it.
    #[must_use]
    pub fn lookup(&self, page: UserPage) -> Option<Mapped<'_>> {
        let slot = self.leaf(page)?;
        let raw = Raw(slot.load(Ordering::Relaxed));
        (!raw.is_empty()).then(|| Mapped::new(self.pool, slot, raw))
    }

    /// Changes what may be done with a page. Returns whether it is in the table.
    pub fn protect(&mut self, page: UserPage, access: Access, marks: Marks) -> bool {
        let Some(slot) = self.leaf(page) else { return false };
        let old = Raw(slot.load(Ordering::Relaxed));
        if old.is_empty() {
            return false;
        }
        if old.loses(old.with(access, marks)) {
            self.hold();
        }
        // Other cores' processors may note at any time that they used the page.
        let change = |entry| Some(Raw(entry).with(access, marks).0);
        let changed = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        self.forget(page, changed.map_or(old, Raw));
        self.let_go();
        true
    }

    /// The first page of the range that holds a frame.
    #[must_use]
    pub fn first_in(&self, range: PageRange) -> Option<UserPage> {
        let mut number = range.first_number();
        'restart: while number < range.end_number() {
            let mut table = self.root;
            for level in (0..=TOP).rev() {
                let entry = Raw(self.slot(table, index_at(number, level)).load(Ordering::Relaxed));
                if entry.is_empty() {
                    // On to the first page of the next entry at this level.
                    number = ((number >> (9 * level)) + 1) << (9 * level);
                    continue 'restart;
                }
                table = entry.address();
            }
            return UserPage::containing(number * crate::addr::PAGE_BYTES as u64);
        }
        None
    }

    /// The slot of a page's entry, if there is a table that has it.
    fn leaf(&self, page: UserPage) -> Option<&AtomicU64> {
        self.leaf_table(page).map(|table| self.slot(table, index_at(page.number(), 0)))
    }

    /// Physical address of the lowest table on the way to a page.
    fn leaf_table(&self, page: UserPage) -> Option<u64> {
        leaf_table(self.pool, self.root, page)
    }

    /// As [`PageTable::leaf_table`], making the tables that are missing. `None`, and nothing changed, if there is no
    /// frame.
    fn tables_for(&mut self, page: UserPage) -> Option<u64> {
        let mut table = self.root;
        for level in (1..=TOP).rev() {
            let slot = self.slot(table, index_at(page.number(), level));
            let entry = Raw(slot.load(Ordering::Relaxed));
            if !entry.is_empty() {
                table = entry.address();
                continue;
            }
            let Some(frame) = self.pool.alloc(FrameKind::Table) else {
                self.free_empty(page);
                return None;
            };
            let child = frame.into_entry();
            slot.store(child | PARENT, Ordering::Relaxed);
            self.pool.counter(table).fetch_add(1, Ordering::Relaxed);
            table = child;
        }
        Some(table)
    }

    /// All entries of the table at a physical address.
    fn slots(&self, table: u64) -> &[AtomicU64] {
        let entries = self.pool.at(table).cast::<AtomicU64>();
        // SAFETY: as in `slot`; a table is one whole frame of entries, aligned to its size, and an `AtomicU64` lies in
        // memory as its number does.
        unsafe { core::slice::from_raw_parts(entries, ENTRIES) }
    }

    /// One entry of the table at a physical address.
    fn slot(&self, table: u64, index: usize) -> &AtomicU64 {
        slot(self.pool, table, index)
    }

    /// Makes the processor forget `page` if it may remember what `old` said.
    fn forget(&self, page: UserPage, old: Raw) {
        if old.is_present() {
            self.flush(page);
        }
    }

    /// Makes the processor forget `page` and the tables on the way to it, if this is the table it uses. (Any other
    /// table's entries are forgotten when it is loaded.)
    fn flush(&self, page: UserPage) {
        cpu::flush(&self.handle.0, page);
    }
}

impl PageTable {
    /// Ends the table. Returns how many frames were zeroed for it, its own included.
    pub fn discard(mut self) -> u64 {
        let zeroed = self.clear();
        let root = Arc::clone(&self.handle.0);
        drop(self);
        // If somebody still holds the root, it is freed with the last of them.
        zeroed + u64::from(Arc::into_inner(root).is_some_and(Root::release))
    }

    /// Drops every page. Returns how many frames were zeroed.
    fn clear(&mut self) -> u64 {
        self.deactivate();
        self.walk(PageRange::ALL, |_, _| Verdict::Drop).zeroed
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Physical address of the lowest table on the way from `root` to a page.
fn leaf_table(pool: &'static FramePool, root: u64, page: UserPage) -> Option<u64> {
    let mut table = root;
    for level in (1..=TOP).rev() {
        let entry = Raw(slot(pool, table, index_at(page.number(), level)).load(Ordering::Relaxed));
        if entry.is_empty() {
            return None;
        }
        table = entry.address();
    }
    Some(table)
}

/// One entry of the table at a physical address, for as long as that is a table.
fn slot<'a>(pool: &'static FramePool, table: u64, index: usize) -> &'a AtomicU64 {
    let entry = pool.at(table).cast::<u64>().wrapping_add(index % ENTRIES);
    // SAFETY: `table` is a table of a tree (or the kernel's top-level table), which lives as long as who asks for it
    // holds the tree; all accesses to tables are atomic, the processor's too.
    unsafe { AtomicU64::from_ptr(entry) }
}

/// Index into the table of a level on the way to a page.
fn index_at(page_number: u64, level: u32) -> usize {
    (page_number >> (9 * level)) as usize % ENTRIES
}
