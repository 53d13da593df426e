//! Cutting a process's page table back to its roots when the process has ended: to the pages that are as the program's
//! file has them. The next process of the same program starts on that table and finds them there.
//!
//! A walk over the table, area by area, decides entry by entry:
//! - **Pristine** and where the program's headers put it: it stays, with the rights the headers give it less writing.
//!   Pristine means never writable since it was fetched ([`super`]), so neither RELRO nor any mprotect can make a page
//!   that was once written look like the file's.
//! - **Anything else** is dropped: data, bss, heap, stack, mapped files, and pages of the program that were moved
//!   elsewhere. Their frames are zeroed as their last reference goes. Tables left empty go, too.
//!
//! The walk is done in steps, as there may be gigabytes to be zeroed.
//!
//! Then the pristine copies of pages the program had written come back into the table ([`super::aside`]), so that the
//! next run fetches nothing. The walk happens at the process's end and not when the next job wants the table: so
//! nothing that a job wrote outlives it.

use alloc::sync::Arc;
use core::mem;

use coppice_hal::addr::PageRange;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::{Effort, PageTable, Verdict};
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::ProgramImage;
use coppice_protocol::retain::{HeldAs, RetainedProgram, WalkCounts};

use super::area::{Area, Content};
use super::areas::Areas;
use super::fetch::PROGRAM_PAGE;
use super::image::{Image, LoadError, rights};
use super::limits::{PAGE, STEP_PAGES};
use super::reaper::Reaper;
use super::retention::Retention;
use super::space::{AddressSpace, MemoryStats};

/// The page table of a program that ran and does not run now, cut back to the program's own pages.
pub struct RetainedTable {
    image: Arc<Image>,
    table: PageTable,
    /// Entries in the table.
    pages: u64,
    /// Frames the table takes itself.
    tables: u64,
}

impl RetainedTable {
    /// Which program's it is.
    #[must_use]
    pub fn program(&self) -> ProgramId {
        self.image.id
    }

    /// The program's layout.
    #[must_use]
    pub fn layout(&self) -> &ProgramImage {
        &self.image.layout
    }

    /// What it is and what it takes.
    #[must_use]
    pub fn held(&self) -> RetainedProgram {
        let bytes = (self.pages + self.tables) * PAGE;
        RetainedProgram { program: self.image.id, pages: self.pages, bytes, held_as: HeldAs::Table }
    }

    /// Takes in what another table of the same program has more, and ends that one. Of a page that both have one frame
    /// stays. Returns how many frames were zeroed for it.
    pub(super) fn absorb(&mut self, mut other: Self) -> u64 {
        if other.pages > self.pages {
            mem::swap(self, &mut other);
        }
        let (table, pages) = (&mut self.table, &mut self.pages);
        let walked = other.table.walk(PageRange::ALL, |page, entry| {
            // Without memory for a table on the way the page is given up, and fetched when it is wanted.
            if table.entry(page).is_none() && table.map(page, entry.frame(), entry.get().access, PROGRAM_PAGE).is_ok() {
                *pages += 1;
            }
            Verdict::Drop
        });
        self.tables = self.table.frames();
        walked.zeroed + other.discard()
    }

    /// Has it taken apart.
    pub(super) fn take_apart(self, reaper: &Reaper) {
        reaper.take_apart(self.table, None);
    }

    /// Frees all of it. Returns how many frames were zeroed.
    pub fn discard(self) -> u64 {
        self.table.discard()
    }
}

impl AddressSpace {
    /// The address space of a program that was retained: mapped as by [`AddressSpace::load_image`], and its pages are
    /// there.
    ///
    /// # Errors
    /// As there; never for a table that came from a run of the program on this node.
    pub fn on_retained(
        frames: &'static FramePool,
        retention: Arc<Retention>,
        retained: RetainedTable,
    ) -> Result<Self, LoadError> {
        let RetainedTable { image, table, pages, .. } = retained;
        let mut space = Self::over(frames, retention, table);
        space.stats = MemoryStats { pages_found: pages, pages, pages_peak: pages, ..MemoryStats::default() };
        space.map_image(image)?;
        Ok(space)
    }

    /// Ends the use of the address space: cuts its table back and hands it out, if anything is left in it. The space is
    /// empty afterwards. The time in the counts is the caller's to fill in.
    pub fn cut_back(&mut self) -> (WalkCounts, Option<RetainedTable>) {
        let mut cut = self.begin_cut();
        loop {
            if let Some(result) = self.cut_on(&mut cut) {
                return result;
            }
        }
    }

    /// Begins what [`AddressSpace::cut_back`] does, to be done in steps. No core may use the table any more.
    pub fn begin_cut(&mut self) -> Cut {
        self.table.deactivate();
        Cut::default()
    }

