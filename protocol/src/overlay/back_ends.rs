//! The back ends of a node: what its ranks did in an epoch goes to the processes that they are attached to.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::counters::{CounterName, Counters};
use super::message::{Above, Generation, Source, Up};
use super::node_metric::NodeValues;
use super::part::{Part, Values};
use super::sending::Sending;
use super::stacks::Stacks;
use super::tally::Tallies;
use super::totals::SoFar;
use crate::ids::{NodeId, Rank};
use crate::limits::OVERLAY_LAST_PARTS_MAX;
use crate::ranks::Ranks;

/// What a rank did since an epoch was said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deeds {
    /// By metric.
    pub values: Values,
    /// Counters that it offers.
    pub counters: Vec<(CounterName, u64)>,
    /// What of it is tallied.
    pub tallies: Tallies,
}

/// What a node has gathered of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// What its ranks did.
    pub ranks: BTreeMap<Rank, Values>,
    /// Counters that they offer.
    pub counters: BTreeMap<Rank, Vec<(CounterName, u64)>>,
    /// What of it is tallied.
    pub tallies: BTreeMap<Rank, Tallies>,
    /// How the node itself was.
    pub node: Option<NodeValues>,
}

impl Gathered {
    /// Nothing.
    const fn none() -> Self {
        Self { ranks: BTreeMap::new(), counters: BTreeMap::new(), tallies: BTreeMap::new(), node: None }
    }
}

impl From<BTreeMap<Rank, Values>> for Gathered {
    /// What ranks did, and nothing else.
    fn from(ranks: BTreeMap<Rank, Values>) -> Self {
        Self { ranks, ..Self::default() }
    }
}

/// See this module.
#[derive(Debug)]
pub struct BackEnds {
    generation: Generation,
    node: NodeId,
    /// Ranks that speak to the same process, and what goes there.
    groups: Vec<(Ranks, Sending)>,
    /// Ranks of the job.
    size: u32,
    so_far: SoFar,
    /// What ranks did that have ended since an epoch was said last, …
    ended: Gathered,
    /// … and where their programs were.
    ended_stacks: Stacks,
    /// How many messages about stacks they have said.
    stacks_said: u64,
}

