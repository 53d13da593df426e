//! Two trees over the members of several psets, in each of which whatever goes down it enters a pset once.
//!
//! Psets are the members of two trees ([`TwoTrees`]) of their own, below home's, so that a pset has others below it in
//! one of them only; inside of a pset its members are ([`Inside`]). All that comes from another pset comes to the I/O
//! node, in both trees, and it sends it to one node in each, as home does. Who has others below it in both trees sends
//! to one in each of them: I/O nodes, and where `inside` says so one node of a pset.
//!
//! With one pset these are just the two trees over its nodes.

use super::in_order::TwoTrees;
use super::inside::{Below, Inside};
use super::topology::Topology;

/// See this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreesOverPsets {
    /// Over all members, whatever psets they are in.
    flat: TwoTrees,
    topology: Topology,
    /// The most nodes that any pset has.
    nodes_most: u32,
}

impl TreesOverPsets {
    /// The trees over members 1 to `count`, of these psets.
    #[must_use]
    pub fn new(count: u32, topology: &Topology) -> Self {
        let nodes_most = (0..topology.psets()).filter_map(|pset| topology.nodes(pset)).max().unwrap_or(count);
        Self { flat: TwoTrees::new(count), topology: topology.clone(), nodes_most }
    }

    /// Trees over the same members that know nothing of psets: for what is short and goes up and down once.
    #[must_use]
    pub const fn flat(&self) -> TwoTrees {
        self.flat
    }

    /// The psets of the members.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The psets below home's, in two trees.
    fn psets(&self) -> TwoTrees {
        TwoTrees::new(self.topology.psets() - 1)
    }

    /// A pset from inside; `None` if there is only one.
    fn inside(&self, pset: u32) -> Option<Inside> {
        let nodes = self.topology.nodes(pset)?;
        let others = [0, 1].map(|tree| self.psets().children(tree, pset).into_iter().flatten().count() as u32);
        Some(Inside::new(nodes, others))
    }

    /// Who is above a member in tree 0 or 1; 0 is above the root.
    #[must_use]
    pub fn parent(&self, tree: usize, member: u32) -> u32 {
        let (pset, number) = self.topology.place(member);
        let Some(inside) = self.inside(pset) else { return self.flat.parent(tree, member) };
        if number > 0 {
            return self.topology.member((pset, inside.parent(tree, number)));
        }
        if pset == 0 {
            return 0;
        }
        let above = self.psets().parent(tree, pset);
        let is_second = self.psets().children(tree, above)[1] == Some(pset);
        let sender = self.inside(above).map_or(0, |inside| inside.sender(tree, is_second.into()));
        self.topology.member((above, sender))
    }

    /// Who is below a member in tree 0 or 1: at most two, and at most one in each if it is 0, an I/O node with nodes,
    /// or has any in both.
    #[must_use]
    pub fn children(&self, tree: usize, member: u32) -> [Option<u32>; 2] {
        let (pset, number) = self.topology.place(member);
        let Some(inside) = self.inside(pset) else { return self.flat.children(tree, member) };
        if member > self.topology.members().unwrap_or(0) {
            return [None; 2];
        }
        let psets = self.psets().children(tree, pset);
        inside.children(tree, number).map(|below| match below? {
            Below::Node(node) => Some(self.topology.member((pset, node))),
            Below::Pset(number) => {
                psets.into_iter().flatten().nth(number as usize).map(|pset| self.topology.member((pset, 0)))
            }
        })
    }

    /// Whether a member is below another in tree 0 or 1, or is the same.
    #[must_use]
    pub fn is_below(&self, tree: usize, member: u32, above: u32) -> bool {
        if self.topology.psets() == 1 && member > 0 {
            return self.flat.is_below(tree, member, above);
        }
        above == 0 || self.way(tree, member).any(|at| at == above)
    }

    /// A member, who is above it, and so on, but for 0.
    fn way(&self, tree: usize, member: u32) -> impl Iterator<Item = u32> {
        let above = move |at: &u32| Some(self.parent(tree, *at)).filter(|parent| *parent > 0);
        core::iter::successors(Some(member).filter(|member| *member > 0), above)
    }

