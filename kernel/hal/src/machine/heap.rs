//! The kernel's heap: one run of addresses whose pages are taken from the pool as they are needed, up to a limit. Small
//! blocks wait in front of it for whoever asks next ([`classes`]).

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use linked_list_allocator::Heap;
use spin::Mutex;
use x86_64::structures::paging::mapper::Mapper;
use x86_64::structures::paging::{FrameAllocator, Page, PageTableFlags, PhysFrame, Size4KiB};
use x86_64::{PhysAddr, VirtAddr};

use self::classes::{Class, Classes};
use super::memory;
use crate::addr::PAGE_BYTES;
use crate::frames::{FrameKind, FramePool};

mod classes;

/// The heap takes at most this share of all memory: one part in so many.
const LIMIT_SHARE: usize = 4;

/// The heap takes at most this many bytes.
pub const LIMIT_BYTES_MAX: usize = 1 << 30;

/// The heap grows by at least this many bytes at once.
const GROWTH_BYTES: usize = 64 * 1024;

/// How much of the kernel's heap is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out, small blocks that wait to be handed out again included.
    pub used_bytes: usize,
    /// Bytes taken from the pool.
    pub held_bytes: usize,
    /// Most bytes it may take.
    pub limit_bytes: usize,
}

/// The heap and where it lies.
struct Grown {
    heap: Heap,
    classes: Classes,
    /// First address.
    start: u64,
    /// Bytes that are mapped.
    held: usize,
    /// Most bytes that may be.
    limit: usize,
}

/// The allocator behind `alloc`.
struct KernelHeap(Mutex<Grown>);

#[global_allocator]
static HEAP: KernelHeap =
    KernelHeap(Mutex::new(Grown { heap: Heap::empty(), classes: Classes::new(), start: 0, held: 0, limit: 0 }));

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
    let mut heap = HEAP.0.lock();
    heap.start = (free as u64) << 39 | 0xffff << 48;
    heap.limit = (frames.total_frames() as usize * PAGE_BYTES / LIMIT_SHARE).min(LIMIT_BYTES_MAX);
    assert!(heap.grow(GROWTH_BYTES), "memory for the kernel's heap");
}

/// How much is in use now.
#[must_use]
pub fn usage() -> Usage {
    let heap = HEAP.0.lock();
    Usage { used_bytes: heap.heap.used(), held_bytes: heap.held, limit_bytes: heap.limit }
}

impl Grown {
    /// Makes the heap larger by at least `bytes`. Returns whether that was possible; if not, it may have grown by less.
    #[cold]
    fn grow(&mut self, bytes: usize) -> bool {
        let Some(bytes) = bytes.max(GROWTH_BYTES).checked_next_multiple_of(PAGE_BYTES) else { return false };
        if self.held.checked_add(bytes).is_none_or(|held| held > self.limit) {
            return false;
        }
        let before = self.held;
        let wanted = before + bytes;
        while self.held < wanted && self.map_page() {
            self.held += PAGE_BYTES;
        }
        let grown = self.held - before;
        // SAFETY: the pages between `before` and `held` were just mapped behind the others, and are the heap's for
        // good.
        unsafe {
            if before == 0 {
                self.heap.init(self.start as *mut u8, grown);
            } else {
                self.heap.extend(grown);
            }
        }
        self.held == wanted
    }

    /// Maps one more page. Returns whether there was memory for it.
    fn map_page(&mut self) -> bool {
        let frames = memory::frames();
        let page = Page::<Size4KiB>::containing_address(VirtAddr::new(self.start + self.held as u64));
        let Some(frame) = Tables(frames).allocate_frame() else { return false };
        let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
        // SAFETY: the heap's lock is held, and nobody else changes the kernel's half; the page was not mapped before,
        // and the frame is nobody else's. Whatever table is in use shares the kernel's top-level entries.
        match unsafe { memory::kernel_table().map_to(page, frame, flags, &mut Tables(frames)) } {
            Ok(flush) => {
                flush.ignore();
                true
            }
            Err(_) => false,
        }
    }
}

/// Frames that are the kernel's for good.
struct Tables(&'static FramePool);

// SAFETY: the pool hands out each frame once, and these are never given back.
unsafe impl FrameAllocator<Size4KiB> for Tables {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let frame = self.0.alloc(FrameKind::Kernel)?;
        let address = frame.address();
        core::mem::forget(frame);
        Some(PhysFrame::containing_address(PhysAddr::new_truncate(address)))
    }
}

impl Grown {
    /// Takes a block from the allocator behind, which grows if it has to; null if there is no room.
    fn allocate(&mut self, layout: Layout) -> *mut u8 {
        if let Ok(block) = self.heap.allocate_first_fit(layout) {
            return block.as_ptr();
        }
        // Room for the block however it has to be aligned, and for the free list's own needs.
        let more = layout.size().saturating_add(layout.align()).saturating_add(4 * size_of::<usize>());
        if !self.grow(more) {
            return ptr::null_mut();
        }
        self.heap.allocate_first_fit(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }
}

// SAFETY: by `Heap` and `Classes`, under a lock. Interrupts are off while it is held, or come where nothing is
// allocated.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.0.lock();
        match Class::of(layout) {
            None => heap.allocate(layout),
            Some(class) => match heap.classes.take(class) {
                Some(block) => block.as_ptr(),
                None => heap.allocate(class.layout),
            },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else { return };
        let mut heap = self.0.lock();
        let class = Class::of(layout);
        // SAFETY: the caller gives back what `alloc` gave it with this layout, which is a block of the layout's class.
        unsafe {
            if !class.is_some_and(|class| heap.classes.put(class, block)) {
                heap.heap.deallocate(block, class.map_or(layout, |class| class.layout));
            }
        }
    }
}
