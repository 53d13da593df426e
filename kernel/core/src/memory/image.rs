//! The program in the address space: which bytes of its file a page shows, and mapping all of it (without touching
//! any).

use alloc::sync::Arc;

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::paging::Access;
use coppice_protocol::ids::ProgramId;
use coppice_protocol::program::{ProgramImage, Segment};

use super::area::{Area, Content, FileSource};
use super::limits::{MAP_BOTTOM, MAP_TOP, PAGE};
use super::space::AddressSpace;

/// Why a program cannot be loaded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It needs more memory than there is.
    #[error("needs {needed} bytes of memory, programs can have {available} on this node")]
    TooLarge {
        /// Memory of all its segments, bytes.
        needed: u64,
        /// What a program can have, bytes.
        available: u64,
    },
    /// It wants addresses that are kept for null pointers, or for the stack.
    #[error("its segment at {0:#x} lies where programs cannot: link it to addresses from 64 KiB to 127 TiB")]
    Address(u64),
    /// Two segments claim the same pages, or something is there already.
    #[error("its segment at {0:#x} overlaps something else")]
    Overlap(u64),
}

/// A loaded program.
pub(super) struct Image {
    /// Which one.
    pub(super) id: ProgramId,
    /// Its parts.
    pub(super) layout: ProgramImage,
}

/// Bytes of the file that a page shows; the rest of the page is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where in the page they start.
    pub(super) page_offset: usize,
    /// Where in the file they start.
    pub(super) file_offset: u64,
    /// How many there are.
    pub(super) length: usize,
}

impl Image {
    /// What the page at an address of the image shows of the file; `None`: zeros alone.
    pub(super) fn piece(&self, page: u64) -> Option<(Piece, &Segment)> {
        let segment = self.segment(page)?;
        let start = segment.address.max(page);
        let end = (segment.address + segment.file_bytes).min(page + PAGE);
        let piece = Piece {
            page_offset: (start - page) as usize,
            file_offset: segment.file_offset + (start.checked_sub(segment.address)?),
            length: end.checked_sub(start).filter(|length| *length > 0)? as usize,
        };
        debug_assert!(piece.page_offset + piece.length <= PAGE_BYTES, "a piece of one page");
        Some((piece, segment))
    }

    /// The segment a page belongs to. There is at most one.
    pub(super) fn segment(&self, page: u64) -> Option<&Segment> {
        let segments = &self.layout.segments;
        let behind = segments.partition_point(|segment| segment.first_page() <= page);
        let segment = segments.get(behind.checked_sub(1)?)?;
        (page < segment.end_page()).then_some(segment)
    }
}

impl AddressSpace {
    /// Maps a program. Nothing is fetched: its pages come when they are touched. The heap starts behind it.
    ///
    /// # Errors
    /// [`LoadError`] in one line for the user; what was mapped so far stays, so the space is of no use then.
    pub fn load_image(&mut self, layout: &ProgramImage, id: ProgramId) -> Result<(), LoadError> {
        let available = u64::from(self.frames.total_frames().saturating_sub(self.frames.reserve_frames())) * PAGE;
        let needed = layout.memory_bytes();
        if needed > available {
            return Err(LoadError::TooLarge { needed, available });
        }
        self.map_image(Arc::new(Image { id, layout: layout.clone() }))
    }

    /// Maps a dynamic linker beside the program, whose file this is. What it is to find as zeros in the last pages of
    /// that ([`ProgramImage::zeros`]) it does not yet.
    ///
    /// # Errors
    /// [`LoadError`] in one line for the user; what was mapped so far stays.
    pub fn map_interpreter(&mut self, layout: &ProgramImage, file: &Arc<dyn FileSource>) -> Result<(), LoadError> {
        for segment in &layout.segments {
            let (start, end) = self.place_of(segment)?;
            let area = |end, content| Area { end, access: rights(segment), may_write: true, content };
            let file_end = if segment.file_bytes > 0 {
                (segment.address + segment.file_bytes).next_multiple_of(PAGE)
            } else {
                start
            };
            if file_end > start {
                let offset = segment.file_offset - (segment.address - start);
                self.areas.insert(start, area(file_end, Content::File { file: Arc::clone(file), offset }));
            }
            if end > file_end {
                self.areas.insert(file_end, area(end, Content::Zero));
            }
        }
        Ok(())
    }

    /// Where a segment's pages lie, if they may and nothing else does.
    fn place_of(&self, segment: &Segment) -> Result<(u64, u64), LoadError> {
        let (start, end) = (segment.first_page(), segment.end_page());
        if start < MAP_BOTTOM || end > MAP_TOP {
            return Err(LoadError::Address(segment.address));
        }
        if start >= end || !self.areas.is_free(start, end) {
            return Err(LoadError::Overlap(segment.address));
        }
        Ok((start, end))
    }

    /// Maps a program whose size was checked.
    pub(super) fn map_image(&mut self, image: Arc<Image>) -> Result<(), LoadError> {
        let layout = &image.layout;
        for segment in &layout.segments {
            let (start, end) = self.place_of(segment)?;
            let area = Area {
                end,
                access: rights(segment),
                may_write: true,
                content: Content::Program { image: Arc::clone(&image), address: start },
            };
            self.areas.insert(start, area);
        }
        self.break_start = layout.end_page();
        self.break_end = self.break_start;
        self.image = Some(image);
        Ok(())
    }
}

/// What a segment's flags allow.
pub(super) fn rights(segment: &Segment) -> Access {
    let mut access = Access::empty();
    access.set(Access::READ, segment.read);
    access.set(Access::WRITE, segment.write);
    access.set(Access::EXECUTE, segment.execute);
    access
}
