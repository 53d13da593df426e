//! What nodes say to the communication processes of other nodes, as bytes on a connection.
//!
//! ```text
//! 0      4        6     8          16       20          24   40
//! ├magic─┼version─┼zeros┼─signature┼─process┼─body bytes┼─mac─┤ body …
//! ```
//!
//! All numbers are little-endian. The signature tells the jobs of a node apart. The MAC is the first half of a keyed
//! BLAKE3 over the header before it and a digest of the body, XXH3 with a seed that the nodes of the job alone have, as
//! parts are said often and by all nodes: together that is one block of the hash. Keys and signature are made of the
//! job's key. There is no handshake: a frame that is heard twice has nothing counted twice ([`super::Part`], and the
//! number of a message about [`super::Stacks`]), and which start of an overlay it is for is in the body.

use alloc::vec::Vec;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::message::Up;
use crate::frame::{MAC_BYTES, digest, same_mac};
use crate::ids::JobId;
use crate::limits::OVERLAY_MESSAGE_BYTES_MAX;
use crate::world::JobKey;

/// First bytes of every frame.
const MAGIC: [u8; 4] = *b"CpOv";

/// Version of frames and what is in them.
pub const VERSION: u16 = 1;

/// Length of a frame's header, bytes.
pub const HEADER_BYTES: usize = 40;

const COVERED_BYTES: usize = HEADER_BYTES - MAC_BYTES;

/// Separates these keys from everything else that may ever be derived from a job's key.
const CONTEXT: &str = "Coppice overlay keys, protocol version 1";

/// Why bytes are no frame for this job's overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes do not start with the magic, or something is wrong with the header.
    #[error("peer does not speak the overlay's protocol")]
    Header,
    /// Another version of the protocol.
    #[error("peer speaks version {0} of the overlay's protocol, this is version {VERSION}")]
    Version(u16),
    /// More body bytes announced than a frame may have.
    #[error("frame announces a body of {0} bytes, which is too long")]
    BodyTooLong(u32),
    /// The MAC is wrong: another job, or changed on its way.
    #[error("peer's frame is not authentic")]
    Authentication,
    /// Authentic, and no message.
    #[error("peer's frame is no message")]
    Nonsense,
    /// No memory for what the frame brings.
    #[error("no memory for a frame")]
    OutOfMemory,
}

/// A header as its bytes lie on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WireHeader {
    magic: [u8; 4],
    version: U16,
    zeros: [u8; 2],
    signature: U64,
    process: U32,
    body_bytes: U32,
    mac: [u8; MAC_BYTES],
}

const _: () = assert!(size_of::<WireHeader>() == HEADER_BYTES);

/// The keys of a job's overlay.
#[derive(Clone)]
pub struct Keys {
    mac: [u8; 32],
    seed: u64,
    signature: u64,
}

impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Keys({:016x})", self.signature)
    }
}

impl Keys {
    /// Those of a job.
    #[must_use]
    pub fn derive(key: &JobKey, job: JobId) -> Self {
        let mut output =
            blake3::Hasher::new_derive_key(CONTEXT).update(&key.0).update(&job.0.to_le_bytes()).finalize_xof();
        let (mut mac, mut seed, mut signature) = ([0; 32], [0; 8], [0; 8]);
        output.fill(&mut mac);
        output.fill(&mut seed);
        output.fill(&mut signature);
        Self { mac, seed: u64::from_le_bytes(seed), signature: u64::from_le_bytes(signature) }
    }

    /// What tells this job's frames from those of others.
    #[must_use]
    pub const fn signature(&self) -> u64 {
        self.signature
    }

