//! Changing a program's memory from outside, also where it may only read or execute: it gets a copy of its own there,
//! as if it had written.

use coppice_hal::addr::{PAGE_BYTES, UserPage};
use coppice_hal::paging::{Access, Mapped, Marks};

use super::area::Content;
use super::copy::CopyError;
use super::fault::Resolution;
use super::limits::PAGE;
use super::space::{AddressSpace, OutOfMemory};

impl AddressSpace {
    /// Writes there. Not into memory of others that the program cannot write itself.
    ///
    /// # Errors
    /// [`CopyError`], with how much was written.
    pub fn poke(&mut self, address: u64, bytes: &[u8]) -> Result<(), CopyError> {
        let mut done = 0;
        while done < bytes.len() {
            let at = address.checked_add(done as u64).ok_or(CopyError::Fault { done })?;
            let count = (PAGE_BYTES - (at % PAGE) as usize).min(bytes.len() - done);
            let part = &bytes[done..done + count];
            self.with_own_page(at, |page, offset| page.write(offset, part)).map_err(|error| error.behind(done))?;
            done += count;
        }
        Ok(())
    }

    /// Writes a byte there, if `may` says so of the one that is there, which is given in any case.
    ///
    /// # Errors
    /// As for [`Self::poke`].
    pub fn exchange(&mut self, address: u64, byte: u8, may: impl Fn(u8) -> bool) -> Result<u8, CopyError> {
        self.with_own_page(address, |page, offset| {
            let mut before = [0];
            page.read(offset, &mut before);
            if may(before[0]) {
                page.write(offset, &[byte]);
            }
            before[0]
        })
    }

    /// Shows `f` the page at an address, as the program's own, and the offset in it.
    fn with_own_page<R>(&mut self, address: u64, f: impl FnOnce(&Mapped<'_>, usize) -> R) -> Result<R, CopyError> {
        let page = UserPage::containing(address).ok_or(CopyError::Fault { done: 0 })?;
        loop {
            let (_, area) = self.areas.find(address).ok_or(CopyError::Fault { done: 0 })?;
            let rights = area.access;
            let is_others = matches!(area.content, Content::Shared { private: false, .. } | Content::Mapped { .. });
            if is_others && !area.allows(Access::WRITE) {
                return Err(CopyError::Fault { done: 0 });
            }
            let mapped = self.table.lookup(page).filter(|_| !self.is_closed(page));
            match mapped {
                Some(mapped) if mapped.marks().contains(Marks::COPY_ON_WRITE) => {
                    self.make_writable(page, rights).map_err(|OutOfMemory| CopyError::OutOfMemory)?;
                }
                Some(mapped) => return Ok(f(&mapped, (address % PAGE) as usize)),
                None => match self.resolve(address, Access::READ) {
                    Resolution::Ready => {}
                    Resolution::Fetch(fetch) => return Err(CopyError::Fetch { done: 0, fetch }),
                    Resolution::Signal(_) => return Err(CopyError::Fault { done: 0 }),
                    Resolution::OutOfMemory => return Err(CopyError::OutOfMemory),
                },
            }
        }
    }
}

impl CopyError {
    /// The same behind bytes that were copied.
    fn behind(self, before: usize) -> Self {
        match self {
            Self::Fetch { done, fetch } => Self::Fetch { done: before + done, fetch },
            Self::Fault { done } => Self::Fault { done: before + done },
            Self::OutOfMemory => Self::OutOfMemory,
        }
    }
}
