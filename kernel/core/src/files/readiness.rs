//! Readiness: what can be done with an open file without waiting, and being told when that changes.
//!
//! Whoever waits for a file registers a waker with it ([`Watchers::watch`]), *then* looks at what is the case, and
//! waits only if that is not what it wants. Whoever changes something changes it first and then calls
//! [`Watchers::notify`]. So a waker may be woken for nothing, but no change is missed. A waker is forgotten when it is
//! woken; who goes on waiting registers again.

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::sync::atomic::{AtomicU16, Ordering};
use core::task::{Poll, Waker};

use bitflags::bitflags;

use crate::executor::{self, Elapsed};
use crate::limits::WATCHERS_MAX;
use crate::sync::{LockLevel, Mutex};

bitflags! {
    /// What holds of an open file now. The bits are those of poll(2) and epoll(7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Ready: u16 {
        /// It can be read (`POLLIN`, `POLLRDNORM`).
        const READ = 0x041;
        /// There is something urgent to be read (`POLLPRI`).
        const PRIORITY = 0x002;
        /// It can be written (`POLLOUT`, `POLLWRNORM`).
        const WRITE = 0x104;
        /// An error waits to be told (`POLLERR`).
        const ERROR = 0x008;
        /// Nothing comes or goes any more (`POLLHUP`).
        const HANG_UP = 0x010;
        /// Nothing comes any more (`POLLRDHUP`).
        const READ_HANG_UP = 0x2000;
    }
}

impl Ready {
    /// What is told whether it was asked for or not.
    pub(crate) const ALWAYS_TOLD: Self = Self::ERROR.union(Self::HANG_UP);

    /// What files have that never make anybody wait.
    pub(crate) const NEVER_WAITS: Self = Self::READ.union(Self::WRITE);
}

/// Where an open file says what it is ready for, for a look that takes nothing but the look: programs that poll, poll
/// often. Whoever changes something says so here first.
#[derive(Clone)]
pub(crate) struct Level(Arc<AtomicU16>);

impl Level {
    /// Says nothing about [`Ready`]; the file is to be asked itself ([`super::OpenFile::ready`]).
    pub(crate) const LOOK_CLOSER: u16 = 0x8000;
    /// There is no such descriptor, as far as poll(2) is concerned (`POLLNVAL`).
    pub(crate) const INVALID: u16 = 0x020;

    /// One that says this for now.
    pub(crate) fn new(bits: u16) -> Self {
        Self(Arc::new(AtomicU16::new(bits)))
    }

    /// What it says: bits of [`Ready`], [`Self::INVALID`], or, among others, [`Self::LOOK_CLOSER`].
    #[inline]
    pub(crate) fn bits(&self) -> u16 {
        self.0.load(Ordering::Acquire)
    }

    /// Says that of all that is in `mask`, only `bits` are so.
    pub(crate) fn set(&self, mask: u16, bits: u16) {
        // Never refused.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(old & !mask | bits));
    }
}

impl From<Arc<AtomicU16>> for Level {
    fn from(level: Arc<AtomicU16>) -> Self {
        Self(level)
    }
}

/// Who wants to know when something changes. At most [`WATCHERS_MAX`], each once; beyond, the one that has waited
/// longest is woken, and may register again.
pub(crate) struct Watchers {
    wakers: Mutex<Vec<Waker>>,
}

impl Watchers {
    /// Nobody.
    pub(crate) const fn new() -> Self {
        Self { wakers: Mutex::new(LockLevel::Watchers, Vec::new()) }
    }

    /// Has `waker` woken at the next change. It may be woken before, for nothing.
    pub(crate) fn watch(&self, waker: &Waker) {
        let refused = {
            let mut wakers = self.wakers.lock();
            if wakers.iter().any(|known| known.will_wake(waker)) {
                return;
            }
            let excess = (wakers.len() >= WATCHERS_MAX).then(|| wakers.remove(0));
            if wakers.try_reserve(1).is_ok() {
                wakers.push(waker.clone());
                excess
            } else {
                Some(waker.clone())
            }
        };
        // Outside the lock, for waking may lead back here.
        if let Some(waker) = refused {
            waker.wake();
        }
    }

    /// Something has changed.
    pub(crate) fn notify(&self) {
        let mut woken = {
            let mut wakers = self.wakers.lock();
            if wakers.is_empty() {
                return;
            }
            core::mem::take(&mut *wakers)
        };
        woken.drain(..).for_each(Waker::wake);
        // The memory is good for those who register again.
        let mut wakers = self.wakers.lock();
        if wakers.capacity() == 0 {
            *wakers = woken;
        }
    }
}

