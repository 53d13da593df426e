//! Where the handshake stands, and which frames may come there.

use zerocopy::{FromBytes, IntoBytes};

use crate::frame::{self, Direction, FrameKind, Header, MAC_BYTES};
use crate::limits::HANDSHAKE_BODY_BYTES_MAX;
use crate::personality::NodeKey;
use crate::session::error::{Refusal, SessionError};
use crate::session::handshake::{Hello, Keys};
use crate::session::inbound::{Gate, Partial};
use crate::session::{Channel, NONCE_BYTES};

/// Where the handshake stands.
pub(crate) enum SessionState {
    /// Node: the hello is out.
    Greeted {
        /// As it was sent.
        hello: Hello,
        /// The node's key.
        key: NodeKey,
    },
    /// I/O node: nothing has come.
    Listening,
    /// I/O node: the owner has to say the key.
    WantsKey {
        /// As it came.
        hello: Hello,
    },
    /// I/O node: the challenge is out.
    Challenged {
        /// Not proven yet.
        keys: Keys,
    },
    /// Both: messages flow.
    Established {
        /// Proven.
        keys: Keys,
    },
    /// Both: nothing goes any more.
    Failed(SessionError),
}

/// The receiving half of a session: what decides whether a frame is accepted.
pub(crate) struct Reception {
    pub(crate) channel: Channel,
    /// Which way accepted frames travel.
    pub(crate) direction: Direction,
    pub(crate) state: SessionState,
    /// Number of the next frame to be accepted.
    pub(crate) sequence: u64,
}

impl Reception {
    pub(crate) fn new(channel: Channel, direction: Direction, state: SessionState) -> Self {
        Self { channel, direction, state, sequence: 0 }
    }

    /// Looks at what only a whole frame shows: whether its bulk bytes are those that were sent.
    pub(crate) fn check_frame(&self, partial: &Partial) -> Result<(), SessionError> {
        match (&self.state, partial.digest) {
            (SessionState::Established { keys }, _) if self.channel.covers_bulk() => {
                self.verify(keys, partial, &partial.bulk).map_err(|()| SessionError::Authentication)
            }
            (SessionState::Established { keys }, Some(digest))
                if digest != frame::digest(keys.digest_seed, &partial.bulk) =>
            {
                Err(SessionError::Damaged)
            }
            _ => Ok(()),
        }
    }

    fn verify(&self, keys: &Keys, partial: &Partial, bulk: &[u8]) -> Result<(), ()> {
        let mac = frame::mac(keys.of(self.direction), &partial.encoded, [&partial.body, bulk]);
        if frame::same_mac(&mac, &partial.mac) { Ok(()) } else { Err(()) }
    }

    pub(crate) fn read_hello(&self, partial: &Partial) -> Result<Hello, SessionError> {
        let hello = Hello::read_from_bytes(&partial.body)
            .ok()
            .filter(|hello| hello.is_well_formed() && partial.mac == [0; MAC_BYTES]);
        let hello = hello.ok_or(SessionError::Unexpected("damaged hello"))?;
        let found = hello.channel().ok_or(SessionError::Unexpected("hello for an unknown channel"))?;
        if found != self.channel {
            return Err(SessionError::Channel { expected: self.channel, found });
        }
        Ok(hello)
    }

    pub(crate) fn read_challenge(&self, partial: &Partial) -> Result<Keys, SessionError> {
        let SessionState::Greeted { hello, key } = &self.state else {
            return Err(SessionError::Unexpected("challenge outside the handshake"));
        };
        let nonce = <[u8; NONCE_BYTES]>::try_from(partial.body.as_bytes());
        let nonce = nonce.map_err(|_| SessionError::Unexpected("damaged challenge"))?;
        let keys = Keys::derive(key, hello, &nonce);
        self.prove(keys, partial)
    }

    pub(crate) fn read_confirm(&self, partial: &Partial) -> Result<Keys, SessionError> {
        let SessionState::Challenged { keys } = &self.state else {
            return Err(SessionError::Unexpected("confirmation outside the handshake"));
        };
        if !partial.body.is_empty() {
            return Err(SessionError::Unexpected("damaged confirmation"));
        }
        self.prove(keys.clone(), partial)
    }

    /// The frame shows that its sender has derived the same keys.
    fn prove(&self, keys: Keys, partial: &Partial) -> Result<Keys, SessionError> {
        let proven = partial.header.session == keys.session && self.verify(&keys, partial, &[]).is_ok();
        if proven { Ok(keys) } else { Err(SessionError::Authentication) }
    }

    pub(crate) fn read_refusal(&self, partial: &Partial) -> SessionError {
        match *partial.body {
            [code] => Refusal::from_code(code)
                .map_or(SessionError::Unexpected("refusal for an unknown reason"), SessionError::Refused),
            _ => SessionError::Unexpected("damaged refusal"),
        }
    }
}

impl Gate for Reception {
    fn admit(&self, header: &Header) -> Result<(), SessionError> {
        if header.direction != self.direction {
            return Err(SessionError::Unexpected("it travels the other way"));
        }
        // The session a proof names is only known once its body has been read.
        let session = match (&self.state, header.kind) {
            (SessionState::Listening, FrameKind::Hello) | (SessionState::Greeted { .. }, FrameKind::Refusal) => Some(0),
            (SessionState::Greeted { .. }, FrameKind::Challenge) => None,
            (SessionState::Challenged { keys }, FrameKind::Confirm)
            | (SessionState::Established { keys }, FrameKind::Message) => Some(keys.session),
            (SessionState::Established { .. }, _) => return Err(SessionError::Unexpected("handshake is done")),
            _ => return Err(SessionError::Unexpected("handshake is not done")),
        };
        if session.is_some_and(|session| session != header.session) {
            return Err(SessionError::Unexpected("it belongs to another session"));
        }
        if header.sequence != self.sequence {
            return Err(SessionError::Sequence { expected: self.sequence, found: header.sequence });
        }
        let plain = header.id == 0 && header.body_bytes <= HANDSHAKE_BODY_BYTES_MAX && header.bulk_bytes == 0;
        if header.kind != FrameKind::Message && !plain {
            return Err(SessionError::Unexpected("handshake frame with more than a handshake needs"));
        }
        Ok(())
    }

    fn has_digest(&self, header: &Header) -> bool {
        // No other kind of frame has bulk bytes.
        !self.channel.covers_bulk() && header.bulk_bytes > 0
    }

    fn check_body(&self, partial: &Partial) -> Result<(), SessionError> {
        match &self.state {
            SessionState::Established { keys } if !self.channel.covers_bulk() => {
                self.verify(keys, partial, &[]).map_err(|()| SessionError::Authentication)
            }
            _ => Ok(()),
        }
    }
}
