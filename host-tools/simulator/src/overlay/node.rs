//! A node: its back ends, and the communication processes on it.

use std::collections::BTreeMap;

use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::overlay::{Above, BackEnds, Down, Generation, METRICS, Process, Up, Values};
use coppice_protocol::ranks::Ranks;

pub(super) struct Node {
    id: NodeId,
    pub(super) ranks: Ranks,
    generation: Generation,
    back_ends: BackEnds,
    processes: BTreeMap<u32, Process>,
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
        Self {
            id,
            ranks,
            generation: 0,
            back_ends: BackEnds::new(0, id),
            processes: BTreeMap::new(),
            is_dead: false,
            late_ns: 0,
            lies: false,
        }
    }

    /// The front end says something. What the node says to it at once.
    pub(super) fn handle_down(&mut self, order: Down, now_ns: u64) -> Option<Up> {
        if let Down::Announce { generation, .. } = order
            && generation > self.generation
        {
            self.generation = generation;
            self.back_ends = BackEnds::new(generation, self.id);
            self.processes.clear();
            let ranks = if self.lies { Ranks::range(Rank(0), u32::MAX) } else { self.ranks.clone() };
            return Some(Up::Here { generation, node: self.id, ranks });
        }
        if order.generation() != self.generation {
            return None;
        }
        match order {
            Down::Announce { .. } => {}
            Down::Begin { generation, index, above, height, children } => {
                self.processes.insert(index, Process::new(generation, index, above, height, children));
                return Some(Up::Ready { generation, index });
            }
            Down::Attach { ranks, above, .. } => self.back_ends.attach(ranks, above),
            Down::Move { index, above, .. } => {
                if let Some(process) = self.processes.get_mut(&index) {
                    process.turn_to(above);
                }
            }
            Down::Below { index, without, with, .. } => {
                if let Some(process) = self.processes.get_mut(&index) {
                    process.change(without, with, now_ns);
                }
            }
            Down::End { .. } => {
                self.back_ends = BackEnds::new(self.generation, self.id);
                self.processes.clear();
            }
        }
        None
    }

    /// Somebody below one of its processes says something.
    pub(super) fn handle_up(&mut self, index: u32, message: Up, now_ns: u64) {
        if message.generation() != self.generation {
            return;
        }
        if let (Up::Part { source, is_apart, part, .. }, Some(process)) = (message, self.processes.get_mut(&index)) {
            process.handle_part(source, is_apart, part, now_ns);
        }
    }

    /// An epoch has ended. The ranks of which something was said.
    pub(super) fn end_epoch(&mut self, epoch: u64, size: u32) -> bool {
        let all = self.ranks.of_job(size).map(|rank| (rank, values(rank.0, epoch))).collect();
        self.back_ends.submit(epoch, &all);
        self.back_ends.are_attached()
    }

    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        self.processes.values_mut().for_each(|process| process.handle_timeout(now_ns));
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.processes.values().filter_map(Process::poll_timeout).min()
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(Above, Up)> {
        let of_processes = self.processes.values_mut().find_map(Process::poll_transmit);
        of_processes.or_else(|| self.back_ends.poll_transmit())
    }
}
