//! Physical memory while the loader runs: frames are taken from the largest area upwards, around what is in use.

use core::ptr;

use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, PhysFrame, Size4KiB};

use crate::error::Error;
use crate::start_info::{KIND_USABLE, StartInfo};

/// Bytes of a frame.
pub(crate) const FRAME_BYTES: u64 = 4096;

/// End of the memory that the loader's own tables map.
const REACH: u64 = 4 << 30;

/// Below this live firmware and the structures QEMU leaves.
const LOW_MEMORY: u64 = 1 << 20;

/// A range of addresses; `end` is behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// First address.
    pub(crate) start: u64,
    /// Address behind the last byte.
    pub(crate) end: u64,
}

impl Range {
    /// Nothing.
    pub(crate) const EMPTY: Self = Self { start: 0, end: 0 };

    /// The `bytes` addresses from `start` on.
    pub(crate) const fn new(start: u64, bytes: u64) -> Self {
        Self { start, end: start.saturating_add(bytes) }
    }

    /// Length, bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The whole frames that it touches.
    pub(crate) const fn frames_touched(self) -> Self {
        Self { start: self.start / FRAME_BYTES * FRAME_BYTES, end: self.end.div_ceil(FRAME_BYTES) * FRAME_BYTES }
    }

    /// The whole frames in it.
    pub(crate) fn frames_within(self) -> Self {
        let start = self.start.div_ceil(FRAME_BYTES) * FRAME_BYTES;
        Self { start, end: (self.end / FRAME_BYTES * FRAME_BYTES).max(start) }
    }

    /// Whether the two share an address.
    pub(crate) const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Memory that is left to take.
pub(crate) struct Memory {
    /// Where frames are taken from.
    area: Range,
    /// Address of the next frame.
    next: u64,
    /// What must not be taken.
    in_use: [Range; 2],
}

unsafe extern "C" {
    /// First byte of the loader; only its address means something.
    static image_start: u8;
    /// First byte behind the loader.
    static image_end: u8;
}

impl Memory {
    /// Takes frames from the largest usable area.
    pub(crate) fn new(info: &StartInfo) -> Result<Self, Error> {
        let reachable = info.areas().iter().filter(|area| area.kind == KIND_USABLE).map(|area| {
            Range { start: area.range.start.max(LOW_MEMORY), end: area.range.end.min(REACH) }.frames_within()
        });
        let area = reachable.max_by_key(|range| range.bytes()).ok_or(Error::OutOfMemory)?;
        let image = Range { start: (&raw const image_start).addr() as u64, end: (&raw const image_end).addr() as u64 };
        let ramdisk = info.ramdisk.unwrap_or(Range::EMPTY).frames_touched();
        Ok(Self { area, next: area.start, in_use: [image.frames_touched(), ramdisk] })
    }

    /// Takes `count` frames that lie one behind the other, and zeroes them.
    pub(crate) fn take(&mut self, count: u64) -> Result<Range, Error> {
        let bytes = count.checked_mul(FRAME_BYTES).ok_or(Error::OutOfMemory)?;
        let mut taken = Range::new(self.next, bytes);
        while let Some(obstacle) = self.in_use.iter().find(|range| range.overlaps(taken)) {
            taken = Range::new(obstacle.end, bytes);
        }
        if taken.end > self.area.end {
            return Err(Error::OutOfMemory);
        }
        self.next = taken.end;
        // SAFETY: the frames are memory, mapped to themselves, and nobody else's.
        unsafe { ptr::write_bytes(taken.start as *mut u64, 0, (bytes / 8) as usize) };
        Ok(taken)
    }

    /// From the first frame taken to the last.
    pub(crate) fn taken(&self) -> Range {
        Range { start: self.in_use[0].end.max(self.area.start).min(self.next), end: self.next }
    }
}

// SAFETY: each frame is taken once.
unsafe impl FrameAllocator<Size4KiB> for Memory {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        self.take(1).ok().map(|range| PhysFrame::containing_address(PhysAddr::new(range.start)))
    }
}
