//! The way of letters and parcels from node to node of a job: where barriers go that are disseminations
//! ([`super::schedule`]), so that no node talks to more others than it does anyhow, and round nodes that are gone.
//!
//! A node hands on to one that is nearer to the addressee, onward as barriers go, or back from the beginning where that
//! is shorter. If all of those onward are gone it hands back to one that is nearer the other way round the job, and so
//! do all from there on. So nothing goes in circles, whatever each of them knows of who is gone; and it arrives if
//! those who are gone follow each other, as the nodes of an I/O node do. Otherwise it may not, and whoever waits for an
//! answer hears that there is none.

use alloc::collections::BTreeSet;

/// What a node knows of the ways to others.
#[derive(Debug)]
pub(crate) struct Route {
    me: u32,
    nodes: u32,
    gone: BTreeSet<u32>,
}

/// Which way round the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the receiver of a step.
    Onward,
    /// To the sender of a step.
    Back,
}

impl Way {
    /// As a frame says it where others say which barrier they are about.
    pub(crate) const fn code(self) -> u64 {
        match self {
            Self::Onward => 0,
            Self::Back => 1,
        }
    }

    /// As a frame says it.
    pub(crate) fn of_code(code: u64) -> Option<Self> {
        [Self::Onward, Self::Back].into_iter().find(|way| way.code() == code)
    }
}

/// A node that gets something next: it has a part in this step of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) peer: u32,
    pub(crate) step: u32,
    pub(crate) way: Way,
}

impl Route {
    /// From node `me` of `nodes`.
    pub(crate) fn new(me: u32, nodes: u32) -> Self {
        Self { me, nodes, gone: BTreeSet::new() }
    }

    /// Nothing goes to that node or over it any more.
    pub(crate) fn lose(&mut self, node: u32) {
        self.gone.insert(node);
    }

    /// Whether that was said.
    pub(crate) fn is_gone(&self, node: u32) -> bool {
        self.gone.contains(&node)
    }

