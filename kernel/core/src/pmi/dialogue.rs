//! What a rank and this node say to each other, wherever they do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMI_LINE_BYTES_MAX};
use coppice_protocol::pmi::Conversation;

use super::job::Job;
use crate::errno::Errno;

/// See this module. When it is dropped, the rank has closed it, if it has ever said anything.
pub(super) struct Dialogue {
    job: Arc<Job>,
    conversation: Conversation,
    /// What the rank has said and was not heard, because it does not read the answers to what it said before: at most
    /// [`PMI_LINE_BYTES_MAX`] bytes.
    unheard: Vec<u8>,
}

impl Dialogue {
    pub(super) fn new(job: Arc<Job>, conversation: Conversation) -> Self {
        Self { job, conversation, unheard: Vec::new() }
    }

    /// What was said and is not heard yet, on both sides.
    pub(super) fn record(&self) -> Result<Vec<u8>, Errno> {
        postcard::to_allocvec(&(&self.conversation, &self.unheard)).map_err(|_| Errno::ENOMEM)
    }

    /// One that goes on from what was written down.
    pub(super) fn again(job: Arc<Job>, record: &[u8]) -> Result<Self, Errno> {
        let (conversation, unheard): (_, Vec<u8>) = postcard::from_bytes(record).map_err(|_| Errno::EINVAL)?;
        if unheard.len() > PMI_LINE_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        Ok(Self { job, conversation, unheard })
    }

    /// Who the rank is, once it has said something.
    pub(super) fn rank(&self) -> Option<Rank> {
        self.conversation.rank()
    }

    /// Has the rank told what it waits for, and hears what it said before.
    pub(super) fn go_on(&mut self) {
        self.job.with(|server, now_ns| {
            self.conversation.poll(server);
            let heard = self.conversation.handle_bytes(&self.unheard, server, now_ns);
            self.unheard.drain(..heard);
        });
    }

    /// Whether the rank may say something.
    pub(super) fn has_room(&self) -> bool {
        self.unheard.is_empty() && self.conversation.transmit().len() < PMI_ANSWER_BYTES_MAX
    }

    /// Has `source` put up to `length` bytes of what the rank says, if there is room, and hears them. Returns how many
    /// there were.
    pub(super) fn hear(&mut self, length: usize, source: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.unheard.resize(length.min(PMI_LINE_BYTES_MAX), 0);
        let count = source(&mut self.unheard);
        self.unheard.truncate(count);
        self.go_on();
        count
    }

    /// What the rank is to be told.
    pub(super) fn said(&self) -> &[u8] {
        self.conversation.transmit()
    }

    /// It was told so much of that.
    pub(super) fn told(&mut self, count: usize) {
        self.conversation.consume(count);
        self.go_on();
    }

    /// Whether nothing more will be said than [`Self::said`].
    pub(super) fn is_over(&self) -> bool {
        self.conversation.is_over() || self.job.is_over()
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        // Who has said nothing here may speak elsewhere.
        if let Some(rank) = self.rank() {
            self.job.with(|server, now_ns| server.rank_closed(rank, now_ns));
        }
    }
}
