//! A node's part of an overlay: its back ends, and the communication processes on it.

use alloc::collections::BTreeMap;

use super::back_ends::{BackEnds, Deeds, Gathered};
use super::message::{Above, Down, Generation, Source, Up};
use super::process::Process;
use super::stacks::Stacks;
use crate::ids::{NodeId, Rank};
use crate::limits::OVERLAY_NODE_PROCESSES_MAX;
use crate::ranks::Ranks;

/// See this module. What the front end, processes elsewhere and ranks say, and time, go in; messages come out.
#[derive(Debug)]
pub struct Node {
    id: NodeId,
    generation: Generation,
    period_ns: u64,
    sample_period_ns: u64,
    back_ends: BackEnds,
    processes: BTreeMap<u32, Process>,
    /// It was told to begin more processes than it may have.
    refused: u64,
}

impl Node {
    /// One of which no front end wants to know anything yet.
    #[must_use]
    pub const fn new(id: NodeId) -> Self {
        Self {
            id,
            generation: 0,
            period_ns: 0,
            sample_period_ns: 0,
            back_ends: BackEnds::new(0, id, 0),
            processes: BTreeMap::new(),
            refused: 0,
        }
    }

    /// The front end says something, perhaps once more; `ranks` run here. What is to be said to it at once.
    pub fn handle_down(&mut self, order: Down, ranks: &Ranks, now_ns: u64) -> Option<Up> {
        let Self { id: node, generation: current, .. } = *self;
        match order {
            Down::Announce { generation, period_ns, sample_period_ns, size }
                if generation >= current && period_ns > 0 =>
            {
                if generation > current {
                    self.end();
                    self.generation = generation;
                    self.back_ends = BackEnds::new(generation, node, size);
                    self.period_ns = period_ns;
                    self.sample_period_ns = sample_period_ns;
                }
                // A front end that asks again has not heard it.
                return Some(Up::Here { generation, node, ranks: ranks.clone() });
            }
            order if order.generation() != current => {}
            Down::Announce { .. } => {}
            Down::Begin { generation, index, above, height, children } => {
                if !self.processes.contains_key(&index) {
                    if self.processes.len() >= OVERLAY_NODE_PROCESSES_MAX {
                        self.refused += 1;
                        return None;
                    }
                    self.processes.insert(index, Process::new(generation, index, above, height, children));
                }
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
            Down::End { .. } => self.end(),
        }
        None
    }

    /// Somebody on the node `from` says something to a process here. False: what it says cannot be.
    pub fn handle_up(&mut self, from: NodeId, index: u32, message: Up, now_ns: u64) -> bool {
        if message.generation() != self.generation {
            return true;
        }
        let source = match &message {
            Up::Part { source, .. } | Up::Stacks { source, .. } => *source,
            Up::Here { .. } | Up::Ready { .. } | Up::Last { .. } => return false,
        };
        // Which node a process is on only the front end knows.
        if matches!(source, Source::BackEnds(node) if node != from) {
            return false;
        }
        match (self.processes.get_mut(&index), message) {
            (Some(process), Up::Part { is_apart, part, .. }) => process.handle_part(source, is_apart, part, now_ns),
            (Some(process), Up::Stacks { number, stacks, .. }) => process.handle_stacks(source, number, &stacks),
            _ => {}
        }
        true
    }

    /// Where the ranks here were in an epoch that has ended; before [`Self::submit`].
    pub fn submit_stacks(&mut self, stacks: &BTreeMap<Rank, Stacks>) {
        self.back_ends.submit_stacks(stacks);
    }

    /// An epoch has ended, in which the ranks here did this.
    pub fn submit(&mut self, epoch: u64, gathered: &Gathered) {
        self.back_ends.submit(epoch, gathered);
    }

    /// A rank here has ended, and has done this since an epoch was said last.
    pub fn ended(&mut self, rank: Rank, did: Deeds, stacks: &Stacks) {
        if self.period_ns > 0 {
            self.back_ends.ended(rank, did, stacks);
        }
    }

    /// The last rank here has ended, in this epoch: what is to be said to the front end of it, before it hears of that
    /// end.
    pub fn last(&mut self, epoch: u64) -> Option<Up> {
        self.back_ends.last(epoch)
    }

    /// Whether anybody wants to know what its ranks do.
    #[must_use]
    pub fn are_heard(&self) -> bool {
        self.back_ends.are_attached()
    }

    /// Length of an epoch, ns; nothing if there is no overlay.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        (self.period_ns > 0).then_some(self.period_ns)
    }

    /// How often it is looked where threads are, ns of their time in their programs; nothing if nobody wants to know.
    #[must_use]
    pub fn sample_period_ns(&self) -> Option<u64> {
        (self.period_ns > 0 && self.sample_period_ns > 0).then_some(self.sample_period_ns)
    }

    /// Which start of the overlay it has a part in.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// How many processes are here.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Parts and stacks that processes here did not take, and parts for which there was no room; and processes that
    /// were refused.
    #[must_use]
    pub fn refused_and_lost(&self) -> (u64, u64) {
        let all = self.processes.values().map(Process::refused_and_lost);
        all.fold((self.refused, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// That was all, until another start.
    fn end(&mut self) {
        self.back_ends = BackEnds::new(self.generation, self.id, 0);
        self.processes.clear();
        (self.period_ns, self.sample_period_ns) = (0, 0);
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.processes.values().filter_map(Process::poll_timeout).min()
    }

    /// Says what time it is.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.processes.values_mut().for_each(|process| process.handle_timeout(now_ns));
    }

    /// The next message, and for whom it is: never for a process here.
    pub fn poll_transmit(&mut self, now_ns: u64) -> Option<(Above, Up)> {
        loop {
            let of_processes = self.processes.values_mut().find_map(Process::poll_transmit);
            let (above, message) = of_processes.or_else(|| self.back_ends.poll_transmit())?;
            match above {
                Above::Process { index, node } if node == self.id => {
                    self.handle_up(node, index, message, now_ns);
                }
                _ => return Some((above, message)),
            }
        }
    }
}
