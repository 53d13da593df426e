//! A line: one connection with its session. One task reads and handles, and writes what anybody queued.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;

use coppice_endpoint::{NetError, TcpStream};
use coppice_protocol::limits::SEND_QUEUE_BYTES;
use coppice_protocol::session::{Channel, Event, Identity, SendError, Session, SessionError};
use serde::Serialize;
use tokio::sync::Notify;

use crate::limits::BYTES_PER_READ_MAX;
use crate::link::Device;

/// Why a line ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// The node closed it.
    #[error("node closed the connection")]
    Closed,
    /// The connection broke.
    #[error("connection broke: {0}")]
    Net(#[from] NetError),
    /// The peer does not keep to the protocol, or is not who it says.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An authenticated node sent something that is no message.
    #[error("node sent a message that cannot be read")]
    Message,
    /// It was cut from this side.
    #[error("{0}")]
    Cut(&'static str),
    /// The node answered nothing for [`coppice_protocol::limits::HEARTBEAT_DEAD_NS`].
    #[error("node did not answer for {0} s")]
    Silent(u64),
}

/// A connection with its session. Messages are queued by anybody; the owner's task moves the bytes.
pub(crate) struct Line {
    stream: TcpStream<Device>,
    session: RefCell<Session>,
    /// Something was queued.
    queued: Notify,
    /// The queue has become short enough for more, or the line has been cut.
    room: Notify,
    cut: Notify,
    cut_reason: Cell<Option<&'static str>>,
    /// Something arrived since this was last cleared.
    heard: Cell<bool>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line")
            .field("peer", &self.stream.peer())
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Line {
    /// A connection that was accepted.
    #[must_use]
    pub(crate) fn new(stream: TcpStream<Device>, session: Session) -> Self {
        Self {
            stream,
            session: RefCell::new(session),
            queued: Notify::new(),
            room: Notify::new(),
            cut: Notify::new(),
            cut_reason: Cell::new(None),
            heard: Cell::new(false),
        }
    }

    /// What the line is for.
    pub(crate) fn channel(&self) -> Channel {
        self.session.borrow().channel()
    }

    /// The session, for a moment that nobody waits in.
    pub(crate) fn with_session<R>(&self, f: impl FnOnce(&mut Session) -> R) -> R {
        let result = f(&mut self.session.borrow_mut());
        self.queued.notify_one();
        result
    }

    /// Who the peer says it is.
    pub(crate) fn claimed(&self) -> Option<Identity> {
        self.session.borrow().identity()
    }

    /// The peer's address and port.
    pub(crate) fn peer(&self) -> (std::net::Ipv4Addr, u16) {
        self.stream.peer()
    }

    /// Queues a message.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub(crate) fn send<T: Serialize>(&self, id: u64, message: &T, bulk: Vec<u8>) -> Result<(), SendError> {
        self.session.borrow_mut().send_owned(id, message, bulk)?;
        self.queued.notify_one();
        Ok(())
    }

    /// Waits until the queue is short enough for more.
    pub(crate) async fn room(&self) {
        loop {
            let woken = self.room.notified();
            if self.session.borrow().queued_bytes() <= SEND_QUEUE_BYTES || self.cut_reason.get().is_some() {
                return;
            }
            woken.await;
        }
    }

    /// Ends the line; its task returns [`LineError::Cut`].
    pub(crate) fn cut(&self, reason: &'static str) {
        if self.cut_reason.get().is_none() {
            self.cut_reason.set(Some(reason));
        }
        self.cut.notify_one();
        self.room.notify_waiters();
    }

    /// Returns once somebody cuts the line.
    pub(crate) async fn until_cut(&self) -> LineError {
        loop {
            if let Some(reason) = self.cut_reason.get() {
                return LineError::Cut(reason);
            }
            self.cut.notified().await;
        }
    }

    /// Did anything arrive since the last such question?
    pub(crate) fn take_heard(&self) -> bool {
        self.heard.replace(false)
    }

    /// The next thing that happened in the session.
    ///
    /// # Errors
    /// The line has ended; what had come before was given first.
    pub(crate) async fn next_event(&self) -> Result<Event, LineError> {
        loop {
            let (event, failure) = {
                let mut session = self.session.borrow_mut();
                (session.poll_event(), session.failure())
            };
            match (event, failure) {
                (Some(event), _) => return Ok(event),
                (None, Some(error)) => return Err(error.into()),
                (None, None) => {}
            }
            let handled = self.stream.read_with(|bytes| {
                let taken = &bytes[..bytes.len().min(BYTES_PER_READ_MAX)];
                (taken.len(), self.session.borrow_mut().handle_bytes(taken))
            });
            // A failure is reported above, behind the events that came before it.
            let _outcome = handled.await?.ok_or(LineError::Closed)?;
            self.heard.set(true);
            self.queued.notify_one();
        }
    }

    /// Puts queued bytes on the wire, for ever.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) async fn write(&self) -> LineError {
        loop {
            let written = poll_fn(|context| {
                let session = self.session.borrow();
                match session.transmit() {
                    [] => std::task::Poll::Ready(Ok(0)),
                    bytes => self.stream.poll_write(context, bytes),
                }
            });
            match written.await {
                Ok(0) => self.queued.notified().await,
                Ok(count) => {
                    let mut session = self.session.borrow_mut();
                    session.consume(count);
                    if session.queued_bytes() <= SEND_QUEUE_BYTES {
                        self.room.notify_waiters();
                    }
                }
                Err(error) => return error.into(),
            }
        }
    }

    /// Puts on the wire what fits at once (the reason for a refusal, say), and ends the connection.
    pub(crate) fn end(&self) {
        let _ = self.stream.try_write(self.session.borrow().transmit());
        self.stream.close();
    }

    /// Ends the connection with a reset.
    pub(crate) fn abort(&self) {
        self.stream.abort();
    }

    /// Waits until the node's stack has all that was queued, or the connection broke.
    pub(crate) async fn flushed(&self) {
        loop {
            let woken = self.room.notified();
            if self.session.borrow().queued_bytes() == 0 {
                break;
            }
            woken.await;
        }
        let _ = self.stream.flush().await;
    }
}
