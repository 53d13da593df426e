//! A pool on the host, so that everything above it is tested with real frames and real page tables.

extern crate alloc;

use alloc::alloc::{Layout, alloc, handle_alloc_error};
use alloc::boxed::Box;
use core::cell::Cell;
use core::{iter, ptr};

use super::{FramePool, ORDER_MAX, PhysicalRange};
use crate::addr::PAGE_BYTES;

/// Physical address of the first byte of a host pool. Not 0, so that nothing mistakes offsets for addresses.
const FIRST: usize = 16 * 1024 * 1024;

/// Memory that is taken for very many pools at a time: each piece begins with what the host's allocator notes of it.
const PIECE_BYTES: usize = 64 * 1024 * 1024;

std::thread_local! {
    /// What is left of the last piece.
    static REST: Cell<(*mut u8, usize)> = const { Cell::new((ptr::null_mut(), 0)) };
}

/// What memory holds before anybody had it: not zeros, as on a machine that was reset.
const LEFT_OVER: u8 = 0xa5;

impl FramePool {
    /// A pool of its own with about `bytes` of memory, for tests. It is never freed.
    ///
    /// # Panics
    /// If `bytes` is too small to hold the frames' records.
    #[must_use]
    pub fn for_host(bytes: usize) -> &'static Self {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let memory = allocate(bytes, PAGE_BYTES << ORDER_MAX);
        // SAFETY: it was just allocated with this size.
        unsafe { memory.write_bytes(LEFT_OVER, bytes) };
        // SAFETY: nobody else knows of it, and it is never freed.
        unsafe { Self::over(memory, bytes) }
    }

    /// As [`Self::for_host`], for one of very many: of its memory the host has only what was ever used.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn lazily(bytes: usize) -> &'static Self {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let (mut rest, mut left) = REST.get();
        if left < bytes {
            left = bytes.max(PIECE_BYTES);
            rest = allocate(left, PAGE_BYTES);
        }
        REST.set((rest.wrapping_add(bytes), left - bytes));
        // SAFETY: it was allocated, is not among what is left for others, and is never freed.
        unsafe { Self::over(rest, bytes) }
    }

    /// A pool over memory.
    ///
    /// # Safety
    /// It is allocated, of this size, this pool's alone, and never freed.
    unsafe fn over(memory: *mut u8, bytes: usize) -> &'static Self {
        let range = PhysicalRange { start: FIRST as u64, end: (FIRST + bytes) as u64 };
        // SAFETY: by the caller; physical address FIRST is its first byte.
        let pool = unsafe { Self::from_memory(iter::once(range), memory.wrapping_sub(FIRST)) };
        Box::leak(Box::new(pool.expect("room for the records of the frames")))
    }
}

/// Memory that is never freed.
fn allocate(bytes: usize, align: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes.max(PAGE_BYTES), align).expect("a pool smaller than memory");
    // SAFETY: the layout is not of size 0.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}
