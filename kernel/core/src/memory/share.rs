//! Several processes of one program on a node: what is pristine in one's memory is found there by the others, which
//! share its frames. A pristine frame is never writable, and a write goes to a copy, so nobody notices.
//!
//! Spaces are locked one after the other, never one inside another: frames are taken from one as handles
//! ([`AddressSpace::pristine`]) and given to the next ([`AddressSpace::adopt`]).

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::addr::{PageRange, UserPage};
use coppice_hal::frames::{Frame, FramePool};
use coppice_hal::paging::{Access, Marks, Verdict};
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::ProgramImage;

use super::area::Content;
use super::fetch::{Fetch, PROGRAM_PAGE, Source};
use super::image::{LoadError, rights};
use super::retention::Retention;
use super::space::AddressSpace;

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
    /// `sibling`. `None` if that has another program, or none any more.
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
        sibling.each_pristine(|page, frame| {
            let Some(segment) = image.segment(page.address()) else { return };
            // Without memory for a table on the way the page is fetched when it is wanted.
            if let Ok(None) = space.table.map(page, frame, rights(segment) - Access::WRITE, PROGRAM_PAGE) {
                space.stats.pages += 1;
            }
        });
        let pages = space.stats.pages;
        space.stats.pages_peak = pages;
        space.stats.pages_found = pages;
        Ok(Some(space))
    }

    /// Calls `each` for every pristine frame, mapped or kept aside, with the page of the image that it shows.
    fn each_pristine(&mut self, mut each: impl FnMut(UserPage, Frame)) {
        for (start, area) in self.areas.overlapping(0, u64::MAX) {
            let Content::Program { address, .. } = &area.content else { continue };
            let Some(range) = PageRange::covering(start, area.end) else { continue };
            self.table.walk(range, |page, entry| {
                let origin = UserPage::containing(address + (page.address() - start));
                if let Some(origin) = origin.filter(|_| entry.get().marks.contains(Marks::PRISTINE)) {
                    each(origin, entry.frame());
                }
                Verdict::Keep
            });
        }
        self.aside.each(each);
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
        if self.table.entry(page).is_some() || self.image_page(page) != Some(origin) {
            return;
        }
        let Some((_, area)) = self.areas.find(page.address()) else { return };
        let access = area.access - Access::WRITE;
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
