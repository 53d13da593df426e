//! What stands for a page table where threads are entered: it can be held without the table, which is behind a lock.
//!
//! The top-level frame lives as long as somebody holds a handle, and a core that has loaded the table does.

use alloc::sync::Arc;
#[cfg(not(target_os = "none"))]
use core::sync::atomic::Ordering;
#[cfg(target_os = "none")]
use core::sync::atomic::{AtomicBool, AtomicU64};

use super::cpu;
#[cfg(not(target_os = "none"))]
use super::{Mapped, entry::Raw, index_at, leaf_table, slot};
#[cfg(not(target_os = "none"))]
use crate::addr::UserPage;
#[cfg(target_os = "none")]
use crate::attention::Users;
use crate::frames::{Frame, FramePool};

/// The top-level table, and who uses it.
pub(crate) struct Root {
    /// Where its frame came from.
    pool: &'static FramePool,
    /// Its physical address.
    address: u64,
    /// The cores that use it.
    #[cfg(target_os = "none")]
    pub(super) users: Users,
}

impl Root {
    /// Of a table at this address, whose frame's reference this holds from now on.
    pub(super) fn new(pool: &'static FramePool, address: u64) -> Self {
        Self {
            pool,
            address,
            #[cfg(target_os = "none")]
            users: Users::of(AtomicU64::new(0), AtomicBool::new(false)),
        }
    }

    /// Physical address.
    #[cfg(target_os = "none")]
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Gives the frame back. Returns whether it is free now.
    pub(super) fn release(self) -> bool {
        let (pool, address) = (self.pool, self.address);
        core::mem::forget(self);
        // SAFETY: `self`, which held the reference, was forgotten; no processor uses the table, or it would hold it.
        unsafe { Frame::from_entry(pool, address) }.release()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: `self`, which held the reference, is at its end; no processor uses the table, or it would hold it.
        drop(unsafe { Frame::from_entry(self.pool, self.address) });
    }
}

/// A page table as the thing that threads are entered with ([`crate::user::UserThread::enter`]). It does not keep the
/// table's pages.
#[derive(Clone)]
pub struct TableHandle(pub(super) Arc<Root>);

impl TableHandle {
    /// Makes this the table of the core that runs, if it is not.
    #[cfg(target_os = "none")]
    #[inline]
    pub(crate) fn activate(&self) {
        cpu::load(&self.0);
    }

    /// The core that runs has to look at the table anew before it goes into the program: the table was changed, or is
    /// being changed, and then this waits for the end of that.
    #[cfg(target_os = "none")]
    #[cold]
    pub(crate) fn catch_up(&self) {
        cpu::catch_up(&self.0);
    }

    /// The entry of a page, as a processor that uses the table finds it. Threads that the host plays are on the thread
    /// that may change the table, so nothing changes meanwhile; and a pool's memory is never freed.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn look_up(&self, page: UserPage) -> Option<Mapped<'_>> {
        let Root { pool, address } = *self.0;
        let slot = slot(pool, leaf_table(pool, address, page)?, index_at(page.number(), 0));
        let raw = Raw(slot.load(Ordering::Relaxed));
        (!raw.is_empty()).then(|| Mapped::new(pool, slot, raw))
    }

    /// The core that runs stops using the table, if it does. A thread calls this at its end and before it moves to
    /// another core: a table must not be used anywhere when it is dropped.
    pub fn leave(&self) {
        cpu::leave(&self.0);
    }
}
