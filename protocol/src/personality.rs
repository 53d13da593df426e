//! What a node is told about itself at boot: the ramdisk that its loader hands over.
//!
//! Layout: the eight bytes [`MAGIC`], then one postcard [`Personality`]; anything behind it is padding.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::ids::{Generation, MacAddress, NodeId, PsetId};
use crate::limits::MTU_BYTES_MIN;
use crate::retain::RetentionPolicy;

/// First bytes of a personality; the last one is its version.
pub const MAGIC: [u8; 8] = *b"COPPICE\x03";

/// Secret shared by one boot of one node and its I/O node.
#[derive(Clone, Serialize, Deserialize)]
pub struct NodeKey(pub [u8; 32]);

impl core::fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("NodeKey(..)")
    }
}

/// Everything a node knows before it has talked to anyone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Personality {
    /// The node's number in its cluster.
    pub node: NodeId,
    /// Which boot of the node this is.
    pub generation: Generation,
    /// The pset the node belongs to.
    pub pset: PsetId,
    /// The node's own IPv4 address.
    pub address: Ipv4Addr,
    /// Length of the network prefix, bits.
    pub prefix: u8,
    /// The node's Ethernet address, as its network card must have it.
    pub mac: MacAddress,
    /// Largest IP packet on the node's link, bytes.
    pub mtu: u16,
    /// IPv4 address of the I/O node.
    pub io_node: Ipv4Addr,
    /// Key of this boot.
    pub key: NodeKey,
    /// Seed of the node's random numbers, from the host's generator.
    pub seed: [u8; 32],
    /// The host's `CLOCK_REALTIME` when the machine was started, ns since 1970.
    pub realtime_ns: u64,
    /// Most verbose level logged on the console, as `log::LevelFilter` counts (0 off … 5 trace).
    pub log_level: u8,
    /// What the node keeps of programs when it is to retain one.
    pub retention: RetentionPolicy,
    /// Processes are taken apart and made again so often on average, which they must not notice, ns; 0: never.
    pub freeze_every_ns: u64,
}

/// Why a ramdisk is no personality.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PersonalityError {
    /// It does not start with [`MAGIC`].
    #[error("ramdisk is no Coppice personality of this version")]
    Magic,
    /// It is cut short or damaged.
    #[error("personality is damaged")]
    Damaged,
    /// It says something that no node can be told.
    #[error("personality has an impossible {0}")]
    Impossible(&'static str),
}

impl Personality {
    /// The bytes to put into the node's ramdisk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, MAGIC.to_vec()).expect("plain data into a growing vector has no way to fail")
    }

    /// Reads a personality from the start of `bytes`.
    ///
    /// # Errors
    /// [`PersonalityError`] if the bytes are something else or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, PersonalityError> {
        let body = bytes.strip_prefix(&MAGIC).ok_or(PersonalityError::Magic)?;
        let (personality, _padding): (Self, _) =
            postcard::take_from_bytes(body).map_err(|_| PersonalityError::Damaged)?;
        personality.check()?;
        Ok(personality)
    }

    /// What a network stack would stumble over.
    fn check(&self) -> Result<(), PersonalityError> {
        let is_station = |address: Ipv4Addr| {
            !(address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback())
        };
        let MacAddress(mac) = self.mac;
        let checks = [
            (is_station(self.address), "address of the node"),
            (is_station(self.io_node), "address of the I/O node"),
            ((1..=32).contains(&self.prefix), "network prefix"),
            (mac[0] & 1 == 0 && mac != [0; 6], "Ethernet address"),
            (self.mtu >= MTU_BYTES_MIN, "MTU"),
        ];
        match checks.into_iter().find(|(possible, _)| !possible) {
            Some((_, what)) => Err(PersonalityError::Impossible(what)),
            None => Ok(()),
        }
    }
}
