//! Pages that must be read from somewhere before the program can go on: what to ask for, and taking the answer in.

use alloc::sync::Arc;
use core::fmt;

use coppice_hal::addr::{PAGE_BYTES, UserPage};
use coppice_hal::frames::{Frame, FrameKind};
use coppice_hal::paging::Marks;
use coppice_protocol::ids::ProgramId;

use super::area::{Content, FileSource};
use super::changed::FILE_PAGE;
use super::fault::{Resolution, Signal};
use super::image::Image;
use super::limits::{PAGE, READ_AHEAD_PAGES};
use super::space::{AddressSpace, OutOfMemory};

/// Marks of a page as the program's file has it. It is never writable, whatever its area allows.
pub(super) const PROGRAM_PAGE: Marks = Marks::all();

/// Where bytes are to be read.
#[derive(Clone)]
pub enum Source {
    /// The program's file.
    Program(ProgramId),
    /// A mapped file.
    File(Arc<dyn FileSource>),
    /// Nowhere: a change of the memory there is under way, and it is to be tried again when that is over.
    Change,
}

/// A run of pages of a file that is needed. Reading it may give fewer bytes, at the end of the file.
#[derive(Clone)]
pub struct Fetch {
    /// Of which file.
    pub source: Source,
    /// The first page, counted from the file's start.
    pub first_page: u64,
    /// How many pages, 1 to [`READ_AHEAD_PAGES`]; none where there is nothing to be read.
    pub pages: u16,
    /// The address the program touched.
    pub address: u64,
    /// Where the run's first page is mapped.
    place: UserPage,
}

impl Fetch {
    /// Nothing is to be read.
    pub(super) fn nothing(source: Source, address: u64) -> Self {
        Self { source, first_page: 0, pages: 0, address, place: UserPage::FIRST }
    }

    /// Where in the file the run starts, bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.first_page * PAGE
    }

    /// How long the run is, bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        usize::from(self.pages) * PAGE_BYTES
    }

    /// The same for nothing but the page that the program touched.
    #[must_use]
    pub fn alone(&self) -> Self {
        let page = UserPage::containing(self.address).unwrap_or(self.place);
        let before = page.number().saturating_sub(self.place.number());
        Self { first_page: self.first_page + before, pages: self.pages.min(1), place: page, ..self.clone() }
    }

    /// Where its pages are mapped.
    pub(super) fn places(&self) -> impl Iterator<Item = UserPage> {
        (0..u64::from(self.pages)).filter_map(|ahead| self.place.plus(ahead))
    }

    /// What the program gets if the run cannot be read: `SIGBUS`, as on Linux.
    #[must_use]
    pub fn failure(&self) -> Signal {
        Signal::beyond_file(self.address)
    }

    /// The part of `bytes`, the answer to this fetch, that starts at `offset` of the file and has `length` bytes or, at
    /// its end, fewer. `None` if the run does not have it all.
    fn part<'a>(&self, bytes: &'a [u8], offset: u64, length: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset())?).ok()?;
        let end = start.checked_add(length).filter(|end| *end <= self.length())?;
        Some(bytes.get(start..end.min(bytes.len())).unwrap_or_default())
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Program(_) => "program",
            Source::File(_) => "file",
            Source::Change => "change",
        };
        write!(f, "Fetch({source} pages {}+{} for {:#x})", self.first_page, self.pages, self.address)
    }
}

/// What became of one page of an answer.
enum Installed {
    /// It is in the table, or nobody wants it any more.
    Done,
    /// The file ends before it.
    Missing,
}

impl AddressSpace {
    /// What to read for a page of the program that is not in memory; `None` if it shows nothing of the file.
    pub(super) fn program_fetch(&self, page: UserPage, address: u64, image: &Image, origin: u64) -> Option<Fetch> {
        let (piece, segment) = image.piece(origin)?;
        let end = segment.file_offset + segment.file_bytes;
        let in_file = segment.file_offset / PAGE..end.div_ceil(PAGE);
        let (first_page, pages, place) = self.run(page, piece.file_offset / PAGE, in_file);
        Some(Fetch { source: Source::Program(image.id), first_page, pages, address, place })
    }

    /// What to read for a page of a mapped file.
    pub(super) fn file_fetch(&self, page: UserPage, address: u64, file: &Arc<dyn FileSource>, offset: u64) -> Fetch {
        let (first_page, pages, place) = self.run(page, offset / PAGE, 0..u64::MAX / PAGE);
        Fetch { source: Source::File(Arc::clone(file)), first_page, pages, address, place }
    }

    /// The run to read for `page`, which shows page `file_page` of a file: aligned in the file, inside `in_file` and
    /// inside the page's area, without the pages at both ends that are there already. Returns its first file page, its
    /// length, and where it starts.
    fn run(&self, page: UserPage, file_page: u64, in_file: core::ops::Range<u64>) -> (u64, u16, UserPage) {
        let aligned = file_page / READ_AHEAD_PAGES * READ_AHEAD_PAGES;
        let mut before = file_page - aligned.max(in_file.start).min(file_page);
        let mut after = (aligned + READ_AHEAD_PAGES).min(in_file.end).saturating_sub(file_page + 1);
        if let Some((start, area)) = self.areas.find(page.address()) {
            before = before.min((page.address() - start) / PAGE);
            after = after.min((area.end - page.address()) / PAGE - 1);
        }
        let at = |back: u64| UserPage::containing(page.address() - back * PAGE);
        let is_here = |page: Option<UserPage>| page.is_some_and(|page| self.table.entry(page).is_some());
        while before > 0 && is_here(at(before)) {
            before -= 1;
        }
        while after > 0 && is_here(page.plus(after)) {
            after -= 1;
        }
        let pages = u16::try_from(before + 1 + after).unwrap_or(u16::MAX);
        (file_page - before, pages, at(before).unwrap_or(page))
    }

