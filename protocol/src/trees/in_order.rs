//! Binary trees in which every member is between those below its left and those below its right, and two such trees in
//! which no member has to pass on in both.
//!
//! The two trees are those of Sanders, Speck and Träff, *Two-tree algorithms for full bandwidth broadcast, reduction
//! and scan* (Parallel Computing 35, 2009), section 3: in the first the even members are inner nodes and the odd ones
//! leaves; the second is the first with all members moved by one.

use core::ops::RangeInclusive;

/// One tree over the places 1 to *n*. A place is as high as its number has trailing zeros, so the odd ones are leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InOrder {
    count: u32,
}

impl InOrder {
    /// The tree over so many places, at most 2³¹.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self { count: if count > 1 << 31 { 1 << 31 } else { count } }
    }

    /// How many places there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// The place at the top; 0 if there is none.
    #[must_use]
    pub const fn root(self) -> u32 {
        match self.count.checked_ilog2() {
            Some(height) => 1 << height,
            None => 0,
        }
    }

    /// The place above this one; `None` at the root, and of what is no place.
    #[must_use]
    pub fn parent(self, place: u32) -> Option<u32> {
        if !(1..=self.count).contains(&place) || place == self.root() {
            return None;
        }
        let mut at = u64::from(place);
        loop {
            let bit = 1 << at.trailing_zeros();
            at = (at - bit) | (bit << 1);
            // Places that would be above it in a larger tree are left out.
            if at <= u64::from(self.count) {
                return u32::try_from(at).ok();
            }
        }
    }

    /// The places below this one, on its left and on its right.
    #[must_use]
    pub fn children(self, place: u32) -> [Option<u32>; 2] {
        let half = match place.trailing_zeros() {
            _ if !(1..=self.count).contains(&place) => return [None; 2],
            0 => return [None; 2],
            height => 1 << (height - 1),
        };
        let mut right = u64::from(place) + half;
        while right > u64::from(self.count) {
            match right.trailing_zeros() {
                0 => return [u32::try_from(u64::from(place) - half).ok(), None],
                height => right -= 1 << (height - 1),
            }
        }
        [u32::try_from(u64::from(place) - half).ok(), u32::try_from(right).ok()]
    }

    /// How far a place is from the top: 1 for the root, 0 for what is no place.
    #[must_use]
    pub fn depth(self, place: u32) -> u32 {
        let mut depth = u32::from((1..=self.count).contains(&place));
        let mut at = place;
        while let Some(parent) = self.parent(at) {
            (at, depth) = (parent, depth + 1);
        }
        depth
    }

    /// The places of the subtree below and at this one, which are neighbours.
    #[must_use]
    pub fn span(self, place: u32) -> RangeInclusive<u32> {
        let reach = (1_u32 << place.trailing_zeros().min(31)) - 1;
        place.saturating_sub(reach).max(1)..=place.saturating_add(reach).min(self.count)
    }
}

/// Two trees over the same members: who has others below it in one has none in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoTrees {
    tree: InOrder,
}