impl Wake for Watchers {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

/// Waits until `attempt` gives something. `watch` registers a waker wherever something that `attempt` depends on may
/// change. Dropping the future has no effect but those of attempts that gave nothing.
pub(crate) async fn until<T>(watch: impl Fn(&Waker), mut attempt: impl FnMut() -> Option<T>) -> T {
    poll_fn(|context| {
        if let Some(value) = attempt() {
            return Poll::Ready(value);
        }
        watch(context.waker());
        attempt().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// As [`until`], but no longer than the monotonic clock shows `deadline_ns`.
///
/// # Errors
/// [`Elapsed`].
pub(crate) async fn until_or<T>(
    deadline_ns: u64,
    watch: impl Fn(&Waker),
    attempt: impl FnMut() -> Option<T>,
) -> Result<T, Elapsed> {
    executor::timeout_at(deadline_ns, until(watch, attempt)).await
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicU32, Ordering};
    use core::task::Waker;

    use super::{Elapsed, Ready, WATCHERS_MAX, Watchers, until, until_or};
    use crate::executor;
    use crate::testing::WakeCounter;

    fn counters(count: usize) -> Vec<(Arc<WakeCounter>, Waker)> {
        (0..count).map(|_| WakeCounter::new()).collect()
    }

    fn counts(counters: &[(Arc<WakeCounter>, Waker)]) -> Vec<u32> {
        counters.iter().map(|(counter, _)| counter.count()).collect()
    }

    #[test]
    fn bits_are_the_hosts() {
        let bits = |bits: i16| bits.cast_unsigned();
        assert_eq!(Ready::READ.bits(), bits(libc::POLLIN | libc::POLLRDNORM));
        assert_eq!(Ready::WRITE.bits(), bits(libc::POLLOUT | libc::POLLWRNORM));
        assert_eq!(Ready::PRIORITY.bits(), bits(libc::POLLPRI));
        assert_eq!(Ready::ERROR.bits(), bits(libc::POLLERR));
        assert_eq!(Ready::HANG_UP.bits(), bits(libc::POLLHUP));
        assert_eq!(Ready::READ_HANG_UP.bits(), bits(libc::POLLRDHUP));
        assert_eq!(i32::from(Ready::READ.bits()), libc::EPOLLIN | libc::EPOLLRDNORM);
        assert_eq!(i32::from(Ready::READ_HANG_UP.bits()), libc::EPOLLRDHUP);
    }

    #[test]
    fn watchers_are_woken_once_per_registration() {
        let watchers = Watchers::new();
        let all = counters(2);
        for (_, waker) in &all {
            watchers.watch(waker);
            watchers.watch(waker);
        }
        watchers.notify();
        watchers.notify();
        assert_eq!(counts(&all), [1, 1]);
        watchers.watch(&all[1].1);
        watchers.notify();
        assert_eq!(counts(&all), [1, 2]);
    }

    #[test]
    fn nobody_is_lost_when_there_are_too_many() {
        let watchers = Watchers::new();
        let all = counters(WATCHERS_MAX + 2);
        all.iter().for_each(|(_, waker)| watchers.watch(waker));
        // The first two had to make room, and were woken for it.
        assert_eq!(counts(&all)[..3], [1, 1, 0]);
        watchers.notify();
        assert!(counts(&all).iter().all(|count| *count == 1));
    }

    #[test]
    fn watchers_wake_as_one() {
        let watchers = Arc::new(Watchers::new());
        let all = counters(1);
        watchers.watch(&all[0].1);
        let waker = Waker::from(Arc::clone(&watchers));
        waker.wake_by_ref();
        watchers.watch(&all[0].1);
        waker.wake();
        assert_eq!(counts(&all), [2]);
    }

    #[test]
    fn a_change_between_the_look_and_the_registration_is_seen() {
        let watchers = Watchers::new();
        let changed = AtomicU32::new(0);
        let seen = executor::run_to_end(async move {
            let watch = |waker: &Waker| {
                // Just before it could be told.
                changed.store(7, Ordering::Relaxed);
                watchers.notify();
                watchers.watch(waker);
            };
            until(watch, || Some(changed.load(Ordering::Relaxed)).filter(|value| *value > 0)).await
        });
        assert_eq!(seen, Ok(7));
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let watchers = Watchers::new();
        let waited = executor::run_to_end(async move {
            let deadline_ns = executor::now_ns() + 5;
            until_or(deadline_ns, |waker| watchers.watch(waker), || None::<()>).await
        });
        assert_eq!(waited, Ok(Err(Elapsed)));
    }
}
