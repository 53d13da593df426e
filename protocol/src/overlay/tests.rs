//! Overlays of a few nodes, on which everything arrives at once, but for what is lost.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::topology::Topology;
use super::{Above, BackEnds, Down, Event, FrontEnd, Layout, METRICS, Metric, Part, Process, Source, Subject, Up};
use crate::ids::{NodeId, Rank};
use crate::limits::{OVERLAY_GRACE_NS, OVERLAY_STRANGERS_MAX};
use crate::ranks::Ranks;

/// Ranks of each node.
const EACH: u32 = 2;

struct Overlay {
    front_end: FrontEnd,
    back_ends: BTreeMap<NodeId, BackEnds>,
    processes: BTreeMap<(NodeId, u32), Process>,
    dead: BTreeSet<NodeId>,
    now_ns: u64,
    events: Vec<Event>,
    /// What nodes were told.
    told: Vec<(NodeId, Down)>,
}

fn ranks(node: u32) -> Ranks {
    Ranks::range(Rank(node * EACH), EACH)
}

impl Overlay {
    fn new(nodes: u32, file: &str) -> Self {
        let topology = Topology::parse(file).expect("a topology");
        let subject = Subject {
            size: nodes * EACH,
            nodes: (0..nodes).map(|node| (NodeId(node), ranks(node))).collect(),
            layout: Layout::Given(topology),
            period_ns: 1_000_000_000,
        };
        let mut overlay = Self {
            front_end: FrontEnd::new(1, subject, 0),
            back_ends: (0..nodes).map(|node| (NodeId(node), BackEnds::new(1, NodeId(node)))).collect(),
            processes: BTreeMap::new(),
            dead: BTreeSet::new(),
            now_ns: 0,
            events: Vec::new(),
            told: Vec::new(),
        };
        overlay.settle();
        overlay
    }

    fn hear(&mut self, node: NodeId, order: Down) {
        let answer = match order.clone() {
            Down::Announce { generation, .. } => Some(Up::Here { generation, node, ranks: ranks(node.0) }),
            Down::Begin { generation, index, above, height, children } => {
                self.processes.insert((node, index), Process::new(generation, index, above, height, children));
                Some(Up::Ready { generation, index })
            }
            Down::Attach { ranks, above, .. } => {
                self.back_ends.get_mut(&node).expect("a node").attach(ranks, above);
                None
            }
            Down::Move { index, above, .. } => {
                self.processes.get_mut(&(node, index)).expect("a process").turn_to(above);
                None
            }
            Down::Below { index, without, with, .. } => {
                self.processes.get_mut(&(node, index)).expect("a process").change(without, with, self.now_ns);
                None
            }
            Down::End { .. } => None,
        };
        self.told.push((node, order));
        if let Some(answer) = answer {
            self.front_end.handle(node, answer, self.now_ns);
        }
    }

    /// All that anybody has to say arrives, unless somebody is dead.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            while let Some((node, order)) = self.front_end.poll_transmit() {
                is_quiet = false;
                if !self.dead.contains(&node) {
                    self.hear(node, order);
                }
            }
            let mut said = VecDeque::new();
            for (node, back_ends) in self.back_ends.iter_mut().filter(|(node, _)| !self.dead.contains(node)) {
                said.extend(core::iter::from_fn(|| back_ends.poll_transmit()).map(|it| (*node, it)));
            }
            for ((node, _), process) in self.processes.iter_mut().filter(|((node, _), _)| !self.dead.contains(node)) {
                said.extend(core::iter::from_fn(|| process.poll_transmit()).map(|it| (*node, it)));
            }
            for (from, (above, message)) in said {
                is_quiet = false;
                match (above, message) {
                    (Above::FrontEnd, message) => self.front_end.handle(from, message, self.now_ns),
                    (Above::Process { index, node }, Up::Part { source, is_apart, part, .. }) => {
                        if let Some(process) =
                            self.processes.get_mut(&(node, index)).filter(|_| !self.dead.contains(&node))
                        {
                            process.handle_part(source, is_apart, part, self.now_ns);
                        }
                    }
                    (_, message) => panic!("{message:?}"),
                }
            }
            self.events.extend(core::iter::from_fn(|| self.front_end.poll_event()));
            if is_quiet {
                return;
            }
        }
    }

    /// An epoch ends on these nodes.
    fn end_epoch(&mut self, epoch: u64, nodes: impl IntoIterator<Item = u32>) {
        for node in nodes.into_iter().map(NodeId) {
            let own = ranks(node.0);
            let values = own.of_job(u32::MAX).map(|rank| (rank, [u64::from(rank.0) + 1; METRICS]));
            self.back_ends.get_mut(&node).expect("a node").submit(epoch, &values.collect());
        }
        self.settle();
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        for ((node, _), process) in &mut self.processes {
            if !self.dead.contains(node) {
                process.handle_timeout(self.now_ns);
            }
        }
        self.settle();
        self.front_end.handle_timeout(self.now_ns);
        self.settle();
    }

    fn die(&mut self, node: u32) {
        self.dead.insert(NodeId(node));
    }

    /// The ranks that are in an epoch by now, and that it is the sum over these.
    fn ranks_in(&self, epoch: u64) -> Ranks {
        let part = self.events.iter().rev().find_map(|event| match event {
            Event::Epoch(part) | Event::Late(part) if part.epoch() == epoch => Some(part),
            _ => None,
        });
        let Some(part) = part else { return Ranks::default() };
        let sum: u128 = part.ranks().of_job(u32::MAX).map(|rank| u128::from(rank.0) + 1).sum();
        assert_eq!(part.summary(Metric::Calls).sum(), sum);
        part.ranks().clone()
    }
}

