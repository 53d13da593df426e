//! What a running job writes and what happens to it, as one stream of frames.
//!
//! A frame is twelve bytes — kind, three zeros, rank and length as little-endian `u32` — and that many bytes: raw
//! output, or one [`JobEvent`] as JSON. The stream of a job ends after [`JobEvent::Ended`], that of what is kept of its
//! output after [`JobEvent::Kept`] or [`JobEvent::Unreadable`].

use std::io;

use coppice_protocol::ship::Stream;
use serde::{Deserialize, Serialize};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder;
use utoipa::ToSchema;

use crate::job::JobView;
use crate::limits::STREAM_FRAME_BYTES_MAX;
use crate::output::OutputView;

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
    /// A rank that is traced did something.
    Trace {
        /// The rank.
        rank: u32,
        /// A piece of its [records](crate::trace).
        bytes: Vec<u8>,
    },
    /// Something happened to the job.
    Event(JobEvent),
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Its nodes are being sent what it has staged. Said now and then, if what was said before has been taken.
    Staging(StagingProgress),
    /// Nothing more is sent to its nodes before its ranks start.
    Staged,
    /// A signal is about to end a rank of which a core file is wanted. It stands for a while for that to be taken.
    Dies {
        /// The rank.
        rank: u32,
        /// The signal.
        signal: u8,
    },
    /// A rank of it has started this job, which belongs to whoever runs this one: he is to take its stream, too.
    Spawned {
        /// The new job.
        job: u64,
        /// The rank.
        rank: u32,
    },
    /// A rank of it wanted others to be started, and none are.
    NotSpawned {
        /// The rank.
        rank: u32,
        /// Why, one line.
        reason: String,
    },
    /// It is over; nothing follows.
    Ended(Box<JobView>),
    /// That was all that is kept of its output, up to now if it is under way; nothing follows.
    Kept(OutputView),
    /// What is kept of its output cannot be read any further; nothing follows.
    Unreadable {
        /// Why, one line.
        reason: String,
    },
}

/// How far what a job has staged, or nodes are to keep, is on its way, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StagingProgress {
    /// Bytes that those next to the I/O node have which has the files.
    pub bytes: u64,
    /// Length of all files together, bytes.
    pub total: u64,
    /// Nodes that have all of the file which the fewest have, or were given up.
    pub whole: u32,
    /// Nodes that are to have them.
    pub nodes: u32,
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
    /// It broke off.
    #[error("stream broke off: {0}")]
    Broken(String),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

const OUTPUT: u8 = 1;
const ERROR: u8 = 2;
const EVENT: u8 = 3;
const TRACE: u8 = 4;

