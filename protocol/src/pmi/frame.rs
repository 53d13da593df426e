//! What the nodes of a job say to each other about its barriers and names, as bytes on a connection.
//!
//! ```text
//! 0      4        6     7       8          16          24    28    32  36    38     40     41     44          48   64
//! ├magic─┼version─┼kind─┼no end─┼signature─┼generation─┼step─┼from─┼to─┼part─┼parts─┼fence─┼zeros─┼body bytes─┼mac─┤ …
//! ```
//!
//! All numbers are little-endian; `from` and `to` are indices of the job's [`super::Placement`]. The MAC is the first
//! half of a BLAKE3 over the header before it and the body, keyed with a key that is derived from the job's; the
//! signature comes from there, too, and tells the jobs of a node apart. There is no handshake: a job's key is its own,
//! a frame says from whom to whom and which step of which barrier it is, and to hear it twice changes nothing. So a
//! frame that is replayed, or sent back, or arrives on another connection than its sender meant, does no harm. A letter
//! about a name ([`super::letter`]) has that in its body; sender and receiver have a part in its step of a
//! dissemination, and instead of a barrier it names the way that it goes ([`super::route`]). What is said of who is
//! there ([`super::watch`]) names the dead node there and in place of the step who has found that, if it is of a death.
//! One that is replayed has its sender taken for being there a while longer, as one without a MAC has (below).
//!
//! “Fence” is the algorithm ([`Fence`]) by which the barrier is walked. All nodes know it without being told, and
//! refuse who walks another one. In frames that are about no barrier it is 0.
//!
//! “No end” is 1 in a step that somebody who has a part in it waits in without a deadline, and in asking for it.
//!
//! One kind of frame has no MAC but zeros: a node that has not been told of a job has no key for it, and still says
//! that it is there ([`PeerFrame::absence`]). All that follows from it is that the node is not taken for silent.

use alloc::vec::Vec;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::fence::Fence;
use crate::frame::{MAC_BYTES, same_mac};
use crate::ids::JobId;
use crate::limits::{PMI_FRAME_BODY_BYTES_MAX, PMI_LETTER_BYTES_MAX, PMI_PARTS_MAX};

/// First bytes of every frame.
const MAGIC: [u8; 4] = *b"CpPm";

/// Version of frames and what is in them.
pub const VERSION: u16 = 7;

/// Length of a frame's header, bytes.
pub const HEADER_BYTES: usize = 64;

/// Header bytes that the MAC covers.
const COVERED_BYTES: usize = HEADER_BYTES - MAC_BYTES;

/// Separates these keys from everything else that may ever be derived from a job's key.
const CONTEXT: &str = "Coppice PMI barrier keys, protocol version 1";

/// Why bytes are no frame for this job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// The bytes do not start with [`MAGIC`], or something is wrong with the header.
    #[error("peer does not speak the barrier protocol")]
    Header,
    /// Another version of the protocol.
    #[error("peer speaks version {0} of the barrier protocol, this is version {VERSION}")]
    Version(u16),
    /// More body bytes announced than a frame of its kind may have.
    #[error("frame announces a body of {0} bytes, which is too long")]
    BodyTooLong(u32),
    /// The MAC is wrong: another job, or changed on its way.
    #[error("peer's frame is not authentic")]
    Authentication,
    /// Authentic, and still wrong: not for this node, from one that has no part in this step, more than is allowed.
    #[error("peer's frame makes no sense: {0}")]
    Nonsense(&'static str),
    /// No memory for what the frame brings.
    #[error("no memory for a frame")]
    OutOfMemory,
}

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerFrameKind {
    /// What `from` has gathered up to this step.
    Step,
    /// `from` has all of that step.
    Have,
    /// `from` waits for that step.
    Ask,
    /// `from` has not come to that step.
    NotYet,
    /// `from` knows of no such job. The only kind that is not sealed.
    Absent,
    /// A letter about a name, which the receiver may have to hand on.
    Letter,
    /// A parcel about what a rank has put with PMIx, which the receiver may have to hand on.
    Parcel,
    /// `from` is there.
    Here,
    /// `from` wants to hear whether `to` is there.
    AreYouThere,
    /// A node is dead: which one is in the place of a barrier's number, and who has found that in that of a step.
    Gone,
    /// `from` knows of that death.
    Noted,
}

impl PeerFrameKind {
    const ALL: [Self; 11] = [
        Self::Step,
        Self::Have,
        Self::Ask,
        Self::NotYet,
        Self::Absent,
        Self::Letter,
        Self::Parcel,
        Self::Here,
        Self::AreYouThere,
        Self::Gone,
        Self::Noted,
    ];

    const fn code(self) -> u8 {
        match self {
            Self::Step => 1,
            Self::Have => 2,
            Self::Ask => 3,
            Self::NotYet => 4,
            Self::Absent => 5,
            Self::Letter => 6,
            Self::Parcel => 7,
            Self::Here => 8,
            Self::AreYouThere => 9,
            Self::Gone => 10,
            Self::Noted => 11,
        }
    }

