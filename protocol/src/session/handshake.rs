//! The handshake: who says what, and which keys come out of it.
//!
//! ```text
//! node                                        I/O node
//!  ── Hello (channel, node, generation, nonce) ──►        asks its owner for the key of that boot of that node
//!  ◄── Challenge (nonce), MAC by the down key ───         the I/O node has the key, and answers *this* hello
//!  ── Confirm, MAC by the up key ────────────────►        the node has the key, and answers *this* challenge
//! ```
//!
//! Both keys, the session's number and the seed of its digests are derived from the node's key and everything that was
//! said, so a frame of another connection, channel, boot or direction never has the right MAC.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::frame::Direction;
use crate::ids::{Generation, NodeId};
use crate::personality::NodeKey;
use crate::session::{Channel, Identity};

/// Separates these keys from everything else that may ever be derived from a node's key.
const CONTEXT: &str = "Coppice session keys, protocol version 5";

/// Length of a nonce, bytes.
pub const NONCE_BYTES: usize = 16;

/// Body of a hello.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Hello {
    channel: u8,
    reserved: [u8; 3],
    node: U32,
    generation: U32,
    pub(crate) nonce: [u8; NONCE_BYTES],
}

impl Hello {
    pub(crate) fn new(channel: Channel, identity: Identity, nonce: [u8; NONCE_BYTES]) -> Self {
        Self {
            channel: channel.code(),
            reserved: [0; 3],
            node: U32::new(identity.node.0),
            generation: U32::new(identity.generation.0),
            nonce,
        }
    }

    pub(crate) fn channel(&self) -> Option<Channel> {
        [Channel::Control, Channel::Ship].into_iter().find(|channel| channel.code() == self.channel)
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { node: NodeId(self.node.get()), generation: Generation(self.generation.get()) }
    }

    pub(crate) fn is_well_formed(&self) -> bool {
        self.reserved == [0; 3]
    }
}

/// What both ends of a session have when they have the same key and have heard the same.
#[derive(Clone)]
pub(crate) struct Keys {
    up: [u8; 32],
    down: [u8; 32],
    /// Number of the session.
    pub(crate) session: u64,
    /// Seed of the digests of bulk bytes.
    pub(crate) digest_seed: u64,
}

impl Keys {
    /// Derives them from the node's key, the hello as it was sent, and the I/O node's nonce.
    pub(crate) fn derive(key: &NodeKey, hello: &Hello, challenge: &[u8; NONCE_BYTES]) -> Self {
        let mut output = blake3::Hasher::new_derive_key(CONTEXT)
            .update(&key.0)
            .update(hello.as_bytes())
            .update(challenge)
            .finalize_xof();
        let (mut up, mut down, mut session, mut seed) = ([0; 32], [0; 32], [0; 8], [0; 8]);
        output.fill(&mut up);
        output.fill(&mut down);
        output.fill(&mut session);
        output.fill(&mut seed);
        Self { up, down, session: u64::from_le_bytes(session), digest_seed: u64::from_le_bytes(seed) }
    }

    /// Key of the frames that travel this way.
    pub(crate) fn of(&self, direction: Direction) -> &[u8; 32] {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}
