//! A program's TCP socket as data; see [`crate::record`].

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::phy::Device;
use spin::Mutex;

use super::{Inner, Options, Phase, TcpSocket, canonical};
use crate::accounts::Ticket;
use crate::cell::{Cell, Readiness};
use crate::limits::BACKLOG_MAX;
use crate::local::End;
use crate::record::{
    ArrivalRecord, ConnectionRecord, EndRecord, NotMade, NotQuiet, PhaseRecord, PortRecord, TcpRecord,
};
use crate::stack::Stack;
use crate::stack::again::Between;
use crate::stack::aside::Aside;
use crate::stack::listen::{Arrival, Listener, Place};
use crate::stack::net::Net;
use crate::stack::owner::{Owner, User};
use crate::stack::stack_duration;
use crate::stack::table::{Key, Route};

impl<D: Device> TcpSocket<D> {
    /// Writes it down, and leaves it as it is. The record takes as much as was received, and not more than that for
    /// each connection that waits to be accepted.
    ///
    /// # Errors
    /// [`NotQuiet`].
    pub fn record(&self) -> Result<TcpRecord, NotQuiet> {
        let inner = self.inner.lock();
        let Options { abort_on_close, keep_alive_ns } = inner.options;
        let (phase, of_connection) = self.stack.with_net(|net| net.record_phase(&inner.phase))?;
        let own = inner.claim.as_ref().and_then(|claim| self.stack.with_net(|net| net.ports.record(claim)));
        let (port, told) = (own.or(of_connection), self.cell.record());
        Ok(TcpRecord { port, bound: inner.bound, abort_on_close, keep_alive_ns, told, phase })
    }

    /// How many bytes are in its record that were received, and how many connections are there.
    pub fn record_holds(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        match &inner.phase {
            Phase::Fresh => (0, 1),
            Phase::Local { end, .. } => (end.received() + end.unsent(), 1),
            &Phase::Remote { key, .. } => (self.stack.with_net(|net| net.received_of(key)), 1),
            &Phase::Listening(place) => self.stack.with_net(|net| net.held_by_listener(place)),
        }
    }

    /// Lets go of it without a word to the peer, whose end is let go of as well: both are to be made again.
    pub fn forget(mut self) {
        let phase = core::mem::replace(&mut self.inner.get_mut().phase, Phase::Fresh);
        match phase {
            Phase::Fresh => {}
            Phase::Listening(place) => self.stack.with_net(|net| net.forget_listener(place)),
            Phase::Remote { key, .. } => self.stack.with_net(|net| net.remove(key)),
            Phase::Local { end, .. } => drop(end),
        }
    }

    /// Makes it again.
    ///
    /// # Errors
    /// [`NotMade`].
    pub fn again(stack: &Stack<D>, record: &TcpRecord) -> Result<Self, NotMade> {
        let &TcpRecord { port, bound, abort_on_close, keep_alive_ns, .. } = record;
        let options = Options { abort_on_close, keep_alive_ns };
        let cell = Arc::new(Cell::new(Readiness::NONE));
        let inner = stack.with_net(|net| {
            net.again.begin();
            let ticket = net.ticket()?;
            let mut made = Inner { ticket: Some(ticket), claim: None, bound, options, phase: Phase::Fresh };
            if !matches!(record.phase, PhaseRecord::Remote { .. }) {
                made.claim = port.map(|port| net.ports.claim_again(port)).transpose().map_err(|_| NotMade::Damaged)?;
            }
            match net.phase_again(&record.phase, (port, bound, keep_alive_ns), &cell) {
                Ok(phase) => made.phase = phase,
                Err(error) => {
                    made.claim.take().into_iter().for_each(|claim| net.ports.release(claim));
                    return Err(error);
                }
            }
            cell.again(record.told);
            Ok(made)
        })?;
        Ok(Self { stack: stack.clone(), cell, inner: Mutex::new(inner) })
    }
}

impl Net {
    /// Also the port of a connection.
    fn record_phase(&mut self, phase: &Phase) -> Result<(PhaseRecord, Option<PortRecord>), NotQuiet> {
        Ok(match phase {
            Phase::Fresh => (PhaseRecord::Fresh, None),
            Phase::Listening(place) => (self.record_listener(*place)?, None),
            &Phase::Remote { key, local, peer, told } => {
                let (connection, port) = self.record(key)?;
                (PhaseRecord::Remote { local, peer, told, connection }, port)
            }
            Phase::Local { end, told } => (PhaseRecord::Local { end: end.record(), told: *told }, None),
        })
    }

    /// Received by a connection, and not yet taken, bytes.
    fn received_of(&mut self, key: Key) -> usize {
        let Some(entry) = self.table.get_mut(key) else { return 0 };
        let (socket, owner) = entry.split();
        match owner {
            Owner::User(user) => user.received(socket),
            Owner::Listener { aside, .. } => aside.len() + socket.recv_queue(),
            Owner::Stream | Owner::Nobody { .. } => 0,
        }
    }

    /// As [`TcpSocket::record_holds`].
    fn held_by_listener(&mut self, place: Place) -> (usize, usize) {
        let Some(listener) = self.listeners.get_mut(place) else { return (0, 1) };
        let ends = listener.waiting.iter().chain(listener.ready.iter().filter_map(Arrival::end));
        let of_ends: usize = ends.map(|end| end.received() + end.unsent()).sum();
        let count = 1 + listener.waiting.len() + listener.ready.len();
        let keys: Vec<Key> = listener.ready.iter().filter_map(Arrival::key).collect();
        (of_ends + keys.into_iter().map(|key| self.received_of(key)).sum::<usize>(), count)
    }

