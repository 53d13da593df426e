//! The tree as the front end wants it, and what is to be said for it to become so.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::attach::attach;
use super::front_end::Seat;
use super::message::{Above, Child, Down, Generation, Source};
use super::topology::{Process, Topology};
use crate::ids::{NodeId, Rank};
use crate::limits::{OVERLAY_CALLERS_MAX, OVERLAY_CHILDREN_MAX};
use crate::ranks::Ranks;

/// Who is below somebody, and of which ranks each may say something.
pub(super) type Children = BTreeMap<Source, Ranks>;

/// See this module.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    processes: Vec<Process>,
    dead: BTreeSet<u32>,
    groups: Vec<Group>,
}

/// Back ends of a node that speak to the same process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    node: NodeId,
    ranks: Ranks,
    /// Its index, if it is not the front end.
    to: Option<u32>,
}

/// What the tree is, as far as it was said to anybody.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    above: BTreeMap<u32, Above>,
    children: BTreeMap<Option<u32>, Children>,
    groups: Vec<Group>,
}

impl Said {
    /// Who is below the front end.
    pub(super) fn front_end(&self) -> Option<&Children> {
        self.children.get(&None)
    }
}

impl Tree {
    /// One over these nodes and their ranks. Nothing, if somebody has more below it than [`OVERLAY_CHILDREN_MAX`], or a
    /// node has processes to which more than [`OVERLAY_CALLERS_MAX`] others speak.
    pub(super) fn new(topology: &Topology, here: &BTreeMap<NodeId, Ranks>, size: u32) -> Option<Self> {
        let back_ends: Vec<(NodeId, Rank)> =
            here.iter().flat_map(|(node, ranks)| ranks.of_job(size).map(|rank| (*node, rank))).collect();
        let ibes = topology.ibes();
        let nodes: Vec<u32> = back_ends.iter().map(|(node, _)| node.0).collect();
        let hosts: Vec<u32> =
            ibes.iter().filter_map(|ibe| topology.processes().get(*ibe as usize)).map(|it| it.node.0).collect();
        let attached = attach(&nodes, &hosts)?;
        let mut ranks_of = BTreeMap::<(NodeId, u32), Ranks>::new();
        for ((node, rank), ibe) in back_ends.iter().zip(attached) {
            ranks_of.entry((*node, *ibes.get(ibe as usize)?)).or_default().add(*rank);
        }
        let groups = ranks_of.into_iter().map(|((node, ibe), ranks)| Group { node, ranks, to: Some(ibe) }).collect();
        let tree = Self { processes: topology.processes().to_vec(), dead: BTreeSet::new(), groups };
        let is_narrow = |children: &Children| children.len() <= OVERLAY_CHILDREN_MAX;
        let is_quiet = |callers: &BTreeSet<NodeId>| callers.len() <= OVERLAY_CALLERS_MAX;
        (tree.children().values().all(is_narrow) && tree.callers().values().all(is_quiet)).then_some(tree)
    }

