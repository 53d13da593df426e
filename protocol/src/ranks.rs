//! Sets of ranks, as ranges: what is said of many ranks at once is short, as those of a node follow each other.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::limits::RANK_RANGES_MAX;

/// Ranks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRange {
    /// The first.
    pub first: Rank,
    /// How many there are, at least one.
    pub count: u32,
}

impl RankRange {
    /// The number behind the last.
    const fn end(self) -> u64 {
        // Cannot overflow: both are 32 bits.
        self.first.0 as u64 + self.count as u64
    }
}

/// Some ranks of a job: at most [`RANK_RANGES_MAX`] ranges in order, none of which touches another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<RankRange>")]
pub struct Ranks(Vec<RankRange>);

/// Ranges that are too many, empty, out of order or overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no set of ranks")]
pub struct NoRanks;

impl TryFrom<Vec<RankRange>> for Ranks {
    type Error = NoRanks;

    fn try_from(ranges: Vec<RankRange>) -> Result<Self, NoRanks> {
        let is_range = |range: &RankRange| range.count > 0 && range.end() <= 1 << u32::BITS;
        let are_apart = |pair: &[RankRange]| matches!(pair, [one, other] if one.end() < other.first.0.into());
        let fits = ranges.len() <= RANK_RANGES_MAX && ranges.iter().all(is_range) && ranges.windows(2).all(are_apart);
        fits.then_some(Self(ranges)).ok_or(NoRanks)
    }
}

impl From<Rank> for Ranks {
    fn from(rank: Rank) -> Self {
        Self(Vec::from([RankRange { first: rank, count: 1 }]))
    }
}

impl Ranks {
    /// Those with consecutive numbers; none, if `count` is 0 or there are no such numbers.
    #[must_use]
    pub fn range(first: Rank, count: u32) -> Self {
        Self::try_from(Vec::from([RankRange { first, count }])).unwrap_or_default()
    }

    /// Adds one. False, and nothing changes, if there would be more than [`RANK_RANGES_MAX`] ranges.
    pub fn add(&mut self, rank: Rank) -> bool {
        let next = self.0.partition_point(|range| range.first <= rank);
        let ends_at = |range: &RankRange, number: u64| range.end() == number;
        let before =
            next.checked_sub(1).filter(|index| self.0.get(*index).is_some_and(|range| range.end() >= rank.0.into()));
        let touches = self.0.get(next).is_some_and(|range| u64::from(rank.0) + 1 == range.first.0.into());
        match before {
            Some(index) if self.0.get(index).is_some_and(|range| !ends_at(range, rank.0.into())) => {}
            Some(index) => {
                let more = if touches { self.0.remove(next).count } else { 0 };
                if let Some(range) = self.0.get_mut(index) {
                    range.count += 1 + more;
                }
            }
            None if touches => {
                if let Some(range) = self.0.get_mut(next) {
                    *range = RankRange { first: rank, count: range.count + 1 };
                }
            }
            None if self.0.len() >= RANK_RANGES_MAX => return false,
            None => self.0.insert(next, RankRange { first: rank, count: 1 }),
        }
        true
    }

    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[RankRange] {
        &self.0
    }

    /// Those that are not in the first so many ranges.
    #[must_use]
    pub fn without_first(&self, ranges: usize) -> Self {
        Self(self.0.iter().skip(ranges).copied().collect())
    }

