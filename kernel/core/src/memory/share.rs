//! Several processes of one program on a node: what is pristine in one's memory is found there by the others, which
//! share its frames. A pristine frame is never writable, and a write goes to a copy, so nobody notices.
//!
//! Spaces are locked one after the other, never one inside another: frames are taken from one as handles
//! ([`AddressSpace::pristine`]) and given to the next ([`AddressSpace::adopt`]).

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::frames::{Frame, FramePool};
use coppice_hal::paging::{Marks, PageTable};
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::ProgramImage;

use super::area::Content;
use super::fetch::{Fetch, PROGRAM_PAGE, Source};
use super::image::{Image, LoadError, rights};
use super::retention::Retention;
use super::space::{AddressSpace, MemoryStats};

/// A page that is to be fetched, and the page of the program's image that it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    program: ProgramId,
    page: UserPage,
    origin: UserPage,
}

impl AddressSpace {
    /// The layout of the program in it, if it is this one.
    #[must_use]
    pub fn layout_of(&self, program: ProgramId) -> Option<&ProgramImage> {
        self.image.as_ref().filter(|image| image.id == program).map(|image| &image.layout)
    }

    /// The address space of another process of the program, with all pages in it that are pristine in that of
    /// `sibling`, and not moved from their places. `None` if that has another program, or none any more.
    ///
    /// # Errors
    /// As [`AddressSpace::load_image`]; there is no frame for a page table.
    pub fn beside(
        frames: &'static FramePool,
        retention: Arc<Retention>,
        program: ProgramId,
        sibling: &mut Self,
    ) -> Result<Option<Self>, BesideError> {
        let Some(image) = sibling.image.clone().filter(|image| image.id == program) else { return Ok(None) };
        let mut space = Self::new(frames, retention)?;
        space.map_image(Arc::clone(&image))?;
        let pages = sibling.share_in_place(&image, &mut space.table) + sibling.share_aside(&image, &mut space.table);
        space.stats = MemoryStats { pages_found: pages, pages, pages_peak: pages, ..MemoryStats::default() };
        Ok(Some(space))
    }

    /// Maps the pristine pages that are where the image has them in another table too. Returns how many those were.
    /// Without memory for a table on the way a page is left out, and fetched when it is wanted.
    fn share_in_place(&mut self, image: &Image, with: &mut PageTable) -> u64 {
        let mut shared = 0;
        for (start, area) in self.areas.overlapping(0, u64::MAX) {
            if !matches!(&area.content, Content::Program { address, .. } if *address == start) {
                continue;
            }
            let mut at = start;
            while let Some(segment) = image.segment(at).filter(|_| at < area.end) {
                let end = area.end.min(segment.end_page());
                if let Some(range) = PageRange::covering(at, end) {
                    let access = rights(segment).read_only();
                    shared += self.table.share_marked(range, PROGRAM_PAGE, access, with);
                }
                at = end;
            }
        }
        shared
    }

    /// The same with the pristine pages that are kept aside.
    fn share_aside(&mut self, image: &Image, with: &mut PageTable) -> u64 {
        let mut shared = 0;
        self.aside.each(|page, frame| {
            let Some(segment) = image.segment(page.address()) else { return };
            let mapped = with.map(page, frame, rights(segment).read_only(), PROGRAM_PAGE);
            shared += u64::from(matches!(mapped, Ok(None)));
        });
        shared
    }

    /// The pages of the program that `fetch` is for and that are still not there.
    #[must_use]
    pub fn wanted(&self, fetch: &Fetch) -> Vec<Wanted> {
        let Source::Program(program) = fetch.source else { return Vec::new() };
        let pages = fetch.places().filter(|page| self.table.entry(*page).is_none());
        pages.filter_map(|page| Some(Wanted { program, page, origin: self.image_page(page)? })).collect()
    }

    /// Whether there is a page at an address, whatever may be done with it.
    #[must_use]
    pub fn has_page(&self, address: u64) -> bool {
        UserPage::containing(address).is_some_and(|page| self.table.entry(page).is_some())
    }

    /// The pristine frame of what another process of the program wants, if this one has it.
    #[must_use]
    pub fn pristine(&self, wanted: Wanted) -> Option<Frame> {
        let Wanted { program, origin, .. } = wanted;
        self.layout_of(program)?;
        let in_place = self.image_page(origin) == Some(origin);
        let mapped = self.table.lookup(origin).filter(|mapped| in_place && mapped.marks().contains(Marks::PRISTINE));
        mapped.map(|mapped| mapped.frame()).or_else(|| self.aside.get(origin))
    }

    /// Maps a frame that another process of the program has for what this one wanted. Nothing happens if it does not
    /// want it any more, or has no memory for a table.
    pub fn adopt(&mut self, wanted: Wanted, frame: Frame) {
        let Wanted { page, origin, .. } = wanted;
        if self.table.entry(page).is_some() || self.is_closed(page) || self.image_page(page) != Some(origin) {
            return;
        }
        let Some((_, area)) = self.areas.find(page.address()) else { return };
        let access = area.access.read_only();
        // It is asked for again otherwise, and then fails for good.
        let _ = self.place(page, frame, access, PROGRAM_PAGE);
    }
}

/// Why there is no address space beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BesideError {
    /// The program cannot be mapped.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no memory for a page table.
    #[error(transparent)]
    Memory(#[from] super::space::OutOfMemory),
}
