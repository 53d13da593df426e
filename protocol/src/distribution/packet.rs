//! What members send each other, as datagrams.
//!
//! ```text
//! 0      4        6     7         8      16           20    24  28     32      40      48    64
//! ├magic─┼version─┼kind─┼reserved─┼number┼─generation─┼from─┼to─┼piece─┼elapsed┼detail─┼─mac─┤ body …
//! ```
//!
//! All numbers are little-endian. The MAC is the first half of a BLAKE3 over the header before it and the body, keyed
//! with the transfer's key, which its members alone have. Of a packet of a piece, whose bytes are held against the
//! file's hash tree before anybody uses them, it covers a digest instead of the body: XXH3 with a seed made of the key.
//! There is no handshake and no order: a datagram says whose it
//! is, and to hear it again changes nothing that matters. `elapsed` is the time since home began in ns, as the sender
//! knows it; `piece` is all ones where there is none.

use alloc::vec::Vec;

use twox_hash::XxHash3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::message::Message;
use super::pieces::{PacketSet, PieceSet};
use super::plan::{Plan, TransferId};
use super::ranges::MemberRanges;
use crate::frame::{MAC_BYTES, same_mac};
use crate::limits::REPORT_RANGES_MAX;
use crate::program::tree::NODE_BYTES;

/// First bytes of every datagram.
const MAGIC: [u8; 4] = *b"CpDi";

/// Version of datagrams and what is in them.
pub const VERSION: u16 = 4;

/// Length of a datagram's header, bytes.
pub const HEADER_BYTES: usize = 64;

const COVERED_BYTES: usize = HEADER_BYTES - MAC_BYTES;

/// Where no piece is meant.
const NO_PIECE: u32 = u32::MAX;

/// What the members of a transfer know each other by.
#[derive(Clone, PartialEq, Eq)]
pub struct TransferKey {
    mac: [u8; 32],
    /// For digests of packets.
    seed: u64,
}

/// Separates the seed of digests from what else is made of a transfer's key.
const DIGEST_CONTEXT: &[u8] = b"Coppice digests of a transfer's packets, version 1";

impl TransferKey {
    /// The key that is made of these secret bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let mut seed = [0; 8];
        blake3::Hasher::new_keyed(&secret).update(DIGEST_CONTEXT).finalize_xof().fill(&mut seed);
        Self { mac: secret, seed: u64::from_le_bytes(seed) }
    }
}

impl core::fmt::Debug for TransferKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TransferKey(..)")
    }
}

/// Why bytes are no datagram of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Too short, or it does not start with [`MAGIC`].
    #[error("not a datagram of a transfer")]
    Header,
    /// Another version.
    #[error("datagram of version {0} of the distribution protocol, this is version {VERSION}")]
    Version(u16),
    /// Another transfer's, or one from before it was begun again, or not for this member.
    #[error("datagram is not for this transfer and member")]
    Address,
    /// The MAC is wrong.
    #[error("datagram is not authentic")]
    Authentication,
    /// Authentic, and still wrong.
    #[error("datagram makes no sense: {0}")]
    Nonsense(&'static str),
}

/// A header as its bytes lie on the wire.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WireHeader {
    magic: [u8; 4],
    version: U16,
    kind: u8,
    reserved: u8,
    number: U64,
    generation: U32,
    from: U32,
    to: U32,
    piece: U32,
    elapsed_ns: U64,
    detail: U64,
    mac: [u8; MAC_BYTES],
}

const _: () = assert!(size_of::<WireHeader>() == HEADER_BYTES);

/// What a datagram brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A packet of a piece.
    Packet {
        /// Which piece.
        piece: u32,
        /// Which of its packets.
        packet: u32,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Something else.
    Message(Message),
}

/// From whom a datagram is to whom, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The member that sent it.
    pub from: u32,
    /// The member it is for.
    pub to: u32,
    /// Time since home began, as the sender knows it, ns.
    pub elapsed_ns: u64,
}

/// The kinds, as the header has them.
mod kind {
    pub(super) const PACKET: u8 = 1;
    pub(super) const ASK: u8 = 2;
    pub(super) const ASK_ANY: u8 = 3;
    pub(super) const NOT_HERE: u8 = 4;
    pub(super) const BUSY: u8 = 5;
    pub(super) const LEAVE: u8 = 6;
    pub(super) const ADOPT: u8 = 7;
    pub(super) const ADOPTED: u8 = 8;
    pub(super) const WHOLE: u8 = 9;
    pub(super) const HEARD: u8 = 10;
    pub(super) const PROBE: u8 = 11;
    pub(super) const PRESENT: u8 = 12;
    pub(super) const OVER: u8 = 13;
    pub(super) const ARRIVED: u8 = 14;
    pub(super) const DROPPED: u8 = 15;
    pub(super) const FAILING: u8 = 16;
}

