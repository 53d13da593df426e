//! Physical memory in frames of 4 KiB and in aligned blocks of up to 4 MiB (a buddy system), reached through the direct
//! map.
//!
//! Two things hold at all times:
//! - **A frame that is handed out is all zeros.** It is zeroed when its last handle goes, so what a program left in it
//!   is gone before anybody else can get it; memory that nobody had since the kernel started is zeroed when first
//!   taken.
//! - **A frame is free, or somebody holds a [`Frame`] (or a page-table entry made from one).** Handles count references
//!   in the pool's metadata; only the last one's end frees, so nothing is freed twice or while in use.
//!
//! Nobody ever has a Rust reference to a frame's bytes while a [`Frame`] exists: programs write to them at any time.
//! Bytes are copied in and out.
//!
//! The kernel keeps a reserve: frames for programs and their page tables are refused while only
//! [`FramePool::reserve_frames`] are left, so that a program that eats all memory ends alone.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use spin::Mutex;

use self::buddy::FreeLists;
pub use self::buddy::ORDER_MAX;
pub use self::frame::Frame;
pub use self::info::FrameKind;
use self::info::{Counts, FrameInfo};
use self::quarantine::Quarantine;
use crate::addr::{LARGE_BYTES, PAGE_BYTES};
use crate::paging;

mod buddy;
mod frame;
#[cfg(not(target_os = "none"))]
mod host;
mod info;
mod quarantine;
mod set_up;
#[cfg(test)]
mod tests;
mod zero;

pub use self::set_up::PhysicalRange;

/// Order of a 2 MiB block.
pub const ORDER_LARGE: u8 = (LARGE_BYTES / PAGE_BYTES).trailing_zeros() as u8;

/// Memory kept for the kernel when programs have taken the rest, bytes; an eighth of the memory if that is less.
/// Programs then get `OutOfMemory`.
pub const RESERVE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Frames out of quarantine that are freed at once when there is no other: each has to be zeroed.
const QUARANTINE_RELEASED: u32 = 64;

/// How often it is looked whether one can be, when there is no other.
const QUARANTINE_LOOKS: u32 = 2000;

/// All frames of the machine.
pub struct FramePool {
    /// Where physical address 0 appears in the direct map.
    direct_map: *mut u8,
    /// Physical frame number that `info[0]` describes; a multiple of the largest block.
    first: u64,
    /// One record per frame, holes in the memory included.
    info: &'static [FrameInfo],
    /// Frames that are free or handed out.
    total: u32,
    /// Frames the records themselves take up.
    info_frames: u32,
    /// Frames only the kernel may take.
    reserve: u32,
    /// How many frames are handed out for what.
    counts: Counts,
    /// The free blocks.
    free: Mutex<FreeLists>,
    /// Frames that are nobody's, but not free yet.
    quarantine: Mutex<Quarantine>,
}

// SAFETY: the pointer is only an address to compute others from; the memory behind it is handed out frame by frame
// under the lock and the reference counts, which are atomic.
unsafe impl Send for FramePool {}
// SAFETY: as above; every method takes the lock or touches atomics and frames the caller holds.
unsafe impl Sync for FramePool {}

/// How many frames are used for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All frames the pool has.
    pub total: u32,
    /// Nobody's.
    pub free: u32,
    /// The kernel's own: heap, buffers, and the records of the frames.
    pub kernel: u32,
    /// Page tables of programs.
    pub tables: u32,
    /// Programs' memory.
    pub user: u32,
    /// Programs' pages as their file has them.
    pub pristine: u32,
}

impl FramePool {
    /// Takes a frame for `kind`; it is all zeros. `None` when there is none left, or none but the kernel's reserve and
    /// `kind` is not the kernel's.
    #[must_use]
    pub fn alloc(&'static self, kind: FrameKind) -> Option<Frame> {
        self.alloc_block(kind, 0)
    }

    /// Takes an aligned block of 2 MiB; otherwise as [`FramePool::alloc`].
    #[must_use]
    pub fn alloc_large(&'static self, kind: FrameKind) -> Option<Frame> {
        self.alloc_block(kind, ORDER_LARGE)
    }

    /// Takes `2^order` frames that lie one behind the other, aligned to their size; otherwise as [`FramePool::alloc`].
    /// `None` also for orders above [`ORDER_MAX`].
    #[must_use]
    pub fn alloc_block(&'static self, kind: FrameKind, order: u8) -> Option<Frame> {
        let spare = if kind == FrameKind::Kernel { 0 } else { self.reserve };
        let index = self.take_free(order, spare)?;
        let block = self.info.get(index as usize..index as usize + (1 << order))?;
        for (info, number) in block.iter().zip(index..) {
            if !info.take_clean() {
                // SAFETY: the frame was free a moment ago and is ours now.
                unsafe { zero::zero(self.bytes_of(number)) };
            }
        }
        self.info[index as usize].hand_out(kind, order);
        self.counts.add(kind, 1 << order);
        Some(Frame { pool: self, index })
    }

