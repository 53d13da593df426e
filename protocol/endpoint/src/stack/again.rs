//! Connections that are made again from records ([`crate::record`]): new ones for TCP, between the same names.
//!
//! Of two ends, the one with the larger name calls, and the other waits for its call alone, whoever it was that called
//! the first time. An end that was closed for writing is closed again as soon as the connection is there.

mod progress;

use alloc::vec::Vec;

use smoltcp::phy::Device;
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::Instant;

pub(crate) use self::progress::Again;

use super::net::{Net, new_socket};
use super::owner::{Owner, User};
use super::quiet::is_quiet;
use super::table::{Entry, Key, Route};
use super::{Stack, stack_time};
use crate::SocketError;
use crate::accounts::{Holding, Ticket};
use crate::limits::USER_ACKNOWLEDGE_DELAY_NS;
use crate::local::Name;
use crate::record::{Capacities, ConnectionRecord, NotMade, NotQuiet, OrphanRecord, PortRecord, Stage};

/// A connection of that name is to be made again, of this side's port.
#[derive(Clone, Copy)]
pub(crate) struct Between {
    pub(crate) local: Name,
    pub(crate) peer: Name,
    pub(crate) port: Option<PortRecord>,
}

impl<D: Device> Stack<D> {
    /// Connections that programs of this node have closed and their peers have not.
    ///
    /// # Errors
    /// [`NotQuiet`].
    pub fn record_orphans(&self) -> Result<Vec<OrphanRecord>, NotQuiet> {
        self.with_net(Net::record_orphans)
    }

    /// Lets go of them without a word to their peers, as of the others.
    pub fn forget_orphans(&self) {
        self.with_net(|net| {
            let is_orphan = |entry: &mut Entry| entry.holding.is_some() && matches!(entry.owner, Owner::Nobody { .. });
            net.each_that(is_orphan, Net::remove);
        });
    }

    /// Makes these again.
    ///
    /// # Errors
    /// [`NotMade`].
    pub fn make_orphans_again(&self, records: &[OrphanRecord]) -> Result<(), NotMade> {
        records.iter().try_for_each(|record| self.with_net(|net| net.make_orphan_again(record)))
    }

    /// Calls for the connections of the sockets that were made again. To be called when they were on all nodes.
    pub fn call_again(&self) {
        self.with_net(|net| {
            let calls = net.again.take_calls();
            net.call(calls);
        });
        self.kick();
    }

    /// Whether a call of this side is not answered yet.
    #[must_use]
    pub fn is_calling_again(&self) -> bool {
        self.with_net(|net| net.table.iter_mut().any(|(_, entry)| is_made_in(entry, TcpState::SynSent)))
    }

    /// Gives up what was not answered, and what nobody has called for: its peer may have broken it off, with a word
    /// that was lost. Others may connect from now on. To be called when no node calls any more, or it has taken too
    /// long. `now_ns` as for [`Self::poll`].
    pub fn settle_again(&self, now_ns: u64) {
        self.with_net(|net| {
            net.again.settle();
            let now = stack_time(now_ns);
            let is_late =
                |entry: &mut Entry| is_made_in(entry, TcpState::SynSent) || is_made_in(entry, TcpState::Listen);
            net.each_that(is_late, |net, key| net.give_up(key, now));
        });
        self.kick();
    }

    /// Whether all are made that somebody called for.
    #[must_use]
    pub fn is_settled_again(&self) -> bool {
        self.with_net(|net| !net.table.iter_mut().any(|(_, entry)| is_made_in(entry, TcpState::SynReceived)))
    }

    /// Whether all are made.
    #[must_use]
    pub fn is_made_again(&self) -> bool {
        self.with_net(|net| !net.table.iter_mut().any(|(_, entry)| is_being_made_again(entry)))
    }

    /// Resets those that are not made by now, and has all be as it was. To be called when all nodes are settled, or
    /// that has taken too long. Gives how many were reset. `now_ns` as for [`Self::poll`].
    pub fn end_making_again(&self, now_ns: u64) -> usize {
        let late = self.with_net(|net| {
            let now = stack_time(now_ns);
            // Nobody has asked for these calls: it has not come so far.
            net.again.take_calls().into_iter().for_each(|key| net.give_up(key, now));
            net.each_that(is_being_made_again, |net, key| net.give_up(key, now));
            let (late, calls) = net.again.end();
            net.call(calls);
            late
        });
        self.kick();
        late
    }
}