    /// Whether it is about a step of a barrier, and says by which algorithm that is walked.
    const fn is_of_barrier(self) -> bool {
        matches!(self, Self::Step | Self::Have | Self::Ask | Self::NotYet)
    }

    /// Whether it is about who is there ([`super::watch`]).
    pub(crate) const fn is_of_watch(self) -> bool {
        matches!(self, Self::Here | Self::AreYouThere | Self::Gone | Self::Noted)
    }

    /// Longest body of one, bytes.
    const fn body_bytes_max(self) -> usize {
        match self {
            Self::Step | Self::Parcel => PMI_FRAME_BODY_BYTES_MAX,
            Self::Letter => PMI_LETTER_BYTES_MAX,
            Self::Have | Self::Ask | Self::NotYet | Self::Absent => 0,
            Self::Here | Self::AreYouThere | Self::Gone | Self::Noted => 0,
        }
    }
}

/// A header as its bytes lie on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WireHeader {
    magic: [u8; 4],
    version: U16,
    kind: u8,
    without_end: u8,
    signature: U64,
    generation: U64,
    step: U32,
    from: U32,
    to: U32,
    part: U16,
    parts: U16,
    fence: u8,
    zeros: [u8; 3],
    body_bytes: U32,
    mac: [u8; MAC_BYTES],
}

const _: () = assert!(size_of::<WireHeader>() == HEADER_BYTES && PMI_PARTS_MAX <= u16::MAX as u32);

impl WireHeader {
    /// Without a MAC.
    fn new(header: &Header, signature: u64, body_bytes: u32) -> Self {
        Self {
            magic: MAGIC,
            version: U16::new(VERSION),
            kind: header.kind.code(),
            without_end: header.without_end.into(),
            signature: U64::new(signature),
            generation: U64::new(header.generation),
            step: U32::new(header.step),
            from: U32::new(header.from),
            to: U32::new(header.to),
            // More than the limit are refused.
            part: U16::new(header.part as u16),
            parts: U16::new(header.parts.min(u16::MAX.into()) as u16),
            fence: header.fence.map_or(0, Fence::code),
            zeros: [0; 3],
            body_bytes: U32::new(body_bytes),
            mac: [0; MAC_BYTES],
        }
    }
}

/// A header that was understood, but for whose job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: PeerFrameKind,
    /// Number of the barrier in its job, counted from 0.
    pub(crate) generation: u64,
    pub(crate) step: u32,
    /// By which algorithm the barrier is walked; `None` in a frame about none.
    pub(crate) fence: Option<Fence>,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Which of the frames of a [`PeerFrameKind::Step`] …
    pub(crate) part: u32,
    /// … of how many, at least one.
    pub(crate) parts: u32,
    /// Somebody waits in the barrier until it comes to its end.
    pub(crate) without_end: bool,
}

/// A frame as it came, not authenticated.
#[derive(Clone, Debug)]
pub struct PeerFrame {
    encoded: [u8; HEADER_BYTES],
    header: Header,
    signature: u64,
    body: Vec<u8>,
}

impl PeerFrame {
    /// Which job it says it is for: [`super::Server::signature`].
    #[must_use]
    pub fn signature(&self) -> u64 {
        self.signature
    }

    /// Index of the node that it says it is from.
    #[must_use]
    pub fn from(&self) -> u32 {
        self.header.from
    }

    /// Whether it only says that who sent it knows of no such job, which anybody could say.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        self.header.kind == PeerFrameKind::Absent
    }

    /// What a node that knows of no such job answers to this frame, as bytes.
    #[must_use]
    pub fn absence(&self) -> Vec<u8> {
        let Header { generation, step, from, to, .. } = self.header;
        let kind = PeerFrameKind::Absent;
        let answer =
            Header { kind, generation, step, fence: None, from: to, to: from, part: 0, parts: 1, without_end: false };
        WireHeader::new(&answer, self.signature, 0).as_bytes().to_vec()
    }

    pub(crate) fn kind(&self) -> PeerFrameKind {
        self.header.kind
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// The keys of a job's barriers.
#[derive(Clone)]
pub(crate) struct Keys {
    mac: [u8; 32],
    pub(crate) signature: u64,
}

impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Keys({:016x})", self.signature)
    }
}

impl Keys {
    pub(crate) fn derive(job_key: &[u8; 32], job: JobId, nodes: u32) -> Self {
        let mut output = blake3::Hasher::new_derive_key(CONTEXT)
            .update(job_key)
            .update(&job.0.to_le_bytes())
            .update(&nodes.to_le_bytes())
            .finalize_xof();
        let (mut mac, mut signature) = ([0; 32], [0; 8]);
        output.fill(&mut mac);
        output.fill(&mut signature);
        Self { mac, signature: u64::from_le_bytes(signature) }
    }

