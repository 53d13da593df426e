//! Making the pool out of the memory the machine has. The records of the frames are carved from the memory itself.

use core::mem::size_of;
use core::{ptr, slice};

use spin::Mutex;

use super::buddy::{FreeLists, ORDER_MAX};
use super::info::{Counts, FrameInfo};
use super::quarantine::Quarantine;
use super::{FramePool, RESERVE_BYTES_MAX};
use crate::addr::PAGE_BYTES;

/// A run of physical memory, bytes; `end` is behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalRange {
    /// First address.
    pub start: u64,
    /// Address behind the last byte.
    pub end: u64,
}

impl PhysicalRange {
    /// Frame numbers of the whole frames in it, frame 0 left out: physical address 0 looks too much like "none".
    fn frames(self) -> (u64, u64) {
        let page = PAGE_BYTES as u64;
        let (start, end) = (self.start.div_ceil(page).max(1), self.end / page);
        (start, end.max(start))
    }
}

impl FramePool {
    /// Makes a pool of the usable memory. `None` if there is no range that can hold the frames' records.
    ///
    /// # Safety
    /// The ranges are RAM that nothing else uses or will ever use, do not overlap, and appear writable in the direct
    /// map from `direct_map` (where physical address 0 is) on, for good.
    pub unsafe fn from_memory(
        ranges: impl Iterator<Item = PhysicalRange> + Clone,
        direct_map: *mut u8,
    ) -> Option<Self> {
        let block = 1 << ORDER_MAX;
        let whole = ranges.clone().map(PhysicalRange::frames).filter(|(start, end)| start < end);
        let first = whole.clone().map(|(start, _)| start).min()? / block * block;
        let last = whole.clone().map(|(_, end)| end).max()?;
        let records = usize::try_from(last - first).ok()?;
        // Indices are 32 bits wide, which is 16 TiB of memory, and the last value means "none".
        u32::try_from(records).ok().filter(|records| *records < u32::MAX)?;
        let info_frames = (records * size_of::<FrameInfo>()).div_ceil(PAGE_BYTES) as u64;
        let (home, _) = whole.clone().find(|(start, end)| end - start > info_frames)?;

        let place = direct_map.wrapping_add(usize::try_from(home).ok()? * PAGE_BYTES).cast::<FrameInfo>();
        // SAFETY: the caller gave us this memory; it is in a usable range, is left out of the free lists below, and is
        // page-aligned. A record of all zeros is a valid one.
        let info: &'static [FrameInfo] = unsafe {
            ptr::write_bytes(place, 0, records);
            slice::from_raw_parts(place, records)
        };

        let mut free = FreeLists::new();
        for (start, end) in whole {
            let start = if start == home { home + info_frames } else { start };
            give_range(&mut free, info, (start - first) as u32, (end - first) as u32);
        }
        let total = free.free_frames() + info_frames as u32;
        let reserve = (total / 8).min((RESERVE_BYTES_MAX / PAGE_BYTES) as u32);
        let (counts, free, quarantine) = (Counts::new(), Mutex::new(free), Mutex::new(Quarantine::new()));
        Some(Self {
            direct_map,
            first,
            info,
            total,
            info_frames: info_frames as u32,
            reserve,
            counts,
            free,
            quarantine,
        })
    }
}

/// Adds the frames `start..end` as the largest aligned blocks they make.
fn give_range(free: &mut FreeLists, info: &[FrameInfo], mut start: u32, end: u32) {
    while start < end {
        let fits = (end - start).ilog2() as u8;
        let order = (start.trailing_zeros() as u8).min(fits).min(ORDER_MAX);
        free.give(info, start, order);
        start += 1 << order;
    }
}
