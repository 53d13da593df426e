//! What a stack knows, apart from its device.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::iface::{Interface, PollResult, SocketSet};
use smoltcp::phy::Device;
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::Instant;
use smoltcp::wire::Ipv4Cidr;

use super::again::Again;
use super::listen::Listeners;
use super::owner::Owner;
use super::ports::Ports;
use super::settle::Cause;
use super::sides::{JobSide, Sides};
use super::table::{Before, Entry, Key, Route, Table};
use super::{BufferSizes, Config, stack_duration};
use crate::NetError;
use crate::accounts::{Accounts, zeroed};
use crate::datagrams::Datagrams;
use crate::ethernet::{Framed, Realm};
use crate::limits::{ACKNOWLEDGE_DELAY_NS, CLOSING_MAX, DEVICE_RETRY_NS, SOCKETS_MAX};
use crate::own_datagrams::OwnDatagrams;

/// Connections, listeners and ports.
pub(crate) struct Net {
    pub(crate) sides: Sides,
    pub(crate) table: Table,
    pub(crate) listeners: Listeners,
    pub(crate) ports: Ports,
    pub(crate) datagrams: Datagrams,
    pub(crate) datagram_ports: Ports,
    pub(crate) own_datagrams: OwnDatagrams,
    pub(crate) accounts: Arc<Accounts>,
    /// For packets that no socket wants: they get what the protocol has for that.
    pub(crate) nobody: SocketSet<'static>,
    /// Zeroes bytes of programs.
    pub(crate) wipe: fn(&mut [u8]),
    /// Sockets of programs that are being made again.
    pub(crate) again: Again,
    /// Sockets that are the node's own.
    node_sockets: usize,
    /// Those of them that are nobody's any more.
    node_closing: usize,
    /// How many sockets were closed so far.
    order: u64,
}

impl Net {
    pub(crate) fn new<D: Device>(config: &Config, device: &mut Framed<D>, now_ns: u64) -> Self {
        let network = Ipv4Cidr::new(config.address, config.prefix.min(32));
        Self {
            sides: Sides::new(network, config.seed, device, now_ns),
            table: Table::default(),
            listeners: Listeners::default(),
            ports: Ports::new((config.seed >> 16) as u16),
            datagrams: Datagrams::default(),
            datagram_ports: Ports::new((config.seed >> 32) as u16),
            own_datagrams: OwnDatagrams::default(),
            accounts: Arc::default(),
            nobody: SocketSet::new(Vec::new()),
            wipe: |bytes| bytes.fill(0),
            again: Again::default(),
            node_sockets: 0,
            node_closing: 0,
            order: 0,
        }
    }

