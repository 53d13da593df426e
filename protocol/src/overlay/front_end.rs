//! The front end: listens for back ends, makes the tree, and has what all ranks did in each epoch.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::epochs::Epochs;
use super::gathering::{Gathering, Taken};
use super::message::{Child, Down, Generation, Source, Up};
use super::part::Part;
use super::placement::{Host, best_effort_average, comprehensive};
use super::stacks::Stacks;
use super::topology::Topology;
use super::tree::{Children, Said, Tree};
use crate::ids::{NodeId, Rank};
use crate::limits::OVERLAY_START_NS;
use crate::ranks::Ranks;

/// Who speaks to a process, where no file says so, about.
const FAN_OUT: u32 = 16;

/// Where communication processes run.
#[derive(Clone, Debug)]
pub enum Layout {
    /// As a file says it.
    Given(Topology),
    /// Placed by the best-effort average.
    Average,
    /// Placed by the comprehensive evaluation of these nodes.
    Comprehensive(BTreeMap<NodeId, Host>),
}

/// What has come of something.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The tree is there: so many processes, so many one above the other.
    Started {
        /// Processes.
        processes: u32,
        /// Of these on the longest way.
        depth: u32,
    },
    /// What ranks did in an epoch, as far as it came in time: *k of n* is how many ranks are in it, of those of the
    /// job.
    Epoch(Part),
    /// The same of an epoch that was there before, with what came late.
    Late(Part),
    /// Where ranks were when somebody looked, since some earlier such event, in about an epoch. Each is of some of the
    /// ranks: all of them together are all there is. What somebody had of that who died is in none.
    Stacks(Stacks),
    /// The tree that a file says cannot be: a process would have more below it than
    /// [`crate::limits::OVERLAY_CHILDREN_MAX`], or a node be called by more than
    /// [`crate::limits::OVERLAY_CALLERS_MAX`] others. The front end hears all nodes itself.
    TooWide,
    /// A node has said something of ranks that are not its own, or for a process that is not on it; that was not heard.
    Lie(NodeId),
}

/// A job, and how it is to be looked at.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Ranks of the job.
    pub size: u32,
    /// Its nodes, with their ranks.
    pub nodes: BTreeMap<NodeId, Ranks>,
    /// Where processes run.
    pub layout: Layout,
    /// Length of an epoch, ns.
    pub period_ns: u64,
    /// How often it is looked where each thread is in its program, ns of its time there, on average; 0: not at all.
    pub sample_period_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Back ends say that they are there, until then, ns.
    Listening(u64),
    /// Processes say so, until then, ns.
    Starting(u64),
    Flowing,
    Over,
}

/// See this module. What nodes say and time go in, what they are to be told and what came of it come out.
#[derive(Debug)]
pub struct FrontEnd {
    generation: Generation,
    subject: Subject,
    phase: Phase,
    here: BTreeMap<NodeId, Ranks>,
    lost: BTreeSet<NodeId>,
    ready: BTreeSet<u32>,
    tree: Tree,
    said: Said,
    gathering: Gathering,
    epochs: Epochs,
    orders: VecDeque<(NodeId, Down)>,
    events: VecDeque<Event>,
}

/// How far an overlay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nodes say that they are there.
    Listening,
    /// Processes begin.
    Starting,
    /// Parts come.
    Flowing,
    /// It is over.
    Over,
}

/// A process of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its index.
    pub index: u32,
    /// Where it runs.
    pub node: NodeId,
    /// Who is above it; nothing: the front end.
    pub above: Option<u32>,
    /// Who is below it, and of which ranks each may say something.
    pub below: Vec<Child>,
}

impl FrontEnd {
    /// Asks all nodes of a job to say that they are there.
    #[must_use]
    pub fn new(generation: Generation, subject: Subject, now_ns: u64) -> Self {
        let Subject { period_ns, sample_period_ns, size, .. } = subject;
        let announce = Down::Announce { generation, period_ns, sample_period_ns, size };
        Self {
            generation,
            orders: subject.nodes.keys().map(|node| (*node, announce.clone())).collect(),
            epochs: Epochs::new(subject.size),
            subject,
            phase: Phase::Listening(now_ns.saturating_add(OVERLAY_START_NS)),
            here: BTreeMap::new(),
            lost: BTreeSet::new(),
            ready: BTreeSet::new(),
            tree: Tree::default(),
            said: Said::default(),
            gathering: Gathering::new([], 1),
            events: VecDeque::new(),
        }
    }

    /// What a node is to be told next.
    pub fn poll_transmit(&mut self) -> Option<(NodeId, Down)> {
        self.orders.pop_front()
    }

    /// What has come of something.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Parts that were not taken: not as they must be, with stacks that were not, and too late.
    #[must_use]
    pub const fn refused_and_dropped(&self) -> (u64, u64) {
        (self.gathering.refused, self.epochs.dropped())
    }

