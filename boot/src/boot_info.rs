//! What the kernel is told: the boot information and the map of memory, in frames of their own.

use core::slice;

use bootloader_api::BootInfo;
use bootloader_api::info::{MemoryRegion, MemoryRegionKind};

use crate::error::Error;
use crate::memory::{FRAME_BYTES, Memory, Range};
use crate::start_info::{AREAS_MAX, KIND_USABLE, StartInfo};

/// Most regions the kernel is told of: each area may be cut by each of the three ranges that are in use.
const REGIONS_MAX: usize = AREAS_MAX + 6;

/// Where the list of regions starts behind the boot information, bytes.
const REGIONS_AT: u64 = size_of::<BootInfo>().next_multiple_of(64) as u64;

/// Frames the boot information needs.
pub(crate) const FRAMES: u64 = (REGIONS_AT + (REGIONS_MAX * size_of::<MemoryRegion>()) as u64).div_ceil(FRAME_BYTES);

/// Memory for the boot information, and where the kernel will see it.
pub(crate) struct Place {
    /// Its frames.
    pub(crate) frames: Range,
    /// Address in the kernel's address space.
    pub(crate) address: u64,
}

impl Place {
    /// Writes the map of memory. No frame may be taken afterwards. The list is found at the address the kernel will see
    /// it at.
    pub(crate) fn write_regions(
        &self,
        info: &StartInfo,
        memory: &Memory,
        kernel: Range,
    ) -> Result<&'static mut [MemoryRegion], Error> {
        let list = (self.frames.start + REGIONS_AT) as *mut MemoryRegion;
        let in_use = [memory.taken(), kernel.frames_touched(), info.ramdisk.unwrap_or(Range::EMPTY).frames_touched()];
        let mut count = 0;
        let mut add = |range: Range, kind| {
            if range.bytes() == 0 {
                return Ok(());
            }
            if count == REGIONS_MAX {
                return Err(Error::MemoryMapTooLong);
            }
            // SAFETY: inside the frames, which are our own.
            unsafe { list.add(count).write(MemoryRegion { start: range.start, end: range.end, kind }) };
            count += 1;
            Ok(())
        };
        for area in info.areas() {
            if area.kind == KIND_USABLE {
                add_usable(area.range.frames_within(), &in_use, &mut add)?;
            } else {
                add(area.range, MemoryRegionKind::UnknownBios(area.kind))?;
            }
        }
        let seen_at = (self.address + REGIONS_AT) as *mut MemoryRegion;
        // SAFETY: the list was just written, and lies there in the address space of the kernel, who alone looks at it.
        Ok(unsafe { slice::from_raw_parts_mut(seen_at, count) })
    }

    /// Writes the boot information itself.
    pub(crate) fn write(&self, boot_info: BootInfo) {
        // SAFETY: the frames are our own.
        unsafe { (self.frames.start as *mut BootInfo).write(boot_info) };
    }
}

/// Adds an area of memory, cut into what is in use and what is not.
fn add_usable(
    area: Range,
    in_use: &[Range],
    add: &mut impl FnMut(Range, MemoryRegionKind) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut at = area.start;
    while at < area.end {
        let holder = in_use.iter().find(|range| (range.start..range.end).contains(&at));
        let (end, kind) = match holder {
            Some(holder) => (holder.end, MemoryRegionKind::Bootloader),
            None => {
                let starts = in_use.iter().filter(|range| range.bytes() > 0 && range.start > at);
                (starts.map(|range| range.start).min().unwrap_or(area.end), MemoryRegionKind::Usable)
            }
        };
        let end = end.min(area.end);
        add(Range { start: at, end }, kind)?;
        at = end;
    }
    Ok(())
}
