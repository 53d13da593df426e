//! The sockets of a stack, found in one step by whom a packet is for.
//!
//! smoltcp looks at every socket of a set for every packet and in every round of sending. So each socket is alone in a
//! set of its own here: a packet is handed to the one it belongs to ([`Route`]), and only sockets in the queue, to
//! which something happened, are asked what they have to send. What a node does for a frame does not grow with the
//! number of connections.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, TryReserveError, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::Instant;

use super::life::Life;
use super::owner::Owner;
use super::ports::Claim;
use super::silence::Silence;
use super::stall::Said;
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
    pub(crate) silence: Silence,
    pub(crate) life: Life,
    /// What the peer said last.
    pub(crate) said: Option<Said>,
    /// When it is made to go on, as smoltcp has forgotten it.
    pub(crate) stalled: Option<Instant>,
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

/// All sockets of a stack. Each lies by itself, so that what all have together stays short however many there are.
#[derive(Default)]
pub(crate) struct Table {
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<Key>,
    routes: BTreeMap<Route, Key>,
    timers: BTreeSet<(Instant, Key)>,
    /// Sockets that may have something to send, in the order of their turns, each place at most once. Those of removed
    /// ones may still be in it. Has room for all.
    queue: VecDeque<Key>,
    /// Which places are in the queue.
    queued: Vec<bool>,
}

impl Table {
    /// How many sockets there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Entry> {
        self.entries.get(key.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Entry> {
        self.entries.get_mut(key.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Entry)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(index, slot)| Some((Key(index as u32), slot.as_deref_mut()?)))
    }

    /// The first socket, or the next one behind another.
    pub(crate) fn next_from(&self, after: Option<Key>) -> Option<Key> {
        let first = after.map_or(0, |key| key.0 as usize + 1);
        let rest = self.entries.get(first..)?;
        rest.iter().position(Option::is_some).map(|index| Key((first + index) as u32))
    }

    /// Sees to it that there is room for one more socket, wherever it may come to be.
    fn make_room(&mut self) -> Result<(), TryReserveError> {
        if self.free.is_empty() {
            let all = self.entries.len() + 1;
            self.entries.try_reserve(1)?;
            self.queued.try_reserve(1)?;
            self.free.try_reserve(all)?;
            self.queue.try_reserve(all - self.queue.len())?;
        }
        Ok(())
    }

    /// Adds a socket, which nothing leads to yet. `None`: there is no memory.
    pub(crate) fn add(&mut self, socket: tcp::Socket<'static>, owner: Owner, holding: Option<Holding>) -> Option<Key> {
        self.make_room().ok()?;
        let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = set.add(socket);
        let (claim, name, due) = (None, None, None);
        let entry = Box::new(Entry {
            set,
            handle,
            owner,
            claim,
            holding,
            name,
            routed: false,
            due,
            silence: Silence::default(),
            life: Life::default(),
            said: None,
            stalled: None,
        });
        if let Some(key) = self.free.pop()
            && let Some(slot) = self.entries.get_mut(key.0 as usize)
        {
            *slot = Some(entry);
            return Some(key);
        }
        self.entries.push(Some(entry));
        self.queued.push(false);
        Some(Key(self.entries.len() as u32 - 1))
    }

    /// Gives back the memory for places behind the last socket.
    pub(crate) fn shrink(&mut self) {
        let used = self.entries.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let is_used = |key: &Key| (key.0 as usize) < used;
        self.entries.truncate(used);
        self.entries.shrink_to_fit();
        self.queued.truncate(used);
        self.queued.shrink_to_fit();
        self.free.retain(is_used);
        self.free.shrink_to(used);
        self.queue.retain(is_used);
        self.queue.shrink_to(used);
    }

