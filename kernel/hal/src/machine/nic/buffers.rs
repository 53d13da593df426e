//! Memory for frames.

use core::ptr::NonNull;

use super::{RECEIVE_FRAMES, TRANSMIT_FRAMES};
use crate::machine::dma;

/// Buffers start at multiples of this, so that no two share a cache line.
const ALIGN: usize = 64;

/// Buffers of one length.
pub(super) struct Buffers {
    start: NonNull<u8>,
    count: usize,
    /// Distance from one to the next, and the length of each.
    stride: usize,
}

// SAFETY: the memory is the buffers' alone, for good.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Takes memory for the frames that come and those that go, each buffer of at least `bytes`.
    pub(super) fn take(bytes: usize) -> Option<(Self, Self)> {
        let stride = bytes.next_multiple_of(ALIGN);
        let (_, start) = dma::take((RECEIVE_FRAMES + TRANSMIT_FRAMES) * stride)?;
        // SAFETY: inside the memory just taken.
        let second = unsafe { start.add(RECEIVE_FRAMES * stride) };
        Some((Self { start, count: RECEIVE_FRAMES, stride }, Self { start: second, count: TRANSMIT_FRAMES, stride }))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Start of a buffer.
    ///
    /// # Panics
    /// If there is no such buffer.
    pub(super) fn at(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < self.count, "there are {} buffers", self.count);
        // SAFETY: inside the memory.
        unsafe { self.start.add(slot * self.stride) }
    }

    /// Length of each buffer, bytes.
    pub(super) fn length(&self) -> usize {
        self.stride
    }
}
