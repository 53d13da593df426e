//! A node's end of its connections to the I/O node under test.

use std::cell::RefCell;
use std::rc::Rc;

use coppice_endpoint::TcpStream;
use coppice_io_node::link::Device;
use coppice_protocol::control::{MemoryStatus, ToIoNode, ToNode};
use coppice_protocol::limits::REQUESTS_IN_FLIGHT_MAX;
use coppice_protocol::session::{Event, Frame, Session};
use coppice_protocol::ship::{Call, Handle, Location, NOTICE_ID, Notice, Owner, Reply, Request, RequestId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::common::OWNER;

/// A node's connections.
pub(crate) struct Node {
    pub(crate) control: Wire,
    pub(crate) ship: Wire,
    /// Requests that went.
    requests: u64,
}

impl Node {
    pub(crate) fn new(control: Wire, ship: Wire) -> Self {
        Self { control, ship, requests: 0 }
    }

    /// Sends a request and gives its id.
    pub(crate) fn request(&mut self, owner: Owner, call: Call, bulk: &[u8]) -> u64 {
        let slots = REQUESTS_IN_FLIGHT_MAX as u64;
        let id = RequestId::new((self.requests % slots) as usize, self.requests / slots + 1).to_frame();
        self.requests += 1;
        self.request_as(id, owner, call, bulk);
        id
    }

    /// Sends a request under this id.
    pub(crate) fn request_as(&self, id: u64, owner: Owner, call: Call, bulk: &[u8]) {
        self.ship.send(id, &Request { owner, call }, bulk);
    }

    /// The same node on new connections.
    pub(crate) fn again(self, connections: Node) -> Self {
        Self { requests: self.requests, ..connections }
    }

    /// What the I/O node says next of its own accord.
    pub(crate) async fn notice(&self) -> Notice {
        let frame = self.ship.frame().await.expect("connection ended");
        assert_eq!(frame.id, NOTICE_ID);
        frame.message().unwrap()
    }

    /// The next reply, with its request's id.
    pub(crate) async fn reply(&self) -> (u64, Reply, Vec<u8>) {
        let frame = self.ship.frame().await.expect("connection ended");
        (frame.id, frame.message().unwrap(), frame.bulk.clone())
    }

    /// A call and its reply.
    pub(crate) async fn call(&mut self, call: Call, bulk: &[u8]) -> (Reply, Vec<u8>) {
        let id = self.request(OWNER, call, bulk);
        let (answered, reply, bulk) = self.reply().await;
        assert_eq!(answered, id);
        (reply, bulk)
    }

    pub(crate) async fn open(&mut self, path: &str, flags: u32) -> Handle {
        let at = Location { directory: None, path: path.into() };
        match self.call(Call::Open { at, flags, mode: 0o644 }, &[]).await.0 {
            Reply::Opened { handle, .. } => handle,
            other => panic!("{other:?} for open"),
        }
    }
}

/// The node's end of a connection. Its bytes move by themselves.
pub(crate) struct Wire {
    stream: TcpStream<Device>,
    session: Rc<RefCell<Session>>,
    queued: Rc<tokio::sync::Notify>,
    _writer: JoinSet<()>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream<Device>, session: Session) -> Self {
        let (session, queued) = (Rc::new(RefCell::new(session)), Rc::new(tokio::sync::Notify::new()));
        let mut writer = JoinSet::new();
        let (out, source, wake) = (stream.clone(), Rc::clone(&session), Rc::clone(&queued));
        writer.spawn_local(async move {
            loop {
                let bytes = source.borrow().transmit().to_vec();
                if bytes.is_empty() {
                    wake.notified().await;
                } else if out.write_all(&bytes).await.is_ok() {
                    source.borrow_mut().consume(bytes.len());
                } else {
                    break;
                }
            }
        });
        Self { stream, session, queued, _writer: writer }
    }

    pub(crate) fn send(&self, id: u64, message: &impl Serialize, bulk: &[u8]) {
        self.session.borrow_mut().send(id, message, bulk).unwrap();
        self.queued.notify_one();
    }

    /// What happens next; `None` if the connection or session has ended.
    pub(crate) async fn event(&self) -> Option<Event> {
        loop {
            if let Some(event) = self.session.borrow_mut().poll_event() {
                return Some(event);
            }
            let mut buffer = vec![0; 65_536];
            let count = self.stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
            let handled = self.session.borrow_mut().handle_bytes(&buffer[..count]);
            self.queued.notify_one();
            if handled.is_err() && self.session.borrow_mut().poll_event().is_none() {
                return None;
            }
        }
    }

    pub(crate) async fn frame(&self) -> Option<Frame> {
        match self.event().await {
            Some(Event::Frame(frame)) => Some(frame),
            None => None,
            other => panic!("{other:?} where a message should be"),
        }
    }

    /// The next message that is no ping; pings are answered.
    pub(crate) async fn message(&self) -> ToNode {
        self.try_message().await.expect("connection ended")
    }

    pub(crate) async fn try_message(&self) -> Option<ToNode> {
        loop {
            match self.decode(self.frame().await?) {
                ToNode::Ping { sequence, .. } => {
                    self.send(0, &ToIoNode::Pong { sequence, memory: MemoryStatus::default() }, &[]);
                }
                ToNode::Taken { .. } => {}
                message => return Some(message),
            }
        }
    }

    fn decode<T: DeserializeOwned>(&self, frame: Frame) -> T {
        frame.message().unwrap()
    }

    /// Breaks the connection off.
    pub(crate) fn abort(&self) {
        self.stream.abort();
    }
}