    /// A message for a process, as bytes. Nothing, if it is longer than a frame may be.
    #[must_use]
    pub fn seal(&self, process: u32, message: &Up) -> Option<Vec<u8>> {
        let body = message.encode();
        let body_bytes = u32::try_from(body.len()).ok().filter(|_| body.len() <= OVERLAY_MESSAGE_BYTES_MAX)?;
        let mut wire = WireHeader {
            magic: MAGIC,
            version: U16::new(VERSION),
            zeros: [0; 2],
            signature: U64::new(self.signature),
            process: U32::new(process),
            body_bytes: U32::new(body_bytes),
            mac: [0; MAC_BYTES],
        };
        wire.mac = self.mac(wire.as_bytes(), &body);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(wire.as_bytes());
        bytes.extend_from_slice(&body);
        Some(bytes)
    }

    /// What a frame says, and to which process.
    ///
    /// # Errors
    /// [`FrameError::Authentication`], [`FrameError::Nonsense`].
    pub fn open(&self, frame: &Frame) -> Result<(u32, Up), FrameError> {
        let is_authentic = frame.header.signature.get() == self.signature
            && same_mac(&self.mac(frame.header.as_bytes(), &frame.body), &frame.header.mac);
        if !is_authentic {
            return Err(FrameError::Authentication);
        }
        let message = Up::decode(&frame.body).map_err(|_| FrameError::Nonsense)?;
        Ok((frame.header.process.get(), message))
    }

    fn mac(&self, header: &[u8], body: &[u8]) -> [u8; MAC_BYTES] {
        let covered = header.get(..COVERED_BYTES).unwrap_or(header);
        let hash = blake3::Hasher::new_keyed(&self.mac).update(covered).update(&digest(self.seed, body)).finalize();
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&hash.as_bytes()[..MAC_BYTES]);
        mac
    }
}

/// A frame as it came, not authenticated.
#[derive(Clone, Debug)]
pub struct Frame {
    header: WireHeader,
    body: Vec<u8>,
}

impl Frame {
    /// Which job it says it is for: [`Keys::signature`].
    #[must_use]
    pub fn signature(&self) -> u64 {
        self.header.signature.get()
    }
}

/// Puts frames together from any split of a stream. Holds at most one frame.
#[derive(Debug, Default)]
pub struct Frames {
    header: Vec<u8>,
    announced: Option<Frame>,
}

impl Frames {
    /// Whether the rest of a frame is to come.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.announced.is_some() || !self.header.is_empty()
    }

    /// Takes bytes off the front of `bytes` until a frame is whole or no bytes are left.
    ///
    /// # Errors
    /// [`FrameError`]: the connection is of no more use.
    pub fn advance(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        if self.announced.is_none() {
            take(&mut self.header, HEADER_BYTES, bytes);
            let Some(encoded) = self.header.first_chunk::<HEADER_BYTES>() else {
                // A foreign peer may never send a whole header.
                let known = self.header.len().min(MAGIC.len());
                return if self.header[..known] == MAGIC[..known] { Ok(None) } else { Err(FrameError::Header) };
            };
            self.announced = Some(announce(*encoded)?);
            self.header.clear();
        }
        let Some(mut frame) = self.announced.take() else { return Ok(None) };
        if take(&mut frame.body, frame.header.body_bytes.get() as usize, bytes) {
            return Ok(Some(frame));
        }
        self.announced = Some(frame);
        Ok(None)
    }
}

/// Understands a header; nothing is allocated for the body before its length was looked at.
fn announce(encoded: [u8; HEADER_BYTES]) -> Result<Frame, FrameError> {
    let header: WireHeader = zerocopy::transmute!(encoded);
    if header.magic != MAGIC {
        return Err(FrameError::Header);
    }
    if header.version.get() != VERSION {
        return Err(FrameError::Version(header.version.get()));
    }
    if header.zeros != [0; 2] {
        return Err(FrameError::Header);
    }
    let body_bytes = header.body_bytes.get();
    if body_bytes as usize > OVERLAY_MESSAGE_BYTES_MAX {
        return Err(FrameError::BodyTooLong(body_bytes));
    }
    let mut body = Vec::new();
    body.try_reserve_exact(body_bytes as usize).map_err(|_| FrameError::OutOfMemory)?;
    Ok(Frame { header, body })
}

