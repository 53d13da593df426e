//! The two ends of a session, joined by hand.

use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Identity, Session, SessionError};

/// The node's key.
pub(crate) const KEY: NodeKey = NodeKey([119; 32]);

/// The node.
pub(crate) const IDENTITY: Identity = Identity { node: NodeId(3), generation: Generation(9) };

/// Length of a frame's header, bytes.
pub(crate) const HEADER_BYTES: usize = coppice_protocol::frame::HEADER_BYTES;

/// A node's end and an I/O node's end.
pub(crate) struct Pair {
    pub(crate) node: Session,
    pub(crate) io_node: Session,
}

impl Pair {
    /// Both ends before anything was said.
    pub(crate) fn new(channel: Channel) -> Self {
        Self::with_nonces(channel, [1; 16], [2; 16])
    }

    /// The same with these random numbers.
    pub(crate) fn with_nonces(channel: Channel, node: [u8; 16], io_node: [u8; 16]) -> Self {
        Self { node: Session::connect(channel, IDENTITY, &KEY, node, 0), io_node: Session::accept(channel, io_node, 0) }
    }

    /// Both ends after the handshake, with no events left.
    pub(crate) fn established(channel: Channel) -> Self {
        let mut pair = Self::new(channel);
        pair.shake_hands();
        pair
    }

    /// Does the handshake.
    pub(crate) fn shake_hands(&mut self) {
        self.node_to_io().expect("hello");
        self.io_node.supply_key(Some(&KEY));
        self.io_to_node().expect("challenge");
        self.node_to_io().expect("confirmation");
        assert!(self.node.is_established() && self.io_node.is_established());
        let events = core::iter::from_fn(|| self.io_node.poll_event().or_else(|| self.node.poll_event()));
        assert_eq!(events.filter(|event| matches!(event, Event::Frame(_))).count(), 0);
    }

    /// Everything the node has to say goes to the I/O node.
    pub(crate) fn node_to_io(&mut self) -> Result<(), SessionError> {
        let bytes = drain(&mut self.node);
        self.io_node.handle_bytes(&bytes)
    }

    /// Everything the I/O node has to say goes to the node.
    pub(crate) fn io_to_node(&mut self) -> Result<(), SessionError> {
        let bytes = drain(&mut self.io_node);
        self.node.handle_bytes(&bytes)
    }
}

/// Takes all bytes that are to go out.
pub(crate) fn drain(session: &mut Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !session.transmit().is_empty() {
        bytes.extend_from_slice(session.transmit());
        let count = session.transmit().len();
        session.consume(count);
    }
    assert_eq!(session.queued_bytes(), 0);
    bytes
}

/// The bytes of one message that goes up (node to I/O node).
pub(crate) fn message_bytes(session: &mut Session, id: u64, text: &str, bulk: &[u8]) -> Vec<u8> {
    session.send(id, text, bulk).expect("queued");
    drain(session)
}
