//! What the kernel's heap is made of, wherever its memory lies: blocks that are handed out and come back.
//!
//! Bytes of programs pass through many blocks (paths, arguments, file data), so **a block that came back is wiped**:
//! - Small blocks at once. They then wait for whoever asks next ([`Classes`]).
//! - Large ones, which are file data on their way, when they are handed to the allocator behind. Before that they wait
//!   as they are in the [`Laundry`] for somebody who asks for the same size, so that a stream of reads or writes costs
//!   no wiping at all. [`Blocks::wash`] wipes those that wait.
//!
//! What the allocator behind and the lists write into free blocks are sizes and addresses of blocks.
//!
//! Pages in which no block lies can be taken out ([`Blocks::take_page`]), so that their memory goes elsewhere, and come
//! back later. All that waits is handed to the allocator behind first ([`Blocks::wash`], [`Blocks::empty_lists`]).

use core::alloc::Layout;
use core::ptr::NonNull;

use linked_list_allocator::Heap;

use self::classes::{Class, Classes};
use self::laundry::Laundry;
use crate::addr::PAGE_BYTES;
use crate::scrub::wipe;

mod classes;
mod laundry;
#[cfg(test)]
mod tests;

/// Blocks of memory, taken from a region that may grow at its end.
pub(crate) struct Blocks {
    heap: Heap,
    classes: Classes,
    laundry: Laundry,
    /// Bytes of the pages that were taken out.
    away: usize,
}

/// A page of the region.
const PAGE: Layout = match Layout::from_size_align(PAGE_BYTES, PAGE_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a page's size is a power of two"),
};

impl Blocks {
    /// No memory yet.
    pub(crate) const fn new() -> Self {
        Self { heap: Heap::empty(), classes: Classes::new(), laundry: Laundry::new(), away: 0 }
    }

    /// Makes the region `bytes` larger, from `start` on, where it ends so far if it has begun.
    ///
    /// # Safety
    /// The memory is there, zeroed, nobody else's, and stays.
    pub(crate) unsafe fn extend(&mut self, start: *mut u8, bytes: usize) {
        // SAFETY: by the caller.
        unsafe {
            if self.heap.size() == 0 {
                self.heap.init(start, bytes);
            } else {
                self.heap.extend(bytes);
            }
        }
    }

    /// Bytes of all blocks that are somebody's.
    pub(crate) fn used(&self) -> usize {
        self.heap.used() - self.away - self.classes.waiting() - self.laundry.waiting()
    }

    /// Takes a page out in which no block lies, the first there is. Its bytes are not all zeros.
    pub(crate) fn take_page(&mut self) -> Option<NonNull<u8>> {
        let page = self.heap.allocate_first_fit(PAGE).ok()?;
        self.away += PAGE_BYTES;
        Some(page)
    }

    /// Puts pages back that lie one behind the other.
    ///
    /// # Safety
    /// Each was taken out; they are memory again, zeroed, and nobody else's.
    pub(crate) unsafe fn put_pages(&mut self, first: NonNull<u8>, pages: usize) {
        for page in 0..pages {
            // SAFETY: by the caller.
            unsafe { self.heap.deallocate(first.byte_add(page * PAGE_BYTES), PAGE) };
        }
        self.away -= pages * PAGE_BYTES;
    }

    /// Whether there is a free run of so many bytes, without the region being made larger.
    pub(crate) fn has_run(&mut self, bytes: usize) -> bool {
        let Ok(layout) = Layout::from_size_align(bytes, align_of::<usize>()) else { return false };
        let Ok(block) = self.heap.allocate_first_fit(layout) else { return false };
        // SAFETY: it was just taken with this layout.
        unsafe { self.heap.deallocate(block, layout) };
        true
    }

    /// Hands all small blocks that wait to the allocator behind. Returns whether there were any.
    pub(crate) fn empty_lists(&mut self) -> bool {
        let mut any = false;
        while let Some((class, block)) = self.classes.take_any() {
            // SAFETY: it waited: it was taken with the class's layout, is wiped, and is nobody's.
            unsafe { self.heap.deallocate(block, class.layout) };
            any = true;
        }
        any
    }

    /// Takes a block. If there is none, `grow` is asked to make the region larger by at least so many bytes and to say
    /// whether it did; then there may be.
    #[inline]
    pub(crate) fn take(&mut self, layout: Layout, grow: impl FnOnce(&mut Self, usize) -> bool) -> Option<NonNull<u8>> {
        let layout = match Class::of(layout) {
            Some(class) => match self.classes.take(class) {
                Some(block) => return Some(block),
                None => class.layout,
            },
            None => match self.laundry.take(layout) {
                Some(block) => return Some(block),
                None => layout,
            },
        };
        self.take_behind(layout, grow)
    }

    /// Takes a block from the allocator behind.
    fn take_behind(&mut self, layout: Layout, grow: impl FnOnce(&mut Self, usize) -> bool) -> Option<NonNull<u8>> {
        if let Ok(block) = self.heap.allocate_first_fit(layout) {
            return Some(block);
        }
        if self.wash()
            && let Ok(block) = self.heap.allocate_first_fit(layout)
        {
            return Some(block);
        }
        // Room for the block however it has to be aligned, and for the free list's own needs.
        let more = layout.size().saturating_add(layout.align()).saturating_add(4 * size_of::<usize>());
        if !grow(self, more) && !self.empty_lists() {
            return None;
        }
        self.heap.allocate_first_fit(layout).ok()
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block was taken with this layout and is nobody's any more.
    #[inline]
    pub(crate) unsafe fn give(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by the caller; a block taken with a layout that has a class is one of that class.
        unsafe {
            match Class::of(layout) {
                Some(class) => {
                    wipe(block.as_ptr(), layout.size());
                    if !self.classes.put(class, block) {
                        self.heap.deallocate(block, class.layout);
                    }
                }
                None => {
                    while !self.laundry.has_room(layout)
                        && let Some((block, layout)) = self.laundry.take_oldest()
                    {
                        self.clean(block, layout);
                    }
                    if !self.laundry.put(block, layout) {
                        self.clean(block, layout);
                    }
                }
            }
        }
    }

    /// Wipes all blocks that came back and were not wiped yet, and hands them to the allocator behind. Returns whether
    /// there were any.
    pub(crate) fn wash(&mut self) -> bool {
        let mut any = false;
        while let Some((block, layout)) = self.laundry.take_oldest() {
            // SAFETY: the block waited in the laundry: it was taken with this layout and is nobody's.
            unsafe { self.clean(block, layout) };
            any = true;
        }
        any
    }

    /// Wipes a block and hands it to the allocator behind.
    ///
    /// # Safety
    /// The block was taken from there with this layout and is nobody's.
    unsafe fn clean(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by the caller.
        unsafe {
            wipe(block.as_ptr(), layout.size());
            self.heap.deallocate(block, layout);
        }
    }
}