    /// Who sends to a member in tree 0 or 1 if the one above it fails; `None` if that is 0.
    ///
    /// Whoever fails need not be sent anything any more, in either tree: that leaves each of the two above it the time
    /// to send to one of those below it. The next above in the same tree takes the one below which the other is, as
    /// that gets nothing otherwise; the first if it is below none. One that is above in both trees takes both.
    #[must_use]
    pub fn stand_in(&self, tree: usize, member: u32) -> Option<u32> {
        if self.topology.psets() == 1 {
            return self.flat.stand_in(tree, member);
        }
        let failed = self.parent(tree, member);
        let other = self.parent(1 - tree.min(1), failed);
        let is_heir = match self.children(tree, failed) {
            [Some(first), Some(second)] => {
                let heir = if self.is_below(tree, other, second) && other > 0 { second } else { first };
                heir == member
            }
            _ => true,
        };
        (failed > 0).then(|| if is_heir { self.parent(tree, failed) } else { other })
    }

    /// How far the members farthest from 0 are from it, at most: to the I/O node of a first other pset there are two
    /// steps, from there to the next at most three, and inside of a pset one more than its nodes by themselves need.
    #[must_use]
    pub fn depth_max(&self) -> u32 {
        let psets = self.psets().depth_max();
        if psets == 0 {
            return self.flat.depth_max();
        }
        3 * psets - 1 + self.nodes_most.checked_ilog2().map_or(0, |height| height + 2)
    }

