//! Where things go in the kernel's address space: where its configuration says, or into entries of the top-level table
//! that nothing else uses.

use bootloader_api::config::{Mapping, Mappings};

use crate::error::Error;
use crate::memory::Range;

/// Entries of the top-level table.
const SLOTS: usize = 512;

/// `log2` of the bytes that one of them spans.
const SLOT_SHIFT: u32 = 39;

/// First dynamic address if the kernel does not say: the kernel's half.
const DYNAMIC_START: u64 = 0xffff_8000_0000_0000;

/// Which entries of the top-level table are in use.
pub(crate) struct Layout {
    used: [bool; SLOTS],
    first: usize,
    last: usize,
}

impl Layout {
    /// A layout with nothing in it.
    pub(crate) fn new(mappings: &Mappings) -> Self {
        let mut layout = Self {
            used: [false; SLOTS],
            first: slot(mappings.dynamic_range_start.unwrap_or(DYNAMIC_START)),
            last: slot(mappings.dynamic_range_end.unwrap_or(u64::MAX)),
        };
        // The loader's own code is mapped there for the last jump.
        layout.used[0] = true;
        layout
    }

    /// Notes that a range is in use.
    pub(crate) fn occupy(&mut self, range: Range) {
        if range.bytes() > 0 {
            self.used[slot(range.start)..=slot(range.end - 1)].fill(true);
        }
    }

    /// Notes where the configuration fixes something.
    pub(crate) fn occupy_fixed(&mut self, mapping: Mapping, bytes: u64) {
        if let Mapping::FixedAddress(address) = mapping {
            self.occupy(Range::new(address, bytes));
        }
    }

    /// An address for `bytes`: the fixed one, or the start of entries that nothing uses.
    pub(crate) fn place(&mut self, mapping: Mapping, bytes: u64) -> Result<u64, Error> {
        if let Mapping::FixedAddress(address) = mapping {
            return Ok(address);
        }
        let count = bytes.div_ceil(1 << SLOT_SHIFT).max(1) as usize;
        let mut starts = self.first..=(self.last + 1).saturating_sub(count);
        let free = starts.find(|start| !self.used[*start..*start + count].contains(&true)).ok_or(Error::NoAddresses)?;
        self.used[free..free + count].fill(true);
        let sign = if free >= SLOTS / 2 { 0xffff << 48 } else { 0 };
        Ok((free as u64) << SLOT_SHIFT | sign)
    }
}

/// The entry of the top-level table that an address belongs to.
pub(crate) fn slot(address: u64) -> usize {
    (address >> SLOT_SHIFT) as usize % SLOTS
}
