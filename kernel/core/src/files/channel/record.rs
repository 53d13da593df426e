//! A channel as data.

use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Channel, Kind};
use crate::errno::Errno;
use crate::files::readiness::Level;
use crate::files::stream::copy_from;
use crate::quota::Quota;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChannelRecord {
    kind: Kind,
    /// What is in it.
    bytes: Vec<u8>,
    /// Lengths of the messages in it.
    lengths: Vec<u32>,
    limit: usize,
    reader_gone: bool,
    writer_gone: bool,
    writer_stopped: bool,
    reader_closed: bool,
    lost: bool,
}

impl Channel {
    /// Writes it down.
    pub(crate) fn record(&self) -> ChannelRecord {
        let state = self.state.lock();
        let mut bytes = Vec::new();
        state.ring.peek(state.ring.len(), &mut |part| {
            bytes.extend_from_slice(part);
            part.len()
        });
        ChannelRecord {
            kind: self.kind,
            bytes,
            lengths: state.lengths.iter().copied().collect(),
            limit: state.limit,
            reader_gone: state.reader_gone,
            writer_gone: state.writer_gone,
            writer_stopped: state.writer_stopped,
            reader_closed: state.reader_closed,
            lost: state.lost,
        }
    }
}

impl ChannelRecord {
    /// Makes it again, with these levels of the end that reads and the one that writes.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn make(self, levels: (&Level, &Level), quota: &Arc<Quota>) -> Result<Arc<Channel>, Errno> {
        let channel = Channel::new(self.kind, self.limit.max(self.bytes.len()), levels, quota)?;
        {
            let mut state = channel.state.lock();
            state.make_room(self.bytes.len());
            if state.ring.capacity() < self.bytes.len() {
                return Err(Errno::ENOMEM);
            }
            let filled = state.ring.fill(self.bytes.len(), &mut copy_from(&self.bytes));
            state.ring.add(filled);
            state.lengths.extend(self.lengths);
            state.reader_gone = self.reader_gone;
            state.writer_gone = self.writer_gone;
            state.writer_stopped = self.writer_stopped;
            state.reader_closed = self.reader_closed;
            state.lost = self.lost;
            channel.tell(&state);
        }
        Ok(channel)
    }
}
