//! madvise: the two pieces of advice that mean something here, and the ones that are heard and forgotten.

use super::area::Content;
use super::change::Change;
use super::limits::PAGE;
use super::map::whole_pages;
use super::space::AddressSpace;
use crate::errno::Errno;

/// Linux's `MADV_*` numbers.
const DONT_NEED: u64 = 4;
const FREE: u64 = 8;

impl AddressSpace {
    /// madvise(2), with Linux's `MADV_*` numbers. `MADV_DONTNEED` and `MADV_FREE` free the memory at once; the next
    /// touch gives zeros or the file again. Advice on access patterns, huge pages, merging, forking and dumps is
    /// accepted.
    ///
    /// # Errors
    /// `EINVAL` for anything else (`MADV_REMOVE`, poisoning; bringing pages in is done elsewhere) and for `MADV_FREE`
    /// of files; `ENOMEM` if not all of the range is mapped (what is was advised).
    pub fn advise(&mut self, address: u64, length: u64, advice: u64) -> Result<(), Errno> {
        let frees = match advice {
            DONT_NEED | FREE => true,
            // NORMAL … WILLNEED, DONTFORK, DOFORK, MERGEABLE … DODUMP, WIPEONFORK … PAGEOUT.
            0..=3 | 10..=17 | 18..=21 => false,
            _ => return Err(Errno::EINVAL),
        };
        let length = whole_pages(length).map_err(|_| Errno::EINVAL)?;
        let end = address.checked_add(length).filter(|_| address.is_multiple_of(PAGE));
        let end = end.ok_or(Errno::EINVAL)?;
        if advice == FREE
            && self.areas.overlapping(address, end).any(|(_, area)| !matches!(area.content, Content::Zero))
        {
            return Err(Errno::EINVAL);
        }
        if frees {
            // Only areas have pages in memory, so holes need no care.
            self.begin(Change::drop(address, end.min(coppice_hal::addr::USER_END)))?;
        }
        if self.areas.covers(address, end) { Ok(()) } else { Err(Errno::ENOMEM) }
    }
}
