//! Two trees inside of one pset, of which some places lead to other psets.
//!
//! A pset has its I/O node, 0, and nodes, 1 to *n*. In both trees the I/O node has one node below it, through which all
//! others get everything. In at most one of them one or two other psets are below nodes of this one; in home's pset one
//! is in each.
//!
//! Every node sends to two in one tree and to none in the other, which is just what its link carries, and the I/O node
//! to one in each: that is one place more than the pset's own nodes take, in each tree, or two in one of them. Where
//! these do not come out even, as the table says, there is one node that sends to one in each tree.
//!
//! | others below | nodes | one in each |
//! | --- | --- | --- |
//! | none, or one in one tree | any | no |
//! | two in one tree | odd | no |
//! | two in one tree | even | yes |
//! | one in each tree | even | no |
//! | one in each tree | odd | yes |
//!
//! Other psets are near the top, as the way to the last of them is as long as all psets on it are deep: below the first
//! node, the *head*, or where there are two of them below the *second*, which is next below the head.

use super::in_order::{InOrder, TwoTrees};

/// What is below a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Below {
    /// A node of this pset.
    Node(u32),
    /// The so-and-so-manieth of the psets below this one in the tree, from 0.
    Pset(u32),
}

/// See this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    nodes: u32,
    /// How many other psets are below in each tree: at most two in one, or one in each.
    others: [u32; 2],
}

/// One of the trees, where other psets are below it, or may be in the other tree.
#[derive(Clone, Copy, Debug)]
struct Tree {
    others: u32,
    /// The node below the I/O node; 0 if that is the root of the rest.
    head: u32,
    /// The node below the head that has other psets below it; 0 if the head has them.
    second: u32,
    /// The rest is a tree over its places: the first place's node, those behind it being the next, but for the last.
    rest: InOrder,
    first: u32,
    last: u32,
}

impl Tree {
    fn new(others: u32, (head, second): (u32, u32), (first, last): (u32, u32), count: u32) -> Self {
        Self { others, head, second, rest: InOrder::new(count), first, last }
    }

    fn node(self, place: u32) -> u32 {
        if place == self.rest.count() { self.last } else { self.first + place - 1 }
    }

    fn place(self, node: u32) -> u32 {
        if node == self.last { self.rest.count() } else { (node + 1).saturating_sub(self.first) }
    }

    /// Who has the psets below, the I/O node if there is no node.
    fn senders(self) -> [u32; 2] {
        match (self.head, self.second) {
            // The head has a place left, the second has one for itself as it sends in the other tree, too.
            (head, second) if second > 0 && self.rest.count() == 0 => [head, second],
            (head, 0) => [head; 2],
            (_, second) => [second; 2],
        }
    }

    fn root(self) -> Option<Below> {
        (self.rest.count() > 0).then(|| Below::Node(self.node(self.rest.root())))
    }

    fn children(self, node: u32) -> [Option<Below>; 2] {
        let others = |of: u32| {
            let below = (0..self.others).zip(self.senders()).filter(move |(_, sender)| *sender == of);
            below.map(|(number, _)| Below::Pset(number))
        };
        let own = match node {
            0 if self.head == 0 => [None, self.root()],
            0 => [Some(Below::Node(self.head)), None],
            _ if node == self.head => {
                let second = (self.second > 0).then_some(Below::Node(self.second));
                [second, self.root()]
            }
            _ if node == self.second => [None; 2],
            _ => self.rest.children(self.place(node)).map(|place| place.map(|place| Below::Node(self.node(place)))),
        };
        let mut below = own.into_iter().flatten().chain(others(node));
        [below.next(), below.next()]
    }

    fn parent(self, node: u32) -> u32 {
        if node == 0 || node == self.head {
            return 0;
        }
        if node == self.second {
            return self.head;
        }
        self.rest.parent(self.place(node)).map_or(self.head, |place| self.node(place))
    }
}

impl Inside {
    /// Of a pset with so many nodes and so many others below it.
    pub(super) const fn new(nodes: u32, others: [u32; 2]) -> Self {
        Self { nodes, others }
    }

    /// The trees of a pset that has no other below it.
    const fn alone(self) -> Option<TwoTrees> {
        match self.others {
            [0, 0] => Some(TwoTrees::new(self.nodes)),
            _ => None,
        }
    }

    fn tree(self, tree: usize) -> Tree {
        let (nodes, others) = (self.nodes, self.others[tree]);
        let is_odd = nodes % 2 == 1;
        match (others, self.others[1 - tree]) {
            (_, _) if nodes == 0 => Tree::new(others, (0, 0), (1, 0), 0),
            // Even nodes pass on.
            (0, _) => Tree::new(0, (0, 0), (1, nodes), nodes),
            // Odd nodes do.
            (1, 0) => Tree::new(1, (1, 0), (2, nodes), nodes - 1),
            (1, _) if tree == 0 => Tree::new(1, (1, 0), (2, nodes), nodes - 1),
            // Even nodes again, and where the last one is odd, it in both.
            (1, _) if nodes == 1 => Tree::new(1, (1, 0), (1, 0), 0),
            (1, _) if is_odd => Tree::new(1, (nodes - 1, 0), (1, nodes), nodes - 1),
            (1, _) => Tree::new(1, (nodes, 0), (1, nodes - 1), nodes - 1),
            // Odd nodes, and where the last one is even, it in both.
            _ if nodes == 1 => Tree::new(2, (1, 0), (1, 0), 0),
            _ if nodes == 2 => Tree::new(2, (1, 2), (1, 0), 0),
            _ if is_odd => Tree::new(2, (1, nodes), (2, nodes - 1), nodes - 2),
            _ => Tree::new(2, (1, nodes - 1), (2, nodes), nodes - 2),
        }
    }

    /// What is below the I/O node, which is 0, or a node, in tree 0 or 1.
    pub(super) fn children(self, tree: usize, node: u32) -> [Option<Below>; 2] {
        match self.alone() {
            Some(trees) => trees.children(tree, node).map(|child| child.map(Below::Node)),
            None => self.tree(tree).children(node),
        }
    }

    /// Who is above a node in tree 0 or 1.
    pub(super) fn parent(self, tree: usize, node: u32) -> u32 {
        match self.alone() {
            Some(trees) => trees.parent(tree, node),
            None => self.tree(tree).parent(node),
        }
    }

    /// Who is above one of the psets below this one in tree 0 or 1.
    pub(super) fn sender(self, tree: usize, number: u32) -> u32 {
        self.tree(tree).senders()[number.min(1) as usize]
    }
}
