//! A program's TCP socket: what Linux's socket calls do, without waiting.
//!
//! The kernel makes one for socket(2) and calls it for the system calls on the descriptor. No call waits; one that
//! would have to says [`SocketError::WouldBlock`] or [`SocketError::InProgress`], and the watcher
//! ([`TcpSocket::register`]) is woken when trying again may lead further. So that no change is missed: register first,
//! then try.
//!
//! Connections to this node's own addresses are made in memory ([`crate::local`]); all others are smoltcp's.
//!
//! Watchers are woken with the stack locked: they must not call into it.

use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU16;
use core::task::Waker;

use smoltcp::phy::Device;
use smoltcp::socket::tcp::State as TcpState;
use spin::Mutex;

use crate::SocketError;
use crate::accounts::Ticket;
use crate::cell::{Cell, Readiness};
use crate::limits::BACKLOG_MAX;
use crate::local::{End, Name};
use crate::stack::listen::{Arrival, Listener, Place};
use crate::stack::net::Net;
use crate::stack::owner::{Owner, User};
use crate::stack::ports::Claim;
use crate::stack::settle::Cause;
use crate::stack::table::{Before, Key};
use crate::stack::{Stack, stack_duration};

mod connect;
mod record;
mod transfer;

/// A TCP socket of a program. Dropping it closes it: what was sent is still delivered, and the peer sees the end; if
/// something that was received is unread, or [`Self::set_linger`] says so, the peer sees a reset.
pub struct TcpSocket<D: Device> {
    stack: Stack<D>,
    cell: Arc<Cell>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// There until the socket is closed.
    ticket: Option<Ticket>,
    /// The port that was bound, until a connection holds it.
    claim: Option<Claim>,
    /// The name that was given to it, if it was.
    bound: Option<Ipv4Addr>,
    options: Options,
    phase: Phase,
}

#[derive(Clone, Copy, Default)]
struct Options {
    /// Closing resets.
    abort_on_close: bool,
    keep_alive_ns: Option<u64>,
}

/// What a socket is.
enum Phase {
    /// Neither listening nor connected.
    Fresh,
    Listening(Place),
    /// Connected, or being connected, to another node. `told`: connect has said so.
    Remote {
        key: Key,
        local: Name,
        peer: Name,
        told: bool,
    },
    /// The same, within this node.
    Local {
        end: End,
        told: bool,
    },
}

impl<D: Device> TcpSocket<D> {
    /// A new socket; nothing is allocated for connections yet.
    ///
    /// # Errors
    /// [`SocketError::TooMany`].
    pub fn new(stack: &Stack<D>) -> Result<Self, SocketError> {
        let ticket = stack.with_net(Net::ticket)?;
        Ok(Self::with_phase(stack, ticket, Arc::new(Cell::new(Readiness::FRESH)), Phase::Fresh, Options::default()))
    }

    fn with_phase(stack: &Stack<D>, ticket: Ticket, cell: Arc<Cell>, phase: Phase, options: Options) -> Self {
        let inner = Inner { ticket: Some(ticket), claim: None, bound: None, options, phase };
        Self { stack: stack.clone(), cell, inner: Mutex::new(inner) }
    }

    /// Gives the socket a name: one of this node's addresses or all (0.0.0.0), and a port or any (0), which
    /// [`Self::local`] then knows. With `reuse` (SO_REUSEADDR) the port may still be in use by others that have it too,
    /// as long as none listens.
    ///
    /// # Errors
    /// [`SocketError::AddressNotAvailable`] if the address is not this node's, [`SocketError::AddressInUse`],
    /// [`SocketError::Invalid`] if it has a name or is connected.
    pub fn bind(&self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<(), SocketError> {
        let mut inner = self.inner.lock();
        if inner.bound.is_some() || !matches!(inner.phase, Phase::Fresh) {
            return Err(SocketError::Invalid);
        }
        let claim = self.stack.with_net(|net| {
            let bindable = address.is_unspecified() || net.is_own(address);
            if bindable { net.ports.bind(address, port, reuse) } else { Err(SocketError::AddressNotAvailable) }
        })?;
        (inner.claim, inner.bound) = (Some(claim), Some(address));
        Ok(())
    }

    /// Accepts connections from now on; up to `backlog` of them may wait to be accepted. A socket without a name gets
    /// one. May be called again to change the backlog.
    ///
    /// # Errors
    /// [`SocketError::AddressInUse`] if another socket listens there, [`SocketError::Invalid`] if it is connected.
    pub fn listen(&self, backlog: usize) -> Result<(), SocketError> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let backlog = backlog.clamp(1, BACKLOG_MAX);
        match inner.phase {
            Phase::Fresh => {}
            Phase::Listening(place) => {
                self.stack.with_net(|net| net.set_backlog(place, backlog));
                return Ok(());
            }
            Phase::Remote { .. } | Phase::Local { .. } => return Err(SocketError::Invalid),
        }
        let address = inner.bound.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let place = self.stack.with_net(|net| {
            let claim = match inner.claim.take() {
                Some(claim) => claim,
                None => net.ports.bind(address, 0, false)?,
            };
            let place = Place { port: claim.port(), address: canonical(address) };
            let listening = net.ports.listen(&claim);
            inner.claim = Some(claim);
            listening?;
            self.cell.set(Readiness::NONE, false);
            net.listeners.insert(place, Listener::new(None, backlog, Arc::clone(&self.cell)));
            Ok(place)
        })?;
        inner.phase = Phase::Listening(place);
        Ok(())
    }

