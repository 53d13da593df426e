//! What a running job writes and what happens to it, as one stream of frames.
//!
//! A frame is twelve bytes — kind, three zeros, rank and length as little-endian `u32` — and that many bytes: raw
//! output, or one [`JobEvent`] as JSON. The stream ends after [`JobEvent::Ended`].

use serde::{Deserialize, Serialize};

use crate::job::JobView;
use crate::limits::STREAM_FRAME_BYTES_MAX;

/// Length of a frame's header, bytes.
pub const HEADER_BYTES: usize = 12;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFrame {
    /// A rank wrote to its standard output.
    Output {
        /// The rank.
        rank: u32,
        /// What it wrote.
        bytes: Vec<u8>,
    },
    /// A rank wrote to its standard error.
    Error {
        /// The rank.
        rank: u32,
        /// What it wrote.
        bytes: Vec<u8>,
    },
    /// Something happened to the job.
    Event(JobEvent),
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobEvent {
    /// It waits for nodes.
    Queued {
        /// Jobs in front of it.
        ahead: u32,
    },
    /// It was given these nodes.
    Started {
        /// The node of each rank.
        nodes: Vec<u32>,
    },
    /// It is over; nothing follows.
    Ended(Box<JobView>),
}

/// Why bytes are not a stream.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StreamError {
    /// A frame announces more than [`STREAM_FRAME_BYTES_MAX`].
    #[error("frame of {0} bytes is over the limit")]
    TooLong(usize),
    /// A frame's kind is not known.
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    /// An event cannot be read.
    #[error("damaged event")]
    Event,
}

const OUTPUT: u8 = 1;
const ERROR: u8 = 2;
const EVENT: u8 = 3;

/// The header of an output frame whose `length` bytes follow.
#[must_use]
pub fn output_header(rank: u32, is_error: bool, length: u32) -> [u8; HEADER_BYTES] {
    header(if is_error { ERROR } else { OUTPUT }, rank, length)
}

/// A whole event frame.
#[must_use]
pub fn encode_event(event: &JobEvent) -> Vec<u8> {
    // Plain data with string keys: serialising it cannot fail.
    let json = serde_json::to_vec(event).unwrap_or_default();
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    let mut frame = header(EVENT, 0, length).to_vec();
    frame.extend_from_slice(&json);
    frame
}

fn header(kind: u8, rank: u32, length: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = kind;
    header[4..8].copy_from_slice(&rank.to_le_bytes());
    header[8..].copy_from_slice(&length.to_le_bytes());
    header
}

/// Puts a stream's bytes together to frames, however they were split on the way.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were already handed out.
    taken: usize,
}

impl StreamDecoder {
    /// Adds bytes as they came.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// [`StreamError`]: the stream is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<StreamFrame>, StreamError> {
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
        let Some((header, body)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [kind, _, _, _, r0, r1, r2, r3, l0, l1, l2, l3] = *header;
        let rank = u32::from_le_bytes([r0, r1, r2, r3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > STREAM_FRAME_BYTES_MAX {
            return Err(StreamError::TooLong(length));
        }
        let Some(body) = body.get(..length) else {
            return Ok(None);
        };
        let frame = match kind {
            OUTPUT => StreamFrame::Output { rank, bytes: body.to_vec() },
            ERROR => StreamFrame::Error { rank, bytes: body.to_vec() },
            EVENT => StreamFrame::Event(serde_json::from_slice(body).map_err(|_| StreamError::Event)?),
            other => return Err(StreamError::Kind(other)),
        };
        self.taken += HEADER_BYTES + length;
        Ok(Some(frame))
    }

    /// Whether the stream stopped in the middle of a frame.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.taken < self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{JobEvent, StreamDecoder, StreamError, StreamFrame, encode_event, output_header};

    fn frames() -> impl Strategy<Value = Vec<StreamFrame>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200);
        let one = prop_oneof![
            (any::<u32>(), bytes.clone()).prop_map(|(rank, bytes)| StreamFrame::Output { rank, bytes }),
            (any::<u32>(), bytes).prop_map(|(rank, bytes)| StreamFrame::Error { rank, bytes }),
            any::<u32>().prop_map(|ahead| StreamFrame::Event(JobEvent::Queued { ahead })),
            proptest::collection::vec(any::<u32>(), 0..9)
                .prop_map(|nodes| StreamFrame::Event(JobEvent::Started { nodes })),
        ];
        proptest::collection::vec(one, 0..20)
    }

    fn encode(frame: &StreamFrame) -> Vec<u8> {
        let output = |rank, is_error, bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).expect("short");
            [&output_header(rank, is_error, length)[..], bytes].concat()
        };
        match frame {
            StreamFrame::Output { rank, bytes } => output(*rank, false, bytes),
            StreamFrame::Error { rank, bytes } => output(*rank, true, bytes),
            StreamFrame::Event(event) => encode_event(event),
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(frames in frames(), piece in 1usize..300) {
            let bytes: Vec<u8> = frames.iter().flat_map(encode).collect();
            let mut decoder = StreamDecoder::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.feed(piece);
                while let Some(frame) = decoder.next_frame().expect("valid") {
                    got.push(frame);
                }
            }
            prop_assert_eq!(got, frames);
            prop_assert!(!decoder.is_cut());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut decoder = StreamDecoder::default();
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }

    #[test]
    fn long_frames_and_unknown_kinds_are_errors() {
        let mut decoder = StreamDecoder::default();
        decoder.feed(&output_header(0, false, u32::MAX));
        assert_eq!(decoder.next_frame(), Err(StreamError::TooLong(u32::MAX as usize)));
        let mut decoder = StreamDecoder::default();
        decoder.feed(&[9; 12]);
        assert!(decoder.next_frame().is_err());
    }
}
