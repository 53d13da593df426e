//! A frame on the wire: a fixed header, a postcard body, and raw "bulk" bytes behind it.
//!
//! ```text
//! 0      4        6     7          8        16        24   32          36          40    56
//! ├magic─┼version─┼kind─┼direction─┼session─┼sequence─┼─id─┼body bytes─┼bulk bytes─┼─mac─┤ body … digest … bulk …
//! ```
//!
//! All numbers are little-endian. The MAC is the first half of a keyed BLAKE3 over the header before it, the body and
//! what stands for the bulk bytes: on the control channel themselves, on the shipping channel their digest, which is
//! sent between body and bulk bytes where there are any. A header with 24 bytes of body is one BLAKE3 block, which is
//! what keeps small messages cheap on an emulated node.
//!
//! `WireHeader` is what arrived, `Header` what was understood: a `Header` has a version and a kind that exist and
//! lengths within the limits.

use alloc::vec::Vec;

use serde::Deserialize;
use twox_hash::XxHash3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::{BODY_BYTES_MAX, BULK_BYTES_MAX};

/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"Cpce";

/// Version of framing, handshake and message types together. Both ends must have the same.
pub const VERSION: u16 = 24;

/// Length of a frame's header, bytes.
pub const HEADER_BYTES: usize = 56;

/// Header bytes that the MAC covers: all before the MAC itself.
const COVERED_BYTES: usize = HEADER_BYTES - MAC_BYTES;

/// Length of a frame's MAC, bytes.
pub const MAC_BYTES: usize = 16;

/// Length of a digest of bulk bytes, bytes.
pub const DIGEST_BYTES: usize = 8;

/// A complete, authenticated message as the session hands it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Request id on the shipping channel (the reply carries the same), 0 on the control channel.
    pub id: u64,
    /// The postcard body; see [`Frame::message`].
    pub body: Vec<u8>,
    /// The raw bytes behind it.
    pub bulk: Vec<u8>,
}

impl Frame {
    /// The message in the body.
    ///
    /// # Errors
    /// [`FrameError::Body`] if the body is no `T`, or has bytes left over.
    pub fn message<'a, T: Deserialize<'a>>(&'a self) -> Result<T, FrameError> {
        match postcard::take_from_bytes(&self.body) {
            Ok((message, [])) => Ok(message),
            _ => Err(FrameError::Body),
        }
    }
}

/// Why bytes are no frame of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes do not start with [`MAGIC`].
    #[error("peer does not speak the Coppice protocol")]
    Magic,
    /// Another version of the protocol.
    #[error("peer speaks protocol version {theirs}, this is version {VERSION}: install the same release on both ends")]
    Version {
        /// What the peer has.
        theirs: u16,
    },
    /// A kind of frame that does not exist.
    #[error("frame of unknown kind {0}")]
    Kind(u8),
    /// A direction that does not exist.
    #[error("frame of unknown direction {0}")]
    Direction(u8),
    /// More body bytes announced than [`BODY_BYTES_MAX`].
    #[error("frame announces a body of {0} bytes, more than {BODY_BYTES_MAX}")]
    BodyTooLong(u32),
    /// More bulk bytes announced than [`BULK_BYTES_MAX`].
    #[error("frame announces {0} bulk bytes, more than {BULK_BYTES_MAX}")]
    BulkTooLong(u32),
    /// The body is not a message of the expected type.
    #[error("frame body is not the expected message")]
    Body,
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Node → I/O node, first: who it says it is.
    Hello,
    /// I/O node → node: proof that it has the node's key, and its nonce.
    Challenge,
    /// Node → I/O node: proof that it has the key.
    Confirm,
    /// Either way once established.
    Message,
    /// I/O node → node: why there will be no session. Not authenticated, so only ever a hint.
    Refusal,
}

impl FrameKind {
    const ALL: [Self; 5] = [Self::Hello, Self::Challenge, Self::Confirm, Self::Message, Self::Refusal];

    const fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Challenge => 2,
            Self::Confirm => 3,
            Self::Message => 4,
            Self::Refusal => 5,
        }
    }
}

/// Which way a frame travels. Part of what the MAC covers, so that a frame sent back to its sender is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the node to the I/O node.
    Up,
    /// From the I/O node to the node.
    Down,
}

impl Direction {
    const fn code(self) -> u8 {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }

    pub(crate) const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// A header as its bytes lie on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct WireHeader {
    magic: [u8; 4],
    version: U16,
    kind: u8,
    direction: u8,
    session: U64,
    sequence: U64,
    id: U64,
    body_bytes: U32,
    bulk_bytes: U32,
    mac: [u8; MAC_BYTES],
}

const _: () = assert!(size_of::<WireHeader>() == HEADER_BYTES);

/// A header that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: FrameKind,
    pub(crate) direction: Direction,
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    pub(crate) id: u64,
    /// At most [`BODY_BYTES_MAX`].
    pub(crate) body_bytes: usize,
    /// At most [`BULK_BYTES_MAX`].
    pub(crate) bulk_bytes: usize,
}

/// Bytes at the start of a header that say whether the rest can be understood at all.
pub(crate) const PREFIX_BYTES: usize = 6;

