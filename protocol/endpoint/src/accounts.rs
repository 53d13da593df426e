//! What programs' sockets take of a stack: how many there are, and how large their buffers are.
//!
//! Buffers are as large as throughput wants while sockets are few, and get smaller as they become many: every ring gets
//! the same part of what is left of a share of the budget ([`crate::limits::RING_LARGE_SHARE`]). The rest is for rings
//! of the least size, so that there are always some more connections to be had. Whoever has the memory may refuse more
//! of it at any time.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use spin::Once;

use crate::SocketError;
use crate::limits::{
    RING_BYTES_MAX, RING_BYTES_MIN, RING_LARGE_SHARE, RING_OVERHEAD_BYTES, RING_PART, SMALL_BLOCK_BYTES_MAX,
    USER_BUFFER_BYTES, USER_SOCKETS_MAX,
};
use crate::record::NotMade;

/// The books of one stack.
pub(crate) struct Accounts {
    sockets: AtomicUsize,
    bytes: AtomicUsize,
    budget: AtomicUsize,
    lender: Once<Arc<dyn Lender>>,
}

/// Who has the memory that programs' sockets take.
pub trait Lender: Send + Sync {
    /// Whether so many bytes more can be had. If so, they are taken.
    fn lend(&self, bytes: usize) -> bool;

    /// So many bytes are not wanted any more.
    fn take_back(&self, bytes: usize);
}

impl Default for Accounts {
    fn default() -> Self {
        let (sockets, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { sockets, bytes, budget: AtomicUsize::new(USER_BUFFER_BYTES), lender: Once::new() }
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

    /// Has `lender` asked before anything is granted. The first one counts.
    pub(crate) fn borrow_from(&self, lender: Arc<dyn Lender>) {
        self.lender.call_once(|| lender);
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
        let mut grant = Grant { accounts: Arc::clone(self), bytes, lender: None };
        if before.saturating_add(bytes) > self.budget.load(Ordering::Relaxed) {
            return Err(SocketError::NoMemory);
        }
        if let Some(lender) = self.lender.get() {
            if !lender.lend(bytes) {
                return Err(SocketError::NoMemory);
            }
            grant.lender = Some(Arc::clone(lender));
        }
        Ok(grant)
    }

    /// How large the next ring is, bytes.
    fn ring_bytes(&self) -> usize {
        let left = (self.budget.load(Ordering::Relaxed) / RING_LARGE_SHARE).saturating_sub(self.bytes());
        (left / RING_PART / RING_BYTES_MIN * RING_BYTES_MIN).clamp(RING_BYTES_MIN, RING_BYTES_MAX)
    }

    /// A ring, as large as it can be now.
    pub(crate) fn ring(self: &Arc<Self>) -> Result<(Vec<u8>, Grant), SocketError> {
        self.ring_of(self.ring_bytes())
    }

    /// A ring of that size.
    fn ring_of(self: &Arc<Self>, bytes: usize) -> Result<(Vec<u8>, Grant), SocketError> {
        let grant = self.grant(bytes + RING_OVERHEAD_BYTES)?;
        Ok((zeroed(bytes).ok_or(SocketError::NoMemory)?, grant))
    }

    /// A ring as large as one was.
    ///
    /// # Errors
    /// [`NotMade::Damaged`]: none can have been.
    pub(crate) fn ring_again(self: &Arc<Self>, bytes: u32) -> Result<(Vec<u8>, Grant), NotMade> {
        let bytes = bytes as usize;
        if !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes) {
            return Err(NotMade::Damaged);
        }
        Ok(self.ring_of(bytes)?)
    }
}

/// What a block of so many bytes may take of the memory, bytes: a power of two, if it is small.
pub(crate) fn block_bytes(bytes: usize) -> usize {
    if bytes > SMALL_BLOCK_BYTES_MAX { bytes } else { bytes.next_power_of_two() }
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
    /// Who has lent them.
    lender: Option<Arc<dyn Lender>>,
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.accounts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(lender) = &self.lender {
            lender.take_back(self.bytes);
        }
    }
}

/// What a connection of a program holds.
pub(crate) struct Holding {
    /// While it is nobody's or waits to be accepted; otherwise its owner has it.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) _rings: [Grant; 2],
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::{Accounts, Lender, RING_BYTES_MIN, RING_OVERHEAD_BYTES};
    use crate::SocketError;
    use crate::stack::table::Entry;

    #[test]
    fn rings_shrink_and_are_many() {
        let accounts = Arc::<Accounts>::default();
        accounts.set_budget(10 << 20);
        let rings: Vec<_> = core::iter::from_fn(|| accounts.ring().ok()).collect();
        let lengths: Vec<_> = rings.iter().map(|(ring, _)| ring.len()).collect();
        assert!(lengths[0] > 100_000 && lengths.is_sorted_by(|one, next| one >= next), "{lengths:?}");
        assert_eq!(lengths.last(), Some(&RING_BYTES_MIN));
        // Two for each of a thousand connections.
        assert!(lengths.len() > 2000, "{}", lengths.len());
        assert!(accounts.bytes() <= 10 << 20);
        drop(rings);
        assert_eq!(accounts.bytes(), 0);
    }

    #[test]
    fn what_is_charged_besides_is_what_a_connection_takes() {
        assert!(size_of::<Entry>() + size_of::<smoltcp::iface::SocketStorage<'_>>() <= 2 * RING_OVERHEAD_BYTES);
    }

    #[test]
    fn whoever_has_the_memory_may_refuse() {
        let accounts = Arc::<Accounts>::default();
        let lender = Arc::new(Fixed(AtomicUsize::new(300_000)));
        accounts.borrow_from(Arc::clone(&lender) as Arc<dyn Lender>);
        let left = || lender.0.load(Ordering::Relaxed);
        let (ring, grant) = accounts.ring().expect("memory");
        assert_eq!((left(), grant.bytes), (300_000 - grant.bytes, ring.len() + RING_OVERHEAD_BYTES));
        assert_eq!(accounts.grant(left() + 1).err(), Some(SocketError::NoMemory));
        assert_eq!(accounts.bytes(), grant.bytes);
        drop(grant);
        assert_eq!((left(), accounts.bytes()), (300_000, 0));
    }

    /// Has so many bytes to lend.
    struct Fixed(AtomicUsize);

    impl Lender for Fixed {
        fn lend(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
        }

        fn take_back(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}
