//! Which nodes make up which pset.

use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, PsetId};
use crate::world::NodeRange;

/// The psets of a cluster with the nodes of each. How nodes are shared out is known here alone: in order of their
/// numbers, as many to each pset as it takes, the rest to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PsetTable {
    nodes: u32,
    /// Nodes of each pset but the last.
    size: u32,
}

impl PsetTable {
    /// So many nodes, shared out to psets that take `size` each.
    #[must_use]
    pub const fn new(nodes: u32, size: u32) -> Self {
        Self { nodes, size: if size == 0 { 1 } else { size } }
    }

    /// Nodes of each pset but the last. One that was sent may say anything.
    const fn size(&self) -> u32 {
        if self.size == 0 { 1 } else { self.size }
    }

    /// How many psets there are.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.nodes.div_ceil(self.size())
    }

    /// How many nodes the largest pset has.
    #[must_use]
    pub fn nodes_most(&self) -> u32 {
        self.nodes.min(self.size())
    }

    /// All psets.
    pub fn psets(&self) -> impl Iterator<Item = PsetId> + use<> {
        (0..self.count()).map(PsetId)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes).map(NodeId)
    }

    /// The pset that a node is in, if there is such a node.
    #[must_use]
    pub fn pset_of(&self, node: NodeId) -> Option<PsetId> {
        (node.0 < self.nodes).then_some(PsetId(node.0 / self.size()))
    }

    /// The pset that the first of some nodes is in, and how many of them from that one on are; `None` if it is in none.
    #[must_use]
    pub fn part(&self, nodes: NodeRange) -> Option<(PsetId, u32)> {
        let pset = self.pset_of(nodes.first).filter(|_| nodes.count > 0)?;
        let end = pset.0.saturating_add(1).saturating_mul(self.size()).min(self.nodes);
        Some((pset, nodes.count.min(end - nodes.first.0)))
    }

    /// The nodes of a pset; none if there is no such pset.
    pub fn nodes_of(&self, pset: PsetId) -> impl Iterator<Item = NodeId> + use<> {
        let first = pset.0.saturating_mul(self.size()).min(self.nodes);
        (first..first.saturating_add(self.size()).min(self.nodes)).map(NodeId)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::PsetTable;
    use crate::ids::{NodeId, PsetId};
    use crate::world::NodeRange;

    #[test]
    fn each_node_is_in_one_pset() {
        for (nodes, size, psets, most) in [(0, 4, 0, 0), (1, 4, 1, 1), (7, 3, 3, 3), (6, 3, 2, 3), (5, 0, 5, 1)] {
            let table = PsetTable::new(nodes, size);
            assert_eq!((table.count(), table.nodes_most()), (psets, most));
            let shared_out: Vec<NodeId> = table.psets().flat_map(|pset| table.nodes_of(pset)).collect();
            assert!(shared_out.into_iter().eq(table.nodes()));
            for pset in table.psets() {
                assert!(table.nodes_of(pset).all(|node| table.pset_of(node) == Some(pset)));
                let (first, count) =
                    (table.nodes_of(pset).next().expect("a node"), table.nodes_of(pset).count() as u32);
                let part = |first, count| table.part(NodeRange { first, count });
                assert_eq!(part(first, u32::MAX), Some((pset, count)));
                assert_eq!((part(first, 1), part(first, 0)), (Some((pset, 1)), None));
            }
            assert_eq!((table.pset_of(NodeId(nodes)), table.nodes_of(PsetId(psets)).count()), (None, 0));
            assert_eq!(table.nodes_of(PsetId(u32::MAX)).count(), 0);
        }
    }
}
