//! The host's allocator, of which nothing is known.

/// How much of the kernel's heap is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed out.
    pub used_bytes: usize,
    /// Bytes taken from the pool.
    pub held_bytes: usize,
    /// Most bytes it may take.
    pub limit_bytes: usize,
}

/// Nothing is known.
#[must_use]
pub fn usage() -> Usage {
    Usage::default()
}
