//! How much of the kernel's memory the objects of programs may take: buffers of pipes, counters, what epoll watches.
//!
//! Descriptors are limited per process, but a node may run many processes, and a pipe is more than a number. So
//! whatever a program makes the kernel allocate for as long as the program likes is charged here first. A charge is
//! refused at the limit, and also when the frames that are left are the kernel's reserve: the memory is then taken at
//! once, so that a program cannot have the kernel promise memory that the program then eats itself.
//!
//! The ranks of a node share: half is divided evenly among them, so that none can take it from another, and the other
//! half is for whoever wants more.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_hal::heap;

use crate::errno::Errno;
use crate::limits::{QUOTA_BYTES_DEFAULT, QUOTA_SHARE};
use crate::memory::Retention;
use crate::sync::{LockLevel, Mutex};

/// Memory for objects of programs: a node's, or what a process may have of it.
pub struct Quota {
    frames: &'static FramePool,
    retention: Arc<Retention>,
    /// What was charged here, bytes.
    taken: Mutex<usize>,
    /// What may be charged here whatever the others do, bytes.
    reserved: usize,
    /// What was charged beyond that, here and by the others, bytes.
    common: Arc<AtomicUsize>,
    /// What that may be at most, bytes.
    common_max: usize,
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
        Self {
            frames,
            retention,
            taken: Mutex::new(LockLevel::Quota, 0),
            reserved: 0,
            common: Arc::default(),
            common_max: limit,
        }
    }

    /// What one of so many processes may have of a node's. There are to be no more of them at a time.
    #[must_use]
    pub fn share(&self, processes: u32) -> Self {
        let half = self.common_max / 2;
        Self {
            frames: self.frames,
            retention: Arc::clone(&self.retention),
            taken: Mutex::new(LockLevel::Quota, 0),
            reserved: half / processes.max(1) as usize,
            common: Arc::clone(&self.common),
            common_max: half,
        }
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

    /// Whether so many bytes can be allocated without touching the kernel's reserve. For what is limited elsewhere.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let frames = bytes.div_ceil(PAGE_BYTES);
        while frames > self.frames.available_frames() as usize {
            if !self.retention.give_back() {
                return false;
            }
        }
        true
    }

    fn take(&self, bytes: usize) -> Result<(), Errno> {
        if !self.has_room(bytes) {
            return Err(Errno::ENOMEM);
        }
        let mut taken = self.taken.lock();
        let sum = taken.checked_add(bytes).ok_or(Errno::ENOMEM)?;
        let beyond = self.beyond(sum) - self.beyond(*taken);
        if beyond > 0 {
            let more = |common: usize| common.checked_add(beyond).filter(|sum| *sum <= self.common_max);
            self.common.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Errno::ENOMEM)?;
        }
        *taken = sum;
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        let mut taken = self.taken.lock();
        let less = *taken - bytes;
        self.common.fetch_sub(self.beyond(*taken) - self.beyond(less), Ordering::Relaxed);
        *taken = less;
    }

    /// How much of that is not reserved.
    fn beyond(&self, taken: usize) -> usize {
        taken.saturating_sub(self.reserved)
    }

    /// Bytes that are charged.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        *self.taken.lock()
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
        self.quota.give_back(self.bytes);
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
    fn each_of_several_processes_has_its_part_whatever_the_others_take() {
        let node = Quota::new(FramePool::for_host(2 * QUOTA_BYTES_DEFAULT), Arc::default());
        let ranks: Vec<Arc<Quota>> = (0..4).map(|_| Arc::new(node.share(4))).collect();
        let part = QUOTA_BYTES_DEFAULT / 8;
        // One takes its part and all that is not another's.
        let greedy = ranks[0].charge(part + QUOTA_BYTES_DEFAULT / 2).expect("nobody else wants it");
        assert_eq!(ranks[0].charge(1).err(), Some(Errno::ENOMEM));
        let others: Vec<_> = ranks[1..].iter().map(|rank| rank.charge(part).expect("its part")).collect();
        assert!(ranks.iter().all(|rank| rank.charge(1).is_err()));
        drop(greedy);
        // It has its part still, and the others may have more than theirs now.
        let more = ranks[3].charge(QUOTA_BYTES_DEFAULT / 2).expect("room again");
        let own = ranks[0].charge(part).expect("its part");
        assert!(ranks.iter().all(|rank| rank.charge(1).is_err()));
        drop((others, more, own));
        assert!(ranks.iter().all(|rank| rank.taken() == 0));
        assert!(ranks[2].charge(part + QUOTA_BYTES_DEFAULT / 2).is_ok());
        // One alone has all of it.
        assert!(Arc::new(node.share(1)).charge(QUOTA_BYTES_DEFAULT).is_ok());
    }

    #[test]
    fn nothing_is_charged_to_the_kernels_reserve() {
        let frames: &'static FramePool = FramePool::for_host(1024 * 1024);
        let quota = Arc::new(Quota::new(frames, Arc::default()));
        let eaten: Vec<_> = core::iter::from_fn(|| frames.alloc(FrameKind::User)).collect();
        assert!(frames.free_frames() > 0);
        assert_eq!(quota.charge(1).err(), Some(Errno::ENOMEM));
        assert!(!quota.has_room(1));
        drop(eaten);
        assert!(quota.charge(1).is_ok() && quota.has_room(1));
    }
}
