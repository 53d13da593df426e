//! What single ranks have done since their overlay began. In each epoch that is told of a few of them in turn, so that
//! there is a series of each at a resolution that follows from how many they are: of a job of at most
//! [`OVERLAY_TOTALS_MAX`] ranks all are in each epoch, of one of a thousand each is in every 32nd.
//!
//! Totals and not differences: who misses one has lost nothing but detail.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::metric::{METRICS, Metric};
use super::part::Values;
use super::tally::{Tallies, TopTallies};
use crate::ids::Rank;
use crate::limits::OVERLAY_TOTALS_MAX;
use crate::ranks::Ranks;

/// What one has done: a bit for each metric that is not 0, and these, in order; and what of it is tallied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Total {
    rank: Rank,
    mask: u32,
    some: Vec<u64>,
    tallies: TopTallies,
}

const _: () = assert!(METRICS <= u32::BITS as usize);

impl Total {
    fn of(rank: Rank, values: &Values, tallies: TopTallies) -> Self {
        let mut total = Self { rank, mask: 0, some: Vec::new(), tallies };
        for (place, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
            total.mask |= 1 << place;
            total.some.push(*value);
        }
        total
    }

    fn values(&self) -> Values {
        let (mut values, mut some) = ([0; METRICS], self.some.iter());
        for (_, value) in values.iter_mut().enumerate().filter(|(place, _)| self.mask & 1 << place != 0) {
            *value = some.next().copied().unwrap_or_default();
        }
        values
    }

    /// Whether it is said in the one way in which it can be.
    fn is_sound(&self) -> bool {
        let as_many = self.some.len() == self.mask.count_ones() as usize;
        self.mask >> METRICS == 0 && as_many && self.some.iter().all(|value| *value > 0) && self.tallies.is_sound()
    }
}

/// Totals of some ranks, in their order: at most [`OVERLAY_TOTALS_MAX`], the first ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals(Vec<Total>);

/// Whether it is a rank's turn in an epoch, in a job of so many.
#[must_use]
pub fn is_turn(rank: Rank, epoch: u64, size: u32) -> bool {
    let turns = u64::from(size).div_ceil(OVERLAY_TOTALS_MAX as u64).max(1);
    u64::from(rank.0) % turns == epoch % turns
}

impl Totals {
    /// Of one rank.
    #[must_use]
    pub fn of(rank: Rank, values: &Values, tallies: &Tallies) -> Self {
        Self(Vec::from([Total::of(rank, values, tallies.told())]))
    }

    /// Others, none of which is in it.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable_by_key(|total| total.rank);
        self.0.truncate(OVERLAY_TOTALS_MAX);
    }

    /// Each rank that is in it with what it has done, by metric, and what of that is tallied. What is a gauge is as it
    /// was at the epoch's end.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, Values, &TopTallies)> {
        self.0.iter().map(|total| (total.rank, total.values(), &total.tallies))
    }

    /// Whether these may be of such ranks: what came from elsewhere fits together.
    pub(super) fn are_of(&self, ranks: &Ranks) -> bool {
        self.0.len() <= OVERLAY_TOTALS_MAX
            && self.0.is_sorted_by(|one, other| one.rank < other.rank)
            && self.0.iter().all(|total| total.is_sound() && ranks.has(total.rank))
    }
}

/// What the ranks of a node have done so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SoFar(BTreeMap<Rank, (Values, Tallies)>);

impl SoFar {
    /// Nothing.
    pub(super) const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// A rank has done this, too.
    pub(super) fn add(&mut self, rank: Rank, values: &Values, tallied: Option<&Tallies>) {
        let (so_far, tallies) = self.0.entry(rank).or_insert(([0; METRICS], Tallies::none()));
        tallied.into_iter().for_each(|tallied| tallies.merge(tallied));
        for metric in Metric::ALL {
            let (so_far, value) = (&mut so_far[metric as usize], values[metric as usize]);
            *so_far = if metric.unit().is_now() { value } else { so_far.saturating_add(value) };
        }
    }

