//! Copying between the kernel and a program's memory, page by page through the page table. The program's addresses are
//! never followed; a page that is not there is resolved as if the program had touched it, and if it must be fetched
//! first the copy stops and says how far it came.

use alloc::vec::Vec;

use coppice_hal::addr::{PAGE_BYTES, USER_END, UserPage};
use coppice_hal::paging::{Access, Mapped};

use super::fault::Resolution;
use super::fetch::Fetch;
use super::limits::PAGE;
use super::space::AddressSpace;

/// Why a copy stopped.
#[derive(Debug)]
pub enum CopyError {
    /// `done` bytes were copied; then this must be fetched and installed before the rest can be.
    Fetch {
        /// Bytes copied so far.
        done: usize,
        /// What to fetch.
        fetch: Fetch,
    },
    /// `done` bytes were copied; the next is not the program's to read or write: `EFAULT`.
    Fault {
        /// Bytes copied so far.
        done: usize,
    },
    /// There is no memory for the next page: the program cannot go on.
    OutOfMemory,
}

/// Why a string was not read.
#[derive(Debug)]
pub enum StringError {
    /// As for any copy. What was read so far is in the buffer; calling again with it goes on.
    Copy(CopyError),
    /// No zero within the limit.
    TooLong,
}

impl AddressSpace {
    /// Whether a range is in the user's half at all, whatever is mapped there. Ranges that wrap are not.
    #[must_use]
    pub fn is_user_range(address: u64, length: u64) -> bool {
        address.checked_add(length).is_some_and(|end| end <= USER_END)
    }

    /// Copies from the program.
    ///
    /// # Errors
    /// [`CopyError`], with how much was copied.
    pub fn read_bytes(&mut self, address: u64, out: &mut [u8]) -> Result<(), CopyError> {
        let length = out.len();
        self.copy(address, length, Access::READ, |page, offset, done, count| {
            if let Some(out) = out.get_mut(done..done + count) {
                page.read(offset, out);
            }
        })
    }

    /// Copies to the program.
    ///
    /// # Errors
    /// [`CopyError`], with how much was copied.
    pub fn write_bytes(&mut self, address: u64, bytes: &[u8]) -> Result<(), CopyError> {
        self.copy(address, bytes.len(), Access::WRITE, |page, offset, done, count| {
            if let Some(bytes) = bytes.get(done..done + count) {
                page.write(offset, bytes);
            }
        })
    }

    /// Copies from a page of somebody else's to the program, whose pages there are touched. `None`: one of them is not.
    pub(crate) fn write_page(&self, address: u64, length: usize, from: &Mapped<'_>, at: usize) -> Option<()> {
        self.each_page(address, length, Access::WRITE, |page, offset, done, count| {
            page.copy_from(offset, from, at + done, count);
        })
    }

    /// Copies from the program, whose pages there are touched, to a page of somebody else's. `None`: one is not.
    pub(crate) fn read_page(&self, address: u64, length: usize, to: &Mapped<'_>, at: usize) -> Option<()> {
        self.each_page(address, length, Access::READ, |page, offset, done, count| {
            to.copy_from(at + done, page, offset, count);
        })
    }