    /// Whether the page that `fetch` is for still shows that file there and is not in memory.
    #[must_use]
    pub fn wants(&self, fetch: &Fetch) -> bool {
        let shows = |page: UserPage| {
            let (_, area) = self.areas.find(page.address())?;
            Some(match (&fetch.source, &area.content) {
                (Source::Program(id), Content::Program { image, .. }) => image.id == *id,
                (Source::File(wanted), Content::File { file, .. } | Content::Mapped { file, .. }) => {
                    Arc::ptr_eq(wanted, file)
                }
                _ => false,
            })
        };
        let page = UserPage::containing(fetch.address);
        page.is_some_and(|page| self.table.entry(page).is_none() && shows(page) == Some(true))
    }

    /// Takes in what was read for `fetch`. It may have been unmapped, remapped or installed meanwhile: then nothing
    /// happens. [`Resolution::Ready`] means: try again.
    pub fn install(&mut self, fetch: &Fetch, bytes: &[u8]) -> Resolution {
        if matches!(fetch.source, Source::Program(_)) {
            self.stats.pages_fetched += bytes.len().min(fetch.length()).div_ceil(PAGE_BYTES) as u64;
        }
        // The page that is needed comes first, in case there is memory for one only.
        let needed = UserPage::containing(fetch.address);
        if let Some(page) = needed {
            match self.install_page(fetch, bytes, page) {
                Ok(Installed::Done) => {}
                Ok(Installed::Missing) => return Resolution::Signal(fetch.failure()),
                Err(OutOfMemory) => return Resolution::OutOfMemory,
            }
        }
        for page in fetch.places().filter(|page| Some(*page) != needed) {
            if !self.has_spare_memory() {
                break;
            }
            if !matches!(self.install_page(fetch, bytes, page), Ok(Installed::Done)) {
                break;
            }
        }
        Resolution::Ready
    }

    /// Takes in pages of a file that `fetch` wants, counted from its start, as they are kept for others, too. What was
    /// unmapped, remapped or installed meanwhile is left out.
    pub fn install_kept(&mut self, fetch: &Fetch, kept: &[(u64, Frame)]) -> Resolution {
        let Source::File(wanted) = &fetch.source else { return Resolution::Ready };
        let needed = UserPage::containing(fetch.address);
        for (number, frame) in kept {
            let place = number.checked_sub(fetch.first_page).and_then(|ahead| fetch.place.plus(ahead));
            let Some(page) = place.filter(|page| self.table.entry(*page).is_none() && !self.is_closed(*page)) else {
                continue;
            };
            let Some((start, area)) = self.areas.find(page.address()) else { continue };
            let shows = |offset: u64| offset + (page.address() - start) == number * PAGE;
            match &area.content {
                Content::File { file, offset } if Arc::ptr_eq(wanted, file) && shows(*offset) => {}
                _ => continue,
            }
            let access = area.access.read_only();
            if self.place(page, Frame::clone(frame), access, FILE_PAGE).is_err() && Some(page) == needed {
                return Resolution::OutOfMemory;
            }
        }
        Resolution::Ready
    }

    /// Takes one page of an answer in, if the page still shows that file there and is not in memory.
    fn install_page(&mut self, fetch: &Fetch, bytes: &[u8], page: UserPage) -> Result<Installed, OutOfMemory> {
        if self.table.entry(page).is_some() || self.is_closed(page) {
            return Ok(Installed::Done);
        }
        if let Some(put_back) = self.put_back_pristine(page) {
            return put_back.map(|()| Installed::Done);
        }
        let Some((start, area)) = self.areas.find(page.address()) else {
            return Ok(Installed::Done);
        };
        let inside = page.address() - start;
        let (page_offset, part, rights, marks, kind) = match (&fetch.source, &area.content) {
            (Source::Program(id), Content::Program { image, address }) if image.id == *id => {
                let piece = image.piece(address + inside).map(|(piece, _)| piece);
                let part = piece.and_then(|piece| fetch.part(bytes, piece.file_offset, piece.length));
                let (Some(piece), Some(part)) = (piece, part) else {
                    return Ok(Installed::Done);
                };
                if part.len() < piece.length {
                    return Ok(Installed::Missing);
                }
                let rights = area.access.read_only();
                (piece.page_offset, part, rights, PROGRAM_PAGE, FrameKind::Pristine)
            }
            (Source::File(wanted), Content::File { file, offset }) if Arc::ptr_eq(wanted, file) => {
                let Some(part) = fetch.part(bytes, offset + inside, PAGE_BYTES) else {
                    return Ok(Installed::Done);
                };
                if part.is_empty() {
                    return Ok(Installed::Missing);
                }
                (0, part, area.access.read_only(), FILE_PAGE, FrameKind::User)
            }
            (Source::File(wanted), Content::Mapped { memory, file, offset }) if Arc::ptr_eq(wanted, file) => {
                let (memory, offset) = (Arc::clone(memory), offset + inside);
                let Some(part) = fetch.part(bytes, offset, PAGE_BYTES) else {
                    return Ok(Installed::Done);
                };
                if part.is_empty() {
                    return Ok(Installed::Missing);
                }
                let frame = self.new_frame(FrameKind::User)?;
                frame.write(0, part);
                // Whoever touches it finds it there.
                memory.insert(offset, frame)?;
                return Ok(Installed::Done);
            }
            _ => return Ok(Installed::Done),
        };
        let frame = self.new_frame(kind)?;
        frame.write(page_offset, part);
        self.place(page, frame, rights, marks)?;
        Ok(Installed::Done)
    }
}