    /// This node's address in the cluster.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.sides.cluster.network.address()
    }

    /// This node's address in the job that is here.
    pub(crate) fn job_address(&self) -> Option<Ipv4Addr> {
        self.sides.job.as_ref().map(|job| job.network.own().address())
    }

    /// Whether `address` stands for all nodes of the job that is here.
    pub(crate) fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.sides.job.as_ref().is_some_and(|job| job.is_broadcast(address))
    }

    /// Programs' sockets are in no network any more. What has not gone does not go. Gives the job's, whose end may have
    /// consequences, which are not to come here.
    pub(crate) fn leave_job<D>(&mut self, device: &mut Framed<D>) -> Option<JobSide> {
        self.datagrams.forget_unsent();
        self.again.leave_job();
        while self.forget_oldest(|entry| entry.realm() == Realm::Job) {}
        self.table.shrink();
        self.sides.leave(device)
    }

    /// Adds a socket of the node's own.
    pub(crate) fn add(&mut self, sizes: BufferSizes, owner: Owner) -> Result<Key, NetError> {
        let buffers = (zeroed(sizes.receive), zeroed(sizes.transmit));
        let (Some(receive), Some(transmit)) = buffers else { return Err(NetError::TooManySockets) };
        if self.node_sockets >= SOCKETS_MAX {
            return Err(NetError::TooManySockets);
        }
        let socket = new_socket(receive, transmit, ACKNOWLEDGE_DELAY_NS);
        let key = self.table.add(socket, owner, None).ok_or(NetError::TooManySockets)?;
        self.node_sockets += 1;
        Ok(key)
    }

    /// Starts to connect a new socket from `port`, which is its alone.
    pub(crate) fn start(&mut self, key: Key, peer: (Ipv4Addr, u16), port: u16) -> Result<(), NetError> {
        let Some(entry) = self.table.get_mut(key) else { return Err(NetError::Address) };
        let Some(side) = self.sides.get_mut(entry.realm()) else { return Err(NetError::Address) };
        let started = entry.socket_mut().connect(side.interface.context(), peer, port);
        started.map_err(|_| NetError::Address)?;
        self.table.lead(Route::new(peer.0, peer.1, port), key);
        self.table.enqueue(key);
        Ok(())
    }

    /// Removes a socket at once, without a word to its peer.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some(entry) = self.table.remove(key) else { return };
        let Entry { owner, claim, holding, .. } = *entry;
        if holding.is_none() {
            self.node_sockets -= 1;
            self.node_closing -= usize::from(matches!(owner, Owner::Nobody { .. }));
        }
        if let Some(claim) = claim {
            self.ports.release(claim);
        }
    }

    /// Takes a socket over from its owner; it stays until its peer has closed too.
    pub(crate) fn let_close(&mut self, key: Key) {
        self.order += 1;
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.owner = Owner::Nobody { order: self.order };
        let is_nodes = entry.holding.is_none();
        self.table.enqueue(key);
        if is_nodes {
            self.node_closing += 1;
            if self.node_closing > CLOSING_MAX {
                self.forget_oldest(|entry| entry.holding.is_none());
            }
        }
    }

    /// Removes the socket that was closed first of all that are `meant`. Returns whether there was one.
    pub(crate) fn forget_oldest(&mut self, meant: impl Fn(&Entry) -> bool) -> bool {
        let closing = self.table.iter_mut().filter_map(|(key, entry)| match entry.owner {
            Owner::Nobody { order } if meant(entry) => Some((order, key)),
            _ => None,
        });
        let oldest = closing.min();
        if let Some((_, key)) = oldest {
            self.remove(key);
        }
        oldest.is_some()
    }

    /// Sends programs' datagrams, then what the sockets in the queue have to send, one packet of each in turn, and then
    /// the node's own datagrams, until there is nothing more, the device has no room, or `budget` frames have gone.
    /// Returns what is left of that.
    pub(crate) fn send<D: Device>(&mut self, now: Instant, device: &mut Framed<D>, mut budget: usize) -> usize {
        if let Some(job) = &self.sides.job {
            budget = self.datagrams.transmit(now, device, &job.network, budget);
        }
        while budget > 0
            && let Some(key) = self.table.next()
        {
            let Some(entry) = self.table.get_mut(key) else { continue };
            let realm = entry.realm();
            let Some(side) = self.sides.get_mut(realm) else {
                self.strand(key);
                continue;
            };
            if is_at_rest(entry, &mut side.interface, now) {
                continue;
            }
            let before = Before::of(entry.socket());
            entry.watch_silence(now);
            entry.watch_life(now);
            entry.end_stall(now, &mut side.interface);
            device.realm = realm;
            let sent = side.interface.poll_egress(now, device, &mut entry.set) != PollResult::None;
            budget -= usize::from(sent);
            self.settle(key, before, Cause::Time);
            if device.exhausted && !sent {
                self.table.put_back(key);
                return budget;
            }
            let (Some(entry), Some(side)) = (self.table.get_mut(key), self.sides.get_mut(realm)) else { continue };
            let due = side.interface.poll_at(now, &entry.set);
            entry.watch_stall(due, now);
            match due {
                Some(due) if due <= now && sent => self.table.enqueue(key),
                // It wants to and cannot, for whatever reason. Without a pause the stack would spin.
                Some(due) if due <= now => self.table.set_timer(key, Some(now + stack_duration(DEVICE_RETRY_NS))),
                due => {
                    let due =
                        [due, entry.silence.deadline(), entry.life.due(), entry.stalled].into_iter().flatten().min();
                    self.table.set_timer(key, due);
                }
            }
        }
        let address = self.address();
        self.own_datagrams.transmit(now, device, address, self.wipe, budget)
    }

    /// A program's socket has outlived its job: nobody hears of it any more.
    fn strand(&mut self, key: Key) {
        self.table.set_timer(key, None);
        if self.table.get(key).is_some_and(|entry| matches!(entry.owner, Owner::Nobody { .. })) {
            self.remove(key);
        }
    }
}

/// Whether a socket that is closed in both directions is only kept because its owner may still read. It must not hear
/// that its time is over: smoltcp then throws away what was received.
fn is_at_rest(entry: &Entry, interface: &mut Interface, now: Instant) -> bool {
    let owned = !matches!(entry.owner, Owner::Nobody { .. });
    owned
        && entry.socket().state() == TcpState::TimeWait
        && interface.poll_at(now, &entry.set).is_none_or(|due| due > Instant::ZERO)
}

/// A socket with our settings.
pub(crate) fn new_socket(receive: Vec<u8>, transmit: Vec<u8>, acknowledge_delay_ns: u64) -> tcp::Socket<'static> {
    let (receive, transmit) = (tcp::SocketBuffer::new(receive), tcp::SocketBuffer::new(transmit));
    let mut socket = tcp::Socket::new(receive, transmit);
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(Some(stack_duration(acknowledge_delay_ns)));
    socket
}
