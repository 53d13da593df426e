//! Function shipping, the node's side: system calls that the I/O node executes.
//!
//! One connection serves the whole node. [`Client::call`] queues a request and waits for the reply, which wakes its
//! caller and nobody else: whoever makes a place free (by a reply, or a new connection) sends what waits for it. How
//! many are under way at most, and in which order ranks get their turns, is said in
//! [`coppice_protocol::ship::Requests`]. A caller that goes away takes nothing back: a request that was sent is
//! executed, and its reply is thrown away.
//!
//! **People.** Nothing waits at the I/O node for people. Who cannot print, or finds no input, is told so at once, waits
//! here at a [`Bell`], and tries again when the I/O node has it rung; so does who waits for another's lock. Such waits
//! hold no place.
//!
//! **Lost connections.** When the connection breaks, [`Ship::keep_connected`] makes a new one, on which all requests
//! that are under way are said again; the I/O node makes none of them twice. Only if no connection comes within
//! [`SHIP_CONNECT_WAIT_NS`](crate::limits::SHIP_CONNECT_WAIT_NS) do calls fail, with `EIO`.

mod bell;
mod locking;
mod pages;
mod pending;
mod print;
mod scrub;
mod tally;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::lease::FileId;
use coppice_protocol::session::{Channel, Frame};
use coppice_protocol::ship::{Call, NOTICE_ID, Notice, Owner, Reply, Request};
use spin::Once;

pub(crate) use self::bell::{Bell, Bells};
pub(crate) use self::locking::Locking;
pub(crate) use self::pages::ProgramFile;
pub use self::pending::Answer;
pub(crate) use self::pending::Taker;
pub(crate) use self::print::Printing;
pub use self::scrub::Delivery;
pub(crate) use self::tally::Tally;

use self::pending::{Caller, Pending, State, Taken};
use crate::errno::Errno;
use crate::executor::{self, Either, WaitQueue, oneshot, race};
use crate::net::{Backoff, Credentials, Dial, Link, LinkError};
use crate::sync::{LockLevel, Mutex};

