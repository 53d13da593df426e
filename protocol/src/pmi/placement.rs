//! Which ranks are where. Known to every node of a job from its launch, so that nobody has to ask.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::ids::{JobNode, NodeId, Rank};
use crate::limits::{NODE_ADDRESSES_MAX, PMI_MAPPING_BYTES_MAX};

/// Consecutive ranks on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRanks {
    /// The node.
    pub node: NodeId,
    /// The first of its ranks.
    pub first: Rank,
    /// How many there are, at least one.
    pub count: u32,
}

impl NodeRanks {
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

/// Nodes with consecutive numbers and as many ranks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Index of the first one.
    index: u32,
    /// The first one.
    node: NodeId,
    /// How many nodes.
    nodes: u32,
    /// The first rank on the first one.
    first: Rank,
    /// Ranks on each, at least one.
    ranks: u32,
}

impl Run {
    /// The place that is so many behind the first.
    const fn place(&self, behind: u32) -> NodeRanks {
        let (node, first) = (NodeId(self.node.0 + behind), Rank(self.first.0 + behind * self.ranks));
        NodeRanks { node, first, count: self.ranks }
    }
}

/// Places of all ranks of a job, as short as they can be said. In what follows a node's *index* is its place among
/// them, not its number in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// In the order of their ranks. Clones have them in common.
    runs: Arc<Vec<Run>>,
    nodes: u32,
    size: u32,
    /// The number in the job's network that the first node has.
    first_node: JobNode,
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
    /// There is no memory for them.
    #[error("no memory for where they are")]
    NoMemory,
}

/// Places one after the other.
pub(crate) struct Places {
    runs: Vec<Run>,
    nodes: u32,
    size: u32,
}

impl Places {
    /// None yet, with room for so many runs of neighbours.
    ///
    /// # Errors
    /// [`PlacementError::NoMemory`].
    pub(crate) fn with_room(runs: usize) -> Result<Self, PlacementError> {
        let mut places = Self { runs: Vec::new(), nodes: 0, size: 0 };
        places.runs.try_reserve_exact(runs).map_err(|_| PlacementError::NoMemory)?;
        Ok(places)
    }

    /// The next `nodes` nodes, from this one on, have so many ranks each.
    ///
    /// # Errors
    /// [`PlacementError`]: they cannot be.
    pub(crate) fn add(&mut self, node: NodeId, nodes: u32, ranks: u32) -> Result<(), PlacementError> {
        let Some(behind_first) = nodes.checked_sub(1) else { return Ok(()) };
        if ranks == 0 {
            return Err(PlacementError::Order(Rank(self.size)));
        }
        node.0.checked_add(behind_first).ok_or(PlacementError::TooMany)?;
        let run = Run { index: self.nodes, node, nodes, first: Rank(self.size), ranks };
        let size = nodes.checked_mul(ranks).and_then(|more| self.size.checked_add(more));
        let all = self.nodes.checked_add(nodes).filter(|all| *all <= NODE_ADDRESSES_MAX);
        let (Some(size), Some(all)) = (size, all) else { return Err(PlacementError::TooMany) };
        match self.runs.last_mut() {
            Some(last) if last.ranks == ranks && last.node.0.checked_add(last.nodes) == Some(node.0) => {
                last.nodes += nodes;
            }
            _ => {
                self.runs.try_reserve(1).map_err(|_| PlacementError::NoMemory)?;
                self.runs.push(run);
            }
        }
        (self.nodes, self.size) = (all, size);
        Ok(())
    }

    /// All of them.
    ///
    /// # Errors
    /// [`PlacementError`]: there are none, or a node comes twice.
    pub(crate) fn finish(mut self) -> Result<Placement, PlacementError> {
        self.runs.sort_unstable_by_key(|run| run.node);
        let meet = |[one, other]: &&[Run; 2]| other.node.0 - one.node.0 < one.nodes;
        if let Some([_, twice]) = self.runs.array_windows().find(meet) {
            return Err(PlacementError::NodeTwice(twice.node));
        }
        self.runs.sort_unstable_by_key(|run| run.index);
        if self.runs.is_empty() {
            return Err(PlacementError::Empty);
        }
        Ok(Placement { runs: Arc::new(self.runs), nodes: self.nodes, size: self.size, first_node: JobNode(0) })
    }
}

impl Placement {
    /// Checks that the places hold ranks 0, 1, 2, … in this order and each node once.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn new(places: Vec<NodeRanks>) -> Result<Self, PlacementError> {
        let mut all = Places::with_room(0)?;
        for place in places {
            if place.first.0 != all.size {
                return Err(PlacementError::Order(place.first));
            }
            all.add(place.node, 1, place.count)?;
        }
        all.finish()
    }

    /// The same for a job whose first node has this number in the job's network.
    #[must_use]
    pub fn behind(self, first_node: JobNode) -> Self {
        Self { first_node, ..self }
    }

    /// The number in the job's network of the node with this index.
    #[must_use]
    pub fn job_node(&self, index: u32) -> JobNode {
        JobNode(self.first_node.0.saturating_add(index))
    }

    /// What the places of nodes in so many ranges take of the memory at most, bytes.
    #[must_use]
    pub const fn memory_bytes_max(ranges: usize) -> usize {
        // The last node may have fewer ranks than its neighbours.
        (ranges + 1) * size_of::<Run>()
    }

    /// Ranks in the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Nodes of the job.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The place with this index.
    #[must_use]
    pub fn place(&self, index: u32) -> Option<NodeRanks> {
        let run = self.runs.get(self.runs.partition_point(|run| run.index <= index).checked_sub(1)?)?;
        Some(index - run.index).filter(|behind| *behind < run.nodes).map(|behind| run.place(behind))
    }

    /// The index of a node.
    #[must_use]
    pub fn index_of(&self, node: NodeId) -> Option<u32> {
        self.runs.iter().find_map(|run| {
            let behind = node.0.checked_sub(run.node.0).filter(|behind| *behind < run.nodes)?;
            Some(run.index + behind)
        })
    }

    /// The index of the node that a rank is on.
    #[must_use]
    pub fn index_of_rank(&self, rank: Rank) -> Option<u32> {
        let run = self.runs.get(self.runs.partition_point(|run| run.first <= rank).checked_sub(1)?)?;
        let behind = (rank.0 - run.first.0) / run.ranks;
        (behind < run.nodes).then(|| run.index + behind)
    }

    /// The value of `PMI_process_mapping`: `(vector,(first node,nodes,ranks on each of them),…)`, nodes by their index.
    /// `None` if it is longer than [`PMI_MAPPING_BYTES_MAX`]; a program then finds out by comparing host names.
    #[must_use]
    pub fn process_mapping(&self) -> Option<String> {
        let mut text = String::from("(vector");
        for alike in self.runs.chunk_by(|one, other| one.ranks == other.ranks) {
            let Run { index, ranks, .. } = alike.first()?;
            let nodes: u32 = alike.iter().map(|run| run.nodes).sum();
            write!(text, ",({index},{nodes},{ranks})").ok()?;
            if text.len() >= PMI_MAPPING_BYTES_MAX {
                return None;
            }
        }
        text.push(')');
        Some(text)
    }
}
