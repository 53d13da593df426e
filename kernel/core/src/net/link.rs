//! A session on a connection: authenticated messages to and from the I/O node.
//!
//! Any task may [`Link::send`]; one task calls [`Link::receive`] over and over, and that also moves queued bytes on and
//! keeps the session's time.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};

use alloc::sync::Arc;
use alloc::vec::Vec;
use coppice_endpoint::NetError;
use coppice_protocol::limits::{CONTROL_PORT, HEARTBEAT_DEAD_NS, SHIP_PORT};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Event, Frame, Identity, RestWatch, SendError, Session, SessionError};
use serde::Serialize;

use super::dial::{Dial, Wire};
use crate::executor::{self, Sleep, WaitQueue};
use crate::limits::{CONNECT_TIMEOUT_NS, CONTROL_BUFFER_BYTES, KEEP_ALIVE_NS, QUEUED_BYTES_MAX, SHIP_BUFFER_BYTES};
use crate::random;
use crate::sync::{LockLevel, Mutex};

/// Who the node is and what proves it.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Which boot of which node.
    pub identity: Identity,
    /// The key of this boot.
    pub key: NodeKey,
}

/// Why there is no link, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The connection could not be made or broke.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The peer broke the session's rules, or turned the node down.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The I/O node closed the connection.
    #[error("I/O node closed the connection")]
    Ended,
    /// The rest of a message did not come.
    #[error("the rest of a message did not come")]
    Halfway,
    /// The connection was not made and greeted in time.
    #[error("I/O node does not answer")]
    Timeout,
}

/// How often it is looked whether more of a message has come, of which there is some, ns: it takes two looks.
const REST_LOOK_NS: u64 = HEARTBEAT_DEAD_NS / 2;

/// Looks whether the rest of a message comes. Nothing is due while there is none in part.
#[derive(Default)]
struct Rest {
    watch: RestWatch,
    alarm: Option<Sleep>,
}

/// An established session.
pub struct Link {
    wire: Arc<dyn Wire>,
    session: Mutex<Session>,
    /// The task in [`Self::receive`], for when it has to take over writing.
    receiver: Mutex<Option<Waker>>,
    /// Told when queued bytes have gone.
    drained: Arc<WaitQueue>,
}

impl Link {
    /// Connects to the I/O node's port for `channel` and shakes hands. `drained` is told whenever [`Self::is_full`] may
    /// have become false.
    ///
    /// # Errors
    /// [`LinkError`], at the latest after [`CONNECT_TIMEOUT_NS`].
    pub async fn establish(
        dial: &dyn Dial,
        channel: Channel,
        credentials: &Credentials,
        drained: &Arc<WaitQueue>,
    ) -> Result<Self, LinkError> {
        let attempt = async {
            let (port, buffer_bytes) = match channel {
                Channel::Control => (CONTROL_PORT, CONTROL_BUFFER_BYTES),
                Channel::Ship => (SHIP_PORT, SHIP_BUFFER_BYTES),
            };
            let wire = dial.dial(port, buffer_bytes).await?;
            let Credentials { identity, key } = credentials;
            let session = Session::connect(channel, *identity, key, random::bytes(), executor::now_ns());
            let link = Self {
                wire,
                session: Mutex::new(LockLevel::Session, session),
                receiver: Mutex::new(LockLevel::Waiters, None),
                drained: Arc::clone(drained),
            };
            while !matches!(link.next_event().await?, Event::Established(_)) {}
            if channel == Channel::Control {
                link.wire.keep_alive(KEEP_ALIVE_NS);
            }
            Ok(link)
        };
        executor::timeout(CONNECT_TIMEOUT_NS, attempt).await.unwrap_or(Err(LinkError::Timeout))
    }

    /// Queues a whole message and writes what there is room for.
    ///
    /// # Errors
    /// [`SendError`] if the message is too long or the session is over; nothing was queued then.
    pub fn send<T: Serialize>(&self, id: u64, message: &T, bulk: Vec<u8>) -> Result<(), SendError> {
        let mut session = self.session.lock();
        session.send_owned(id, message, bulk)?;
        self.write(&mut session);
        Ok(())
    }

