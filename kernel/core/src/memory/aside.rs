//! Pristine pages that are not mapped because the program wrote to its copy of them: kept so that a relaunch need not
//! fetch them. They lie in a page table of their own that no processor ever uses, so keeping one costs eight bytes.

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::frames::{Frame, FramePool};
use coppice_hal::paging::{Access, Effort, PageTable, Verdict};

use super::fetch::PROGRAM_PAGE;
use super::reaper::Reaper;

/// Pristine frames by the image page they show.
#[derive(Default)]
pub(super) struct Aside {
    /// Made when the first page comes.
    table: Option<PageTable>,
    /// How many there are.
    pages: u64,
}

impl Aside {
    /// How many pages there are.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Keeps a page. Returns whether it is one more; it is not if there is no memory for a table, or if there was one
    /// already.
    pub(super) fn keep(&mut self, frames: &'static FramePool, page: UserPage, frame: Frame) -> bool {
        if self.table.is_none() {
            self.table = PageTable::new(frames);
        }
        let Some(table) = &mut self.table else { return false };
        let is_new = matches!(table.map(page, frame, Access::empty(), PROGRAM_PAGE), Ok(None));
        self.pages += u64::from(is_new);
        is_new
    }

    /// Takes a page out.
    pub(super) fn take(&mut self, page: UserPage) -> Option<Frame> {
        let frame = self.table.as_mut()?.unmap(page)?;
        self.pages -= 1;
        Some(frame)
    }

    /// The frame of a page.
    pub(super) fn get(&self, page: UserPage) -> Option<Frame> {
        self.table.as_ref()?.frame(page)
    }

    /// Takes pages out, in order, and gives them to `each`, from `range` and as far as the effort goes. Returns how
    /// many frames were zeroed for the table, and where others are.
    pub(super) fn drain(
        &mut self,
        range: PageRange,
        effort: &mut Effort,
        mut each: impl FnMut(UserPage, Frame),
    ) -> (u64, PageRange) {
        let Some(table) = &mut self.table else { return (0, PageRange::EMPTY) };
        let (walked, rest) = table.walk_part(range, effort, |page, entry| {
            each(page, entry.frame());
            Verdict::Drop
        });
        if !rest.is_empty() {
            return (walked.zeroed, rest);
        }
        self.pages = 0;
        (walked.zeroed + self.table.take().map_or(0, PageTable::discard), rest)
    }

    /// Gives all of it up. Returns how many pages that were.
    pub(super) fn clear(&mut self, reaper: &Reaper) -> u64 {
        if let Some(table) = self.table.take() {
            reaper.take_apart(table, None);
        }
        core::mem::take(&mut self.pages)
    }

    /// Calls `each` with every page and its frame, in order.
    pub(super) fn each(&mut self, mut each: impl FnMut(UserPage, Frame)) {
        if let Some(table) = &mut self.table {
            table.walk(PageRange::ALL, |page, entry| {
                each(page, entry.frame());
                Verdict::Keep
            });
        }
    }
}