/// The datagram that brings something to a member. `None` if there is no memory for it.
#[must_use]
pub fn encode(transfer: TransferId, key: &TransferKey, envelope: Envelope, content: &Content<'_>) -> Option<Vec<u8>> {
    let mut datagram = Vec::new();
    let body_bytes = if let Content::Packet { bytes, .. } = content { bytes.len() } else { 0 };
    datagram.try_reserve_exact(HEADER_BYTES + body_bytes).ok()?;
    datagram.resize(HEADER_BYTES, 0);
    let (kind, piece, detail) = match content {
        Content::Packet { piece, packet, bytes } => {
            put(&mut datagram, bytes)?;
            (kind::PACKET, *piece, u64::from(*packet))
        }
        Content::Message(message) => put_message(message, &mut datagram)?,
    };
    let header = WireHeader {
        magic: MAGIC,
        version: VERSION.into(),
        kind,
        reserved: 0,
        number: transfer.number.into(),
        generation: transfer.generation.0.into(),
        from: envelope.from.into(),
        to: envelope.to.into(),
        piece: piece.into(),
        elapsed_ns: envelope.elapsed_ns.into(),
        detail: detail.into(),
        mac: [0; MAC_BYTES],
    };
    datagram[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    seal(key, &mut datagram);
    Some(datagram)
}

/// Writes its MAC into a datagram, whatever else is in it. What is too short for one is left alone.
pub fn seal(key: &TransferKey, datagram: &mut [u8]) {
    if let Ok((header, body)) = WireHeader::mut_from_prefix(datagram) {
        header.mac = mac(key, header.kind, header.as_bytes(), body);
    }
}

/// What a datagram to member `me` brings.
///
/// # Errors
/// [`PacketError`].
pub fn decode<'a>(
    plan: &Plan,
    key: &TransferKey,
    me: u32,
    datagram: &'a [u8],
) -> Result<(Envelope, Content<'a>), PacketError> {
    let (header, body) = WireHeader::ref_from_prefix(datagram).map_err(|_| PacketError::Header)?;
    if header.magic != MAGIC {
        return Err(PacketError::Header);
    }
    if header.version.get() != VERSION {
        return Err(PacketError::Version(header.version.get()));
    }
    let envelope = Envelope { from: header.from.get(), to: header.to.get(), elapsed_ns: header.elapsed_ns.get() };
    let transfer = (header.number.get(), header.generation.get());
    if transfer != (plan.transfer.number, plan.transfer.generation.0) || envelope.to != me {
        return Err(PacketError::Address);
    }
    if !same_mac(&header.mac, &mac(key, header.kind, header.as_bytes(), body)) {
        return Err(PacketError::Authentication);
    }
    if envelope.from > plan.members || envelope.from == me || header.reserved != 0 {
        return Err(PacketError::Nonsense("from nobody"));
    }
    Ok((envelope, content(plan, header, body)?))
}

/// The transfer that a datagram says it is of, and the member it is for, before anything of it is believed.
#[must_use]
pub fn address(datagram: &[u8]) -> Option<(TransferId, u32)> {
    let (header, _) = WireHeader::ref_from_prefix(datagram).ok()?;
    let generation = crate::ids::Generation(header.generation.get());
    (header.magic == MAGIC).then(|| (TransferId { number: header.number.get(), generation }, header.to.get()))
}

fn content<'a>(plan: &Plan, header: &WireHeader, body: &'a [u8]) -> Result<Content<'a>, PacketError> {
    const NO_SUCH: PacketError = PacketError::Nonsense("a piece or tree that is not there");
    let detail = header.detail.get();
    let named = Some(header.piece.get()).filter(|piece| *piece != NO_PIECE);
    let piece = named.filter(|piece| *piece < plan.pieces());
    if named.is_some() && piece.is_none() {
        return Err(NO_SUCH);
    }
    if header.kind == kind::PACKET {
        let piece = piece.ok_or(NO_SUCH)?;
        let packet = u32::try_from(detail).map_err(|_| NO_SUCH)?;
        let length = plan.packet_length(piece, packet).ok_or(NO_SUCH)? as usize;
        let is_right = if plan.is_proof(piece, packet) {
            body.len() <= length && body.len().is_multiple_of(NODE_BYTES)
        } else {
            body.len() == length
        };
        if !is_right {
            return Err(PacketError::Nonsense("a packet of another length"));
        }
        return Ok(Content::Packet { piece, packet, bytes: body });
    }
    let tree = || u8::try_from(detail & 0xff).ok().filter(|tree| *tree < 2).ok_or(NO_SUCH);
    let message = match header.kind {
        kind::ASK => Message::Ask { piece: piece.ok_or(NO_SUCH)?, packets: PacketSet(detail) },
        kind::ASK_ANY => Message::AskAny { has: words(plan, body)? },
        kind::NOT_HERE => Message::NotHere { piece },
        kind::BUSY => Message::Busy { piece },
        kind::LEAVE => Message::Leave { tree: tree()? },
        kind::ADOPT => {
            let instead_of = (detail >> 32) as u32;
            let first = piece.ok_or(NO_SUCH)?;
            Message::Adopt { tree: tree()?, instead_of, first, is_sure: detail >> 8 & 1 == 1 }
        }
        kind::ADOPTED => Message::Adopted { tree: tree()? },
        kind::DROPPED => Message::Dropped { tree: tree()? },
        kind::FAILING => Message::Failing { tree: tree()?, who: (detail >> 32) as u32 },
        kind::ARRIVED => Message::Arrived { piece: piece.ok_or(NO_SUCH)?, open: detail as u32 },
        kind::WHOLE => Message::Whole { members: ranges(plan, body)? },
        kind::HEARD => Message::Heard { count: detail as u32 },
        kind::PROBE => Message::Probe,
        kind::OVER => Message::Over,
        kind::PRESENT => Message::Present { pieces: detail as u32 },
        _ => return Err(PacketError::Nonsense("no such kind")),
    };
    if !matches!(header.kind, kind::ASK_ANY | kind::WHOLE) && !body.is_empty() {
        return Err(PacketError::Nonsense("more than there should be"));
    }
    Ok(Content::Message(message))
}