/// The header of an output frame whose `length` bytes follow.
#[must_use]
pub fn output_header(rank: u32, stream: Stream, length: u32) -> [u8; HEADER_BYTES] {
    let kind = match stream {
        Stream::Output => OUTPUT,
        Stream::Error => ERROR,
        Stream::Trace => TRACE,
    };
    header(kind, rank, length)
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

/// Takes a stream's bytes apart to frames, however they were split on the way.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamDecoder;

impl Decoder for StreamDecoder {
    type Item = StreamFrame;
    type Error = StreamError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<StreamFrame>, StreamError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [kind, _, _, _, r0, r1, r2, r3, l0, l1, l2, l3] = *header;
        let rank = u32::from_le_bytes([r0, r1, r2, r3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > STREAM_FRAME_BYTES_MAX {
            return Err(StreamError::TooLong(length));
        }
        if rest.len() < length {
            bytes.reserve(HEADER_BYTES + length - bytes.len());
            return Ok(None);
        }
        let body = bytes.split_to(HEADER_BYTES + length).split_off(HEADER_BYTES);
        Ok(Some(match kind {
            OUTPUT => StreamFrame::Output { rank, bytes: body.into() },
            ERROR => StreamFrame::Error { rank, bytes: body.into() },
            TRACE => StreamFrame::Trace { rank, bytes: body.into() },
            EVENT => StreamFrame::Event(serde_json::from_slice(&body).map_err(|_| StreamError::Event)?),
            other => return Err(StreamError::Kind(other)),
        }))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<StreamFrame>, StreamError> {
        match self.decode(bytes)? {
            None if !bytes.is_empty() => Err(StreamError::Broken("it ends within a frame".to_owned())),
            frame => Ok(frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::ship::Stream;
    use futures_util::StreamExt;
    use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
    use tokio_util::bytes::BytesMut;
    use tokio_util::codec::{Decoder, FramedRead};

    use super::{JobEvent, StagingProgress, StreamDecoder, StreamError, StreamFrame, encode_event, output_header};

    fn frames() -> impl Strategy<Value = Vec<StreamFrame>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200);
        let one = prop_oneof![
            (any::<u32>(), bytes.clone()).prop_map(|(rank, bytes)| StreamFrame::Output { rank, bytes }),
            (any::<u32>(), bytes.clone()).prop_map(|(rank, bytes)| StreamFrame::Error { rank, bytes }),
            (any::<u32>(), bytes).prop_map(|(rank, bytes)| StreamFrame::Trace { rank, bytes }),
            any::<u32>().prop_map(|ahead| StreamFrame::Event(JobEvent::Queued { ahead })),
            proptest::collection::vec(any::<u32>(), 0..9)
                .prop_map(|nodes| StreamFrame::Event(JobEvent::Started { nodes })),
            any::<(u64, u64, u32, u32)>().prop_map(|(bytes, total, whole, nodes)| {
                StreamFrame::Event(JobEvent::Staging(StagingProgress { bytes, total, whole, nodes }))
            }),
            Just(StreamFrame::Event(JobEvent::Staged)),
            (any::<u32>(), any::<u8>()).prop_map(|(rank, signal)| StreamFrame::Event(JobEvent::Dies { rank, signal })),
        ];
        proptest::collection::vec(one, 0..20)
    }

    fn encode(frame: &StreamFrame) -> Vec<u8> {
        let output = |rank, stream, bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).expect("short");
            [&output_header(rank, stream, length)[..], bytes].concat()
        };
        match frame {
            StreamFrame::Output { rank, bytes } => output(*rank, Stream::Output, bytes),
            StreamFrame::Error { rank, bytes } => output(*rank, Stream::Error, bytes),
            StreamFrame::Trace { rank, bytes } => output(*rank, Stream::Trace, bytes),
            StreamFrame::Event(event) => encode_event(event),
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(frames in frames(), piece in 1usize..300) {
            let sent: Vec<u8> = frames.iter().flat_map(encode).collect();
            let (mut bytes, mut got) = (BytesMut::new(), Vec::new());
            for piece in sent.chunks(piece) {
                bytes.extend_from_slice(piece);
                while let Some(frame) = StreamDecoder.decode(&mut bytes).expect("valid") {
                    got.push(frame);
                }
            }
            prop_assert_eq!(got, frames);
            prop_assert_eq!(StreamDecoder.decode_eof(&mut bytes), Ok(None));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut bytes = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = StreamDecoder.decode(&mut bytes) {}
        }
    }

    #[test]
    fn long_frames_unknown_kinds_and_ends_within_a_frame_are_errors() {
        let decode_eof = |bytes: &[u8]| StreamDecoder.decode_eof(&mut BytesMut::from(bytes));
        let long = output_header(0, Stream::Output, u32::MAX);
        assert_eq!(decode_eof(&long), Err(StreamError::TooLong(u32::MAX as usize)));
        assert_eq!(decode_eof(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Err(StreamError::Kind(9)));
        let cut = [&output_header(0, Stream::Output, 2)[..], b"x"].concat();
        assert!(matches!(decode_eof(&cut), Err(StreamError::Broken(_))));
        assert!(matches!(decode_eof(&cut[..5]), Err(StreamError::Broken(_))));
    }

    #[tokio::test]
    async fn a_stream_that_is_never_read_to_the_end_of_a_frame_takes_no_more_room() {
        // However long it goes on, pieces end within frames.
        let frame = [&output_header(0, Stream::Output, 7)[..], b"1234567"].concat();
        let sent = frame.repeat(200_000);
        let mut frames = FramedRead::new(&sent[..], StreamDecoder);
        let (mut count, mut room) = (0, 0);
        while let Some(frame) = frames.next().await {
            assert!(matches!(frame.expect("valid"), StreamFrame::Output { .. }));
            count += 1;
            room = room.max(frames.read_buffer().capacity());
        }
        assert_eq!(count, 200_000);
        assert!(room < 64 * 1024, "{room}");
    }
}
