//! What a rank and this node say to each other, wherever they do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::Rank;
use coppice_protocol::limits::PMI_ANSWER_BYTES_MAX;

use super::job::Job;
use super::speech::Speech;
use crate::errno::Errno;
use crate::quota::Charge;

/// See this module. When it is dropped, the rank has closed it, if it has ever said anything.
pub(super) struct Dialogue {
    job: Arc<Job>,
    speech: Speech,
    /// What the rank has said and was not heard, because it does not read the answers to what it said before: at most
    /// [`Speech::heard_bytes_max`] bytes.
    unheard: Vec<u8>,
    /// The memory that the speech takes.
    charge: Charge,
}

impl Dialogue {
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(job: Arc<Job>, speech: Speech) -> Result<Self, Errno> {
        Self::with(job, speech, Vec::new())
    }

    fn with(job: Arc<Job>, speech: Speech, unheard: Vec<u8>) -> Result<Self, Errno> {
        let charge = job.quota().charge(speech.memory_bytes())?;
        Ok(Self { job, speech, unheard, charge })
    }

    /// What was said and is not heard yet, on both sides.
    pub(super) fn record(&self) -> Result<Vec<u8>, Errno> {
        postcard::to_allocvec(&(&self.speech, &self.unheard)).map_err(|_| Errno::ENOMEM)
    }

    /// One that goes on from what was written down.
    ///
    /// # Errors
    /// `EINVAL`: nothing was written down like that. `ENOMEM`.
    pub(super) fn again(job: Arc<Job>, record: &[u8]) -> Result<Self, Errno> {
        let (speech, unheard): (Speech, Vec<u8>) = postcard::from_bytes(record).map_err(|_| Errno::EINVAL)?;
        if unheard.len() > speech.heard_bytes_max() || !speech.is_within_limits() {
            return Err(Errno::EINVAL);
        }
        Self::with(job, speech, unheard)
    }

    /// What it has grown to is charged; what it has shrunk to as well.
    fn pay(&mut self) {
        let bytes = self.speech.memory_bytes();
        if bytes > self.charge.bytes() && self.charge.grow(bytes - self.charge.bytes()).is_err() {
            self.speech.out_of_memory();
        } else if bytes < self.charge.bytes() {
            self.charge.shrink(self.charge.bytes() - bytes);
        }
    }

    /// Who the rank is, once it has said something.
    pub(super) fn rank(&self) -> Option<Rank> {
        self.speech.rank()
    }

    /// Has the rank told what it waits for, and hears what it said before.
    pub(super) fn go_on(&mut self) {
        self.job.with(|server, now_ns| {
            self.speech.poll(server, now_ns);
            let heard = self.speech.handle_bytes(&self.unheard, server, now_ns);
            self.unheard.drain(..heard);
        });
        self.pay();
    }

    /// Whether the rank may say something.
    pub(super) fn has_room(&self) -> bool {
        self.unheard.is_empty() && self.speech.transmit().len() < PMI_ANSWER_BYTES_MAX
    }

    /// Has `source` put up to `length` bytes of what the rank says, if there is room, and hears them. Returns how many
    /// there were.
    pub(super) fn hear(&mut self, length: usize, source: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.unheard.resize(length.min(self.speech.heard_bytes_max()), 0);
        let count = source(&mut self.unheard);
        self.unheard.truncate(count);
        self.go_on();
        count
    }

    /// What the rank is to be told.
    pub(super) fn said(&self) -> &[u8] {
        self.speech.transmit()
    }

    /// It was told so much of that.
    pub(super) fn told(&mut self, count: usize) {
        self.speech.consume(count);
        self.go_on();
    }

    /// Whether nothing more will be said than [`Self::said`].
    pub(super) fn is_over(&self) -> bool {
        self.speech.is_over() || self.job.is_over()
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
