//! The back ends of a node: what its ranks did in an epoch goes to the processes that they are attached to.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::message::{Above, Generation, Source, Up};
use super::part::{Part, Values};
use super::sending::Sending;
use super::stacks::Stacks;
use crate::ids::{NodeId, Rank};
use crate::ranks::Ranks;

/// See this module.
#[derive(Debug)]
pub struct BackEnds {
    generation: Generation,
    node: NodeId,
    /// Ranks that speak to the same process, and what goes there.
    groups: Vec<(Ranks, Sending)>,
    /// How many messages about stacks they have said.
    stacks_said: u64,
}

impl BackEnds {
    /// Of a node, attached to nobody.
    #[must_use]
    pub const fn new(generation: Generation, node: NodeId) -> Self {
        Self { generation, node, groups: Vec::new(), stacks_said: 0 }
    }

    /// Whether somebody hears them.
    #[must_use]
    pub fn are_attached(&self) -> bool {
        !self.groups.is_empty()
    }

    /// These ranks speak to that one, as [`super::Down::Attach`] says. A group that has spoken to another one moves as
    /// a whole, with what it has kept.
    pub fn attach(&mut self, ranks: Ranks, above: Above) {
        match self.groups.iter_mut().find(|(group, _)| *group == ranks) {
            Some((_, sending)) if sending.above() == above => {}
            Some((_, sending)) => sending.turn_to(above),
            None => {
                self.groups.retain(|(group, _)| !group.has_any(&ranks));
                let sending = Sending::new(self.generation, Source::BackEnds(self.node), above);
                self.groups.push((ranks, sending));
            }
        }
    }

    /// What ranks did in an epoch, which has ended. Of those that nobody hears nothing is said; of those that are gone
    /// is said that there is nothing, so that nobody waits for them.
    pub fn submit(&mut self, epoch: u64, values: &BTreeMap<Rank, Values>) {
        for (ranks, sending) in &mut self.groups {
            let mut part = Part::none(epoch);
            for (rank, values) in values.iter().filter(|(rank, _)| ranks.has_all(&Ranks::from(**rank))) {
                // Ranks are different ones, and as many ranges as the group has.
                if part.merge(&Part::of(epoch, *rank, values)).is_err() {
                    break;
                }
            }
            sending.send(false, part);
        }
    }

    /// Where ranks were in an epoch, which has ended; to be called before [`Self::submit`] for that. Of those that
    /// nobody hears nothing is said.
    pub fn submit_stacks(&mut self, stacks: &BTreeMap<Rank, Stacks>) {
        for (ranks, sending) in &mut self.groups {
            for (_, stacks) in stacks.iter().filter(|(rank, _)| ranks.has_all(&Ranks::from(**rank))) {
                sending.add_stacks(stacks);
            }
            sending.send_stacks();
        }
    }

    /// The next message, and for whom it is.
    pub fn poll_transmit(&mut self) -> Option<(Above, Up)> {
        let Self { generation, node, .. } = *self;
        if let Some((above, stacks)) = self.groups.iter_mut().find_map(|(_, sending)| sending.poll_stacks()) {
            self.stacks_said += 1;
            let (source, number) = (Source::BackEnds(node), self.stacks_said);
            return Some((above, Up::Stacks { generation, source, number, stacks }));
        }
        self.groups.iter_mut().find_map(|(_, sending)| sending.poll())
    }
}