/// Whether it is being made again, and has come that far.
fn is_made_in(entry: &mut Entry, state: TcpState) -> bool {
    is_being_made_again(entry) && entry.socket().state() == state
}

fn is_being_made_again(entry: &mut Entry) -> bool {
    let is_programs = entry.holding.is_some();
    let (socket, owner) = entry.split();
    match owner {
        Owner::User(user) => user.is_made_again,
        Owner::Listener { ready: true, .. } | Owner::Nobody { .. } => {
            let state = socket.state();
            is_programs && matches!(state, TcpState::Listen | TcpState::SynSent | TcpState::SynReceived)
        }
        Owner::Listener { .. } | Owner::Stream => false,
    }
}

impl Net {
    /// A connection as data, with its port.
    pub(crate) fn record(&mut self, key: Key) -> Result<(ConnectionRecord, Option<PortRecord>), NotQuiet> {
        let entry = self.table.get_mut(key).ok_or(NotQuiet)?;
        if !is_quiet(entry) {
            return Err(NotQuiet);
        }
        let port = entry.claim.as_ref().and_then(|claim| self.ports.record(claim));
        let (socket, owner) = entry.split();
        let stage = match socket.state() {
            TcpState::SynSent => Stage::Connecting,
            TcpState::Closed | TcpState::TimeWait => Stage::Over,
            _ => Stage::Open,
        };
        let capacities = capacities(socket);
        let aside = match owner {
            Owner::User(User { aside, .. }) | Owner::Listener { aside, .. } => aside,
            Owner::Stream | Owner::Nobody { .. } => return Err(NotQuiet),
        };
        let mut received = alloc::vec![0; aside.len() + socket.recv_queue()];
        let set_aside = aside.peek(&mut received);
        copy_received(socket, &mut received, set_aside);
        // One that waits to be accepted is made, and no more was done to it.
        let (mut error, mut read_shut, mut write_shut, mut was_connected, mut peer_ended) =
            (None, false, false, true, false);
        if let Owner::User(user) = owner {
            (error, read_shut, write_shut) = (user.error, user.read_shut, user.write_shut);
            (was_connected, peer_ended) = (user.was_connected, user.peer_ended);
        }
        let record =
            ConnectionRecord { stage, capacities, received, error, read_shut, write_shut, was_connected, peer_ended };
        Ok((record, port))
    }

    /// Makes a connection again, or begins to. `owner` has what was received and what is known of it.
    ///
    /// # Errors
    /// [`NotMade`].
    pub(crate) fn make_again(
        &mut self,
        between: Between,
        (stage, capacities): (Stage, Capacities),
        owner: Owner,
        ticket: Option<Ticket>,
    ) -> Result<Key, NotMade> {
        let Between { local, peer, port } = between;
        self.again.begin();
        let route = Route::new(peer.0, peer.1, local.1);
        let own = self.check_reachable(None, peer).map_err(|_| NotMade::Damaged)?;
        if own != local.0 || stage != Stage::Over && self.table.find(route).is_some() {
            return Err(NotMade::Damaged);
        }
        let (receive, received) = self.accounts.ring_again(capacities.receive)?;
        let (transmit, transmitted) = self.accounts.ring_again(capacities.transmit)?;
        let socket = new_socket(receive, transmit, USER_ACKNOWLEDGE_DELAY_NS);
        let holding = Holding { ticket, _rings: [received, transmitted] };
        let waits = stage == Stage::Open && local < peer;
        self.again.reserve(stage)?;
        let claim = match port {
            Some(port) => Some(self.ports.claim_again(port).map_err(|_| NotMade::Damaged)?),
            None => None,
        };
        let Some(key) = self.table.add(socket, owner, Some(holding)) else {
            claim.into_iter().for_each(|claim| self.ports.release(claim));
            return Err(SocketError::NoMemory.into());
        };
        if stage != Stage::Over {
            // Nobody else gets the name meanwhile.
            self.table.lead(route, key);
        }
        self.again.add(key, stage, waits);
        if let Some(entry) = self.table.get_mut(key) {
            (entry.claim, entry.name) = (claim, Some(route));
            let (socket, owner) = entry.split();
            if waits {
                // A socket that is new, and a port that is not 0.
                let _ = socket.listen(local);
            }
            if let Owner::User(user) = owner {
                (user.is_made_again, user.is_to_call) = (stage == Stage::Open, stage != Stage::Over && !waits);
                user.update(socket, false);
            }
        }
        Ok(key)
    }

