//! Function shipping, the node's side: system calls that the I/O node executes.
//!
//! One connection serves the whole node. [`Client::call`] queues a request whole and waits for its reply. The number of
//! requests under way is limited ([`coppice_protocol::limits::REQUESTS_IN_FLIGHT_MAX`]). A caller that goes away takes
//! nothing back: the request is executed, and its reply is thrown away. When the connection breaks, every call that is
//! under way fails with `EIO`, and [`Ship::keep_connected`] makes a new connection.

mod requests;
mod scrub;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::session::{Channel, SendError};
use coppice_protocol::ship::{Call, Owner, Request};
use spin::Once;

pub use self::requests::Answer;

use self::requests::Requests;
use crate::errno::Errno;
use crate::executor::{self, WaitQueue, oneshot};
use crate::limits::SHIP_CONNECT_WAIT_NS;
use crate::net::{Backoff, Credentials, Dial, Link, LinkError};
use crate::sync::{LockLevel, Mutex};

/// The node's function-shipping connection. Clones are handles to the same.
#[derive(Clone)]
pub struct Ship {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when a connection comes or goes, when queued bytes have left and when a request leaves the table.
    changed: Arc<WaitQueue>,
    /// The way to the I/O node, once there is one.
    dial: Once<Box<dyn Dial>>,
}

struct State {
    link: Option<Arc<Link>>,
    requests: Requests,
}

impl Default for Ship {
    fn default() -> Self {
        Self::new()
    }
}

impl Ship {
    /// Not connected, until [`Self::keep_connected`] runs.
    #[must_use]
    pub fn new() -> Self {
        let state = Mutex::new(LockLevel::Ship, State { link: None, requests: Requests::new() });
        Self { shared: Arc::new(Shared { state, changed: Arc::new(WaitQueue::new()), dial: Once::new() }) }
    }

    /// A client that makes calls for one rank.
    #[must_use]
    pub fn client(&self, job: JobId, rank: Rank) -> Client {
        Client { shared: Arc::clone(&self.shared), owner: Owner { job, rank } }
    }

    /// Connects to the I/O node, hands replies to those who wait for them, and connects again when the connection
    /// breaks. Never done, and to be called once.
    pub async fn keep_connected(&self, dial: impl Dial + 'static, credentials: Credentials) {
        let dial = &**self.shared.dial.call_once(|| Box::new(dial));
        let mut backoff = Backoff::new();
        loop {
            let error = match Link::establish(dial, Channel::Ship, &credentials, &self.shared.changed).await {
                Ok(link) => {
                    backoff.reset();
                    log::debug!("ship: connected");
                    self.serve(Arc::new(link)).await
                }
                Err(error) => error,
            };
            log::warn!("ship: {error}");
            backoff.pause().await;
        }
    }

    /// Breaks the connection off, for when the I/O node is known to be gone: one that waits for a reply only would not
    /// notice. A new one is made.
    pub fn disconnect(&self) {
        if let Some(link) = &self.shared.state.lock().link {
            link.abort();
        }
    }

    async fn serve(&self, link: Arc<Link>) -> LinkError {
        self.change(|state| state.link = Some(Arc::clone(&link)));
        let error = loop {
            let frame = match link.receive().await {
                Ok(frame) => frame,
                Err(error) => break error,
            };
            if !self.change(|state| state.requests.answer(frame)) {
                log::warn!("ship: a reply that nobody understands or asked for");
            }
        };
        self.change(|state| {
            state.link = None;
            state.requests.fail_all(Errno::EIO);
        });
        error
    }

    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let result = f(&mut self.shared.state.lock());
        self.shared.changed.wake_all();
        result
    }
}

/// Makes calls for one rank of one job.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    owner: Owner,
}

/// What became of an attempt to queue a request.
enum Submission {
    Queued(oneshot::Receiver<Answer>),
    Refused(Errno),
    /// The connection was lost meanwhile.
    LinkGone,
}

impl Client {
    /// For whom this client calls.
    #[must_use]
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// Has the I/O node execute `call` with the bytes in `bulk`, and waits for the reply and its bulk bytes. At most
    /// [`coppice_protocol::limits::BULK_BYTES_MAX`] bytes go in either direction; the caller splits longer ones.
    ///
    /// Dropping the future before it is done: either the call was not queued yet and never happens, or it happens and
    /// its reply is thrown away.
    ///
    /// # Errors
    /// What the I/O node answered with ([`coppice_protocol::ship::Reply::Failed`] is never returned). `EIO` if the
    /// connection broke or did not come within [`SHIP_CONNECT_WAIT_NS`], or the I/O node's answer made no sense;
    /// `E2BIG` if the request is too long for the protocol; `ENOMEM`.
    pub async fn call(&self, call: Call, bulk: Vec<u8>) -> Answer {
        let request = Request { owner: self.owner, call };
        let mut bulk = bulk;
        let receiver = loop {
            let link = self.link().await.ok_or(Errno::EIO)?;
            let submission = self.shared.changed.wait_until(|| self.submit(&link, &request, &mut bulk)).await;
            match submission {
                Submission::Queued(receiver) => break receiver,
                Submission::Refused(errno) => return Err(errno),
                Submission::LinkGone => {}
            }
        };
        receiver.await.unwrap_or(Err(Errno::EIO))
    }

    /// Gives up every call of this rank that is under way: nobody waits for its reply any more, and the places go to
    /// others. For when the rank is gone; [`Ship::scrub`] is to follow.
    pub fn release(&self) {
        self.shared.state.lock().requests.forget(self.owner);
        self.shared.changed.wake_all();
    }

    /// The connection, waiting a while for one.
    async fn link(&self) -> Option<Arc<Link>> {
        let connected = self.shared.changed.wait_until(|| self.shared.state.lock().link.clone());
        executor::timeout(SHIP_CONNECT_WAIT_NS, connected).await.ok()
    }

    /// Queues the request if there is a place for it. `None`: not now.
    fn submit(&self, link: &Arc<Link>, request: &Request, bulk: &mut Vec<u8>) -> Option<Submission> {
        let mut state = self.shared.state.lock();
        if !state.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            return Some(Submission::LinkGone);
        }
        if state.requests.is_full() || link.is_full() {
            return None;
        }
        let id = state.requests.next_id();
        Some(match link.send(id, request, core::mem::take(bulk)) {
            Ok(()) => Submission::Queued(state.requests.add(id, request.owner)),
            Err(SendError::TooLong { .. }) => Submission::Refused(Errno::E2BIG),
            Err(SendError::Full | SendError::OutOfMemory) => Submission::Refused(Errno::ENOMEM),
            Err(SendError::NotEstablished) => Submission::Refused(Errno::EIO),
        })
    }
}