/// The node's function-shipping connection. Clones are handles to the same.
#[derive(Clone)]
pub struct Ship {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when a connection comes or goes, when a call is made while there is none, and when a reply has come that
    /// nobody waits for. Calls do not wait here.
    changed: WaitQueue,
    /// The way to the I/O node, once there is one.
    dial: Once<Box<dyn Dial>>,
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
        let state = Mutex::new(LockLevel::Ship, State::default());
        Self { shared: Arc::new(Shared { state, changed: WaitQueue::new(), dial: Once::new() }) }
    }

    /// A client that makes calls for one rank.
    #[must_use]
    pub fn client(&self, job: JobId, rank: Rank) -> Client {
        let owner = Owner { job, rank };
        let bells = self.shared.state.lock().bells(owner);
        Client { shared: Arc::clone(&self.shared), owner, bells, tally: Tally::default() }
    }

    /// Connects to the I/O node, hands replies to those who wait for them, and connects again when the connection
    /// breaks. Never done, and to be called once.
    pub async fn keep_connected(&self, dial: impl Dial + 'static, credentials: Credentials) {
        let dial = &**self.shared.dial.call_once(|| Box::new(dial));
        // Whoever makes a place free looks whether the link has room; nobody waits for that alone.
        let drained = Arc::new(WaitQueue::new());
        let mut backoff = Backoff::new();
        loop {
            let connecting = async {
                loop {
                    match Link::establish(dial, Channel::Ship, &credentials, &drained).await {
                        Ok(link) => return link,
                        Err(error) => log::warn!("ship: {error}"),
                    }
                    backoff.pause().await;
                }
            };
            let Either::First(link) = race(connecting, self.fail_overdue()).await;
            log::debug!("ship: connected");
            let error = self.serve(Arc::new(link)).await;
            log::warn!("ship: {error}");
            backoff.reset();
            backoff.pause().await;
        }
    }

    /// Breaks the connection off, for when the I/O node is known to be gone: one that waits for a reply only would not
    /// notice. A new one is made.
    pub fn disconnect(&self) {
        if let Some(link) = self.shared.state.lock().link() {
            link.abort();
        }
    }

    async fn serve(&self, link: Arc<Link>) -> LinkError {
        self.change(|state| state.connected(Arc::clone(&link)));
        let error = loop {
            match link.receive().await {
                Ok(frame) => self.hear(frame),
                Err(error) => break error,
            }
        };
        self.change(|state| state.disconnected(executor::now_ns()));
        error
    }

    fn hear(&self, frame: Frame) {
        if frame.id == NOTICE_ID {
            match frame.message() {
                Ok(ref notice @ (Notice::Output(owner) | Notice::Input(owner) | Notice::Lock(owner))) => {
                    self.shared.state.lock().ring(owner, notice);
                }
                Ok(Notice::Recall { job, file, number }) => self.recall(job, file, number),
                Ok(Notice::RecallNames { job, number }) => self.recall_names(job, number),
                Err(error) => log::warn!("ship: a notice that this node does not understand: {error}"),
            }
            return;
        }
        let (answered, refused) = {
            let mut state = self.shared.state.lock();
            let answered = state.answer(frame);
            state.send_waiting();
            (answered, state.take_refused())
        };
        match answered {
            Ok((true, taken)) => taken.into_iter().for_each(Taken::give),
            // What is waited for until a job has left nothing behind.
            Ok((false, _)) => self.shared.changed.wake_all(),
            Err(error) => log::warn!("ship: {error}"),
        }
        refused.into_iter().for_each(Taken::give);
    }

    /// A lease is to be given back.
    fn recall(&self, job: JobId, file: FileId, number: u64) {
        // A job that has no rank here has no lease either.
        let Some((holder, owner)) = self.shared.state.lock().leaseholder(job) else { return };
        holder.recall(&self.client(job, owner.rank), file, number);
    }

    /// A lease of names is to be given back.
    fn recall_names(&self, job: JobId, number: u64) {
        let Some((holder, owner)) = self.shared.state.lock().leaseholder(job) else { return };
        holder.recall_names(&self.client(job, owner.rank), number);
    }

    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let result = f(&mut self.shared.state.lock());
        self.shared.changed.wake_all();
        result
    }

    /// While there is no connection: has calls fail that have waited for one for too long. Never done.
    async fn fail_overdue(&self) -> core::convert::Infallible {
        loop {
            let due_ns = self.shared.changed.wait_until(|| self.shared.state.lock().first_overdue_ns()).await;
            executor::sleep_until(due_ns).await;
            let refused = {
                let mut state = self.shared.state.lock();
                state.fail_overdue(executor::now_ns());
                state.take_refused()
            };
            refused.into_iter().for_each(Taken::give);
        }
    }
}

/// Who has leases of files, for the ranks of a job here.
pub(crate) trait Leaseholder: Send + Sync {
    /// The I/O node wants a lease back, which `client` says is given when it is ([`Client::give_back`]).
    fn recall(&self, client: &Client, file: FileId, number: u64);

    /// The same of the lease of names ([`Client::give_names_back`]).
    fn recall_names(&self, client: &Client, number: u64);
}

/// Makes calls for one rank of one job.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    owner: Owner,
    bells: Arc<Bells>,
    tally: Tally,
}

impl Client {
    /// For whom this client calls.
    #[must_use]
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// What its calls on files came to.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What the I/O node has rung for this rank.
    pub(crate) fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Has the I/O node execute `call` with the bytes in `bulk`, and waits for the reply and its bulk bytes. At most
    /// [`coppice_protocol::limits::BULK_BYTES_MAX`] bytes go in either direction; the caller splits longer ones.
    ///
    /// Dropping the future before it is done: either the call was not sent yet and never happens, or it happens and
    /// its reply is thrown away.
    ///
    /// # Errors
    /// What the I/O node answered with ([`coppice_protocol::ship::Reply::Failed`] is never returned). `EIO` if there
    /// was no connection for [`crate::limits::SHIP_CONNECT_WAIT_NS`], and then the call may have happened or not, or
    /// the I/O node's answer made no sense; `E2BIG` if the request is too long for the protocol; `ENOMEM`.
    pub async fn call(&self, call: Call, bulk: Vec<u8>) -> Answer {
        let (reply, bytes) = self.queue(call, pending::share(bulk)).await.unwrap_or(Err(Errno::EIO))?;
        match reply.plain() {
            Reply::Failed(errno) => Err(Errno::from_wire(errno)),
            reply => Ok((reply, bytes)),
        }
    }

