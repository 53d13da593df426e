//! An allocator for tests that counts what each of their threads holds, as the machine's heap would count it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;
use std::thread_local;

use super::block_bytes;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// The host's allocator, which counts. A test program makes it its own with `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

/// Bytes that this thread allocated, less those that it gave back: each block counts with what the machine's heap would
/// take for it ([`block_bytes`]). 0 for ever where [`Counting`] is not the allocator.
#[must_use]
pub fn held_bytes() -> isize {
    HELD.get()
}

fn count(bytes: isize) {
    // A thread that ends may give memory back when its counter is gone.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: all is left to the host's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(block_bytes(layout.size()).cast_signed());
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-block_bytes(layout.size()).cast_signed());
        // SAFETY: by the caller; `alloc` took it from there.
        unsafe { System.dealloc(block, layout) };
    }
}