/// Two on one level, and one above them.
const FILE: &str = "fe:0 => 0:0; 0:0 => 1:0 3:0;";

#[test]
fn it_starts_itself_and_brings_all_together() {
    let mut overlay = Overlay::new(5, FILE);
    assert_eq!(overlay.events, [Event::Started { processes: 3, depth: 2 }]);
    // First all are asked, then processes begin, then back ends are attached.
    let kinds = |kind: fn(&Down) -> bool| overlay.told.iter().filter(|(_, order)| kind(order)).count();
    assert_eq!(kinds(|order| matches!(order, Down::Announce { .. })), 5);
    assert_eq!(kinds(|order| matches!(order, Down::Begin { .. })), 3);
    // Ten ranks, of which each of two takes five: those of one node go two ways.
    assert_eq!(kinds(|order| matches!(order, Down::Attach { .. })), 6);
    assert_eq!(overlay.told.len(), 5 + 3 + 6);
    overlay.end_epoch(0, 0..5);
    assert_eq!(overlay.ranks_in(0), Ranks::range(Rank(0), 10));
    assert_eq!((overlay.events.len(), overlay.front_end.refused_and_dropped()), (2, (0, 0)));
    overlay.front_end.end();
    overlay.settle();
    assert_eq!(overlay.told.iter().filter(|(_, order)| matches!(order, Down::End { .. })).count(), 5);
}

#[test]
fn who_is_late_is_told_of_as_missing_and_added_when_he_comes() {
    let mut overlay = Overlay::new(5, FILE);
    overlay.end_epoch(0, [0, 1, 2, 3]);
    assert_eq!(overlay.ranks_in(0), Ranks::default(), "some are waited for");
    // Each waits a while for each process on the way to it.
    overlay.pass(3 * OVERLAY_GRACE_NS);
    overlay.pass(3 * OVERLAY_GRACE_NS);
    assert_eq!(overlay.ranks_in(0), Ranks::range(Rank(0), 8));
    overlay.end_epoch(0, [4]);
    assert_eq!(overlay.ranks_in(0), Ranks::range(Rank(0), 10));
    // Said once more it is there, and nothing new.
    let events = overlay.events.len();
    overlay.end_epoch(0, [4]);
    assert_eq!((overlay.events.len(), overlay.front_end.refused_and_dropped().1), (events, 0));
}

/// Node 1 has a process, which takes what it was sent with it, or has passed it on.
#[test]
fn what_a_process_takes_with_it_is_said_again_and_counted_once() {
    for has_passed_on in [false, true] {
        let mut overlay = Overlay::new(5, FILE);
        overlay.end_epoch(0, 0..5);
        if !has_passed_on {
            overlay.die(1);
        }
        overlay.end_epoch(1, [0, 2, 3, 4]);
        if has_passed_on {
            overlay.die(1);
            overlay.pass(9 * OVERLAY_GRACE_NS);
        }
        overlay.front_end.node_lost(NodeId(1), overlay.now_ns);
        overlay.settle();
        overlay.pass(9 * OVERLAY_GRACE_NS);
        let living: Ranks = [0, 1, 4, 5, 6, 7, 8, 9].map(Rank).into_iter().collect();
        assert!(overlay.ranks_in(1).has_all(&living), "{has_passed_on}: {:?}", overlay.ranks_in(1));
        overlay.end_epoch(2, [0, 2, 3, 4]);
        assert_eq!(overlay.ranks_in(2), living, "nobody is waited for who is not there");
        assert_eq!(overlay.ranks_in(0), Ranks::range(Rank(0), 10), "and what was there stays");
    }
}

