//! Memory that several mappings show, of one process or of many, and of which each sees what the others write: that of
//! `MAP_SHARED | MAP_ANONYMOUS` and of the files in `/dev/shm`.
//!
//! Its frames appear, as zeros, when first touched. They lie in a page table of their own that no processor ever uses,
//! by their place in the memory: so keeping one costs eight bytes, and holes cost nothing. Whoever has it mapped holds
//! the frames, too; they are zeroed and free when nobody has them any more.
//!
//! While a snapshot of it is kept, what is about to be written is copied into that first. So that this is known, a
//! snapshot is taken while nobody has its pages mapped: who touches one then comes here for it. (Pages that are shown
//! privately are not written, and may stay.)
//!
//! Lock order: an address space may be locked while this is used, never the other way round.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering};

use coppice_hal::addr::{PAGE_BYTES, PageRange, USER_END, UserPage};
use coppice_hal::frames::{Frame, FrameKind, FramePool};
use coppice_hal::paging::{Access, Marks, NoTable, PageTable, Verdict};
use spin::Once;

use super::area::Content;
use super::change::Change;
use super::limits::PAGE;
use super::mapped::OfFile;
use super::retention::Retention;
use super::snapshot::Snapshot;
use super::space::{AddressSpace, OutOfMemory};
use crate::quota::shared_bytes;
use crate::sync::{LockLevel, Mutex};

/// Highest length it can have, bytes.
pub const SHARED_BYTES_MAX: u64 = USER_END;

/// Pages that several of them may have together.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// So many pages.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Pages that there may be, and those that there are.
    #[must_use]
    pub fn pages(&self) -> (u64, u64) {
        (self.limit, self.used.load(Ordering::Relaxed))
    }

    fn take(&self) -> bool {
        let more = |used: u64| Some(used + 1).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give(&self, pages: u64) {
        self.used.fetch_sub(pages, Ordering::Relaxed);
    }
}

/// Why there is no such page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPage {
    /// The memory ends before it.
    #[error("beyond the end")]
    Beyond,
    /// The budget is used up.
    #[error("no space left")]
    Full,
    /// It is in a file, and not here.
    #[error("not read yet")]
    NotRead,
    /// The node has no memory left.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

impl Store {
    pub(super) fn frame(&self, offset: u64) -> Option<Frame> {
        self.table.as_ref()?.frame(UserPage::containing(offset)?)
    }
}

/// See the [module](self).
pub struct SharedMemory {
    id: u64,
    frames: &'static FramePool,
    /// What is given back when there is no other memory.
    retention: Arc<Retention>,
    pub(super) pages: Arc<PageCount>,
    /// It shows a file.
    pub(super) of_file: Once<OfFile>,
    pub(super) store: Mutex<Store>,
}

pub(super) struct Store {
    /// Frames by their place. Made when the first comes. Of one that shows a file, marked those that are as in it.
    pub(super) table: Option<PageTable>,
    /// Bytes.
    length: u64,
    /// It as it was, as long as that is kept.
    snapshot: Weak<Snapshot>,
    /// How often that was to be taken down, on this node.
    snapshots: u64,
}

/// How many pages a memory has, those included that were cut off and are still being taken apart.
pub(super) struct PageCount {
    budget: Option<Arc<Budget>>,
    pages: AtomicU64,
}

impl PageCount {
    /// One more, if there may be.
    pub(super) fn take(&self) -> bool {
        let may = self.budget.as_ref().is_none_or(|budget| budget.take());
        if may {
            self.pages.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// So many are gone.
    pub(super) fn give(&self, pages: u64) {
        self.pages.fetch_sub(pages, Ordering::Relaxed);
        if let Some(budget) = &self.budget {
            budget.give(pages);
        }
    }
}

/// The number of the next.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl SharedMemory {
    /// What one takes of the heap, bytes.
    pub const BYTES: usize = shared_bytes::<Self>() + shared_bytes::<PageCount>();

    /// That many bytes of zeros.
    #[must_use]
    pub fn new(
        frames: &'static FramePool,
        retention: Arc<Retention>,
        length: u64,
        budget: Option<Arc<Budget>>,
    ) -> Self {
        let length = length.min(SHARED_BYTES_MAX);
        let store = Store { table: None, length, snapshot: Weak::new(), snapshots: 0 };
        let pages = Arc::new(PageCount { budget, pages: AtomicU64::new(0) });
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, frames, retention, pages, of_file: Once::new(), store: Mutex::new(LockLevel::Shared, store) }
    }

