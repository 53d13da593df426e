//! The network of a job, as a node knows it: what the job's packets carry, and which node of the cluster each node of
//! the job is.
//!
//! To its programs a job has a network of its own, in which its *i*-th node always has the same address
//! ([`JobNode::address`]), wherever in the cluster that node is. Where it is matters only at the edge of the stack
//! ([`crate::ethernet`]), where a packet gets its Ethernet header.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_protocol::ids::{JobNode, MacAddress, NodeId};
use coppice_protocol::limits::NODE_ADDRESSES_MAX;
use coppice_protocol::world::{NetworkTag, NodeRange, World};

/// Nodes of a job with consecutive numbers, in the job and in the cluster.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Number of the first one in the job.
    first: u32,
    /// The same in the cluster.
    node: NodeId,
}

/// See this module.
pub struct JobNetwork {
    tag: NetworkTag,
    own: JobNode,
    /// In the order of their numbers in the job.
    runs: Vec<Run>,
    count: u32,
    kept: Vec<Box<dyn Send + Sync>>,
}

impl JobNetwork {
    /// Memory it takes for a job whose nodes are in so many ranges, bytes.
    #[must_use]
    pub const fn memory_bytes(ranges: usize) -> usize {
        size_of::<Self>() + ranges * size_of::<Run>()
    }

    /// The network of the job with these nodes, on its node `own`. `None` if that is none of them, or there is no
    /// memory.
    #[must_use]
    pub fn new(tag: NetworkTag, world: &World, own: JobNode) -> Option<Self> {
        let mut runs = Vec::new();
        runs.try_reserve_exact(world.network().count()).ok()?;
        let mut network = Self { tag, own, runs, count: 0, kept: Vec::new() };
        network.add(world.network())?;
        (own.0 < network.count).then_some(network)
    }

    /// Keeps something for as long as this is there, if there is memory for that.
    #[must_use]
    pub fn keeping(mut self, kept: impl Send + Sync + 'static) -> Option<Self> {
        self.keep(Box::new(kept)).then_some(self)
    }

    fn keep(&mut self, kept: Box<dyn Send + Sync>) -> bool {
        let has_room = self.kept.try_reserve(1).is_ok();
        if has_room {
            self.kept.push(kept);
        }
        has_room
    }

    /// Nodes come behind those that are there. `None`, and nothing is changed, if they are too many.
    fn add<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeRange>) -> Option<()> {
        let (runs, mut count) = (self.runs.len(), self.count);
        for NodeRange { first: node, count: more } in nodes {
            let all = count.checked_add(*more).filter(|all| *all <= NODE_ADDRESSES_MAX);
            let Some(all) = all.filter(|_| self.runs.try_reserve(1).is_ok()) else {
                self.runs.truncate(runs);
                return None;
            };
            self.runs.push(Run { first: count, node: *node });
            count = all;
        }
        self.count = count;
        Some(())
    }

    /// Nodes have come to the job's network, of which the first has the number `first` in it; `kept` as with
    /// [`Self::keeping`]. How many nodes it has then: as many as before if these are there already, are not the next,
    /// or there is no memory.
    pub(crate) fn join(&mut self, first: u32, nodes: &[NodeRange], kept: Box<dyn Send + Sync>) -> u32 {
        if first == self.count && self.keep(kept) && self.add(nodes.iter()).is_none() {
            self.kept.pop();
        }
        self.count
    }

    /// What the job's packets carry.
    pub(crate) fn tag(&self) -> NetworkTag {
        self.tag
    }

    /// This node's number in the job.
    pub(crate) fn own(&self) -> JobNode {
        self.own
    }

    /// How many nodes the job has.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The Ethernet address of a node of the job.
    pub(crate) fn station(&self, node: JobNode) -> Option<MacAddress> {
        if node.0 >= self.count {
            return None;
        }
        let behind = self.runs.partition_point(|run| run.first <= node.0);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        Some(MacAddress::of(NodeId(run.node.0.wrapping_add(node.0 - run.first)).address()))
    }

    /// The Ethernet address of the station that has `address` in the job; `None`: there is none.
    pub(crate) fn station_of(&self, address: Ipv4Addr) -> Option<MacAddress> {
        self.station(JobNode::of(address)?)
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use coppice_protocol::ids::{JobNode, MacAddress, NodeId};
    use coppice_protocol::world::{JobKey, NetworkTag, NodeRange, World};

    use super::JobNetwork;

    fn network(ranges: &[(u32, u32)], own: u32) -> Option<JobNetwork> {
        let range = |(first, count): &(u32, u32)| NodeRange { first: NodeId(*first), count: *count };
        let nodes = ranges.iter().map(range).collect();
        let world = World { nodes, ..World::new(JobKey([1; 32]), 1, []) };
        JobNetwork::new(NetworkTag([7; 8]), &world, JobNode(own))
    }

    #[test]
    fn every_node_of_the_job_has_its_station_and_no_other() {
        let network = network(&[(7, 2), (3, 1), (20, 0), (4, 3)], 5).expect("a node of the job");
        let of = |node: u32| Some(MacAddress::of(NodeId(node).address()));
        let found: Vec<_> = (0..7).map(|node| network.station_of(JobNode(node).address())).collect();
        assert_eq!(found, [of(7), of(8), of(3), of(4), of(5), of(6), None]);
        assert_eq!(network.station(JobNode(u32::MAX)), None);
        assert_eq!(network.station_of(NodeId(7).address()), None);
        assert_eq!((network.count(), network.own()), (6, JobNode(5)));
    }

    #[test]
    fn nodes_come_to_it_behind_those_that_are_there() {
        let mut network = network(&[(7, 2)], 0).expect("a node of the job");
        let nodes = [NodeRange { first: NodeId(20), count: 2 }, NodeRange { first: NodeId(7), count: 1 }];
        let mut join = |first| network.join(first, &nodes, Box::new(()));
        // Not the next; these; the same again.
        assert_eq!([join(3), join(2), join(2)], [2, 5, 5]);
        let of = |node: u32| Some(MacAddress::of(NodeId(node).address()));
        let found: Vec<_> = (0..6).map(|node| network.station_of(JobNode(node).address())).collect();
        assert_eq!(found, [of(7), of(8), of(20), of(21), of(7), None]);
        let endless = [NodeRange { first: NodeId(9), count: 1 }, NodeRange { first: NodeId(0), count: u32::MAX }];
        assert_eq!((network.join(5, &endless, Box::new(())), network.station(JobNode(5))), (5, None));
    }

    #[test]
    fn who_has_no_part_in_a_job_has_no_network() {
        assert!(network(&[(7, 2)], 2).is_none());
        assert!(network(&[], 0).is_none());
        assert!(network(&[(0, u32::MAX), (1, 2)], 0).is_none());
    }
}
