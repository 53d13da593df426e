//! Readiness: what can be done with an open file without waiting, and being told when that changes.
//!
//! Whoever waits for a file registers a waker with it ([`Watchers::watch`]), *then* looks at what is the case, and
//! waits only if that is not what it wants. Whoever changes something changes it first and then calls
//! [`Watchers::notify`]. So a waker may be woken for nothing, but no change is missed. A waker is forgotten when it is
//! woken; who goes on waiting registers again.

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::future::poll_fn;
use core::sync::atomic::{AtomicU16, Ordering};
use core::task::{Poll, Waker};

use bitflags::bitflags;
use coppice_hal::heap::block_bytes;

use crate::errno::Errno;
use crate::executor::{self, Elapsed};
use crate::limits::{WATCHERS_FREE, WATCHERS_MAX};
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

bitflags! {
    /// What holds of an open file now. The bits are those of poll(2) and epoll(7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Ready: u16 {
        /// It can be read (`POLLIN`, `POLLRDNORM`).
        const READ = 0x041;
        /// It can be read, which is all it says of that (`POLLIN`): counters, timers and signals.
        const INPUT = 0x001;
        /// It can be written, and that is all (`POLLOUT`): counters.
        const OUTPUT = 0x004;
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
/// longest is woken, and may register again. The memory for more than [`WATCHERS_FREE`] is charged to whose file it is.
pub(crate) struct Watchers {
    list: Mutex<List>,
    quota: Arc<Quota>,
}

/// Wakers, and what their memory was charged with.
#[derive(Default)]
struct List {
    wakers: Vec<Waker>,
    charge: Option<Charge>,
}

impl List {
    /// Adds a waker if there is room, or if `charge` is enough for more room: then that takes the place of the list's
    /// own. Says how many bytes must be charged if not.
    fn add(&mut self, waker: &Waker, charge: &mut Option<Charge>) -> Result<(), usize> {
        let (length, capacity) = (self.wakers.len(), self.wakers.capacity());
        if length == capacity {
            let wanted = (2 * capacity).clamp(WATCHERS_FREE, WATCHERS_MAX);
            let bytes = if wanted <= WATCHERS_FREE { 0 } else { block_bytes(wanted * size_of::<Waker>()) };
            if bytes > charge.as_ref().map_or(0, Charge::bytes) {
                return Err(bytes);
            }
            if self.wakers.try_reserve_exact(wanted - length).is_err() {
                return Err(usize::MAX);
            }
            core::mem::swap(&mut self.charge, charge);
        }
        self.wakers.push(waker.clone());
        Ok(())
    }
}

impl Watchers {
    /// What those take of the heap that are not charged here, bytes.
    pub(crate) const BYTES_FREE: usize = block_bytes(WATCHERS_FREE * size_of::<Waker>());

    /// Nobody.
    pub(crate) fn new(quota: &Arc<Quota>) -> Self {
        let list = List { wakers: Vec::new(), charge: None };
        Self { list: Mutex::new(LockLevel::Watchers, list), quota: Arc::clone(quota) }
    }

    /// Has `waker` woken at the next change. It may be woken before, for nothing.
    ///
    /// # Errors
    /// `ENOMEM`: it is woken now, and not at the next change.
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        let mut charge = None;
        loop {
            let (added, excess) = {
                let mut list = self.list.lock();
                if list.wakers.iter().any(|known| known.will_wake(waker)) {
                    return Ok(());
                }
                let excess = (list.wakers.len() >= WATCHERS_MAX).then(|| list.wakers.remove(0));
                (list.add(waker, &mut charge), excess)
            };
            // Outside the lock, for waking may lead back here.
            if let Some(waker) = excess {
                waker.wake();
            }
            let Err(bytes) = added else { return Ok(()) };
            match self.quota.charge(bytes) {
                Ok(more) => charge = Some(more),
                Err(errno) => {
                    waker.wake_by_ref();
                    return Err(errno);
                }
            }
        }
    }

    /// Something has changed.
    pub(crate) fn notify(&self) {
        let mut woken = {
            let mut list = self.list.lock();
            if list.wakers.is_empty() {
                return;
            }
            core::mem::take(&mut *list)
        };
        woken.wakers.drain(..).for_each(Waker::wake);
        // The memory is good for those who register again.
        let mut list = self.list.lock();
        if list.wakers.capacity() == 0 {
            *list = woken;
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
pub(crate) async fn until<T>(watch: impl Fn(&Waker), attempt: impl FnMut() -> Option<T>) -> T {
    let watch = |waker: &Waker| {
        watch(waker);
        Ok::<(), Infallible>(())
    };
    match until_watched(watch, attempt).await {
        Ok(value) => value,
    }
}

/// As [`until`], if not every waker can be registered.
///
/// # Errors
/// What `watch` says, if `attempt` gave nothing.
pub(crate) fn until_watched<T, E>(
    watch: impl Fn(&Waker) -> Result<(), E>,
    mut attempt: impl FnMut() -> Option<T>,
) -> impl Future<Output = Result<T, E>> {
    poll_fn(move |context| {
        if let Some(value) = attempt() {
            return Poll::Ready(Ok(value));
        }
        let watched = watch(context.waker());
        match (attempt(), watched) {
            (Some(value), _) => Poll::Ready(Ok(value)),
            (None, Err(error)) => Poll::Ready(Err(error)),
            (None, Ok(())) => Poll::Pending,
        }
    })
}

/// As [`until_watched`], but no longer than the monotonic clock shows `deadline_ns`.
///
/// # Errors
/// [`Elapsed`], or what `watch` says.
pub(crate) fn until_or<T>(
    deadline_ns: u64,
    watch: impl Fn(&Waker) -> Result<(), Errno>,
    attempt: impl FnMut() -> Option<T>,
) -> impl Future<Output = Result<Result<T, Errno>, Elapsed>> {
    executor::timeout_at(deadline_ns, until_watched(watch, attempt))
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicU32, Ordering};
    use core::task::Waker;

    use super::{Elapsed, Ready, WATCHERS_MAX, Watchers, until_or, until_watched};
    use crate::errno::Errno;
    use crate::executor;
    use crate::limits::WATCHERS_FREE;
    use crate::quota::tests::quota;
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
        let watchers = Watchers::new(&quota());
        let all = counters(2);
        for (_, waker) in &all {
            watchers.watch(waker).expect("memory");
            watchers.watch(waker).expect("memory");
        }
        watchers.notify();
        watchers.notify();
        assert_eq!(counts(&all), [1, 1]);
        watchers.watch(&all[1].1).expect("memory");
        watchers.notify();
        assert_eq!(counts(&all), [1, 2]);
    }

    #[test]
    fn nobody_is_lost_when_there_are_too_many() {
        let watchers = Watchers::new(&quota());
        let all = counters(WATCHERS_MAX + 2);
        all.iter().for_each(|(_, waker)| watchers.watch(waker).expect("memory"));
        // The first two had to make room, and were woken for it.
        assert_eq!(counts(&all)[..3], [1, 1, 0]);
        watchers.notify();
        assert!(counts(&all).iter().all(|count| *count == 1));
    }

    #[test]
    fn memory_for_watchers_is_charged_and_refused() {
        let quota = quota();
        let watchers = Watchers::new(&quota);
        let all = counters(WATCHERS_FREE + 1);
        let mut rest = quota.charge(0).expect("nothing");
        while rest.grow(16).is_ok() {}
        let (last, first) = all.split_last().expect("more than none");
        assert!(first.iter().all(|(_, waker)| watchers.watch(waker).is_ok()));
        assert_eq!(watchers.watch(&last.1), Err(Errno::ENOMEM));
        // It is woken, so that it does not wait for ever if it goes on, and is not among the others.
        assert_eq!(last.0.count(), 1);
        watchers.notify();
        assert_eq!(counts(&all), [1; WATCHERS_FREE + 1]);
        rest.shrink(4096);
        assert!(all.iter().all(|(_, waker)| watchers.watch(waker).is_ok()));
        assert!(quota.taken() > rest.bytes());
        watchers.notify();
        drop(watchers);
        assert_eq!(quota.taken(), rest.bytes());
    }

    #[test]
    fn watchers_wake_as_one() {
        let watchers = Arc::new(Watchers::new(&quota()));
        let all = counters(1);
        watchers.watch(&all[0].1).expect("memory");
        let waker = Waker::from(Arc::clone(&watchers));
        waker.wake_by_ref();
        watchers.watch(&all[0].1).expect("memory");
        waker.wake();
        assert_eq!(counts(&all), [2]);
    }

    #[test]
    fn a_change_between_the_look_and_the_registration_is_seen() {
        let watchers = Watchers::new(&quota());
        let changed = AtomicU32::new(0);
        let seen = executor::run_to_end(async move {
            let watch = |waker: &Waker| {
                // Just before it could be told.
                changed.store(7, Ordering::Relaxed);
                watchers.notify();
                watchers.watch(waker)
            };
            until_watched(watch, || Some(changed.load(Ordering::Relaxed)).filter(|value| *value > 0)).await
        });
        assert_eq!(seen, Ok(Ok(7)));
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
        let watchers = Watchers::new(&quota());
        let waited = executor::run_to_end(async move {
            let deadline_ns = executor::now_ns() + 5;
            until_or(deadline_ns, |waker| watchers.watch(waker), || None::<()>).await
        });
        assert_eq!(waited, Ok(Err(Elapsed)));
    }
}
