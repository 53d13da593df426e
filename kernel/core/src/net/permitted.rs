//! What of the network is not for programs: the ports on which nodes and I/O nodes speak with each other, and the I/O
//! nodes altogether.
//!
//! A program that asks for one of them is refused here, and no packet leaves the node. Whoever speaks there proves
//! itself anyway; but a port that programs cannot reach is one they cannot keep busy either.

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::limits::{CONTROL_PORT, PMI_PEER_PORT, PMI_PORT};

/// Ports on which the cluster's own stations listen.
const CLUSTER_PORTS: RangeInclusive<u16> = CONTROL_PORT..=PMI_PEER_PORT;

/// Whether a program of the node at `own` may connect to `address`:`port`.
pub fn connect(own: Ipv4Addr, address: Ipv4Addr, port: u16) -> bool {
    let is_own = address == own || address.is_loopback() || address.is_unspecified();
    // This node serves its own programs alone there.
    let is_others_server = port == PMI_PORT && !is_own;
    !is_io_node(address) && !is_others_server && !CLUSTER_PORTS.contains(&port)
}

/// Whether a program may send datagrams to `address`. No station listens for them.
pub fn send(address: Ipv4Addr) -> bool {
    !is_io_node(address)
}

fn is_io_node(address: Ipv4Addr) -> bool {
    (PsetId(0).address()..NodeId(0).address()).contains(&address)
}

/// Whether a program may have `port` for itself.
pub fn bind(port: u16) -> bool {
    !CLUSTER_PORTS.contains(&port) && port != PMI_PORT
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use coppice_protocol::ids::{NodeId, PsetId};
    use coppice_protocol::limits::PSETS_MAX;

    use super::{bind, connect, send};

    #[test]
    fn nodes_are_reachable_but_for_the_clusters_ports() {
        let own = NodeId(3).address();
        let addresses =
            [own, NodeId(0).address(), NodeId(70_000).address(), Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED];
        for address in addresses {
            assert!(connect(own, address, 7000) && connect(own, address, 60_000), "{address}");
            assert!((7001..=7003).all(|port| !connect(own, address, port)), "{address}");
        }
    }

    #[test]
    fn only_the_own_nodes_server_is_reachable() {
        let own = NodeId(3).address();
        assert!(connect(own, own, 7004) && connect(own, Ipv4Addr::LOCALHOST, 7004));
        assert!(!connect(own, NodeId(4).address(), 7004));
    }

    #[test]
    fn no_io_node_is_reachable() {
        let own = NodeId(0).address();
        for pset in [0, 1, 300, PSETS_MAX - 1] {
            assert!(!connect(own, PsetId(pset).address(), 80) && !send(PsetId(pset).address()));
        }
        assert!(connect(own, own, 80) && send(own));
    }

    #[test]
    fn the_clusters_ports_are_taken() {
        assert!((7001..=7004).all(|port| !bind(port)));
        assert!(bind(7000) && bind(7005) && bind(0));
    }
}
