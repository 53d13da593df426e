//! Where a job's ranks are, as a launch says it: nodes in ranges and as many ranks on each, so that it is short however
//! large the job is. From it every node knows every rank's address, and none is ever exchanged.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, JobNode, NodeId, Rank};
use crate::limits::{NODE_ADDRESSES_MAX, RANKS_PER_NODE_MAX};
use crate::pmi::{Placement, PlacementError, Places, Startup};

/// Secret shared by the nodes of one job.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobKey(pub [u8; 32]);

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

impl JobKey {
    /// What every packet between the programs of a job carries on the wire, and no packet of any other: from the job's
    /// key and number, so that it is another one for every job, and for one that is started again with a new key.
    #[must_use]
    pub fn network_tag(&self, job: JobId) -> NetworkTag {
        let mut text = [0; NETWORK_CONTEXT.len() + size_of::<u64>()];
        let (context, number) = text.split_at_mut(NETWORK_CONTEXT.len());
        context.copy_from_slice(NETWORK_CONTEXT);
        number.copy_from_slice(&job.0.to_le_bytes());
        let mut tag = [0; NETWORK_TAG_BYTES];
        blake3::Hasher::new_keyed(&self.0).update(&text).finalize_xof().fill(&mut tag);
        NetworkTag(tag)
    }
}

/// Separates the tag from everything else that may ever be made of a job's key. With the job's number it fills no more
/// than one block of the hash, which is done at each launch.
const NETWORK_CONTEXT: &[u8] = b"Coppice tag of a job's packets, version 2";

/// Length of a [`NetworkTag`], bytes.
pub const NETWORK_TAG_BYTES: usize = 8;

/// Whose a packet between programs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTag(pub [u8; NETWORK_TAG_BYTES]);

/// Nodes with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRange {
    /// The first.
    pub first: NodeId,
    /// How many there are.
    pub count: u32,
}

/// The nodes of a job in the order of its ranks: the first has ranks 0 to R−1, the next R to 2R−1, and so on; the last
/// one has what is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct World {
    /// What the nodes of the job know each other by.
    pub key: JobKey,
    /// R, at least one and at most [`RANKS_PER_NODE_MAX`].
    pub ranks_per_node: u32,
    /// The nodes.
    pub nodes: Vec<NodeRange>,
    /// The family whose network it is in, if a rank of another job has started it.
    pub kin: Option<Box<Kin>>,
    /// How its ranks find each other.
    pub startup: Startup,
    /// How many of its nodes share a core of a host, as emulated ones do, at least one.
    pub nodes_per_core: u16,
    /// What its links are like.
    pub passage: Passage,
}

/// What it takes a frame to get from node to node of a job, beside what nodes do for it: as its links are when it
/// starts, the slowest of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Until its first byte is there, ns.
    pub latency_ns: u32,
    /// For each byte of it, ns.
    pub byte_ns: u32,
}

/// Jobs that come from one, as ranks of them have started others, are a family: they are in one network, that of the
/// first, in which each node has its number from the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kin {
    /// What packets of all of them carry.
    pub tag: NetworkTag,
    /// The nodes that were there before, also of jobs that are over.
    pub before: Vec<NodeRange>,
}

fn count(ranges: &[NodeRange]) -> u32 {
    let nodes: u64 = ranges.iter().map(|range| u64::from(range.count)).sum();
    // At most NODE_ADDRESSES_MAX.
    nodes.min(NODE_ADDRESSES_MAX.into()) as u32
}

impl World {
    /// Says where ranks are: `ranks_per_node` on each of the nodes in turn.
    #[must_use]
    pub fn new(key: JobKey, ranks_per_node: u32, nodes: impl IntoIterator<Item = NodeId>) -> Self {
        let mut ranges: Vec<NodeRange> = Vec::new();
        for node in nodes {
            match ranges.last_mut() {
                Some(last) if last.first.0.checked_add(last.count) == Some(node.0) => last.count += 1,
                _ => ranges.push(NodeRange { first: node, count: 1 }),
            }
        }
        Self {
            key,
            ranks_per_node,
            nodes: ranges,
            kin: None,
            startup: Startup::default(),
            nodes_per_core: 1,
            passage: Passage::default(),
        }
    }

    /// How many nodes there are, at most [`NODE_ADDRESSES_MAX`].
    #[must_use]
    pub fn node_count(&self) -> u32 {
        count(&self.nodes)
    }

    /// What the packets of job `id` carry, whose world this is.
    #[must_use]
    pub fn network_tag(&self, id: JobId) -> NetworkTag {
        self.kin.as_ref().map_or_else(|| self.key.network_tag(id), |kin| kin.tag)
    }

    /// The number in the job's network that its first node has.
    #[must_use]
    pub fn first_node(&self) -> JobNode {
        JobNode(self.kin.as_ref().map_or(0, |kin| count(&kin.before)))
    }

