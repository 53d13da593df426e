//! The kernel's page tables.

use core::arch::x86_64::__cpuid;

use x86_64::structures::paging::mapper::{MapToError, Mapper};
use x86_64::structures::paging::{
    OffsetPageTable, Page, PageSize, PageTable, PageTableFlags, PhysFrame, Size1GiB, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use crate::error::Error;
use crate::memory::{Memory, Range};

/// Rights of memory that is read and written.
pub(crate) const DATA: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::NO_EXECUTE);

/// Page tables being built.
pub(crate) struct Tables {
    table: OffsetPageTable<'static>,
    /// Physical address of the top-level table.
    root: u64,
}

impl Tables {
    /// Tables that map nothing.
    pub(crate) fn new(memory: &mut Memory) -> Result<Self, Error> {
        let root = memory.take(1)?.start;
        // SAFETY: a zeroed frame of our own, which is an empty table; physical memory is mapped to itself.
        let table = unsafe { OffsetPageTable::new(&mut *(root as *mut PageTable), VirtAddr::zero()) };
        Ok(Self { table, root })
    }

    /// Maps one page.
    pub(crate) fn map(
        &mut self,
        memory: &mut Memory,
        address: u64,
        physical: u64,
        flags: PageTableFlags,
    ) -> Result<(), Error> {
        self.map_sized::<Size4KiB>(memory, address, physical, flags)
    }

    /// Maps the pages from `address` on to a range of frames.
    pub(crate) fn map_range(
        &mut self,
        memory: &mut Memory,
        address: u64,
        frames: Range,
        flags: PageTableFlags,
    ) -> Result<(), Error> {
        for offset in (0..frames.bytes()).step_by(Size4KiB::SIZE as usize) {
            self.map(memory, address + offset, frames.start + offset, flags)?;
        }
        Ok(())
    }

    /// Maps a range of memory to its physical addresses plus `offset`, a multiple of the largest page, in the largest
    /// pages that the processor has and that hold nothing else.
    pub(crate) fn map_memory(&mut self, memory: &mut Memory, offset: u64, range: Range) -> Result<(), Error> {
        let has_1_gib = __cpuid(0x8000_0001).edx & 1 << 26 != 0;
        let mut at = range.start;
        while at < range.end {
            let fits = |bytes: u64| at.is_multiple_of(bytes) && range.end - at >= bytes;
            at += if has_1_gib && fits(Size1GiB::SIZE) {
                self.map_sized::<Size1GiB>(memory, offset + at, at, DATA)?;
                Size1GiB::SIZE
            } else if fits(Size2MiB::SIZE) {
                self.map_sized::<Size2MiB>(memory, offset + at, at, DATA)?;
                Size2MiB::SIZE
            } else {
                self.map(memory, offset + at, at, DATA)?;
                Size4KiB::SIZE
            };
        }
        Ok(())
    }

    /// Points entry `index` of the top-level table at the table itself.
    pub(crate) fn map_recursively(&mut self, index: u16) -> Result<(), Error> {
        let root = PhysAddr::new(self.root);
        let entry = &mut self.table.level_4_table_mut()[usize::from(index)];
        if !entry.is_unused() {
            return Err(Error::Overlap(u64::from(index) << 39));
        }
        entry.set_addr(root, DATA);
        Ok(())
    }

    /// Physical address of the top-level table.
    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    fn map_sized<S: PageSize>(
        &mut self,
        memory: &mut Memory,
        address: u64,
        physical: u64,
        flags: PageTableFlags,
    ) -> Result<(), Error>
    where
        OffsetPageTable<'static>: Mapper<S>,
    {
        let address = VirtAddr::try_new(address).map_err(|_| Error::NoAddresses)?;
        let page = Page::<S>::containing_address(address);
        let frame = PhysFrame::<S>::containing_address(PhysAddr::new(physical));
        // SAFETY: the tables are not in use yet.
        match unsafe { self.table.map_to(page, frame, flags, memory) } {
            Ok(flush) => {
                flush.ignore();
                Ok(())
            }
            Err(MapToError::FrameAllocationFailed) => Err(Error::OutOfMemory),
            Err(_) => Err(Error::Overlap(address.as_u64())),
        }
    }
}
