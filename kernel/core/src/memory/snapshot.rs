//! The pages of a process as they were at one moment, while it goes on: it shares the frames with the process, whose
//! next write to each goes to a copy ([`coppice_hal::paging::PageTable::snapshot`]). So taking one costs an entry of
//! the page table for each page, and later a copy of each page that is written before it was taken out.
//!
//! Only what is the process's own is in it: not what its program's file says, which is there again from that, nor
//! memory that others may show, of which there is one copy for all ([`SharedMemory::snapshot`]).
//!
//! Pages are taken out in *windows*: those of a run of [`WINDOW_PAGES`] at a multiple of that, whatever lies beside
//! them. What a program does not change is in equal windows each time.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::{PAGE_BYTES, PageRange, USER_END, UserPage};
use coppice_hal::frames::FrameKind;
use coppice_hal::paging::{Marks, PageTable, Verdict};
use coppice_protocol::checkpoint::OBJECT_BYTES_MAX;
use serde::{Deserialize, Serialize};

use super::area::Content;
use super::limits::PAGE;
use super::record::{Pages, Shown};
use super::shared::{NoPage, SharedMemory};
use super::space::{AddressSpace, OutOfMemory};
use crate::sync::{LockLevel, Mutex};

/// Pages of a window: as many as are in an object.
pub const WINDOW_PAGES: u64 = (OBJECT_BYTES_MAX / PAGE_BYTES) as u64;

const _: () = assert!(WINDOW_PAGES == u32::BITS as u64, "a window's pages are the bits of a word");

/// Which pages of a window there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Which window, counted from address 0.
    pub number: u64,
    /// A bit for each page that there is and that is not all zeros, the first is the lowest.
    pub filled: u32,
    /// Those that are all zeros.
    pub zeros: u32,
}

impl Window {
    /// Whether one of its pages is all zeros.
    #[must_use]
    pub fn is_zero(&self, page: UserPage) -> bool {
        self.zeros & (1 << (page.number() % WINDOW_PAGES)) != 0
    }

    /// The pages whose bits these are, in order.
    pub fn pages(&self, bits: u32) -> impl Iterator<Item = UserPage> + use<> {
        // Which may be beyond all pages: it may come from a disk.
        let first = self.number.saturating_mul(WINDOW_PAGES);
        let set = (0..WINDOW_PAGES).filter(move |index| bits & (1 << index) != 0);
        set.filter_map(move |index| UserPage::containing(first.checked_add(index)?.checked_mul(PAGE)?))
    }
}

/// What there is no more: memory was wanted, and it was given up for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node had no memory for both the pages as they were and those written since")]
pub struct GivenUp;

/// See this module.
pub struct Snapshot {
    /// `None`: given up.
    table: Mutex<Option<PageTable>>,
    pages: u64,
}

impl Snapshot {
    /// How many pages were in it.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Takes out what the first window has, with the bytes of its pages that are not zeros behind those in `out`.
    /// `None`: there is nothing left.
    ///
    /// # Errors
    /// [`GivenUp`].
    pub fn take(&self, out: &mut Vec<u8>) -> Result<Option<Window>, GivenUp> {
        let mut table = self.table.lock();
        let table = table.as_mut().ok_or(GivenUp)?;
        let Some(first) = table.first_in(PageRange::ALL) else { return Ok(None) };
        let mut window = Window { number: first.number() / WINDOW_PAGES, ..Window::default() };
        let places = window.pages(u32::MAX).enumerate();
        for (index, page) in places {
            let Some(frame) = table.unmap(page) else { continue };
            let before = out.len();
            out.resize(before + PAGE_BYTES, 0);
            frame.read(0, &mut out[before..]);
            if is_zero(&out[before..]) {
                out.truncate(before);
                window.zeros |= 1 << index;
            } else {
                window.filled |= 1 << index;
            }
        }
        Ok(Some(window))
    }

    /// Gives it up, for its memory. Returns whether there was anything.
    pub fn give_up(&self) -> bool {
        let table = self.table.lock().take();
        table.is_some_and(|table| {
            table.discard();
            true
        })
    }
}

