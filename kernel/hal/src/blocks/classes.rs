//! Small blocks that were given back and wait for the next to ask: one list per power of two. Most of what a kernel
//! allocates is small and short-lived, and the allocator behind looks through all its holes each time.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use crate::budget::{BLOCK_BYTES_MIN, CLASS_BYTES_MAX};

/// `log2` of the smallest class's size: a block must hold a link.
const SHIFT_MIN: u32 = BLOCK_BYTES_MIN.trailing_zeros();

/// Number of classes.
const CLASSES: usize = (CLASS_BYTES_MAX.trailing_zeros() - SHIFT_MIN + 1) as usize;

/// Blocks that must be aligned better than this are not kept.
const ALIGN_MAX: usize = 64;

/// Bytes that wait in each class at most. What is given back beyond that goes back to the allocator behind, so that
/// blocks of one size do not hold memory that another size needs.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// The lists.
pub(super) struct Classes {
    first: [*mut Block; CLASSES],
    waiting_bytes: [usize; CLASSES],
}

/// A block that waits.
struct Block {
    next: *mut Block,
}

// SAFETY: the blocks are reached through this value only.
unsafe impl Send for Classes {}

/// A class and the layout of all its blocks.
#[derive(Clone, Copy)]
pub(super) struct Class {
    index: usize,
    /// What to ask the allocator behind for.
    pub(super) layout: Layout,
}

impl Class {
    /// The class of blocks for a layout; `None` if it has none.
    #[inline]
    pub(super) fn of(layout: Layout) -> Option<Self> {
        let shift = layout.size().max(1).next_power_of_two().trailing_zeros().max(layout.align().trailing_zeros());
        let shift = shift.max(SHIFT_MIN);
        let index = (shift - SHIFT_MIN) as usize;
        if index >= CLASSES || layout.align() > ALIGN_MAX {
            return None;
        }
        let size = 1 << shift;
        let layout = Layout::from_size_align(size, size.min(ALIGN_MAX)).ok()?;
        Some(Self { index, layout })
    }

    /// All classes.
    fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES).filter_map(|index| Self::of(Layout::from_size_align(BLOCK_BYTES_MIN << index, 1).ok()?))
    }
}

impl Classes {
    /// Empty lists.
    pub(super) const fn new() -> Self {
        Self { first: [ptr::null_mut(); CLASSES], waiting_bytes: [0; CLASSES] }
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting_bytes.iter().sum()
    }

    /// Takes a block that waits.
    #[inline]
    pub(super) fn take(&mut self, class: Class) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first[class.index])?;
        // SAFETY: blocks in the list are nobody else's and hold a link.
        self.first[class.index] = unsafe { block.as_ref().next };
        self.waiting_bytes[class.index] -= class.layout.size();
        Some(block.cast())
    }

    /// Takes any block that waits.
    pub(super) fn take_any(&mut self) -> Option<(Class, NonNull<u8>)> {
        Class::all().find_map(|class| Some((class, self.take(class)?)))
    }

    /// Lets a block wait. Returns whether there was room; if not, the block is still the caller's.
    ///
    /// # Safety
    /// The block is of this class and the caller's own.
    #[inline]
    pub(super) unsafe fn put(&mut self, class: Class, block: NonNull<u8>) -> bool {
        if self.waiting_bytes[class.index] >= WAITING_BYTES_MAX {
            return false;
        }
        let block = block.cast::<Block>();
        // SAFETY: by the caller; every class has room for a link, aligned as one.
        unsafe { block.write(Block { next: self.first[class.index] }) };
        self.first[class.index] = block.as_ptr();
        self.waiting_bytes[class.index] += class.layout.size();
        true
    }
}
