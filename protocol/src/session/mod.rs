//! One authenticated connection between a node and its I/O node, sans-IO.
//!
//! Bytes that arrived go in by [`Session::handle_bytes`], in any split; what they meant comes out of
//! [`Session::poll_event`]. Messages go in by [`Session::send`]; the bytes to put on the wire are
//! [`Session::transmit`]. Time and nonces are arguments. The handshake proves to each end that the other has the node's
//! key (see `handshake`), and from then on every frame is bound by its MAC to this session, its direction and its place
//! in the sequence: replayed, reordered, reflected or foreign frames end the session.
//!
//! **What the MAC covers.** Header and body always. On the control channel the bulk bytes too. On the shipping channel
//! a digest of them: they are file data and program pages, and a BLAKE3 over each of them costs too much on an emulated
//! CPU. Bytes that the network has changed end the session, and what was under way is said again on the next one. (That
//! a program's pages are those of the program is checked apart, by [`crate::program`].) If it is a length that was
//! changed, the rest of the frame never comes: its receiver has a [`RestWatch`] look for that.
//!
//! **Memory.** A session buffers at most one incoming frame beyond what it was handed, and
//! [`crate::limits::SEND_QUEUE_BYTES_MAX`] plus one frame going out. Events are handed over, not limited: take them all
//! after each [`Session::handle_bytes`].

mod error;
mod handshake;
mod inbound;
mod outbound;
mod rest;
mod state;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;
use zerocopy::IntoBytes;

pub use self::error::{Refusal, SendError, SessionError};
pub use self::handshake::NONCE_BYTES;
pub use self::rest::RestWatch;
pub use crate::frame::Frame;

use self::handshake::{Hello, Keys};
use self::inbound::{Inbound, Partial};
use self::outbound::{Body, Bulk, Guard, Outbound};
use self::state::{Reception, SessionState};
use crate::frame::{Direction, FrameError, FrameKind, Header};
use crate::ids::{Generation, NodeId};
use crate::limits::{BULK_BYTES_MAX, HANDSHAKE_TIMEOUT_NS, SEND_QUEUE_BYTES_MAX};
use crate::personality::NodeKey;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// [`crate::control`], on [`crate::limits::CONTROL_PORT`].
    Control,
    /// [`crate::ship`], on [`crate::limits::SHIP_PORT`].
    Ship,
}

impl Channel {
    const fn code(self) -> u8 {
        match self {
            Self::Control => 1,
            Self::Ship => 2,
        }
    }

    /// Whether the MAC of a frame covers its bulk bytes.
    const fn covers_bulk(self) -> bool {
        matches!(self, Self::Control)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Ship => "shipping",
        })
    }
}

/// Which boot of which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Its boot.
    pub generation: Generation,
}

/// What happened in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node says that it is this one: answer with [`Session::supply_key`]. Only at the I/O node.
    KeyWanted(Identity),
    /// The peer has proved that it has the key. Messages can be sent.
    Established(Identity),
    /// A message.
    Frame(Frame),
}

/// One end of a session.
pub struct Session {
    reception: Reception,
    /// This end's nonce, once it is to be sent (the node's is in its hello).
    nonce: [u8; NONCE_BYTES],
    identity: Option<Identity>,
    /// Number of the next frame to be sent.
    send_sequence: u64,
    handshake_deadline_ns: u64,
    inbound: Inbound,
    /// Whole frames that arrived.
    frames_received: u64,
    outbound: Outbound,
    events: VecDeque<Event>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("Session")
            .field("channel", &self.reception.channel)
            .field("identity", &self.identity)
            .field("established", &self.is_established())
            .field("failure", &self.failure())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// The node's end; its hello is queued at once. `nonce` must be random, `now_ns` is any monotonic clock's.
    #[must_use]
    pub fn connect(channel: Channel, identity: Identity, key: &NodeKey, nonce: [u8; NONCE_BYTES], now_ns: u64) -> Self {
        let hello = Hello::new(channel, identity, nonce);
        let state = SessionState::Greeted { hello, key: key.clone() };
        let mut session = Self::new(Reception::new(channel, Direction::Down, state), nonce, now_ns);
        session.identity = Some(identity);
        session.push_handshake(FrameKind::Hello, None, hello.as_bytes());
        session
    }

