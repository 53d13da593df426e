//! The interfaces of the network that a node has for its programs: the loopback, and the node's end in its job's
//! network. What asks for them is ioctl(2) and [`super::netlink`].

use core::net::Ipv4Addr;

use coppice_protocol::ids::JOB_NETWORK_PREFIX;

use crate::abi::interface;
use crate::net::Network;

/// Largest packet of the loopback, bytes.
const LOOPBACK_MTU: u32 = 65_536;

/// Packets that wait to be sent, at most, as it is told.
pub(crate) const QUEUE_PACKETS: u32 = 1000;

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) name: &'static str,
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
    /// `IFF_*`.
    pub(crate) flags: u16,
    pub(crate) mtu: u32,
    /// `ARPHRD_*`.
    pub(crate) kind: u16,
}

impl Interface {
    /// Whether it is the node's end in its job's network.
    pub(crate) const fn is_ethernet(&self) -> bool {
        self.kind == interface::ETHERNET
    }

    /// Its network's mask.
    pub(crate) fn mask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX << (32 - u32::from(self.prefix)))
    }

    /// The address of all in its network.
    pub(crate) fn broadcast(&self) -> Ipv4Addr {
        self.address | !self.mask()
    }

    /// Its hardware's address. That of the network's own is nobody's business but the cluster's: this one is as good as
    /// any that is not used twice.
    pub(crate) fn hardware(&self) -> [u8; 6] {
        let [a, b, c, d] = self.address.octets();
        if self.is_ethernet() { [2, 0, a, b, c, d] } else { [0; 6] }
    }
}

/// The interfaces that there are, by their indices.
pub(crate) fn all(network: &dyn Network) -> impl Iterator<Item = Interface> + Clone + use<> {
    let (address, mtu) = (network.address(), network.mtu());
    let end = move |index| match (index, address) {
        (1, _) => Some(Interface {
            index,
            name: "lo",
            address: Ipv4Addr::LOCALHOST,
            prefix: 8,
            flags: interface::LOOPBACK_FLAGS,
            mtu: LOOPBACK_MTU,
            kind: interface::LOOPBACK,
        }),
        (_, Some(address)) => Some(Interface {
            index,
            name: "eth0",
            address,
            prefix: JOB_NETWORK_PREFIX,
            flags: interface::ETHERNET_FLAGS,
            mtu: mtu.and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or_default(),
            kind: interface::ETHERNET,
        }),
        (_, None) => None,
    };
    (1..=2).filter_map(end)
}
