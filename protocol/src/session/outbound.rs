//! What is to go out: encoded frames in pieces, so that neither sending nor queueing moves bytes that lie already.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use postcard::ser_flavors::Flavor;
use serde::Serialize;

use crate::frame::{self, DIGEST_BYTES, HEADER_BYTES, Header};
use crate::limits::BODY_BYTES_MAX;
use crate::session::error::SendError;

/// Small frames are collected in one piece up to about this many bytes, so that they leave in one write.
const PIECE_BYTES: usize = 16 * 1024;

/// Encoded frames in the order they leave. Keeps nothing of what has left once all has: its pieces go as they leave.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    /// Never holds an empty piece.
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have left.
    sent: usize,
    /// Bytes in all pieces that have not left.
    queued: usize,
}

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    /// Kept by somebody else, too.
    Shared(Arc<Vec<u8>>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Outbound {
    /// The bytes that leave next; empty only if there are none.
    pub(crate) fn transmit(&self) -> &[u8] {
        self.pieces.front().and_then(|piece| piece.bytes().get(self.sent..)).unwrap_or_default()
    }

    /// The first `count` bytes of what is queued have left.
    pub(crate) fn consume(&mut self, count: usize) {
        let mut count = count.min(self.queued);
        self.queued -= count;
        while let Some(piece) = self.pieces.front() {
            let left = piece.bytes().len() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.sent = 0;
            self.pieces.pop_front();
        }
    }

    /// Bytes that have not left.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued
    }

    /// A piece with room for a frame's first `bytes` bytes: the last one, if it has not grown large.
    fn piece(&mut self, bytes: usize) -> Result<Vec<u8>, SendError> {
        let last = self.pieces.pop_back_if(|last| match last {
            Piece::Own(last) => last.len() + bytes <= PIECE_BYTES,
            Piece::Shared(_) => false,
        });
        let mut piece = match last {
            Some(Piece::Own(last)) => last,
            Some(Piece::Shared(_)) | None => Vec::new(),
        };
        match piece.try_reserve(bytes) {
            Ok(()) => Ok(piece),
            Err(_) => {
                self.put_back(piece);
                Err(SendError::OutOfMemory)
            }
        }
    }

    fn put_back(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.pieces.push_back(Piece::Own(piece));
        }
    }

    /// Queues a frame whose header says all but the lengths.
    pub(crate) fn push<T: Serialize + ?Sized>(
        &mut self,
        mut header: Header,
        key: Option<&[u8; 32]>,
        body: Body<'_, T>,
        bulk: Bulk<'_>,
        guard: Guard,
    ) -> Result<(), SendError> {
        let copied = if bulk.is_copied() { bulk.bytes().len() } else { 0 };
        let digest = guard.digest(bulk.bytes());
        let mut piece = self.piece(HEADER_BYTES + TYPICAL_BODY_BYTES + DIGEST_BYTES + copied)?;
        let start = piece.len();
        piece.extend_from_slice(&[0; HEADER_BYTES]);
        let appended = body.append_to(&mut piece).and_then(|()| {
            header.body_bytes = piece.len() - start - HEADER_BYTES;
            piece.try_reserve(digest.as_slice().as_flattened().len()).map_err(|_| SendError::OutOfMemory)
        });
        if let Err(error) = appended {
            piece.truncate(start);
            self.put_back(piece);
            return Err(error);
        }
        piece.extend_from_slice(digest.as_slice().as_flattened());
        header.bulk_bytes = bulk.bytes().len();
        let mut encoded = header.encode();
        if let Some(key) = key {
            let body = &piece[start + HEADER_BYTES..];
            let covered = if matches!(guard, Guard::Mac) { bulk.bytes() } else { &[] };
            let mac = frame::mac(key, &encoded, [body, covered]);
            frame::put_mac(&mut encoded, &mac);
        }
        piece[start..start + HEADER_BYTES].copy_from_slice(&encoded);
        self.queued += piece.len() - start + header.bulk_bytes;
        match bulk {
            Bulk::Owned(bytes) if copied == 0 => {
                self.pieces.push_back(Piece::Own(piece));
                self.put_back(bytes);
            }
            Bulk::Shared(bytes) if copied == 0 => {
                self.pieces.push_back(Piece::Own(piece));
                self.pieces.push_back(Piece::Shared(bytes));
            }
            bulk => {
                piece.extend_from_slice(bulk.bytes());
                self.pieces.push_back(Piece::Own(piece));
            }
        }
        Ok(())
    }
}

/// Bulk bytes of our own that are rather copied than queued as a piece of their own, at most.
const COPIED_BYTES_MAX: usize = 4096;