/// Moves bytes to `target` until it has `length`, and says whether it has.
fn take(target: &mut Vec<u8>, length: usize, bytes: &mut &[u8]) -> bool {
    let (taken, rest) = bytes.split_at(bytes.len().min(length - target.len()));
    target.extend_from_slice(taken);
    *bytes = rest;
    target.len() == length
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Frame, FrameError, Frames, HEADER_BYTES, Keys};
    use crate::ids::{JobId, NodeId, Rank};
    use crate::overlay::{METRICS, Part, Source, Up};
    use crate::world::JobKey;

    fn message(rank: u32) -> Up {
        let part = Part::of(7, Rank(rank), &[u64::from(rank); METRICS]);
        Up::Part { generation: 3, source: Source::BackEnds(NodeId(2)), is_apart: false, part }
    }

    fn keys(job: u64) -> Keys {
        Keys::derive(&JobKey([5; 32]), JobId(job))
    }

    fn frames(mut bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let (mut all, mut reading) = (Vec::new(), Frames::default());
        while !bytes.is_empty() {
            all.extend(reading.advance(&mut bytes)?);
        }
        Ok(all)
    }

    #[test]
    fn what_is_sealed_for_one_job_is_for_no_other() {
        let sealed = keys(1).seal(4, &message(9)).expect("short enough");
        let all = frames(&sealed).expect("a frame");
        assert_eq!(all.len(), 1);
        assert_eq!(keys(1).open(&all[0]), Ok((4, message(9))));
        assert_eq!(all[0].signature(), keys(1).signature());
        assert_eq!(keys(2).open(&all[0]), Err(FrameError::Authentication));
    }

    #[test]
    fn a_header_that_makes_no_sense_ends_the_connection_before_its_body_comes() {
        let sealed = keys(1).seal(4, &message(9)).expect("short enough");
        let with = |place: usize, value: u8| {
            let mut changed = sealed[..HEADER_BYTES].to_vec();
            changed[place] = value;
            frames(&changed).map(|all| all.len())
        };
        assert_eq!(with(0, b'X'), Err(FrameError::Header));
        assert_eq!(with(4, 9), Err(FrameError::Version(9)));
        assert_eq!(with(6, 1), Err(FrameError::Header));
        assert!(matches!(with(23, 1), Err(FrameError::BodyTooLong(_))));
        assert_eq!(frames(b"GET /").map(|all| all.len()), Err(FrameError::Header));
    }

    proptest! {
        #[test]
        fn a_stream_may_come_in_any_pieces(cuts in proptest::collection::vec(1_usize..700, 0..9)) {
            let messages = [message(1), message(2), message(3)];
            let stream: Vec<u8> =
                messages.iter().flat_map(|message| keys(1).seal(0, message).expect("short enough")).collect();
            let (mut rest, mut reading, mut all) = (&stream[..], Frames::default(), Vec::new());
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (mut piece, behind) = rest.split_at(cut.min(rest.len()));
                while !piece.is_empty() {
                    all.extend(reading.advance(&mut piece).expect("frames"));
                }
                rest = behind;
            }
            prop_assert!(!reading.is_amid());
            let opened: Vec<Up> = all.iter().map(|frame| keys(1).open(frame).expect("authentic").1).collect();
            prop_assert_eq!(opened, messages);
        }

        #[test]
        fn what_was_changed_on_its_way_is_not_heard(place in any::<proptest::sample::Index>(), bit in 0..8) {
            let mut sealed = keys(1).seal(4, &message(9)).expect("short enough");
            let place = place.index(sealed.len());
            sealed[place] ^= 1_u8 << bit;
            let heard = frames(&sealed).ok().and_then(|all| all.first().map(|frame| keys(1).open(frame).is_ok()));
            prop_assert!(heard != Some(true), "byte {place}");
        }
    }
}
