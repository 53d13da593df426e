//! Memory that shows a file of the I/O node's, written or not: what the shared mappings of the file show, those of all
//! ranks of a job on the node.
//!
//! It is [`SharedMemory`] whose pages come from the file when they are first touched ([`super::Fetch`]) and go back to
//! it when they were written. A page that is as in the file is marked so ([`Marks::FILE`]) and never mapped to be
//! written: the first write comes here, which takes the mark away. To write pages back is to mark them again
//! ([`SharedMemory::take_changed`]), to have no address space map them to be written
//! ([`AddressSpace::protect_mapped`]), and then to take their bytes: in this order, so that whatever is written
//! meanwhile is either among the bytes or changes the page anew.
//!
//! Where the file ends it does not know: who reads pages for it finds none there.

use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coppice_hal::addr::{PAGE_BYTES, PageRange, USER_END, UserPage};
use coppice_hal::frames::{Frame, FramePool};
use coppice_hal::paging::{Access, Entry, Marks, PageTable, Verdict};

use super::area::{Content, FileSource};
use super::changed::FILE_PAGE;
use super::fault::{Resolution, Signal};
use super::limits::PAGE;
use super::retention::Retention;
use super::shared::{NoPage, SHARED_BYTES_MAX, SharedMemory};
use super::space::{AddressSpace, OutOfMemory};
use crate::executor::WaitQueue;

/// The pages of all files of a job that mappings have written.
pub(crate) struct MappedPages {
    count: AtomicU64,
    /// Nobody waits for any more to come.
    is_over: AtomicBool,
    /// Told of the first, and of that.
    came: WaitQueue,
}

impl MappedPages {
    /// None.
    pub(crate) fn new() -> Self {
        Self { count: AtomicU64::new(0), is_over: AtomicBool::new(false), came: WaitQueue::new() }
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until there are some. False: nobody needs to any more.
    pub(crate) async fn some(&self) -> bool {
        let some = || {
            let is_over = self.is_over.load(Ordering::Relaxed);
            (is_over || self.count() > 0).then_some(!is_over)
        };
        self.came.wait_until(some).await
    }

    /// Nobody needs to wait any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.came.wake_all();
    }

    fn add(&self, pages: u64) {
        if self.count.fetch_add(pages, Ordering::Relaxed) == 0 {
            self.came.wake_all();
        }
    }

    fn take(&self, pages: u64) {
        self.count.fetch_sub(pages, Ordering::Relaxed);
    }
}

/// What memory that shows a file has beside.
pub(super) struct OfFile {
    /// Its pages that were written, and those of all files of the job.
    own: AtomicU64,
    all: Arc<MappedPages>,
    /// Nothing of it may be mapped.
    closed: AtomicBool,
}

impl OfFile {
    fn new(all: &Arc<MappedPages>) -> Self {
        Self { own: AtomicU64::new(0), all: Arc::clone(all), closed: AtomicBool::new(false) }
    }

    /// So many more were written.
    pub(super) fn changed(&self, pages: u64) {
        self.own.fetch_add(pages, Ordering::Relaxed);
        self.all.add(pages);
    }

    /// So many are not any more.
    fn settled(&self, pages: u64) {
        self.own.fetch_sub(pages, Ordering::Relaxed);
        self.all.take(pages);
    }
}

impl Drop for OfFile {
    fn drop(&mut self) {
        self.all.take(*self.own.get_mut());
    }
}

impl SharedMemory {
    /// One that shows a file, of which nothing was read yet. `changed` counts the pages that were written, of all files
    /// of the job.
    pub(crate) fn of_file(frames: &'static FramePool, retention: &Arc<Retention>, changed: &Arc<MappedPages>) -> Self {
        let memory = Self::new(frames, Arc::clone(retention), SHARED_BYTES_MAX, None);
        memory.of_file.call_once(|| OfFile::new(changed));
        memory
    }

    /// It shows a file, which it did when it was written down: all of it is as in the file.
    pub(crate) fn shows_file_again(&self, changed: &Arc<MappedPages>) {
        let mut store = self.store.lock();
        if self.of_file.is_completed() {
            return;
        }
        self.of_file.call_once(|| OfFile::new(changed));
        if let Some(table) = &mut store.table {
            table.walk(PageRange::ALL, |_, entry| {
                let access = entry.get().access;
                entry.set(access, Marks::FILE);
                Verdict::Keep
            });
        }
    }

    /// How many of its pages were written.
    pub(crate) fn changed_pages(&self) -> u64 {
        self.of_file.get().map_or(0, |of_file| of_file.own.load(Ordering::Relaxed))
    }

