//! Pages of a file that a node has, by their place in it: frames in a page table that no processor ever uses, as in
//! [`crate::memory::SharedMemory`]. So one costs eight bytes beside its frame, and adding one can fail.

use coppice_hal::addr::{PAGE_BYTES, PageRange, UserPage};
use coppice_hal::frames::{Frame, FrameKind, FramePool};
use coppice_hal::paging::{Access, Mapped, Marks, PageTable, Verdict};

const PAGE: u64 = PAGE_BYTES as u64;

/// See this module. Offsets are bytes.
#[derive(Default)]
pub(super) struct Pages {
    /// Made when the first comes.
    table: Option<PageTable>,
    count: u64,
}

impl Pages {
    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Frames that they take, those of the table included.
    pub(super) fn frames(&self) -> u64 {
        self.count + self.table.as_ref().map_or(0, PageTable::frames)
    }

    /// The page that an offset is in.
    pub(super) fn at(&self, offset: u64) -> Option<Mapped<'_>> {
        self.table.as_ref()?.lookup(UserPage::containing(offset)?)
    }

    /// How many bytes from an offset on are here without a gap, `limit` at most.
    pub(super) fn run(&self, offset: u64, limit: u64) -> u64 {
        let end = offset.saturating_add(limit);
        let mut at = offset;
        while at < end && self.at(at).is_some() {
            at = (at / PAGE + 1) * PAGE;
        }
        at.min(end) - offset
    }

    /// Takes the page at an offset in, in place of what was there. False: there is no memory for it.
    pub(super) fn insert(&mut self, frames: &'static FramePool, offset: u64, frame: Frame) -> bool {
        let Some(page) = UserPage::containing(offset) else { return false };
        if self.table.is_none() {
            self.table = PageTable::new(frames);
        }
        let Some(table) = &mut self.table else { return false };
        match table.map(page, frame, Access::empty(), Marks::empty()) {
            Ok(before) => self.count += u64::from(before.is_none()),
            Err(_) => return false,
        }
        true
    }

    /// Drops the pages that any byte of a range is in, which are not many or soon dropped.
    pub(super) fn drop_range(&mut self, start: u64, end: u64) {
        let Some(table) = &mut self.table else { return };
        let last = end.min(coppice_hal::addr::USER_END).next_multiple_of(PAGE);
        if let Some(range) = PageRange::covering(start / PAGE * PAGE, last) {
            self.count -= table.walk(range, |_, _| Verdict::Drop).dropped;
        }
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> Option<PageTable> {
        self.count = 0;
        self.table.take()
    }

    /// Where the first page from an offset on begins.
    pub(super) fn next(&self, offset: u64) -> Option<u64> {
        let rest = PageRange::covering(offset, coppice_hal::addr::USER_END)?;
        self.table.as_ref()?.first_in(rest).map(UserPage::address)
    }
}

/// A frame for a page.
pub(super) fn frame(frames: &'static FramePool) -> Option<Frame> {
    frames.alloc(FrameKind::User)
}
