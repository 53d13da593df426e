//! Overlays of a few nodes, on which everything arrives at once, but for what is lost.

mod bounds;
mod ends;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::topology::Topology;
use super::{
    Above, BackEnds, Down, Event, FrontEnd, Gathered, Layout, METRICS, Metric, NODE_METRICS, NodeMetric, NodeValues,
    Part, Process, Source, Stacks, Subject, Up,
};
use crate::ids::{NodeId, Rank};
use crate::limits::{OVERLAY_GRACE_NS, OVERLAY_STRANGERS_MAX};
use crate::ranks::Ranks;

/// Ranks of each node.
const EACH: u32 = 2;

/// How a node is.
fn of_node(node: NodeId) -> NodeValues {
    [u64::from(node.0) * 3 + 1; NODE_METRICS]
}

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

fn of_nodes(nodes: impl IntoIterator<Item = u32>) -> Ranks {
    let mut all = Ranks::default();
    nodes.into_iter().for_each(|node| assert!(all.join(&ranks(node))));
    all
}

impl Overlay {
    fn new(nodes: u32, file: &str) -> Self {
        let topology = Topology::parse(file).expect("a topology");
        let subject = Subject {
            size: nodes * EACH,
            nodes: (0..nodes).map(|node| (NodeId(node), ranks(node))).collect(),
            layout: Layout::Given(topology),
            period_ns: 1_000_000_000,
            sample_period_ns: 1_000_000,
        };
        let mut overlay = Self {
            front_end: FrontEnd::new(1, subject, 0),
            back_ends: (0..nodes).map(|node| (NodeId(node), BackEnds::new(1, NodeId(node), nodes))).collect(),
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
                    (Above::Process { index, node }, message) => {
                        let process = self.processes.get_mut(&(node, index)).filter(|_| !self.dead.contains(&node));
                        match (process, message) {
                            (Some(process), Up::Part { source, is_apart, part, .. }) => {
                                process.handle_part(source, is_apart, part, self.now_ns);
                            }
                            (Some(process), Up::Stacks { source, number, stacks, .. }) => {
                                process.handle_stacks(source, number, &stacks);
                            }
                            (None, Up::Part { .. } | Up::Stacks { .. }) => {}
                            (_, message) => panic!("{message:?}"),
                        }
                    }
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
            let gathered = Gathered { ranks: values.collect(), node: Some(of_node(node)), ..Gathered::default() };
            self.back_ends.get_mut(&node).expect("a node").submit(epoch, &gathered);
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

    /// Where ranks were in an epoch that is about to end: two together were in one place, and each in one of its own.
    fn be_somewhere(&mut self, nodes: impl IntoIterator<Item = u32>) {
        for node in nodes.into_iter().map(NodeId) {
            let stacks = |rank: u32| {
                let mut stacks = Stacks::default();
                stacks.add(&[0x40_0000, 0x40_1000], 1);
                stacks.add(&[0x50_0000 + u64::from(rank), 0x40_1000], 10);
                stacks
            };
            let all = ranks(node.0).of_job(u32::MAX).map(|rank| (rank, stacks(rank.0))).collect();
            self.back_ends.get_mut(&node).expect("a node").submit_stacks(&all);
        }
    }

    /// What has come of that, and in how many messages.
    fn stacks(&self) -> (Stacks, usize) {
        let (mut all, mut events) = (Stacks::default(), 0);
        for event in &self.events {
            if let Event::Stacks(stacks) = event {
                all.merge(stacks);
                events += 1;
            }
        }
        (all, events)
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
        // A node is there with some of its ranks, and with all of them in any case.
        let sum: u128 = part.nodes().iter().map(|node| u128::from(of_node(NodeId(node.0))[0])).sum();
        assert_eq!(part.node_summary(NodeMetric::MemoryFree).sum(), sum);
        for node in 0..self.back_ends.len() as u32 {
            let (own, is_in) = (ranks(node), part.nodes().has(Rank(node)));
            assert!(if is_in { part.ranks().has_any(&own) } else { !part.ranks().has_all(&own) }, "node {node}");
        }
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
    // Nor one that tells of nodes that the job has not.
    let part = Part::of_node(0, NodeId(2), &of_node(NodeId(2)));
    let lie = Up::Part { generation: 1, source: Source::Process(0), is_apart: false, part };
    overlay.front_end.handle(NodeId(0), lie, 0);
    overlay.settle();
    assert_eq!(overlay.events.last(), Some(&Event::Lie(NodeId(0))));
    // What back ends say of ranks that are not theirs is nothing either, and does not stay for ever.
    let process = overlay.processes.get_mut(&(NodeId(0), 0)).expect("a process");
    for epoch in 0..2 * OVERLAY_STRANGERS_MAX as u64 {
        process.handle_part(Source::BackEnds(NodeId(1)), false, Part::of(epoch, Rank(0), &[7; METRICS]), 0);
    }
    assert_eq!(process.refused_and_lost(), (OVERLAY_STRANGERS_MAX as u64, 0));
    // Nor what they say of another node.
    let mut own = Part::of(0, Rank(2), &[7; METRICS]);
    own.merge(&Part::of_node(0, NodeId(0), &of_node(NodeId(0)))).expect("nothing twice");
    process.handle_part(Source::BackEnds(NodeId(1)), false, own, 0);
    assert_eq!(process.refused_and_lost(), (OVERLAY_STRANGERS_MAX as u64 + 1, 0));
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
    let mut back_ends = BackEnds::new(1, NodeId(0), 4);
    back_ends.attach(ranks(0), above(0));
    back_ends.submit(5, &values.into());
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

#[test]
fn stacks_come_together_once_an_epoch() {
    let mut overlay = Overlay::new(5, FILE);
    for epoch in 0..3 {
        overlay.be_somewhere(0..5);
        overlay.end_epoch(epoch, 0..5);
        // All that was there when the epoch ended is with it, and all of it in one message.
        let (stacks, events) = overlay.stacks();
        let at = |address: u64| stacks.iter().find(|(stack, _)| stack[0] == address).map(|(_, count)| count);
        assert_eq!((stacks.samples(), events as u64), (10 * 11 * (epoch + 1), epoch + 1));
        assert_eq!((at(0x40_0000), at(0x50_0007)), (Some(10 * (epoch + 1)), Some(10 * (epoch + 1))));
    }
    // Of nothing nothing is said.
    overlay.end_epoch(3, 0..5);
    assert_eq!(overlay.stacks().1, 3);
    assert_eq!(overlay.front_end.refused_and_dropped(), (0, 0));
}

#[test]
fn stacks_that_come_late_go_with_the_next_epoch() {
    let mut overlay = Overlay::new(5, FILE);
    overlay.be_somewhere(0..4);
    overlay.end_epoch(0, 0..4);
    overlay.pass(3 * OVERLAY_GRACE_NS);
    overlay.pass(3 * OVERLAY_GRACE_NS);
    assert_eq!(overlay.stacks().0.samples(), 8 * 11);
    overlay.be_somewhere([4]);
    overlay.end_epoch(0, [4]);
    assert_eq!(overlay.stacks().0.samples(), 8 * 11, "they wait for an epoch that closes");
    overlay.end_epoch(1, 0..5);
    assert_eq!(overlay.stacks().0.samples(), 10 * 11);
}

/// What is said again of an epoch is so without the stacks, which may have come.
#[test]
fn stacks_are_lost_with_a_process_and_never_counted_twice() {
    let mut overlay = Overlay::new(5, FILE);
    overlay.be_somewhere(0..5);
    overlay.end_epoch(0, 0..5);
    // What ranks say to the process on node 1 in this epoch is lost with it.
    overlay.die(1);
    overlay.be_somewhere([0, 2, 3, 4]);
    overlay.end_epoch(1, [0, 2, 3, 4]);
    overlay.front_end.node_lost(NodeId(1), overlay.now_ns);
    overlay.settle();
    overlay.pass(9 * OVERLAY_GRACE_NS);
    let lost = 10 * 11 + 8 * 11 - overlay.stacks().0.samples();
    assert!(lost > 0 && lost <= 5 * 11, "{lost} were lost");
    overlay.be_somewhere([0, 2, 3, 4]);
    overlay.end_epoch(2, [0, 2, 3, 4]);
    assert_eq!(overlay.ranks_in(1).count(), 8);
    assert_eq!(overlay.stacks().0.samples(), 10 * 11 + 8 * 11 - lost + 8 * 11, "and everything again from then on");
}

#[test]
fn stacks_of_strangers_and_such_that_were_heard_are_refused() {
    let mut overlay = Overlay::new(2, "fe:0 => 0:0;");
    let mut stacks = Stacks::default();
    stacks.add(&[1, 2], 3);
    let say = |node: u32, number: u64| Up::Stacks {
        generation: 1,
        source: Source::BackEnds(NodeId(node)),
        number,
        stacks: stacks.clone(),
    };
    // The back ends are below the process, not below the front end, and on no other node than theirs.
    overlay.front_end.handle(NodeId(1), say(1, 1), 0);
    overlay.front_end.handle(NodeId(1), say(0, 1), 0);
    overlay.settle();
    assert_eq!(overlay.front_end.refused_and_dropped(), (1, 0));
    assert_eq!(overlay.events.last(), Some(&Event::Lie(NodeId(1))));
    let process = overlay.processes.get_mut(&(NodeId(0), 0)).expect("a process");
    process.handle_stacks(Source::BackEnds(NodeId(7)), 1, &stacks);
    process.handle_stacks(Source::Process(0), 1, &stacks);
    for number in [1, 2, 2, 1] {
        process.handle_stacks(Source::BackEnds(NodeId(1)), number, &stacks);
    }
    assert_eq!(process.refused_and_lost(), (4, 0));
    overlay.end_epoch(0, 0..2);
    assert_eq!(
        overlay.stacks(),
        (
            {
                let mut twice = stacks.clone();
                twice.merge(&stacks);
                twice
            },
            1
        )
    );
    // A node hears nobody who speaks for the back ends of another one.
    let mut node = super::Node::new(NodeId(0));
    let announce = Down::Announce { generation: 1, period_ns: 9, sample_period_ns: 4, size: 3 };
    assert_eq!(node.sample_period_ns(), None);
    assert!(node.handle_down(announce, &ranks(0), 0).is_some());
    assert_eq!(node.sample_period_ns(), Some(4));
    assert!(!node.handle_up(NodeId(2), 0, say(1, 1), 0) && node.handle_up(NodeId(1), 0, say(1, 1), 0));
    node.handle_down(Down::End { generation: 1 }, &ranks(0), 0);
    assert_eq!(node.sample_period_ns(), None);
}
