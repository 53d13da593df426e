//! Where things go in the kernel's half of the address space: at the address the configuration fixes, or each in a
//! top-level entry of its own that nobody else uses.

use bootloader_api::config::Mapping;

use crate::frames::FRAME_BYTES;
use crate::image::Kernel;

/// What one entry of the top-level table spans, bytes.
const TOP_ENTRY_BYTES: u64 = 1 << 39;

/// First address of the upper half.
const UPPER_HALF: u64 = 0xffff_8000_0000_0000;

/// Top-level entries that are taken, and the range new ones come from.
pub(crate) struct Layout {
    used: [bool; 512],
    dynamic: core::ops::RangeInclusive<usize>,
}

impl Layout {
    /// Entries taken by the kernel's own segments.
    ///
    /// # Errors
    /// If the configuration asks for what this loader does not do.
    pub(crate) fn new(kernel: &Kernel<'_>) -> Result<Self, &'static str> {
        let mappings = &kernel.config.mappings;
        let start = mappings.dynamic_range_start.unwrap_or(UPPER_HALF);
        let end = mappings.dynamic_range_end.unwrap_or(u64::MAX);
        let mut layout = Self { used: [false; 512], dynamic: entry_of(start)..=entry_of(end) };
        // Entry 0 holds the loader's own code while it jumps.
        layout.used[0] = true;
        for segment in kernel.segments() {
            layout.mark(segment.p_vaddr, segment.p_memsz);
        }
        Ok(layout)
    }

    /// Address for something of that size.
    ///
    /// # Errors
    /// If the fixed address is not page-aligned or canonical, or no entry is free.
    pub(crate) fn place(&mut self, mapping: Mapping, bytes: u64) -> Result<u64, &'static str> {
        let address = match mapping {
            Mapping::FixedAddress(address) => address,
            Mapping::Dynamic => self.free(bytes)?,
        };
        let canonical = (address as i64) << 16 >> 16 == address as i64;
        if !canonical || !address.is_multiple_of(FRAME_BYTES) || address.checked_add(bytes).is_none() {
            return Err("the kernel's configuration fixes an address that is no page");
        }
        self.mark(address, bytes);
        Ok(address)
    }

    /// First address of enough free top-level entries in a row.
    fn free(&self, bytes: u64) -> Result<u64, &'static str> {
        let entries = bytes.div_ceil(TOP_ENTRY_BYTES).max(1) as usize;
        let last = *self.dynamic.end() + 1;
        (*self.dynamic.start()..last.saturating_sub(entries - 1))
            .find(|first| self.used[*first..*first + entries].iter().all(|used| !used))
            // Sign-extended: entries from 256 on are the upper half.
            .map(|first| (((first as u64) << 39) as i64) << 16 >> 16)
            .map(|address| address as u64)
            .ok_or("no room in the kernel's address space")
    }

    fn mark(&mut self, address: u64, bytes: u64) {
        let last = address.saturating_add(bytes.saturating_sub(1));
        self.used[entry_of(address)..=entry_of(last)].fill(true);
    }
}

/// Top-level entry of an address.
fn entry_of(address: u64) -> usize {
    (address >> 39) as usize & 511
}