    /// Whether nothing of it may be mapped just now.
    pub(crate) fn is_closed(&self) -> bool {
        self.of_file.get().is_some_and(|of_file| of_file.closed.load(Ordering::Relaxed))
    }

    /// Takes in a page of the file, unless there is one, or nothing of it may be mapped just now.
    ///
    /// # Errors
    /// There is no memory for its tables.
    pub(super) fn insert(&self, offset: u64, frame: Frame) -> Result<(), OutOfMemory> {
        let mut store = self.store.lock();
        let Some(page) = UserPage::containing(offset) else { return Ok(()) };
        if self.is_closed() || store.frame(offset).is_some() {
            return Ok(());
        }
        self.add(&mut store, page, frame, Marks::FILE)?;
        self.pages.take();
        Ok(())
    }

    /// Nothing of it is mapped any more from now on, and nothing taken in, or it is again. What is mapped is to be
    /// taken out of the address spaces ([`AddressSpace::forget_mapped`]).
    pub(crate) fn close(&self, closed: bool) {
        let _store = self.store.lock();
        if let Some(of_file) = self.of_file.get() {
            of_file.closed.store(closed, Ordering::Relaxed);
        }
    }

    /// The first run of pages that were written, from `from` on, `most` bytes at most: they are as in the file from now
    /// on, if whoever takes them writes them there.
    pub(crate) fn take_changed(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let of_file = self.of_file.get()?;
        let mut store = self.store.lock();
        if of_file.own.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let table = store.table.as_mut()?;
        let is_changed = |entry: Entry| !entry.marks.contains(Marks::FILE);
        let mut first = PageRange::covering(from, USER_END).and_then(|rest| table.first_in(rest))?;
        while !table.entry(first).is_some_and(is_changed) {
            let rest = PageRange::covering(first.address() + PAGE, USER_END)?;
            first = table.first_in(rest)?;
        }
        let (start, mut end) = (first.address(), first.address());
        while end < start + most
            && let Some(page) = UserPage::containing(end)
            && table.entry(page).is_some_and(is_changed)
        {
            table.protect(page, Access::empty(), Marks::FILE);
            end += PAGE;
        }
        of_file.settled((end - start) / PAGE);
        Some(start..end)
    }

    /// Whoever took these pages does not know that they are in the file: they are still to be written.
    pub(crate) fn put_back(&self, bytes: &Range<u64>) {
        let mut store = self.store.lock();
        let (Some(of_file), Some(table)) = (self.of_file.get(), store.table.as_mut()) else { return };
        let Some(range) = PageRange::covering(bytes.start / PAGE * PAGE, bytes.end.next_multiple_of(PAGE)) else {
            return;
        };
        let mut pages = 0;
        table.walk(range, |_, entry| {
            let Entry { access, marks, .. } = entry.get();
            if marks.contains(Marks::FILE) {
                entry.set(access, marks.difference(Marks::FILE));
                pages += 1;
            }
            Verdict::Keep
        });
        of_file.changed(pages);
    }

    /// Pages with any of these bytes are other ones in the file now. Those that were written stay.
    pub(crate) fn forget_file(&self, bytes: &Range<u64>) {
        let mut store = self.store.lock();
        let range = PageRange::covering(bytes.start / PAGE * PAGE, bytes.end.min(USER_END).next_multiple_of(PAGE));
        let (Some(range), Some(table)) = (range, store.table.as_mut()) else { return };
        let walked =
            table.walk(
                range,
                |_, entry| {
                    if entry.get().marks.contains(Marks::FILE) { Verdict::Drop } else { Verdict::Keep }
                },
            );
        self.pages.give(walked.dropped);
    }

    /// Zeros the rest of the page that has a file's end.
    pub(crate) fn zero_from(&self, length: u64) {
        let store = self.store.lock();
        let tail = (length % PAGE) as usize;
        if tail > 0
            && let Some(frame) = store.frame(length)
        {
            frame.write(tail, &[0; PAGE_BYTES][tail..]);
        }
    }

    /// The file has so many bytes: what is behind them goes, written or not.
    pub(crate) fn cut_file(&self, length: u64) {
        let mut store = self.store.lock();
        let tail = (length % PAGE) as usize;
        if tail > 0
            && let Some(frame) = store.frame(length)
        {
            self.changes(&mut store, length, &frame);
            frame.write(tail, &[0; PAGE_BYTES][tail..]);
        }
        let range = PageRange::covering(length.min(USER_END).next_multiple_of(PAGE), USER_END);
        let (Some(range), Some(table)) = (range, store.table.as_mut()) else { return };
        let mut changed = 0;
        let walked = table.walk(range, |_, entry| {
            changed += u64::from(!entry.get().marks.contains(Marks::FILE));
            Verdict::Drop
        });
        self.pages.give(walked.dropped);
        if let Some(of_file) = self.of_file.get() {
            of_file.settled(changed);
        }
    }
}