    /// Takes a free block, also one that has just come to be free.
    fn take_free(&'static self, order: u8, spare: u32) -> Option<u32> {
        let taken = self.free.lock().take(self.info, order, spare);
        if taken.is_some() {
            return taken;
        }
        // Cores that may still look into a table forget it in a moment: they were told, and wait for nobody. One of
        // them may wait for a lock that is held here, though.
        for _ in 0..QUARANTINE_LOOKS {
            if self.release_quarantined(QUARANTINE_RELEASED) > 0 {
                return self.free.lock().take(self.info, order, spare);
            }
            if self.quarantine.lock().count() == 0 {
                break;
            }
            core::hint::spin_loop();
        }
        None
    }

    /// Takes the last handle on the frame of a page table, which is all zeros and into which those cores may still look
    /// ([`crate::epochs`]): it is free when they do not any more.
    pub(crate) fn retire(&'static self, frame: Frame, cores: u64) {
        let index = frame.index;
        core::mem::forget(frame);
        self.quarantine.lock().put(self.info, index, cores, paging::retired());
        // As many come out as go in, and more.
        self.release_quarantined(2);
    }

    /// Frees up to so many frames of page tables into which no core looks any more. Returns how many.
    pub fn release_quarantined(&'static self, most: u32) -> u32 {
        let mut released = 0;
        while released < most {
            let next = self.quarantine.lock().take(self.info, paging::is_forgotten);
            let Some(index) = next else { break };
            self.give_up(index);
            released += 1;
        }
        released
    }

    /// Frames that are nobody's now, the reserve included.
    #[must_use]
    pub fn free_frames(&self) -> u32 {
        self.free.lock().free_frames()
    }

    /// Frames a program could get now.
    #[must_use]
    pub fn available_frames(&self) -> u32 {
        self.free_frames().saturating_sub(self.reserve)
    }

    /// All frames the pool has.
    #[must_use]
    pub fn total_frames(&self) -> u32 {
        self.total
    }

    /// Frames that only the kernel may take.
    #[must_use]
    pub fn reserve_frames(&self) -> u32 {
        self.reserve
    }

    /// Who has how many frames. While frames are taken and freed the numbers may be of different moments.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            total: self.total,
            free: self.free_frames(),
            kernel: self.info_frames + self.counts.of(FrameKind::Kernel),
            tables: self.counts.of(FrameKind::Table),
            user: self.counts.of(FrameKind::User),
            pristine: self.counts.of(FrameKind::Pristine),
        }
    }

    /// Physical address of memory of this pool that [`Frame::into_memory`] gave away; `None` for any other memory.
    #[must_use]
    pub fn physical_address<T>(&self, memory: *const T) -> Option<u64> {
        let address = memory.addr().checked_sub(self.direct_map.addr())? as u64;
        let index = (address / PAGE_BYTES as u64).checked_sub(self.first)?;
        (index < self.info.len() as u64).then_some(address)
    }

    /// Where the bytes of frame `index` are.
    fn bytes_of(&self, index: u32) -> *mut u8 {
        self.at(self.physical(index))
    }

    /// Where the byte at a physical address is.
    #[inline]
    pub(crate) fn at(&self, physical: u64) -> *mut u8 {
        self.direct_map.wrapping_add(physical as usize)
    }

    /// Physical address of frame `index`.
    fn physical(&self, index: u32) -> u64 {
        (self.first + u64::from(index)) * PAGE_BYTES as u64
    }

    /// Record of the frame at a physical address of this pool.
    ///
    /// # Panics
    /// If the address is not the pool's; only addresses from [`Frame::into_entry`] come here.
    pub(crate) fn counter(&self, physical: u64) -> &AtomicU32 {
        self.info[self.index(physical)].word()
    }

    /// One more entry holds the frame whose address is so many pages, which another holds.
    ///
    /// # Panics
    /// If it is not the pool's; only what an entry says comes here.
    #[inline]
    pub(crate) fn hold(&self, number: u64) {
        // A snapshot comes here for each page: nothing of a complaint is made before it has to be.
        let Some(info) = self.info.get((number - self.first) as usize) else { not_held() };
        if info.references().fetch_add(1, Ordering::Relaxed) >= u32::MAX / 2 {
            not_held();
        }
    }

    /// Index of the record of the frame at a physical address.
    fn index(&self, physical: u64) -> usize {
        (physical / PAGE_BYTES as u64 - self.first) as usize
    }

    /// Gives a reference up that a handle held. Returns whether it was the last one, so that the block is free now.
    fn give_up(&self, index: u32) -> bool {
        let is_last = self.info[index as usize].references().fetch_sub(1, Ordering::Release) == 1;
        if is_last {
            fence(Ordering::Acquire);
            self.release(index);
        }
        is_last
    }

    /// Zeroes a block whose last handle is gone and makes it free.
    fn release(&self, index: u32) {
        let (kind, order) = self.info[index as usize].take_back();
        self.counts.remove(kind, 1 << order);
        for number in index..index + (1 << order) {
            // SAFETY: the last handle is gone, no page table maps the frame (its entries hold handles), so nobody else
            // can reach these bytes.
            unsafe { zero::zero(self.bytes_of(number)) };
            self.info[number as usize].set_clean();
        }
        self.free.lock().give(self.info, index, order);
    }
}

/// An entry has a frame that is not the pool's, or that too many hold.
#[cold]
#[inline(never)]
fn not_held() -> ! {
    panic!("an entry's frame is no frame of the pool, or has too many holders")
}