    /// All nodes of the job's network, in its order: those that were there before, and its own.
    pub fn network(&self) -> impl Iterator<Item = &NodeRange> {
        self.kin.iter().flat_map(|kin| &kin.before).chain(&self.nodes)
    }

    /// The number in the cluster that a node of the job's network has, if it is one.
    #[must_use]
    pub fn id_of(&self, node: JobNode) -> Option<NodeId> {
        let mut left = node.0;
        for NodeRange { first, count } in self.network() {
            if left < *count {
                return Some(NodeId(first.0.wrapping_add(left)));
            }
            left -= count;
        }
        None
    }

    /// The node that has a rank.
    #[must_use]
    pub fn node_of(&self, rank: Rank) -> JobNode {
        JobNode(self.first_node().0.saturating_add(rank.0 / self.ranks_per_node.max(1)))
    }

    /// The places of all ranks of a job of `size`.
    ///
    /// # Errors
    /// [`PlacementError`] if these are not the nodes of such a job.
    pub fn placement(&self, size: u32) -> Result<Placement, PlacementError> {
        let nodes: u64 = self.nodes.iter().map(|range| u64::from(range.count)).sum();
        if nodes > u64::from(NODE_ADDRESSES_MAX) || !(1..=RANKS_PER_NODE_MAX).contains(&self.ranks_per_node) {
            return Err(PlacementError::TooMany);
        }
        if nodes != u64::from(size.div_ceil(self.ranks_per_node)) {
            return Err(PlacementError::Order(Rank(size)));
        }
        // The last node has what is left.
        let (mut left, mut places) = (size, Places::with_room(self.nodes.len() + 1)?);
        for NodeRange { first, count } in &self.nodes {
            let full = (*count).min(left / self.ranks_per_node);
            places.add(*first, full, self.ranks_per_node)?;
            left -= full * self.ranks_per_node;
            if full < *count {
                let last = first.0.checked_add(full).ok_or(PlacementError::TooMany)?;
                places.add(NodeId(last), 1, left)?;
            }
        }
        Ok(places.finish()?.behind(self.first_node()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{JobKey, Kin, NetworkTag, NodeRange, World};
    use crate::ids::{JobId, JobNode, NodeId, Rank};
    use crate::limits::{NODE_ADDRESSES_MAX, RANKS_PER_NODE_MAX};
    use crate::pmi::{NodeRanks, PlacementError};

    fn world(ranks_per_node: u32, nodes: &[u32]) -> World {
        World::new(JobKey([1; 32]), ranks_per_node, nodes.iter().copied().map(NodeId))
    }

    #[test]
    fn neighbours_become_ranges() {
        let range = |first, count| NodeRange { first: NodeId(first), count };
        assert_eq!(
            world(1, &[3, 4, 5, 9, 8, 7, u32::MAX]).nodes,
            [range(3, 3), range(9, 1), range(8, 1), range(7, 1), range(u32::MAX, 1)]
        );
        assert!(world(1, &[]).nodes.is_empty());
    }

    #[test]
    fn tags_differ_by_job_and_by_key() {
        let tag = |key, job| JobKey([key; 32]).network_tag(JobId(job));
        assert_eq!(tag(1, 2), tag(1, 2));
        assert_ne!(tag(1, 2), tag(1, 3));
        assert_ne!(tag(1, 2), tag(2, 2));
    }

    #[test]
    fn a_nodes_place_in_its_job_says_its_address() {
        let address = |bytes: [u8; 4]| core::net::Ipv4Addr::from(bytes);
        let world = world(4, &[70, 3]);
        assert_eq!((world.node_of(Rank(3)), world.node_of(Rank(4))), (JobNode(0), JobNode(1)));
        assert_eq!([0, 1, 2].map(|node| world.id_of(JobNode(node))), [Some(NodeId(70)), Some(NodeId(3)), None]);
        assert_eq!(JobNode(1).address(), address([10, 128, 0, 2]));
        assert_eq!(JobNode(NODE_ADDRESSES_MAX - 1).address(), address([10, 191, 255, 254]));
        for node in [0, 1, NODE_ADDRESSES_MAX - 1].map(JobNode) {
            assert_eq!(JobNode::of(node.address()), Some(node));
        }
        let strange = [[10, 128, 0, 0], [10, 127, 255, 255], [11, 0, 0, 1], [10, 64, 0, 1]];
        assert!(strange.into_iter().all(|bytes| JobNode::of(address(bytes)).is_none()));
        // The cluster's own stations have none of these addresses.
        assert!([0, NODE_ADDRESSES_MAX - 1].into_iter().all(|node| JobNode::of(NodeId(node).address()).is_none()));
    }

    #[test]
    fn nodes_of_a_job_that_a_rank_has_started_come_behind_those_that_were_there() {
        let own = world(2, &[7, 8]);
        let before = world(1, &[70, 71, 3]).nodes;
        let world = World { kin: Some(Box::new(Kin { tag: NetworkTag([5; 8]), before })), ..own.clone() };
        assert_eq!((world.first_node(), world.node_count()), (JobNode(3), 2));
        assert_eq!([0, 1, 2].map(|rank| world.node_of(Rank(rank))), [3, 3, 4].map(JobNode));
        let ids: Vec<_> = (0..6).map(|node| world.id_of(JobNode(node)).map(|id| id.0)).collect();
        assert_eq!(ids, [Some(70), Some(71), Some(3), Some(7), Some(8), None]);
        assert_eq!(world.network_tag(JobId(9)), NetworkTag([5; 8]));
        assert_eq!(own.network_tag(JobId(9)), own.key.network_tag(JobId(9)));
        // Where its ranks are is its own.
        let (placement, alone) = (world.placement(3).unwrap(), own.placement(3).unwrap());
        assert_eq!((placement.place(1), placement.nodes()), (alone.place(1), alone.nodes()));
        assert_eq!([&placement, &alone].map(|places| places.job_node(1)), [4, 1].map(JobNode));
    }

    #[test]
    fn ranks_fill_one_node_after_the_other() {
        let placement = world(2, &[7, 8, 3]).placement(5).unwrap();
        let places: Vec<NodeRanks> = (0..3).filter_map(|index| placement.place(index)).collect();
        let place = |node, first, count| NodeRanks { node: NodeId(node), first: Rank(first), count };
        assert_eq!(places, vec![place(7, 0, 2), place(8, 2, 2), place(3, 4, 1)]);
        assert_eq!(placement.size(), 5);
    }

    #[test]
    fn a_job_on_all_nodes_there_can_be_is_placed_by_its_ranges() {
        const RANKS: u32 = 3;
        let half = NODE_ADDRESSES_MAX / 2;
        let range = |first, count| NodeRange { first: NodeId(first), count };
        let nodes = vec![range(5_000_000, half), range(0, NODE_ADDRESSES_MAX - half)];
        let world = World { nodes, ..world(RANKS, &[]) };
        let size = NODE_ADDRESSES_MAX * RANKS - 1;
        let placement = world.placement(size).unwrap();
        assert_eq!((placement.nodes(), placement.size()), (NODE_ADDRESSES_MAX, size));
        let place = |node, first, count| Some(NodeRanks { node: NodeId(node), first: Rank(first), count });
        assert_eq!(placement.place(0), place(5_000_000, 0, 3));
        assert_eq!(placement.place(half + 7), place(7, (half + 7) * RANKS, 3));
        assert_eq!(placement.place(NODE_ADDRESSES_MAX - 1), place(NODE_ADDRESSES_MAX - half - 1, size - 2, 2));
        assert_eq!(placement.place(NODE_ADDRESSES_MAX), None);
        assert_eq!(placement.index_of(NodeId(NODE_ADDRESSES_MAX - half - 1)), Some(NODE_ADDRESSES_MAX - 1));
        assert_eq!(placement.index_of_rank(Rank(size - 1)), Some(NODE_ADDRESSES_MAX - 1));
        assert_eq!(placement.index_of_rank(Rank(size)), None);
        let mapping = format!("(vector,(0,{},3),({},1,2))", NODE_ADDRESSES_MAX - 1, NODE_ADDRESSES_MAX - 1);
        assert_eq!(placement.process_mapping(), Some(mapping));
        let overlapping = World { nodes: vec![range(3, 10), range(20, 1), range(12, 2)], ..world };
        assert_eq!(overlapping.placement(13 * RANKS), Err(PlacementError::NodeTwice(NodeId(12))));
    }

    #[test]
    fn what_is_no_job_is_refused() {
        assert_eq!(world(2, &[7, 8]).placement(5), Err(PlacementError::Order(Rank(5))));
        assert_eq!(world(2, &[7, 8, 9, 10]).placement(5), Err(PlacementError::Order(Rank(5))));
        assert_eq!(world(1, &[7, 8, 7]).placement(3), Err(PlacementError::NodeTwice(NodeId(7))));
        assert_eq!(world(1, &[]).placement(0), Err(PlacementError::Empty));
        assert_eq!(world(0, &[7]).placement(1), Err(PlacementError::TooMany));
        assert_eq!(world(RANKS_PER_NODE_MAX + 1, &[7]).placement(1), Err(PlacementError::TooMany));
        let endless = World { nodes: vec![NodeRange { first: NodeId(1), count: u32::MAX }], ..world(1, &[]) };
        assert_eq!(endless.placement(u32::MAX), Err(PlacementError::TooMany));
    }
}
