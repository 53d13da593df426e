//! An allocator for tests that counts what each of their threads holds, as the machine's heap would count it.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;
use std::thread_local;

use super::block_bytes;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that was held, bytes, and the largest block, since [`measure`] began.
    static MOST: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
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
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        MOST.set(MOST.get().max(held.get()));
        LARGEST.set(LARGEST.get().max(bytes.max(0).unsigned_abs()));
    });
}

/// What some work takes of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What it still holds at its end, bytes. Less than nothing if it gave something back.
    pub kept_bytes: isize,
    /// The most it held at a time, bytes.
    pub most_bytes: usize,
    /// The largest block it had, bytes.
    pub largest_bytes: usize,
}

/// Does some work, and says what this thread took of the heap for it. Work within work is not told apart.
pub fn measure<R>(work: impl FnOnce() -> R) -> (R, Taken) {
    let before = HELD.get();
    MOST.set(before);
    LARGEST.set(0);
    let result = work();
    let (kept_bytes, most_bytes) = (HELD.get() - before, (MOST.get() - before).unsigned_abs());
    (result, Taken { kept_bytes, most_bytes, largest_bytes: LARGEST.get() })
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
