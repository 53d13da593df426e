//! Where a rank speaks with PMI or PMIx, be it at the descriptor that it inherits or at a socket that it has connected:
//! what it writes is answered at once, in the call itself, but for what waits for others.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use coppice_protocol::ids::Rank;

use super::dialogue::Dialogue;
use super::job::Job;
use super::speech::Speech;
use crate::errno::Errno;
use crate::files::readiness::Ready;
use crate::files::stream::{Sink, Source, Stream, Taken};
use crate::files::{Service, serial};
use crate::sync::{LockLevel, Mutex};

/// See this module.
pub(crate) struct Endpoint {
    job: Arc<Job>,
    rank: Rank,
    dialogue: Mutex<Dialogue>,
    /// Tells it from other sockets.
    serial: u64,
}

impl Endpoint {
    /// For a rank of the job, which speaks so.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(job: Arc<Job>, rank: Rank, speech: Speech) -> Result<Self, Errno> {
        let dialogue = Dialogue::new(Arc::clone(&job), speech)?;
        Ok(Self { job, rank, dialogue: Mutex::new(LockLevel::OpenFile, dialogue), serial: serial() })
    }

    /// That of a rank that goes on from what was written down ([`Service::record`]).
    ///
    /// # Errors
    /// `EINVAL`: nothing was written down like that.
    pub(super) fn again(job: Arc<Job>, rank: Rank, record: &[u8]) -> Result<Self, Errno> {
        let dialogue = Dialogue::again(Arc::clone(&job), record)?;
        if dialogue.rank().is_some_and(|of| of != rank) {
            return Err(Errno::EINVAL);
        }
        Ok(Self { job, rank, dialogue: Mutex::new(LockLevel::OpenFile, dialogue), serial: serial() })
    }
}

impl Service for Endpoint {
    fn record(&self) -> Result<Vec<u8>, Errno> {
        self.dialogue.lock().record()
    }

    fn ready(&self) -> Ready {
        let mut dialogue = self.dialogue.lock();
        dialogue.go_on();
        let is_over = dialogue.is_over();
        let mut ready = Ready::empty();
        ready.set(Ready::READ, is_over || !dialogue.said().is_empty());
        ready.set(Ready::WRITE, is_over || dialogue.has_room());
        ready.set(Ready::READ_HANG_UP, is_over);
        ready
    }

    fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.job.watch_rank(self.rank, waker)
    }

    fn held(&self) -> usize {
        self.dialogue.lock().said().len()
    }

    fn serial(&self) -> u64 {
        self.serial
    }
}

impl Stream for Endpoint {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        let taken = {
            let mut dialogue = self.dialogue.lock();
            dialogue.go_on();
            let said = dialogue.said();
            if said.is_empty() {
                return if dialogue.is_over() { Ok(Taken { copied: 0, length: 0 }) } else { Err(Errno::EAGAIN) };
            }
            let length = said.len();
            let copied = sink(&said[..length.min(limit)]);
            if !peek {
                dialogue.told(copied);
            }
            Taken { copied, length }
        };
        self.job.notify_rank(self.rank);
        Ok(taken)
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        let count = {
            let mut dialogue = self.dialogue.lock();
            if dialogue.is_over() {
                return Err(Errno::EPIPE);
            }
            if !dialogue.has_room() {
                return Err(Errno::EAGAIN);
            }
            dialogue.hear(length, source)
        };
        self.job.notify_rank(self.rank);
        Ok(count)
    }
}
