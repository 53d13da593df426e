//! mprotect: other rights for what is mapped.
//!
//! A page of the program that was never written stays pristine whatever its rights, because its entry never lets a
//! write through: the first one goes to a copy. So "pristine" in an entry always means "never writable since it was
//! fetched".

use coppice_hal::addr::USER_END;
use coppice_hal::paging::Access;

use super::change::Change;
use super::limit::is_data;
use super::limits::PAGE;
use super::map::rights;
use super::space::AddressSpace;
use crate::errno::Errno;

/// Apply from the start of the area that has the first page (`PROT_GROWSDOWN`, for stacks).
const FROM_AREA_START: u64 = 0x0100_0000;

/// That, and up to the end of the area (`PROT_GROWSUP`): not both.
const GROWING: u64 = FROM_AREA_START | 0x0200_0000;

impl AddressSpace {
    /// mprotect(2), with Linux's `PROT_*` bits.
    ///
    /// # Errors
    /// `EINVAL`; `ENOMEM` if not all of the range is mapped (what is mapped before the first hole was changed) or there
    /// would be too many areas; `EACCES` for writing to a file mapped shared.
    pub fn protect(&mut self, address: u64, length: u64, protection: u64) -> Result<(), Errno> {
        if protection & GROWING == GROWING || !address.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if length == 0 {
            return Ok(());
        }
        // Where the range ends comes before what the bits mean, and that before how much of it is the program's.
        let length = length.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        let end = address.checked_add(length).ok_or(Errno::ENOMEM)?;
        let access = rights(protection & !FROM_AREA_START)?;
        if end > USER_END {
            return Err(Errno::ENOMEM);
        }
        let (first, area) = self.areas.find(address).ok_or(Errno::ENOMEM)?;
        let start = match protection & FROM_AREA_START {
            0 => address,
            _ => first,
        };
        // The common case changes nothing: no cut, no walk.
        if area.access == access && area.end >= end {
            return Ok(());
        }
        let mapped = self.areas.covered_up_to(start, end);
        let refused =
            access.contains(Access::WRITE) && self.areas.overlapping(start, mapped).any(|(_, area)| !area.may_write);
        if refused {
            return Err(Errno::EACCES);
        }
        let more: u64 = self
            .areas
            .overlapping(start, mapped)
            .filter(|(_, area)| !is_data(area.access, &area.content) && is_data(access, &area.content))
            .map(|(at, area)| area.end.min(mapped) - at.max(start))
            .sum();
        if more > 0 && !self.may_become_data(more) {
            return Err(Errno::ENOMEM);
        }
        self.areas.check_room(start, mapped, 0)?;
        self.areas.change(start, mapped, |area| area.access = access);
        self.begin(Change::protect(start, mapped, access))?;
        if mapped < end { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}
