//! The descriptor at which a rank speaks with PMI: what it writes is answered at once, in the call itself, but for
//! barriers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;

use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMI_LINE_BYTES_MAX};
use coppice_protocol::pmi::Conversation;
use spin::Mutex;

use super::job::Job;
use crate::errno::Errno;
use crate::files::readiness::Ready;
use crate::files::serial;
use crate::files::stream::{Sink, Source, Stream, Taken};

/// See this module. When it is dropped, the rank has closed it, which ends its talk if there was one.
pub(crate) struct Endpoint {
    job: Arc<Job>,
    rank: Rank,
    talk: Mutex<Talk>,
    /// Tells it from other sockets.
    pub(crate) serial: u64,
}

struct Talk {
    conversation: Conversation,
    /// What the rank has said and was not heard, because it does not read the answers to what it said before: at most
    /// [`PMI_LINE_BYTES_MAX`] bytes.
    unheard: Vec<u8>,
}

impl Talk {
    /// Has the rank told what it waits for, and hears what it said before.
    fn go_on(&mut self, job: &Arc<Job>) {
        job.with(|server, now_ns| {
            self.conversation.poll(server);
            let heard = self.conversation.handle_bytes(&self.unheard, server, now_ns);
            self.unheard.drain(..heard);
        });
    }

    fn has_room(&self) -> bool {
        self.unheard.is_empty() && self.conversation.transmit().len() < PMI_ANSWER_BYTES_MAX
    }

    /// Whether nothing will be said any more.
    fn is_over(&self, job: &Job) -> bool {
        self.conversation.is_over() || job.is_over()
    }
}

impl Endpoint {
    /// For a rank of the job.
    pub(super) fn new(job: Arc<Job>, rank: Rank) -> Self {
        let talk = Talk { conversation: Conversation::on_descriptor(rank), unheard: Vec::new() };
        Self { job, rank, talk: Mutex::new(talk), serial: serial() }
    }

    /// See [`crate::files::OpenFile::ready`].
    pub(crate) fn ready(&self) -> Ready {
        let mut talk = self.talk.lock();
        talk.go_on(&self.job);
        let is_over = talk.is_over(&self.job);
        let mut ready = Ready::empty();
        ready.set(Ready::READ, is_over || !talk.conversation.transmit().is_empty());
        ready.set(Ready::WRITE, is_over || talk.has_room());
        ready.set(Ready::READ_HANG_UP, is_over);
        ready
    }

    /// See [`crate::files::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) {
        self.job.watch_rank(self.rank, waker);
    }

    /// Bytes that can be read.
    pub(crate) fn held(&self) -> usize {
        self.talk.lock().conversation.transmit().len()
    }
}

impl Stream for Endpoint {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        let taken = {
            let mut talk = self.talk.lock();
            talk.go_on(&self.job);
            let said = talk.conversation.transmit();
            if said.is_empty() {
                return if talk.is_over(&self.job) { Ok(Taken { copied: 0, length: 0 }) } else { Err(Errno::EAGAIN) };
            }
            let length = said.len();
            let copied = sink(&said[..length.min(limit)]);
            if !peek {
                talk.conversation.consume(copied);
                talk.go_on(&self.job);
            }
            Taken { copied, length }
        };
        self.job.notify_rank(self.rank);
        Ok(taken)
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        let count = {
            let mut talk = self.talk.lock();
            if talk.is_over(&self.job) {
                return Err(Errno::EPIPE);
            }
            if !talk.has_room() {
                return Err(Errno::EAGAIN);
            }
            talk.unheard.resize(length.min(PMI_LINE_BYTES_MAX), 0);
            let count = source(&mut talk.unheard);
            talk.unheard.truncate(count);
            talk.go_on(&self.job);
            count
        };
        self.job.notify_rank(self.rank);
        Ok(count)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Who has said nothing here may speak elsewhere.
        if self.talk.get_mut().conversation.rank().is_some() {
            self.job.with(|server, now_ns| server.rank_closed(self.rank, now_ns));
        }
    }
}
