//! What to do when a page is touched that the table does not give.

use alloc::sync::Arc;

use coppice_hal::addr::UserPage;
use coppice_hal::frames::FrameKind;
use coppice_hal::paging::{Access, Marks};

use super::area::Content;
use super::fetch::{Fetch, PROGRAM_PAGE};
use super::shared::{NoPage, SharedMemory};
use super::space::{AddressSpace, OutOfMemory};

/// A signal the program gets for touching what it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Linux's signal number.
    pub number: u8,
    /// Linux's `si_code`.
    pub code: i32,
    /// The address it touched.
    pub address: u64,
}

impl Signal {
    /// `SIGBUS`.
    pub const BUS: u8 = 7;
    /// `SIGSEGV`.
    pub const SEGV: u8 = 11;

    /// Nothing is mapped there (`SEGV_MAPERR`).
    pub(super) const fn unmapped(address: u64) -> Self {
        Self { number: Self::SEGV, code: 1, address }
    }

    /// What is mapped there may not be used like that (`SEGV_ACCERR`).
    pub(super) const fn forbidden(address: u64) -> Self {
        Self { number: Self::SEGV, code: 2, address }
    }

    /// The file has no such page (`BUS_ADRERR`).
    pub(super) const fn beyond_file(address: u64) -> Self {
        Self { number: Self::BUS, code: 2, address }
    }
}

/// How it goes on after a page was touched.
pub enum Resolution {
    /// The page is there now: try again.
    Ready,
    /// These bytes must be read and given to [`AddressSpace::install`] first.
    Fetch(Fetch),
    /// The program gets this signal.
    Signal(Signal),
    /// There is no memory for the page: the program cannot go on.
    OutOfMemory,
}

impl From<Result<(), OutOfMemory>> for Resolution {
    fn from(result: Result<(), OutOfMemory>) -> Self {
        match result {
            Ok(()) => Self::Ready,
            Err(OutOfMemory) => Self::OutOfMemory,
        }
    }
}

impl AddressSpace {
    /// The program faulted on `address`: counts it and does as [`AddressSpace::resolve`].
    pub fn fault(&mut self, address: u64, access: Access) -> Resolution {
        self.stats.faults += 1;
        if access.contains(Access::EXECUTE) {
            self.stats.instruction_faults += 1;
        }
        self.resolve(address, access)
    }

    /// Makes the page at `address` usable like that, if it may be.
    pub fn resolve(&mut self, address: u64, access: Access) -> Resolution {
        let Some(page) = UserPage::containing(address) else {
            return Resolution::Signal(Signal::unmapped(address));
        };
        if self.is_closed(page) {
            let is_usable = self.table.lookup(page).is_some_and(|mapped| mapped.access().contains(access));
            return if is_usable { Resolution::Ready } else { Resolution::Fetch(self.await_change(address)) };
        }
        let Some((start, area)) = self.areas.find(address) else {
            return Resolution::Signal(Signal::unmapped(address));
        };
        if !area.allows(access) {
            return Resolution::Signal(Signal::forbidden(address));
        }
        let (rights, inside) = (area.access, page.address() - start);
        if let Some(mapped) = self.table.lookup(page) {
            if mapped.access().contains(access) {
                return Resolution::Ready;
            }
            return self.make_writable(page, rights).into();
        }
        match &area.content {
            Content::Zero => self.place_zeros(page, rights).into(),
            Content::File { file, offset } => Resolution::Fetch(self.file_fetch(page, address, file, offset + inside)),
            Content::Program { image, address: origin } => {
                let (image, origin) = (Arc::clone(image), origin + inside);
                match self.put_back_pristine(page) {
                    // The write that wants it goes to a copy.
                    Some(Ok(())) if access.contains(Access::WRITE) => self.make_writable(page, rights).into(),
                    Some(result) => result.into(),
                    None => match self.program_fetch(page, address, &image, origin) {
                        Some(fetch) => Resolution::Fetch(fetch),
                        None => self.place_zeros(page, rights).into(),
                    },
                }
            }
            Content::Mapped { memory, file, offset } => {
                let (memory, file, offset) = (Arc::clone(memory), Arc::clone(file), offset + inside);
                self.place_mapped((page, address), (rights, access), &memory, (&file, offset))
            }
            Content::Shared { memory, offset, private } => {
                let (memory, offset, private) = (Arc::clone(memory), offset + inside, *private);
                let rights = if private { rights.read_only() } else { rights };
                match self.place_shared(page, &memory, offset, rights, private) {
                    Ok(()) if private && access.contains(Access::WRITE) => {
                        self.make_writable(page, rights | Access::WRITE).into()
                    }
                    Ok(()) => Resolution::Ready,
                    Err(NoPage::Memory(OutOfMemory)) => Resolution::OutOfMemory,
                    Err(NoPage::Beyond | NoPage::Full | NoPage::NotRead) => {
                        Resolution::Signal(Signal::beyond_file(address))
                    }
                }
            }
        }
    }

