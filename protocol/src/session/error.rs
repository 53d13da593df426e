//! Why a session ended, or would not take a message.

use crate::frame::FrameError;
use crate::ids::Generation;
use crate::session::Channel;

/// Why a session is of no more use. Close the connection; what [`crate::session::Session::transmit`] still holds may be
/// sent first, so that the peer learns why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The bytes are no frames of this protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame that has no place here: another direction, another session, data before the handshake, …
    #[error("peer sent a frame that does not belong here: {0}")]
    Unexpected(&'static str),
    /// A frame with another sequence number than the next: replayed, lost or out of order.
    #[error("peer sent frame {found} where {expected} is next: replayed, lost or out of order")]
    Sequence {
        /// The number that was next.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// The MAC is wrong: another key, or changed on its way.
    #[error("peer's frame is not authentic: wrong key, or changed on its way")]
    Authentication,
    /// The bulk bytes are not those that their digest was made of.
    #[error("bulk bytes of peer's frame were changed on their way")]
    Damaged,
    /// The node called the other channel's port.
    #[error("peer opened a {found} session where a {expected} session belongs")]
    Channel {
        /// The channel of this port.
        expected: Channel,
        /// What the peer said.
        found: Channel,
    },
    /// The I/O node does not know this boot of the node.
    #[error("unknown node or boot of a node (generation {0})")]
    UnknownNode(Generation),
    /// The I/O node turned the session down (not authenticated: a hint for people).
    #[error("I/O node turned the session down: {0}")]
    Refused(Refusal),
    /// The handshake was not done in time.
    #[error("handshake was not done in time")]
    HandshakeTimeout,
    /// No memory for the frame that arrives.
    #[error("no memory for an incoming frame of {0} bytes")]
    OutOfMemory(usize),
}

/// Why an I/O node turned a session down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It does not know this boot of the node.
    #[error("it does not know this boot of this node")]
    UnknownNode,
    /// The node opened the other channel's port.
    #[error("wrong channel for this port")]
    Channel,
    /// It speaks another version; the node sees which in the refusal's own header.
    #[error("other version of the protocol")]
    Version,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::UnknownNode, Self::Channel, Self::Version];

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::UnknownNode => 1,
            Self::Channel => 2,
            Self::Version => 3,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }
}

/// Why a message was not queued. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message or its bulk bytes are over their limit.
    #[error("{part} is longer than {limit} bytes")]
    TooLong {
        /// Which part.
        part: &'static str,
        /// Its limit, bytes.
        limit: usize,
    },
    /// The handshake is not done, or the session has failed.
    #[error("session is not established")]
    NotEstablished,
    /// More than [`crate::limits::SEND_QUEUE_BYTES_MAX`] are queued already.
    #[error("send queue is full")]
    Full,
    /// No memory for the frame.
    #[error("no memory for an outgoing frame")]
    OutOfMemory,
}
