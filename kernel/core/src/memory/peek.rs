//! Looking at a program's memory from outside, without changing more of it than is needed: where it was never touched
//! and shows zeros it is not given pages for that.

use alloc::vec::Vec;

use coppice_hal::addr::{PAGE_BYTES, PageRange, UserPage};
use coppice_hal::paging::Access;

use super::area::{Area, Content, FileSource};
use super::fault::Resolution;
use super::fetch::Fetch;
use super::limits::PAGE;
use super::space::AddressSpace;

/// What lies somewhere.
pub enum Peeked {
    /// So many bytes of zeros, or that cannot be read.
    Zeros(u64),
    /// Bytes, which were added to those that are there.
    Bytes,
    /// These must be fetched and installed first.
    Fetch(Fetch),
    /// There is no memory for the page.
    OutOfMemory,
}

/// What an area shows before it is written.
pub enum Seen<'a> {
    /// Zeros.
    Zeros,
    /// The program's file from this offset on, bytes.
    Program(u64),
    /// A file from this offset on, bytes.
    File(&'a dyn FileSource, u64),
    /// Shared memory from this offset on, bytes.
    Shared(u64),
}

impl AddressSpace {
    /// Looks at what lies at `address`, up to `end` (behind it): a run of zeros, or the rest of its page, of which at
    /// most `room` bytes are added to `out`.
    pub fn peek(&mut self, address: u64, end: u64, room: usize, out: &mut Vec<u8>) -> Peeked {
        let Some(page) = UserPage::containing(address) else { return Peeked::Zeros(end.saturating_sub(address)) };
        let left_of_page = PAGE - address % PAGE;
        let part = left_of_page.min(end.saturating_sub(address));
        loop {
            if let Some(mapped) = self.table.lookup(page) {
                let (before, count) = (out.len(), (part as usize).min(room).min(PAGE_BYTES));
                out.resize(before + count, 0);
                mapped.read((address % PAGE) as usize, &mut out[before..]);
                return Peeked::Bytes;
            }
            if let Some(zeros_end) = self.zeros_from(page.address(), end) {
                return Peeked::Zeros(zeros_end.min(end).saturating_sub(address));
            }
            match self.resolve(address, Access::READ) {
                // It has put a page into the table.
                Resolution::Ready => {}
                Resolution::Fetch(fetch) => return Peeked::Fetch(fetch),
                Resolution::Signal(_) => return Peeked::Zeros(part),
                Resolution::OutOfMemory => return Peeked::OutOfMemory,
            }
        }
    }

    /// Up to where zeros are all that there is from `page` on, which is not in the table; `None`: there may be more.
    fn zeros_from(&self, page: u64, end: u64) -> Option<u64> {
        let Some((start, area)) = self.areas.find(page) else {
            let next = self.areas.overlapping(page, end).next();
            return Some(next.map_or(end, |(start, _)| start));
        };
        let bound = match &area.content {
            _ if area.access.is_empty() => area.end,
            Content::Zero => area.end,
            // Behind what the file has of a segment is nothing else of it.
            Content::Program { image, address } => {
                let at = address + (page - start);
                match image.piece(at) {
                    Some(_) => return None,
                    None => page + image.segment(at).map_or(PAGE, |segment| segment.end_page().saturating_sub(at)),
                }
            }
            Content::Shared { memory, offset, .. } if memory.is_hole(offset + (page - start)) => page + PAGE,
            Content::File { .. } | Content::Mapped { .. } | Content::Shared { .. } => return None,
        };
        let bound = bound.min(area.end).min(end.next_multiple_of(PAGE));
        let next = self.table.first_in(PageRange::covering(page, bound)?);
        Some(next.map_or(bound, |next| next.address().min(bound)))
    }

    /// What is mapped from `from` on, in order: start, address behind the end, what the program may do there, and what
    /// it shows.
    pub fn seen(&self, from: u64) -> impl Iterator<Item = (u64, u64, Access, Seen<'_>)> {
        let all = self.areas.overlapping(from, u64::MAX).filter(move |(start, _)| *start >= from);
        all.map(|(start, area)| (start, area.end, area.access, seen(area)))
    }
}

impl AddressSpace {
    /// Whether what is written there is seen by whoever maps the same.
    #[must_use]
    pub fn shows_shared(&self, address: u64) -> bool {
        let area = self.areas.find(address);
        area.is_some_and(|(_, area)| {
            matches!(area.content, Content::Mapped { .. } | Content::Shared { private: false, .. })
        })
    }
}

fn seen(area: &Area) -> Seen<'_> {
    match &area.content {
        Content::Zero => Seen::Zeros,
        Content::Program { image, address } => {
            let of_segment = image.segment(*address).map(|segment| {
                let into = address.saturating_sub(segment.first_page());
                segment.file_offset - segment.file_offset % PAGE + into
            });
            Seen::Program(of_segment.unwrap_or_default())
        }
        Content::File { file, offset } | Content::Mapped { file, offset, .. } => Seen::File(&**file, *offset),
        Content::Shared { offset, .. } => Seen::Shared(*offset),
    }
}
