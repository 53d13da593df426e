//! Giving handles back to the I/O node without anybody waiting for it.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ship::{Call, Handle};

use crate::executor;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// Closes a process's handles, one after the other, in a task of its own that runs while there are any. Its queue is
/// never longer than the handles a process may have.
#[derive(Clone)]
pub(crate) struct Closer(Arc<Shared>);

struct Shared {
    client: Client,
    queue: Mutex<Queue>,
}

struct Queue {
    handles: VecDeque<Handle>,
    /// A task is at it.
    running: bool,
    /// The process is at its end: the I/O node closes what is left by itself.
    abandoned: bool,
}

impl Closer {
    /// Closes with this client's calls.
    pub(crate) fn new(client: Client) -> Self {
        let queue = Queue { handles: VecDeque::new(), running: false, abandoned: false };
        Self(Arc::new(Shared { client, queue: Mutex::new(LockLevel::Outbox, queue) }))
    }

    /// Closes a handle soon.
    pub(crate) fn close(&self, handle: Handle) {
        {
            let mut queue = self.0.queue.lock();
            if queue.abandoned {
                return;
            }
            queue.handles.push_back(handle);
            if core::mem::replace(&mut queue.running, true) {
                return;
            }
        }
        let shared = Arc::clone(&self.0);
        let spawned = executor::spawn_on(0, async move {
            while let Some(handle) = shared.next() {
                // A handle that cannot be closed is closed with the rank.
                let _ = shared.client.call(Call::Close(handle), Vec::new()).await;
            }
        });
        if spawned.is_err() {
            // The next close tries again.
            self.0.queue.lock().running = false;
        }
    }

    /// Closes nothing more.
    pub(crate) fn abandon(&self) {
        let mut queue = self.0.queue.lock();
        queue.abandoned = true;
        queue.handles.clear();
    }
}

impl Shared {
    fn next(&self) -> Option<Handle> {
        let mut queue = self.queue.lock();
        let handle = queue.handles.pop_front();
        queue.running = handle.is_some();
        handle
    }
}