/// Room made for a body before it is known how long it is, bytes; longer ones grow the piece.
const TYPICAL_BODY_BYTES: usize = 64;

/// How the bulk bytes of a frame are guarded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard {
    /// The MAC covers them.
    Mac,
    /// The MAC covers their digest with this seed.
    Digest(u64),
}

impl Guard {
    /// The digest that is sent with these bulk bytes: none without any.
    fn digest(self, bulk: &[u8]) -> Option<[u8; DIGEST_BYTES]> {
        match self {
            Self::Digest(seed) if !bulk.is_empty() => Some(frame::digest(seed, bulk)),
            Self::Digest(_) | Self::Mac => None,
        }
    }
}

/// Bulk bytes on their way out.
pub(crate) enum Bulk<'a> {
    /// The caller's.
    Borrowed(&'a [u8]),
    /// Ours: queued as they are.
    Owned(Vec<u8>),
    /// Ours and somebody's, who does not change them: queued as they are.
    Shared(Arc<Vec<u8>>),
}

impl Bulk<'_> {
    /// Whether they are copied behind the body. A few bytes of our own are, too, so that the frame leaves in one write.
    fn is_copied(&self) -> bool {
        match self {
            Self::Borrowed(_) => true,
            Self::Owned(_) | Self::Shared(_) => self.bytes().len() <= COPIED_BYTES_MAX,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A body on its way out.
pub(crate) enum Body<'a, T: ?Sized> {
    /// Its postcard form.
    Message(&'a T),
    /// These bytes.
    Bytes(&'a [u8]),
}

impl<T: Serialize + ?Sized> Body<'_, T> {
    /// Appends the body, at most [`BODY_BYTES_MAX`] bytes of it.
    fn append_to(&self, piece: &mut Vec<u8>) -> Result<(), SendError> {
        let limit = piece.len() + BODY_BYTES_MAX;
        let mut tail = Tail { bytes: piece, limit };
        match self {
            Self::Message(message) => postcard::serialize_with_flavor(message, tail),
            Self::Bytes(bytes) => tail.try_extend(bytes),
        }
        .map_err(|error| match error {
            postcard::Error::SerializeBufferFull => SendError::TooLong { part: "message", limit: BODY_BYTES_MAX },
            _ => SendError::OutOfMemory,
        })
    }
}

/// Postcard output that appends to a vector up to a limit.
struct Tail<'a> {
    bytes: &'a mut Vec<u8>,
    limit: usize,
}

impl Flavor for Tail<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        if data.len() > self.limit - self.bytes.len() {
            return Err(postcard::Error::SerializeBufferFull);
        }
        // Any other error of postcard's stands for memory: plain data gives it no reason of its own.
        self.bytes.try_reserve(data.len()).map_err(|_| postcard::Error::SerializeSeqLengthUnknown)?;
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.try_extend(&[data])
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Body, Bulk, Guard, Outbound};
    use crate::frame::{Direction, FrameKind, Header};

    fn push(outbound: &mut Outbound, body: &[u8], bulk: Bulk<'_>) {
        let header = Header::new(FrameKind::Message, Direction::Up, 1, 2, 3);
        assert!(outbound.push(header, None, Body::<()>::Bytes(body), bulk, Guard::Digest(4)).is_ok());
    }

    #[test]
    fn nothing_is_kept_of_what_has_left() {
        let mut outbound = Outbound::default();
        for step in [1, 1000, 70_000] {
            push(&mut outbound, &[1; 3000], Bulk::Borrowed(&[2; 5000]));
            push(&mut outbound, &[3; 20_000], Bulk::Owned(vec![4; 100_000]));
            push(&mut outbound, &[3; 20_000], Bulk::Shared(Arc::new(vec![4; 100_000])));
            push(&mut outbound, &[5; 10], Bulk::Owned(vec![6; 10]));
            push(&mut outbound, &[5; 10], Bulk::Shared(Arc::new(vec![6; 10])));
            push(&mut outbound, &[7; 10], Bulk::Owned(Vec::new()));
            while outbound.queued_bytes() > 0 {
                assert!(!outbound.transmit().is_empty());
                outbound.consume(step.min(outbound.transmit().len()));
            }
            assert!(outbound.pieces.is_empty());
        }
    }

    #[test]
    fn nothing_is_kept_of_what_is_refused() {
        let mut outbound = Outbound::default();
        let header = Header::new(FrameKind::Message, Direction::Up, 1, 2, 3);
        let body = vec![1_u8; 300_000];
        assert!(outbound.push(header, None, Body::<()>::Bytes(&body), Bulk::Borrowed(&[]), Guard::Mac).is_err());
        assert!(outbound.pieces.is_empty());
    }
}