impl TwoTrees {
    /// The trees over members 1 to `count`.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self { tree: InOrder::new(count) }
    }

    /// The first one alone.
    #[must_use]
    pub const fn first(self) -> InOrder {
        self.tree
    }

    /// Where a member is in tree 0 or 1.
    fn place(self, tree: usize, member: u32) -> u32 {
        match tree {
            0 => member,
            _ if member >= self.tree.count => member - self.tree.count + 1,
            _ => member + 1,
        }
    }

    /// Who is at a place of tree 0 or 1.
    fn member(self, tree: usize, place: u32) -> u32 {
        match tree {
            0 => place,
            _ if place == 1 => self.tree.count,
            _ => place - 1,
        }
    }

    /// Who is above a member in tree 0 or 1; 0 is above the root.
    #[must_use]
    pub fn parent(self, tree: usize, member: u32) -> u32 {
        self.tree.parent(self.place(tree, member)).map_or(0, |place| self.member(tree, place))
    }

    /// Who is below a member in tree 0 or 1. Below 0 is the root.
    #[must_use]
    pub fn children(self, tree: usize, member: u32) -> [Option<u32>; 2] {
        if member == 0 {
            return [Some(self.tree.root()).filter(|root| *root > 0).map(|root| self.member(tree, root)), None];
        }
        self.tree.children(self.place(tree, member)).map(|place| place.map(|place| self.member(tree, place)))
    }

    /// Whether a member is below another in tree 0 or 1, or is the same.
    #[must_use]
    pub fn is_below(self, tree: usize, member: u32, above: u32) -> bool {
        above == 0 || self.tree.span(self.place(tree, above)).contains(&self.place(tree, member))
    }

    /// Who sends to a member in tree 0 or 1 if the one above it fails; `None` if that is 0.
    ///
    /// Whoever fails need not be sent anything any more, in either tree: that leaves each of the two above it the time
    /// to send to one of those below it. The next above in the same tree takes the one below which the other is, as
    /// that gets nothing otherwise.
    #[must_use]
    pub fn stand_in(self, tree: usize, member: u32) -> Option<u32> {
        let failed = self.parent(tree, member);
        let other = self.parent(1 - tree.min(1), failed);
        let below = self.children(tree, failed);
        let is_heir = below.contains(&None) || self.is_below(tree, other, member);
        (failed > 0).then(|| if is_heir { self.parent(tree, failed) } else { other })
    }

    /// How far the members farthest from 0 are from it.
    #[must_use]
    pub const fn depth_max(self) -> u32 {
        match self.tree.count.checked_ilog2() {
            Some(height) => height + 1,
            None => 0,
        }
    }

    /// How far a member is from 0 in tree 0 or 1.
    #[must_use]
    pub fn depth(self, tree: usize, member: u32) -> u32 {
        if member == 0 { 0 } else { self.tree.depth(self.place(tree, member)) }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::{InOrder, TwoTrees};

    #[test]
    fn seven_are_a_full_tree() {
        let tree = InOrder::new(7);
        assert_eq!(tree.root(), 4);
        assert_eq!(tree.children(4), [Some(2), Some(6)]);
        assert_eq!(tree.children(6), [Some(5), Some(7)]);
        assert_eq!((tree.span(6), tree.span(4), tree.span(3)), (5..=7, 1..=7, 3..=3));
        assert_eq!((tree.depth(4), tree.depth(6), tree.depth(7), tree.depth(8)), (1, 2, 3, 0));
    }

    #[test]
    fn trees_of_every_size_are_trees() {
        for count in 0..=300 {
            let tree = InOrder::new(count);
            let mut below = BTreeSet::new();
            for place in 1..=count {
                for child in tree.children(place).into_iter().flatten() {
                    assert_eq!(tree.parent(child), Some(place), "{child} of {count}");
                    assert!(below.insert(child), "{child} of {count} twice");
                    assert!(tree.span(place).contains(tree.span(child).start()), "{child} of {count}");
                    assert!(tree.span(place).contains(tree.span(child).end()), "{child} of {count}");
                }
                assert!(tree.depth(place) <= count.ilog2() + 1, "{place} of {count}");
                assert_eq!(tree.children(place) == [None; 2], place % 2 == 1, "{place} of {count}");
            }
            // Everybody but the root is below somebody.
            assert!(below.into_iter().eq((1..=count).filter(|place| *place != tree.root())), "{count}");
            assert_eq!((tree.parent(0), tree.parent(count + 1), tree.parent(tree.root())), (None, None, None));
        }
    }

    #[test]
    fn nobody_passes_on_in_both_trees() {
        for count in 1..=300 {
            let trees = TwoTrees::new(count);
            for tree in 0..2 {
                let roots: Vec<u32> = (1..=count).filter(|member| trees.parent(tree, *member) == 0).collect();
                assert_eq!(trees.children(tree, 0), [roots.first().copied(), None], "{count}");
                assert_eq!(roots.len(), 1, "{count}");
                for member in 1..=count {
                    let parent = trees.parent(tree, member);
                    assert!(trees.children(tree, parent).contains(&Some(member)), "{member} of {count}");
                    assert_eq!(trees.depth(tree, member), trees.depth(tree, parent) + 1, "{member} of {count}");
                    assert!(trees.depth(tree, member) <= trees.depth_max(), "{member} of {count}");
                    assert!(trees.is_below(tree, member, parent) && trees.is_below(tree, member, member));
                    assert!(parent == 0 || !trees.is_below(tree, parent, member), "{member} of {count}");
                }
            }
            let has_children = |tree, member| trees.children(tree, member) != [None; 2];
            let in_both = (1..=count).find(|member| has_children(0, *member) && has_children(1, *member));
            assert_eq!(in_both, None, "of {count}");
        }
    }

    #[test]
    fn whoever_fails_is_replaced_by_one_below_at_each_above_it() {
        for count in 1..=300 {
            let trees = TwoTrees::new(count);
            for failed in 1..=count {
                let above = [0, 1].map(|tree| trees.parent(tree, failed));
                for tree in 0..2 {
                    let below: Vec<u32> = trees.children(tree, failed).into_iter().flatten().collect();
                    let stand_ins: Vec<u32> = below.iter().filter_map(|member| trees.stand_in(tree, *member)).collect();
                    assert_eq!(stand_ins.len(), below.len());
                    assert!(stand_ins.iter().all(|stand_in| above.contains(stand_in)), "{failed} of {count}");
                    // Each for one, and the one above in this tree in any case.
                    assert!(below.is_empty() || stand_ins.contains(&above[tree]), "{failed} of {count}");
                    assert!(stand_ins.len() < 2 || stand_ins[0] != stand_ins[1], "{failed} of {count}");
                    for (member, stand_in) in below.iter().zip(&stand_ins) {
                        assert!(*stand_in == 0 || !trees.is_below(tree, *stand_in, *member), "{failed} of {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_tree_does_not_overflow() {
        for tree in [InOrder::new(u32::MAX), InOrder::new(1 << 31), InOrder::new((1 << 31) - 1)] {
            for place in [0, 1, (1 << 30) + 1, (1 << 31) - 1, 1 << 31, u32::MAX] {
                let _ = (tree.parent(place), tree.children(place), tree.depth(place), tree.span(place.max(1)));
            }
        }
    }
}
