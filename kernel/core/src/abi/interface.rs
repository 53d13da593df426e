//! Interfaces of the network: `struct ifreq` and `struct ifconf`, and what ioctl(2) asks of them (netdevice(7)).

use core::net::Ipv4Addr;

use super::Record;
use super::socket;

/// `SIOCGIFNAME`: the name of the one with an index.
pub(crate) const NAME: u32 = 0x8910;
/// `SIOCGIFCONF`: all that have addresses.
pub(crate) const ALL: u32 = 0x8912;
/// `SIOCGIFFLAGS`.
pub(crate) const FLAGS: u32 = 0x8913;
/// `SIOCGIFADDR`.
pub(crate) const ADDRESS: u32 = 0x8915;
/// `SIOCGIFBRDADDR`.
pub(crate) const BROADCAST: u32 = 0x8919;
/// `SIOCGIFNETMASK`.
pub(crate) const MASK: u32 = 0x891b;
/// `SIOCGIFMETRIC`.
pub(crate) const METRIC: u32 = 0x891d;
/// `SIOCGIFMTU`.
pub(crate) const MTU: u32 = 0x8921;
/// `SIOCGIFHWADDR`.
pub(crate) const HARDWARE: u32 = 0x8927;
/// `SIOCGIFINDEX`.
pub(crate) const INDEX: u32 = 0x8933;
/// `SIOCGIFTXQLEN`.
pub(crate) const QUEUE: u32 = 0x8942;

/// `IFF_UP | IFF_LOOPBACK | IFF_RUNNING`.
pub(crate) const LOOPBACK_FLAGS: u16 = 0x1 | 0x8 | 0x40;
/// `IFF_UP | IFF_BROADCAST | IFF_RUNNING`.
pub(crate) const ETHERNET_FLAGS: u16 = 0x1 | 0x2 | 0x40;

/// `ARPHRD_ETHER`.
pub(crate) const ETHERNET: u16 = 1;
/// `ARPHRD_LOOPBACK`.
pub(crate) const LOOPBACK: u16 = 772;

/// Length of a name in `struct ifreq`, with the zero at its end, bytes; what is asked or told comes behind it.
pub(crate) const NAME_FIELD_BYTES: usize = 16;

/// Length of `struct ifreq`, bytes.
pub(crate) const REQUEST_BYTES: usize = 40;

/// Length of `struct ifconf`, bytes: a count of bytes, and where they are.
pub(crate) const LIST_BYTES: usize = 16;

/// `struct ifreq` with a name alone.
pub(crate) fn request(name: &str) -> Record<REQUEST_BYTES> {
    Record::new().raw(0, name.as_bytes())
}

/// `struct ifreq` with a name and an address.
pub(crate) fn with_address(name: &str, address: Ipv4Addr) -> Record<REQUEST_BYTES> {
    request(name).raw(NAME_FIELD_BYTES, socket::name((address, 0)).bytes())
}
