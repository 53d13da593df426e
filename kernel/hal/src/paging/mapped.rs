//! A page found in a table: what every copy between kernel and program goes through.

use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::entry::Raw;
use super::{Access, Marks};
use crate::addr::PAGE_BYTES;
use crate::frames::{Frame, FramePool};

/// A page that holds a frame, borrowed from its table.
pub struct Mapped<'a> {
    /// The table's pool.
    pool: &'static FramePool,
    /// Its entry.
    slot: &'a AtomicU64,
    /// The entry when it was looked up.
    raw: Raw,
}

impl<'a> Mapped<'a> {
    /// The page whose entry is at `slot`.
    pub(super) fn new(pool: &'static FramePool, slot: &'a AtomicU64, raw: Raw) -> Self {
        Self { pool, slot, raw }
    }

    /// What the processor lets the program do with it.
    #[must_use]
    #[inline]
    pub fn access(&self) -> Access {
        self.raw.access()
    }

    /// What the kernel noted.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.raw.marks()
    }

    /// Whether anybody but this entry holds its frame.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.borrow_frame().is_shared()
    }

    /// A handle on its frame.
    #[must_use]
    pub fn frame(&self) -> Frame {
        Frame::clone(&self.borrow_frame())
    }

    /// The entry's own reference, borrowed.
    fn borrow_frame(&self) -> ManuallyDrop<Frame> {
        // SAFETY: the entry holds the reference and stays while the table is borrowed; this handle is never dropped.
        ManuallyDrop::new(unsafe { Frame::from_entry(self.pool, self.raw.address()) })
    }

    /// Copies bytes from `offset` on out of the page.
    ///
    /// # Panics
    /// If they are not all in the page.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset.checked_add(out.len()).is_some_and(|end| end <= PAGE_BYTES), "read beyond a page");
        // SAFETY: inside the frame, which the entry holds while the table is borrowed; `out` is Rust's own memory.
        unsafe { ptr::copy_nonoverlapping(self.bytes().add(offset), out.as_mut_ptr(), out.len()) };
    }

    /// Copies `count` bytes from `offset` on out of the page to the end of a vector that has room for them.
    ///
    /// # Panics
    /// If they are not all in the page, or there is no room.
    pub fn append(&self, offset: usize, count: usize, out: &mut Vec<u8>) {
        assert!(offset.checked_add(count).is_some_and(|end| end <= PAGE_BYTES), "read beyond a page");
        let length = out.len();
        let room = out.spare_capacity_mut();
        assert!(count <= room.len(), "no room for what is read");
        // SAFETY: as in `read`; there is room for `count` bytes, which are written before they count.
        unsafe {
            ptr::copy_nonoverlapping(self.bytes().add(offset), room.as_mut_ptr().cast(), count);
            out.set_len(length + count);
        }
    }

    /// Copies bytes into the page from `offset` on and notes that it was written, as the processor would.
    ///
    /// # Panics
    /// If they do not all fit into the page.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= PAGE_BYTES), "write beyond a page");
        self.note_write();
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes().add(offset), bytes.len()) };
    }

    /// Copies bytes of another page, from `at` of that on, into this one from `offset` on, and notes that this was
    /// written.
    ///
    /// # Panics
    /// If they are not all in both pages, or these are the same.
    pub fn copy_from(&self, offset: usize, other: &Mapped<'_>, at: usize, count: usize) {
        let fits = |from: usize| from.checked_add(count).is_some_and(|end| end <= PAGE_BYTES);
        assert!(fits(offset) && fits(at), "copy beyond a page");
        assert!(self.raw.address() != other.raw.address(), "copy within a page");
        self.note_write();
        // SAFETY: as in `read`, for both, which are two frames: the bytes do not overlap.
        unsafe { ptr::copy_nonoverlapping(other.bytes().add(at), self.bytes().add(offset), count) };
    }

    /// Words of the page from `offset` on, to be read and written where they are; the page is noted as written. `None`
    /// if they are not aligned or not all in the page. The program may change them at any time.
    #[must_use]
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> Option<&[AtomicU32]> {
        let end = count.checked_mul(size_of::<u32>()).and_then(|bytes| bytes.checked_add(offset));
        if !offset.is_multiple_of(align_of::<u32>()) || end.is_none_or(|end| end > PAGE_BYTES) {
            return None;
        }
        self.note_write();
        // SAFETY: inside the frame, which the entry holds while the table is borrowed, and aligned as the frame is and
        // `offset` was found to be. Nobody in the kernel holds a plain reference to a program's memory.
        Some(unsafe { core::slice::from_raw_parts(self.bytes().add(offset).cast::<AtomicU32>(), count) })
    }

    /// The word of the page at `offset`, read in one piece. `None` if it is not aligned or not in the page. The program
    /// may change it at any time.
    #[must_use]
    #[inline]
    pub fn word(&self, offset: usize) -> Option<u32> {
        if !offset.is_multiple_of(align_of::<u32>()) || offset >= PAGE_BYTES {
            return None;
        }
        // SAFETY: as in `words`; what is only read need not be noted.
        Some(unsafe { &*self.bytes().add(offset).cast::<AtomicU32>() }.load(Ordering::Acquire))
    }

    /// The page is about to be written.
    #[inline]
    fn note_write(&self) {
        if !self.raw.is_written() {
            // Processors may note at any time that they used the page.
            let note = |entry| Some(Raw(entry).written().0);
            let _ = self.slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, note);
        }
    }

    /// Where the page's bytes are.
    #[inline]
    fn bytes(&self) -> *mut u8 {
        self.pool.at(self.raw.address())
    }
}