    /// As [`Self::new`], with a number that it had elsewhere.
    #[must_use]
    pub fn again(
        id: u64,
        frames: &'static FramePool,
        retention: Arc<Retention>,
        length: u64,
        budget: Option<Arc<Budget>>,
    ) -> Self {
        NEXT.fetch_max(id.saturating_add(1), Ordering::Relaxed);
        let mut memory = Self::new(frames, retention, length, budget);
        memory.id = id;
        memory
    }

    /// Whether others may have its pages counted with theirs.
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.pages.budget.is_some()
    }

    /// A number that no other has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its length, bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.store.lock().length
    }

    /// Frames it has.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages.pages.load(Ordering::Relaxed)
    }

    /// Frames it has, its page tables included.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.pages() + self.store.lock().table.as_ref().map_or(0, PageTable::frames)
    }

    /// The frame at an offset, bytes, to be written; made if there is none.
    ///
    /// # Errors
    /// [`NoPage`].
    pub fn page(&self, offset: u64) -> Result<Frame, NoPage> {
        let mut store = self.store.lock();
        if offset >= store.length {
            return Err(NoPage::Beyond);
        }
        self.frame(&mut store, offset)
    }

    /// The same, never to be written.
    ///
    /// # Errors
    /// [`NoPage`].
    pub(super) fn page_to_read(&self, offset: u64) -> Result<Frame, NoPage> {
        let mut store = self.store.lock();
        match store.frame(offset) {
            _ if self.is_closed() => Err(NoPage::NotRead),
            Some(frame) if offset < store.length => Ok(frame),
            _ if offset >= store.length => Err(NoPage::Beyond),
            _ if self.of_file.is_completed() => Err(NoPage::NotRead),
            _ => self.frame(&mut store, offset),
        }
    }

    /// The frame at an offset, bytes, if there is one.
    pub(super) fn frame_at(&self, offset: u64) -> Option<Frame> {
        self.store.lock().frame(offset)
    }

    /// It as it is now. Nobody may have a page of it mapped to be written ([`super::record::Pages::snapshot`]).
    ///
    /// # Errors
    /// There is no memory for its page tables.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, OutOfMemory> {
        let store = &mut *self.store.lock();
        let (copy, pages) = loop {
            // Even if it fails: some pages are unchanged since then that nobody has.
            store.snapshots += 1;
            let taken = PageTable::new(self.frames).and_then(|mut copy| {
                let table = store.table.as_mut();
                let pages = table.map_or(Some(0), |table| table.snapshot(PageRange::ALL, &mut copy, Marks::empty()));
                pages.map(|pages| (copy, pages))
            });
            match taken {
                Some(taken) => break taken,
                None if self.retention.give_back() => {}
                None => return Err(OutOfMemory),
            }
        };
        let snapshot = Arc::new(Snapshot::of(store.snapshots, copy, pages));
        store.snapshot = Arc::downgrade(&snapshot);
        Ok(snapshot)
    }

    /// Gives up what it was, for its memory. Returns whether there was anything.
    pub(super) fn give_up_snapshot(&self) -> bool {
        let snapshot = core::mem::take(&mut self.store.lock().snapshot);
        snapshot.upgrade().is_some_and(|snapshot| snapshot.give_up())
    }

    /// A page is about to be written that is in this frame: the snapshot goes on to show what it was, and the next one
    /// that it is another.
    pub(super) fn changes(&self, store: &mut Store, offset: u64, frame: &Frame) {
        let (Some(page), Some(table)) = (UserPage::containing(offset), &mut store.table) else { return };
        let entry = table.entry(page);
        if entry.as_ref().is_some_and(|entry| entry.unchanged || entry.marks.contains(Marks::FILE)) {
            table.protect(page, Access::empty(), Marks::empty());
        }
        if let Some(of_file) =
            self.of_file.get().filter(|_| entry.is_some_and(|entry| entry.marks.contains(Marks::FILE)))
        {
            of_file.changed(1);
        }
        if let Some(snapshot) = store.snapshot.upgrade().filter(|snapshot| snapshot.shows(page, frame)) {
            // As with a process's own pages, what goes on comes first.
            match self.alloc(|| self.frames.alloc(FrameKind::User)) {
                Ok(copy) => snapshot.copy_page(page, frame, copy),
                Err(OutOfMemory) => drop(snapshot.give_up()),
            }
        }
    }

    /// Whether nothing was ever written at an offset, bytes, or it is behind the end.
    pub(super) fn is_hole(&self, offset: u64) -> bool {
        self.store.lock().frame(offset).is_none()
    }

    fn frame(&self, store: &mut Store, offset: u64) -> Result<Frame, NoPage> {
        if self.is_closed() {
            return Err(NoPage::NotRead);
        }
        if let Some(frame) = store.frame(offset) {
            self.changes(store, offset, &frame);
            return Ok(frame);
        }
        if self.of_file.is_completed() {
            return Err(NoPage::NotRead);
        }
        let page = UserPage::containing(offset).ok_or(NoPage::Beyond)?;
        // What was cut off counts until it is gone.
        while !self.pages.take() {
            if !self.retention.reaper().step() {
                return Err(NoPage::Full);
            }
        }
        let made = self.alloc(|| self.frames.alloc(FrameKind::User));
        let made = made.and_then(|new| self.add(store, page, new, Marks::empty()));
        if made.is_err() {
            self.pages.give(1);
        }
        Ok(made?)
    }

    pub(super) fn add(
        &self,
        store: &mut Store,
        page: UserPage,
        mut new: Frame,
        marks: Marks,
    ) -> Result<Frame, OutOfMemory> {
        let frame = new.clone();
        let table = match &mut store.table {
            Some(table) => table,
            none => none.insert(self.alloc(|| PageTable::new(self.frames))?),
        };
        while let Err(NoTable(refused)) = table.map(page, new, Access::empty(), marks) {
            if !self.retention.give_back() {
                return Err(OutOfMemory);
            }
            new = refused;
        }
        Ok(frame)
    }

    /// Tries until there is no memory to be given back.
    fn alloc<T>(&self, attempt: impl Fn() -> Option<T>) -> Result<T, OutOfMemory> {
        loop {
            match attempt() {
                Some(made) => return Ok(made),
                None if self.retention.give_back() => {}
                None => return Err(OutOfMemory),
            }
        }
    }

    /// Copies bytes from `offset` on out of it. Returns how many: fewer only at its end.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let store = self.store.lock();
        let left = store.length.saturating_sub(offset);
        let length = usize::try_from(left).map_or(out.len(), |left| out.len().min(left));
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let inside = (at % PAGE) as usize;
            let part = &mut out[done..length.min(done + PAGE_BYTES - inside)];
            match store.frame(at) {
                Some(frame) => frame.read(inside, part),
                None => part.fill(0),
            }
            done += part.len();
        }
        length
    }

    /// Copies bytes into it from `offset` on, or to its end if that is `None`; it grows if it ends before. Returns how
    /// many, the offset behind them, and what stopped it.
    pub fn write(&self, offset: Option<u64>, bytes: &[u8]) -> (usize, u64, Result<(), NoPage>) {
        let mut store = self.store.lock();
        let offset = offset.unwrap_or(store.length);
        let mut done = 0;
        while done < bytes.len() {
            let at = offset.saturating_add(done as u64);
            let inside = (at % PAGE) as usize;
            let part = &bytes[done..bytes.len().min(done + PAGE_BYTES - inside)];
            match self.frame(&mut store, at) {
                Ok(frame) => frame.write(inside, part),
                Err(error) => return (done, at, Err(error)),
            }
            done += part.len();
            store.length = store.length.max(at + part.len() as u64);
        }
        (done, offset + done as u64, Ok(()))
    }

    /// Has frames for all of a range; it grows if it ends before and `grows`.
    ///
    /// # Errors
    /// [`NoPage`]; frames that were made stay.
    pub fn allocate(&self, offset: u64, length: u64, grows: bool) -> Result<(), NoPage> {
        let end = offset.checked_add(length).filter(|end| *end <= SHARED_BYTES_MAX).ok_or(NoPage::Beyond)?;
        let mut store = self.store.lock();
        for at in (offset / PAGE * PAGE..end).step_by(PAGE_BYTES) {
            self.frame(&mut store, at)?;
        }
        if grows {
            store.length = store.length.max(end);
        }
        Ok(())
    }

    /// Cuts it or lets it grow, by zeros. If it was cut, what lies behind is to be taken out of the address spaces that
    /// show it ([`super::AddressSpace::forget_shared`]): returns the first page that is.
    pub fn set_length(&self, length: u64) -> Option<u64> {
        let mut store = self.store.lock();
        let before = core::mem::replace(&mut store.length, length.min(SHARED_BYTES_MAX));
        if length >= before {
            return None;
        }
        let end = length.next_multiple_of(PAGE);
        let cut_off = match UserPage::containing(end) {
            Some(UserPage::FIRST) => store.table.take(),
            Some(page) => store.table.as_mut().and_then(|table| self.cut_off(table, page)),
            None => None,
        };
        let tail = (length % PAGE) as usize;
        if tail > 0
            && let Some(frame) = store.frame(length)
        {
            self.changes(&mut store, length, &frame);
            frame.write(tail, &[0; PAGE_BYTES][tail..]);
        }
        drop(store);
        if let Some(table) = cut_off {
            self.retention.reaper().take_apart(table, Some(Arc::clone(&self.pages)));
        }
        Some(end / PAGE)
    }

    /// Waits until what was cut off it is gone, and takes part in the work.
    pub async fn shrunk(&self) {
        self.retention.reaper().rest().await;
    }

    /// Takes the pages from `page` on out of the table, as one of their own. Without memory for that, they go at once.
    fn cut_off(&self, table: &mut PageTable, page: UserPage) -> Option<PageTable> {
        let rest = table.split_off(page);
        if rest.is_none()
            && let Some(range) = PageRange::covering(page.address(), USER_END)
        {
            self.pages.give(table.walk(range, |_, _| Verdict::Drop).dropped);
        }
        rest
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if let Some(table) = self.store.get_mut().table.take() {
            self.retention.reaper().take_apart(table, Some(Arc::clone(&self.pages)));
        }
    }
}

