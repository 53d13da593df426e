//! What of the kernel's heap is promised to those who make the kernel keep things, and what is not.
//!
//! The heap has a limit. At most so much of it is promised that a part remains for the kernel: what it had
//! before, and a spare part for all it takes for a moment and for what lies badly between other blocks. **A promise is
//! memory at once**: the heap grows before it is given, so that nothing that takes frames afterwards can break it. So
//! whoever allocates what was promised to it finds memory, whatever programs do.

/// The smallest block, bytes.
pub(crate) const BLOCK_BYTES_MIN: usize = 16;

/// Blocks up to this size, bytes, are powers of two.
pub(crate) const CLASS_BYTES_MAX: usize = 2048;

/// Of the limit this is never promised: one part in so many.
const SPARE_SHARE: usize = 8;

/// What the heap has free beyond what was promised, bytes: programs' frames do not keep the kernel from small things.
const KEPT_BYTES: usize = 128 * 1024;

/// What a block of so many bytes takes of the heap, bytes.
#[must_use]
pub const fn block_bytes(bytes: usize) -> usize {
    if bytes > CLASS_BYTES_MAX {
        return bytes.saturating_add(BLOCK_BYTES_MIN - 1) / BLOCK_BYTES_MIN * BLOCK_BYTES_MIN;
    }
    let bytes = bytes.next_power_of_two();
    if bytes < BLOCK_BYTES_MIN { BLOCK_BYTES_MIN } else { bytes }
}

/// Why memory was not promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The heap is at its limit.
    Limit,
    /// There are no frames for it to grow.
    Frames,
}

/// The books.
pub(crate) struct Budget {
    /// Most bytes the heap may take.
    limit: usize,
    /// What the kernel had of it when nothing was promised, bytes.
    own: usize,
    /// What was promised, bytes.
    promised: usize,
}

impl Budget {
    /// Nothing is promised of a heap that may take so many bytes.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, own: 0, promised: 0 }
    }

    /// While nothing is promised, what is used is the kernel's own.
    pub(crate) fn settle(&mut self, used: usize) {
        if self.promised == 0 {
            self.own = used;
        }
    }

    /// How many bytes a heap that holds `held` bytes must grow by before `bytes` more can be promised of it.
    ///
    /// # Errors
    /// [`Refused::Limit`].
    pub(crate) fn growth(&self, bytes: usize, held: usize, used: usize) -> Result<usize, Refused> {
        let spare = self.limit / SPARE_SHARE;
        let sum = |first: usize, more: usize| first.checked_add(more).ok_or(Refused::Limit);
        let promised = sum(self.own + self.promised, bytes)?;
        // What is used beyond what was promised eats of the spare part, of which half must be left.
        if sum(promised, spare)? > self.limit || sum(used, bytes)?.saturating_add(spare / 2) > self.limit {
            return Err(Refused::Limit);
        }
        Ok((promised + KEPT_BYTES).saturating_sub(held))
    }

    /// Whether a heap that holds so much has little left to grow by, so that it matters how its free blocks lie.
    pub(crate) fn is_near_limit(&self, held: usize) -> bool {
        held > self.limit - self.limit / SPARE_SHARE / 2
    }

    /// So much was promised.
    pub(crate) fn promise(&mut self, bytes: usize) {
        self.promised += bytes;
    }

    /// So much is not wanted any more.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.promised -= bytes;
    }

    /// What a heap could give away, bytes.
    pub(crate) fn surplus(&self, held: usize, used: usize) -> usize {
        held.saturating_sub(used.max(self.own + self.promised) + 2 * KEPT_BYTES)
    }

    /// What was promised, bytes.
    pub(crate) fn promised(&self) -> usize {
        self.promised
    }

    /// Most bytes the heap may take.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, KEPT_BYTES, Refused, block_bytes};

    const MIB: usize = 1024 * 1024;

    #[test]
    fn blocks_take_powers_of_two_and_large_ones_what_they_are() {
        let blocks = [0, 1, 16, 17, 2000, 2048, 2049, 5392, 65536].map(block_bytes);
        assert_eq!(blocks, [16, 16, 16, 32, 2048, 2048, 2064, 5392, 65536]);
        assert!(block_bytes(usize::MAX) > usize::MAX / 2);
    }

    #[test]
    fn what_is_promised_is_held_and_a_part_is_not_promised() {
        let mut budget = Budget::new(16 * MIB);
        budget.settle(MIB);
        assert_eq!(budget.growth(0, MIB, MIB), Ok(KEPT_BYTES));
        let growth = budget.growth(13 * MIB, 2 * MIB, MIB).expect("room");
        assert_eq!(2 * MIB + growth, 14 * MIB + KEPT_BYTES);
        budget.promise(13 * MIB);
        // Only what is used while nothing is promised is the kernel's own.
        budget.settle(9 * MIB);
        let held = 2 * MIB + growth;
        assert_eq!((budget.promised(), budget.limit()), (13 * MIB, 16 * MIB));
        assert!(!budget.is_near_limit(held) && budget.is_near_limit(15 * MIB + 1));
        assert_eq!(budget.growth(1, held, MIB), Err(Refused::Limit));
        assert_eq!(budget.growth(usize::MAX, held, MIB), Err(Refused::Limit));
        assert_eq!(budget.surplus(held, MIB), 0);
        budget.release(12 * MIB);
        assert_eq!(budget.growth(MIB, held, MIB), Ok(0));
        assert_eq!(budget.surplus(held, MIB), 12 * MIB - KEPT_BYTES);
        // What is used is not given away, and what is used without a promise counts, too.
        assert_eq!(budget.surplus(held, held), 0);
        assert_eq!(budget.growth(2 * MIB, held, 14 * MIB), Err(Refused::Limit));
    }
}