    /// As [`Self::send`], with bulk bytes that the caller keeps, too.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_shared<T: Serialize>(&self, id: u64, message: &T, bulk: Option<Arc<Vec<u8>>>) -> Result<(), SendError> {
        let mut session = self.session.lock();
        match bulk {
            Some(bulk) => session.send_shared(id, message, bulk)?,
            None => session.send(id, message, &[])?,
        }
        self.write(&mut session);
        Ok(())
    }

    /// Writes what there is room for; the receiver goes on.
    fn write(&self, session: &mut Session) {
        // An error shows when the receiver looks.
        while let Ok(written @ 1..) = self.wire.try_write(session.transmit()) {
            session.consume(written);
        }
        if !session.transmit().is_empty()
            && let Some(receiver) = self.receiver.lock().take()
        {
            receiver.wake();
        }
    }

    /// Whether callers should wait before they queue more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.session.lock().queued_bytes() > QUEUED_BYTES_MAX
    }

    /// Everything that was sent has reached the peer's stack.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.session.lock().queued_bytes() == 0 && self.wire.unacknowledged() == 0
    }

    /// Breaks the connection off; [`Self::receive`] says so.
    pub fn abort(&self) {
        self.wire.abort();
    }

    /// Waits for the next message. Cancel-safe. One task may wait at a time.
    ///
    /// # Errors
    /// [`LinkError`]: the link is of no more use. [`LinkError::Halfway`] after [`HEARTBEAT_DEAD_NS`] in which hardly
    /// anything of a message came that was there in part.
    pub async fn receive(&self) -> Result<Frame, LinkError> {
        let mut rest = Rest::default();
        loop {
            if let Event::Frame(frame) = poll_fn(|context| self.poll_event_whole(&mut rest, context)).await? {
                return Ok(frame);
            }
        }
    }

    fn poll_event_whole(&self, rest: &mut Rest, context: &mut Context<'_>) -> Poll<Result<Event, LinkError>> {
        let polled = self.poll_event(context);
        if polled.is_ready() {
            return polled;
        }
        let session = self.session.lock();
        while session.buffered_bytes() > 0 {
            let alarm = rest.alarm.get_or_insert_with(|| executor::sleep(REST_LOOK_NS));
            ready!(Pin::new(alarm).poll(context));
            rest.alarm = None;
            if rest.watch.look(&session) > 0 {
                return Poll::Ready(Err(LinkError::Halfway));
            }
        }
        rest.alarm = None;
        Poll::Pending
    }

    async fn next_event(&self) -> Result<Event, LinkError> {
        poll_fn(|context| self.poll_event(context)).await
    }

    fn poll_event(&self, context: &mut Context<'_>) -> Poll<Result<Event, LinkError>> {
        // Lock order: session before stack, here and in `send`.
        let mut session = self.session.lock();
        loop {
            self.poll_transmit(&mut session, context)?;
            if let Some(event) = session.poll_event() {
                return Poll::Ready(Ok(event));
            }
            if let Some(error) = session.failure() {
                return Poll::Ready(Err(error.into()));
            }
            match self.wire.poll_readable(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(readable) => {
                    if !readable? {
                        return Poll::Ready(Err(LinkError::Ended));
                    }
                }
            }
            // A failure shows above, after the events before it.
            self.wire.take(&mut |bytes| {
                let _ = session.handle_bytes(bytes);
            })?;
        }
    }

    /// Writes what is queued, as far as there is room.
    fn poll_transmit(&self, session: &mut Session, context: &mut Context<'_>) -> Result<(), NetError> {
        *self.receiver.lock() = Some(context.waker().clone());
        let mut progress = false;
        while !session.transmit().is_empty() {
            match self.wire.poll_write(context, session.transmit()) {
                Poll::Pending => break,
                Poll::Ready(written) => {
                    session.consume(written?);
                    progress = true;
                }
            }
        }
        if progress && session.queued_bytes() <= QUEUED_BYTES_MAX {
            self.drained.wake_all();
        }
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.wire.abort();
    }
}
