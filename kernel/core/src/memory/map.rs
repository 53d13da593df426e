//! mmap, munmap and brk: what is mapped where. Nothing here touches a page that was not touched before, so a call costs
//! the same for a page and for a terabyte; what has to be taken away is taken away in steps ([`super::change`]).
//!
//! What is mapped `MAP_SHARED | MAP_ANONYMOUS` is [`SharedMemory`], as are files in `/dev/shm`, and files of the I/O
//! node that are mapped shared, whose pages are read from there and written back ([`super::mapped`]). Of what the
//! kernel makes itself nothing is mapped shared to be written (`ENODEV`).

use alloc::sync::Arc;

use coppice_hal::addr::USER_END;
use coppice_hal::paging::Access;

use super::area::{Area, Backing, Content};
use super::change::Change;
use super::limit::is_data;
use super::limits::{MAP_32BIT_TOP, MAP_BOTTOM, MAP_TOP, PAGE};
use super::shared::SharedMemory;
use super::space::AddressSpace;
use crate::errno::Errno;

/// Linux's `PROT_*` bits.
mod protection {
    pub(super) const READ: u64 = 1;
    pub(super) const WRITE: u64 = 2;
    pub(super) const EXECUTE: u64 = 4;
    /// `PROT_SEM`, without effect.
    pub(super) const SEMAPHORE: u64 = 8;
}

/// Linux's `MAP_*` bits that matter here. Others (`MAP_STACK`, `MAP_LOCKED`, `MAP_DENYWRITE` …) are without effect.
mod flag {
    pub(super) const TYPE: u64 = 0x0f;
    pub(super) const SHARED: u64 = 0x01;
    pub(super) const PRIVATE: u64 = 0x02;
    pub(super) const SHARED_VALIDATE: u64 = 0x03;
    pub(super) const FIXED: u64 = 0x10;
    pub(super) const LOW: u64 = 0x40;
    pub(super) const NO_RESERVE: u64 = 0x4000;
    pub(super) const POPULATE: u64 = 0x8000;
    pub(super) const HUGE: u64 = 0x4_0000;
    pub(super) const FIXED_NO_REPLACE: u64 = 0x10_0000;
    /// What `MAP_SHARED_VALIDATE` knows: the flags of old, with the sizes of huge pages.
    pub(super) const VALIDATED: u64 = 0xfc00_0000 | 0x7_f9f3 | TYPE;
}

/// The rights Linux's `PROT_*` bits mean.
///
/// # Errors
/// `EINVAL` for bits that mean nothing.
pub(super) fn rights(bits: u64) -> Result<Access, Errno> {
    use protection::{EXECUTE, READ, SEMAPHORE, WRITE};
    if bits & !(READ | WRITE | EXECUTE | SEMAPHORE) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut access = Access::empty();
    access.set(Access::READ, bits & READ != 0);
    access.set(Access::WRITE, bits & WRITE != 0);
    access.set(Access::EXECUTE, bits & EXECUTE != 0);
    Ok(access)
}

/// The length in whole pages.
///
/// # Errors
/// `ENOMEM` if there cannot be that much.
pub(super) fn whole_pages(length: u64) -> Result<u64, Errno> {
    length.checked_next_multiple_of(PAGE).filter(|length| *length <= USER_END).ok_or(Errno::ENOMEM)
}

