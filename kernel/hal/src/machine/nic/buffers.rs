//! Memory for frames.

use core::ptr::NonNull;

use super::RING;
use crate::machine::dma;

/// Buffers start at multiples of this, so that no two share a cache line.
const ALIGN: usize = 64;

/// One buffer per place in a ring.
pub(super) struct Buffers {
    start: NonNull<u8>,
    /// Distance from one to the next, and the length of each.
    stride: usize,
}

// SAFETY: the memory is the buffers' alone, for good.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Takes memory for the buffers of two rings, each buffer of at least `bytes`.
    pub(super) fn take_two(bytes: usize) -> Option<(Self, Self)> {
        let stride = bytes.next_multiple_of(ALIGN);
        let (_, start) = dma::take(2 * RING * stride)?;
        // SAFETY: inside the memory just taken.
        let second = unsafe { start.add(RING * stride) };
        Some((Self { start, stride }, Self { start: second, stride }))
    }

    /// Start of a buffer.
    ///
    /// # Panics
    /// If there is no such buffer.
    pub(super) fn at(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < RING, "a ring has {RING} buffers");
        // SAFETY: inside the memory.
        unsafe { self.start.add(slot * self.stride) }
    }

    /// Length of each buffer, bytes.
    pub(super) fn length(&self) -> usize {
        self.stride
    }
}
