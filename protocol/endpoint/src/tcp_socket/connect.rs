//! connect(2).

use alloc::sync::Arc;
use core::net::Ipv4Addr;

use smoltcp::phy::Device;
use smoltcp::socket::tcp::State as TcpState;

use super::{Inner, Phase, TcpSocket, canonical};
use crate::SocketError;
use crate::accounts::Holding;
use crate::cell::{Cell, Readiness};
use crate::limits::USER_ACKNOWLEDGE_DELAY_NS;
use crate::local::{self, End, Name};
use crate::stack::listen::Arrival;
use crate::stack::net::{Net, new_socket};
use crate::stack::owner::{Owner, User};
use crate::stack::stack_duration;
use crate::stack::table::{Entry, Key, Route};

/// What an earlier connect(2) came to.
enum Outcome {
    Waits,
    Connected,
    Failed(Option<SocketError>),
}

impl<D: Device> TcpSocket<D> {
    /// Connects to `address`:`port`, or says how far an earlier call has come. Calling it again after a failure was
    /// reported tries anew.
    ///
    /// # Errors
    /// [`SocketError::InProgress`] the first time: the socket gets writable when it is connected or failed, and
    /// [`Self::take_error`] or another call say which. Then [`SocketError::AlreadyInProgress`] while it lasts,
    /// [`SocketError::Refused`] or [`SocketError::TimedOut`] once if it failed, `Ok` once if not, and
    /// [`SocketError::AlreadyConnected`] from then on, or if it listens. [`SocketError::NoHost`] and
    /// [`SocketError::Unreachable`] if there is no such node in the job, [`SocketError::Invalid`] if its own address
    /// does not reach there, [`SocketError::NoMemory`].
    pub fn connect(&self, address: Ipv4Addr, port: u16) -> Result<(), SocketError> {
        let mut inner = self.inner.lock();
        match self.outcome(&mut inner)? {
            None => {}
            Some(Outcome::Waits) => return Err(SocketError::AlreadyInProgress),
            Some(Outcome::Connected) => return Ok(()),
            Some(Outcome::Failed(error)) => {
                self.start_over(&mut inner);
                if let Some(error) = error {
                    return Err(error);
                }
            }
        }
        // connect(2) to no address at all means this node.
        let address = if address.is_unspecified() { Ipv4Addr::LOCALHOST } else { address };
        let own = self.stack.with_net(|net| net.is_own(address));
        if own {
            self.connect_local(&mut inner, (address, port))
        } else {
            self.connect_remote(&mut inner, (address, port))
        }
    }

    /// What an earlier call came to; `None` if there was none.
    fn outcome(&self, inner: &mut Inner) -> Result<Option<Outcome>, SocketError> {
        let (outcome, told) = match &mut inner.phase {
            Phase::Fresh => return Ok(None),
            Phase::Listening(_) => return Err(SocketError::AlreadyConnected),
            Phase::Remote { key, told, .. } => (self.stack.with_net(|net| net.outcome(*key, *told)), told),
            Phase::Local { end, told } => {
                let outcome = match end.is_waiting() {
                    true => Outcome::Waits,
                    false if *told || end.is_open() => Outcome::Connected,
                    false => Outcome::Failed(end.take_error()),
                };
                (outcome, told)
            }
        };
        match outcome {
            Outcome::Connected if core::mem::replace(told, true) => Err(SocketError::AlreadyConnected),
            outcome => Ok(Some(outcome)),
        }
    }

    /// Makes a socket that failed to connect a fresh one. What it was bound to, it stays bound to.
    pub(super) fn start_over(&self, inner: &mut Inner) {
        let phase = core::mem::replace(&mut inner.phase, Phase::Fresh);
        self.stack.with_net(|net| {
            if let Phase::Remote { key, .. } = phase {
                inner.claim = net.table.get_mut(key).and_then(|entry| entry.claim.take());
                net.remove(key);
            }
            net.release_unbound(inner);
        });
        self.cell.set(Readiness::FRESH, false);
    }

    fn connect_local(&self, inner: &mut Inner, to: Name) -> Result<(), SocketError> {
        let address = match inner.bound {
            Some(bound) if !bound.is_unspecified() => bound,
            _ => canonical(to.0),
        };
        let end = self.with_port(inner, |net, port| net.connect_local((address, port), to, &self.cell))?;
        let waits = end.is_waiting();
        inner.phase = Phase::Local { end, told: !waits };
        if waits { Err(SocketError::InProgress) } else { Ok(()) }
    }

