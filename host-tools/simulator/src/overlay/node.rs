//! A node: what a node's kernel runs of an overlay, and what may be wrong with it.

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::{self, Down, METRICS, Up, Values};
use coppice_protocol::ranks::Ranks;

pub(super) struct Node {
    pub(super) ranks: Ranks,
    pub(super) part: overlay::Node,
    pub(super) is_dead: bool,
    /// It says that it is there so much later than it is asked, ns.
    pub(super) late_ns: u64,
    /// It says that a rank of another node is its own, too.
    pub(super) lies: bool,
}

/// What a rank does in an epoch: nothing that two ranks or two epochs have in common.
pub(super) fn values(rank: u32, epoch: u64) -> Values {
    let mut values = [0; METRICS];
    for (metric, value) in (0..).zip(&mut values) {
        *value = (u64::from(rank) + 1) * 1_000_003 + epoch * 7919 + metric;
    }
    values
}

impl Node {
    pub(super) fn new(id: NodeId, ranks: Ranks) -> Self {
        Self { ranks, part: overlay::Node::new(id), is_dead: false, late_ns: 0, lies: false }
    }

    /// The front end says something. What the node says to it at once.
    pub(super) fn handle_down(&mut self, order: Down, now_ns: u64) -> Option<Up> {
        let ranks = if self.lies { Ranks::range(Rank(0), u32::MAX) } else { self.ranks.clone() };
        self.part.handle_down(order, &ranks, now_ns)
    }

    /// An epoch has ended. Whether anything was said of it.
    pub(super) fn end_epoch(&mut self, epoch: u64, size: u32) -> bool {
        let all = self.ranks.of_job(size).map(|rank| (rank, values(rank.0, epoch))).collect();
        self.part.submit(epoch, &all);
        self.part.are_heard()
    }
}
