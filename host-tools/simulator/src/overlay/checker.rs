//! What is said of epochs is true.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coppice_protocol::ids::Rank;
use coppice_protocol::overlay::{Metric, NodeMetric, Part, Stacks, TopTallies, is_turn};
use coppice_protocol::ranks::Ranks;

use super::Job;
use super::node::{SoFar, counter, node_values, place, values};
use crate::checkers::{Violation, ensure};

/// What ranks have said, and what of it has come.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// Whose it was when an epoch ended, of those that somebody heard then.
    pub(super) said: BTreeMap<u64, Ranks>,
    /// Whose it is by now.
    heard: BTreeMap<u64, Ranks>,
    /// Where ranks were and were not yet heard to be, and how often.
    unheard: BTreeMap<u64, u64>,
    /// What ranks had done at the end of an epoch.
    so_far: BTreeMap<(u64, Rank), SoFar>,
    /// The epoch in which ranks end: of nodes nothing is said there.
    pub(super) last: u64,
}

impl Checker {
    /// The front end says what ranks did in an epoch.
    pub(super) fn hear(&mut self, part: &Part, job: &Job) -> Result<(), Violation> {
        let epoch = part.epoch();
        let nobody = Ranks::default();
        let said = self.said.get(&epoch).unwrap_or(&nobody);
        ensure(said.has_all(part.ranks()), || {
            format!("{:?} are in epoch {epoch}, to which {said:?} came", part.ranks())
        })
        .map_err(|violation| violation.by("members"))?;
        let ranks = || part.ranks().of_job(job.size());
        for metric in [Metric::User, Metric::Signals] {
            let of = |rank: u32| values(rank, epoch)[metric as usize];
            let sum: u128 = ranks().map(|rank| u128::from(of(rank.0))).sum();
            let summary = part.summary(metric);
            // Of equal ones the first.
            let most = ranks().map(|rank| (of(rank.0), rank)).min_by_key(|(value, rank)| (Reverse(*value), *rank));
            let least = ranks().map(|rank| (of(rank.0), rank)).min();
            let is_exact = summary.sum() == sum && summary.count() == part.ranks().count();
            ensure(is_exact && summary.top().first().copied() == most && summary.least() == least, || {
                format!("epoch {epoch}: {} for {sum} of {:?}", summary.sum(), part.ranks())
            })
            .map_err(|violation| violation.by("sums"))?;
        }
        let nodes = if epoch == self.last {
            ensure(part.nodes().count() == 0, || format!("nodes {:?} are in the last epoch", part.nodes()))
        } else {
            self.hear_nodes(part, job)
        };
        nodes.map_err(|violation| violation.by("nodes"))?;
        let offered: Vec<u64> = ranks().filter_map(|rank| counter(rank.0, epoch)).collect();
        let told = part.counters().iter().next().map(|(_, summary)| (summary.count(), summary.sum()));
        let sum: u128 = offered.iter().copied().map(u128::from).sum();
        let wanted = (!offered.is_empty()).then_some((offered.len() as u64, sum));
        ensure(told == wanted, || format!("epoch {epoch}: the counter of {:?} is {told:?}", part.ranks()))
            .map_err(|violation| violation.by("counters"))?;
        self.hear_totals(part, job).map_err(|violation| violation.by("totals"))?;
        let before = self.heard.entry(epoch).or_default();
        ensure(part.ranks().has_all(before), || format!("epoch {epoch} has lost somebody of {before:?}"))
            .map_err(|violation| violation.by("members"))?;
        *before = part.ranks().clone();
        Ok(())
    }

    /// A rank was somewhere in an epoch, at the end of which it had done this, and somebody heard so.
    pub(super) fn was_somewhere(&mut self, rank: Rank, epoch: u64, so_far: SoFar) {
        let (address, count) = place(rank.0, epoch);
        *self.unheard.entry(address).or_default() += count;
        self.so_far.insert((epoch, rank), so_far);
    }

