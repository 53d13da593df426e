//! The page tables the kernel starts on.

use bitflags::bitflags;

use crate::frames::{FRAME_BYTES, Frames, bytes_at};

bitflags! {
    /// Bits of a page-table entry (Intel SDM 3A, 4.5).
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Flags: u64 {
        const PRESENT = 1;
        const WRITABLE = 1 << 1;
        const LARGE = 1 << 7;
        const NO_EXECUTE = 1 << 63;
    }
}

/// Physical address in an entry.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// What an entry of the third level spans, bytes.
pub(crate) const GIBIBYTE: u64 = 1 << 30;

/// What an entry of the second level spans, bytes.
pub(crate) const LARGE_BYTES: u64 = 2 << 20;

/// A four-level table under construction.
pub(crate) struct AddressSpace {
    top: u64,
}

impl AddressSpace {
    /// An empty one.
    ///
    /// # Errors
    /// If there is no memory.
    pub(crate) fn new(frames: &mut Frames) -> Result<Self, &'static str> {
        Ok(Self { top: frames.take()? })
    }

    /// Physical address for CR3.
    pub(crate) fn root(&self) -> u64 {
        self.top
    }

    /// Maps one page; its size is 4 KiB, 2 MiB or 1 GiB for level 1, 2 or 3. A page that is mapped already to the same
    /// frame gets the rights of both.
    ///
    /// # Errors
    /// If there is no memory for tables, or something else is mapped there.
    pub(crate) fn map(
        &mut self,
        virtual_address: u64,
        physical: u64,
        flags: Flags,
        level: u32,
        frames: &mut Frames,
    ) -> Result<(), &'static str> {
        let mut table = self.top;
        for above in (level + 1..=4).rev() {
            let slot = entry(table, virtual_address, above);
            // SAFETY: `slot` lies in a table frame this loader took and nobody else touches.
            let mut value = unsafe { slot.read() };
            if value == 0 {
                value = frames.take()? | (Flags::PRESENT | Flags::WRITABLE).bits();
                // SAFETY: as above.
                unsafe { slot.write(value) };
            } else if value & Flags::LARGE.bits() != 0 {
                return Err("two mappings of the kernel overlap");
            }
            table = value & ADDRESS;
        }
        let slot = entry(table, virtual_address, level);
        let large = if level > 1 { Flags::LARGE } else { Flags::empty() };
        let wanted = flags | Flags::PRESENT | large;
        // SAFETY: as above.
        let present = unsafe { slot.read() };
        let value = match present {
            0 => physical | wanted.bits(),
            old if old & ADDRESS == physical => join(old, wanted),
            _ => return Err("two mappings of the kernel overlap"),
        };
        // SAFETY: as above.
        unsafe { slot.write(value) };
        Ok(())
    }

    /// Maps a range of 4 KiB pages to frames that lie one behind the other.
    ///
    /// # Errors
    /// As [`Self::map`].
    pub(crate) fn map_range(
        &mut self,
        virtual_address: u64,
        physical: u64,
        bytes: u64,
        flags: Flags,
        frames: &mut Frames,
    ) -> Result<(), &'static str> {
        (0..bytes.div_ceil(FRAME_BYTES))
            .map(|page| page * FRAME_BYTES)
            .try_for_each(|at| self.map(virtual_address + at, physical + at, flags, 1, frames))
    }

    /// The frame a 4 KiB page is mapped to.
    pub(crate) fn frame_of(&self, virtual_address: u64) -> Option<u64> {
        let mut table = self.top;
        for level in (1..=4).rev() {
            // SAFETY: a table frame of this loader.
            let value = unsafe { entry(table, virtual_address, level).read() };
            if value == 0 {
                return None;
            }
            table = value & ADDRESS;
        }
        Some(table)
    }

    /// Makes the top-level entry of an address point to the top-level table itself.
    ///
    /// # Errors
    /// If that entry is in use.
    pub(crate) fn map_recursively(&mut self, virtual_address: u64) -> Result<u16, &'static str> {
        let slot = entry(self.top, virtual_address, 4);
        // SAFETY: the top-level table is a frame of this loader.
        unsafe {
            if slot.read() != 0 {
                return Err("two mappings of the kernel overlap");
            }
            slot.write(self.top | (Flags::PRESENT | Flags::WRITABLE | Flags::NO_EXECUTE).bits());
        }
        Ok((virtual_address >> 39) as u16 & 511)
    }
}

/// The rights of an existing entry and of a further mapping of the same frame together.
fn join(old: u64, wanted: Flags) -> u64 {
    let no_execute = old & wanted.bits() & Flags::NO_EXECUTE.bits();
    (old | wanted.bits()) & !Flags::NO_EXECUTE.bits() | no_execute
}

/// The entry for an address in the table of a level.
fn entry(table: u64, virtual_address: u64, level: u32) -> *mut u64 {
    let index = virtual_address >> (12 + 9 * (level - 1)) & 511;
    bytes_at(table).cast::<u64>().wrapping_add(index as usize)
}