/// Looks at a frame's first bytes, before the rest of its header is there: a foreign or older peer may never send one.
pub(crate) fn check_prefix(prefix: &[u8; PREFIX_BYTES]) -> Result<(), FrameError> {
    let [a, b, c, d, low, high] = *prefix;
    if [a, b, c, d] != MAGIC {
        return Err(FrameError::Magic);
    }
    match u16::from_le_bytes([low, high]) {
        VERSION => Ok(()),
        theirs => Err(FrameError::Version { theirs }),
    }
}

impl Header {
    /// A header whose lengths are still to come.
    pub(crate) const fn new(kind: FrameKind, direction: Direction, session: u64, sequence: u64, id: u64) -> Self {
        Self { kind, direction, session, sequence, id, body_bytes: 0, bulk_bytes: 0 }
    }

    /// Understands the bytes of a header; the second value is its MAC.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<(Self, [u8; MAC_BYTES]), FrameError> {
        let wire: WireHeader = zerocopy::transmute!(*bytes);
        if wire.magic != MAGIC {
            return Err(FrameError::Magic);
        }
        if wire.version.get() != VERSION {
            return Err(FrameError::Version { theirs: wire.version.get() });
        }
        let kind =
            FrameKind::ALL.into_iter().find(|kind| kind.code() == wire.kind).ok_or(FrameError::Kind(wire.kind))?;
        let direction = [Direction::Up, Direction::Down]
            .into_iter()
            .find(|direction| direction.code() == wire.direction)
            .ok_or(FrameError::Direction(wire.direction))?;
        let body_bytes = wire.body_bytes.get() as usize;
        if body_bytes > BODY_BYTES_MAX {
            return Err(FrameError::BodyTooLong(wire.body_bytes.get()));
        }
        let bulk_bytes = wire.bulk_bytes.get() as usize;
        if bulk_bytes > BULK_BYTES_MAX {
            return Err(FrameError::BulkTooLong(wire.bulk_bytes.get()));
        }
        let header = Self {
            kind,
            direction,
            session: wire.session.get(),
            sequence: wire.sequence.get(),
            id: wire.id.get(),
            body_bytes,
            bulk_bytes,
        };
        Ok((header, wire.mac))
    }

    /// The header's bytes, with the MAC left zero. Lengths are within the limits, so they fit their fields.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let wire = WireHeader {
            magic: MAGIC,
            version: U16::new(VERSION),
            kind: self.kind.code(),
            direction: self.direction.code(),
            session: U64::new(self.session),
            sequence: U64::new(self.sequence),
            id: U64::new(self.id),
            body_bytes: U32::new(self.body_bytes as u32),
            bulk_bytes: U32::new(self.bulk_bytes as u32),
            mac: [0; MAC_BYTES],
        };
        zerocopy::transmute!(wire)
    }
}

/// What is hashed in one go, bytes: the incremental hasher costs nearly as much again as the few blocks of a small
/// frame.
const SMALL_BYTES: usize = 192;

/// MAC of a frame: `header` is its encoded header (whose own MAC field does not count), `parts` what else is covered.
pub(crate) fn mac(key: &[u8; 32], header: &[u8; HEADER_BYTES], parts: [&[u8]; 2]) -> [u8; MAC_BYTES] {
    let [body, bulk] = parts;
    let covered = COVERED_BYTES + body.len();
    let mut small = [0; SMALL_BYTES];
    let hash = if bulk.is_empty() && covered <= SMALL_BYTES {
        small[..COVERED_BYTES].copy_from_slice(&header[..COVERED_BYTES]);
        small[COVERED_BYTES..covered].copy_from_slice(body);
        blake3::keyed_hash(key, &small[..covered])
    } else {
        blake3::Hasher::new_keyed(key).update(&header[..COVERED_BYTES]).update(body).update(bulk).finalize()
    };
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&hash.as_bytes()[..MAC_BYTES]);
    mac
}

/// What stands for bulk bytes in what the MAC covers, where a BLAKE3 of them would cost more than all else that is done
/// with them: XXH3 with a seed that only the two ends of the session know. It finds what a network does to bytes. It is
/// no proof against somebody who is able to change frames of a cluster's network on purpose.
pub(crate) fn digest(seed: u64, bulk: &[u8]) -> [u8; DIGEST_BYTES] {
    XxHash3_64::oneshot_with_seed(seed, bulk).to_le_bytes()
}

/// Compares two MACs in a time that does not depend on where they differ (`blake3::Hash` promises that of its `==`).
pub(crate) fn same_mac(one: &[u8; MAC_BYTES], other: &[u8; MAC_BYTES]) -> bool {
    let widen = |mac: &[u8; MAC_BYTES]| {
        let mut wide = [0; 32];
        wide[..MAC_BYTES].copy_from_slice(mac);
        blake3::Hash::from_bytes(wide)
    };
    widen(one) == widen(other)
}

/// Writes the MAC into an encoded header.
pub(crate) fn put_mac(header: &mut [u8; HEADER_BYTES], mac: &[u8; MAC_BYTES]) {
    header[COVERED_BYTES..].copy_from_slice(mac);
}
