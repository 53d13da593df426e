//! The handle on a frame.

use core::ptr;
use core::sync::atomic::Ordering;

use super::FramePool;
use super::info::{FrameInfo, FrameKind};
use super::zero::zero;
use crate::addr::PAGE_BYTES;

/// A counted handle on a frame, or on an aligned block of frames. Cloning counts up; the block is zeroed and freed when
/// the last handle goes.
pub struct Frame {
    /// Where it came from.
    pub(super) pool: &'static FramePool,
    /// Record of the (first) frame.
    pub(super) index: u32,
}

impl Frame {
    /// Physical address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.pool.physical(self.index)
    }

    /// Length, bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        PAGE_BYTES << self.info().order()
    }

    /// What it is used for.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        self.info().kind()
    }

    /// Says what it is used for from now on.
    pub fn set_kind(&self, kind: FrameKind) {
        let frames = 1 << self.info().order();
        self.pool.counts.add(kind, frames);
        self.pool.counts.remove(self.info().set_kind(kind), frames);
    }

    /// The owner's note on this frame; 0 at first.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.info().word().load(Ordering::Relaxed)
    }

    /// Leaves a note on this frame, shared by all its handles.
    pub fn set_tag(&self, tag: u32) {
        self.info().word().store(tag, Ordering::Relaxed);
    }

    /// Whether another handle or a page-table entry holds it too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.info().references().load(Ordering::Acquire) > 1
    }

    /// Copies bytes from `offset` on out of the frame.
    ///
    /// # Panics
    /// If the frame has no such bytes.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset.checked_add(out.len()).is_some_and(|end| end <= self.len()), "read beyond a frame");
        // SAFETY: inside the frame, which lives as long as the handle; `out` is Rust's memory and cannot overlap it.
        unsafe { ptr::copy_nonoverlapping(self.bytes().add(offset), out.as_mut_ptr(), out.len()) };
    }

    /// Copies bytes into the frame from `offset` on.
    ///
    /// # Panics
    /// If the frame has no room for them.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len()), "write beyond a frame");
        // SAFETY: inside the frame, which lives as long as the handle; `bytes` is Rust's memory and cannot overlap it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes().add(offset), bytes.len()) };
    }

    /// Makes this frame's bytes those of `other`.
    ///
    /// # Panics
    /// If they are not of one size.
    pub fn copy_from(&self, other: &Self) {
        assert_eq!(self.len(), other.len(), "copy between frames of different sizes");
        // SAFETY: both are whole frames held by handles. `copy` allows that both are the same frame.
        unsafe { ptr::copy(other.bytes(), self.bytes(), self.len()) };
    }

    /// Zeroes all of it.
    pub fn zero(&self) {
        for start in (0..self.len()).step_by(PAGE_BYTES) {
            // SAFETY: a whole frame, held by this handle.
            unsafe { zero(self.bytes().add(start)) };
        }
    }

    /// The memory itself, for good and all zeros if nothing was written: for the heap, buffers, rings. Never freed.
    ///
    /// # Errors
    /// Gives the handle back if there are others.
    pub fn into_memory(self) -> Result<&'static mut [u8], Self> {
        if self.is_shared() {
            return Err(self);
        }
        let (bytes, length) = (self.bytes(), self.len());
        core::mem::forget(self);
        // SAFETY: this was the only handle and its count never falls to 0 now, so the block belongs to the slice alone.
        Ok(unsafe { core::slice::from_raw_parts_mut(bytes, length) })
    }

    /// Gives the handle back. Returns whether it was the last one, so that the block was zeroed and is free now.
    pub fn release(self) -> bool {
        let (pool, index) = (self.pool, self.index);
        core::mem::forget(self);
        // The handle is forgotten and its reference given up here, once.
        pool.give_up(index)
    }

    /// Turns the handle into the physical address of a page-table entry, which holds the reference from now on.
    pub(crate) fn into_entry(self) -> u64 {
        let address = self.address();
        core::mem::forget(self);
        address
    }

    /// Takes the reference of a page-table entry back.
    ///
    /// # Safety
    /// `physical` came from [`Frame::into_entry`] of a frame of `pool`, and the entry is gone.
    pub(crate) unsafe fn from_entry(pool: &'static FramePool, physical: u64) -> Self {
        Self { pool, index: pool.index(physical) as u32 }
    }

    /// The record.
    fn info(&self) -> &'static FrameInfo {
        &self.pool.info[self.index as usize]
    }

    /// Where its bytes are.
    pub(crate) fn bytes(&self) -> *mut u8 {
        self.pool.bytes_of(self.index)
    }
}

impl Clone for Frame {
    fn clone(&self) -> Self {
        let before = self.info().references().fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "a frame has too many holders");
        Self { pool: self.pool, index: self.index }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.give_up(self.index);
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame({:#x}, {:?})", self.address(), self.kind())
    }
}
