//! What tests with wakers need.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};

/// Counts what each test holds.
#[global_allocator]
static ALLOCATOR: coppice_hal::heap::Counting = coppice_hal::heap::Counting;

struct Parked(std::thread::Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps while it waits. For futures that other threads wake.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Parked(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Counts how often it is woken.
#[derive(Default)]
pub(crate) struct WakeCounter(AtomicU32);

impl WakeCounter {
    /// A counter, and what it counts the wakes of.
    pub(crate) fn new() -> (Arc<Self>, Waker) {
        let counter = Arc::<Self>::default();
        (Arc::clone(&counter), counter.into())
    }

    /// How often it was woken.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