    /// Goes on with the cut, but not for long. Gives the result when it is done.
    pub fn cut_on(&mut self, cut: &mut Cut) -> Option<(WalkCounts, Option<RetainedTable>)> {
        let mut effort = Effort::of(STEP_PAGES);
        loop {
            match cut.stage {
                Stage::Change if self.end_changes(&mut effort) => {
                    cut.image = self.image.take();
                    cut.areas = mem::take(&mut self.areas);
                    cut.stage = Stage::Areas;
                }
                Stage::Change => {}
                Stage::Areas => {
                    if self.cut_areas(cut, &mut effort) {
                        cut.stage = Stage::Aside(PageRange::ALL);
                    }
                }
                Stage::Aside(range) => {
                    let rest = self.put_aside_back(range, cut, &mut effort);
                    cut.stage = if rest.is_empty() { Stage::Last } else { Stage::Aside(rest) };
                }
                Stage::Last => {
                    self.stats.pages = 0;
                    match self.retain(cut) {
                        Some(retained) => return Some((cut.counts, Some(retained))),
                        None => cut.stage = Stage::Rest(PageRange::ALL),
                    }
                }
                Stage::Rest(range) => {
                    let (walked, rest) = self.table.walk_part(range, &mut effort, |_, _| Verdict::Drop);
                    cut.counts.zeroed += walked.zeroed;
                    if rest.is_empty() {
                        cut.counts.dropped += mem::take(&mut cut.counts.kept);
                        return Some((cut.counts, None));
                    }
                    cut.stage = Stage::Rest(rest);
                }
            }
            if effort.is_spent() {
                return None;
            }
        }
    }

    /// Cuts back what the areas show that are left, as far as the effort goes. Returns whether none is left.
    fn cut_areas(&mut self, cut: &mut Cut, effort: &mut Effort) -> bool {
        while let Some((start, area)) = cut.areas.first() {
            // An area costs something, too.
            effort.spend(1);
            let at = cut.reached.max(start);
            cut.reached = self.cut_part(at, (start, area), cut.image.as_deref(), &mut cut.counts, effort);
            if cut.reached >= area.end {
                cut.areas.pop_first();
            }
            if effort.is_spent() {
                return cut.areas.first().is_none();
            }
        }
        true
    }

    /// Cuts back what an area shows from `at` on: keeps pristine pages of the image where the image has them, drops all
    /// others. Returns how far it came, at most to where a segment of the image ends.
    fn cut_part(
        &mut self,
        at: u64,
        (start, area): (u64, &Area),
        image: Option<&Image>,
        counts: &mut WalkCounts,
        effort: &mut Effort,
    ) -> u64 {
        let in_place = matches!(&area.content, Content::Program { address, .. } if *address == start);
        let segment = image.filter(|_| in_place).and_then(|image| image.segment(at));
        let (end, keep) = match segment {
            Some(segment) => (area.end.min(segment.end_page()), Some(rights(segment).read_only())),
            None => (area.end, None),
        };
        let Some(range) = PageRange::covering(at, end) else { return area.end };
        let (walked, rest) = match keep {
            Some(access) => self.table.keep_marked(range, PROGRAM_PAGE, access, effort),
            None => self.table.walk_part(range, effort, |_, _| Verdict::Drop),
        };
        counts.kept += walked.visited - walked.dropped;
        counts.dropped += walked.dropped;
        counts.zeroed += walked.zeroed;
        if rest.is_empty() { end } else { rest.first_number() * PAGE }
    }

    /// Puts pristine copies of written pages back where the image has them. Gives where others are.
    fn put_aside_back(&mut self, range: PageRange, cut: &mut Cut, effort: &mut Effort) -> PageRange {
        let (image, table, counts) = (cut.image.as_deref(), &mut self.table, &mut cut.counts);
        let mut put_back = 0;
        let (zeroed, rest) = self.aside.drain(range, effort, |page, frame| {
            let Some(segment) = image.and_then(|image| image.segment(page.address())) else { return };
            // Without memory for a table on the way the page is given up, and fetched when it is wanted.
            if let Ok(before) = table.map(page, frame, rights(segment).read_only(), PROGRAM_PAGE) {
                put_back += u64::from(before.is_none());
            }
        });
        counts.zeroed += zeroed;
        counts.kept += put_back;
        rest
    }

    /// The table with what is left in it, if anything is, and if there is memory for one to take its place: most of the
    /// frames are free now.
    fn retain(&mut self, cut: &mut Cut) -> Option<RetainedTable> {
        let image = cut.image.take().filter(|_| cut.counts.kept > 0)?;
        let table = mem::replace(&mut self.table, PageTable::new(self.frames)?);
        let tables = table.frames();
        Some(RetainedTable { image, table, pages: cut.counts.kept, tables })
    }
}

/// A cut under way.
#[derive(Default)]
pub struct Cut {
    image: Option<Arc<Image>>,
    /// The areas that are left: only areas have pages.
    areas: Areas,
    /// Address up to which the first of them is done.
    reached: u64,
    counts: WalkCounts,
    stage: Stage,
}

/// How far a cut is.
#[derive(Clone, Copy, Default)]
enum Stage {
    /// A change that was under way is finished.
    #[default]
    Change,
    /// The areas are gone through.
    Areas,
    /// Pristine copies come back, from here on.
    Aside(PageRange),
    /// The table changes hands.
    Last,
    /// Nothing is retained, and the rest goes, from here on.
    Rest(PageRange),
}
