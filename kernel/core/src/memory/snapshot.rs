//! The pages of a process as they were at one moment, while it goes on: it shares the frames with the process, whose
//! next write to each goes to a copy ([`coppice_hal::paging::PageTable::snapshot`]). So taking one costs an entry of
//! the page table for each page, and later a copy of each page that is written before it was taken out.
//!
//! Only what is the process's own is in it: not what its program's file says, which is there again from that, nor
//! memory that others may show, of which there is one for all ([`SharedMemory::snapshot`]). The frames of that stay
//! where they are and are written there, so it is the snapshot that gets a copy before.
//!
//! Pages are taken out in *windows*: those of a run of [`WINDOW_PAGES`] at a multiple of that, whatever lies beside
//! them. What a program does not change is in equal windows each time.
//!
//! Snapshots of a process are numbered, and in each the entry of a page says whether it is as it was in the one before.
//! Whoever has kept all of that one needs no bytes of a window whose pages are the same ones, all unchanged: these are
//! let go of, and nobody looks at them ([`Taken::Unchanged`]). A snapshot that fails has a number, too, and is one that
//! nobody has kept. So a page is known to be unchanged, or it is taken to be another.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::{PAGE_BYTES, PageRange, USER_END, UserPage};
use coppice_hal::frames::{Frame, FrameKind};
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

/// A window that was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is as it was in the snapshot before, and nothing that is in it was given.
    Unchanged(Window),
    /// It may be another, and all that is in it was given.
    Changed(Window),
}

/// See this module.
pub struct Snapshot {
    /// `None`: given up.
    table: Mutex<Option<PageTable>>,
    pages: u64,
    number: u64,
}

impl Snapshot {
    /// One with that number, of the pages in a table.
    pub(super) fn of(number: u64, table: PageTable, pages: u64) -> Self {
        Self { table: Mutex::new(LockLevel::Reaper, Some(table)), pages, number }
    }

    /// Which one of the process or the memory it is on this node, from 1 on. What is unchanged in it is so since the
    /// one with the number before.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether what is unchanged in it is so since the one with that number.
    #[must_use]
    pub fn follows(&self, number: u64) -> bool {
        self.number > 1 && self.number - 1 == number
    }

    /// How many pages were in it.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Takes out what the first window has, with the bytes of its pages that are not zeros behind those in `out`.
    /// `None`: there is nothing left.
    ///
    /// `known` says what the window with a number was in the snapshot that this one follows ([`Self::follows`]), if who
    /// asks has kept all of that. If it is the same one, nothing is read.
    ///
    /// # Errors
    /// [`GivenUp`].
    pub fn take(&self, out: &mut Vec<u8>, known: impl FnOnce(u64) -> Option<Window>) -> Result<Option<Taken>, GivenUp> {
        self.take_window(known, |frame| {
            let before = out.len();
            out.resize(before + PAGE_BYTES, 0);
            frame.read(0, &mut out[before..]);
        })
    }

    /// As [`Self::take`], with the frames of its pages instead of their bytes, of what is a process's own. As long as
    /// they are held the process writes to copies of them, and giving the snapshot up frees the others only.
    ///
    /// # Errors
    /// [`GivenUp`].
    pub fn take_frames(
        &self,
        out: &mut Vec<Frame>,
        known: impl FnOnce(u64) -> Option<Window>,
    ) -> Result<Option<Taken>, GivenUp> {
        self.take_window(known, |frame| out.push(frame))
    }

    /// Takes the first window out, and gives the frames of its pages that are not zeros to `each`, in order, unless it
    /// is known.
    fn take_window(
        &self,
        known: impl FnOnce(u64) -> Option<Window>,
        mut each: impl FnMut(Frame),
    ) -> Result<Option<Taken>, GivenUp> {
        // Until all is read: what lies in memory that others show is written when it is not here any more.
        let mut table = self.table.lock();
        let next = Next::of(table.as_mut().ok_or(GivenUp)?);
        let Some(Next { number, frames, unchanged }) = next else { return Ok(None) };
        let there = frames.iter().enumerate().filter(|(_, frame)| frame.is_some());
        let there = there.fold(0, |bits, (index, _)| bits | 1 << index);
        // A page that came is not unchanged; if one went they are fewer.
        let is_same = |known: &Window| known.number == number && known.filled | known.zeros == there;
        if unchanged == there
            && let Some(known) = known(number).filter(is_same)
        {
            return Ok(Some(Taken::Unchanged(known)));
        }
        let mut window = Window { number, ..Window::default() };
        for (index, frame) in frames.into_iter().enumerate() {
            let Some(frame) = frame else { continue };
            if is_zero(&frame) {
                window.zeros |= 1 << index;
            } else {
                window.filled |= 1 << index;
                each(frame);
            }
        }
        Ok(Some(Taken::Changed(window)))
    }