    /// The next connection.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if none waits, [`SocketError::Invalid`] if the socket does not listen.
    pub fn accept(&self) -> Result<Self, SocketError> {
        let (place, options) = match &*self.inner.lock() {
            Inner { phase: Phase::Listening(place), options, .. } => (*place, *options),
            _ => return Err(SocketError::Invalid),
        };
        let cell = Arc::new(Cell::new(Readiness::NONE));
        // As on Linux, what was asked of the listener holds for its connections.
        let (ticket, phase) = self.stack.with_net(|net| {
            let Some(listener) = net.listeners.get_mut(place) else { return Err(SocketError::Invalid) };
            match listener.take() {
                None => Err(SocketError::WouldBlock),
                Some(Arrival::Remote(key)) => net.adopt(key, &cell, options).ok_or(SocketError::WouldBlock),
                Some(Arrival::Local(mut end)) => {
                    end.set_cell(Arc::clone(&cell));
                    let ticket = end.ticket.take().ok_or(SocketError::WouldBlock)?;
                    Ok((ticket, Phase::Local { end, told: true }))
                }
            }
        })?;
        Ok(Self::with_phase(&self.stack, ticket, cell, phase, options))
    }

    /// Its own address and port, 0.0.0.0 and 0 if it has none.
    pub fn local(&self) -> (Ipv4Addr, u16) {
        let inner = self.inner.lock();
        match &inner.phase {
            Phase::Remote { local, .. } => *local,
            Phase::Local { end, .. } => end.own,
            Phase::Fresh | Phase::Listening(_) => {
                let port = inner.claim.as_ref().map_or(0, Claim::port);
                (inner.bound.unwrap_or(Ipv4Addr::UNSPECIFIED), port)
            }
        }
    }

    /// Address and port it is connected to. `None`, too, when the connection is over in both directions: Linux lets
    /// the program's socket go then, and only remembers the ports.
    pub fn peer(&self) -> Option<(Ipv4Addr, u16)> {
        match &self.inner.lock().phase {
            Phase::Remote { key, peer, .. } => {
                let state = self.stack.with_socket(*key, |socket| socket.state())?;
                let is_none =
                    matches!(state, TcpState::SynSent | TcpState::SynReceived | TcpState::TimeWait | TcpState::Closed);
                (!is_none).then_some(*peer)
            }
            Phase::Local { end, .. } => end.is_connected().then_some(end.peer),
            Phase::Fresh | Phase::Listening(_) => None,
        }
    }

    /// Takes the pending error (SO_ERROR).
    pub fn take_error(&self) -> Option<SocketError> {
        match &self.inner.lock().phase {
            Phase::Remote { key, .. } => self.stack.with_net(|net| net.take_error(*key)),
            Phase::Local { end, .. } => end.take_error(),
            Phase::Fresh | Phase::Listening(_) => None,
        }
    }

    /// Whether it listens (SO_ACCEPTCONN).
    pub fn is_listening(&self) -> bool {
        matches!(self.inner.lock().phase, Phase::Listening(_))
    }

    /// What can be done with it now. Takes no lock.
    pub fn readiness(&self) -> Readiness {
        self.cell.get()
    }

    /// The readiness as the bits of poll(2), now and later, for those who look at many sockets often.
    pub fn level(&self) -> Arc<AtomicU16> {
        self.cell.level()
    }

    /// How often the readiness may have become more so far: who watched before and watches again finds out whether
    /// something was missed.
    pub fn changes(&self) -> u64 {
        self.cell.changes()
    }

    /// Has `watcher` woken whenever the readiness may have become more, until another one takes its place.
    pub fn register(&self, watcher: &Waker) {
        self.cell.watch(watcher);
    }

