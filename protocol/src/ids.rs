//! Identifiers. The ones that can be reused carry a [`Generation`], so that a peer from before a restart is recognised.

use core::fmt;
use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::limits::NODE_ADDRESSES_MAX;

/// Number of a compute node in its cluster, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// Number of a pset (an I/O node and the compute nodes it serves), counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PsetId(pub u32);

/// How many times a node was booted in the life of its cluster's database. Grows by one at each boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u32);

/// Number of a job. Never reused within a cluster's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// Rank of a process in its job, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

/// BLAKE3 hash of a program file's bytes: what a program *is*, wherever it lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProgramId(pub [u8; 32]);

impl fmt::Debug for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramId({self})")
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

macro_rules! display_number {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
display_number!(NodeId, PsetId, Generation, JobId, Rank);

/// Ethernet address. Computable from the IPv4 address, so that nobody has to be asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The locally administered address `02:00:a.b.c.d` of the station with that IPv4 address.
    #[must_use]
    pub fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self([0x02, 0x00, a, b, c, d])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Prefix length of the one network that all nodes and I/O nodes of a cluster share, `10.0.0.0/8`.
pub const NETWORK_PREFIX: u8 = 8;

/// Number of a node within a job, counted from 0 in the order of the job's ranks: node *i* has ranks *i·R* to
/// *i·R + R − 1*, wherever in the cluster it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobNode(pub u32);
display_number!(JobNode);

/// Prefix length of the network that the programs of a job see, `10.128.0.0/9`. It is the same for every job, and no
/// station of the cluster has an address in it.
pub const JOB_NETWORK_PREFIX: u8 = 9;

impl JobNode {
    /// Address of the first one.
    const FIRST: u32 = 0x0a80_0001;

    /// The address that programs of the job know the node by: `10.128.0.1` counted up by its number, which has to be
    /// below [`crate::limits::NODE_ADDRESSES_MAX`].
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(Self::FIRST.wrapping_add(self.0))
    }

    /// The node that is meant by an address, if the job has so many.
    #[must_use]
    pub fn of(address: Ipv4Addr) -> Option<Self> {
        is_in_job_network(address).then(|| address.to_bits().checked_sub(Self::FIRST).map(Self))?
    }
}

/// Whether an address is one of those that programs of a job see.
#[must_use]
pub fn is_in_job_network(address: Ipv4Addr) -> bool {
    const SHIFT: u32 = 32 - JOB_NETWORK_PREFIX as u32;
    address.to_bits() >> SHIFT == JobNode::FIRST >> SHIFT
}

impl NodeId {
    /// Address of the first one.
    const FIRST: u32 = 0x0a40_0001;

    /// The node's address in the cluster's network, which no program sees: `10.64.0.1` counted up by the node's number,
    /// which has to be below [`crate::limits::NODE_ADDRESSES_MAX`] to stay clear of jobs' addresses.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(Self::FIRST.wrapping_add(self.0))
    }

    /// The node that has an address, if there may be such a one.
    #[must_use]
    pub fn of(address: Ipv4Addr) -> Option<Self> {
        address.to_bits().checked_sub(Self::FIRST).filter(|number| *number < NODE_ADDRESSES_MAX).map(Self)
    }
}

impl PsetId {
    /// The I/O node's address in the cluster's network: `10.0.0.1` counted up by the pset's number, which has to be
    /// below [`crate::limits::PSET_ADDRESSES_MAX`] to stay clear of the nodes'.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(0x0a00_0001_u32.wrapping_add(self.0))
    }
}
