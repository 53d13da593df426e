//! Large blocks that were given back and are not wiped yet. File data passes through blocks of one size, over and over:
//! whoever asks for that size next gets one of these, with the bytes of its last user, as from any allocator.

use core::alloc::Layout;
use core::ptr::NonNull;

/// Blocks that wait at most.
const BLOCKS_MAX: usize = 16;

/// Bytes of all blocks that wait at most.
const BYTES_MAX: usize = 1024 * 1024;

/// A block and what it was taken with.
type Used = (NonNull<u8>, Layout);

/// The blocks, that which waited longest first.
pub(super) struct Laundry {
    blocks: [Option<Used>; BLOCKS_MAX],
    count: usize,
    bytes: usize,
}

// SAFETY: the blocks are reached through this value only.
unsafe impl Send for Laundry {}

impl Laundry {
    /// Nothing waits.
    pub(super) const fn new() -> Self {
        Self { blocks: [None; BLOCKS_MAX], count: 0, bytes: 0 }
    }

    /// Bytes that wait.
    pub(super) const fn waiting(&self) -> usize {
        self.bytes
    }

    /// Takes the block of this layout that came last, if there is one.
    pub(super) fn take(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        let waiting = self.blocks.get(..self.count)?;
        let index = waiting.iter().rposition(|used| used.is_some_and(|(_, of)| of == layout))?;
        self.remove(index).map(|(block, _)| block)
    }

    /// Takes the block that waited longest.
    pub(super) fn take_oldest(&mut self) -> Option<Used> {
        self.remove(0)
    }

    /// Whether a block of this layout could wait beside the others.
    pub(super) fn has_room(&self, layout: Layout) -> bool {
        self.count < BLOCKS_MAX && layout.size() <= BYTES_MAX - self.bytes
    }

    /// Lets a block wait. Returns whether there was room; if not, the block is still the caller's.
    pub(super) fn put(&mut self, block: NonNull<u8>, layout: Layout) -> bool {
        if !self.has_room(layout) {
            return false;
        }
        self.blocks[self.count] = Some((block, layout));
        self.count += 1;
        self.bytes += layout.size();
        true
    }

    fn remove(&mut self, index: usize) -> Option<Used> {
        let used = self.blocks.get_mut(index)?.take()?;
        self.blocks[index..self.count].rotate_left(1);
        self.count -= 1;
        self.bytes -= used.1.size();
        Some(used)
    }
}
