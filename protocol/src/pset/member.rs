//! A job's ranks as an I/O node is told of them: by node, as each node has ranks that follow each other.

use serde::{Deserialize, Serialize};

use crate::control::NodeRestore;
use crate::ids::{NodeId, Rank};
use crate::limits::RANKS_PER_NODE_MAX;

/// A node of a job, and its ranks there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The first of its ranks.
    pub first: Rank,
    /// How many there are, one after the other, at most [`crate::limits::RANKS_PER_NODE_MAX`].
    pub count: u32,
    /// The node is believed to hold the program's page table: tell it to retain that, then to launch on it.
    pub use_retained: bool,
    /// As [`crate::control::Launch::restore`].
    pub restore: Option<NodeRestore>,
}

impl Member {
    /// Its ranks.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        let first = self.first.0;
        (first..first.saturating_add(self.count.min(RANKS_PER_NODE_MAX))).map(Rank)
    }
}