    /// How far it is.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        match self.phase {
            Phase::Listening(_) => Standing::Listening,
            Phase::Starting(_) => Standing::Starting,
            Phase::Flowing => Standing::Flowing,
            Phase::Over => Standing::Over,
        }
    }

    /// Processes that live, as they are to be.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        self.tree.seats()
    }

    /// Nodes that are there.
    #[must_use]
    pub fn nodes_here(&self) -> usize {
        self.here.len()
    }

    /// Ranks that were in no epoch since this one, by that, the first ones first.
    pub fn missing(&self) -> impl Iterator<Item = (u64, &Ranks)> {
        self.epochs.missing()
    }

    /// Which start of the overlay it is.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The job, and how it is looked at.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// A node says something.
    pub fn handle(&mut self, node: NodeId, message: Up, now_ns: u64) {
        let is_for_it = message.generation() == self.generation && !self.lost.contains(&node);
        if !is_for_it || self.phase == Phase::Over {
            return;
        }
        match message {
            Up::Here { node: named, ranks, .. } => self.handle_here(node, named, ranks, now_ns),
            Up::Ready { index, .. } if !self.tree.is_on(Source::Process(index), node) => self.lies(node),
            Up::Ready { index, .. } => {
                self.ready.insert(index);
                self.advance(now_ns);
            }
            Up::Stacks { source, .. } if !self.tree.is_on(source, node) => self.lies(node),
            Up::Stacks { source, number, stacks, .. } => {
                if self.gathering.hears_stacks(source, number) {
                    self.events.push_back(Event::Stacks(stacks));
                }
            }
            Up::Part { source, part, .. } if !self.tree.is_on(source, node) || !self.has_nodes(&part) => {
                self.lies(node)
            }
            Up::Part { source, is_apart, part, .. } => {
                if let Taken::Apart(part) = self.gathering.take(source, is_apart, part, now_ns) {
                    self.epochs.add_apart(part);
                }
                self.store();
            }
            Up::Last { node: named, part, again, stacks, .. } => {
                let own = Ranks::from(Rank(node.0));
                let is_own = |part: &Part| own.has_all(part.nodes()) && self.is_of(node, part.ranks());
                if node != named || !is_own(&part) || !again.iter().all(is_own) {
                    return self.lies(node);
                }
                if self.epochs.add_last(part) && !stacks.is_empty() {
                    self.events.push_back(Event::Stacks(stacks));
                }
                again.into_iter().for_each(|part| self.epochs.add_apart(part));
                self.store();
            }
        }
    }

    fn handle_here(&mut self, node: NodeId, named: NodeId, ranks: Ranks, now_ns: u64) {
        if node != named || !self.is_of(node, &ranks) {
            return self.lies(node);
        }
        self.here.insert(node, ranks.clone());
        if matches!(self.phase, Phase::Listening(_)) {
            self.advance(now_ns);
        } else {
            self.tree.join(node, ranks);
            if self.phase == Phase::Flowing {
                self.change(now_ns);
            }
        }
    }

    /// Whether all these ranks are on that node.
    fn is_of(&self, node: NodeId, ranks: &Ranks) -> bool {
        self.subject.nodes.get(&node).is_some_and(|own| own.has_all(ranks))
    }

    /// Whether all nodes that are in it are of the job.
    fn has_nodes(&self, part: &Part) -> bool {
        let (known, nodes) = (&self.subject.nodes, part.nodes());
        nodes.count() <= known.len() as u64 && nodes.iter().all(|node| known.contains_key(&NodeId(node.0)))
    }

    fn lies(&mut self, node: NodeId) {
        self.events.push_back(Event::Lie(node));
    }

    /// Goes on if there is nothing to wait for.
    fn advance(&mut self, now_ns: u64) {
        let is_lost = |node: &NodeId| self.lost.contains(node);
        if let Phase::Listening(until_ns) = self.phase {
            let all_here = self.subject.nodes.keys().all(|node| self.here.contains_key(node) || is_lost(node));
            if all_here || now_ns >= until_ns && !self.here.is_empty() {
                self.grow(now_ns);
            } else if now_ns >= until_ns {
                self.phase = Phase::Listening(now_ns.saturating_add(OVERLAY_START_NS));
            }
        }
        if let Phase::Starting(until_ns) = self.phase {
            let all_ready = self.tree.living().all(|(index, _)| self.ready.contains(&index));
            if all_ready || now_ns >= until_ns {
                self.phase = Phase::Flowing;
                let (processes, depth) = (self.tree.living().count() as u32, self.tree.depth());
                self.gathering = Gathering::new([], depth + 1);
                self.change(now_ns);
                self.events.push_back(Event::Started { processes, depth });
            }
        }
    }

    /// Makes the tree, and has its processes begin.
    fn grow(&mut self, now_ns: u64) {
        self.here.retain(|node, _| !self.lost.contains(node));
        let nodes = self.here.len() as u32;
        let mut count = nodes.div_ceil(FAN_OUT - 1).max(1);
        let tree = loop {
            let topology = self.topology(count);
            if let Some(tree) = Tree::new(&topology, &self.here, self.subject.size) {
                break tree;
            }
            // Too many are below one of them. If more of them do not help, the front end hears all itself.
            let is_given = matches!(self.subject.layout, Layout::Given(_));
            if is_given || count >= nodes.saturating_mul(2) {
                self.events.extend(is_given.then_some(Event::TooWide));
                let mut tree = Tree::default();
                self.here.iter().for_each(|(node, ranks)| tree.join(*node, ranks.clone()));
                break tree;
            }
            count *= 2;
        };
        self.tree = tree;
        // A file may name nodes that are not of the job, or have died.
        let are_not_there: BTreeSet<NodeId> =
            self.tree.living().map(|(_, it)| it.node).filter(|node| !self.here.contains_key(node)).collect();
        are_not_there.into_iter().for_each(|node| self.tree.lose(node));
        self.orders.extend(self.tree.begin(self.generation, &mut self.said));
        self.phase = Phase::Starting(now_ns.saturating_add(OVERLAY_START_NS));
    }

    /// So many processes, if nobody says more.
    fn topology(&self, count: u32) -> Topology {
        let nodes: Vec<NodeId> = self.here.keys().copied().collect();
        let placed = match &self.subject.layout {
            Layout::Given(topology) => return topology.clone(),
            Layout::Average => {
                let back_ends: Vec<u32> = self.here.values().map(|ranks| ranks.count() as u32).collect();
                best_effort_average(&back_ends, count)
            }
            Layout::Comprehensive(hosts) => {
                let unknown =
                    Host { load: 1.0, free_memory_bytes: 0, bandwidth: 0, distance: u32::MAX, back_ends: 0, cores: 1 };
                let hosts: Vec<Host> =
                    self.here.keys().map(|node| hosts.get(node).copied().unwrap_or(unknown)).collect();
                comprehensive(&hosts, count)
            }
        };
        Topology::over(&nodes.into_iter().zip(placed).collect::<Vec<_>>(), FAN_OUT)
    }

    /// Has the tree become what it is to be.
    fn change(&mut self, now_ns: u64) {
        let none = Children::new();
        let was = self.said.front_end().cloned().unwrap_or_default();
        self.orders.extend(self.tree.change(self.generation, &mut self.said));
        let is = self.said.front_end().unwrap_or(&none);
        let new = is.iter().filter(|(source, ranks)| was.get(source) != Some(ranks));
        let new: Vec<Child> = new.map(|(source, ranks)| Child { source: *source, ranks: ranks.clone() }).collect();
        // What it has not heard of yet it does not miss.
        let gone: Vec<Source> = was.keys().filter(|source| !is.contains_key(source)).copied().collect();
        let mut apart = Vec::new();
        gone.into_iter().for_each(|source| apart.extend(self.gathering.change(Some(source), [], now_ns)));
        apart.extend(self.gathering.change(None, new, now_ns));
        apart.into_iter().for_each(|part| self.epochs.add_apart(part));
        self.store();
    }

    /// A node of the job has died.
    pub fn node_lost(&mut self, node: NodeId, now_ns: u64) {
        if !self.lost.insert(node) || self.phase == Phase::Over {
            return;
        }
        self.here.remove(&node);
        self.orders.retain(|(to, _)| *to != node);
        self.tree.lose(node);
        match self.phase {
            Phase::Flowing => self.change(now_ns),
            _ => self.advance(now_ns),
        }
    }

    /// The job has ended, or nobody wants to know any more. What has come of epochs that are not whole is told.
    pub fn end(&mut self) {
        if self.phase != Phase::Over {
            self.phase = Phase::Over;
            self.gathering.close_all();
            self.store();
            self.events.extend(self.epochs.end().into_iter().map(Event::Epoch));
            let end = Down::End { generation: self.generation };
            self.orders.extend(self.here.keys().map(|node| (*node, end.clone())));
        }
    }

    /// Keeps what has come together, and what is to be added to it.
    fn store(&mut self) {
        while let Some(part) = self.gathering.poll() {
            self.events.push_back(Event::Epoch(self.epochs.close(part)));
        }
        let late = self.epochs.settle(self.gathering.closed_to());
        self.events.extend(late.into_iter().map(Event::Late));
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        match self.phase {
            Phase::Listening(until_ns) | Phase::Starting(until_ns) => Some(until_ns),
            Phase::Flowing => self.gathering.poll_timeout(),
            Phase::Over => None,
        }
    }

    /// Says what time it is.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.gathering.handle_timeout(now_ns);
        self.store();
    }
}