    /// Those of a job of `size` ranks: there may be as many numbers as there are.
    pub fn of_job(&self, size: u32) -> impl Iterator<Item = Rank> {
        self.0.iter().flat_map(move |range| range.first.0..range.end().min(size.into()) as u32).map(Rank)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Rank> {
        // Cannot overflow: no range goes beyond the last number.
        self.0.iter().flat_map(|range| (0..range.count).map(|number| Rank(range.first.0 + number)))
    }

    /// Whether this one is in it.
    #[must_use]
    pub fn has(&self, rank: Rank) -> bool {
        self.around(&RankRange { first: rank, count: 1 }).is_some()
    }

    /// Whether all of these are in it, too.
    #[must_use]
    pub fn has_all(&self, others: &Self) -> bool {
        others.0.iter().all(|range| self.around(range).is_some_and(|it| range.end() <= it.end()))
    }

    /// Whether any of these are in it, too.
    #[must_use]
    pub fn has_any(&self, others: &Self) -> bool {
        let meets = |range: &RankRange| {
            let next = self.0.partition_point(|it| it.end() <= range.first.0.into());
            self.0.get(next).is_some_and(|it| u64::from(it.first.0) < range.end())
        };
        others.0.iter().any(meets)
    }

    /// The range that the first of another one is in.
    fn around(&self, range: &RankRange) -> Option<RankRange> {
        let next = self.0.partition_point(|it| it.first <= range.first);
        let before = self.0.get(next.checked_sub(1)?).copied();
        before.filter(|it| u64::from(range.first.0) < it.end())
    }

    /// These, too. False, and nothing changes, if there would be more than [`RANK_RANGES_MAX`] ranges.
    pub fn join(&mut self, others: &Self) -> bool {
        let mut all: Vec<RankRange> = self.0.iter().chain(&others.0).copied().collect();
        all.sort_unstable_by_key(|range| range.first);
        let mut joined: Vec<RankRange> = Vec::with_capacity(all.len());
        for range in all {
            match joined.last_mut().filter(|last| last.end() >= range.first.0.into()) {
                // Cannot overflow: whatever ends further is a range.
                Some(last) if range.end() > last.end() => last.count = (range.end() - u64::from(last.first.0)) as u32,
                Some(_) => {}
                None => joined.push(range),
            }
        }
        let fits = joined.len() <= RANK_RANGES_MAX;
        if fits {
            self.0 = joined;
        }
        fits
    }

    /// Those of a job of `size` ranks that are not in it. Nothing, if they make more than [`RANK_RANGES_MAX`] ranges.
    #[must_use]
    pub fn missing_of(&self, size: u32) -> Option<Self> {
        let mut missing = Vec::new();
        let mut from = 0_u64;
        let end = RankRange { first: Rank(size), count: 0 };
        for range in self.0.iter().copied().chain([end]) {
            let to = u64::from(range.first.0.min(size));
            if from < to {
                missing.push(RankRange { first: Rank(from as u32), count: (to - from) as u32 });
            }
            from = from.max(range.end());
        }
        Self::try_from(missing).ok()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|range| u64::from(range.count)).sum()
    }
}

