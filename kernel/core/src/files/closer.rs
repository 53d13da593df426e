//! Giving handles back to the I/O node without anybody waiting for it: first what was written with them, if nobody else
//! can write that.

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};

use coppice_protocol::ship::{Call, Handle, Known, Reply};

use super::cache::{CachedFile, FileCache};
use crate::executor;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// Closes a process's handles, one after the other, in a task of its own that runs while there are any. Its queue is
/// never longer than the handles a process may have.
#[derive(Clone)]
pub(crate) struct Closer(Arc<Shared>);

struct Shared {
    client: Client,
    cache: Arc<FileCache>,
    queue: Mutex<Queue>,
}

struct Queue {
    handles: VecDeque<Closing>,
    /// A task is at it.
    running: bool,
    /// The process is at its end: the I/O node closes what is left by itself.
    abandoned: bool,
}

/// A handle, and the file that it is of if something is known of that.
type Closing = (Handle, Option<Arc<CachedFile>>);

impl Closer {
    /// Closes with this client's calls.
    pub(crate) fn new(client: Client, cache: Arc<FileCache>) -> Self {
        let holder: Weak<FileCache> = Arc::downgrade(&cache);
        client.has_leases(holder);
        let queue = Queue { handles: VecDeque::new(), running: false, abandoned: false };
        Self(Arc::new(Shared { client, cache, queue: Mutex::new(LockLevel::Outbox, queue) }))
    }

    /// Whose handles they are.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// What is known of files.
    pub(crate) fn cache(&self) -> &Arc<FileCache> {
        &self.0.cache
    }

    /// Closes a handle soon.
    pub(crate) fn close(&self, handle: Handle, file: Option<Arc<CachedFile>>) {
        let file = file.filter(|file| !self.is_written(handle, file));
        {
            let mut queue = self.0.queue.lock();
            if queue.abandoned {
                drop(queue);
                return self.let_go(handle, file.as_ref());
            }
            queue.handles.push_back((handle, file));
            if core::mem::replace(&mut queue.running, true) {
                return;
            }
        }
        let shared = Arc::clone(&self.0);
        let spawned = executor::spawn_on(0, async move {
            while let Some((handle, file)) = shared.next() {
                if let Some(file) = file {
                    while !file.stops_writing(&shared.client, handle) {
                        file.can_stop(&shared.client, handle).await;
                    }
                    shared.cache.closed(file.identity());
                }
                // A handle that cannot be closed is closed with the rank.
                let asked = shared.cache.names().ask();
                let answer = shared.client.look(Call::Close(handle)).await;
                if let Ok((Reply::Known(keeping, Known::Status(status)), _)) = answer {
                    shared.cache.names().told_status(asked, keeping, &status);
                }
            }
        });
        if spawned.is_err() {
            // The next close tries again.
            self.0.queue.lock().running = false;
        }
    }

    /// Closes nothing more.
    pub(crate) fn abandon(&self) {
        let handles = {
            let mut queue = self.0.queue.lock();
            queue.abandoned = true;
            core::mem::take(&mut queue.handles)
        };
        for (handle, file) in handles {
            self.let_go(handle, file.as_ref());
        }
    }

    /// Whether nothing that is to be written back needs a handle, which then is nothing any more to who knows the file.
    fn is_written(&self, handle: Handle, file: &Arc<CachedFile>) -> bool {
        let is_written = file.stops_writing(&self.0.client, handle);
        if is_written {
            self.0.cache.closed(file.identity());
        }
        is_written
    }

    /// A handle goes with its rank, which has written all it had.
    fn let_go(&self, handle: Handle, file: Option<&Arc<CachedFile>>) {
        if let Some(file) = file {
            file.writes_no_more(&self.0.client, handle);
            self.0.cache.closed(file.identity());
        }
    }
}

impl Shared {
    fn next(&self) -> Option<Closing> {
        let mut queue = self.queue.lock();
        let handle = queue.handles.pop_front();
        queue.running = handle.is_some();
        handle
    }
}
