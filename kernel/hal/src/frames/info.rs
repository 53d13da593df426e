//! The record the pool keeps of each frame. All zeros means: not the pool's to hand out.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// The kernel's heap and buffers. The only kind that may come from the reserve.
    Kernel = 1,
    /// Page table of a program.
    Table = 2,
    /// Memory of a program that it may have written.
    User = 3,
    /// A page as the program's file has it, never written since.
    Pristine = 4,
}

impl FrameKind {
    /// All of them, in the order of their numbers, which begin with 1.
    const ALL: [Self; 4] = [Self::Kernel, Self::Table, Self::User, Self::Pristine];

    /// The kind a record's byte means; `None` if the frame is not handed out.
    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// How many frames are handed out for what. Kept as that changes, so that nobody has to look at all the records for it.
pub(super) struct Counts([AtomicU32; FrameKind::ALL.len()]);

impl Counts {
    /// None.
    pub(super) const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; FrameKind::ALL.len()])
    }

    /// So many frames more.
    pub(super) fn add(&self, kind: FrameKind, frames: u32) {
        self.0[kind as usize - 1].fetch_add(frames, Ordering::Relaxed);
    }

    /// So many frames fewer.
    pub(super) fn remove(&self, kind: FrameKind, frames: u32) {
        self.0[kind as usize - 1].fetch_sub(frames, Ordering::Relaxed);
    }

    /// How many there are.
    pub(super) fn of(&self, kind: FrameKind) -> u32 {
        self.0[kind as usize - 1].load(Ordering::Relaxed)
    }
}

/// Value of `free_order` of a frame that heads no free block; others are the block's order + 1.
const NOT_FREE: u8 = 0;

/// Record of one frame, 16 bytes. Only the first frame of a block says anything about the block.
#[derive(Default)]
pub(super) struct FrameInfo {
    /// Handles and page-table entries that hold it.
    references: AtomicU32,
    /// Free block: index of the next one in its list. Page table: entries in use. Otherwise the owner's tag.
    word: AtomicU32,
    /// Free block: index of the one before it in its list.
    previous: AtomicU32,
    /// [`FrameKind`], 0 if not handed out.
    kind: AtomicU8,
    /// Order of the block handed out.
    order: AtomicU8,
    /// Order of the free block that starts here + 1, or [`NOT_FREE`].
    free_order: AtomicU8,
    /// 1 if the frame is known to be all zeros.
    clean: AtomicU8,
}

impl FrameInfo {
    /// The record says: handed out, to one holder.
    pub(super) fn hand_out(&self, kind: FrameKind, order: u8) {
        self.word.store(0, Ordering::Relaxed);
        self.order.store(order, Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Relaxed);
        self.references.store(1, Ordering::Relaxed);
    }

    /// The record says: nobody's. Returns what the block was used for, and its order.
    pub(super) fn take_back(&self) -> (FrameKind, u8) {
        let kind = self.kind();
        self.kind.store(0, Ordering::Relaxed);
        (kind, self.order.load(Ordering::Relaxed))
    }

    /// Says that the frame is all zeros.
    pub(super) fn set_clean(&self) {
        self.clean.store(1, Ordering::Relaxed);
    }

    /// Whether the frame was all zeros; it no longer counts as such.
    pub(super) fn take_clean(&self) -> bool {
        let clean = self.clean.load(Ordering::Relaxed) != 0;
        self.clean.store(0, Ordering::Relaxed);
        clean
    }

    /// Makes this the head of a free block of `order` between two neighbours in a list.
    pub(super) fn set_free(&self, order: u8, previous: u32, next: u32) {
        self.previous.store(previous, Ordering::Relaxed);
        self.word.store(next, Ordering::Relaxed);
        self.free_order.store(order + 1, Ordering::Relaxed);
    }

    /// This no longer heads a free block. Returns its neighbours in the list, (previous, next).
    pub(super) fn clear_free(&self) -> (u32, u32) {
        self.free_order.store(NOT_FREE, Ordering::Relaxed);
        (self.previous.load(Ordering::Relaxed), self.word.load(Ordering::Relaxed))
    }

    /// Sets the next block of the list.
    pub(super) fn set_next(&self, next: u32) {
        self.word.store(next, Ordering::Relaxed);
    }

    /// The next frame of a list.
    pub(super) fn next(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    /// Sets the block before it in the list.
    pub(super) fn set_previous(&self, previous: u32) {
        self.previous.store(previous, Ordering::Relaxed);
    }

    /// Whether a free block of exactly that order starts here.
    pub(super) fn heads_free(&self, order: u8) -> bool {
        self.free_order.load(Ordering::Relaxed) == order + 1
    }

    /// Kind and length in frames of the block that starts here; kind `None` if it is free or not the pool's.
    #[cfg(test)]
    pub(super) fn block(&self) -> (Option<FrameKind>, u32) {
        let kind = FrameKind::from_byte(self.kind.load(Ordering::Relaxed));
        let order = match (kind, self.free_order.load(Ordering::Relaxed)) {
            (Some(_), _) => self.order.load(Ordering::Relaxed),
            (None, NOT_FREE) => 0,
            (None, above) => above - 1,
        };
        (kind, 1 << order)
    }

    /// Kind of a frame that is handed out.
    pub(super) fn kind(&self) -> FrameKind {
        FrameKind::from_byte(self.kind.load(Ordering::Relaxed)).unwrap_or(FrameKind::Kernel)
    }

    /// Changes the kind of a frame that is handed out, and returns what it was.
    pub(super) fn set_kind(&self, kind: FrameKind) -> FrameKind {
        let before = self.kind.swap(kind as u8, Ordering::Relaxed);
        FrameKind::from_byte(before).unwrap_or(FrameKind::Kernel)
    }

    /// Order of the block handed out.
    pub(super) fn order(&self) -> u8 {
        self.order.load(Ordering::Relaxed)
    }

    /// The reference count.
    pub(super) fn references(&self) -> &AtomicU32 {
        &self.references
    }

    /// Tag, or number of entries in use in a page table.
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.word
    }
}
