//! The host's allocator, of which nothing is known.

pub use self::counting::{Counting, Taken, held_bytes, measure};
pub use crate::budget::{Refused, block_bytes};

mod counting;

/// How much of the kernel's heap is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out.
    pub used_bytes: usize,
    /// Bytes taken from the pool.
    pub held_bytes: usize,
    /// Bytes promised.
    pub promised_bytes: usize,
    /// Most bytes it may take.
    pub limit_bytes: usize,
}

/// Nothing is known.
#[must_use]
pub fn usage() -> Usage {
    Usage::default()
}

/// There is always memory.
///
/// # Errors
/// Never.
pub fn promise(_bytes: usize) -> Result<(), Refused> {
    Ok(())
}

/// No promise was kept.
pub fn release(_bytes: usize) {}

/// Nothing is given back.
#[must_use]
pub fn shrink(_pages: usize) -> usize {
    0
}

/// There is nothing to forget.
pub fn forget() {}
