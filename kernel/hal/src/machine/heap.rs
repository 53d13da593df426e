//! The kernel's heap: one run of addresses whose pages are taken from the pool as they are needed, up to a limit. What
//! happens to its blocks is said in [`crate::blocks`].

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use spin::Mutex;
use x86_64::structures::paging::mapper::Mapper;
use x86_64::structures::paging::{FrameAllocator, Page, PageTableFlags, PhysFrame, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use super::memory;
use crate::addr::PAGE_BYTES;
use crate::blocks::Blocks;
use crate::frames::{FrameKind, FramePool};

/// The heap takes at most this share of all memory: one part in so many.
const LIMIT_SHARE: usize = 4;

/// The heap takes at most this many bytes.
pub const LIMIT_BYTES_MAX: usize = 1 << 30;

/// The heap grows by at least this many bytes at once.
const GROWTH_BYTES: usize = 64 * 1024;

/// How far behind the heap's start the stacks of cores lie, bytes: further than the heap may grow.
const STACKS_BEHIND: u64 = 1 << 38;

/// From one stack to the next, bytes.
const STACK_DISTANCE: u64 = 1 << 20;

/// How much of the kernel's heap is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out; blocks that wait to be handed out again are not.
    pub used_bytes: usize,
    /// Bytes taken from the pool, page tables and the other cores' stacks included.
    pub held_bytes: usize,
    /// Most bytes it may take.
    pub limit_bytes: usize,
}

/// The heap and where it lies.
struct Grown {
    blocks: Blocks,
    region: Region,
}

/// Addresses of the heap.
struct Region {
    /// First address.
    start: u64,
    /// Bytes that are mapped.
    held: usize,
    /// Frames taken for them, for stacks, and for the page tables of both.
    taken: usize,
    /// Most bytes that may be.
    limit: usize,
}

/// The allocator behind `alloc`.
struct KernelHeap(Mutex<Grown>);

#[global_allocator]
static HEAP: KernelHeap =
    KernelHeap(Mutex::new(Grown { blocks: Blocks::new(), region: Region { start: 0, held: 0, taken: 0, limit: 0 } }));

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
    let Grown { blocks, region } = &mut *HEAP.0.lock();
    region.start = (free as u64) << 39 | 0xffff << 48;
    region.limit = (frames.total_frames() as usize * PAGE_BYTES / LIMIT_SHARE).min(LIMIT_BYTES_MAX);
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
    let heap = HEAP.0.lock();
    Usage { used_bytes: heap.blocks.used(), held_bytes: heap.region.taken * PAGE_BYTES, limit_bytes: heap.region.limit }
}

/// Wipes the blocks that were given back and still are as their last user left them.
pub(super) fn wash() {
    HEAP.0.lock().blocks.wash();
}

impl Region {
    /// Makes the heap larger by at least `bytes`. Returns whether that was possible; if not, it may have grown by less.
    #[cold]
    fn grow(&mut self, blocks: &mut Blocks, bytes: usize) -> bool {
        let Some(bytes) = bytes.max(GROWTH_BYTES).checked_next_multiple_of(PAGE_BYTES) else { return false };
        if self.held.checked_add(bytes).is_none_or(|held| held > self.limit) {
            return false;
        }
        let before = self.held;
        let wanted = before + bytes;
        while self.held < wanted && self.map(self.start + self.held as u64) {
            self.held += PAGE_BYTES;
        }
        let grown = self.held - before;
        if grown > 0 {
            // SAFETY: the pages between `before` and `held` were just mapped behind the others, are zeroed, and the
            // heap's for good.
            unsafe { blocks.extend((self.start + before as u64) as *mut u8, grown) };
        }
        self.held == wanted
    }

    /// Maps a page of zeros. Returns whether there was memory for it.
    fn map(&mut self, address: u64) -> bool {
        let frames = memory::frames();
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(address));
        let mut tables = Tables { frames, taken: &mut self.taken };
        let Some(frame) = tables.allocate_frame() else { return false };
        let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
        // SAFETY: the heap's lock is held, and nobody else changes the kernel's half; the page was not mapped before,
        // and the frame is nobody else's. Whatever table is in use shares the kernel's top-level entries.
        match unsafe { memory::kernel_table().map_to(page, frame, flags, &mut tables) } {
            Ok(flush) => {
                flush.ignore();
                true
            }
            Err(_) => false,
        }
    }
}

/// Frames that are the kernel's for good.
struct Tables<'a> {
    frames: &'static FramePool,
    /// How many there are.
    taken: &'a mut usize,
}

// SAFETY: the pool hands out each frame once, and these are never given back.
unsafe impl FrameAllocator<Size4KiB> for Tables<'_> {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let frame = self.frames.alloc(FrameKind::Kernel)?;
        *self.taken += 1;
        let address = frame.address();
        core::mem::forget(frame);
        Some(PhysFrame::containing_address(PhysAddr::new_truncate(address)))
    }
}

// SAFETY: by `Blocks`, under a lock. Interrupts are off while it is held, or come where nothing is allocated.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Grown { blocks, region } = &mut *self.0.lock();
        blocks.take(layout, |blocks, bytes| region.grow(blocks, bytes)).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        // SAFETY: the caller gives back what `alloc` gave it with this layout.
        unsafe { self.0.lock().blocks.give(block, layout) };
    }
}