impl FromIterator<Rank> for Ranks {
    /// The first of them that make no more than [`RANK_RANGES_MAX`] ranges.
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> Self {
        let mut all = Self::default();
        for rank in ranks {
            if !all.add(rank) {
                break;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::{Strategy, any, proptest};
    use proptest::{collection, prop_assert, prop_assert_eq};

    use super::{NoRanks, RankRange, Ranks};
    use crate::ids::Rank;
    use crate::limits::RANK_RANGES_MAX;

    fn range(first: u32, count: u32) -> RankRange {
        RankRange { first: Rank(first), count }
    }

    proptest! {
        #[test]
        fn what_was_added_is_there_once(
            ranks in collection::vec((0..40_u32).prop_map(Rank), 0..60), size in any::<u8>(),
        ) {
            let all: Ranks = ranks.iter().copied().collect();
            let expected: BTreeSet<Rank> = ranks.into_iter().collect();
            let of_job: Vec<Rank> = expected.iter().copied().filter(|rank| rank.0 < size.into()).collect();
            prop_assert_eq!(all.of_job(size.into()).collect::<Vec<_>>(), of_job);
            prop_assert_eq!(all.count(), expected.len() as u64);
            prop_assert!(all.iter().eq(expected.iter().copied()));
            prop_assert!((0..50).map(Rank).all(|rank| all.has(rank) == expected.contains(&rank)));
            prop_assert_eq!(Ranks::try_from(all.ranges().to_vec()), Ok(all.clone()));
            let touch = |pair: &[RankRange]| pair[0].end() >= pair[1].first.0.into();
            prop_assert!(!all.ranges().windows(2).any(touch), "ranges that touch");
        }
    }

    proptest! {
        #[test]
        fn sets_are_compared_and_joined(
            one in collection::btree_set(0..60_u32, 0..60), other in collection::btree_set(0..60_u32, 0..60),
            size in 0..70_u32,
        ) {
            let set = |numbers: &BTreeSet<u32>| numbers.iter().copied().map(Rank).collect::<Ranks>();
            let (left, right) = (set(&one), set(&other));
            prop_assert_eq!(left.has_all(&right), other.is_subset(&one));
            prop_assert_eq!(left.has_any(&right), !other.is_disjoint(&one));
            let mut both = left.clone();
            prop_assert!(both.join(&right));
            prop_assert_eq!(&both, &set(&one.union(&other).copied().collect()));
            prop_assert_eq!(Ranks::try_from(both.ranges().to_vec()), Ok(both));
            let missing: BTreeSet<u32> = (0..size).filter(|number| !one.contains(number)).collect();
            prop_assert_eq!(left.missing_of(size), Some(set(&missing)));
        }
    }

    #[test]
    fn what_makes_too_many_ranges_is_not_joined() {
        let mut even: Ranks = (0..).map(|number| Rank(4 * number)).take(RANK_RANGES_MAX).collect();
        let before = even.clone();
        assert!(!even.join(&Ranks::from(Rank(2))));
        assert_eq!(even, before);
        assert!(even.join(&Ranks::range(Rank(1), 3)));
        assert_eq!(even.ranges()[0], range(0, 5));
        // What is between them is as many, and one more behind the last.
        assert_eq!(before.missing_of(4093).map(|missing| missing.ranges().len()), Some(RANK_RANGES_MAX - 1));
        let odd: Ranks = (0..).map(|number| Rank(4 * number + 1)).take(RANK_RANGES_MAX).collect();
        assert_eq!(odd.missing_of(u32::MAX), None);
    }

    #[test]
    fn the_last_number_is_a_rank() {
        let mut all = Ranks::range(Rank(u32::MAX - 2), 2);
        assert!(all.add(Rank(u32::MAX)));
        assert_eq!((all.ranges(), all.count()), (&[range(u32::MAX - 2, 3)][..], 3));
        assert_eq!(all.of_job(u32::MAX).count(), 2);
        assert_eq!(Ranks::range(Rank(u32::MAX), 2), Ranks::default());
    }

    #[test]
    fn there_are_only_so_many_ranges() {
        let mut all: Ranks = (0..).map(|number| Rank(2 * number + 1)).take(RANK_RANGES_MAX).collect();
        let last = Rank(2 * RANK_RANGES_MAX as u32 - 1);
        assert!(!all.add(Rank(last.0 + 2)) && all.add(Rank(last.0 + 1)) && all.add(Rank(0)) && all.add(Rank(2)));
        assert_eq!(all.count(), RANK_RANGES_MAX as u64 + 3);
        let endless = (0..).map(|number| Rank(2 * number));
        assert_eq!(endless.collect::<Ranks>().ranges().len(), RANK_RANGES_MAX);
    }

    #[test]
    fn what_is_no_set_is_refused() {
        let wrong = [
            vec![range(3, 0)],
            vec![range(5, 1), range(3, 1)],
            vec![range(3, 2), range(4, 1)],
            vec![range(3, 2), range(5, 1)],
            vec![range(u32::MAX, 2)],
            (0..=RANK_RANGES_MAX as u32).map(|number| range(2 * number, 1)).collect(),
        ];
        for ranges in wrong {
            let bytes = postcard::to_allocvec(&ranges).unwrap();
            assert!(postcard::from_bytes::<Ranks>(&bytes).is_err());
            assert_eq!(Ranks::try_from(ranges), Err(NoRanks));
        }
    }
}
