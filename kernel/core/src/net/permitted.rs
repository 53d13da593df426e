//! What of its job's network is not for a program: the ports on which nodes and I/O nodes speak with each other, and
//! the other nodes' servers.
//!
//! A program that asks for one of them is refused here, and no packet leaves the node. The cluster's own ports are not
//! in a job's network at all ([`coppice_endpoint`]); but the kernel's sockets and programs' have their port numbers in
//! common.

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use coppice_protocol::limits::{CONTROL_PORT, OVERLAY_PORT, PMI_PEER_PORT, PMI_PORT, PMIX_PORT};

/// Ports on which the cluster's own stations listen.
const CLUSTER_PORTS: RangeInclusive<u16> = CONTROL_PORT..=PMI_PEER_PORT;

/// Whether a program of the node that has the address `own` in its job may connect to `address`:`port`.
pub fn connect(own: Option<Ipv4Addr>, address: Ipv4Addr, port: u16) -> bool {
    let is_own = own == Some(address) || address.is_loopback() || address.is_unspecified();
    // This node serves its own programs alone there.
    let is_others_server = port == PMI_PORT && !is_own;
    !is_others_server && !CLUSTER_PORTS.contains(&port)
}

/// Whether a program may have `port` for itself.
pub fn bind(port: u16) -> bool {
    !CLUSTER_PORTS.contains(&port) && ![PMI_PORT, PMIX_PORT, OVERLAY_PORT].contains(&port)
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use coppice_protocol::ids::JobNode;

    use super::{bind, connect};

    #[test]
    fn nodes_are_reachable_but_for_the_clusters_ports() {
        let own = JobNode(3).address();
        let others = [JobNode(0).address(), JobNode(70_000).address()];
        for address in [own, Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].into_iter().chain(others) {
            assert!(connect(Some(own), address, 7000) && connect(Some(own), address, 60_000), "{address}");
            assert!((7001..=7003).all(|port| !connect(Some(own), address, port)), "{address}");
        }
    }

    #[test]
    fn only_the_own_nodes_server_is_reachable() {
        let own = JobNode(3).address();
        assert!(connect(Some(own), own, 7004) && connect(None, Ipv4Addr::LOCALHOST, 7004));
        assert!(!connect(Some(own), JobNode(4).address(), 7004) && !connect(None, own, 7004));
    }

    #[test]
    fn the_clusters_ports_are_taken() {
        assert!([7001, 7002, 7003, 7004, 7006, 7007].into_iter().all(|port| !bind(port)));
        assert!(bind(7000) && bind(7005) && bind(0));
    }
}
