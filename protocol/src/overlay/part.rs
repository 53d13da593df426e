//! What some ranks of a job did in an epoch, and how some of its nodes were: whose it is is said with it, so that parts
//! come together to what is exact about what is in it, and nothing is counted twice.

use alloc::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::alike::Alike;
use super::counters::Counters;
use super::metric::{METRICS, Metric};
use super::node_metric::{NODE_METRICS, NodeMetric, NodeValues};
use super::summaries::Summaries;
use super::summary::Summary;
use super::totals::Totals;
use crate::ids::{NodeId, Rank};
use crate::ranks::Ranks;

/// What one rank did in an epoch, by metric.
pub type Values = [u64; METRICS];

/// See this module. Its second half is about nodes, each of which is in one of the parts of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    epoch: u64,
    ranks: Ranks,
    of_ranks: Summaries,
    alike: Alike,
    counters: Counters,
    totals: Totals,
    /// Nodes, by their numbers.
    nodes: Ranks,
    of_nodes: Summaries,
}

/// Why parts do not come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMerged {
    /// Of other epochs.
    #[error("they are of different epochs")]
    OtherEpoch,
    /// All ranks and nodes of the other one are in it.
    #[error("all of it is there")]
    Again,
    /// Some are, and some are not.
    #[error("some of it is there")]
    Overlaps,
    /// Whose it is would be too many ranges.
    #[error("ranks are too scattered")]
    Scattered,
}

impl Part {
    /// Of nobody.
    #[must_use]
    pub fn none(epoch: u64) -> Self {
        Self {
            epoch,
            ranks: Ranks::default(),
            of_ranks: Summaries::default(),
            alike: Alike::default(),
            counters: Counters::default(),
            totals: Totals::default(),
            nodes: Ranks::default(),
            of_nodes: Summaries::default(),
        }
    }

    /// Of one rank, which offers no counters.
    #[must_use]
    pub fn of(epoch: u64, rank: Rank, values: &Values) -> Self {
        let (of_ranks, alike) = (Summaries::of(rank, values), Alike::of(rank, values));
        Self { ranks: rank.into(), of_ranks, alike, ..Self::none(epoch) }
    }

    /// And its counters.
    #[must_use]
    pub fn with(self, counters: Counters) -> Self {
        Self { counters, ..self }
    }

    /// And what it has done so far, if it is its turn.
    #[must_use]
    pub fn with_totals(self, totals: Totals) -> Self {
        Self { totals, ..self }
    }

    /// Of one node, and no rank.
    #[must_use]
    pub fn of_node(epoch: u64, node: NodeId, values: &NodeValues) -> Self {
        let node = Rank(node.0);
        Self { nodes: node.into(), of_nodes: Summaries::of(node, values), ..Self::none(epoch) }
    }

