//! The address space itself and its accounting of frames.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::UserPage;
use coppice_hal::frames::{Frame, FrameKind, FramePool};
use coppice_hal::paging::{Access, Marks, NoTable, PageTable};

use coppice_protocol::program::Segment;
use serde::{Deserialize, Serialize};

use super::area::Content;
use super::areas::Areas;
use super::aside::Aside;
use super::change::Changes;
use super::changed::Changes as FileChanges;
use super::image::Image;
use super::limit::MemoryLimits;
use super::limits::{AREAS_MAX, AREAS_MIN, READ_AHEAD_SPARE_FRAMES};
use super::retention::Retention;
use super::snapshot::Snapshot;
use crate::quota::Quota;

/// There is no frame left that a program could have. The process is to be ended; the kernel goes on, on its reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory")]
pub struct OutOfMemory;

/// What an address space has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Page faults the program took.
    pub faults: u64,
    /// Of those, on instruction fetches.
    pub instruction_faults: u64,
    /// Pages of the program that were there at its start, retained from an earlier run.
    pub pages_found: u64,
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
    /// Pristine frames of image pages that are not in the table any more because they were written.
    pub(super) aside: Aside,
    /// What other programs left here, to be given back when memory is wanted.
    pub(super) retention: Arc<Retention>,
    /// Where the heap starts.
    pub(super) break_start: u64,
    /// Where it ends now.
    pub(super) break_end: u64,
    /// The accounting.
    pub(super) stats: MemoryStats,
    /// What is being changed.
    pub(super) changes: Changes,
    /// What the program found when it started.
    pub(super) start: Start,
    /// How much may be mapped.
    pub(super) limits: MemoryLimits,
    /// What became of the files in it lately.
    pub(super) file_changes: FileChanges,
    /// Its pages as they were, as long as they are being written down.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// How often that was to be taken down, on this node.
    pub(super) snapshots: u64,
}

/// What a program finds when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The stack pointer.
    pub stack: u64,
    /// The auxiliary vector, as it lies on the stack.
    pub auxiliary: Vec<u8>,
}

impl AddressSpace {
    /// It is one of so many on the node, which share what the kernel keeps for them: charged to `quota`.
    pub fn share_room(&mut self, spaces: u32, quota: &Arc<Quota>) {
        self.areas.limit((AREAS_MAX / spaces.max(1) as usize).max(AREAS_MIN), quota);
    }

    /// An empty one. What `retention` holds is given back when there is no other memory.
    ///
    /// # Errors
    /// There is no frame for the page table.
    pub fn new(frames: &'static FramePool, retention: Arc<Retention>) -> Result<Self, OutOfMemory> {
        loop {
            if let Some(table) = PageTable::new(frames) {
                return Ok(Self::over(frames, retention, table));
            }
            if !retention.give_back() {
                return Err(OutOfMemory);
            }
        }
    }

    /// One in which nothing is mapped yet, with this table.
    pub(super) fn over(frames: &'static FramePool, retention: Arc<Retention>, table: PageTable) -> Self {
        Self {
            frames,
            table,
            areas: Areas::default(),
            image: None,
            aside: Aside::default(),
            retention,
            break_start: 0,
            break_end: 0,
            stats: MemoryStats::default(),
            start: Start::default(),
            limits: MemoryLimits::default(),
            file_changes: FileChanges::default(),
            changes: Changes::default(),
            snapshot: None,
            snapshots: 0,
        }
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

    /// What the program found when it started.
    #[must_use]
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// Where the program's heap starts and ends.
    #[must_use]
    pub fn heap(&self) -> (u64, u64) {
        (self.break_start, self.break_end)
    }

    /// The lowest and the highest end of the program's segments that can be run, and of those that can be written.
    #[must_use]
    pub fn program_bounds(&self) -> [(u64, u64); 2] {
        let segments = self.image.iter().flat_map(|image| &image.layout.segments);
        let bounds = |wanted: fn(&&Segment) -> bool| {
            let ends = segments.clone().filter(wanted).map(|segment| (segment.address, segment.end_page()));
            ends.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or_default()
        };
        [bounds(|segment| segment.execute), bounds(|segment| segment.write)]
    }

    /// Whether every byte of a range is mapped, with whatever rights.
    #[must_use]
    pub fn is_mapped(&self, address: u64, length: u64) -> bool {
        address.checked_add(length).is_some_and(|end| self.areas.covers(address, end))
    }

    /// Whether the program may do that where this address is, as far as its mapping goes.
    #[must_use]
    pub fn may_access(&self, address: u64, access: Access) -> bool {
        self.areas.find(address).is_some_and(|(_, area)| area.access.contains(access))
    }

    /// What is mapped, in order: start, address behind the end, and what the program may do there.
    pub fn mapped(&self) -> impl Iterator<Item = (u64, u64, Access)> {
        let all = self.areas.overlapping(0, u64::MAX);
        all.map(|(start, area)| (start, area.end, area.access))
    }

    /// A frame of zeros. Has whatever can be fetched again given up if there is no other memory.
    pub(super) fn new_frame(&mut self, kind: FrameKind) -> Result<Frame, OutOfMemory> {
        loop {
            if let Some(frame) = self.frames.alloc(kind) {
                return Ok(frame);
            }
            if !self.give_up() {
                return Err(OutOfMemory);
            }
        }
    }

    /// A frame of zeros that other programs' retained pages may be given up for, but none of this one's.
    pub(super) fn new_frame_beside(&self, kind: FrameKind) -> Option<Frame> {
        loop {
            let frame = self.frames.alloc(kind);
            if frame.is_some() || !self.retention.give_back() {
                return frame;
            }
        }
    }

    /// Whether there is memory for pages that nobody asked for yet.
    pub(super) fn has_spare_memory(&self) -> bool {
        while self.frames.available_frames() < READ_AHEAD_SPARE_FRAMES {
            if !self.retention.give_back() {
                return false;
            }
        }
        true
    }

    /// Maps a page that is not in the table.
    pub(super) fn place(
        &mut self,
        page: UserPage,
        mut frame: Frame,
        access: Access,
        marks: Marks,
    ) -> Result<(), OutOfMemory> {
        loop {
            frame = match self.table.map(page, frame, access, marks) {
                Ok(before) => {
                    if before.is_none() {
                        self.count_page();
                    }
                    return Ok(());
                }
                Err(NoTable(frame)) => frame,
            };
            if !self.give_up() {
                return Err(OutOfMemory);
            }
        }
    }

    /// Counts a frame the program has more.
    pub(super) fn count_page(&mut self) {
        self.stats.pages += 1;
        self.stats.pages_peak = self.stats.pages_peak.max(self.stats.pages);
    }

    /// Frees memory that can be fetched again, the least valuable first: what other programs left here, the one that
    /// ran longest ago before the others; then this one's pristine copies that are not mapped; then its pages as they
    /// were, and those of memory that it shows with others. Returns whether there was any.
    pub(super) fn give_up(&mut self) -> bool {
        if self.retention.give_back() {
            return true;
        }
        let copies = self.aside.clear(self.retention.reaper());
        self.stats.pages -= copies;
        if copies > 0 {
            return self.retention.reaper().step();
        }
        let own = self.snapshot.take().is_some_and(|snapshot| snapshot.give_up());
        own || self.areas.overlapping(0, u64::MAX).any(|(_, area)| match &area.content {
            Content::Shared { memory, .. } | Content::Mapped { memory, .. } => memory.give_up_snapshot(),
            _ => false,
        })
    }
}