    fn call(&mut self, calls: Vec<Key>) {
        for key in calls {
            let Some(route) = self.table.get(key).and_then(|entry| entry.name) else { continue };
            // Who cannot be called never answers.
            let _ = self.start(key, route.peer(), route.local_port());
            if let Some(entry) = self.table.get_mut(key)
                && let (socket, Owner::User(user)) = entry.split()
            {
                user.is_to_call = false;
                user.update(socket, false);
            }
        }
    }

    /// Does something to each that is so. There may be many, and no memory for a list of them.
    fn each_that(&mut self, is_so: impl Fn(&mut Entry) -> bool, mut what: impl FnMut(&mut Self, Key)) {
        let mut next = self.table.next_from(None);
        while let Some(key) = next {
            next = self.table.next_from(Some(key));
            if self.table.get_mut(key).is_some_and(&is_so) {
                what(self, key);
            }
        }
    }

    fn give_up(&mut self, key: Key, now: Instant) {
        let Some(entry) = self.table.get_mut(key) else { return };
        self.again.refuse(entry.name, now);
        let (socket, owner) = entry.split();
        socket.abort();
        match owner {
            Owner::User(user) => {
                (user.is_made_again, user.is_to_call, user.error) = (false, false, Some(SocketError::Reset));
                user.update(socket, true);
                self.table.forget_route(key);
            }
            // Whoever accepts it finds out.
            Owner::Listener { .. } => self.table.forget_route(key),
            Owner::Stream | Owner::Nobody { .. } => self.remove(key),
        }
    }

    fn record_orphans(&mut self) -> Result<Vec<OrphanRecord>, NotQuiet> {
        let own = self.job_address();
        let mut orphans = Vec::new();
        for (_, entry) in self.table.iter_mut() {
            if entry.holding.is_none() || !matches!(entry.owner, Owner::Nobody { .. }) {
                continue;
            }
            if !is_quiet(entry) {
                return Err(NotQuiet);
            }
            if entry.socket().state() == TcpState::TimeWait {
                continue;
            }
            let (own, route) = own.zip(entry.name).ok_or(NotQuiet)?;
            // Whatever port it had, it needs no more than to be in use.
            let port = PortRecord::Accepted(route.local_port());
            let capacities = capacities(entry.socket());
            orphans.push(OrphanRecord { port, local: (own, route.local_port()), peer: route.peer(), capacities });
        }
        Ok(orphans)
    }

    fn make_orphan_again(&mut self, record: &OrphanRecord) -> Result<(), NotMade> {
        let between = Between { local: record.local, peer: record.peer, port: Some(record.port) };
        let ticket = self.ticket()?;
        // Who is nobody's is let go as if it had just been closed.
        let key =
            self.make_again(between, (Stage::Open, record.capacities), Owner::Nobody { order: 0 }, Some(ticket))?;
        self.let_close(key);
        Ok(())
    }
}

fn capacities(socket: &tcp::Socket<'static>) -> Capacities {
    Capacities { receive: socket.recv_capacity() as u32, transmit: socket.send_capacity() as u32 }
}

/// Copies what is in a connection's buffer behind what was set aside.
fn copy_received(socket: &mut tcp::Socket<'static>, received: &mut [u8], set_aside: usize) {
    let rest = received.get_mut(set_aside..).unwrap_or_default();
    if !rest.is_empty() {
        // There is as much as there is room for.
        let _ = socket.peek_slice(rest);
    }
}
