//! Words of a program's memory that several of its threads use at once: read and changed in one piece, where they are.

use core::sync::atomic::{AtomicU32, Ordering};

use coppice_hal::addr::UserPage;
use coppice_hal::paging::{Access, Mapped};

use super::copy::CopyError;
use super::fault::Resolution;
use super::limits::PAGE;
use super::space::AddressSpace;

impl AddressSpace {
    /// Reads a word, whose address is aligned.
    ///
    /// # Errors
    /// As for any copy.
    pub fn load_word(&mut self, address: u64) -> Result<u32, CopyError> {
        self.with_page(address, Access::READ, |page, offset| page.word(offset))
    }

    /// Changes a word, whose address is aligned, as `change` says, and returns what it was. Nothing happens if that
    /// says `None`.
    ///
    /// # Errors
    /// As for any copy.
    pub fn update_word(&mut self, address: u64, mut change: impl FnMut(u32) -> Option<u32>) -> Result<u32, CopyError> {
        self.with_page(address, Access::WRITE, |page, offset| {
            let word: &AtomicU32 = page.words(offset, 1)?.first()?;
            let (Ok(before) | Err(before)) = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, &mut change);
            Some(before)
        })
    }

    /// Calls `with` with the page of an address, usable like that, and the offset in it.
    fn with_page(
        &mut self,
        address: u64,
        access: Access,
        mut with: impl FnMut(&Mapped<'_>, usize) -> Option<u32>,
    ) -> Result<u32, CopyError> {
        const FAULT: CopyError = CopyError::Fault { done: 0 };
        let page = UserPage::containing(address).ok_or(FAULT)?;
        loop {
            if let Some(mapped) = self.table.lookup(page).filter(|mapped| mapped.access().contains(access)) {
                return with(&mapped, (address % PAGE) as usize).ok_or(FAULT);
            }
            match self.resolve(address, access) {
                Resolution::Ready => {}
                Resolution::Fetch(fetch) => return Err(CopyError::Fetch { done: 0, fetch }),
                Resolution::Signal(_) => return Err(FAULT),
                Resolution::OutOfMemory => return Err(CopyError::OutOfMemory),
            }
        }
    }
}
