//! Standard streams of a job: output that waits while the user does not take it, input that waits until there is some.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use coppice_protocol::limits::{INPUT_WINDOW_BYTES, OUTPUT_WINDOW_BYTES};
use rustix::io::Errno;
use tokio::sync::{Notify, Semaphore};

use crate::files::Result;

/// The bytes of a job's output that may be under way to the user. Ranks are served in the order they came.
#[derive(Debug)]
pub(crate) struct OutputWindow {
    room: Semaphore,
    under_way: Cell<usize>,
}

impl Default for OutputWindow {
    fn default() -> Self {
        Self { room: Semaphore::new(OUTPUT_WINDOW_BYTES), under_way: Cell::new(0) }
    }
}

impl OutputWindow {
    /// Waits until so many bytes may be sent, and counts them as under way.
    ///
    /// # Errors
    /// `EIO` if there is never so much room.
    pub(crate) async fn take(&self, bytes: usize) -> Result<()> {
        let count = u32::try_from(bytes).ok().filter(|_| bytes <= OUTPUT_WINDOW_BYTES).ok_or(Errno::IO)?;
        self.room.acquire_many(count).await.map_err(|_| Errno::IO)?.forget();
        self.under_way.set(self.under_way.get() + bytes);
        Ok(())
    }

    /// The user took so many bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        // Never more than was sent, whatever the other side counts.
        let bytes = bytes.min(self.under_way.get());
        self.under_way.set(self.under_way.get() - bytes);
        self.room.add_permits(bytes);
    }
}

/// Standard input of a job, for the one rank that reads it.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: RefCell<VecDeque<u8>>,
    ended: Cell<bool>,
    /// More came than the window allows: what was kept is not the whole.
    overrun: Cell<bool>,
    changed: Notify,
}

impl Input {
    /// More input; none is the end.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut buffer = self.buffer.borrow_mut();
        if bytes.is_empty() {
            self.ended.set(true);
        } else if self.ended.get() || buffer.len() + bytes.len() > INPUT_WINDOW_BYTES {
            tracing::error!(bytes = bytes.len(), "input beyond its end or its window");
            self.overrun.set(true);
        } else {
            buffer.extend(bytes);
        }
        self.changed.notify_waiters();
    }

    fn is_ready(&self) -> bool {
        !self.buffer.borrow().is_empty() || self.ended.get() || self.overrun.get()
    }

    /// Waits until a read would return.
    pub(crate) async fn ready(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_ready() {
                return;
            }
            changed.await;
        }
    }

    /// Waits for input and takes at most `length` bytes of it; none at its end.
    ///
    /// # Errors
    /// `EIO` behind the point where input was lost.
    pub(crate) async fn read(&self, length: usize) -> Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        self.ready().await;
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() && self.overrun.get() {
            return Err(Errno::IO);
        }
        let count = length.min(buffer.len());
        Ok(buffer.drain(..count).collect())
    }
}

/// The end of a rank, for those of its calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    stopped: Cell<bool>,
    changed: Notify,
}

impl Stop {
    /// Every wait ends now, and later ones at once.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.changed.notify_waiters();
    }

    /// Runs `work` unless the rank is stopped before.
    ///
    /// # Errors
    /// `EINTR` then, else as `work`.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let stopped = async {
            loop {
                let changed = self.changed.notified();
                if self.stopped.get() {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            () = stopped => Err(Errno::INTR),
            result = work => result,
        }
    }
}
