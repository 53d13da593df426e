//! The test's end of one of the node's connections.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use coppice_endpoint::TcpStream;
use coppice_io_node::clock::realtime_ns;
use coppice_io_node::link::Device;
use coppice_protocol::control::{ToIoNode, ToNode};
use coppice_protocol::limits::HEARTBEAT_INTERVAL_NS;
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Event, Frame, Session};
use serde::Serialize;

/// A connection and its session.
pub struct Wire {
    stream: TcpStream<Device>,
    session: RefCell<Session>,
    /// Messages that must arrive, and were read.
    taken: Cell<u64>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream<Device>, session: Session) -> Self {
        Self { stream, session: RefCell::new(session), taken: Cell::default() }
    }

    pub(super) async fn supply_key(&self, key: &NodeKey) {
        self.session.borrow_mut().supply_key(Some(key));
        let bytes = self.queued();
        self.write(&bytes).await;
    }

    /// Takes what the session has to send.
    fn queued(&self) -> Vec<u8> {
        let mut session = self.session.borrow_mut();
        let mut all = Vec::new();
        while let bytes @ [_, ..] = session.transmit() {
            let count = bytes.len();
            all.extend_from_slice(bytes);
            session.consume(count);
        }
        all
    }

    /// What would be on the wire for a message. It counts as sent.
    ///
    /// # Panics
    /// If the session does not take it.
    #[must_use]
    pub fn frame_of(&self, id: u64, message: &impl Serialize, bulk: &[u8]) -> Vec<u8> {
        self.session.borrow_mut().send(id, message, bulk).expect("a message");
        self.queued()
    }

    /// Sends bytes as they are. Nothing happens if the node has gone.
    pub async fn write(&self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    pub(super) async fn reply(&self, id: u64, message: &impl Serialize, bulk: &[u8]) {
        let frame = self.frame_of(id, message, bulk);
        self.write(&frame).await;
    }

    /// Sends an order.
    ///
    /// # Panics
    /// If the session does not take it.
    pub async fn order(&self, order: &ToNode) {
        self.reply(0, order, &[]).await;
    }

    /// What happens next; `None` if the connection has ended. Dropped while it waits it has done nothing.
    pub(super) async fn event(&self) -> Option<Event> {
        loop {
            if let Some(event) = self.session.borrow_mut().poll_event() {
                return Some(event);
            }
            let handled = self.stream.read_with(|bytes| (bytes.len(), self.session.borrow_mut().handle_bytes(bytes)));
            // A node that breaks the protocol is a failure of the test.
            handled.await.ok()??.expect("the node keeps to the protocol");
        }
    }

    pub(super) async fn frame(&self) -> Option<Frame> {
        match self.event().await? {
            Event::Frame(frame) => Some(frame),
            other => panic!("{other:?} where a message should be"),
        }
    }

    fn message(&self, frame: &Frame) -> ToIoNode {
        let message: ToIoNode = frame.message().expect("a message");
        self.taken.set(self.taken.get() + u64::from(message.must_arrive()));
        message
    }

    fn heartbeat(&self, sequence: u64) -> ToNode {
        ToNode::Ping { sequence, realtime_ns: realtime_ns(), taken: self.taken.get() }
    }

    /// The node's next message that is no answer to a heartbeat and no event; `None` if it breaks the connection off.
    /// Heartbeats are sent meanwhile, without which it would do so.
    ///
    /// # Panics
    /// If the node says what nobody understands.
    pub async fn next(&self) -> Option<ToIoNode> {
        loop {
            match self.next_or_event().await {
                Some(ToIoNode::Ras(_)) => {}
                message => return message,
            }
        }
    }

    /// As [`Wire::next`], or an event.
    ///
    /// # Panics
    /// If the node says what nobody understands.
    pub async fn next_or_event(&self) -> Option<ToIoNode> {
        let mut heartbeat = tokio::time::interval(Duration::from_nanos(HEARTBEAT_INTERVAL_NS));
        loop {
            let frame = tokio::select! {
                frame = self.frame() => frame?,
                _ = heartbeat.tick() => {
                    self.order(&self.heartbeat(1)).await;
                    continue;
                }
            };
            match self.message(&frame) {
                ToIoNode::Pong { .. } => {}
                message => return Some(message),
            }
        }
    }

    /// Sends a heartbeat and waits for the answer, which comes before anything else but events.
    ///
    /// # Panics
    /// If it does not.
    pub async fn ping(&self, sequence: u64) {
        self.order(&self.heartbeat(sequence)).await;
        loop {
            let frame = self.frame().await.expect("the node is there");
            match self.message(&frame) {
                ToIoNode::Pong { sequence: answered, .. } if answered == sequence => return,
                ToIoNode::Pong { .. } | ToIoNode::Ras(_) => {}
                message => panic!("{message:?} for a heartbeat"),
            }
        }
    }

    /// Breaks the connection off.
    pub fn abort(&self) {
        self.stream.abort();
    }
}