    /// What it takes of the memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.gone.len() * size_of::<[u64; 2]>()
    }

    /// The next on the way to node `to` of what came this way or begins here: as near to it as one that has a part in a
    /// step can be without being behind it. Nobody, if that is this node, or no way is left.
    pub(crate) fn next(&self, to: u32, way: Way) -> Option<Hop> {
        if self.gone.contains(&to) {
            return None;
        }
        let onward = || self.nearest(to, Way::Onward);
        let back = || self.nearest(to, Way::Back);
        match way {
            Way::Onward => onward().or_else(back),
            Way::Back => back(),
        }
    }

    /// As [`Self::next`] of what begins here: the way round on which fewer nodes hand it on. Who is asked by one before
    /// it answers that one at once, and not all the way round. When somebody is gone it begins onward, as only that way
    /// others may turn it.
    pub(crate) fn start(&self, to: u32) -> Option<Hop> {
        let hops = |way| self.distance(to, way).count_ones();
        let is_nearer_back = self.gone.is_empty() && hops(Way::Back) < hops(Way::Onward);
        self.next(to, if is_nearer_back { Way::Back } else { Way::Onward })
    }

    /// As [`Self::start`] of what begins here, the first time it is tried; then others, also such that are behind it.
    /// Nodes from there on go their usual ways.
    pub(crate) fn detour(&self, to: u32, tries: u32) -> Option<Hop> {
        if tries == 0 || self.gone.contains(&to) {
            return self.start(to);
        }
        let steps = self.nodes.next_power_of_two().trailing_zeros();
        let first = self.distance(to, Way::Onward).checked_ilog2()? + steps - tries % steps;
        let tried = (0..steps).map(|further| (first + steps - further) % steps);
        tried.filter_map(|step| self.part_of(step, Way::Onward)).next()
    }

    /// How far it is to a node.
    fn distance(&self, to: u32, way: Way) -> u64 {
        let (me, to, nodes) = (u64::from(self.me), u64::from(to), u64::from(self.nodes));
        match way {
            Way::Onward => (to + nodes - me) % nodes,
            Way::Back => (me + nodes - to) % nodes,
        }
    }

    fn nearest(&self, to: u32, way: Way) -> Option<Hop> {
        let furthest = self.distance(to, way).checked_ilog2()?;
        (0..=furthest).rev().find_map(|step| self.part_of(step, way))
    }

    /// Who has a part in a step that this node has one in, if it is there.
    fn part_of(&self, step: u32, way: Way) -> Option<Hop> {
        let (me, nodes, far) = (u64::from(self.me), u64::from(self.nodes), 1_u64 << step);
        let peer = match way {
            Way::Onward => (me + far) % nodes,
            Way::Back => (me + nodes - far % nodes) % nodes,
        } as u32;
        (!self.gone.contains(&peer)).then_some(Hop { peer, step, way })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Hop, Route, Way};

    fn route(at: u32, nodes: u32, gone: impl IntoIterator<Item = u32>) -> Route {
        let mut route = Route::new(at, nodes);
        gone.into_iter().for_each(|node| route.lose(node));
        route
    }

    /// Where something goes from a node to another, and whether it arrives. Nothing else bounds it than what is tested.
    fn walk(from: u32, to: u32, nodes: u32, knows: impl Fn(u32) -> Vec<u32>, gone: &BTreeSet<u32>) -> (u32, bool) {
        let (mut at, mut way, mut hops) = (from, Way::Onward, 0);
        while at != to {
            let Some(hop) = route(at, nodes, knows(at)).next(to, way) else { return (hops, false) };
            let far = 1 << hop.step;
            let (sender, receiver) = if hop.way == Way::Onward { (at, hop.peer) } else { (hop.peer, at) };
            assert_eq!((sender + far) % nodes, receiver, "has a part in the step");
            (at, way, hops) = (hop.peer, hop.way, hops + 1);
            assert!(hops <= 2 * nodes, "goes in circles");
            if gone.contains(&at) {
                return (hops, false);
            }
        }
        (hops, true)
    }

    proptest! {
        #[test]
        fn nothing_goes_in_circles_whatever_each_node_knows(
            nodes in 2_u32..70, from in 0_u32..70, to in 0_u32..70,
            gone in prop::collection::btree_set(0_u32..70, 0..20), knows in prop::collection::vec(any::<bool>(), 70),
        ) {
            let (from, to) = (from % nodes, to % nodes);
            let is_between = |node: &u32| *node < nodes && ![from, to].contains(node);
            let gone: BTreeSet<u32> = gone.into_iter().filter(is_between).collect();
            let known = |at: u32| gone.iter().copied().filter(|_| knows[at as usize]).collect();
            walk(from, to, nodes, known, &gone);
        }

        #[test]
        fn neighbours_that_are_gone_are_gone_round(
            nodes in 2_u32..70, from in 0_u32..70, to in 0_u32..70, first in 0_u32..70, count in 0_u32..70,
        ) {
            let (from, to) = (from % nodes, to % nodes);
            let gone: BTreeSet<u32> =
                (first..first + count).map(|node| node % nodes).take_while(|node| ![from, to].contains(node)).collect();
            let (hops, arrives) = walk(from, to, nodes, |_| gone.iter().copied().collect(), &gone);
            prop_assert!(arrives);
            prop_assert!(hops <= 2 * nodes.next_power_of_two().trailing_zeros() || !gone.is_empty());
        }

        #[test]
        fn a_detour_goes_to_somebody_who_is_there(
            nodes in 2_u32..70, to in 1_u32..70, tries in 0_u32..20,
            gone in prop::collection::btree_set(0_u32..70, 0..9),
        ) {
            let to = 1 + to % (nodes - 1);
            let gone = gone.into_iter().filter(|node| *node < nodes && *node != to && *node != 0);
            let route = route(0, nodes, gone);
            let steps = nodes.next_power_of_two().trailing_zeros();
            let there = (0..steps).any(|step| !route.is_gone(1 << step));
            let hop = route.detour(to, tries);
            prop_assert!(hop.is_some() || !there);
            prop_assert!(hop.is_none_or(|hop| !route.is_gone(hop.peer)));
        }
    }

    /// Both ways are as long: an answer comes back over as many as the question went.
    #[test]
    fn what_begins_goes_the_shorter_way() {
        for nodes in 2..70_u32 {
            for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(a, b)| a != b) {
                let hops = |from, to| {
                    let first = route(from, nodes, []).start(to).expect("a way");
                    let (mut at, mut hops) = (first.peer, 1);
                    while let Some(hop) = route(at, nodes, []).next(to, first.way) {
                        (at, hops) = (hop.peer, hops + 1);
                    }
                    assert_eq!(at, to);
                    hops
                };
                let there = (to + nodes - from) % nodes;
                assert_eq!(hops(from, to), there.count_ones().min((nodes - there).count_ones()));
                assert_eq!(hops(from, to), hops(to, from), "{nodes}: {from} {to}");
            }
        }
        // With somebody gone others may have to turn it.
        assert_eq!(route(3, 8, [6]).start(2).map(|hop| hop.way), Some(Way::Onward));
    }

    #[test]
    fn nothing_goes_to_who_is_gone() {
        let onward = |peer, step| Some(Hop { peer, step, way: Way::Onward });
        let next = |gone: &[u32], to| route(3, 8, gone.iter().copied()).next(to, Way::Onward);
        assert_eq!((next(&[], 3), next(&[], 2)), (None, onward(7, 2)));
        assert_eq!((next(&[2], 2), route(3, 8, [2]).detour(2, 1)), (None, None));
        assert_eq!((next(&[2], 1), next(&[2, 7], 1)), (onward(7, 2), onward(5, 1)));
        assert_eq!(next(&[4, 5, 7], 1), Some(Hop { peer: 1, step: 1, way: Way::Back }));
        assert_eq!(route(3, 8, [1, 2, 7]).next(0, Way::Back), None, "nor onward again");
    }
}
