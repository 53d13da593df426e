//! Which members of a group are near each other.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// The psets of a group's members. Members are numbered pset by pset, each pset's I/O node before its nodes; 0, which
/// is above them all, is the I/O node of the first. Clones are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The number of each I/O node, and behind them one more than that of the last member; `None` if there is one pset,
    /// of however many nodes.
    firsts: Option<Arc<Vec<u32>>>,
}

impl Topology {
    /// All members are nodes of one pset, or nobody knows anything of them.
    #[must_use]
    pub const fn one_pset() -> Self {
        Self { firsts: None }
    }

    /// Psets with so many nodes each, 0's first. `None` if there is no memory for it, or there are more members than
    /// numbers.
    #[must_use]
    pub fn of_psets(nodes: impl IntoIterator<Item = u32>) -> Option<Self> {
        let (mut firsts, mut next): (Vec<u32>, u32) = (Vec::new(), 0);
        for nodes in nodes {
            firsts.try_reserve(2).ok()?;
            firsts.push(next);
            next = next.checked_add(nodes)?.checked_add(1)?;
        }
        if firsts.len() < 2 {
            return Some(Self::one_pset());
        }
        firsts.push(next);
        Some(Self { firsts: Some(Arc::new(firsts)) })
    }

    /// How many psets there are.
    #[must_use]
    pub fn psets(&self) -> u32 {
        self.firsts.as_ref().map_or(1, |firsts| firsts.len() as u32 - 1)
    }

    /// How many members there are, 0 not counted; `None` if that does not follow from the psets, as there is one.
    #[must_use]
    pub fn members(&self) -> Option<u32> {
        self.firsts.as_ref().and_then(|firsts| firsts.last()).map(|end| end - 1)
    }

    /// The pset of a member, from 0, and its number there, 0 for the I/O node.
    #[must_use]
    pub fn place(&self, member: u32) -> (u32, u32) {
        let Some(firsts) = &self.firsts else { return (0, member) };
        // Of what is no member, somewhere behind the last.
        let pset = firsts.partition_point(|first| *first <= member).clamp(1, firsts.len() - 1) - 1;
        (pset as u32, member - firsts[pset])
    }

    /// The member at a place.
    #[must_use]
    pub fn member(&self, (pset, number): (u32, u32)) -> u32 {
        self.first(pset).saturating_add(number)
    }

    fn first(&self, pset: u32) -> u32 {
        self.firsts.as_ref().and_then(|firsts| firsts.get(pset as usize).copied()).unwrap_or(0)
    }

    /// How many nodes a pset has; `None` if there is one pset.
    #[must_use]
    pub fn nodes(&self, pset: u32) -> Option<u32> {
        self.firsts.as_ref().map(|_| self.first(pset.saturating_add(1)).saturating_sub(self.first(pset) + 1))
    }

    /// The members of a pset, its I/O node among them; `None` if there is one pset.
    #[must_use]
    pub fn neighbours(&self, pset: u32) -> Option<RangeInclusive<u32>> {
        self.nodes(pset).map(|nodes| self.first(pset)..=self.first(pset) + nodes)
    }

    /// Whether what one sends to the other passes a link between psets.
    #[must_use]
    pub fn is_across(&self, one: u32, other: u32) -> bool {
        self.place(one).0 != self.place(other).0
    }

    /// The I/O nodes, but for 0.
    pub fn io_nodes(&self) -> impl Iterator<Item = u32> {
        (1..self.psets()).map(|pset| self.first(pset))
    }

    /// Whether a member is the I/O node of a pset.
    #[must_use]
    pub fn is_io_node(&self, member: u32) -> bool {
        self.place(member).1 == 0
    }

    /// What it takes of the heap for so many psets, bytes.
    #[must_use]
    pub const fn memory_bytes(psets: usize) -> usize {
        // A list that grows may be twice as long as it is full.
        if psets < 2 { 0 } else { size_of::<Vec<u32>>() + 2 * size_of::<usize>() + 2 * (psets + 2) * size_of::<u32>() }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Topology;

    #[test]
    fn members_are_numbered_pset_by_pset() {
        let topology = Topology::of_psets([2, 0, 3]).expect("memory");
        assert_eq!((topology.psets(), topology.members()), (3, Some(7)));
        let places = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)];
        for (member, place) in (0..).zip(places) {
            assert_eq!((topology.place(member), topology.member(place)), (place, member));
        }
        assert_eq!([0, 1, 2].map(|pset| topology.nodes(pset)), [Some(2), Some(0), Some(3)]);
        assert_eq!([0, 1, 2].map(|pset| topology.neighbours(pset)), [Some(0..=2), Some(3..=3), Some(4..=7)]);
        assert!(topology.io_nodes().eq([3, 4]));
        assert!(topology.is_across(2, 3) && topology.is_across(3, 4) && !topology.is_across(4, 7));
        let _ = (topology.place(u32::MAX), topology.member((u32::MAX, u32::MAX)), topology.nodes(u32::MAX));
    }

    #[test]
    fn one_pset_says_nothing() {
        for topology in [Topology::one_pset(), Topology::of_psets([5]).expect("memory")] {
            assert_eq!((topology.psets(), topology.members(), topology.nodes(0)), (1, None, None));
            assert_eq!((topology.place(7), topology.member((0, 7)), topology.neighbours(0)), ((0, 7), 7, None));
            assert!(!topology.is_across(0, 9) && topology.io_nodes().eq(Vec::new()) && topology.is_io_node(0));
        }
        assert_eq!(Topology::of_psets([u32::MAX, 1]), None);
    }
}
