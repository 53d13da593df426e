//! A place for one value that one task puts and another takes.

use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use crate::sync::{LockLevel, Mutex};

struct Shared<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// A sender and a receiver of one value.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Mutex::new(
        LockLevel::Waiters,
        Shared { value: None, waker: None, sender_gone: false, receiver_gone: false },
    ));
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// Puts the value.
pub struct Sender<T>(Arc<Mutex<Shared<T>>>);

impl<T> Sender<T> {
    /// Puts the value and wakes the receiver.
    ///
    /// # Errors
    /// Gives the value back if nobody waits for it any more.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut shared = self.0.lock();
        if shared.receiver_gone {
            return Err(value);
        }
        shared.value = Some(value);
        Ok(())
        // The receiver is woken when the sender is dropped, which is now.
    }

    /// Whether nobody waits for the value any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.lock().receiver_gone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut shared = self.0.lock();
            shared.sender_gone = true;
            shared.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Waits for the value: a future of it, or of [`Lost`].
pub struct Receiver<T>(Arc<Mutex<Shared<T>>>);

/// The sender went away without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody is left to answer")]
pub struct Lost;

impl<T> Receiver<T> {
    /// The value, if it is there.
    pub fn take(&mut self) -> Option<T> {
        self.0.lock().value.take()
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Lost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.0.lock();
        match shared.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None if shared.sender_gone => Poll::Ready(Err(Lost)),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.receiver_gone = true;
        let value = shared.value.take();
        drop(shared);
        drop(value);
    }
}
