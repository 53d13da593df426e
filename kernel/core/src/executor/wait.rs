//! Waiting for a condition that somebody else makes true.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{LockLevel, Mutex};
use alloc::vec::Vec;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// Tasks that wait for conditions. Whoever changes something that they wait for calls [`WaitQueue::wake_all`].
pub struct WaitQueue {
    waiters: Mutex<Waiters>,
}

struct Waiters {
    /// At most one per waiting future.
    wakers: Vec<(u64, Waker)>,
    next: u64,
}

impl WaitQueue {
    /// A queue with nobody in it.
    #[must_use]
    pub const fn new() -> Self {
        Self { waiters: Mutex::new(LockLevel::Waiters, Waiters { wakers: Vec::new(), next: 0 }) }
    }

    /// Waits until `condition` returns something. It is called under no lock of the queue, first at once and then after
    /// each [`Self::wake_all`]; dropping the future has no effect but to stop waiting.
    pub fn wait_until<T, F: FnMut() -> Option<T> + Unpin>(&self, condition: F) -> WaitUntil<'_, F> {
        WaitUntil { queue: self, condition, registered: None }
    }

    /// Lets everybody look at their condition again.
    pub fn wake_all(&self) {
        let wakers = core::mem::take(&mut self.waiters.lock().wakers);
        for (_, waker) in wakers {
            waker.wake();
        }
    }

    fn register(&self, known: Option<u64>, waker: &Waker) -> u64 {
        let mut waiters = self.waiters.lock();
        let id = known.unwrap_or_else(|| {
            waiters.next += 1;
            waiters.next
        });
        match waiters.wakers.iter_mut().find(|(other, _)| *other == id) {
            Some((_, registered)) => registered.clone_from(waker),
            None => waiters.wakers.push((id, waker.clone())),
        }
        id
    }

    fn unregister(&self, id: u64) {
        self.waiters.lock().wakers.retain(|(other, _)| *other != id);
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// See [`WaitQueue::wait_until`].
#[must_use = "futures do nothing unless awaited"]
pub struct WaitUntil<'a, F> {
    queue: &'a WaitQueue,
    condition: F,
    registered: Option<u64>,
}

impl<T, F: FnMut() -> Option<T> + Unpin> Future for WaitUntil<'_, F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = (self.condition)() {
            return Poll::Ready(value);
        }
        let id = self.queue.register(self.registered, context.waker());
        self.registered = Some(id);
        // It may have become true on another core between the look and the registration.
        match (self.condition)() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for WaitUntil<'_, F> {
    fn drop(&mut self) {
        if let Some(id) = self.registered {
            self.queue.unregister(id);
        }
    }
}

/// A flag that one task waits for and anybody raises.
pub struct Notify {
    raised: AtomicBool,
    queue: WaitQueue,
}

impl Notify {
    /// A flag that is down.
    #[must_use]
    pub const fn new() -> Self {
        Self { raised: AtomicBool::new(false), queue: WaitQueue::new() }
    }

    /// Raises the flag.
    pub fn notify(&self) {
        self.raised.store(true, Ordering::Release);
        self.queue.wake_all();
    }

    /// Waits until the flag is up, and takes it down.
    pub async fn notified(&self) {
        self.queue.wait_until(|| self.raised.swap(false, Ordering::AcqRel).then_some(())).await;
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}
