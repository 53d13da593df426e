//! What programs' sockets take of a stack: how many there are, and how large their buffers are.
//!
//! Buffers are as large as throughput wants while sockets are few, and get smaller as they become many: every ring gets
//! the same part of what is left of one half of the budget ([`crate::limits::RING_PART`]). The other half is for rings
//! of the least size, so that there are always some more connections to be had.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::SocketError;
use crate::limits::{RING_BYTES_MAX, RING_BYTES_MIN, RING_PART, USER_BUFFER_BYTES, USER_SOCKETS_MAX};

/// The books of one stack.
pub(crate) struct Accounts {
    sockets: AtomicUsize,
    bytes: AtomicUsize,
    budget: AtomicUsize,
}

impl Default for Accounts {
    fn default() -> Self {
        let (sockets, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { sockets, bytes, budget: AtomicUsize::new(USER_BUFFER_BYTES) }
    }
}

impl Accounts {
    /// Sockets that programs made and that are not gone yet.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.load(Ordering::Relaxed)
    }

    /// Bytes of their buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_budget(&self, bytes: usize) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    /// Enters one more socket.
    pub(crate) fn ticket(self: &Arc<Self>) -> Result<Ticket, SocketError> {
        if self.sockets.fetch_add(1, Ordering::Relaxed) >= USER_SOCKETS_MAX {
            self.sockets.fetch_sub(1, Ordering::Relaxed);
            return Err(SocketError::TooMany);
        }
        Ok(Ticket(Arc::clone(self)))
    }

    /// Enters `bytes` of buffers.
    pub(crate) fn grant(self: &Arc<Self>, bytes: usize) -> Result<Grant, SocketError> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let grant = Grant { accounts: Arc::clone(self), bytes };
        if before.saturating_add(bytes) > self.budget.load(Ordering::Relaxed) {
            return Err(SocketError::NoMemory);
        }
        Ok(grant)
    }

    /// How large the next ring is, bytes.
    fn ring_bytes(&self) -> usize {
        let left = (self.budget.load(Ordering::Relaxed) / 2).saturating_sub(self.bytes());
        (left / RING_PART / RING_BYTES_MIN * RING_BYTES_MIN).clamp(RING_BYTES_MIN, RING_BYTES_MAX)
    }

    /// A ring, as large as it can be now.
    pub(crate) fn ring(self: &Arc<Self>) -> Result<(Vec<u8>, Grant), SocketError> {
        let bytes = self.ring_bytes();
        let grant = self.grant(bytes)?;
        Ok((zeroed(bytes).ok_or(SocketError::NoMemory)?, grant))
    }
}

/// So many zeros, if there is memory for them.
pub(crate) fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    let mut ring = Vec::new();
    ring.try_reserve_exact(bytes).ok()?;
    ring.resize(bytes, 0);
    Some(ring)
}

/// One socket in the books.
pub(crate) struct Ticket(Arc<Accounts>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of buffers in the books.
pub(crate) struct Grant {
    accounts: Arc<Accounts>,
    bytes: usize,
}

impl Grant {
    /// How many.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.accounts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a connection of a program holds.
pub(crate) struct Holding {
    /// While it is nobody's or waits to be accepted; otherwise its owner has it.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) _rings: [Grant; 2],
}