#[test]
fn a_node_that_claims_ranks_of_others_is_not_heard() {
    let mut overlay = Overlay::new(2, "fe:0 => 0:0;");
    let lie = Up::Here { generation: 1, node: NodeId(1), ranks: ranks(0) };
    overlay.front_end.handle(NodeId(1), lie, 0);
    overlay.settle();
    assert_eq!(overlay.events.last(), Some(&Event::Lie(NodeId(1))));
    // Nor one that speaks for the process of another one, or for its back ends.
    for source in [Source::Process(0), Source::BackEnds(NodeId(0))] {
        let part = Part::of(0, Rank(0), &[7; METRICS]);
        let lie = Up::Part { generation: 1, source, is_apart: false, part };
        overlay.front_end.handle(NodeId(1), lie, 0);
    }
    overlay.front_end.handle(NodeId(1), Up::Ready { generation: 1, index: 0 }, 0);
    overlay.settle();
    assert_eq!(overlay.events.iter().filter(|event| **event == Event::Lie(NodeId(1))).count(), 4);
    // What back ends say of ranks that are not theirs is nothing either, and does not stay for ever.
    let process = overlay.processes.get_mut(&(NodeId(0), 0)).expect("a process");
    for epoch in 0..2 * OVERLAY_STRANGERS_MAX as u64 {
        process.handle_part(Source::BackEnds(NodeId(1)), false, Part::of(epoch, Rank(0), &[7; METRICS]), 0);
    }
    assert_eq!(process.refused_and_lost(), (OVERLAY_STRANGERS_MAX as u64, 0));
    overlay.end_epoch(0, 0..2);
    assert_eq!(overlay.ranks_in(0), Ranks::range(Rank(0), 4));
}

/// Nodes that are not there when it starts, and come later; and a topology that names one that is not of the job.
#[test]
fn the_tree_is_of_those_that_are_there() {
    let mut overlay = Overlay::new(3, "fe:0 => 0:0; 0:0 => 1:0 9:0;");
    assert_eq!(overlay.events, [Event::Started { processes: 2, depth: 2 }]);
    overlay.end_epoch(0, 0..3);
    assert_eq!(overlay.ranks_in(0), Ranks::range(Rank(0), 6));
}

/// Whether some of it has come by the one that died only the front end knows: brought together with what has not, it
/// would be lost with it.
#[test]
fn what_is_said_again_stays_as_it_was_said() {
    let child = |node: u32| super::Child { source: Source::BackEnds(NodeId(node)), ranks: ranks(node) };
    let above = |index: u32| Above::Process { index, node: NodeId(7) };
    let values = BTreeMap::from([(Rank(0), [3; METRICS]), (Rank(1), [4; METRICS])]);
    let mut back_ends = BackEnds::new(1, NodeId(0));
    back_ends.attach(ranks(0), above(0));
    back_ends.submit(5, &values);
    let Some((_, Up::Part { is_apart: false, part, .. })) = back_ends.poll_transmit() else { panic!("it is sent") };
    back_ends.attach(ranks(0), above(1));
    let Some((to, again)) = back_ends.poll_transmit() else { panic!("it is sent again") };
    let wanted = Up::Part { generation: 1, source: Source::BackEnds(NodeId(0)), is_apart: true, part: part.clone() };
    assert_eq!((to, &again), (above(1), &wanted));
    // Its new process waits for others in that epoch, and hands it on as it is.
    let mut process = Process::new(1, 1, Above::FrontEnd, 1, [child(0), child(1)].into());
    let other = Part::of(5, Rank(2), &[9; METRICS]);
    process.handle_part(Source::BackEnds(NodeId(1)), false, other, 0);
    process.handle_part(Source::BackEnds(NodeId(0)), true, part.clone(), 0);
    let Some((_, Up::Part { is_apart, part: passed_on, .. })) = process.poll_transmit() else { panic!("at once") };
    assert!(is_apart && passed_on == part);
    assert_eq!(process.poll_transmit(), None, "the other one waits");
}
