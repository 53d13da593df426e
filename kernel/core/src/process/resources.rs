//! The resource limits of a process: what getrlimit(2) tells and setrlimit(2) sets. A soft limit can be set up to the
//! hard one, a hard one only lowered: nobody here has a privilege.
//!
//! Who enforces a limit keeps a copy of it where it is looked at (descriptors, memory, signals, timers); it is given
//! one whenever a limit is set. What cannot run out here, or is not rationed, is accepted and told again.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::abi::time::TimerSetting;
use crate::errno::Errno;
use crate::files::DESCRIPTORS_MAX;
use crate::limits::{SIGNALS_QUEUED_MAX, THREADS_MAX};
use crate::memory::limits::STACK_BYTES;
use crate::process::Process;
use crate::process::timers::PROCESSOR_LIMITS;
use crate::sync::{LockLevel, Mutex};

/// No limit.
pub(crate) const INFINITY: u64 = u64::MAX;

/// Linux's numbers of the limits that mean something here.
pub(crate) mod resource {
    pub(crate) const CPU: usize = 0;
    pub(crate) const FSIZE: usize = 1;
    pub(crate) const DATA: usize = 2;
    pub(crate) const STACK: usize = 3;
    pub(crate) const CORE: usize = 4;
    pub(crate) const NPROC: usize = 6;
    pub(crate) const NOFILE: usize = 7;
    pub(crate) const AS: usize = 9;
    pub(crate) const SIGPENDING: usize = 11;
    pub(crate) const MSGQUEUE: usize = 12;
    pub(crate) const NICE: usize = 13;
    pub(crate) const RTPRIO: usize = 14;
}

/// How many there are.
pub(crate) const RESOURCES: usize = 16;

/// A resource's soft and hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// What holds.
    pub(crate) soft: u64,
    /// How far that can be raised.
    pub(crate) hard: u64,
}

/// The limits of a process.
pub(crate) struct ResourceLimits {
    all: Mutex<[Limit; RESOURCES]>,
    /// The soft limit of a file's length, bytes, which every write looks at.
    file_bytes: AtomicU64,
    /// The soft limit of descriptors, which every poll looks at.
    descriptors: AtomicU64,
}