    /// Whether it shows that frame at a page.
    pub(super) fn shows(&self, page: UserPage, frame: &Frame) -> bool {
        self.table.lock().as_ref().is_some_and(|table| is_at(table, page, frame))
    }

    /// Has it show a copy of that frame, if it shows it at a page still. The page has its tables then.
    pub(super) fn copy_page(&self, page: UserPage, frame: &Frame, copy: Frame) {
        let mut table = self.table.lock();
        if let Some(table) = table.as_mut().filter(|table| is_at(table, page, frame)) {
            copy.copy_from(frame);
            drop(table.replace(page, copy));
        }
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

/// A window as it comes out of the table.
struct Next {
    number: u64,
    /// Of its pages, in their places.
    frames: [Option<Frame>; WINDOW_PAGES as usize],
    /// A bit for each page that is unchanged.
    unchanged: u32,
}

impl Next {
    /// Takes the frames of the first window out.
    fn of(table: &mut PageTable) -> Option<Self> {
        let first = table.first_in(PageRange::ALL)?;
        let window = Window { number: first.number() / WINDOW_PAGES, ..Window::default() };
        let mut next = Self { number: window.number, frames: [const { None }; _], unchanged: 0 };
        for ((index, page), place) in window.pages(u32::MAX).enumerate().zip(&mut next.frames) {
            let Some((frame, entry)) = table.take(page) else { continue };
            next.unchanged |= u32::from(entry.unchanged) << index;
            *place = Some(frame);
        }
        Some(next)
    }
}

fn is_at(table: &PageTable, page: UserPage, frame: &Frame) -> bool {
    table.frame(page).is_some_and(|there| there.address() == frame.address())
}

/// Whether a frame is all zeros. Nobody writes to it: most that are not show that in their first bytes.
fn is_zero(frame: &Frame) -> bool {
    const PART_BYTES: usize = 256;
    let mut part = [0; PART_BYTES];
    (0..PAGE_BYTES).step_by(PART_BYTES).all(|at| {
        frame.read(at, &mut part);
        let (words, _) = part.as_chunks::<16>();
        words.iter().all(|word| u128::from_ne_bytes(*word) == 0)
    })
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
        loop {
            match self.try_snapshot() {
                Err(OutOfMemory) if self.retention.give_back() => {}
                taken => return taken,
            }
        }
    }

    fn try_snapshot(&mut self) -> Result<Arc<Snapshot>, OutOfMemory> {
        // Even if it fails: some pages are unchanged since then that nobody has.
        self.snapshots += 1;
        let mut copy = PageTable::new(self.frames).ok_or(OutOfMemory)?;
        let (mut pages, mut reached) = (0, 0);
        for area in self.shown.iter().map(Some).chain([None]) {
            let (start, end) = area.map_or((USER_END, USER_END), |area| (area.start, area.end));
            if let Some(range) = PageRange::covering(reached, start) {
                pages += self.table.snapshot(range, &mut copy, Marks::PRISTINE).ok_or(OutOfMemory)?;
            }
            match area {
                Some(area) if area.private => pages += own_pages(&mut self.table, area, &self.memories, &mut copy)?,
                // Whoever touches them from now on has their memory asked for them.
                Some(area) => self.forgotten += forget(&mut self.table, area),
                None => {}
            }
            reached = end;
        }
        let snapshot = Arc::new(Snapshot::of(self.snapshots, copy, pages));
        self.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

/// Takes the pages out of the table where a process shows memory that others may show, too.
fn forget(table: &mut PageTable, area: &Shown) -> u64 {
    PageRange::covering(area.start, area.end).map_or(0, |range| table.walk(range, |_, _| Verdict::Drop).dropped)
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
        let (shown, snapshot, snapshots, forgotten) = (Vec::new(), None, 0, 0);
        Pages { frames, table, image, aside, retention, file_changes, memories, shown, snapshot, snapshots, forgotten }
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
}