    /// As [`Self::call`], for who keeps what may be kept: then, and of an errno, too, the reply is a [`Reply::Known`].
    pub(crate) async fn look(&self, call: Call) -> Answer {
        self.queue(call, None).await.unwrap_or(Err(Errno::EIO))
    }

    /// The same for what others wait for, which goes first.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(crate) async fn call_owed(&self, call: Call, bulk: Vec<u8>) -> Answer {
        let (caller, receiver) = oneshot::channel();
        self.push(call, pending::share(bulk), Caller::Task(caller), true);
        let (reply, bytes) = receiver.await.unwrap_or(Err(Errno::EIO))?;
        match reply.plain() {
            Reply::Failed(errno) => Err(Errno::from_wire(errno)),
            reply => Ok((reply, bytes)),
        }
    }

    /// Queues a request, and sends it if there is a place for it.
    fn queue(&self, call: Call, bulk: pending::Bulk) -> oneshot::Receiver<Answer> {
        let (caller, receiver) = oneshot::channel();
        self.push(call, bulk, Caller::Task(caller), false);
        receiver
    }

    fn push(&self, call: Call, bulk: pending::Bulk, caller: Caller, is_owed: bool) {
        self.tally.calls(&call);
        let request = Request { owner: self.owner, call };
        let pending = Pending { request, bulk, caller, since_ns: executor::now_ns() };
        let (is_connected, refused) = {
            let mut state = self.shared.state.lock();
            if is_owed {
                state.push_owed(pending)
            } else {
                state.push(pending)
            }
            state.send_waiting();
            (state.link().is_some(), state.take_refused())
        };
        refused.into_iter().for_each(Taken::give);
        if !is_connected {
            // It is to be seen to that it does not wait for ever.
            self.shared.changed.wake_all();
        }
    }

    /// As [`Self::call`], but nobody waits: the answer is given to `taker`.
    pub(crate) fn ask_for(&self, call: Call, taker: Box<dyn Taker>) {
        self.push(call, None, Caller::Taker(taker), false);
    }

    /// The same for what others wait for, which goes first: what was not written yet.
    pub(crate) fn owe(&self, call: Call, bulk: Vec<u8>, taker: Box<dyn Taker>) {
        self.push(call, pending::share(bulk), Caller::Taker(taker), true);
    }

    /// Gives a lease back.
    pub(crate) fn give_back(&self, file: FileId, number: u64) {
        self.push(Call::Return { file, number }, None, Caller::Nobody, true);
    }

    /// Gives the lease of names back.
    pub(crate) fn give_names_back(&self, number: u64) {
        self.push(Call::ReturnNames { number }, None, Caller::Nobody, true);
    }

    /// The ranks of its job here have leases by this.
    pub(crate) fn has_leases(&self, holder: Weak<dyn Leaseholder>) {
        self.shared.state.lock().has_leases(self.owner.job, holder);
    }

    /// Gives up every call of this rank: nobody waits for its reply any more, and its place is others' when that has
    /// come. For when the rank is gone; [`Ship::scrub`] is to follow.
    pub fn release(&self) {
        self.shared.state.lock().forget(self.owner);
        self.shared.changed.wake_all();
    }
}

/// For models, in which no I/O node answers.
#[cfg(all(test, feature = "model"))]
impl Client {
    /// The numbers of leases that were given back.
    pub(crate) fn given_back(&self) -> Vec<u64> {
        self.shared.state.lock().given_back()
    }

    /// What is being written cannot be.
    pub(crate) fn fail_writes(&self) {
        let failed = self.shared.state.lock().fail_writes();
        failed.into_iter().for_each(Taken::give);
    }
}