    /// Maps a page of shared memory.
    fn place_shared(
        &mut self,
        page: UserPage,
        memory: &SharedMemory,
        offset: u64,
        rights: Access,
        private: bool,
    ) -> Result<(), NoPage> {
        let frame = loop {
            match if private { memory.page_to_read(offset) } else { memory.page(offset) } {
                Err(NoPage::Memory(_)) if self.give_up() => {}
                other => break other?,
            }
        };
        let marks = if private { Marks::COPY_ON_WRITE } else { Marks::empty() };
        Ok(self.place(page, frame, rights, marks)?)
    }

    /// Maps the pristine copy of what `page` shows of the program, if there is one beside the table.
    pub(super) fn put_back_pristine(&mut self, page: UserPage) -> Option<Result<(), OutOfMemory>> {
        if self.aside.pages() == 0 {
            return None;
        }
        let rights = self.areas.find(page.address())?.1.access;
        let frame = self.image_page(page).and_then(|origin| self.aside.take(origin))?;
        self.stats.pages -= 1;
        Some(self.place(page, frame, rights.read_only(), PROGRAM_PAGE))
    }

    /// Maps a page of zeros.
    fn place_zeros(&mut self, page: UserPage, rights: Access) -> Result<(), OutOfMemory> {
        let frame = self.new_frame(FrameKind::User)?;
        self.place(page, frame, rights, Marks::empty())
    }

    /// Gives the program a page of its own instead of the one mapped copy-on-write. A pristine frame is kept aside,
    /// unless there is no memory for both: then it becomes the program's own.
    pub(super) fn make_writable(&mut self, page: UserPage, rights: Access) -> Result<(), OutOfMemory> {
        if self.write_mapped(page, rights) {
            return Ok(());
        }
        let Some(mapped) = self.table.lookup(page) else {
            return Ok(());
        };
        let (marks, shared) = (mapped.marks(), mapped.is_shared());
        if !marks.contains(Marks::COPY_ON_WRITE) {
            self.table.protect(page, rights, marks);
            return Ok(());
        }
        let original = mapped.frame();
        let keep = self.image_page(page).filter(|_| marks.contains(Marks::PRISTINE));
        let copy = match (keep, shared) {
            (None, false) => None,
            (Some(_), false) => self.new_frame_beside(FrameKind::User),
            (_, true) => Some(self.new_frame(FrameKind::User)?),
        };
        let Some(copy) = copy else {
            original.set_kind(FrameKind::User);
            self.table.protect(page, rights, Marks::empty());
            return Ok(());
        };
        copy.copy_from(&original);
        // The page has its tables, so this cannot fail for want of one.
        self.table.map(page, copy, rights, Marks::empty()).map_err(|_| OutOfMemory)?;
        if let Some(keep) = keep
            && self.aside.keep(self.frames, keep, original)
        {
            self.count_page();
        }
        Ok(())
    }

    /// Which page of the program's image is seen at `page`.
    pub(super) fn image_page(&self, page: UserPage) -> Option<UserPage> {
        let (start, area) = self.areas.find(page.address())?;
        match &area.content {
            Content::Program { address, .. } => UserPage::containing(address + (page.address() - start)),
            Content::Zero | Content::File { .. } | Content::Mapped { .. } | Content::Shared { .. } => None,
        }
    }
}
