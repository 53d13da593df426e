//! Timers: who wants to be woken when. Removed when their sleeper is dropped, so there are never more than sleepers.

use crate::sync::atomic::{AtomicU64, Ordering};
use alloc::collections::BTreeMap;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::core_state::{CoreState, current};
use super::platform;
use crate::sync::{LockLevel, Mutex};

/// When a timer rings (ns), and a number that tells those of one instant apart.
type Key = (u64, u64);

/// The timers of one core.
pub(super) struct Timers {
    sleepers: Mutex<BTreeMap<Key, Waker>>,
    /// The first sleeper's time, ns, for a look without the lock.
    next_ns: AtomicU64,
    sequence: AtomicU64,
}

impl Timers {
    /// A time that does not come.
    pub(super) const NEVER: u64 = u64::MAX;

    pub(super) const fn new() -> Self {
        Self {
            sleepers: Mutex::new(LockLevel::Timers, BTreeMap::new()),
            next_ns: AtomicU64::new(Self::NEVER),
            sequence: AtomicU64::new(0),
        }
    }

    /// When the first timer rings, ns, or [`Self::NEVER`].
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns.load(Ordering::Relaxed)
    }

    /// Wakes everybody whose time has come.
    pub(super) fn fire(&self, now_ns: u64) {
        while self.next_ns() <= now_ns {
            let due = self.change(|sleepers| sleepers.pop_first());
            if let Some((_, waker)) = due {
                waker.wake();
            }
        }
    }

    fn insert(&self, deadline_ns: u64, waker: Waker) -> Key {
        let key = (deadline_ns, self.sequence.fetch_add(1, Ordering::Relaxed));
        self.change(|sleepers| sleepers.insert(key, waker));
        key
    }

    fn change<R>(&self, f: impl FnOnce(&mut BTreeMap<Key, Waker>) -> R) -> R {
        let mut sleepers = self.sleepers.lock();
        let result = f(&mut sleepers);
        let next_ns = sleepers.first_key_value().map_or(Self::NEVER, |(key, _)| key.0);
        self.next_ns.store(next_ns, Ordering::Relaxed);
        result
    }
}

/// Wakes a waker at a time. It is forgotten when this is dropped.
pub(crate) struct Alarm {
    core: &'static CoreState,
    key: Key,
}

/// Has `waker` woken when the monotonic clock shows `deadline_ns`, by the core that runs, whatever that does then.
pub(crate) fn alarm(deadline_ns: u64, waker: Waker) -> Alarm {
    let core = current();
    let key = core.timers.insert(deadline_ns, waker);
    // The core may go back to its program without looking at its timers.
    core.arm(deadline_ns);
    Alarm { core, key }
}

impl Alarm {
    /// Whether it has woken its waker, or is about to.
    pub(crate) fn has_rung(&self) -> bool {
        !self.core.timers.sleepers.lock().contains_key(&self.key)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.core.timers.change(|sleepers| sleepers.remove(&self.key));
    }
}

/// Waits until the monotonic clock shows `deadline_ns` ([`u64::MAX`]: for ever).
pub fn sleep_until(deadline_ns: u64) -> Sleep {
    Sleep { deadline_ns, registered: None }
}

/// Waits for `duration_ns`.
pub fn sleep(duration_ns: u64) -> Sleep {
    sleep_until(platform::now_ns().saturating_add(duration_ns))
}

/// See [`sleep_until`].
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    deadline_ns: u64,
    registered: Option<(&'static CoreState, Key)>,
}

impl Sleep {
    fn unregister(&mut self) {
        if let Some((core, key)) = self.registered.take() {
            core.timers.change(|sleepers| sleepers.remove(&key));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Whoever waits without a limit need not know what time it is.
        if self.deadline_ns == Timers::NEVER {
            return Poll::Pending;
        }
        if platform::now_ns() >= self.deadline_ns {
            self.unregister();
            return Poll::Ready(());
        }
        if let Some((core, key)) = self.registered {
            let known = core.timers.change(|sleepers| match sleepers.get_mut(&key) {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    true
                }
                None => false,
            });
            if known {
                return Poll::Pending;
            }
        }
        let core = current();
        self.registered = Some((core, core.timers.insert(self.deadline_ns, context.waker().clone())));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.unregister();
    }
}
