//! mremap: growing, shrinking and moving. A move takes page-table entries along, never bytes, and in steps.

use coppice_hal::addr::USER_END;
use coppice_hal::paging::Access;

use super::area::Area;
use super::change::Change;
use super::limit::is_data;
use super::limits::{MAP_BOTTOM, MAP_TOP, PAGE};
use super::map::whole_pages;
use super::space::AddressSpace;
use crate::errno::Errno;

/// Linux's `MREMAP_*` bits.
const MAY_MOVE: u64 = 1;
const FIXED: u64 = 2;

impl AddressSpace {
    /// mremap(2), with Linux's `MREMAP_*` bits. `new_address` counts with `MREMAP_FIXED` only. Returns the address.
    ///
    /// # Errors
    /// `EINVAL` (also for `MREMAP_DONTUNMAP` and for an old length of 0), `EFAULT` if the old range is not in one area,
    /// `ENOMEM` if it cannot grow.
    pub fn remap(
        &mut self,
        address: u64,
        old_length: u64,
        new_length: u64,
        flags: u64,
        new_address: u64,
    ) -> Result<u64, Errno> {
        let fixed = flags & FIXED != 0;
        let aligned = address.is_multiple_of(PAGE) && (!fixed || new_address.is_multiple_of(PAGE));
        if flags & !(MAY_MOVE | FIXED) != 0 || (fixed && flags & MAY_MOVE == 0) || !aligned {
            return Err(Errno::EINVAL);
        }
        let old = whole_pages(old_length).map_err(|_| Errno::EINVAL)?;
        let new = whole_pages(new_length).map_err(|_| Errno::EINVAL)?;
        if old == 0 || new == 0 {
            return Err(Errno::EINVAL);
        }
        let old_end = address.checked_add(old).filter(|end| *end <= USER_END).ok_or(Errno::EINVAL)?;
        if fixed {
            return self.remap_to(address, old, new, new_address);
        }
        if new <= old {
            // What the rest of the range is does not matter, as on Linux: only its first page must be there.
            self.areas.find(address).ok_or(Errno::EFAULT)?;
            if new < old {
                self.unmap(address + new, old - new)?;
            }
            return Ok(address);
        }
        let area = self.single_area(address, old_end)?;
        let area_end = area.end;
        self.check_growth(address, new - old)?;
        let grown_end = address.checked_add(new).filter(|end| *end <= USER_END);
        if let Some(end) = grown_end
            && area_end == old_end
            && self.areas.is_free(old_end, end)
        {
            self.areas.check_room(old_end, end, 1)?;
            let area = self.continuation(address, old_end, end)?;
            self.areas.insert(old_end, area);
            return Ok(address);
        }
        if flags & MAY_MOVE == 0 {
            return Err(Errno::ENOMEM);
        }
        let place = self.areas.gap(new, MAP_BOTTOM, MAP_TOP).ok_or(Errno::ENOMEM)?;
        // Two cuts, one area more.
        self.areas.check_room(address, old_end, 1)?;
        self.begin(Change::default().and_move(address, old, place, place + new))?;
        Ok(place)
    }

    /// `MREMAP_FIXED`: what is at the new place goes.
    fn remap_to(&mut self, address: u64, old: u64, new: u64, place: u64) -> Result<u64, Errno> {
        let end = place.checked_add(new).filter(|end| *end <= USER_END).ok_or(Errno::EINVAL)?;
        if place < address + old && address < end {
            return Err(Errno::EINVAL);
        }
        if place < MAP_BOTTOM {
            return Err(Errno::EPERM);
        }
        let kept = old.min(new);
        self.single_area(address, address + kept)?;
        self.areas.check_room(place, end, 0)?;
        self.areas.remove(place, end);
        let mut change = Change::drop(place, end);
        let (rest, rest_end) = (address + kept, address + old);
        // As on Linux, what was taken away so far is gone also if there cannot be as many areas as this takes.
        if let Err(errno) = self.areas.check_room(rest, rest_end, 0) {
            self.begin(change)?;
            return Err(errno);
        }
        if rest < rest_end {
            self.areas.remove(rest, rest_end);
            change = change.and_drop(rest, rest_end);
        }
        // Two cuts, one area more.
        if let Err(errno) = self.areas.check_room(address, address + kept, 1) {
            self.begin(change)?;
            return Err(errno);
        }
        if let Err(errno) = self.check_growth(address, new - kept) {
            self.begin(change)?;
            return Err(errno);
        }
        self.begin(change.and_move(address, kept, place, end))?;
        Ok(place)
    }

    /// Whether the area at `address` may become so many bytes longer.
    ///
    /// # Errors
    /// `ENOMEM`: more writable memory than the machine has, or more than the program may have. `EFAULT`: there is none.
    fn check_growth(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        let (_, area) = self.areas.find(address).ok_or(Errno::EFAULT)?;
        let is_impossible = area.access.contains(Access::WRITE) && self.exceeds_memory(bytes);
        let may_grow =
            bytes == 0 || !is_impossible && self.may_expand(bytes, is_data(area.access, &area.content), (0, 0));
        if may_grow { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// The one area that has all of a range.
    fn single_area(&self, start: u64, end: u64) -> Result<&Area, Errno> {
        let (_, area) = self.areas.find(start).ok_or(Errno::EFAULT)?;
        if area.end < end { Err(Errno::EFAULT) } else { Ok(area) }
    }

    /// What comes behind the area that has `address` and ends at `start`, if it goes on to `end`.
    fn continuation(&self, address: u64, start: u64, end: u64) -> Result<Area, Errno> {
        let (first, area) = self.areas.find(address).ok_or(Errno::EFAULT)?;
        Ok(Area { end, content: area.content.advanced(start - first), ..area.clone() })
    }
}
