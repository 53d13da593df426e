//! Who uses which port, separately for TCP and UDP.
//!
//! The node's own connections and listeners have ports for themselves, but that a socket which is made again may share
//! one with a connection of the node's. A program may bind a port again as bind(2) and SO_REUSEADDR say: at another
//! address, or when both want it and none listens.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use crate::SocketError;
use crate::record::PortRecord;

/// First of the ports that are given out.
const EPHEMERAL_FIRST: u16 = 49_152;
/// How many of them there are.
const EPHEMERAL_COUNT: u16 = 16_384;

/// A use of a port, to be given back ([`Ports::release`]).
#[derive(Debug)]
pub(crate) enum Claim {
    /// The node's own.
    Node(u16),
    /// A connection that a program's listener brought forth.
    Accepted(u16),
    /// A program's, with the name of the use.
    Bound(u16, u32),
}

impl Claim {
    pub(crate) fn port(&self) -> u16 {
        match *self {
            Self::Node(port) | Self::Accepted(port) | Self::Bound(port, _) => port,
        }
    }
}

/// A program's wish for a port.
#[derive(Clone, Copy)]
struct Bind {
    name: u32,
    address: Ipv4Addr,
    reuse: bool,
    listens: bool,
}

/// What a port is used for.
#[derive(Default)]
struct Uses {
    node: bool,
    accepted: u32,
    binds: Vec<Bind>,
}

impl Uses {
    fn is_free(&self) -> bool {
        !self.node && self.accepted == 0 && self.binds.is_empty()
    }
}

/// All ports that are in use.
pub(crate) struct Ports {
    used: BTreeMap<u16, Uses>,
    /// Not for programs.
    reserved: RangeInclusive<u16>,
    next: u16,
    next_name: u32,
}

/// Whether two sockets at one port could both be meant by a packet.
fn overlap(one: Ipv4Addr, other: Ipv4Addr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}

impl Ports {
    pub(crate) fn new(seed: u16) -> Self {
        let next = EPHEMERAL_FIRST + seed % EPHEMERAL_COUNT;
        // An empty range.
        Self { used: BTreeMap::new(), reserved: RangeInclusive::new(1, 0), next, next_name: 0 }
    }

    /// No program gets these.
    pub(crate) fn reserve(&mut self, ports: RangeInclusive<u16>) {
        self.reserved = ports;
    }

    /// A port that nobody uses. There are more of them than sockets, so that one is found at once almost always.
    fn free(&mut self) -> Option<u16> {
        for _ in 0..EPHEMERAL_COUNT {
            let port = self.next;
            self.next = EPHEMERAL_FIRST + (port - EPHEMERAL_FIRST + 1) % EPHEMERAL_COUNT;
            if !self.used.contains_key(&port) && !self.reserved.contains(&port) {
                return Some(port);
            }
        }
        None
    }

    /// Any port, for a connection of the node.
    pub(crate) fn take_for_node(&mut self) -> Option<Claim> {
        let port = self.free()?;
        self.used.entry(port).or_default().node = true;
        Some(Claim::Node(port))
    }

    /// `port` for a listener of the node, if nobody else listens there and no program has bound it.
    pub(crate) fn listen_for_node(&mut self, port: u16) -> Option<Claim> {
        let uses = self.used.entry(port).or_default();
        if !uses.is_free() {
            return None;
        }
        uses.node = true;
        Some(Claim::Node(port))
    }