    /// Of all ranks whose turn it is, and of no others, it is told what they have done so far.
    fn hear_totals(&self, part: &Part, job: &Job) -> Result<(), Violation> {
        let epoch = part.epoch();
        let of = |(rank, values, tallies): (Rank, _, &TopTallies)| {
            let sent_to = tallies.sent_to.iter().filter_map(|(node, bytes)| Some((node?, bytes))).collect();
            let calls = tallies.calls.iter().filter_map(|(number, times)| Some((number?, times))).collect();
            (rank, SoFar { values, sent_to, calls })
        };
        let told: BTreeMap<Rank, SoFar> = part.totals().iter().map(of).collect();
        let of_turn = part.ranks().of_job(job.size()).filter(|rank| is_turn(*rank, epoch, job.size()));
        ensure(of_turn.eq(told.keys().copied()), || format!("epoch {epoch} tells of {:?} what they did", told.keys()))?;
        for (rank, SoFar { values, sent_to, calls }) in told {
            let mut so_far = self.so_far.get(&(epoch, rank)).cloned().unwrap_or_default();
            so_far.sent_to.retain(|_, bytes| *bytes > 0);
            ensure(sent_to == so_far.sent_to, || {
                format!("epoch {epoch}: {rank:?} is told to have sent {sent_to:?}, not {:?}", so_far.sent_to)
            })?;
            so_far.calls.retain(|_, times| *times > 0);
            ensure(calls == so_far.calls, || {
                format!("epoch {epoch}: {rank:?} is told to have called {calls:?}, not {:?}", so_far.calls)
            })?;
            for metric in Metric::ALL.into_iter().filter(|metric| !metric.unit().is_now()) {
                let (is, wanted) = (values[metric as usize], so_far.values[metric as usize]);
                let name = metric.name();
                ensure(is == wanted, || format!("epoch {epoch}: {rank:?} has {is} of {name} in all, not {wanted}"))?;
            }
        }
        Ok(())
    }

    /// Stacks have come: of what ranks have said, and no more than that.
    pub(super) fn hear_stacks(&mut self, stacks: &Stacks) -> Result<(), Violation> {
        for (stack, count) in stacks.iter() {
            let unheard = stack.first().and_then(|address| self.unheard.get_mut(address));
            let left = unheard.and_then(|unheard| unheard.checked_sub(count).map(|left| *unheard = left));
            ensure(left.is_some(), || format!("{stack:x?} was seen {count} times, more often than it was there"))
                .map_err(|violation| violation.by("stacks"))?;
        }
        Ok(())
    }

    /// What is told of nodes is of those of which ranks are in it, and exact.
    fn hear_nodes(&self, part: &Part, job: &Job) -> Result<(), Violation> {
        let (epoch, nodes) = (part.epoch(), part.nodes());
        for node in 0..job.nodes {
            let own = Ranks::range(Rank(node * job.ranks_per_node), job.ranks_per_node);
            let fits = if nodes.has(Rank(node)) { part.ranks().has_any(&own) } else { !part.ranks().has_all(&own) };
            ensure(fits, || format!("epoch {epoch} has {:?}, and of nodes {nodes:?}", part.ranks()))?;
        }
        let metric = NodeMetric::ClockOffPing;
        let sum: u128 = nodes.iter().map(|node| u128::from(node_values(node.0, epoch)[metric as usize])).sum();
        let summary = part.node_summary(metric);
        ensure(summary.sum() == sum && summary.count() == nodes.count(), || {
            format!("epoch {epoch}: {} for {sum} of nodes {nodes:?}", summary.sum())
        })
    }

    /// All these ranks are in an epoch.
    pub(super) fn has_all(&self, epoch: u64, ranks: &Ranks) -> Result<(), Violation> {
        let nobody = Ranks::default();
        let heard = self.heard.get(&epoch).unwrap_or(&nobody);
        ensure(heard.has_all(ranks), || format!("{heard:?} are in epoch {epoch}, where {ranks:?} are to be"))
            .map_err(|violation| violation.by("completeness"))
    }
}