fn put_message(message: &Message, body: &mut Vec<u8>) -> Option<(u8, u32, u64)> {
    Some(match message {
        Message::Ask { piece, packets } => (kind::ASK, *piece, packets.0),
        Message::AskAny { has } => {
            has.words().iter().try_for_each(|word| put(body, &word.to_le_bytes()))?;
            (kind::ASK_ANY, NO_PIECE, 0)
        }
        Message::NotHere { piece } => (kind::NOT_HERE, piece.unwrap_or(NO_PIECE), 0),
        Message::Busy { piece } => (kind::BUSY, piece.unwrap_or(NO_PIECE), 0),
        Message::Leave { tree } => (kind::LEAVE, NO_PIECE, u64::from(*tree)),
        Message::Adopt { tree, instead_of, first, is_sure } => {
            let detail = u64::from(*tree) | u64::from(*is_sure) << 8 | u64::from(*instead_of) << 32;
            (kind::ADOPT, *first, detail)
        }
        Message::Adopted { tree } => (kind::ADOPTED, NO_PIECE, u64::from(*tree)),
        Message::Dropped { tree } => (kind::DROPPED, NO_PIECE, u64::from(*tree)),
        Message::Failing { tree, who } => (kind::FAILING, NO_PIECE, u64::from(*tree) | u64::from(*who) << 32),
        Message::Arrived { piece, open } => (kind::ARRIVED, *piece, u64::from(*open)),
        Message::Whole { members } => {
            for (first, last) in members.ranges().iter().take(REPORT_RANGES_MAX) {
                put(body, &first.to_le_bytes())?;
                put(body, &last.to_le_bytes())?;
            }
            (kind::WHOLE, NO_PIECE, 0)
        }
        Message::Heard { count } => (kind::HEARD, NO_PIECE, u64::from(*count)),
        Message::Probe => (kind::PROBE, NO_PIECE, 0),
        Message::Over => (kind::OVER, NO_PIECE, 0),
        Message::Present { pieces } => (kind::PRESENT, NO_PIECE, u64::from(*pieces)),
    })
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    to.try_reserve(bytes.len()).ok()?;
    to.extend_from_slice(bytes);
    Some(())
}

fn words(plan: &Plan, body: &[u8]) -> Result<PieceSet, PacketError> {
    let (words, rest) = body.as_chunks::<8>();
    let set = PieceSet::of_words(plan.pieces(), words.iter().map(|word| u64::from_le_bytes(*word)));
    set.filter(|_| rest.is_empty()).ok_or(PacketError::Nonsense("a set of other pieces"))
}

fn ranges(plan: &Plan, body: &[u8]) -> Result<MemberRanges, PacketError> {
    const WRONG: PacketError = PacketError::Nonsense("no ranges of members");
    let (pairs, rest) = body.as_chunks::<8>();
    if !rest.is_empty() || pairs.len() > REPORT_RANGES_MAX {
        return Err(WRONG);
    }
    let mut members = MemberRanges::none();
    for [a, b, c, d, e, f, g, h] in pairs {
        let (first, last) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
        // Each is a range of its own, in order.
        let is_next =
            members.ranges().last().is_none_or(|(_, before)| before.checked_add(1).is_some_and(|at| at < first));
        let are_members = first > 0 && last <= plan.members;
        if !is_next || !are_members || !members.add(first, last) {
            return Err(WRONG);
        }
    }
    Ok(members)
}

fn mac(key: &TransferKey, kind: u8, header: &[u8], body: &[u8]) -> [u8; MAC_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(&key.mac);
    hasher.update(&header[..COVERED_BYTES]);
    if kind == kind::PACKET {
        hasher.update(&XxHash3_64::oneshot_with_seed(key.seed, body).to_le_bytes());
    } else {
        hasher.update(body);
    }
    let mut mac = [0; MAC_BYTES];
    hasher.finalize_xof().fill(&mut mac);
    mac
}
