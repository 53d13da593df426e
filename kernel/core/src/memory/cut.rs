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
//! Then the pristine copies of pages the program had written come back into the table ([`super::aside`]), so that the
//! next run fetches nothing. The walk happens at the process's end and not when the next job wants the table: so
//! nothing that a job wrote outlives it.

use alloc::sync::Arc;
use core::mem;

use coppice_hal::addr::PageRange;
use coppice_hal::frames::FramePool;
use coppice_hal::paging::{PageTable, Verdict};
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::ProgramImage;
use coppice_protocol::retain::{RetainedProgram, WalkCounts};

use super::area::{Area, Content};
use super::fetch::PROGRAM_PAGE;
use super::image::{Image, LoadError, rights};
use super::limits::PAGE;
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
        RetainedProgram { program: self.image.id, pages: self.pages, bytes: (self.pages + self.tables) * PAGE }
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
        self.table.deactivate();
        let (image, areas) = (self.image.take(), mem::take(&mut self.areas));
        let mut counts = WalkCounts::default();
        // Only areas have pages.
        for (start, area) in areas.overlapping(0, u64::MAX) {
            self.cut_area(image.as_deref(), start, area, &mut counts);
        }
        if let Some(image) = &image {
            let table = &mut self.table;
            let mut put_back = 0;
            counts.zeroed += self.aside.drain(|page, frame| {
                let Some(segment) = image.segment(page.address()) else { return };
                // Without memory for a table on the way the page is given up, and fetched when it is wanted.
                if let Ok(before) = table.map(page, frame, rights(segment).read_only(), PROGRAM_PAGE) {
                    put_back += u64::from(before.is_none());
                }
            });
            counts.kept += put_back;
        }
        self.stats.pages = 0;
        // Most of the frames are free now, so that there is one for the table that takes this one's place.
        let retained = image.filter(|_| counts.kept > 0).zip(PageTable::new(self.frames)).map(|(image, empty)| {
            let table = mem::replace(&mut self.table, empty);
            let tables = table.frames();
            RetainedTable { image, table, pages: counts.kept, tables }
        });
        if retained.is_none() {
            counts.zeroed += self.table.walk(PageRange::ALL, |_, _| Verdict::Drop).zeroed;
            counts.dropped += mem::take(&mut counts.kept);
        }
        (counts, retained)
    }

    /// Cuts back what one area shows: keeps pristine pages of the image where the image has them, drops all others.
    fn cut_area(&mut self, image: Option<&Image>, start: u64, area: &Area, counts: &mut WalkCounts) {
        let is_in_place = matches!(&area.content, Content::Program { address, .. } if *address == start);
        let image = image.filter(|_| is_in_place);
        let mut at = start;
        while at < area.end {
            let (end, keep) = match image.and_then(|image| image.segment(at)) {
                Some(segment) => (area.end.min(segment.end_page()), Some(rights(segment).read_only())),
                None => (area.end, None),
            };
            let Some(range) = PageRange::covering(at, end) else { return };
            let walked = match keep {
                Some(access) => self.table.keep_marked(range, PROGRAM_PAGE, access),
                None => self.table.walk(range, |_, _| Verdict::Drop),
            };
            counts.kept += walked.visited - walked.dropped;
            counts.dropped += walked.dropped;
            counts.zeroed += walked.zeroed;
            at = end;
        }
    }
}