    /// A program's bind(2); port 0 is any.
    pub(crate) fn bind(&mut self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<Claim, SocketError> {
        let port = if port == 0 { self.free().ok_or(SocketError::AddressInUse)? } else { port };
        if self.reserved.contains(&port) {
            return Err(SocketError::AddressInUse);
        }
        let name = self.next_name;
        let uses = self.used.entry(port).or_default();
        let clash = |bind: &Bind| overlap(bind.address, address) && !(reuse && bind.reuse && !bind.listens);
        if uses.node || (uses.accepted > 0 && !reuse) || uses.binds.iter().any(clash) {
            return Err(SocketError::AddressInUse);
        }
        uses.binds.try_reserve(1).map_err(|_| SocketError::NoMemory)?;
        self.next_name = name.wrapping_add(1);
        uses.binds.push(Bind { name, address, reuse, listens: false });
        Ok(Claim::Bound(port, name))
    }

    /// The holder of `claim` wants to listen.
    pub(crate) fn listen(&mut self, claim: &Claim) -> Result<(), SocketError> {
        let (Claim::Bound(_, name), Some(uses)) = (claim, self.used.get_mut(&claim.port())) else {
            return Err(SocketError::Invalid);
        };
        let Some(index) = uses.binds.iter().position(|bind| bind.name == *name) else {
            return Err(SocketError::Invalid);
        };
        let bind = uses.binds.swap_remove(index);
        let taken = uses.binds.iter().any(|other| other.listens && overlap(other.address, bind.address));
        uses.binds.push(Bind { listens: !taken, ..bind });
        if taken { Err(SocketError::AddressInUse) } else { Ok(()) }
    }

    /// The holder of `claim` does not listen any more.
    pub(crate) fn unlisten(&mut self, claim: &Claim) {
        if let Claim::Bound(port, name) = claim
            && let Some(uses) = self.used.get_mut(port)
        {
            uses.binds.iter_mut().filter(|bind| bind.name == *name).for_each(|bind| bind.listens = false);
        }
    }

    /// One more connection at a program's listening port.
    pub(crate) fn accept(&mut self, port: u16) -> Claim {
        self.used.entry(port).or_default().accepted += 1;
        Claim::Accepted(port)
    }

    /// What was claimed, as data. The node's own ports are no program's.
    pub(crate) fn record(&self, claim: &Claim) -> Option<PortRecord> {
        match *claim {
            Claim::Node(_) => None,
            Claim::Accepted(port) => Some(PortRecord::Accepted(port)),
            Claim::Bound(port, name) => {
                let bind = self.used.get(&port)?.binds.iter().find(|bind| bind.name == name)?;
                let &Bind { address, reuse, listens, .. } = bind;
                Some(PortRecord::Bound { address, port, reuse, listens })
            }
        }
    }

    /// Claims what was claimed before, in whatever order that is done.
    ///
    /// # Errors
    /// [`SocketError::Invalid`]: no program could have that. [`SocketError::NoMemory`].
    pub(crate) fn claim_again(&mut self, record: PortRecord) -> Result<Claim, SocketError> {
        let (PortRecord::Bound { port, .. } | PortRecord::Accepted(port)) = record;
        // A connection of the node's own may have got the port since another rank's sockets were made again: those are
        // given out one behind the other. It is told from a program's by where it goes; a listener would not be.
        let is_listened = port < EPHEMERAL_FIRST && self.used.get(&port).is_some_and(|uses| uses.node);
        if port == 0 || is_listened || self.reserved.contains(&port) {
            return Err(SocketError::Invalid);
        }
        if port >= EPHEMERAL_FIRST {
            // One that was given out is not to be given out again soon: its peer may still know who had it.
            self.next = self.next.max(EPHEMERAL_FIRST + (port - EPHEMERAL_FIRST + 1) % EPHEMERAL_COUNT);
        }
        let PortRecord::Bound { address, port, reuse, listens } = record else { return Ok(self.accept(port)) };
        let name = self.next_name;
        let uses = self.used.entry(port).or_default();
        let clash = |bind: &Bind| overlap(bind.address, address) && (bind.listens && listens);
        if uses.binds.iter().any(clash) {
            return Err(SocketError::Invalid);
        }
        uses.binds.try_reserve(1).map_err(|_| SocketError::NoMemory)?;
        self.next_name = name.wrapping_add(1);
        uses.binds.push(Bind { name, address, reuse, listens });
        Ok(Claim::Bound(port, name))
    }

    /// Gives back what was claimed.
    pub(crate) fn release(&mut self, claim: Claim) {
        let Some(uses) = self.used.get_mut(&claim.port()) else { return };
        match claim {
            Claim::Node(_) => uses.node = false,
            Claim::Accepted(_) => uses.accepted = uses.accepted.saturating_sub(1),
            Claim::Bound(_, name) => uses.binds.retain(|bind| bind.name != name),
        }
        if uses.is_free() {
            self.used.remove(&claim.port());
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::{Claim, EPHEMERAL_FIRST, Ports};
    use crate::record::PortRecord;

    fn bound(port: u16) -> PortRecord {
        PortRecord::Bound { address: Ipv4Addr::UNSPECIFIED, port, reuse: false, listens: true }
    }

    /// Ports of a node's ranks are one behind the other, and between one rank's and the next one's the node connects to
    /// another node.
    #[test]
    fn what_is_made_again_has_its_port_though_a_connection_of_the_nodes_got_it_meanwhile() {
        let mut ports = Ports::new(0);
        let first = ports.claim_again(bound(EPHEMERAL_FIRST + 9)).expect("free");
        let of_node = ports.take_for_node().expect("one");
        assert_eq!(of_node.port(), EPHEMERAL_FIRST + 10);
        let second = ports.claim_again(bound(EPHEMERAL_FIRST + 10)).expect("its own");
        assert!(ports.claim_again(bound(EPHEMERAL_FIRST + 10)).is_err(), "only one may listen there");
        // Whoever goes first, the other one stays.
        ports.release(of_node);
        assert!(ports.bind(Ipv4Addr::LOCALHOST, EPHEMERAL_FIRST + 10, false).is_err());
        for claim in [first, second] {
            ports.release(claim);
        }
        assert!(ports.used.is_empty());
        // A listener of the node's keeps its port.
        assert!(matches!(ports.listen_for_node(7003), Some(Claim::Node(7003))));
        assert!(ports.claim_again(bound(7003)).is_err());
    }
}
