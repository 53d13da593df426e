//! To which nodes a rank has sent bytes, and how many.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::limits::{OVERLAY_PEERS_MAX, OVERLAY_PEERS_TOLD_MAX};

/// Bytes by node: of at most [`OVERLAY_PEERS_MAX`], the first ones that there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    some: BTreeMap<NodeId, u64>,
    others: u64,
}

impl Peers {
    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self { some: BTreeMap::new(), others: 0 }
    }

    /// Bytes went to a node, or to one that is not of the cluster.
    pub fn add(&mut self, node: Option<NodeId>, bytes: u64) {
        let has_room = self.some.len() < OVERLAY_PEERS_MAX;
        let sum = match node {
            Some(node) if has_room || self.some.contains_key(&node) => self.some.entry(node).or_default(),
            _ => &mut self.others,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// And these.
    pub fn merge(&mut self, other: &Self) {
        other.some.iter().for_each(|(node, bytes)| self.add(Some(*node), *bytes));
        self.add(None, other.others);
    }

    /// What is told of them.
    pub(super) fn told(&self) -> TopPeers {
        let mut most: Vec<(NodeId, u64)> = self.some.iter().map(|(node, bytes)| (*node, *bytes)).collect();
        most.retain(|(_, bytes)| *bytes > 0);
        most.sort_unstable_by_key(|(node, bytes)| (Reverse(*bytes), *node));
        let rest = most.split_off(most.len().min(OVERLAY_PEERS_TOLD_MAX));
        most.sort_unstable();
        TopPeers { most, others: rest.iter().fold(self.others, |sum, (_, bytes)| sum.saturating_add(*bytes)) }
    }
}

/// The nodes to which most bytes went, in their order: at most [`OVERLAY_PEERS_TOLD_MAX`]; and what went to others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopPeers {
    most: Vec<(NodeId, u64)>,
    others: u64,
}

impl TopPeers {
    /// Each node, and in the end what went to all others together, if anything did.
    pub fn iter(&self) -> impl Iterator<Item = (Option<NodeId>, u64)> {
        let others = (self.others > 0).then_some((None, self.others));
        self.most.iter().map(|(node, bytes)| (Some(*node), *bytes)).chain(others)
    }

    /// Whether it is said in the one way in which it can be.
    pub(super) fn is_sound(&self) -> bool {
        self.most.len() <= OVERLAY_PEERS_TOLD_MAX
            && self.most.is_sorted_by(|(one, _), (other, _)| one < other)
            && self.most.iter().all(|(_, bytes)| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Peers, TopPeers};
    use crate::ids::NodeId;
    use crate::limits::{OVERLAY_PEERS_MAX, OVERLAY_PEERS_TOLD_MAX};

    #[test]
    fn most_of_it_is_told_by_node_and_the_rest_together() {
        let mut peers = Peers::none();
        for node in 0..OVERLAY_PEERS_MAX as u32 + 3 {
            peers.add(Some(NodeId(node)), u64::from(node % 10));
        }
        peers.add(None, 1000);
        peers.add(Some(NodeId(2)), 90);
        let told: Vec<_> = peers.told().iter().collect();
        let nines = [9, 19, 29, 39, 49, 59].map(|node| (Some(NodeId(node)), 9));
        assert_eq!(
            (told.len(), told[0], told[1]),
            (OVERLAY_PEERS_TOLD_MAX + 1, (Some(NodeId(2)), 92), (Some(NodeId(8)), 8))
        );
        assert!(nines.iter().all(|nine| told.contains(nine)), "{told:?}");
        let all: u64 = (0..OVERLAY_PEERS_MAX as u64 + 3).map(|node| node % 10).sum();
        assert_eq!(told.iter().map(|(_, bytes)| bytes).sum::<u64>(), all + 1090);
        assert_eq!(told[8].0, None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let of = |most: &[(u32, u64)]| {
            let most = most.iter().map(|(node, bytes)| (NodeId(*node), *bytes)).collect();
            TopPeers { most, others: 0 }.is_sound()
        };
        assert!(of(&[(1, 5), (2, 4)]) && of(&[]));
        assert!(!of(&[(2, 5), (1, 4)]) && !of(&[(1, 5), (1, 4)]) && !of(&[(1, 0)]) && !of(&[(1, 1); 9]));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(sent in vec((0_u32..200, 0_u64..1000), 0..300)) {
            let (mut one, mut other) = (Peers::none(), Peers::none());
            for (place, (node, bytes)) in sent.iter().enumerate() {
                let peers = if place % 2 == 0 { &mut one } else { &mut other };
                peers.add((node % 7 != 0).then_some(NodeId(*node)), *bytes);
            }
            one.merge(&other);
            prop_assert!(one.told().is_sound());
            let told: u64 = one.told().iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(told, sent.iter().map(|(_, bytes)| bytes).sum::<u64>());
        }
    }
}
