//! Who watches whom: nodes stand in a circle, and each watches the one after it.
//!
//! When that is dead another one has to be watched. Only nodes that are a power of two apart talk to each other
//! ([`super::schedule`]), and none comes to talk to others because somebody dies. So a node watches
//!
//! - the first of its peers that is not gone, the nearest onward first, then the nearest back; and
//! - each of its peers that comes right behind one that is gone.
//!
//! As long as nobody is gone that is the next one and no other. It follows from who is gone and from nothing else: so
//! who is watched knows by whom, as soon as it has heard of the same deaths, and nobody has to tell it. Behind a gap
//! all peers of a node watch it, so that nobody is left out as long as one of its peers lives; and a node that is alone
//! finds out one after the other, until it has none left.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::schedule::depth;

/// See this module. Of node `me` among `nodes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    me: u32,
    nodes: u32,
}

/// Nodes that are gone, and who has found that.
pub(super) type Gone = BTreeMap<u32, u32>;

impl Circle {
    pub(super) fn new(me: u32, nodes: u32) -> Self {
        Self { me, nodes }
    }

    pub(super) fn me(self) -> u32 {
        self.me
    }

    pub(super) fn nodes(self) -> u32 {
        self.nodes
    }

    /// Peers that are not gone, in their order.
    pub(super) fn peers(self, gone: &Gone) -> Vec<u32> {
        let mut met = BTreeSet::new();
        self.all_of(self.me).filter(|peer| !gone.contains_key(peer) && met.insert(*peer)).collect()
    }

    /// All peers of a node, in their order, some twice.
    fn all_of(self, node: u32) -> impl Iterator<Item = u32> {
        let (node, nodes) = (u64::from(node), u64::from(self.nodes));
        let far = (0..depth(self.nodes)).map(|step| 1_u64 << step);
        let (onward, back) = (far.clone().map(move |far| node + far), far.map(move |far| node + nodes - far));
        onward.chain(back).map(move |peer| (peer % nodes) as u32)
    }

    /// The first peer of a node that is not gone.
    fn first_of(self, node: u32, gone: &Gone) -> Option<u32> {
        self.all_of(node).find(|peer| !gone.contains_key(peer))
    }

    /// Whether the one before a node is gone.
    fn is_behind_gap(self, node: u32, gone: &Gone) -> bool {
        gone.contains_key(&node.checked_sub(1).unwrap_or(self.nodes - 1))
    }

    /// Those that this node watches.
    pub(super) fn watched(self, gone: &Gone) -> BTreeSet<u32> {
        let first = self.first_of(self.me, gone);
        let is_watched = |peer: &u32| first == Some(*peer) || self.is_behind_gap(*peer, gone);
        self.peers(gone).into_iter().filter(is_watched).collect()
    }

    /// Those that watch this node.
    pub(super) fn observers(self, gone: &Gone) -> Vec<u32> {
        let all = self.is_behind_gap(self.me, gone);
        let watches = |peer: &u32| all || self.first_of(*peer, gone) == Some(self.me);
        self.peers(gone).into_iter().filter(watches).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Circle, Gone};

    fn gone(of: impl IntoIterator<Item = u32>) -> Gone {
        of.into_iter().map(|node| (node, 0)).collect()
    }

    #[test]
    fn each_watches_the_next() {
        for nodes in 2..40 {
            for me in 0..nodes {
                let circle = Circle::new(me, nodes);
                assert_eq!(circle.watched(&gone([])), BTreeSet::from([(me + 1) % nodes]));
                assert_eq!(circle.observers(&gone([])), [(me + nodes - 1) % nodes]);
            }
        }
        assert_eq!((Circle::new(0, 1).watched(&gone([])).len(), Circle::new(0, 1).observers(&gone([])).len()), (0, 0));
    }

    #[test]
    fn a_gap_is_closed() {
        // Of node 3's peers, 4 and 5 are next; 7 and 1 are twice as far.
        let watched =
            |of: &[u32]| Circle::new(3, 16).watched(&gone(of.iter().copied())).into_iter().collect::<Vec<_>>();
        assert_eq!(watched(&[4]), [5]);
        assert_eq!(watched(&[4, 5]), [7]);
        assert_eq!(watched(&[6]), [4, 7], "who comes behind a gap is watched by all its peers");
        assert_eq!(Circle::new(7, 16).observers(&gone([6])), [8, 9, 11, 15, 5, 3]);
    }

    proptest! {
        /// Somebody who is dead, and of whom that is not known, is watched by somebody who lives, if such a one has
        /// living peers at all or the dead one has: whoever died and however many are known.
        #[test]
        fn whoever_dies_is_watched_by_who_lives(
            nodes in 2_u32..40,
            states in prop::collection::vec(0_u8..3, 40),
        ) {
            let state = |node: u32| states[node as usize];
            let state = &state;
            let of = |wanted: u8| (0..nodes).filter(move |node| state(*node) == wanted);
            let (known, living): (Gone, BTreeSet<u32>) = (gone(of(1)), of(0).collect());
            let finds = |node: &u32| Circle::new(*node, nodes).watched(&known).into_iter().any(|it| state(it) == 2);
            let is_found = living.iter().any(finds);
            // The first of each run of those that died unseen.
            let mut firsts = of(2).filter(|node| state((node + nodes - 1) % nodes) != 2);
            let peers = |node: u32| Circle::new(node, nodes).peers(&Gone::new());
            let has_living_peer = |node: u32| peers(node).iter().any(|peer| living.contains(peer));
            prop_assert!(is_found || !firsts.any(has_living_peer));
        }

        /// Who is watched knows by whom.
        #[test]
        fn both_ends_agree(
            nodes in 2_u32..40, dead in prop::collection::btree_set(0_u32..40, 0..30),
        ) {
            let gone = gone(dead.into_iter().filter(|node| *node < nodes));
            let living = || (0..nodes).filter(|node| !gone.contains_key(node));
            for one in living() {
                for other in living().filter(|other| *other != one) {
                    let watches = Circle::new(one, nodes).watched(&gone).contains(&other);
                    prop_assert_eq!(watches, Circle::new(other, nodes).observers(&gone).contains(&one));
                }
            }
        }
    }
}