    /// As [`Self::copy`], of pages that can be used like that.
    fn each_page(
        &self,
        address: u64,
        length: usize,
        access: Access,
        mut each: impl FnMut(&Mapped<'_>, usize, usize, usize),
    ) -> Option<()> {
        let mut done = 0;
        while done < length {
            let at = address.checked_add(done as u64)?;
            let page = UserPage::containing(at)?;
            let offset = (at % PAGE) as usize;
            let count = (PAGE_BYTES - offset).min(length - done);
            let mapped = self.table.lookup(page).filter(|mapped| mapped.access().contains(access))?;
            each(&mapped, offset, done, count);
            done += count;
        }
        Some(())
    }

    /// Makes every page of a range usable like that, so that a later copy does not stop half-way.
    ///
    /// # Errors
    /// As for a copy.
    pub fn touch(&mut self, address: u64, length: usize, access: Access) -> Result<(), CopyError> {
        self.copy(address, length, access, |_, _, _, _| {})
    }

    /// Reads a string up to its zero, which is left out, behind what `text` has of it already. Call again with the same
    /// `text` and `address` once a page was fetched.
    ///
    /// # Errors
    /// [`StringError::TooLong`] if there is no zero among the first `limit` bytes.
    pub fn read_string(&mut self, address: u64, text: &mut Vec<u8>, limit: usize) -> Result<(), StringError> {
        let mut buffer = [0; 256];
        loop {
            let Some(at) = address.checked_add(text.len() as u64) else {
                return Err(StringError::Copy(CopyError::Fault { done: text.len() }));
            };
            // Not beyond the page: the string may end on it and the next may not be mapped.
            let in_page = (PAGE - at % PAGE) as usize;
            let count = in_page.min(buffer.len()).min(limit - text.len().min(limit));
            if count == 0 {
                return Err(StringError::TooLong);
            }
            let chunk = &mut buffer[..count];
            self.read_bytes(at, chunk).map_err(StringError::Copy)?;
            if let Some(zero) = chunk.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&chunk[..zero]);
                return Ok(());
            }
            text.extend_from_slice(chunk);
        }
    }

    /// Reads a small structure.
    ///
    /// # Errors
    /// As for any copy.
    pub fn read_array<const N: usize>(&mut self, address: u64) -> Result<[u8; N], CopyError> {
        let mut bytes = [0; N];
        self.read_bytes(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a 32-bit number.
    ///
    /// # Errors
    /// As for any copy.
    pub fn read_u32(&mut self, address: u64) -> Result<u32, CopyError> {
        self.read_array(address).map(u32::from_le_bytes)
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// As for any copy.
    pub fn read_u64(&mut self, address: u64) -> Result<u64, CopyError> {
        self.read_array(address).map(u64::from_le_bytes)
    }

    /// Writes a 32-bit number.
    ///
    /// # Errors
    /// As for any copy.
    pub fn write_u32(&mut self, address: u64, value: u32) -> Result<(), CopyError> {
        self.write_bytes(address, &value.to_le_bytes())
    }

    /// Writes a 64-bit number.
    ///
    /// # Errors
    /// As for any copy.
    pub fn write_u64(&mut self, address: u64, value: u64) -> Result<(), CopyError> {
        self.write_bytes(address, &value.to_le_bytes())
    }

    /// Calls `each(page, offset in it, bytes done, bytes now)` for every page of a range, in order.
    fn copy(
        &mut self,
        address: u64,
        length: usize,
        access: Access,
        mut each: impl FnMut(&Mapped<'_>, usize, usize, usize),
    ) -> Result<(), CopyError> {
        let mut done = 0;
        while done < length {
            let Some(at) = address.checked_add(done as u64) else {
                return Err(CopyError::Fault { done });
            };
            let Some(page) = UserPage::containing(at) else {
                return Err(CopyError::Fault { done });
            };
            let offset = (at % PAGE) as usize;
            let count = (PAGE_BYTES - offset).min(length - done);
            match self.table.lookup(page).filter(|mapped| mapped.access().contains(access)) {
                Some(mapped) => {
                    each(&mapped, offset, done, count);
                    done += count;
                }
                None => match self.resolve(at, access) {
                    // Every resolution that says so has put a page into the table or made it writable.
                    Resolution::Ready => {}
                    Resolution::Fetch(fetch) => return Err(CopyError::Fetch { done, fetch }),
                    Resolution::Signal(_) => return Err(CopyError::Fault { done }),
                    Resolution::OutOfMemory => return Err(CopyError::OutOfMemory),
                },
            }
        }
        Ok(())
    }
}