    /// Removes a socket; nothing is said to its peer.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Box<Entry>> {
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
        if self.get(key).is_some() && self.is_to_be_queued(key) {
            self.queue.push_back(key);
        }
    }

    /// Whether a place is not in the queue. From now on it is.
    fn is_to_be_queued(&mut self, key: Key) -> bool {
        self.queued.get_mut(key.0 as usize).is_some_and(|queued| !core::mem::replace(queued, true))
    }

    /// The socket whose turn it is.
    pub(crate) fn next(&mut self) -> Option<Key> {
        while let Some(key) = self.queue.pop_front() {
            if let Some(queued) = self.queued.get_mut(key.0 as usize) {
                *queued = false;
            }
            if self.get(key).is_some() {
                return Some(key);
            }
        }
        None
    }

    /// Gives a socket its turn back.
    pub(crate) fn put_back(&mut self, key: Key) {
        if self.get(key).is_some() && self.is_to_be_queued(key) {
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

#[cfg(test)]
mod tests {
    use smoltcp::iface::SocketStorage;

    use std::boxed::Box;
    use std::vec::Vec;

    use super::{Entry, Key, Route, Table};
    use crate::accounts::block_bytes;
    use crate::limits::{RING_BYTES_MIN, RING_OVERHEAD_BYTES, SOCKETS_MAX, USER_SOCKETS_MAX};
    use crate::stack::net::new_socket;
    use crate::stack::owner::Owner;

    fn add(table: &mut Table) -> Key {
        let socket = new_socket(vec![0; RING_BYTES_MIN], vec![0; RING_BYTES_MIN], 0);
        table.add(socket, Owner::Stream, None).expect("memory")
    }

    /// Nodes of the trees may be half full, and what the table has for all may be twice as much as it needs.
    #[test]
    fn a_sockets_buffers_stand_for_all_that_it_takes() {
        let places = 2 * (size_of::<Option<Box<Entry>>>() + size_of::<bool>() + 2 * size_of::<Key>());
        let nodes = 4 * (size_of::<(Route, Key)>() + size_of::<(super::Instant, Key)>());
        let itself = block_bytes(size_of::<Entry>()) + block_bytes(size_of::<SocketStorage<'_>>());
        assert!(itself + places + nodes <= 2 * RING_OVERHEAD_BYTES, "{itself} + {places} + {nodes} bytes");
    }

    /// However many sockets there are, the table needs no long run of memory.
    #[test]
    fn what_all_sockets_have_together_is_short() {
        let most = (USER_SOCKETS_MAX + SOCKETS_MAX).next_power_of_two();
        assert!(most * size_of::<Option<Box<Entry>>>() <= 64 * 1024);
    }

    #[test]
    fn a_place_is_in_the_queue_once_whoever_comes_and_goes_there() {
        let mut table = Table::default();
        let kept = add(&mut table);
        for _ in 0..100 {
            let key = add(&mut table);
            table.enqueue(key);
            table.enqueue(kept);
            assert!(table.remove(key).is_some());
        }
        assert_eq!((table.queue.len(), table.len()), (2, 1));
        let again = add(&mut table);
        table.enqueue(again);
        assert_eq!(table.queue.len(), 2);
        let next: Vec<_> = core::iter::from_fn(|| table.next()).collect();
        assert!(next.len() == 2 && next.contains(&kept) && next.contains(&again));
    }

    #[test]
    fn what_many_sockets_took_comes_back() {
        let mut table = Table::default();
        let kept = add(&mut table);
        let keys: Vec<_> = (0..1000).map(|_| add(&mut table)).collect();
        for key in &keys {
            table.enqueue(*key);
        }
        table.enqueue(kept);
        keys.into_iter().for_each(|key| drop(table.remove(key)));
        table.shrink();
        let most = table.entries.capacity().max(table.free.capacity()).max(table.queue.capacity());
        assert!(most.max(table.queued.capacity()) <= 8, "{most}");
        assert_eq!((table.next(), table.next(), table.len()), (Some(kept), None, 1));
        let more = add(&mut table);
        table.enqueue(more);
        assert_eq!(table.next(), Some(more));
    }
}