fn is_zero(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

impl Pages {
    /// Memories that others may show, too, in the order of the record.
    #[must_use]
    pub fn memories(&self) -> &[Arc<SharedMemory>] {
        &self.memories
    }

    /// As they are now. The process has it given up when there is no memory for what it writes.
    ///
    /// # Errors
    /// There is no memory for its page tables.
    pub fn snapshot(&mut self) -> Result<Arc<Snapshot>, OutOfMemory> {
        let mut copy = PageTable::new(self.frames).ok_or(OutOfMemory)?;
        let (mut pages, mut reached) = (0, 0);
        for area in self.shown.iter().map(Some).chain([None]) {
            let (start, end) = area.map_or((USER_END, USER_END), |area| (area.start, area.end));
            if let Some(range) = PageRange::covering(reached, start) {
                pages += self.table.snapshot(range, &mut copy, Marks::PRISTINE).ok_or(OutOfMemory)?;
            }
            if let Some(area) = area.filter(|area| area.private) {
                pages += own_pages(&mut self.table, area, &self.memories, &mut copy)?;
            }
            reached = end;
        }
        let snapshot = Snapshot { table: Mutex::new(LockLevel::Reaper, Some(copy)), pages };
        let snapshot = Arc::new(snapshot);
        self.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

/// Takes the pages that a process has written where it shows memory privately. The others are the memory's.
fn own_pages(
    table: &mut PageTable,
    area: &Shown,
    memories: &[Arc<SharedMemory>],
    copy: &mut PageTable,
) -> Result<u64, OutOfMemory> {
    let mut rest = PageRange::covering(area.start, area.end);
    let mut pages = 0;
    while let Some(page) = rest.and_then(|rest| table.first_in(rest)) {
        let memory = memories.get(area.memory as usize);
        let there = memory.and_then(|memory| memory.frame_at(area.offset + (page.address() - area.start)));
        let here = table.frame(page).map(|frame| frame.address());
        if there.map(|there| there.address()) != here {
            // The memory's frames are mapped to be copied and never said to be unchanged. One may be left of a memory
            // that was cut, and be written by others who have not forgotten it either.
            let is_own =
                table.entry(page).is_some_and(|entry| entry.unchanged || !entry.marks.contains(Marks::COPY_ON_WRITE));
            pages += table.snapshot_page(page, copy, is_own).ok_or(OutOfMemory)?;
        }
        rest = rest.map(|rest| rest.after(page));
    }
    Ok(pages)
}

impl AddressSpace {
    /// Its pages, when nothing else of it is known yet, with memories that it will show.
    pub fn into_pages(self, memories: Vec<Arc<SharedMemory>>) -> Pages {
        let Self { frames, table, image, aside, retention, file_changes, .. } = self;
        Pages { frames, table, image, aside, retention, file_changes, memories, shown: Vec::new(), snapshot: None }
    }

    /// Takes pages of the program out of the table that are not where areas show them: it was made before those were
    /// known. They are fetched again if they are wanted elsewhere.
    pub fn keep_what_fits(&mut self) {
        let areas = &self.areas;
        let mut kept = 0;
        self.table.walk(PageRange::ALL, |page, entry| {
            let area = areas.find(page.address()).filter(|(start, area)| match &area.content {
                Content::Program { address, .. } => address == start,
                _ => false,
            });
            let Some((_, area)) = area else { return Verdict::Drop };
            entry.set(area.access.read_only(), entry.get().marks);
            kept += 1;
            Verdict::Keep
        });
        // Those that it had are counted as they come.
        self.stats.pages = kept + self.aside.pages();
    }

    /// Has a page be what it was: these bytes or, for `None`, zeros. Nothing happens where nothing is mapped.
    ///
    /// # Errors
    /// There is no memory for it.
    ///
    /// # Panics
    /// If those are more bytes than a page has.
    pub fn put_page(&mut self, page: UserPage, bytes: Option<&[u8]>) -> Result<(), OutOfMemory> {
        let Some((_, area)) = self.areas.find(page.address()) else { return Ok(()) };
        let (rights, is_zeros) = (area.access, matches!(area.content, Content::Zero));
        if bytes.is_none() && is_zeros {
            return Ok(());
        }
        let frame = self.new_frame(FrameKind::User)?;
        if let Some(bytes) = bytes {
            frame.write(0, bytes);
        }
        self.place(page, frame, rights, Marks::empty())
    }
}

impl SharedMemory {
    /// Has the page at an offset be these bytes, where it has been one.
    ///
    /// # Errors
    /// [`NoPage`].
    ///
    /// # Panics
    /// If those are more bytes than a page has.
    pub fn put_page(&self, offset: u64, bytes: &[u8]) -> Result<(), NoPage> {
        self.page(offset).map(|frame| frame.write(0, bytes))
    }

    /// A copy of its pages as they are now. Nobody may write them meanwhile.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn snapshot(&self) -> Result<Snapshot, OutOfMemory> {
        let (copy, pages) = self.copied()?;
        Ok(Snapshot { table: Mutex::new(LockLevel::Reaper, Some(copy)), pages })
    }
}