impl ResourceLimits {
    /// Those that processes start with: what there is of things that run out.
    pub(crate) fn new() -> Self {
        let mut all = [Limit { soft: INFINITY, hard: INFINITY }; RESOURCES];
        for (resource, most) in [
            (resource::STACK, STACK_BYTES),
            (resource::CORE, 0),
            (resource::NPROC, THREADS_MAX as u64),
            (resource::NOFILE, DESCRIPTORS_MAX as u64),
            (resource::SIGPENDING, SIGNALS_QUEUED_MAX as u64),
            (resource::MSGQUEUE, 0),
            (resource::NICE, 0),
            (resource::RTPRIO, 0),
        ] {
            all[resource] = Limit { soft: most, hard: most };
        }
        let descriptors = all[resource::NOFILE].soft;
        Self {
            all: Mutex::new(LockLevel::Fact, all),
            file_bytes: AtomicU64::new(INFINITY),
            descriptors: AtomicU64::new(descriptors),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> [Limit; RESOURCES] {
        *self.all.lock()
    }

    /// These, of which there are to be as many as resources.
    pub(crate) fn of(limits: impl Iterator<Item = Limit>) -> Option<Self> {
        let all: Vec<_> = limits.collect();
        let all: [Limit; RESOURCES] = all.try_into().ok()?;
        let (file_bytes, descriptors) = (all[resource::FSIZE].soft, all[resource::NOFILE].soft);
        Some(Self {
            all: Mutex::new(LockLevel::Fact, all),
            file_bytes: AtomicU64::new(file_bytes),
            descriptors: AtomicU64::new(descriptors),
        })
    }

    /// # Errors
    /// `EINVAL`: no such resource.
    pub(crate) fn get(&self, resource: u32) -> Result<Limit, Errno> {
        self.all.lock().get(resource as usize).copied().ok_or(Errno::EINVAL)
    }

    /// The soft limit of one that there is.
    pub(crate) fn soft(&self, resource: usize) -> u64 {
        self.all.lock()[resource].soft
    }

    /// How long a file may become, bytes.
    #[inline]
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    /// How many descriptors there may be.
    #[inline]
    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `EINVAL`: no such resource, or the soft limit is above the hard one. `EPERM`: it is more than the hard limit.
    fn set(&self, resource: u32, new: Limit) -> Result<Limit, Errno> {
        let mut all = self.all.lock();
        let limit = all.get_mut(resource as usize).ok_or(Errno::EINVAL)?;
        if new.soft > new.hard {
            return Err(Errno::EINVAL);
        }
        if new.hard > limit.hard {
            return Err(Errno::EPERM);
        }
        let old = core::mem::replace(limit, new);
        self.file_bytes.store(all[resource::FSIZE].soft, Ordering::Relaxed);
        self.descriptors.store(all[resource::NOFILE].soft, Ordering::Relaxed);
        Ok(old)
    }
}

impl Process {
    /// Sets a limit and tells those who enforce it. Gives how it was set.
    ///
    /// # Errors
    /// `EINVAL`, `EPERM` as setrlimit(2). `EAGAIN`: nobody could enforce it.
    pub(crate) fn set_limit(&self, resource: u32, new: Limit) -> Result<Limit, Errno> {
        let old = self.limits.set(resource, new)?;
        match resource as usize {
            resource::NOFILE => self.files.lock().limit(self.limits.soft(resource::NOFILE)),
            resource::AS | resource::DATA => {
                let (all, data) = (self.limits.soft(resource::AS), self.limits.soft(resource::DATA));
                self.space.lock().limit(all, data);
            }
            resource::SIGPENDING => self.signals.lock().limit_queue(self.limits.soft(resource::SIGPENDING)),
            resource::CPU => self.limit_processor_time(new)?,
            _ => {}
        }
        Ok(old)
    }

    /// `SIGXCPU` at the soft limit and each second after it, `SIGKILL` at the hard one.
    fn limit_processor_time(&self, new: Limit) -> Result<(), Errno> {
        /// A limit of 0 s is one of 1 s, as on Linux.
        fn value_ns(seconds: u64) -> u64 {
            if seconds == INFINITY { 0 } else { seconds.max(1).saturating_mul(1_000_000_000) }
        }
        for (name, seconds, interval_ns) in
            [(PROCESSOR_LIMITS[0], new.soft, 1_000_000_000), (PROCESSOR_LIMITS[1], new.hard, 0)]
        {
            self.timers.set(self, name, TimerSetting { value_ns: value_ns(seconds), interval_ns }, true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{INFINITY, Limit, ResourceLimits, resource};
    use crate::errno::Errno;

    #[test]
    fn a_hard_limit_is_lowered_for_ever() {
        let limits = ResourceLimits::new();
        let fsize = resource::FSIZE as u32;
        assert_eq!(limits.set(fsize, Limit { soft: 5, hard: 10 }), Ok(Limit { soft: INFINITY, hard: INFINITY }));
        assert_eq!(limits.file_bytes(), 5);
        assert_eq!(limits.set(fsize, Limit { soft: 11, hard: 10 }), Err(Errno::EINVAL));
        assert_eq!(limits.set(fsize, Limit { soft: 5, hard: 11 }), Err(Errno::EPERM));
        assert_eq!(limits.set(fsize, Limit { soft: 10, hard: 10 }), Ok(Limit { soft: 5, hard: 10 }));
        assert_eq!(limits.get(fsize), Ok(Limit { soft: 10, hard: 10 }));
        assert_eq!(limits.get(16), Err(Errno::EINVAL));
        assert_eq!(limits.set(u32::MAX, Limit { soft: 0, hard: 0 }), Err(Errno::EINVAL));
    }
}
