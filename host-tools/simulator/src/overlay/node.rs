//! A node: what a node's kernel runs of an overlay, and what may be wrong with it.

use std::collections::BTreeMap;

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::{
    self, CounterName, Deeds, Down, Gathered, METRICS, NODE_METRICS, NodeValues, Stacks, Tallies, Up, Values,
};
use coppice_protocol::ranks::Ranks;

pub(super) struct Node {
    id: NodeId,
    pub(super) ranks: Ranks,
    pub(super) part: overlay::Node,
    pub(super) is_dead: bool,
    /// It says that it is there so much later than it is asked, ns.
    pub(super) late_ns: u64,
    /// It says that a rank of another node is its own, too.
    pub(super) lies: bool,
    /// What its ranks have done since the overlay began on it.
    pub(super) so_far: BTreeMap<Rank, SoFar>,
}

/// What a rank does in an epoch: nothing that two ranks or two epochs have in common.
pub(super) fn values(rank: u32, epoch: u64) -> Values {
    let mut values = [0; METRICS];
    // Some of it most ranks do not do at all.
    let metrics = if rank.is_multiple_of(8) { METRICS } else { METRICS / 2 };
    for (metric, value) in (0..).zip(&mut values[..metrics]) {
        *value = (u64::from(rank) + 1) * 1_000_003 + epoch * 7919 + metric;
    }
    values
}

/// Nodes to which a rank sent bytes in an epoch, and how many.
pub(super) fn sent_to(rank: u32, epoch: u64) -> [(NodeId, u64); 2] {
    [(NodeId(rank % 7), epoch % 5), (NodeId(rank % 7 + 1), u64::from(rank) + epoch)]
}

/// How often a rank made a call in an epoch, by its number.
pub(super) fn calls(rank: u32, epoch: u64) -> [(u16, u64); 2] {
    [((rank % 5) as u16, epoch % 3), (7, u64::from(rank) + 1)]
}

/// What a rank has done in several epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SoFar {
    pub(super) values: Values,
    pub(super) sent_to: BTreeMap<NodeId, u64>,
    pub(super) calls: BTreeMap<u16, u64>,
}

/// Where a rank was in an epoch, and how often: nowhere where another one was.
pub(super) fn place(rank: u32, epoch: u64) -> (u64, u64) {
    (0x40_0000 + u64::from(rank), 1 + epoch % 3)
}

fn stacks(rank: u32, epoch: u64) -> Stacks {
    let (mut stacks, (address, count)) = (Stacks::default(), place(rank, epoch));
    stacks.add(&[address, 0x40_1000][..1 + (rank % 2) as usize], count);
    stacks
}

/// How a node is at the end of an epoch.
pub(super) fn node_values(node: u32, epoch: u64) -> NodeValues {
    [(u64::from(node) + 1) * 5003 + epoch; NODE_METRICS]
}

/// What a rank offers, if it offers anything.
pub(super) fn counter(rank: u32, epoch: u64) -> Option<u64> {
    (rank % 3 == 1).then_some(u64::from(rank) * epoch)
}

fn tallies(rank: u32, epoch: u64) -> Tallies {
    let mut tallies = Tallies::default();
    sent_to(rank, epoch).into_iter().for_each(|(node, bytes)| tallies.sent_to.add(Some(node), bytes));
    calls(rank, epoch).into_iter().for_each(|(number, times)| tallies.calls.add(Some(number), times));
    tallies
}

impl Node {
    pub(super) fn new(id: NodeId, ranks: Ranks) -> Self {
        Self {
            id,
            ranks,
            part: overlay::Node::new(id),
            is_dead: false,
            late_ns: 0,
            lies: false,
            so_far: BTreeMap::new(),
        }
    }

    /// The front end says something. What the node says to it at once.
    pub(super) fn handle_down(&mut self, order: Down, now_ns: u64) -> Option<Up> {
        let ranks = if self.lies { Ranks::range(Rank(0), u32::MAX) } else { self.ranks.clone() };
        let before = self.part.generation();
        let answer = self.part.handle_down(order, &ranks, now_ns);
        if self.part.generation() != before {
            self.so_far.clear();
        }
        answer
    }

    /// An epoch has ended. Whether anything was said of it.
    pub(super) fn end_epoch(&mut self, epoch: u64, size: u32) -> bool {
        let places = self.ranks.of_job(size).map(|rank| (rank, stacks(rank.0, epoch))).collect();
        self.part.submit_stacks(&places);
        let name = CounterName::new(b"steps").expect("a name");
        let ranks = || self.ranks.of_job(size);
        let gathered = Gathered {
            ranks: ranks().map(|rank| (rank, values(rank.0, epoch))).collect(),
            counters: ranks().filter_map(|rank| Some((rank, vec![(name, counter(rank.0, epoch)?)]))).collect(),
            tallies: ranks().map(|rank| (rank, tallies(rank.0, epoch))).collect(),
            node: Some(node_values(self.id.0, epoch)),
        };
        gathered.ranks.keys().for_each(|rank| self.add(*rank, epoch));
        self.part.submit(epoch, &gathered);
        self.part.are_heard()
    }

    /// All ranks end amid an epoch. What is said of that, if anybody wants to know: before the epoch ends, or only
    /// then.
    pub(super) fn end(&mut self, epoch: u64, size: u32, is_late: bool) -> Option<Up> {
        let name = CounterName::new(b"steps").expect("a name");
        for rank in self.ranks.clone().of_job(size) {
            let counters = counter(rank.0, epoch).map(|value| (name, value)).into_iter().collect();
            let did = Deeds { values: values(rank.0, epoch), counters, tallies: tallies(rank.0, epoch) };
            self.part.ended(rank, did, &stacks(rank.0, epoch));
            self.add(rank, epoch);
        }
        if !is_late || !self.part.are_heard() {
            return self.part.last(epoch);
        }
        self.part.submit_stacks(&BTreeMap::new());
        self.part.submit(epoch, &Gathered::default());
        self.part.last(epoch + 1)
    }

    fn add(&mut self, rank: Rank, epoch: u64) {
        let so_far = self.so_far.entry(rank).or_default();
        so_far.values.iter_mut().zip(values(rank.0, epoch)).for_each(|(so_far, value)| *so_far += value);
        sent_to(rank.0, epoch).into_iter().for_each(|(node, bytes)| *so_far.sent_to.entry(node).or_default() += bytes);
        calls(rank.0, epoch).into_iter().for_each(|(number, times)| *so_far.calls.entry(number).or_default() += times);
    }
}