impl BackEnds {
    /// Of a node, attached to nobody, in a job of so many ranks.
    #[must_use]
    pub const fn new(generation: Generation, node: NodeId, size: u32) -> Self {
        Self {
            generation,
            node,
            groups: Vec::new(),
            size,
            so_far: SoFar::none(),
            ended: Gathered::none(),
            ended_stacks: Stacks::none(),
            stacks_said: 0,
        }
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

    /// A rank has ended, and has done this since an epoch was said last.
    pub fn ended(&mut self, rank: Rank, did: Deeds, stacks: &Stacks) {
        let Deeds { values, counters, tallies } = did;
        self.so_far.add(rank, &values, Some(&tallies));
        self.ended.ranks.insert(rank, values);
        if !counters.is_empty() {
            self.ended.counters.insert(rank, counters);
        }
        self.ended_stacks.merge(stacks);
    }

    /// The last rank of the node has ended: what those did that have since an epoch was said, which is no longer said
    /// otherwise, and what may still be on its way of those before `epoch`, which is now. An epoch may have ended since
    /// the last rank has: then what that did is there. Nothing, if nothing was said.
    pub fn last(&mut self, epoch: u64) -> Option<Up> {
        let Self { generation, node, .. } = *self;
        let ended = core::mem::take(&mut self.ended);
        let part = self.part_of(Part::none(epoch), &ended, |_| true);
        let mut stacks = core::mem::take(&mut self.ended_stacks);
        let mut again = Vec::new();
        for (_, sending) in &mut self.groups {
            stacks.merge(&sending.take_stacks());
            let room = OVERLAY_LAST_PARTS_MAX - again.len();
            again
                .extend(sending.since(epoch.saturating_sub(2)).filter(|part| part.epoch() < epoch).take(room).cloned());
        }
        let is_any = part.ranks().count() > 0 || !again.is_empty();
        is_any.then_some(Up::Last { generation, node, part, again, stacks })
    }

    /// What ranks did in an epoch, which has ended. Of those that nobody hears nothing is said; of those that are gone
    /// is said that there is nothing, so that nobody waits for them. The node itself goes with its first group.
    pub fn submit(&mut self, epoch: u64, gathered: &Gathered) {
        let ended = core::mem::take(&mut self.ended);
        for (rank, values) in &gathered.ranks {
            self.so_far.add(*rank, values, gathered.tallies.get(rank));
        }
        let mut of_node = gathered.node.as_ref().map(|values| Part::of_node(epoch, self.node, values));
        let mut groups = core::mem::take(&mut self.groups);
        for (ranks, sending) in &mut groups {
            let part = of_node.take().unwrap_or_else(|| Part::none(epoch));
            let part = self.part_of(part, &ended, |rank| ranks.has(rank));
            sending.send(false, self.part_of(part, gathered, |rank| ranks.has(rank)));
        }
        self.groups = groups;
    }

    /// A part, and with it what was gathered of some ranks, none of which is in it.
    fn part_of(&self, mut part: Part, gathered: &Gathered, is_in: impl Fn(Rank) -> bool) -> Part {
        let epoch = part.epoch();
        for (rank, values) in gathered.ranks.iter().filter(|(rank, _)| is_in(**rank)) {
            let counters = gathered.counters.get(rank).into_iter().flatten().copied();
            let totals = self.so_far.told(*rank, epoch, self.size);
            let one = Part::of(epoch, *rank, values).with(Counters::of(*rank, counters)).with_totals(totals);
            // Ranks are different ones, and as many ranges as the group has.
            if part.merge(&one).is_err() {
                break;
            }
        }
        part
    }

    /// Where ranks were in an epoch, which has ended; to be called before [`Self::submit`] for that. Of those that
    /// nobody hears nothing is said.
    pub fn submit_stacks(&mut self, stacks: &BTreeMap<Rank, Stacks>) {
        for (ranks, sending) in &mut self.groups {
            // Nobody asks any more of which of them they are.
            sending.add_stacks(&core::mem::take(&mut self.ended_stacks));
            for (_, stacks) in stacks.iter().filter(|(rank, _)| ranks.has(**rank)) {
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

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{BackEnds, Gathered};
    use crate::ids::{NodeId, Rank};
    use crate::overlay::{Above, METRICS, NODE_METRICS, NodeMetric, Part, Up};
    use crate::ranks::Ranks;

    /// What a node of which these are the groups of ranks, from `first` on, says of an epoch.
    fn parts(node: NodeId, first: u32, groups: &[u32]) -> Vec<Part> {
        let mut back_ends = BackEnds::new(1, node, 200);
        let (mut next, mut ranks) = (first, BTreeMap::new());
        for (index, count) in (0..).zip(groups) {
            back_ends.attach(Ranks::range(Rank(next), *count), Above::Process { index, node });
            // The first of them is gone.
            ranks.extend((next + 1..next + count).map(|rank| (Rank(rank), [1; METRICS])));
            next += count;
        }
        let gathered = Gathered { ranks, node: Some([7; NODE_METRICS]), ..Gathered::default() };
        back_ends.submit(3, &gathered);
        let of = |(_, up)| if let Up::Part { part, .. } = up { Some(part) } else { None };
        core::iter::from_fn(|| back_ends.poll_transmit()).filter_map(of).collect()
    }

    proptest! {
        #[test]
        fn a_node_is_in_one_of_its_parts_and_parts_overlap_if_at_all_in_their_ranks(
            nodes in vec(vec(1_u32..4, 0..4), 0..6),
        ) {
            let mut all: Vec<Part> = Vec::new();
            for (node, groups) in (0..).zip(&nodes) {
                let own = parts(NodeId(node), node * 20, groups);
                prop_assert_eq!(own.len(), groups.len());
                let with = own.iter().filter(|part| part.nodes() == &Ranks::from(Rank(node))).count();
                prop_assert_eq!(with, usize::from(!groups.is_empty()));
                prop_assert_eq!(own.iter().map(|part| part.nodes().count()).sum::<u64>(), with as u64);
                all.extend(own);
            }
            for (place, part) in all.iter().enumerate() {
                prop_assert!(!all[place + 1..].iter().any(|other| part.nodes().has_any(other.nodes())));
            }
            // In any order they come together, each node once.
            let (mut whole, mut reverse) = (Part::none(3), Part::none(3));
            all.iter().for_each(|part| assert_eq!(whole.merge(part), Ok(())));
            all.iter().rev().for_each(|part| assert_eq!(reverse.merge(part), Ok(())));
            prop_assert_eq!(&whole, &reverse);
            let heard = nodes.iter().filter(|groups| !groups.is_empty()).count() as u64;
            prop_assert_eq!(whole.nodes().count(), heard);
            prop_assert_eq!(whole.node_summary(NodeMetric::Tasks).sum(), u128::from(7 * heard));
        }
    }
}
