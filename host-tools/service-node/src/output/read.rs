//! Reading a log while it may be written.
//!
//! What is read comes as frames of the API's streams, so that it goes on as it is.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Seek, SeekFrom};
use std::path::Path;

use coppice_api::output::{LogQuery, OutputStream};
use coppice_api::stream::output_header;
use coppice_protocol::ship::Stream;

use super::format::{Next, Record, next};
use crate::limits::LOG_READ_BYTES;

/// Whose output is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    rank: Option<u32>,
    stream: Option<Stream>,
}

impl From<&LogQuery> for Wanted {
    fn from(query: &LogQuery) -> Self {
        let stream = query.stream.map(|stream| match stream {
            OutputStream::Stdout => Stream::Output,
            OutputStream::Stderr => Stream::Error,
        });
        Self { rank: query.rank, stream }
    }
}

impl Wanted {
    fn is_wanted(self, rank: u32, stream: Stream) -> bool {
        self.rank.is_none_or(|wanted| wanted == rank) && self.stream.is_none_or(|wanted| wanted == stream)
    }
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes of the log.
    pub at: u64,
    /// Bytes of output in them, whoever wrote it.
    pub output: u64,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Frames.
    pub frames: Vec<u8>,
    /// Where to go on.
    pub position: Position,
    /// Nothing more is there.
    pub is_all: bool,
}

/// Why a log cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not there.
    #[error("it is not there")]
    Absent,
    /// The system says no.
    #[error("{}", crate::store::plain(.0))]
    System(io::Error),
    /// It is not what was written.
    #[error("it is damaged behind byte {0}")]
    Damaged(u64),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::NotFound { Self::Absent } else { Self::System(error) }
    }
}

/// Reads on, some [`LOG_READ_BYTES`] at most; no further than `end`, if that is known.
///
/// # Errors
/// [`ReadError`].
pub fn read(path: &Path, from: Position, end: Option<u64>, wanted: Wanted) -> Result<Part, ReadError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let end = end.unwrap_or(length);
    if end > length {
        return Err(ReadError::Damaged(length));
    }
    file.seek(SeekFrom::Start(from.at))?;
    let mut log = BufReader::with_capacity(LOG_READ_BYTES, file);
    let (mut frames, mut position) = (Vec::new(), from);
    loop {
        let is_enough = frames.len() >= LOG_READ_BYTES || position.at - from.at >= 4 * LOG_READ_BYTES as u64;
        if is_enough && position.at < end {
            return Ok(Part { frames, position, is_all: false });
        }
        let (record, bytes) = match next(&mut log, end.saturating_sub(position.at))? {
            Next::Record(record, bytes) => (record, bytes),
            Next::End => return Ok(Part { frames, position, is_all: true }),
            Next::Damaged => return Err(ReadError::Damaged(position.at)),
        };
        position.at += bytes;
        if let Record::Output { rank, stream, bytes } = record {
            position.output += bytes.len() as u64;
            if wanted.is_wanted(rank, stream) {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                frames.extend_from_slice(&output_header(rank, stream, length));
                frames.extend_from_slice(&bytes);
            }
        }
    }
}

/// The output of a whole log, without frames.
#[cfg(test)]
pub(super) fn read_all(path: &Path, from: Position, wanted: Wanted) -> Result<(Vec<u8>, Position), ReadError> {
    use coppice_api::stream::{StreamDecoder, StreamFrame};
    use tokio_util::codec::Decoder;
    let (mut all, mut position) = (Vec::new(), from);
    loop {
        let some = read(path, position, None, wanted)?;
        let mut frames = tokio_util::bytes::BytesMut::from(&some.frames[..]);
        while let Ok(Some(StreamFrame::Output { bytes, .. } | StreamFrame::Error { bytes, .. })) =
            StreamDecoder.decode(&mut frames)
        {
            all.extend_from_slice(&bytes);
        }
        position = some.position;
        if some.is_all {
            return Ok((all, position));
        }
    }
}
