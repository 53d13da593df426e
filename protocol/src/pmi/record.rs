//! A node's part of a job as data, for a checkpoint of the job, and made again from that on nodes that were just told
//! of it.
//!
//! What nodes have told each other about a barrier that is not through is not in it: those that wait in one enter it
//! anew, with what their ranks have put before it. So it has to be the same barrier everywhere: the records of a
//! checkpoint are of one and the same number of barriers that are through ([`ServerRecord::barriers`]).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::failure::Departure;
use super::modex::Modex;
use super::names::NamesRecord;
use super::placement::{NodeRanks, Placement};
use super::server::{Patience, Phase};
use super::space::Put;
use crate::control::Exit;
use crate::ids::Rank;
use crate::limits::{PMI_ATTRIBUTES_MAX, PMI_BYTES_PER_JOB_MAX, PMI_KEYS_PER_JOB_MAX, PMI_NAME_BYTES_MAX};
use crate::pmix::DeskRecord;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServerRecord {
    pub(super) space_name: String,
    pub(super) modex: Modex,
    pub(super) space: SpaceRecord,
    pub(super) attributes: Vec<Put>,
    pub(super) pmix: DeskRecord,
    pub(super) names: NamesRecord,
    pub(super) completed: u64,
    /// What all puts of the last barrier had, by which all nodes choose how they walk the next.
    pub(super) last_bytes: Option<u64>,
    pub(super) ranks: Vec<LocalRecord>,
}

/// Keys and values.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpaceRecord {
    /// In order, with the barrier that made each known to all.
    pub(super) entries: Vec<(Put, Option<u64>)>,
    pub(super) keys_left: usize,
    pub(super) bytes_left: usize,
}

/// A rank.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LocalRecord {
    pub(super) rank: Rank,
    pub(super) phase: Phase,
    pub(super) has_spoken: bool,
    pub(super) is_heard: bool,
    pub(super) awaits: bool,
    pub(super) patience: Patience,
    pub(super) departure: Option<Departure>,
    pub(super) ended: Option<Exit>,
}

/// A record that cannot be of these ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was written down of PMI is of other ranks, or damaged")]
pub struct BadRecord;

impl ServerRecord {
    /// Barriers that are through.
    #[must_use]
    pub const fn barriers(&self) -> u64 {
        self.completed
    }

    /// Ranks of the node.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Whether it is about the ranks of this place, which is node `me` of these, and within the limits.
    pub(super) fn is_of(&self, here: NodeRanks, me: u32, placement: &Placement) -> bool {
        let entries = &self.space.entries;
        let bytes: usize = entries.iter().map(|(put, _)| put.bytes()).sum();
        self.space_name.len() <= PMI_NAME_BYTES_MAX
            && self.pmix.is_of(here, placement.nodes())
            && here.ranks().eq(self.ranks.iter().map(|local| local.rank))
            && entries.len() <= PMI_KEYS_PER_JOB_MAX
            && bytes <= PMI_BYTES_PER_JOB_MAX
            && self.last_bytes.is_none_or(|bytes| bytes <= PMI_BYTES_PER_JOB_MAX as u64)
            && self.space.keys_left <= PMI_KEYS_PER_JOB_MAX
            && self.space.bytes_left <= PMI_BYTES_PER_JOB_MAX
            && entries.iter().all(|(put, _)| put.is_within_limits())
            && self.attributes.len() <= PMI_ATTRIBUTES_MAX
            && self.attributes.iter().all(Put::is_within_limits)
            && self.names.is_of(me, placement, |rank| here.has(rank))
    }
}

/// What a key or a value is as data.
pub(super) fn put(key: &[u8], value: &[u8]) -> Put {
    Put { key: Box::from(key), value: Box::from(value) }
}
