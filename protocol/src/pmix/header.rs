//! Messages out of bytes and into them, as OpenPMIx's *ptl* has it: sixteen bytes say for whom the message is, with
//! which tag, and how long it is; a client's calls bring a tag of their own, and the answer carries that.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::limits::PMIX_MESSAGE_BYTES_MAX;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 16;

/// Puts messages together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Messages {
    /// The start of one whose end has not come, its header included.
    partial: Vec<u8>,
    /// How long it is, header included, once that is known.
    length: Option<usize>,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A message.
    Whole {
        /// What its answer is to carry.
        tag: u32,
        /// What it says.
        body: Vec<u8>,
    },
    /// One of more than [`PMIX_MESSAGE_BYTES_MAX`] bytes. There is no next one.
    TooLong,
}

impl Messages {
    /// Takes bytes off the front of `bytes` until a message is whole or no bytes are left. Until the end of the
    /// handshake (`is_greeting`) lengths are as the machine has them.
    pub(super) fn advance(&mut self, bytes: &mut &[u8], is_greeting: bool) -> Option<Message> {
        loop {
            let wanted = self.length.unwrap_or(HEADER_BYTES).saturating_sub(self.partial.len());
            let (piece, rest) = bytes.split_at(wanted.min(bytes.len()));
            *bytes = rest;
            self.partial.extend_from_slice(piece);
            if piece.len() < wanted {
                return None;
            }
            if self.length.is_some() {
                self.length = None;
                let whole = core::mem::take(&mut self.partial);
                let (header, body) = whole.split_at(HEADER_BYTES);
                let tag = word(header, 4).map(u32::from_be_bytes).unwrap_or_default();
                return Some(Message::Whole { tag, body: body.to_vec() });
            }
            let body = match word(&self.partial, 8) {
                Some(length) if is_greeting => u32::from_le_bytes(length),
                Some(length) => u32::from_be_bytes(length),
                None => return None,
            };
            let is_long = self.partial.get(12..HEADER_BYTES).is_some_and(|high| high != [0; 4]);
            if is_long || body as usize > PMIX_MESSAGE_BYTES_MAX {
                return Some(Message::TooLong);
            }
            self.length = Some(HEADER_BYTES + body as usize);
        }
    }

    /// What it takes of the memory, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Whether it is within the limits, if it was written down.
    pub(super) fn is_within_limits(&self) -> bool {
        let longest = HEADER_BYTES + PMIX_MESSAGE_BYTES_MAX;
        self.partial.len() <= self.length.unwrap_or(HEADER_BYTES) && self.length.is_none_or(|length| length <= longest)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// A message with this tag, behind what is there.
pub(super) fn append(to: &mut Vec<u8>, tag: u32, body: &[u8]) {
    to.extend_from_slice(&0_u32.to_be_bytes());
    to.extend_from_slice(&tag.to_be_bytes());
    // Its length is a number of 64 bits of which the lower half alone is in the order of the network.
    to.extend_from_slice(&(body.len() as u32).to_be_bytes());
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(body);
}