impl AddressSpace {
    /// mmap(2): maps `length` bytes of `backing`, with Linux's `PROT_*` and `MAP_*` bits. Whether the backing is a file
    /// decides, not `MAP_ANONYMOUS`. Returns the address.
    ///
    /// # Errors
    /// As Linux: `EINVAL`, `ENOMEM` (no room, too many areas, or more writable memory than the machine has without
    /// `MAP_NORESERVE`), `EEXIST`, `EPERM`, `EOVERFLOW`; `ENODEV` for a writable shared file.
    pub fn map(&mut self, hint: u64, length: u64, protection: u64, flags: u64, backing: Backing) -> Result<u64, Errno> {
        // Linux ignores bits of `prot` it does not know here, not in mprotect.
        let access = rights(protection & 7)?;
        let kind = flags & flag::TYPE;
        let start = self.place_for(hint, length, flags)?;
        let length = whole_pages(length)?;
        if let Backing::File { offset, .. } | Backing::Mapped { offset, .. } | Backing::Shared { offset, .. } = &backing
            && offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Errno::EOVERFLOW);
        }
        match kind {
            flag::SHARED | flag::PRIVATE => {}
            flag::SHARED_VALIDATE if flags & !flag::VALIDATED != 0 => return Err(Errno::EOPNOTSUPP),
            flag::SHARED_VALIDATE if !matches!(backing, Backing::Zero) => {}
            _ => return Err(Errno::EINVAL),
        }
        let shared_file = kind != flag::PRIVATE && matches!(backing, Backing::File { .. });
        if shared_file && access.contains(Access::WRITE) {
            return Err(Errno::ENODEV);
        }
        let private = kind == flag::PRIVATE;
        let may_write = match &backing {
            Backing::File { .. } => !shared_file,
            Backing::Shared { may_write, .. } | Backing::Mapped { may_write, .. } => private || *may_write,
            Backing::Zero => true,
        };
        let content = match backing {
            Backing::Zero if private => Content::Zero,
            Backing::Zero => {
                let memory = SharedMemory::new(self.frames, Arc::clone(&self.retention), length, None);
                Content::Shared { memory: Arc::new(memory), offset: 0, private }
            }
            Backing::File { offset, .. } | Backing::Mapped { offset, .. } | Backing::Shared { offset, .. }
                if !offset.is_multiple_of(PAGE) =>
            {
                return Err(Errno::EINVAL);
            }
            Backing::File { file, offset } => Content::File { file, offset },
            Backing::Mapped { file, offset, .. } if private => Content::File { file, offset },
            Backing::Mapped { memory, file, offset, .. } => Content::Mapped { memory, file, offset },
            Backing::Shared { memory, offset, .. } => Content::Shared { memory, offset, private },
        };
        if flags & flag::HUGE != 0 {
            // There are no huge pages set aside, which is what Linux says when it has none.
            return Err(Errno::ENOMEM);
        }
        let reserves = access.contains(Access::WRITE) && flags & flag::NO_RESERVE == 0;
        if reserves && self.exceeds_memory(length) {
            return Err(Errno::ENOMEM);
        }
        let end = start + length;
        if !self.may_expand(length, is_data(access, &content), (start, end)) {
            return Err(Errno::ENOMEM);
        }
        self.areas.check_room(start, end, 1)?;
        let is_free = self.areas.is_free(start, end);
        if !is_free {
            self.areas.remove(start, end);
        }
        let area = Area { end, access, may_write, content };
        self.areas.insert(start, area);
        if !is_free {
            self.begin(Change::drop(start, end).closing(start, end))?;
        }
        Ok(start)
    }

    /// How the pages of a mapping are to be usable that these `PROT_*` and `MAP_*` bits ask for at once, for
    /// [`AddressSpace::populate`]; `None` if they ask for none.
    #[must_use]
    pub fn populates(protection: u64, flags: u64) -> Option<Access> {
        if flags & flag::POPULATE == 0 { None } else { rights(protection & 7).ok() }
    }

    /// munmap(2).
    ///
    /// # Errors
    /// `EINVAL` for ranges that are not page-aligned, empty or not the program's; `ENOMEM` if it would take too many
    /// areas to describe what is left.
    pub fn unmap(&mut self, address: u64, length: u64) -> Result<(), Errno> {
        let length = whole_pages(length).map_err(|_| Errno::EINVAL)?;
        let end = address.checked_add(length).filter(|end| *end <= USER_END);
        let end = end.filter(|_| length > 0 && address.is_multiple_of(PAGE)).ok_or(Errno::EINVAL)?;
        self.areas.check_room(address, end, 0)?;
        self.areas.remove(address, end);
        self.begin(Change::drop(address, end))
    }

    /// brk(2): moves the end of the heap and returns where it is then, which is where it was if it cannot be moved.
    pub fn set_break(&mut self, address: u64) -> u64 {
        let Ok(new) = whole_pages(address) else {
            return self.break_end;
        };
        let Ok(old) = whole_pages(self.break_end) else {
            return self.break_end;
        };
        if self.image.is_none() || address < self.break_start {
            return self.break_end;
        }
        if new > old {
            // A page is left free to what comes next, as Linux does.
            let fits = new <= MAP_TOP && self.areas.is_free(old, new + PAGE) && !self.exceeds_memory(new - old);
            let fits = fits && self.may_expand(new - old, true, (0, 0));
            if !fits || self.areas.check_room(old, new, 1).is_err() {
                return self.break_end;
            }
            let area = Area { end: new, access: Access::READ | Access::WRITE, may_write: true, content: Content::Zero };
            self.areas.insert(old, area);
        } else if new < old && self.unmap(new, old - new).is_err() {
            return self.break_end;
        }
        self.break_end = address;
        address
    }

    /// Where mmap(2) would put something: what is wrong with that comes before anything else, as on Linux.
    ///
    /// # Errors
    /// `EINVAL`, `ENOMEM`, `EEXIST`, `EPERM`.
    pub fn place_for(&self, hint: u64, length: u64, flags: u64) -> Result<u64, Errno> {
        if length == 0 {
            return Err(Errno::EINVAL);
        }
        self.choose_place(hint, whole_pages(length)?, flags)
    }

    /// Where a mapping goes.
    fn choose_place(&self, hint: u64, length: u64, flags: u64) -> Result<u64, Errno> {
        if flags & (flag::FIXED | flag::FIXED_NO_REPLACE) != 0 {
            if !hint.is_multiple_of(PAGE) {
                return Err(Errno::EINVAL);
            }
            let end = hint.checked_add(length).filter(|end| *end <= USER_END).ok_or(Errno::ENOMEM)?;
            if hint < MAP_BOTTOM {
                return Err(Errno::EPERM);
            }
            if flags & flag::FIXED_NO_REPLACE != 0 && !self.areas.is_free(hint, end) {
                return Err(Errno::EEXIST);
            }
            return Ok(hint);
        }
        let top = if flags & flag::LOW != 0 { MAP_32BIT_TOP } else { MAP_TOP };
        if hint != 0 {
            let start = (hint / PAGE * PAGE).max(MAP_BOTTOM);
            let end = start.checked_add(length).filter(|end| *end <= top);
            if end.is_some_and(|end| self.areas.is_free(start, end)) {
                return Ok(start);
            }
        }
        self.areas.gap(length, MAP_BOTTOM, top).ok_or(Errno::ENOMEM)
    }

    /// Whether that many bytes of writable memory are more than the machine has: Linux refuses such a request at once,
    /// and programs rely on that.
    pub(super) fn exceeds_memory(&self, length: u64) -> bool {
        length / PAGE > u64::from(self.frames.total_frames())
    }
}
