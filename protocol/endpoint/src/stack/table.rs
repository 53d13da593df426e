//! The sockets of a stack, found in one step by whom a packet is for.
//!
//! smoltcp looks at every socket of a set for every packet and in every round of sending. So each socket is alone in a
//! set of its own here: a packet is handed to the one it belongs to ([`Route`]), and only sockets in the queue, to
//! which something happened, are asked what they have to send. What a node does for a frame does not grow with the
//! number of connections.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::Instant;

use super::owner::Owner;
use super::ports::Claim;
use crate::accounts::Holding;
use crate::ethernet::Realm;

/// Which socket: its place in the table. Whoever owns the socket knows that it is still that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u32);

/// What the packets of a connection have in common: the peer's address and both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route(u64);

impl Route {
    pub(crate) fn new(peer: Ipv4Addr, peer_port: u16, local_port: u16) -> Self {
        Self(u64::from(peer.to_bits()) << 32 | u64::from(peer_port) << 16 | u64::from(local_port))
    }

    /// The peer's address and port.
    pub(crate) fn peer(self) -> (Ipv4Addr, u16) {
        (Ipv4Addr::from_bits((self.0 >> 32) as u32), (self.0 >> 16) as u16)
    }

    /// The connection's port on this side.
    pub(crate) fn local_port(self) -> u16 {
        self.0 as u16
    }
}

/// A socket and what belongs to it.
pub(crate) struct Entry {
    pub(crate) set: SocketSet<'static>,
    handle: SocketHandle,
    pub(crate) owner: Owner,
    /// What it holds of the stack's ports.
    pub(crate) claim: Option<Claim>,
    /// What a program's socket holds besides.
    pub(crate) holding: Option<Holding>,
    /// Whose packets it is for, or was.
    pub(crate) name: Option<Route>,
    /// They still find it.
    routed: bool,
    /// When it wants to be asked what it has to send.
    due: Option<Instant>,
    /// It is in the queue.
    queued: bool,
}

impl Entry {
    /// The network it is in: programs' sockets are in their job's.
    pub(crate) fn realm(&self) -> Realm {
        if self.holding.is_some() { Realm::Job } else { Realm::Cluster }
    }

    pub(crate) fn socket(&self) -> &tcp::Socket<'static> {
        self.set.get(self.handle)
    }

    pub(crate) fn socket_mut(&mut self) -> &mut tcp::Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// The socket and whose it is.
    pub(crate) fn split(&mut self) -> (&mut tcp::Socket<'static>, &mut Owner) {
        (self.set.get_mut(self.handle), &mut self.owner)
    }
}

/// What of a socket tells what happened to it.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    pub(crate) state: TcpState,
    /// Received and not yet taken, bytes.
    pub(crate) received: usize,
}

impl Before {
    pub(crate) fn of(socket: &tcp::Socket<'_>) -> Self {
        Self { state: socket.state(), received: socket.recv_queue() }
    }
}

/// All sockets of a stack.
#[derive(Default)]
pub(crate) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<Key>,
    routes: BTreeMap<Route, Key>,
    timers: BTreeSet<(Instant, Key)>,
    /// Sockets that may have something to send, in the order of their turns. Removed ones may still be in it.
    queue: VecDeque<Key>,
}

impl Table {
    /// How many sockets there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Entry> {
        self.entries.get(key.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Entry> {
        self.entries.get_mut(key.0 as usize)?.as_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Entry)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(index, slot)| Some((Key(index as u32), slot.as_mut()?)))
    }

    /// Adds a socket, which nothing leads to yet.
    pub(crate) fn add(&mut self, socket: tcp::Socket<'static>, owner: Owner, holding: Option<Holding>) -> Key {
        let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = set.add(socket);
        let (claim, name, due) = (None, None, None);
        let entry = Entry { set, handle, owner, claim, holding, name, routed: false, due, queued: false };
        if let Some(key) = self.free.pop()
            && let Some(slot) = self.entries.get_mut(key.0 as usize)
        {
            *slot = Some(entry);
            return key;
        }
        self.entries.push(Some(entry));
        Key(self.entries.len() as u32 - 1)
    }

    /// Removes a socket; nothing is said to its peer.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        self.set_timer(key, None);
        self.forget_route(key);
        let entry = self.entries.get_mut(key.0 as usize)?.take()?;
        self.free.push(key);
        Some(entry)
    }

    /// The socket that packets of `route` are for.
    pub(crate) fn find(&self, route: Route) -> Option<Key> {
        self.routes.get(&route).copied()
    }

    /// From now on packets of `route` are for `key`.
    pub(crate) fn lead(&mut self, route: Route, key: Key) {
        if let Some(entry) = self.get_mut(key) {
            (entry.name, entry.routed) = (Some(route), true);
            self.routes.insert(route, key);
        }
    }

    /// From now on no packet is for `key`.
    pub(crate) fn forget_route(&mut self, key: Key) {
        if let Some(entry) = self.get_mut(key)
            && core::mem::take(&mut entry.routed)
            && let Some(route) = entry.name
        {
            self.routes.remove(&route);
        }
    }

    /// Has a socket asked for what it has to send.
    pub(crate) fn enqueue(&mut self, key: Key) {
        if let Some(entry) = self.get_mut(key)
            && !entry.queued
        {
            entry.queued = true;
            self.queue.push_back(key);
        }
    }

    /// The socket whose turn it is.
    pub(crate) fn next(&mut self) -> Option<Key> {
        while let Some(key) = self.queue.pop_front() {
            if let Some(entry) = self.get_mut(key)
                && core::mem::take(&mut entry.queued)
            {
                return Some(key);
            }
        }
        None
    }

    /// Gives a socket its turn back.
    pub(crate) fn put_back(&mut self, key: Key) {
        if let Some(entry) = self.get_mut(key)
            && !entry.queued
        {
            entry.queued = true;
            self.queue.push_front(key);
        }
    }

    /// Whether no socket is in the queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Has a socket asked at `due` (`None`: not before something happens to it).
    pub(crate) fn set_timer(&mut self, key: Key, due: Option<Instant>) {
        let Some(entry) = self.get_mut(key) else { return };
        let old = core::mem::replace(&mut entry.due, due);
        if old == due {
            return;
        }
        if let Some(old) = old {
            self.timers.remove(&(old, key));
        }
        if let Some(due) = due {
            self.timers.insert((due, key));
        }
    }

    /// When the first timer rings.
    pub(crate) fn first_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Puts the sockets whose timers have rung into the queue.
    pub(crate) fn ring(&mut self, now: Instant) {
        while let Some((due, key)) = self.timers.first().copied()
            && due <= now
        {
            self.set_timer(key, None);
            self.enqueue(key);
        }
    }
}
