//! Buffers for frames that have to wait, used again instead of given back.

use crate::limits::SPARE_BUFFERS_MAX;

/// Empty buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    /// A buffer that holds `frame`.
    pub(crate) fn filled(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(frame);
        buffer
    }

    /// Keeps `buffer` for the next frame, if there are not enough already.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