    fn connect_remote(&self, inner: &mut Inner, peer: Name) -> Result<(), SocketError> {
        let (bound, keep_alive_ns) = (inner.bound, inner.options.keep_alive_ns);
        let (key, local) = self.with_port(inner, |net, port| {
            let own = net.check_reachable(bound, peer)?;
            Ok((net.connect_remote(port, peer, &self.cell, keep_alive_ns)?, (own, port)))
        })?;
        let claim = inner.claim.take();
        self.stack.with_net(|net| net.table.get_mut(key).map(|entry| entry.claim = claim));
        inner.phase = Phase::Remote { key, local, peer, told: false };
        self.stack.kick();
        Err(SocketError::InProgress)
    }

    /// Calls `f` with a port for the socket's end. A port that is taken for this is given back if `f` fails.
    fn with_port<R>(
        &self,
        inner: &mut Inner,
        f: impl FnOnce(&mut Net, u16) -> Result<R, SocketError>,
    ) -> Result<R, SocketError> {
        self.stack.with_net(|net| {
            let port = match &inner.claim {
                Some(claim) => claim.port(),
                None => {
                    let claim = net.ports.bind(Ipv4Addr::UNSPECIFIED, 0, true)?;
                    inner.claim.insert(claim).port()
                }
            };
            f(net, port).inspect_err(|_| net.release_unbound(inner))
        })
    }
}

impl Net {
    /// Gives a port back that a socket had only to connect from.
    fn release_unbound(&mut self, inner: &mut Inner) {
        if inner.bound.is_none()
            && let Some(claim) = inner.claim.take()
        {
            self.ports.release(claim);
        }
    }

    fn outcome(&mut self, key: Key, told: bool) -> Outcome {
        let Some((socket, Owner::User(user))) = self.table.get_mut(key).map(Entry::split) else {
            return Outcome::Failed(None);
        };
        match socket.state() {
            TcpState::SynSent | TcpState::SynReceived => Outcome::Waits,
            TcpState::Closed if !told && !user.was_connected => Outcome::Failed(user.error.take()),
            _ => Outcome::Connected,
        }
    }

    fn connect_local(&mut self, from: Name, to: Name, cell: &Arc<Cell>) -> Result<End, SocketError> {
        // The node's own ports are not for its programs.
        let known = self.listeners.find(canonical(to.0), to.1).filter(|(_, listener)| listener.sizes.is_none());
        let Some((place, listener)) = known else { return Err(SocketError::Refused) };
        listener.waiting.try_reserve(1).map_err(|_| SocketError::NoMemory)?;
        let ticket = self.ticket()?;
        let (connector, acceptor) = local::pair(&self.accounts, ticket, self.wipe, (from, Arc::clone(cell)), to)?;
        if let Some(listener) = self.listeners.get_mut(place) {
            // Who connected first comes first.
            if listener.is_full() || !listener.waiting.is_empty() {
                cell.set(Readiness::NONE, false);
                listener.waiting.push_back(acceptor);
            } else {
                acceptor.open();
                listener.arrive(Arrival::Local(acceptor));
            }
        }
        Ok(connector)
    }

    /// Whether a socket bound to `bound` can have `peer`, another node of the job, and this node's address there.
    pub(crate) fn check_reachable(&self, bound: Option<Ipv4Addr>, peer: Name) -> Result<Ipv4Addr, SocketError> {
        if bound.is_some_and(|bound| bound.is_loopback()) {
            return Err(SocketError::Invalid);
        }
        let job = self.sides.job.as_ref().filter(|job| job.side.network.contains_addr(&peer.0));
        let job = job.filter(|job| !job.is_broadcast(peer.0)).ok_or(SocketError::Unreachable)?;
        if job.network.station_of(peer.0).is_none() {
            return Err(SocketError::NoHost);
        }
        if peer.1 == 0 { Err(SocketError::Refused) } else { Ok(job.network.own().address()) }
    }

    fn connect_remote(
        &mut self,
        port: u16,
        peer: Name,
        cell: &Arc<Cell>,
        keep_alive_ns: Option<u64>,
    ) -> Result<Key, SocketError> {
        if self.table.find(Route::new(peer.0, peer.1, port)).is_some() {
            // The same connection once more, from a port that is bound.
            return Err(SocketError::AddressNotAvailable);
        }
        let ((receive, received), (transmit, transmitted)) = (self.accounts.ring()?, self.accounts.ring()?);
        let socket = new_socket(receive, transmit, USER_ACKNOWLEDGE_DELAY_NS);
        let holding = Holding { ticket: None, _rings: [received, transmitted] };
        let user = User::new(Arc::clone(cell));
        let key = self.table.add(socket, Owner::User(user), Some(holding)).ok_or(SocketError::NoMemory)?;
        if let Some(entry) = self.table.get_mut(key) {
            entry.set_keep_alive(keep_alive_ns.map(stack_duration));
        }
        cell.set(Readiness::NONE, false);
        if self.start(key, peer, port).is_err() {
            self.remove(key);
            cell.set(Readiness::FRESH, false);
            return Err(SocketError::Unreachable);
        }
        Ok(key)
    }
}
