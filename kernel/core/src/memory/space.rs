//! The address space itself and its accounting of frames.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::frames::{Frame, FrameKind, FramePool};
use coppice_hal::paging::{Access, Marks, PageTable, Verdict};

use super::areas::Areas;
use super::image::Image;

/// There is no frame left that a program could have. The process is to be ended; the kernel goes on, on its reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory")]
pub struct OutOfMemory;

/// What an address space has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Page faults the program took.
    pub faults: u64,
    /// Of those, on instruction fetches.
    pub instruction_faults: u64,
    /// Pages of the program's file that were fetched, read-ahead included.
    pub pages_fetched: u64,
    /// Frames the program has now, pristine copies included, page tables not.
    pub pages: u64,
    /// Most frames it ever had.
    pub pages_peak: u64,
}

/// A process's memory.
pub struct AddressSpace {
    /// Where frames come from.
    pub(super) frames: &'static FramePool,
    /// What is in memory.
    pub(super) table: PageTable,
    /// What is mapped.
    pub(super) areas: Areas,
    /// The program, once loaded.
    pub(super) image: Option<Arc<Image>>,
    /// Pristine frames of image pages that are not in the table any more because they were written: image page → frame.
    pub(super) pristine: BTreeMap<UserPage, Frame>,
    /// Where the heap starts.
    pub(super) break_start: u64,
    /// Where it ends now.
    pub(super) break_end: u64,
    /// The accounting.
    pub(super) stats: MemoryStats,
}

impl AddressSpace {
    /// An empty one.
    ///
    /// # Errors
    /// There is no frame for the page table.
    pub fn new(frames: &'static FramePool) -> Result<Self, OutOfMemory> {
        Ok(Self {
            frames,
            table: PageTable::new(frames).ok_or(OutOfMemory)?,
            areas: Areas::default(),
            image: None,
            pristine: BTreeMap::new(),
            break_start: 0,
            break_end: 0,
            stats: MemoryStats::default(),
        })
    }

    /// The table to run the program on.
    #[must_use]
    pub fn table(&self) -> &PageTable {
        &self.table
    }

    /// What it has cost so far.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.stats
    }

    /// Whether every byte of a range is mapped, with whatever rights.
    #[must_use]
    pub fn is_mapped(&self, address: u64, length: u64) -> bool {
        address.checked_add(length).is_some_and(|end| self.areas.covers(address, end))
    }

    /// What is mapped, in order: start, address behind the end, and what the program may do there.
    pub fn mapped(&self) -> impl Iterator<Item = (u64, u64, Access)> {
        let all = self.areas.overlapping(0, u64::MAX);
        all.map(|(start, area)| (start, area.end, area.access))
    }

    /// A frame of zeros. Gives pristine copies up if there is no other memory.
    pub(super) fn new_frame(&mut self, kind: FrameKind) -> Result<Frame, OutOfMemory> {
        if let Some(frame) = self.frames.alloc(kind) {
            return Ok(frame);
        }
        self.give_up_pristine();
        self.frames.alloc(kind).ok_or(OutOfMemory)
    }

    /// Maps a page that is not in the table.
    pub(super) fn place(
        &mut self,
        page: UserPage,
        frame: Frame,
        access: Access,
        marks: Marks,
    ) -> Result<(), OutOfMemory> {
        let mut result = self.table.map(page, frame, access, marks);
        if let Err(refused) = result {
            self.give_up_pristine();
            result = self.table.map(page, refused.0, access, marks);
        }
        if result.map_err(|_| OutOfMemory)?.is_none() {
            self.count_page();
        }
        Ok(())
    }

    /// Counts a frame the program has more.
    pub(super) fn count_page(&mut self) {
        self.stats.pages += 1;
        self.stats.pages_peak = self.stats.pages_peak.max(self.stats.pages);
    }

    /// Frees whatever is in memory of `start..end`.
    pub(super) fn discard(&mut self, start: u64, end: u64) {
        let Some(range) = PageRange::covering(start, end) else { return };
        let mut gone = 0;
        self.table.walk(range, |_, _| {
            gone += 1;
            Verdict::Drop
        });
        self.stats.pages -= gone;
    }

    /// Frees the pristine copies that are not mapped. They can be fetched again.
    fn give_up_pristine(&mut self) {
        self.stats.pages -= self.pristine.len() as u64;
        self.pristine.clear();
    }
}