impl AddressSpace {
    /// The number of the memory that others may show at an address, and where in it that is.
    #[must_use]
    pub fn shared_at(&self, address: u64) -> Option<(u64, u64)> {
        let (start, area) = self.areas.find(address)?;
        match &area.content {
            Content::Shared { memory, offset, private: false } | Content::Mapped { memory, offset, .. } => {
                Some((memory.id, offset + (address - start)))
            }
            _ => None,
        }
    }

    /// Whether a shared mapping of that memory is or may become writable.
    #[must_use]
    pub fn may_write(&self, memory: &Arc<SharedMemory>) -> bool {
        self.areas.overlapping(0, u64::MAX).any(|(_, area)| match &area.content {
            Content::Shared { memory: shown, private: false, .. } => area.may_write && Arc::ptr_eq(memory, shown),
            _ => false,
        })
    }

    /// Begins to forget the pages that show shared memory from its page number `first` on, copies of them included: it
    /// was cut. As long as this returns an address, it is to be called again with that, when a change may begin; with 0
    /// at first.
    pub fn forget_shared(&mut self, memory: &Arc<SharedMemory>, first: u64, from: u64) -> Option<u64> {
        let cut = first * PAGE;
        let (start, end) = self
            .areas
            .overlapping(from, u64::MAX)
            .filter_map(|(start, area)| match &area.content {
                Content::Shared { memory: shown, offset, .. } if Arc::ptr_eq(memory, shown) => {
                    Some((start + cut.saturating_sub(*offset), area.end))
                }
                _ => None,
            })
            .find(|(start, end)| start < end && *end > from)?;
        // Nothing of this can fail.
        let _ = self.begin(Change::drop(start.max(from), end));
        Some(end)
    }
}