    /// What is told of that rank in an epoch.
    pub(super) fn told(&self, rank: Rank, epoch: u64, size: u32) -> Totals {
        let so_far = self.0.get(&rank).filter(|_| is_turn(rank, epoch, size));
        so_far.map(|(values, tallies)| Totals::of(rank, values, tallies)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{METRICS, Metric, SoFar, Tallies, TopTallies, Total, Totals, Values, is_turn};
    use crate::ids::{NodeId, Rank};
    use crate::limits::OVERLAY_TOTALS_MAX;
    use crate::ranks::Ranks;

    fn values(some: &[u8]) -> Values {
        let mut values = [0; METRICS];
        values.iter_mut().zip(some).for_each(|(value, byte)| *value = u64::from(*byte % 3) << 20);
        values
    }

    fn tallies(rank: u32) -> Tallies {
        let mut tallies = Tallies::none();
        (0..rank % 20).for_each(|node| tallies.sent_to.add(Some(NodeId(node)), u64::from(rank + node)));
        tallies.calls.add(Some(7), rank.into());
        tallies
    }

    fn all(of: &[(u32, Vec<u8>)]) -> Totals {
        let mut all = Totals::default();
        of.iter().for_each(|(rank, some)| all.merge(&Totals::of(Rank(*rank), &values(some), &tallies(*rank))));
        all
    }

    proptest! {
        #[test]
        fn the_first_of_all_are_in_it_in_whichever_order(
            of in btree_map(0_u32..200, vec(any::<u8>(), METRICS), 0..60), middle in any::<proptest::sample::Index>(),
        ) {
            let of: Vec<(u32, Vec<u8>)> = of.into_iter().collect();
            let (left, right) = of.split_at(middle.index(of.len() + 1));
            let (mut one, mut other) = (all(left), all(right));
            one.merge(&other);
            other.merge(&all(left));
            prop_assert_eq!(&one, &other);
            let first = of.iter().take(OVERLAY_TOTALS_MAX);
            let first = first.map(|(rank, some)| (Rank(*rank), values(some), tallies(*rank).told()));
            let told = one.iter().map(|(rank, values, tallies)| (rank, values, tallies.clone()));
            prop_assert!(told.eq(first));
            prop_assert!(one.are_of(&Ranks::range(Rank(0), 200)));
            prop_assert!(of.is_empty() || !one.are_of(&Ranks::range(Rank(200), 10)));
            let bytes = postcard::to_allocvec(&one).expect("plain data");
            prop_assert_eq!(postcard::from_bytes::<Totals>(&bytes), Ok(one));
        }

        #[test]
        fn each_rank_has_its_turn_and_few_have_it_at_once(size in 1_u32..5000, first in any::<u32>()) {
            let turns = u64::from(size).div_ceil(OVERLAY_TOTALS_MAX as u64);
            let mut seen = BTreeMap::<u32, u32>::new();
            for epoch in u64::from(first)..u64::from(first) + turns {
                let now: Vec<u32> = (0..size).filter(|rank| is_turn(Rank(*rank), epoch, size)).collect();
                prop_assert!(now.len() <= OVERLAY_TOTALS_MAX);
                now.into_iter().for_each(|rank| *seen.entry(rank).or_default() += 1);
            }
            prop_assert!(seen.len() == size as usize && seen.values().all(|times| *times == 1));
        }
    }

    #[test]
    fn what_ranks_did_adds_up_and_gauges_are_as_they_are() {
        let mut so_far = SoFar::default();
        for value in [5, 0, 7] {
            so_far.add(Rank(3), &[value; METRICS], Some(&tallies(2)));
        }
        so_far.add(Rank(4), &[u64::MAX; METRICS], None);
        so_far.add(Rank(4), &[1; METRICS], None);
        let of_3 = so_far.told(Rank(3), 9, 8);
        let sent: Vec<_> = of_3.iter().flat_map(|(.., tallies)| tallies.sent_to.iter()).collect();
        assert_eq!(sent, [(Some(NodeId(0)), 6), (Some(NodeId(1)), 9)]);
        assert!(of_3.iter().flat_map(|(.., tallies)| tallies.calls.iter()).eq([(Some(7), 6)]));
        let told = |rank| so_far.told(Rank(rank), 9, 8).iter().next().map(|(_, values, _)| values);
        let of_3 = told(3).expect("all are in each");
        assert_eq!((of_3[Metric::Calls as usize], of_3[Metric::PagesResident as usize]), (12, 7));
        assert_eq!(told(4).expect("told")[Metric::User as usize], u64::MAX);
        assert_eq!(told(5), None);
        let turns = (0..8).filter(|epoch| so_far.told(Rank(3), *epoch, 8 * 32).iter().next().is_some());
        assert_eq!(turns.collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let ranks = Ranks::range(Rank(0), 100);
        let one = |rank| Total::of(Rank(rank), &[1; METRICS], TopTallies::default());
        assert!(Totals(Vec::from([one(1), one(2)])).are_of(&ranks));
        assert!(!Totals(Vec::from([one(2), one(1)])).are_of(&ranks), "not in order");
        assert!(!Totals(Vec::from([one(1), one(1)])).are_of(&ranks), "twice");
        assert!(!Totals((0..=OVERLAY_TOTALS_MAX as u32).map(one).collect()).are_of(&ranks), "too many");
        let is_refused = |total| !Totals(Vec::from([total])).are_of(&ranks);
        assert!(is_refused(Total { mask: 1, ..one(1) }), "values of nothing");
        assert!(is_refused(Total { mask: 1 << METRICS, some: Vec::from([1]), ..one(1) }), "no metric");
        assert!(is_refused(Total { mask: 1, some: Vec::from([0]), ..one(1) }), "nothing, as if it were something");
    }
}
