//! A call that ranks of this node make together with others.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::status::Status;
use super::word::Assembly;
use crate::ids::Rank;

/// What tells a call from others that are made at the same time: a digest of what it is for, and of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct CallId(u128);

impl CallId {
    /// Of a call for this, with these members.
    pub(crate) fn of(purpose: &[u8], members: &[Rank]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(purpose.len() as u64).to_le_bytes()).update(purpose);
        for member in members {
            hasher.update(&member.0.to_le_bytes());
        }
        let mut digest = [0; 16];
        hasher.finalize_xof().fill(&mut digest);
        Self(u128::from_le_bytes(digest))
    }
}

/// Who takes part, by node.
pub(crate) trait Places {
    /// The index of the node of a rank.
    fn node_of(&self, rank: Rank) -> Option<u32>;
    /// Whether a rank of this node has left.
    fn has_left(&self, rank: Rank) -> bool;
}

/// A call that ranks here make.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) members: Box<[Rank]>,
    /// Those on this node, and those of them that have come.
    pub(super) here: Vec<Rank>,
    pub(super) come: BTreeSet<Rank>,
    pub(super) leader: u32,
    /// The members of the leader's node.
    pub(super) leaders: Vec<Rank>,
    pub(super) nodes: Vec<u32>,
    pub(super) part: Vec<u8>,
    pub(super) heard_ns: u64,
    pub(super) again_ns: u64,
    pub(super) answer: Assembly,
}

impl Call {
    /// With these members, as node `me` sees it; nothing if one of them is no rank of the job.
    pub(super) fn new(members: &[Rank], me: u32, places: &dyn Places, now_ns: u64) -> Option<Self> {
        let leader = places.node_of(*members.first()?)?;
        let mut nodes = members.iter().map(|rank| places.node_of(*rank)).collect::<Option<Vec<u32>>>()?;
        nodes.dedup();
        let of = |node: u32| members.iter().copied().filter(move |rank| places.node_of(*rank) == Some(node));
        Some(Self {
            here: of(me).collect(),
            leaders: of(leader).collect(),
            members: members.into(),
            come: BTreeSet::new(),
            leader,
            nodes,
            part: Vec::new(),
            heard_ns: now_ns,
            again_ns: u64::MAX,
            answer: Assembly::default(),
        })
    }

    /// Whether all members here have come, or one cannot.
    pub(super) fn is_ready(&self, places: &dyn Places) -> bool {
        self.come.len() == self.here.len() || self.status(places) != Status::SUCCESS
    }

    /// Whether they all can come.
    pub(super) fn status(&self, places: &dyn Places) -> Status {
        let missing = |rank: &&Rank| !self.come.contains(rank) && places.has_left(**rank);
        if self.here.iter().any(|rank| missing(&rank)) { Status::UNREACHABLE } else { Status::SUCCESS }
    }
}