    /// The epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whose it is.
    #[must_use]
    pub const fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// What they did.
    #[must_use]
    pub fn summary(&self, metric: Metric) -> Cow<'_, Summary> {
        self.of_ranks.get(metric as usize, &self.ranks)
    }

    /// Which of them behave alike.
    #[must_use]
    pub const fn alike(&self) -> &Alike {
        &self.alike
    }

    /// Counters that they offer.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What some of them have done since the overlay began, whose turn it is.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Nodes that are in it: their numbers are where ranks' are otherwise.
    #[must_use]
    pub const fn nodes(&self) -> &Ranks {
        &self.nodes
    }

    /// What is told of them: nodes' numbers are where ranks' are otherwise.
    #[must_use]
    pub fn node_summary(&self, metric: NodeMetric) -> Cow<'_, Summary> {
        self.of_nodes.get(metric as usize, &self.nodes)
    }

    /// Adds what others did.
    ///
    /// # Errors
    /// [`NotMerged`]: nothing was added.
    pub fn merge(&mut self, other: &Self) -> Result<(), NotMerged> {
        if self.epoch != other.epoch {
            return Err(NotMerged::OtherEpoch);
        }
        if self.ranks.has_any(&other.ranks) || self.nodes.has_any(&other.nodes) {
            let is_all = self.ranks.has_all(&other.ranks) && self.nodes.has_all(&other.nodes);
            return Err(if is_all { NotMerged::Again } else { NotMerged::Overlaps });
        }
        let (mut ranks, mut nodes) = (self.ranks.clone(), self.nodes.clone());
        if !ranks.join(&other.ranks) || !nodes.join(&other.nodes) {
            return Err(NotMerged::Scattered);
        }
        self.of_ranks.merge(&self.ranks, &other.of_ranks, &other.ranks);
        self.of_nodes.merge(&self.nodes, &other.of_nodes, &other.nodes);
        self.alike.merge(&other.alike);
        self.counters.merge(&other.counters);
        self.totals.merge(&other.totals);
        (self.ranks, self.nodes) = (ranks, nodes);
        Ok(())
    }

    /// Whether what came from elsewhere fits together.
    pub(super) fn is_sound(&self) -> bool {
        self.of_ranks.are_of(METRICS, &self.ranks)
            && self.of_nodes.are_of(NODE_METRICS, &self.nodes)
            && self.alike.are_of(&self.ranks)
            && self.counters.are_of(&self.ranks)
            && self.totals.are_of(&self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{NotMerged, Part, Values};
    use crate::ids::{NodeId, Rank};
    use crate::overlay::metric::{METRICS, Metric};
    use crate::overlay::{CounterName, Counters, NODE_METRICS, NoMessage, NodeMetric, Source, Up};

    fn part(rank: u32, value: u64) -> Part {
        Part::of(3, Rank(rank), &[value; METRICS])
    }

    #[test]
    fn nothing_is_counted_twice() {
        let mut all = part(1, 10);
        assert_eq!(all.merge(&part(2, 20)), Ok(()));
        let before = all.clone();
        assert_eq!(all.merge(&part(2, 70)), Err(NotMerged::Again));
        let mut other = part(2, 20);
        assert_eq!(other.merge(&part(3, 30)), Ok(()));
        assert_eq!(all.merge(&other), Err(NotMerged::Overlaps));
        assert_eq!(all.merge(&Part::of(4, Rank(9), &[0; METRICS])), Err(NotMerged::OtherEpoch));
        assert_eq!(all, before);
        assert_eq!(all.summary(Metric::Calls).sum(), 30);
        // A node counts once, whatever ranks it comes with.
        assert_eq!(all.merge(&Part::of_node(3, NodeId(7), &[5; NODE_METRICS])), Ok(()));
        let mut again = part(9, 1);
        assert_eq!(again.merge(&Part::of_node(3, NodeId(7), &[5; NODE_METRICS])), Ok(()));
        assert_eq!(all.merge(&again), Err(NotMerged::Overlaps));
        assert_eq!(all.merge(&Part::of_node(3, NodeId(7), &[5; NODE_METRICS])), Err(NotMerged::Again));
        assert_eq!(all.node_summary(NodeMetric::Idle).sum(), 5);
    }

    #[test]
    fn of_a_rank_that_does_nothing_little_is_said() {
        let said = |part: Part| Up::Part { generation: 1, source: Source::Process(3), is_apart: false, part }.encode();
        let (idle, busy) = (said(part(1, 0)).len(), said(part(1, 1 << 30)).len());
        assert!(idle < 20 && busy > 18 * 6, "{idle} and {busy} bytes");
    }

    proptest! {
        #[test]
        fn parts_of_all_are_all(
            of in btree_map(0_u32..200, any::<[u64; 3]>(), 0..30), bytes in vec(any::<u8>(), 0..80),
        ) {
            let mut all = Part::none(9);
            for (rank, some) in &of {
                let mut values: Values = [0; METRICS];
                values[..3].copy_from_slice(some);
                let name = CounterName::new(&[b'a' + (rank % 26) as u8]).expect("a name");
                let one = Part::of(9, Rank(*rank), &values).with(Counters::of(Rank(*rank), [(name, some[0])]));
                prop_assert_eq!(all.merge(&one), Ok(()));
                prop_assert_eq!(all.merge(&Part::of_node(9, NodeId(*rank + 7), &[some[2]; NODE_METRICS])), Ok(()));
            }
            prop_assert_eq!(all.nodes().count(), of.len() as u64);
            let free = of.values().map(|values| u128::from(values[2])).sum::<u128>();
            prop_assert_eq!(all.node_summary(NodeMetric::MemoryFree).sum(), free);
            prop_assert_eq!(all.ranks().count(), of.len() as u64);
            let sum = of.values().map(|values| u128::from(values[1])).sum::<u128>();
            prop_assert_eq!(all.summary(Metric::Kernel).sum(), sum);
            let up = Up::Part { generation: 1, source: Source::Process(3), is_apart: false, part: all };
            let mut said = up.encode();
            prop_assert_eq!(Up::decode(&said), Ok(up));
            said.push(0);
            prop_assert_eq!(Up::decode(&said), Err(NoMessage));
            // Whatever comes is either nothing or something that fits together.
            if let Ok(Up::Part { part, .. }) = Up::decode(&bytes) {
                prop_assert!(part.summary(Metric::User).count() == part.ranks().count());
                prop_assert!(part.node_summary(NodeMetric::Idle).count() == part.nodes().count());
            }
        }
    }
}
