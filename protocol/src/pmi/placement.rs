//! Which ranks are where. Known to every node of a job from its launch, so that nobody has to ask.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::ids::{NodeId, Rank};
use crate::limits::{NODES_MAX, PMI_MAPPING_BYTES_MAX};

/// Consecutive ranks on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The first of its ranks.
    pub first: Rank,
    /// How many there are, at least one.
    pub count: u32,
}

impl Place {
    /// The ranks of the place.
    pub fn ranks(self) -> impl Iterator<Item = Rank> {
        (self.first.0..self.first.0.saturating_add(self.count)).map(Rank)
    }

    /// Whether the rank is one of them.
    #[must_use]
    pub fn has(self, rank: Rank) -> bool {
        rank.0.checked_sub(self.first.0).is_some_and(|behind| behind < self.count)
    }
}

/// Places of all ranks of a job. In what follows a node's *index* is its place in this list, not its number in the
/// cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    places: Vec<Place>,
    size: u32,
}

/// Why places are none of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are none.
    #[error("no rank is placed anywhere")]
    Empty,
    /// Ranks are missing, come twice, or not in their order.
    #[error("rank {0} is not where the places before it end")]
    Order(Rank),
    /// A node comes twice.
    #[error("node {0} is placed twice")]
    NodeTwice(NodeId),
    /// More ranks than there are numbers.
    #[error("too many ranks")]
    TooMany,
}

impl Placement {
    /// Checks that the places hold ranks 0, 1, 2, … in this order and each node once.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn new(places: Vec<Place>) -> Result<Self, PlacementError> {
        let mut size = 0_u32;
        for place in &places {
            if place.first.0 != size || place.count == 0 {
                return Err(PlacementError::Order(place.first));
            }
            size = size.checked_add(place.count).ok_or(PlacementError::TooMany)?;
        }
        let mut nodes: Vec<NodeId> = places.iter().map(|place| place.node).collect();
        nodes.sort_unstable();
        if let Some([twice, _]) = nodes.array_windows().find(|[one, other]| one == other) {
            return Err(PlacementError::NodeTwice(*twice));
        }
        match places.len() {
            0 => Err(PlacementError::Empty),
            nodes if nodes > NODES_MAX as usize => Err(PlacementError::TooMany),
            _ => Ok(Self { places, size }),
        }
    }

    /// Ranks in the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Nodes of the job.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        // At most NODES_MAX.
        self.places.len() as u32
    }

    /// The place with this index.
    #[must_use]
    pub fn place(&self, index: u32) -> Option<Place> {
        self.places.get(index as usize).copied()
    }

    /// The index of a node.
    #[must_use]
    pub fn index_of(&self, node: NodeId) -> Option<u32> {
        self.places.iter().position(|place| place.node == node).map(|index| index as u32)
    }

    /// The index of the node that a rank is on.
    #[must_use]
    pub fn index_of_rank(&self, rank: Rank) -> Option<u32> {
        let behind = self.places.partition_point(|place| place.first <= rank);
        let index = behind.checked_sub(1)?;
        self.places.get(index).filter(|place| place.has(rank)).map(|_| index as u32)
    }

    /// The value of `PMI_process_mapping`: `(vector,(first node,nodes,ranks on each of them),…)`, nodes by their index.
    /// `None` if it is longer than [`PMI_MAPPING_BYTES_MAX`]; a program then finds out by comparing host names.
    #[must_use]
    pub fn process_mapping(&self) -> Option<String> {
        let mut text = String::from("(vector");
        let mut first = 0;
        for alike in self.places.chunk_by(|one, other| one.count == other.count) {
            let ranks = alike.first()?.count;
            write!(text, ",({first},{},{ranks})", alike.len()).ok()?;
            first += alike.len();
            if text.len() >= PMI_MAPPING_BYTES_MAX {
                return None;
            }
        }
        text.push(')');
        Some(text)
    }
}