    /// A frame's bytes. The body is at most [`PMI_FRAME_BODY_BYTES_MAX`] bytes.
    pub(crate) fn seal(&self, header: &Header, body: &[u8]) -> Vec<u8> {
        let mut wire = WireHeader::new(header, self.signature, body.len() as u32);
        wire.mac = self.mac(wire.as_bytes(), body);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(wire.as_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// Whether a frame was sealed with these keys, or is for their job and of the kind that is not sealed.
    pub(crate) fn verify(&self, frame: &PeerFrame) -> Result<(), PeerError> {
        let wire: WireHeader = zerocopy::transmute!(frame.encoded);
        let expected = if frame.is_absence() { [0; MAC_BYTES] } else { self.mac(&frame.encoded, &frame.body) };
        let authentic = frame.signature == self.signature && same_mac(&expected, &wire.mac);
        if authentic { Ok(()) } else { Err(PeerError::Authentication) }
    }

    fn mac(&self, header: &[u8], body: &[u8]) -> [u8; MAC_BYTES] {
        let covered = header.get(..COVERED_BYTES).unwrap_or(header);
        let hash = blake3::Hasher::new_keyed(&self.mac).update(covered).update(body).finalize();
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&hash.as_bytes()[..MAC_BYTES]);
        mac
    }
}

/// Puts frames together from any split of a stream. Holds at most one frame.
#[derive(Debug, Default)]
pub struct PeerFrames {
    header: Vec<u8>,
    announced: Option<PeerFrame>,
}

impl PeerFrames {
    /// Whether the rest of a frame is to come.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.announced.is_some() || !self.header.is_empty()
    }

    /// Takes bytes off the front of `bytes` until a frame is whole or no bytes are left.
    ///
    /// # Errors
    /// [`PeerError`]: the connection is of no more use.
    pub fn advance(&mut self, bytes: &mut &[u8]) -> Result<Option<PeerFrame>, PeerError> {
        if self.announced.is_none() {
            take(&mut self.header, HEADER_BYTES, bytes);
            let Some(encoded) = self.header.first_chunk::<HEADER_BYTES>() else {
                // A foreign peer may never send a whole header.
                let known = self.header.len().min(MAGIC.len());
                return if self.header[..known] == MAGIC[..known] { Ok(None) } else { Err(PeerError::Header) };
            };
            self.announced = Some(announce(*encoded)?);
            self.header.clear();
        }
        let Some(mut frame) = self.announced.take() else { return Ok(None) };
        let wire: WireHeader = zerocopy::transmute!(frame.encoded);
        if take(&mut frame.body, wire.body_bytes.get() as usize, bytes) {
            return Ok(Some(frame));
        }
        self.announced = Some(frame);
        Ok(None)
    }
}

/// Understands a header; nothing is allocated for the body before its length was looked at.
fn announce(encoded: [u8; HEADER_BYTES]) -> Result<PeerFrame, PeerError> {
    let wire: WireHeader = zerocopy::transmute!(encoded);
    if wire.magic != MAGIC {
        return Err(PeerError::Header);
    }
    if wire.version.get() != VERSION {
        return Err(PeerError::Version(wire.version.get()));
    }
    let kind = PeerFrameKind::ALL.into_iter().find(|kind| kind.code() == wire.kind).ok_or(PeerError::Header)?;
    let body_bytes = wire.body_bytes.get() as usize;
    if body_bytes > kind.body_bytes_max() {
        return Err(PeerError::BodyTooLong(wire.body_bytes.get()));
    }
    let may_be_without_end = matches!(kind, PeerFrameKind::Step | PeerFrameKind::Ask);
    let fence = Fence::of_code(wire.fence);
    let says_fence = fence.is_some() == kind.is_of_barrier() && (fence.is_some() || wire.fence == 0);
    if wire.without_end > may_be_without_end.into() || !says_fence || wire.zeros != [0; 3] {
        return Err(PeerError::Header);
    }
    let header = Header {
        kind,
        generation: wire.generation.get(),
        step: wire.step.get(),
        fence,
        from: wire.from.get(),
        to: wire.to.get(),
        part: wire.part.get().into(),
        parts: wire.parts.get().into(),
        without_end: wire.without_end == 1,
    };
    let mut body = Vec::new();
    body.try_reserve_exact(body_bytes).map_err(|_| PeerError::OutOfMemory)?;
    Ok(PeerFrame { encoded, header, signature: wire.signature.get(), body })
}

/// Moves bytes to `target` until it has `length`, and says whether it has.
fn take(target: &mut Vec<u8>, length: usize, bytes: &mut &[u8]) -> bool {
    let (taken, rest) = bytes.split_at(bytes.len().min(length - target.len()));
    target.extend_from_slice(taken);
    *bytes = rest;
    target.len() == length
}
