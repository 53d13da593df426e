//! The free blocks: one doubly linked list per order, linked through the frames' records so that free memory itself
//! stays untouched (and zero). A block's buddy is found by flipping one bit of its index.

use super::info::FrameInfo;

/// Order of the largest blocks: 4 MiB.
pub const ORDER_MAX: u8 = 10;

/// End of a list.
const NONE: u32 = u32::MAX;

/// Single frames that are put by before they are merged into blocks again: who frees frames one by one, as the end of a
/// program does, mostly has them taken one by one soon after.
const SINGLES_MAX: usize = 64;

/// Heads of the lists of free blocks. Indices count records; the first record's frame is aligned to the largest block.
pub(super) struct FreeLists {
    /// First free block of each order.
    heads: [u32; ORDER_MAX as usize + 1],
    /// Single frames put by, and how many there are. They are free, but no list has them.
    singles: [u32; SINGLES_MAX],
    singles_count: usize,
    /// Frames in all lists, and those put by.
    free: u32,
}

impl FreeLists {
    /// Nothing is free.
    pub(super) const fn new() -> Self {
        Self { heads: [NONE; ORDER_MAX as usize + 1], singles: [NONE; SINGLES_MAX], singles_count: 0, free: 0 }
    }

    /// Number of free frames.
    pub(super) fn free_frames(&self) -> u32 {
        self.free
    }

    /// Takes a block of `order`, splitting a larger one if need be. `None` if there is none or fewer than `spare`
    /// frames would be left.
    pub(super) fn take(&mut self, info: &[FrameInfo], order: u8, spare: u32) -> Option<u32> {
        if order > ORDER_MAX || self.free < spare.checked_add(1 << order)? {
            return None;
        }
        if order == 0 && self.singles_count > 0 {
            self.singles_count -= 1;
            self.free -= 1;
            return self.singles.get(self.singles_count).copied();
        }
        let Some(mut found) = self.smallest_from(order) else {
            self.merge_singles(info);
            // Only if what was put by has made a block that is large enough.
            return self.smallest_from(order).and_then(|_| self.take(info, order, spare));
        };
        let index = self.heads[found as usize];
        self.unlink(info, index, found);
        while found > order {
            found -= 1;
            self.link(info, index + (1 << found), found);
        }
        self.free -= 1 << order;
        Some(index)
    }

    /// The smallest order from `order` on of which there is a block.
    fn smallest_from(&self, order: u8) -> Option<u8> {
        (order..=ORDER_MAX).find(|order| self.heads[*order as usize] != NONE)
    }

    /// Merges the frames that were put by.
    fn merge_singles(&mut self, info: &[FrameInfo]) {
        for number in 0..core::mem::take(&mut self.singles_count) {
            self.merge(info, self.singles[number], 0);
        }
    }

    /// Adds a free block.
    pub(super) fn give(&mut self, info: &[FrameInfo], index: u32, order: u8) {
        self.free += 1 << order;
        if order == 0
            && let Some(place) = self.singles.get_mut(self.singles_count)
        {
            *place = index;
            self.singles_count += 1;
            return;
        }
        self.merge(info, index, order);
    }

    /// Adds a block to its list, merged with its free buddies.
    fn merge(&mut self, info: &[FrameInfo], mut index: u32, mut order: u8) {
        while order < ORDER_MAX {
            let buddy = index ^ (1 << order);
            if !info.get(buddy as usize).is_some_and(|info| info.heads_free(order)) {
                break;
            }
            self.unlink(info, buddy, order);
            index &= !(1 << order);
            order += 1;
        }
        self.link(info, index, order);
    }

    /// Puts a block at the front of its list: what was freed last is still in the cache.
    fn link(&mut self, info: &[FrameInfo], index: u32, order: u8) {
        let next = self.heads[order as usize];
        info[index as usize].set_free(order, NONE, next);
        if next != NONE {
            info[next as usize].set_previous(index);
        }
        self.heads[order as usize] = index;
    }

    /// Takes a block out of its list.
    fn unlink(&mut self, info: &[FrameInfo], index: u32, order: u8) {
        let (previous, next) = info[index as usize].clear_free();
        if previous == NONE {
            self.heads[order as usize] = next;
        } else {
            info[previous as usize].set_next(next);
        }
        if next != NONE {
            info[next as usize].set_previous(previous);
        }
    }
}
