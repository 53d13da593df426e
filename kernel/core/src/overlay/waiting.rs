//! What waits to be said to a node, as frames: of what there is no room for, the oldest go.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::limits::{OVERLAY_LINE_BYTES_MAX, OVERLAY_LINE_FRAMES_MAX};

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// At most [`OVERLAY_LINE_FRAMES_MAX`], and [`OVERLAY_LINE_BYTES_MAX`] together if they are more than one.
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Waiting {
    /// One more. How many had to go for it.
    pub(super) fn push(&mut self, frame: Vec<u8>) -> u64 {
        let mut lost = 0;
        while !self.frames.is_empty()
            && (self.frames.len() >= OVERLAY_LINE_FRAMES_MAX || self.bytes + frame.len() > OVERLAY_LINE_BYTES_MAX)
        {
            self.pop();
            lost += 1;
        }
        self.bytes += frame.len();
        self.frames.push_back(frame);
        lost
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    /// How many.
    pub(super) fn len(&self) -> u64 {
        self.frames.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::Waiting;
    use crate::limits::{OVERLAY_LINE_BYTES_MAX, OVERLAY_LINE_FRAMES_MAX};

    #[test]
    fn the_oldest_go_if_there_are_too_many_or_they_are_too_long() {
        let mut waiting = Waiting::default();
        for number in 0..OVERLAY_LINE_FRAMES_MAX as u8 {
            assert_eq!(waiting.push(vec![number]), 0);
        }
        assert_eq!((waiting.push(vec![100; 10]), waiting.len()), (1, OVERLAY_LINE_FRAMES_MAX as u64));
        // All that were there before, as together with it they would be too long.
        assert_eq!((waiting.push(vec![0; OVERLAY_LINE_BYTES_MAX]), waiting.len()), (OVERLAY_LINE_FRAMES_MAX as u64, 1));
        assert_eq!((waiting.push(vec![1]), waiting.len()), (1, 1));
        // One that is longer by itself is said.
        assert_eq!((waiting.push(vec![0; OVERLAY_LINE_BYTES_MAX + 1]), waiting.len()), (1, 1));
        assert_eq!(waiting.pop().map(|frame: Vec<u8>| frame.len()), Some(OVERLAY_LINE_BYTES_MAX + 1));
        assert_eq!((waiting.pop(), waiting.len(), waiting.bytes), (None, 0, 0));
    }
}