    /// The I/O node's end. `nonce` must be random, `now_ns` is any monotonic clock's.
    #[must_use]
    pub fn accept(channel: Channel, nonce: [u8; NONCE_BYTES], now_ns: u64) -> Self {
        Self::new(Reception::new(channel, Direction::Up, SessionState::Listening), nonce, now_ns)
    }

    fn new(reception: Reception, nonce: [u8; NONCE_BYTES], now_ns: u64) -> Self {
        Self {
            reception,
            nonce,
            identity: None,
            send_sequence: 0,
            handshake_deadline_ns: now_ns.saturating_add(HANDSHAKE_TIMEOUT_NS),
            inbound: Inbound::new(),
            frames_received: 0,
            outbound: Outbound::default(),
            events: VecDeque::new(),
        }
    }

    /// What the connection is for.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.reception.channel
    }

    /// The peer has proved that it has the key.
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.reception.state, SessionState::Established { .. })
    }

    /// Why the session is of no more use, if it is not.
    #[must_use]
    pub fn failure(&self) -> Option<SessionError> {
        match self.reception.state {
            SessionState::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Which boot of which node this session is with (or of, at the node). Proven only once
    /// [`Session::is_established`].
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Answers [`Event::KeyWanted`]: the key of exactly that boot of that node, or `None` if there is no such (then the
    /// session has failed). Without such an event before it does nothing.
    pub fn supply_key(&mut self, key: Option<&NodeKey>) {
        let SessionState::WantsKey { hello } = &self.reception.state else {
            return;
        };
        let Some(key) = key else {
            let error = SessionError::UnknownNode(hello.identity().generation);
            self.refuse(Refusal::UnknownNode);
            self.reception.state = SessionState::Failed(error);
            return;
        };
        let keys = Keys::derive(key, hello, &self.nonce);
        let nonce = self.nonce;
        self.push_handshake(FrameKind::Challenge, Some(&keys), &nonce);
        self.reception.state = SessionState::Challenged { keys };
    }

    /// Takes bytes that arrived, in whatever pieces they did.
    ///
    /// # Errors
    /// [`SessionError`]: the session has failed now or had failed before. What came whole and valid before the failure
    /// is still in [`Session::poll_event`].
    pub fn handle_bytes(&mut self, mut bytes: &[u8]) -> Result<(), SessionError> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        loop {
            let accepted = match self.inbound.advance(&mut bytes, &self.reception) {
                Ok(None) => return Ok(()),
                Ok(Some(partial)) => {
                    self.frames_received += 1;
                    self.accept_frame(partial)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = accepted {
                self.refuse_after(error);
                self.reception.state = SessionState::Failed(error);
                // What was half received is of no more use.
                self.inbound = Inbound::new();
                return Err(error);
            }
        }
    }

    /// A whole frame arrived that the rules let through.
    fn accept_frame(&mut self, partial: Partial) -> Result<(), SessionError> {
        self.reception.check_frame(&partial)?;
        match partial.header.kind {
            FrameKind::Hello => {
                let hello = self.reception.read_hello(&partial)?;
                let identity = hello.identity();
                self.identity = Some(identity);
                self.reception.state = SessionState::WantsKey { hello };
                self.events.push_back(Event::KeyWanted(identity));
            }
            FrameKind::Challenge => {
                let keys = self.reception.read_challenge(&partial)?;
                self.push_handshake(FrameKind::Confirm, Some(&keys), &[]);
                self.establish(keys);
            }
            FrameKind::Confirm => {
                let keys = self.reception.read_confirm(&partial)?;
                self.establish(keys);
            }
            FrameKind::Message => {
                let Partial { header, body, bulk, .. } = partial;
                self.events.push_back(Event::Frame(Frame { id: header.id, body, bulk }));
            }
            FrameKind::Refusal => return Err(self.reception.read_refusal(&partial)),
        }
        self.reception.sequence += 1;
        Ok(())
    }

    fn establish(&mut self, keys: Keys) {
        self.reception.state = SessionState::Established { keys };
        self.events.extend(self.identity.map(Event::Established));
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Queues a message with a copy of the bulk bytes behind it. `id` is the request's id on the shipping channel and
    /// 0 on the control channel.
    ///
    /// # Errors
    /// [`SendError`]; nothing was queued then.
    pub fn send<T: Serialize + ?Sized>(&mut self, id: u64, message: &T, bulk: &[u8]) -> Result<(), SendError> {
        self.push_message(id, message, Bulk::Borrowed(bulk))
    }

    /// As [`Session::send`], and takes the bulk bytes instead of copying them.
    ///
    /// # Errors
    /// [`SendError`]; nothing was queued then.
    pub fn send_owned<T: Serialize + ?Sized>(&mut self, id: u64, message: &T, bulk: Vec<u8>) -> Result<(), SendError> {
        self.push_message(id, message, Bulk::Owned(bulk))
    }

    /// As [`Session::send`], with bulk bytes that the caller keeps, too, and does not change.
    ///
    /// # Errors
    /// [`SendError`]; nothing was queued then.
    pub fn send_shared<T: Serialize + ?Sized>(
        &mut self,
        id: u64,
        message: &T,
        bulk: Arc<Vec<u8>>,
    ) -> Result<(), SendError> {
        self.push_message(id, message, Bulk::Shared(bulk))
    }

    fn push_message<T: Serialize + ?Sized>(&mut self, id: u64, message: &T, bulk: Bulk<'_>) -> Result<(), SendError> {
        let SessionState::Established { keys } = &self.reception.state else {
            return Err(SendError::NotEstablished);
        };
        if bulk.bytes().len() > BULK_BYTES_MAX {
            return Err(SendError::TooLong { part: "bulk data", limit: BULK_BYTES_MAX });
        }
        if self.outbound.queued_bytes() > SEND_QUEUE_BYTES_MAX {
            return Err(SendError::Full);
        }
        let direction = self.reception.direction.reverse();
        let header = Header::new(FrameKind::Message, direction, keys.session, self.send_sequence, id);
        let guard = if self.reception.channel.covers_bulk() { Guard::Mac } else { Guard::Digest(keys.digest_seed) };
        self.outbound.push(header, Some(keys.of(direction)), Body::Message(message), bulk, guard)?;
        self.send_sequence += 1;
        Ok(())
    }

    /// Queues a frame of the handshake. Its few bytes are the first that are ever queued, so only memory can be short;
    /// then the peer's deadline ends the session.
    fn push_handshake(&mut self, kind: FrameKind, keys: Option<&Keys>, body: &[u8]) {
        let direction = self.reception.direction.reverse();
        let session = keys.map_or(0, |keys| keys.session);
        let header = Header::new(kind, direction, session, self.send_sequence, 0);
        let key = keys.map(|keys| keys.of(direction));
        if self.outbound.push(header, key, Body::<()>::Bytes(body), Bulk::Borrowed(&[]), Guard::Mac).is_ok() {
            self.send_sequence += 1;
        }
    }

    /// Tells a node what is wrong with its hello, where it can mend that.
    fn refuse_after(&mut self, error: SessionError) {
        if matches!(self.reception.state, SessionState::Listening) {
            match error {
                SessionError::Channel { .. } => self.refuse(Refusal::Channel),
                SessionError::Frame(FrameError::Version { .. }) => self.refuse(Refusal::Version),
                _ => {}
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.push_handshake(FrameKind::Refusal, None, &[refusal.code()]);
    }

    /// The bytes to put on the wire next; empty only if there are none. Call again after [`Session::consume`].
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        self.outbound.transmit()
    }

    /// The first `count` bytes of [`Session::transmit`] are on the wire.
    pub fn consume(&mut self, count: usize) {
        self.outbound.consume(count);
    }

    /// Bytes queued and not yet on the wire. Whoever sends waits while this is above
    /// [`crate::limits::SEND_QUEUE_BYTES`].
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.outbound.queued_bytes()
    }

    /// Bytes of an incoming frame that are there while the rest is not: at most the limits of one body and one bulk.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.inbound.buffered_bytes()
    }

    /// Frames that have arrived whole.
    #[must_use]
    pub fn frames_received(&self) -> u64 {
        self.frames_received
    }

    /// When [`Session::handle_timeout`] wants to be called, on the clock of `now_ns`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        match self.reception.state {
            SessionState::Established { .. } | SessionState::Failed(_) => None,
            _ => Some(self.handshake_deadline_ns),
        }
    }

    /// Says what time it is.
    ///
    /// # Errors
    /// [`SessionError::HandshakeTimeout`] if the handshake should be done by now; any other if the session has failed.
    pub fn handle_timeout(&mut self, now_ns: u64) -> Result<(), SessionError> {
        if self.poll_timeout().is_some_and(|deadline_ns| now_ns >= deadline_ns) {
            self.reception.state = SessionState::Failed(SessionError::HandshakeTimeout);
        }
        self.failure().map_or(Ok(()), Err)
    }
}
