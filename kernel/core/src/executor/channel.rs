//! A bounded queue from several tasks to one.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use spin::Mutex;

use super::wait::WaitQueue;

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    changed: WaitQueue,
}

struct Queue<T> {
    messages: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receiver_gone: bool,
}

/// A queue of at most `capacity` messages.
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Queue { messages: VecDeque::new(), capacity, senders: 1, receiver_gone: false };
    let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: WaitQueue::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// Why a message did not go; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError<T> {
    /// The queue is full.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Puts messages in.
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Puts a message in if there is room.
    ///
    /// # Errors
    /// [`SendError`] with the message.
    pub fn try_send(&self, message: T) -> Result<(), SendError<T>> {
        {
            let mut queue = self.0.queue.lock();
            if queue.receiver_gone {
                return Err(SendError::Closed(message));
            }
            if queue.messages.len() >= queue.capacity {
                return Err(SendError::Full(message));
            }
            queue.messages.push_back(message);
        }
        self.0.changed.wake_all();
        Ok(())
    }

    /// Puts a message in, waiting for room.
    ///
    /// # Errors
    /// The message, if the receiver is gone.
    pub async fn send(&self, message: T) -> Result<(), T>
    where
        T: Unpin,
    {
        let mut message = Some(message);
        self.0
            .changed
            .wait_until(|| match self.try_send(message.take()?) {
                Ok(()) => Some(Ok(())),
                Err(SendError::Closed(message)) => Some(Err(message)),
                Err(SendError::Full(back)) => {
                    message = Some(back);
                    None
                }
            })
            .await
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.queue.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.queue.lock().senders -= 1;
        self.0.changed.wake_all();
    }
}

/// Takes messages out, in the order they came.
pub struct Receiver<T>(Arc<Shared<T>>);

impl<T> Receiver<T> {
    /// The next message, if there is one.
    pub fn try_receive(&mut self) -> Option<T> {
        let message = self.0.queue.lock().messages.pop_front()?;
        self.0.changed.wake_all();
        Some(message)
    }

    /// Waits for the next message. `None`: there is none and no sender is left. Cancel-safe.
    pub async fn receive(&mut self) -> Option<T> {
        let shared = Arc::clone(&self.0);
        let received = shared
            .changed
            .wait_until(|| {
                let mut queue = shared.queue.lock();
                match queue.messages.pop_front() {
                    Some(message) => Some(Some(message)),
                    None => (queue.senders == 0).then_some(None),
                }
            })
            .await;
        shared.changed.wake_all();
        received
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let messages = {
            let mut queue = self.0.queue.lock();
            queue.receiver_gone = true;
            core::mem::take(&mut queue.messages)
        };
        drop(messages);
        self.0.changed.wake_all();
    }
}