    /// How far a member is from 0 in tree 0 or 1.
    #[must_use]
    pub fn depth(&self, tree: usize, member: u32) -> u32 {
        match self.topology.psets() {
            1 => self.flat.depth(tree, member),
            _ => self.way(tree, member).count() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::ProptestConfig;
    use proptest::{prop_assert_eq, proptest};

    use super::{Topology, TreesOverPsets, TwoTrees};

    fn trees(nodes: &[u32]) -> TreesOverPsets {
        let topology = Topology::of_psets(nodes.iter().copied()).expect("memory");
        let members = topology.members().unwrap_or(nodes[0]);
        TreesOverPsets::new(members, &topology)
    }

    fn below(trees: &TreesOverPsets, tree: usize, member: u32) -> Vec<u32> {
        trees.children(tree, member).into_iter().flatten().collect()
    }

    /// Each tree has everybody in it once, and enters each pset but home's once, at its I/O node.
    fn check_trees(nodes: &[u32]) {
        let (trees, psets) = (trees(nodes), 0..nodes.len() as u32);
        let topology = trees.topology();
        let members = trees.flat().first().count();
        for tree in 0..2 {
            let mut reached = BTreeSet::new();
            for member in 0..=members {
                for child in below(&trees, tree, member) {
                    assert_eq!(trees.parent(tree, child), member, "{child} of {nodes:?}");
                    assert!(reached.insert(child), "{child} of {nodes:?} twice");
                    assert!(trees.is_below(tree, child, member) && !trees.is_below(tree, member, child));
                }
                let depth = trees.depth(tree, member);
                assert_eq!(depth, if member == 0 { 0 } else { trees.depth(tree, trees.parent(tree, member)) + 1 });
                assert!(depth <= trees.depth_max(), "{member} of {nodes:?} is {depth} deep");
            }
            assert!(reached.into_iter().eq(1..=members), "{nodes:?}");
            let entered = (1..=members).filter(|member| topology.is_across(*member, trees.parent(tree, *member)));
            assert!(entered.eq(topology.io_nodes()), "{nodes:?}");
        }
        assert_eq!((topology.psets(), trees.children(0, members + 1)), (psets.end, [None; 2]));
    }

    /// Nobody sends more than two halves of a file, and who passes on in both trees is an I/O node, or one node of a
    /// pset that does not come out even without.
    fn check_load(nodes: &[u32]) {
        let trees = trees(nodes);
        for pset in 0..nodes.len() as u32 {
            let first = trees.topology().member((pset, 0));
            let all = first..=first + nodes[pset as usize];
            let (mut in_both, mut others) = (0, [0, 0]);
            for member in all {
                let below = [0, 1].map(|tree| below(&trees, tree, member));
                assert!(below[0].len() + below[1].len() <= 2, "{member} of {nodes:?} sends to {below:?}");
                in_both += u32::from(member > first && below.iter().all(|below| !below.is_empty()));
                for tree in 0..2 {
                    let across = below[tree].iter().filter(|child| trees.topology().is_across(member, **child));
                    others[tree] += across.count();
                }
            }
            let is_odd = nodes[pset as usize] % 2 == 1;
            let is_uneven = match others {
                [0, 2] | [2, 0] => !is_odd && nodes[pset as usize] > 0,
                [1, 1] => is_odd,
                _ => false,
            };
            assert_eq!(in_both, u32::from(is_uneven), "pset {pset} of {nodes:?}, with {others:?} below");
        }
    }

    /// Those above whoever fails get one below it each, and nobody gets anything from itself, round about.
    fn check_stand_ins(nodes: &[u32]) {
        let trees = trees(nodes);
        for failed in 1..=trees.flat().first().count() {
            let above = [0, 1].map(|tree| trees.parent(tree, failed));
            let mut taken = Vec::new();
            for (tree, in_tree) in above.iter().enumerate() {
                let below = below(&trees, tree, failed);
                let stand_ins: Vec<u32> = below.iter().filter_map(|child| trees.stand_in(tree, *child)).collect();
                assert_eq!(stand_ins.len(), below.len());
                assert!(below.is_empty() || stand_ins.contains(in_tree), "{failed} of {nodes:?}");
                for (child, stand_in) in below.iter().zip(&stand_ins) {
                    assert!(*stand_in == 0 || !trees.is_below(tree, *stand_in, *child), "{failed} of {nodes:?}");
                }
                taken.extend(stand_ins);
            }
            for one in above {
                let sent = above.iter().filter(|other| **other == one).count();
                let taken = taken.iter().filter(|stand_in| **stand_in == one).count();
                assert!(taken <= sent, "{one} takes {taken} below {failed} of {nodes:?}");
            }
            assert!(taken.iter().all(|stand_in| above.contains(stand_in)));
        }
    }

    #[test]
    fn all_of_few_psets_and_nodes() {
        for psets in 1..=4_u32 {
            for number in 0..6_u32.pow(psets) {
                let nodes: Vec<u32> = (0..psets).map(|pset| number / 6_u32.pow(pset) % 6).collect();
                check_trees(&nodes);
                check_load(&nodes);
                check_stand_ins(&nodes);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn psets_of_all_sizes(nodes in vec(0..70_u32, 1..40)) {
            check_trees(&nodes);
            check_load(&nodes);
            check_stand_ins(&nodes);
        }

        #[test]
        fn one_pset_has_the_two_trees_over_its_nodes(nodes in 1..500_u32, member in 0..500_u32, above in 0..500_u32) {
            let (trees, flat) = (trees(&[nodes]), TwoTrees::new(nodes));
            prop_assert_eq!(trees.depth_max(), flat.depth_max());
            for tree in 0..2 {
                prop_assert_eq!(trees.children(tree, member), flat.children(tree, member));
                if (1..=nodes).contains(&member) {
                    prop_assert_eq!(trees.parent(tree, member), flat.parent(tree, member));
                    prop_assert_eq!(trees.depth(tree, member), flat.depth(tree, member));
                    prop_assert_eq!(trees.stand_in(tree, member), flat.stand_in(tree, member));
                    prop_assert_eq!(trees.is_below(tree, member, above), flat.is_below(tree, member, above));
                }
            }
        }
    }

    #[test]
    fn many_psets_are_not_much_deeper() {
        // 16,384 nodes, which are 15 deep without psets.
        let depths = [64_u32, 1024].map(|nodes| trees(&vec![nodes; 16_384 / nodes as usize]).depth_max());
        assert_eq!(depths, [31, 23]);
        check_trees(&[64; 256]);
        check_trees(&[1; 1000]);
    }

    #[test]
    fn numbers_of_no_member_do_no_harm() {
        let trees = trees(&[3, 1, 4]);
        for member in [11, 12, u32::MAX] {
            for tree in 0..2 {
                let _ = (trees.parent(tree, member), trees.children(tree, member), trees.depth(tree, member));
                let _ =
                    (trees.stand_in(tree, member), trees.is_below(tree, member, 3), trees.is_below(tree, 3, member));
            }
        }
    }
}
