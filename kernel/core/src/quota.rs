//! How much of the kernel's memory the objects of programs may take: buffers of pipes, counters, what epoll watches.
//!
//! Descriptors are limited per process, but a node may run many processes, and a pipe is more than a number. So
//! whatever a program makes the kernel allocate for as long as the program likes is charged here first. A charge is
//! refused at the limit, and also when the frames that are left are the kernel's reserve: the memory is then taken at
//! once, so that a program cannot have the kernel promise memory that the program then eats itself.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_hal::heap;

use crate::errno::Errno;
use crate::limits::{QUOTA_BYTES_DEFAULT, QUOTA_SHARE};
use crate::memory::Retention;

/// The node's memory for objects of programs.
pub struct Quota {
    frames: &'static FramePool,
    retention: Arc<Retention>,
    taken: AtomicUsize,
    limit: usize,
}

/// Memory that was charged. Given back when this is dropped.
pub(crate) struct Charge {
    quota: Arc<Quota>,
    bytes: usize,
}

impl Quota {
    /// A share of the kernel's heap, which takes its memory from `frames` as everybody does: what is retained there
    /// goes first.
    #[must_use]
    pub fn new(frames: &'static FramePool, retention: Arc<Retention>) -> Self {
        let limit = match heap::usage().limit_bytes {
            0 => QUOTA_BYTES_DEFAULT,
            bytes => bytes / QUOTA_SHARE,
        };
        Self { frames, retention, taken: AtomicUsize::new(0), limit }
    }

    /// Charges memory that is to be allocated right away.
    ///
    /// # Errors
    /// `ENOMEM`: there is no more to be had.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, Errno> {
        let mut charge = Charge { quota: Arc::clone(self), bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }

    fn take(&self, bytes: usize) -> Result<(), Errno> {
        let frames = bytes.div_ceil(PAGE_BYTES);
        while frames > self.frames.available_frames() as usize {
            if !self.retention.give_back() {
                return Err(Errno::ENOMEM);
            }
        }
        let more = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(|_| ()).map_err(|_| Errno::ENOMEM)
    }

    /// Bytes that are charged.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Charge {
    /// Charges more.
    ///
    /// # Errors
    /// `ENOMEM`: no more is charged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Errno> {
        self.quota.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.quota.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use coppice_hal::frames::{FrameKind, FramePool};

    use super::Quota;
    use crate::errno::Errno;
    use crate::limits::QUOTA_BYTES_DEFAULT;
    use crate::process::testing::pool;

    /// One on the memory of all benches.
    pub(crate) fn quota() -> Arc<Quota> {
        Arc::new(Quota::new(pool(), Arc::default()))
    }

    #[test]
    fn what_is_charged_is_limited_and_given_back() {
        let quota = Arc::new(Quota::new(FramePool::for_host(2 * QUOTA_BYTES_DEFAULT), Arc::default()));
        let mut half = quota.charge(QUOTA_BYTES_DEFAULT / 2).expect("room");
        assert_eq!(half.grow(QUOTA_BYTES_DEFAULT / 2 + 1), Err(Errno::ENOMEM));
        assert_eq!(half.grow(QUOTA_BYTES_DEFAULT / 2), Ok(()));
        assert_eq!(quota.charge(1).err(), Some(Errno::ENOMEM));
        assert_eq!(quota.charge(usize::MAX).err(), Some(Errno::ENOMEM));
        drop(half);
        assert_eq!(quota.taken(), 0);
        assert!(quota.charge(1).is_ok());
    }

    #[test]
    fn nothing_is_charged_to_the_kernels_reserve() {
        let frames: &'static FramePool = FramePool::for_host(1024 * 1024);
        let quota = Arc::new(Quota::new(frames, Arc::default()));
        let eaten: Vec<_> = core::iter::from_fn(|| frames.alloc(FrameKind::User)).collect();
        assert!(frames.free_frames() > 0);
        assert_eq!(quota.charge(1).err(), Some(Errno::ENOMEM));
        drop(eaten);
        assert!(quota.charge(1).is_ok());
    }
}