    /// Closing resets the connection and forgets what was sent (SO_LINGER with time 0).
    pub fn set_linger(&self, abort: bool) {
        self.inner.lock().options.abort_on_close = abort;
    }

    /// Has the peer asked for a sign of life whenever the connection was silent for `interval_ns`.
    pub fn set_keep_alive(&self, interval_ns: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.options.keep_alive_ns = interval_ns;
        if let Phase::Remote { key, .. } = inner.phase {
            let interval = interval_ns.map(stack_duration);
            self.stack.with_net(|net| net.table.get_mut(key).map(|entry| entry.set_keep_alive(interval)));
            self.stack.kick_socket(key);
        }
    }
}

/// The address that stands for all with the same meaning: the whole of 127.0.0.0/8 is this node.
fn canonical(address: Ipv4Addr) -> Ipv4Addr {
    if address.is_loopback() { Ipv4Addr::LOCALHOST } else { address }
}

impl Net {
    /// Whether `address` is one of this node's, for programs.
    pub(crate) fn is_own(&self, address: Ipv4Addr) -> bool {
        self.job_address() == Some(address) || address.is_loopback()
    }

    /// Enters one more socket of a program; the longest closed one makes room for it.
    pub(crate) fn ticket(&mut self) -> Result<Ticket, SocketError> {
        match self.accounts.ticket() {
            Err(_) if self.forget_oldest(|entry| entry.holding.is_some()) => self.accounts.ticket(),
            ticket => ticket,
        }
    }

    fn set_backlog(&mut self, place: Place, backlog: usize) {
        if let Some(listener) = self.listeners.get_mut(place) {
            listener.backlog = backlog;
            listener.admit();
        }
    }

    /// A connection that was made gets its owner.
    fn adopt(&mut self, key: Key, cell: &Arc<Cell>, options: Options) -> Option<(Ticket, Phase)> {
        let address = self.job_address()?;
        let entry = self.table.get_mut(key)?;
        let ticket = entry.holding.as_mut()?.ticket.take()?;
        let route = entry.name?;
        let mut user = User::new(Arc::clone(cell));
        let (socket, owner) = entry.split();
        if let Owner::Listener { aside, .. } = owner {
            user.aside = core::mem::take(aside);
        }
        if socket.state() == TcpState::Closed {
            user.error = Some(SocketError::Reset);
        }
        user.was_connected = true;
        user.update(socket, false);
        *owner = Owner::User(user);
        entry.set_keep_alive(options.keep_alive_ns.map(stack_duration));
        let (local, peer) = ((address, route.local_port()), route.peer());
        Some((ticket, Phase::Remote { key, local, peer, told: true }))
    }

    fn take_error(&mut self, key: Key) -> Option<SocketError> {
        let (socket, owner) = self.table.get_mut(key)?.split();
        let Owner::User(user) = owner else { return None };
        let error = user.error.take();
        user.update(socket, false);
        error
    }

    /// Takes a program's connection over; `ticket` goes with it.
    fn let_go(&mut self, key: Key, ticket: Option<Ticket>, abort: bool) {
        let Some(entry) = self.table.get_mut(key) else { return };
        let before = Before::of(entry.socket());
        if let Some(holding) = &mut entry.holding {
            holding.ticket = ticket;
        }
        let wipe = self.wipe;
        let (socket, owner) = entry.split();
        let unread = match owner {
            Owner::User(user) => user.received(socket) > 0,
            _ => socket.recv_queue() > 0,
        };
        while let Ok(1..) = socket.recv(|bytes| {
            wipe(bytes);
            (bytes.len(), bytes.len())
        }) {}
        match socket.state() {
            TcpState::SynSent | TcpState::SynReceived => socket.abort(),
            _ if abort || unread => socket.abort(),
            _ => socket.close(),
        }
        self.let_close(key);
        self.settle(key, before, Cause::Time);
    }
}

impl<D: Device> Drop for TcpSocket<D> {
    fn drop(&mut self) {
        self.cell.forget_watcher();
        let Inner { ticket, claim, options, phase, .. } = self.inner.get_mut();
        let (ticket, claim) = (ticket.take(), claim.take());
        let (stack, abort) = (&self.stack, options.abort_on_close);
        match core::mem::replace(phase, Phase::Fresh) {
            Phase::Fresh => {}
            Phase::Listening(place) => stack.with_net(|net| net.unlisten(place)),
            Phase::Remote { key, .. } => stack.with_net(|net| net.let_go(key, ticket, abort)),
            Phase::Local { end, .. } => {
                if abort {
                    end.abort();
                }
            }
        }
        if let Some(claim) = claim {
            stack.with_net(|net| net.ports.release(claim));
        }
        stack.kick();
    }
}