    fn record_listener(&mut self, place: Place) -> Result<PhaseRecord, NotQuiet> {
        let listener = self.listeners.get_mut(place).filter(|listener| listener.making.is_empty()).ok_or(NotQuiet)?;
        let backlog = listener.backlog as u32;
        let waiting = listener.waiting.iter().map(End::record).collect();
        // Their keys, as the listener is wanted no more while each is looked at.
        let ready: Vec<Result<EndRecord, _>> = listener
            .ready
            .iter()
            .map(|arrival| match arrival {
                Arrival::Local(end) => Ok(end.record()),
                Arrival::Remote(key) => Err(*key),
            })
            .collect();
        let ready = ready.into_iter().map(|arrival| match arrival {
            Ok(end) => Ok(ArrivalRecord::Local(end)),
            Err(key) => {
                let peer = self.table.get(key).and_then(|entry| entry.name).map(Route::peer).ok_or(NotQuiet)?;
                self.record(key).map(|(connection, _)| ArrivalRecord::Remote { peer, connection })
            }
        });
        Ok(PhaseRecord::Listening { backlog, ready: ready.collect::<Result<_, _>>()?, waiting })
    }

    fn forget_listener(&mut self, place: Place) {
        let Some(listener) = self.listeners.get_mut(place) else { return };
        let arrived = core::mem::take(&mut listener.ready);
        for arrival in arrived {
            if let Arrival::Remote(key) = arrival {
                self.remove(key);
            }
        }
        self.unlisten(place);
    }

    fn phase_again(
        &mut self,
        record: &PhaseRecord,
        (port, bound, keep_alive_ns): (Option<PortRecord>, Option<Ipv4Addr>, Option<u64>),
        cell: &Arc<Cell>,
    ) -> Result<Phase, NotMade> {
        match record {
            PhaseRecord::Fresh => {
                cell.set(Readiness::FRESH, false);
                Ok(Phase::Fresh)
            }
            PhaseRecord::Listening { backlog, ready, waiting } => {
                let Some(PortRecord::Bound { port, listens: true, .. }) = port else { return Err(NotMade::Damaged) };
                let place = Place { port, address: canonical(bound.unwrap_or(Ipv4Addr::UNSPECIFIED)) };
                if self.listeners.get_mut(place).is_some() {
                    return Err(NotMade::Damaged);
                }
                let backlog = (*backlog as usize).clamp(1, BACKLOG_MAX);
                self.listeners.insert(place, Listener::new(None, backlog, Arc::clone(cell)));
                let arrived = self.arrivals_again(place, ready, waiting);
                if let Err(error) = arrived {
                    self.unlisten(place);
                    return Err(error);
                }
                Ok(Phase::Listening(place))
            }
            PhaseRecord::Remote { local, peer, told, connection } => {
                let user = self.user_again(connection, cell)?;
                let between = Between { local: *local, peer: *peer, port };
                let key =
                    self.make_again(between, (connection.stage, connection.capacities), Owner::User(user), None)?;
                if let Some(entry) = self.table.get_mut(key) {
                    entry.set_keep_alive(keep_alive_ns.map(stack_duration));
                }
                Ok(Phase::Remote { key, local: *local, peer: *peer, told: *told })
            }
            PhaseRecord::Local { end, told } => {
                let end = self.end_again(end, Some(Arc::clone(cell)), None)?;
                Ok(Phase::Local { end, told: *told })
            }
        }
    }

    fn arrivals_again(&mut self, place: Place, ready: &[ArrivalRecord], waiting: &[EndRecord]) -> Result<(), NotMade> {
        for arrival in ready {
            let ticket = self.ticket()?;
            let arrival = match arrival {
                ArrivalRecord::Local(end) => Arrival::Local(self.end_again(end, None, Some(ticket))?),
                ArrivalRecord::Remote { peer, connection } => {
                    let aside = self.aside_again(&connection.received)?;
                    let local = (self.job_address().ok_or(NotMade::Damaged)?, place.port);
                    let between = Between { local, peer: *peer, port: Some(PortRecord::Accepted(place.port)) };
                    let owner = Owner::Listener { place, ready: true, aside };
                    Arrival::Remote(self.make_again(
                        between,
                        (connection.stage, connection.capacities),
                        owner,
                        Some(ticket),
                    )?)
                }
            };
            if let Some(listener) = self.listeners.get_mut(place) {
                listener.arrive(arrival);
            }
        }
        for end in waiting {
            let ticket = self.ticket()?;
            let end = self.end_again(end, None, Some(ticket))?;
            if let Some(listener) = self.listeners.get_mut(place) {
                listener.waiting.try_reserve(1).map_err(|_| crate::SocketError::NoMemory)?;
                listener.waiting.push_back(end);
            }
        }
        Ok(())
    }

    fn end_again(
        &mut self,
        record: &EndRecord,
        cell: Option<Arc<Cell>>,
        ticket: Option<Ticket>,
    ) -> Result<End, NotMade> {
        let accounts = Arc::clone(&self.accounts);
        End::again(record, (&accounts, self.wipe), &mut self.again.half_made, (cell, ticket))
    }

    fn aside_again(&self, received: &[u8]) -> Result<Aside, NotMade> {
        let mut aside = Aside::default();
        aside.put(received, &self.accounts, self.wipe)?;
        Ok(aside)
    }

    fn user_again(&self, record: &ConnectionRecord, cell: &Arc<Cell>) -> Result<User, NotMade> {
        let &ConnectionRecord { error, read_shut, write_shut, was_connected, peer_ended, .. } = record;
        let aside = self.aside_again(&record.received)?;
        let new = User::new(Arc::clone(cell));
        Ok(User { aside, error, read_shut, write_shut, was_connected, peer_ended, ..new })
    }
}
