//! The kernel's heap: addresses whose pages are taken from the pool as they are needed, up to a limit, and given back
//! when they are not. What happens to its blocks is said in [`crate::blocks`], what of it is promised in
//! [`crate::budget`], and where it lies in [`region`].

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use spin::Mutex;

use self::region::{GROWTH_BYTES, Region};
use super::memory;
use crate::addr::PAGE_BYTES;
use crate::blocks::Blocks;
use crate::budget::Budget;
pub use crate::budget::{Refused, block_bytes};
use crate::frames::FramePool;

mod region;

/// The heap takes at most this share of all memory: one part in so many.
const LIMIT_SHARE: usize = 4;

/// The heap takes at most this many bytes.
pub const LIMIT_BYTES_MAX: usize = 1 << 30;

/// How far behind the heap's start the stacks of cores lie, bytes: further than the heap may grow.
const STACKS_BEHIND: u64 = 1 << 38;

/// From one stack to the next, bytes.
const STACK_DISTANCE: u64 = 1 << 20;

/// A run of this length, bytes, must be free for a promise when the heap can hardly grow any more: much longer than
/// what is allocated without asking.
const RUN_BYTES: usize = 64 * 1024;

/// Nothing is promised while less than this share of the kernel's reserve of frames is left: one part in so many. The
/// rest is for what was promised before.
const RESERVE_SHARE: u32 = 2;

/// Frames that the growth of the heap may need for page tables.
const TABLE_FRAMES: usize = 4;

/// How much of the kernel's heap is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out; blocks that wait to be handed out again are not.
    pub used_bytes: usize,
    /// Bytes taken from the pool, page tables and the other cores' stacks included.
    pub held_bytes: usize,
    /// Bytes promised.
    pub promised_bytes: usize,
    /// Most bytes it may take.
    pub limit_bytes: usize,
}

/// The heap and where it lies.
struct Grown {
    blocks: Blocks,
    region: Region,
    budget: Budget,
}

impl Grown {
    fn usage(&self) -> Usage {
        Usage {
            used_bytes: self.blocks.used(),
            held_bytes: self.region.taken * PAGE_BYTES,
            promised_bytes: self.budget.promised(),
            limit_bytes: self.budget.limit(),
        }
    }
}

/// The allocator behind `alloc`.
struct KernelHeap(Mutex<Grown>);

#[global_allocator]
static HEAP: KernelHeap =
    KernelHeap(Mutex::new(Grown { blocks: Blocks::new(), region: Region::nowhere(), budget: Budget::new(0) }));

/// Sets the heap up at a free place of the kernel's half. Nothing can be allocated before. Every program's page table
/// has the kernel's top-level entries as they are when it is made, so this must come before the first.
///
/// # Panics
/// If there is no room.
pub(super) fn start(frames: &'static FramePool) {
    // SAFETY: nobody else runs yet.
    let mut table = unsafe { memory::kernel_table() };
    let top = table.level_4_table_mut();
    let free = (256..512usize).rev().find(|index| top[*index].is_unused()).expect("room in the kernel's half");
    let Grown { blocks, region, budget } = &mut *HEAP.0.lock();
    let limit = (frames.total_frames() as usize * PAGE_BYTES / LIMIT_SHARE).min(LIMIT_BYTES_MAX);
    region.begin(frames, (free as u64) << 39 | 0xffff << 48, limit);
    *budget = Budget::new(limit);
    assert!(region.grow(blocks, GROWTH_BYTES), "memory for the kernel's heap");
}

/// Maps `bytes` as the stack with that number, which has none yet, with a hole below it. Returns its lowest address;
/// `None` if there is no memory. Stacks lie far behind the heap, below the same top-level entry, so that every
/// program's page table has them.
pub(super) fn map_stack(number: usize, bytes: u64) -> Option<u64> {
    let Grown { region, .. } = &mut *HEAP.0.lock();
    let bottom = region.start + STACKS_BEHIND + number as u64 * STACK_DISTANCE.max(2 * bytes);
    (0..bytes / PAGE_BYTES as u64).all(|page| region.map(bottom + page * PAGE_BYTES as u64)).then_some(bottom)
}

/// How much is in use now.
#[must_use]
pub fn usage() -> Usage {
    HEAP.0.lock().usage()
}

/// How much is in use now, for the kernel's last words: `None` if that cannot be said.
pub(super) fn last_usage() -> Option<Usage> {
    HEAP.0.try_lock().map(|heap| heap.usage())
}

/// Promises so many bytes ([`block_bytes`] of each block), which can be allocated from now on, whatever happens to the
/// memory that is free now. The kernel's reserve of frames is left alone.
///
/// # Errors
/// See [`Refused`].
pub fn promise(bytes: usize) -> Result<(), Refused> {
    let Grown { blocks, region, budget } = &mut *HEAP.0.lock();
    let used = blocks.used();
    budget.settle(used);
    let growth = budget.growth(bytes, region.held(), used)?;
    let pool = memory::frames();
    // Free blocks that lie badly made the heap grow by frames of the reserve, and what lies badly cannot be promised.
    if pool.free_frames() < pool.reserve_frames() / RESERVE_SHARE {
        return Err(Refused::Frames);
    }
    if growth > 0 {
        let frames = growth.max(GROWTH_BYTES).div_ceil(PAGE_BYTES) + TABLE_FRAMES;
        if frames > pool.available_frames() as usize || !region.grow(blocks, growth) {
            return Err(Refused::Frames);
        }
    } else if budget.is_near_limit(region.held()) && !blocks.has_run(RUN_BYTES) {
        return Err(Refused::Limit);
    }
    budget.promise(bytes);
    Ok(())
}

/// So many of the bytes that were promised are not wanted any more, and not allocated.
pub fn release(bytes: usize) {
    HEAP.0.lock().budget.release(bytes);
}

/// Gives memory back to the pool that is neither used nor promised, `pages` pages at most. Returns how many. Every core
/// is to [`forget`] before the addresses are used again.
#[must_use]
pub fn shrink(pages: usize) -> usize {
    let Grown { blocks, region, budget } = &mut *HEAP.0.lock();
    let surplus = budget.surplus(region.held(), blocks.used());
    // Small blocks that wait for whoever comes next would have to be found again one by one.
    if surplus < GROWTH_BYTES {
        return 0;
    }
    blocks.wash();
    blocks.empty_lists();
    region.give_away(blocks, pages.min(surplus / PAGE_BYTES))
}

/// Has this core forget what its processor remembers of the kernel's addresses.
pub fn forget() {
    region::forget();
}

/// Wipes the blocks that were given back and still are as their last user left them.
pub(super) fn wash() {
    HEAP.0.lock().blocks.wash();
}

// SAFETY: by `Blocks`, under a lock. Interrupts are off while it is held, or come where nothing is allocated.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Grown { blocks, region, .. } = &mut *self.0.lock();
        blocks.take(layout, |blocks, bytes| region.grow(blocks, bytes)).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        // SAFETY: the caller gives back what `alloc` gave it with this layout.
        unsafe { self.0.lock().blocks.give(block, layout) };
    }
}
