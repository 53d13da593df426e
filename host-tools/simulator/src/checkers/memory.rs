//! No session ever holds more than its limits, whatever its peer sends.

use coppice_protocol::frame::HEADER_BYTES;
use coppice_protocol::limits::{BODY_BYTES_MAX, BULK_BYTES_MAX, SEND_QUEUE_BYTES_MAX};
use coppice_protocol::session::Session;

use crate::checkers::{Violation, ensure};

/// Longest frame there can be, bytes.
const FRAME_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX + BULK_BYTES_MAX;

/// The most that was seen.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    buffered_bytes_max: usize,
    queued_bytes_max: usize,
}

impl Memory {
    pub(crate) fn check(&mut self, session: &Session) -> Result<(), Violation> {
        let (buffered, queued) = (session.buffered_bytes(), session.queued_bytes());
        self.buffered_bytes_max = self.buffered_bytes_max.max(buffered);
        self.queued_bytes_max = self.queued_bytes_max.max(queued);
        ensure(buffered < FRAME_BYTES_MAX, || format!("{session:?} buffers {buffered} bytes"))?;
        ensure(queued <= SEND_QUEUE_BYTES_MAX + FRAME_BYTES_MAX, || format!("{session:?} queues {queued} bytes"))
    }

    /// The most that was buffered and queued, bytes.
    pub(crate) fn most(&self) -> (usize, usize) {
        (self.buffered_bytes_max, self.queued_bytes_max)
    }
}