impl AddressSpace {
    /// Maps a page of a file that is mapped shared.
    pub(super) fn place_mapped(
        &mut self,
        (page, address): (UserPage, u64),
        (rights, access): (Access, Access),
        memory: &Arc<SharedMemory>,
        (file, offset): (&Arc<dyn FileSource>, u64),
    ) -> Resolution {
        let writes = access.contains(Access::WRITE);
        let frame = loop {
            match if writes { memory.page(offset) } else { memory.page_to_read(offset) } {
                Err(NoPage::Memory(_)) if self.give_up() => {}
                other => break other,
            }
        };
        let (rights, marks) = if writes { (rights, Marks::empty()) } else { (rights.read_only(), FILE_PAGE) };
        match frame {
            Ok(frame) => self.place(page, frame, rights, marks).into(),
            Err(NoPage::NotRead) => Resolution::Fetch(self.file_fetch(page, address, file, offset)),
            Err(NoPage::Memory(OutOfMemory)) => Resolution::OutOfMemory,
            Err(NoPage::Beyond | NoPage::Full) => Resolution::Signal(Signal::beyond_file(address)),
        }
    }

    /// Lets a page be written that shows a file as others do: it is not as in the file any more. False: the page shows
    /// nothing like that.
    pub(super) fn write_mapped(&mut self, page: UserPage, rights: Access) -> bool {
        let Some((start, area)) = self.areas.find(page.address()) else { return false };
        let Content::Mapped { memory, offset, .. } = &area.content else { return false };
        let (memory, offset) = (Arc::clone(memory), offset + (page.address() - start));
        if memory.page(offset).is_ok() {
            self.table.protect(page, rights, Marks::empty());
        } else if let Some(range) = PageRange::covering(page.address(), page.address() + PAGE) {
            // It was forgotten: the next touch reads it again.
            self.stats.pages -= self.table.walk(range, |_, _| Verdict::Drop).dropped;
        }
        true
    }

    /// Has pages of a file that show these bytes not be written before that is said.
    pub(crate) fn protect_mapped(&mut self, memory: &Arc<SharedMemory>, bytes: &Range<u64>) {
        self.each_mapped(memory, bytes, |table, pages| {
            table.walk(pages, |_, entry| {
                let access = entry.get().access;
                entry.set(access.read_only(), FILE_PAGE);
                Verdict::Keep
            });
            0
        });
    }

    /// Takes pages out that show these bytes of a file: those that are as in it, or `all`.
    pub(crate) fn forget_mapped(&mut self, memory: &Arc<SharedMemory>, bytes: &Range<u64>, all: bool) {
        let dropped = self.each_mapped(memory, bytes, |table, pages| {
            let forget = |entry: Entry| all || entry.marks == FILE_PAGE;
            table.walk(pages, |_, entry| if forget(entry.get()) { Verdict::Drop } else { Verdict::Keep }).dropped
        });
        self.stats.pages -= dropped;
    }

    /// Does something to all runs of pages that show these bytes, and adds up what that gives.
    fn each_mapped(
        &mut self,
        memory: &Arc<SharedMemory>,
        bytes: &Range<u64>,
        mut each: impl FnMut(&mut PageTable, PageRange) -> u64,
    ) -> u64 {
        // Pages that are on their way to another place are looked at there.
        while !self.step() {}
        let mut sum = 0;
        for (start, area) in self.areas.overlapping(0, u64::MAX) {
            let Content::Mapped { memory: shown, offset, .. } = &area.content else { continue };
            if !Arc::ptr_eq(shown, memory) {
                continue;
            }
            let place = |byte: u64| start.saturating_add(byte.saturating_sub(*offset)).min(area.end);
            let (first, end) = (place(bytes.start) / PAGE * PAGE, place(bytes.end));
            let end = end.checked_next_multiple_of(PAGE).unwrap_or(area.end);
            if let Some(pages) = PageRange::covering(first, end) {
                sum += each(&mut self.table, pages);
            }
        }
        sum
    }

    /// Whether a page shows a file as others do.
    #[must_use]
    pub(crate) fn is_mapped_shared(&self, address: u64) -> bool {
        self.areas.find(address).is_some_and(|(_, area)| matches!(area.content, Content::Mapped { .. }))
    }

    /// The files that are mapped shared in a range.
    pub(crate) fn mapped_files(&self, start: u64, end: u64) -> impl Iterator<Item = &Arc<dyn FileSource>> {
        self.areas.overlapping(start, end).filter_map(|(_, area)| match &area.content {
            Content::Mapped { file, .. } => Some(file),
            _ => None,
        })
    }
}
