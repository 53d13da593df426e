//! Ports that accept connections, the node's own and programs'.
//!
//! A socket is made when a peer asks for one, so a listener costs nothing, and a burst of connections is answered in
//! the order it came, up to the backlog. Beyond, programs' listeners do not answer, so that the peer asks again; the
//! node's own refuse.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use super::table::Key;
use crate::cell::{Cell, Readiness};
use crate::ethernet::Realm;
use crate::local::End;
use crate::stack::BufferSizes;

/// Where somebody listens: port, and address or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) port: u16,
    pub(crate) address: Ipv4Addr,
}

/// A connection that waits to be accepted.
pub(crate) enum Arrival {
    /// From another node.
    Remote(Key),
    /// From a program of this node.
    Local(End),
}

impl Arrival {
    /// One from another node.
    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Remote(key) => Some(*key),
            Self::Local(_) => None,
        }
    }

    /// One from this node.
    pub(crate) fn end(&self) -> Option<&End> {
        match self {
            Self::Remote(_) => None,
            Self::Local(end) => Some(end),
        }
    }
}

/// A listening port.
pub(crate) struct Listener {
    /// Buffers of its connections; `None`: as [`crate::accounts`] has them for programs.
    pub(crate) sizes: Option<BufferSizes>,
    pub(crate) backlog: usize,
    /// Connections that are being made.
    pub(crate) making: Vec<Key>,
    /// Connections that are made, in that order.
    pub(crate) ready: VecDeque<Arrival>,
    /// Connections from this node beyond the backlog, in their order.
    pub(crate) waiting: VecDeque<End>,
    pub(crate) cell: Arc<Cell>,
}

impl Listener {
    pub(crate) fn new(sizes: Option<BufferSizes>, backlog: usize, cell: Arc<Cell>) -> Self {
        let (making, ready, waiting) = (Vec::new(), VecDeque::new(), VecDeque::new());
        Self { sizes, backlog, making, ready, waiting, cell }
    }

    /// The network its connections come from.
    pub(crate) fn realm(&self) -> Realm {
        if self.sizes.is_some() { Realm::Cluster } else { Realm::Job }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.making.len() + self.ready.len() >= self.backlog
    }

    /// A connection is made.
    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        if let Arrival::Remote(key) = arrival {
            self.forget(key);
        }
        self.ready.push_back(arrival);
        self.update(true);
    }

    /// A connection was not made in the end.
    pub(crate) fn forget(&mut self, key: Key) {
        self.making.retain(|known| *known != key);
    }

    /// The next connection to accept.
    pub(crate) fn take(&mut self) -> Option<Arrival> {
        let arrival = self.ready.pop_front();
        self.admit();
        self.update(false);
        arrival
    }

    /// Connections from this node that waited for room in the backlog get it.
    pub(crate) fn admit(&mut self) {
        while !self.is_full()
            && let Some(end) = self.waiting.pop_front()
        {
            if end.open() {
                self.ready.push_back(Arrival::Local(end));
            }
        }
    }

    fn update(&self, news: bool) {
        self.cell.set(Readiness { readable: !self.ready.is_empty(), ..Readiness::NONE }, news);
    }
}

/// All listening ports.
#[derive(Default)]
pub(crate) struct Listeners {
    places: BTreeMap<Place, Listener>,
}

impl Listeners {
    /// The listener for connections to `address`:`port`.
    pub(crate) fn find(&mut self, address: Ipv4Addr, port: u16) -> Option<(Place, &mut Listener)> {
        let exact = Place { port, address };
        let any = Place { port, address: Ipv4Addr::UNSPECIFIED };
        let place = if self.places.contains_key(&exact) { exact } else { any };
        self.places.get_mut(&place).map(|listener| (place, listener))
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Listener> {
        self.places.get_mut(&place)
    }

    pub(crate) fn insert(&mut self, place: Place, listener: Listener) {
        self.places.insert(place, listener);
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<Listener> {
        self.places.remove(&place)
    }
}