    /// Nodes that speak to processes on each node, from elsewhere.
    fn callers(&self) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
        let mut all = BTreeMap::<NodeId, BTreeSet<NodeId>>::new();
        let of_groups = self.groups.iter().map(|group| (group.node, group.to));
        for (from, to) in of_groups.chain(self.living().map(|(_, process)| (process.node, process.parent))) {
            if let Some(to) = to.and_then(|index| self.node_of(index)).filter(|to| *to != from) {
                all.entry(to).or_default().insert(from);
            }
        }
        all
    }

    /// Processes that live.
    pub(super) fn living(&self) -> impl Iterator<Item = (u32, Process)> {
        (0..).zip(self.processes.iter().copied()).filter(|(index, _)| !self.dead.contains(index))
    }

    /// These, with who is above and below each.
    pub(super) fn seats(&self) -> Vec<Seat> {
        let children = self.children();
        let seat = |(index, Process { node, parent }): (u32, Process)| {
            let below = children.get(&Some(index)).map(listed).unwrap_or_default();
            Seat { index, node, above: parent, below }
        };
        self.living().map(seat).collect()
    }

    /// The node of a process that lives.
    fn node_of(&self, index: u32) -> Option<NodeId> {
        self.processes.get(index as usize).filter(|_| !self.dead.contains(&index)).map(|process| process.node)
    }

    /// Whether somebody is on that node, and lives.
    pub(super) fn is_on(&self, source: Source, node: NodeId) -> bool {
        match source {
            Source::Process(index) => self.node_of(index) == Some(node),
            Source::BackEnds(of) => of == node,
        }
    }

    fn above(&self, index: Option<u32>) -> Above {
        match index.and_then(|index| Some((index, self.node_of(index)?))) {
            Some((index, node)) => Above::Process { index, node },
            None => Above::FrontEnd,
        }
    }

    /// Who is below whom, the front end included.
    pub(super) fn children(&self) -> BTreeMap<Option<u32>, Children> {
        let mut all = BTreeMap::from([(None, Children::new())]);
        for group in &self.groups {
            add(&mut all, group.to, Source::BackEnds(group.node), &group.ranks);
            let mut at = group.to;
            while let Some(index) = at {
                at = self.processes.get(index as usize).and_then(|process| process.parent);
                add(&mut all, at, Source::Process(index), &group.ranks);
            }
        }
        // Those that have nobody below them yet.
        for (index, process) in self.living() {
            add(&mut all, process.parent, Source::Process(index), &Ranks::default());
            all.entry(Some(index)).or_default();
        }
        all
    }

    /// How many are between each process and the back ends that are furthest below it, itself included.
    fn heights(&self) -> Vec<u32> {
        let mut heights = vec![1; self.processes.len()];
        for (index, _) in self.living() {
            // A process that was moved may be before the one above it, so each goes all the way up.
            let (mut at, mut height) = (index, 1);
            while let Some(parent) = self.processes.get(at as usize).and_then(|process| process.parent) {
                height += 1;
                if let Some(of_parent) = heights.get_mut(parent as usize) {
                    *of_parent = height.max(*of_parent);
                }
                at = parent;
            }
        }
        heights
    }

    /// How many are on the longest way from back ends to the front end.
    pub(super) fn depth(&self) -> u32 {
        let heights = self.heights();
        self.living().filter_map(|(index, _)| heights.get(index as usize)).copied().max().unwrap_or(0)
    }

    /// A node is there late: its back ends go to a process on it, or to the one that has the fewest below it, if any
    /// has room; then to the front end.
    pub(super) fn join(&mut self, node: NodeId, ranks: Ranks) {
        self.groups.retain(|group| group.node != node);
        let to = self.with_room(node, |_, process| process.node == node).or_else(|| self.with_room(node, |_, _| true));
        self.groups.push(Group { node, ranks, to });
    }

    /// The one of these with the fewest below it, if any has room for somebody on that node.
    fn with_room(&self, from: NodeId, wanted: impl Fn(u32, &Process) -> bool) -> Option<u32> {
        let (children, callers) = (self.children(), self.callers());
        let count = |index: u32| children.get(&Some(index)).map_or(0, Children::len);
        let is_heard = |to: NodeId| {
            let others = callers.get(&to);
            to == from || others.is_none_or(|all| all.contains(&from) || all.len() < OVERLAY_CALLERS_MAX)
        };
        let all = self.living().filter(|(index, process)| wanted(*index, process) && is_heard(process.node));
        let least = all.map(|(index, _)| (count(index), index)).min();
        least.filter(|(count, _)| *count < OVERLAY_CHILDREN_MAX).map(|(_, index)| index)
    }

    /// A node has died, with its back ends and its processes: who was below one of these goes to the one above it, or,
    /// if that has no room, to the one that has the fewest below it, but not to one that is below itself.
    pub(super) fn lose(&mut self, node: NodeId) {
        self.groups.retain(|group| group.node != node);
        let died: Vec<u32> =
            self.living().filter(|(_, process)| process.node == node).map(|(index, _)| index).collect();
        self.dead.extend(&died);
        // The nearest that lives above each of them.
        for index in died {
            let mut parent = self.processes.get(index as usize).and_then(|process| process.parent);
            while let Some(dead) = parent.filter(|parent| self.dead.contains(parent)) {
                parent = self.processes.get(dead as usize).and_then(|process| process.parent);
            }
            for orphan in 0..self.groups.len() {
                if self.groups[orphan].to == Some(index) {
                    self.groups[orphan].to = self.foster(parent, self.groups[orphan].node, None);
                }
            }
            for orphan in 0..self.processes.len() {
                if self.processes[orphan].parent == Some(index) && !self.dead.contains(&(orphan as u32)) {
                    let from = self.processes[orphan].node;
                    self.processes[orphan].parent = self.foster(parent, from, Some(orphan as u32));
                }
            }
        }
    }

    /// Who takes an orphan on that node that is to go to that one.
    fn foster(&self, parent: Option<u32>, from: NodeId, orphan: Option<u32>) -> Option<u32> {
        let Some(wanted) = parent else {
            let own = self.children().get(&None).map_or(0, Children::len);
            return if own < OVERLAY_CHILDREN_MAX { None } else { self.foster_elsewhere(from, orphan) };
        };
        // An orphan is still below the one that died, so what its parent has below it is others.
        let there = self.with_room(from, |index, _| index == wanted);
        if there.is_some() { there } else { self.foster_elsewhere(from, orphan) }
    }

    /// Somebody else who has room, and is not below the orphan. All are full: the front end bears more than it should
    /// rather than that somebody is not heard.
    fn foster_elsewhere(&self, from: NodeId, orphan: Option<u32>) -> Option<u32> {
        let is_below = |index: u32| {
            let mut at = Some(index);
            while let Some(here) = at {
                if Some(here) == orphan || self.dead.contains(&here) {
                    return true;
                }
                at = self.processes.get(here as usize).and_then(|process| process.parent);
            }
            false
        };
        self.with_room(from, |index, _| !is_below(index))
    }

    /// What processes are to be begun.
    pub(super) fn begin(&self, generation: Generation, said: &mut Said) -> Vec<(NodeId, Down)> {
        let (heights, children) = (self.heights(), self.children());
        let mut orders = Vec::new();
        for (index, process) in self.living() {
            let above = self.above(process.parent);
            let of_it = children.get(&Some(index)).cloned().unwrap_or_default();
            said.above.insert(index, above);
            let height = heights.get(index as usize).copied().unwrap_or(1);
            orders.push((process.node, Down::Begin { generation, index, above, height, children: listed(&of_it) }));
        }
        // What the front end itself has below it nobody was told yet.
        said.children = children.into_iter().filter(|(parent, _)| parent.is_some()).collect();
        orders
    }

    /// What is to be said for the tree to become as it is here: first to those that get others below them, then to
    /// those that get others above them. What the front end has below it is not among it.
    pub(super) fn change(&self, generation: Generation, said: &mut Said) -> Vec<(NodeId, Down)> {
        let (mut orders, children) = (Vec::new(), self.children());
        for (index, process) in self.living() {
            let none = Children::new();
            let (was, is) =
                (said.children.get(&Some(index)).unwrap_or(&none), children.get(&Some(index)).unwrap_or(&none));
            let mut gone = was.keys().filter(|source| !is.contains_key(source)).copied();
            let new: Children =
                is.iter().filter(|(source, ranks)| was.get(source) != Some(ranks)).map(copied).collect();
            let mut with = listed(&new);
            let mut without = gone.next();
            while without.is_some() || !with.is_empty() {
                let with = core::mem::take(&mut with);
                orders.push((process.node, Down::Below { generation, index, without, with }));
                without = gone.next();
            }
        }
        for (index, process) in self.living() {
            let above = self.above(process.parent);
            if said.above.insert(index, above) != Some(above) {
                orders.push((process.node, Down::Move { generation, index, above }));
            }
        }
        orders.extend(self.groups.iter().filter(|group| !said.groups.contains(group)).map(|group| {
            let Group { node, ranks, to } = group.clone();
            (node, Down::Attach { generation, ranks, above: self.above(to) })
        }));
        said.groups.clone_from(&self.groups);
        said.children = children;
        orders
    }
}

/// Somebody is below a process, or below the front end, and may say something of these ranks.
fn add(all: &mut BTreeMap<Option<u32>, Children>, parent: Option<u32>, source: Source, ranks: &Ranks) {
    // What is too scattered is not heard: a job's nodes have their ranks in as many ranges as there are nodes, at most.
    all.entry(parent).or_default().entry(source).or_default().join(ranks);
}

fn copied((source, ranks): (&Source, &Ranks)) -> (Source, Ranks) {
    (*source, ranks.clone())
}

fn listed(children: &Children) -> Vec<Child> {
    children.iter().map(|(source, ranks)| Child { source: *source, ranks: ranks.clone() }).collect()
}
