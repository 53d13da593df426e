//! Ranks that behave alike in an epoch: those most of whose time went to the same, and about as much of it.
//!
//! The classes are given and few, so that what parts say comes together exactly, in whichever order: one for each thing
//! that time goes to and each [`Share`] of it. Of a class it is known how many ranks are in it, and the first of them.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};

use super::metric::{Metric, Unit};
use super::part::Values;
use crate::ids::Rank;
use crate::limits::OVERLAY_ALIKE_RANKS_MAX;
use crate::ranks::Ranks;

/// How much of a rank's time went to that to which most of it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Share {
    /// Nearly all: 15/16 or more.
    All,
    /// 3/4 or more.
    Most,
    /// 1/2 or more.
    Half,
    /// Less.
    Less,
}

impl Share {
    /// Of a part of a whole.
    fn of(part: u64, whole: u128) -> Self {
        let sixteenths = u128::from(part) * 16;
        if sixteenths >= whole * 15 {
            Self::All
        } else if sixteenths >= whole * 12 {
            Self::Most
        } else if sixteenths >= whole * 8 {
            Self::Half
        } else {
            Self::Less
        }
    }

    /// At least so many sixteenths.
    #[must_use]
    pub const fn sixteenths(self) -> u32 {
        match self {
            Self::All => 15,
            Self::Most => 12,
            Self::Half => 8,
            Self::Less => 0,
        }
    }
}

/// A class: what most of the time went to, as its place among [`Metric::ALL`], and how much of it.
type Class = (u8, Share);

/// Ranks of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Members {
    count: u64,
    /// The first of them.
    first: ArrayVec<Rank, OVERLAY_ALIKE_RANKS_MAX>,
}

impl Members {
    fn merge(&mut self, Self { count, first }: &Self) {
        self.count = self.count.saturating_add(*count);
        for rank in first {
            let place = self.first.partition_point(|known| known < rank);
            if self.first.is_full() && place < self.first.len() {
                self.first.pop();
            }
            // Beyond the last one there is no room for it.
            let _ = self.first.try_insert(place, *rank);
        }
    }
}

/// See this module: in order. Ranks that had no time at all are in no class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alike(Vec<(Class, Members)>);

/// What is time of the epoch.
fn times() -> impl Iterator<Item = Metric> {
    Metric::ALL.into_iter().filter(|metric| metric.unit() == Unit::Nanoseconds)
}

impl Alike {
    /// Of one rank.
    #[must_use]
    pub fn of(rank: Rank, values: &Values) -> Self {
        let whole: u128 = times().map(|metric| u128::from(values[metric as usize])).sum();
        // Of equal ones the first.
        let most = times().max_by_key(|metric| (values[*metric as usize], core::cmp::Reverse(*metric)));
        let Some(most) = most.filter(|_| whole > 0) else { return Self::default() };
        let class = (most as u8, Share::of(values[most as usize], whole));
        Self(Vec::from([(class, Members { count: 1, first: [rank].into_iter().collect() })]))
    }

    /// Others, none of which is in it.
    pub(super) fn merge(&mut self, other: &Self) {
        for (class, members) in &other.0 {
            let place = self.0.partition_point(|(known, _)| known < class);
            match self.0.get_mut(place) {
                Some((known, own)) if known == class => own.merge(members),
                _ => self.0.insert(place, (*class, members.clone())),
            }
        }
    }

    /// Each class: what most of the time of its ranks went to, how much of it, how many they are, and the first of
    /// them.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, Share, u64, &[Rank])> {
        self.0.iter().filter_map(|((metric, share), members)| {
            Some((*Metric::ALL.get(usize::from(*metric))?, *share, members.count, members.first.as_slice()))
        })
    }

    /// Whether these may be classes of such ranks: what came from elsewhere fits together.
    pub(super) fn are_of(&self, ranks: &Ranks) -> bool {
        let is_time = |metric: u8| times().any(|time| time as u8 == metric);
        let is_sound = |((metric, _), members): &(Class, Members)| {
            is_time(*metric)
                && members.count > 0
                && members.first.len() as u64 == members.count.min(OVERLAY_ALIKE_RANKS_MAX as u64)
                && members.first.is_sorted_by(|one, other| one < other)
                && members.first.iter().all(|rank| ranks.has(*rank))
        };
        let count = self.0.iter().try_fold(0_u64, |sum, (_, members)| sum.checked_add(members.count));
        let is_sorted = self.0.is_sorted_by(|(one, _), (other, _)| one < other);
        is_sorted && count.is_some_and(|count| count <= ranks.count()) && self.0.iter().all(is_sound)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{Alike, Share};
    use crate::ids::Rank;
    use crate::overlay::metric::{METRICS, Metric};
    use crate::ranks::Ranks;

    fn rank(rank: u32, of: &[(Metric, u64)]) -> Alike {
        let mut values = [0; METRICS];
        of.iter().for_each(|(metric, value)| values[*metric as usize] = *value);
        Alike::of(Rank(rank), &values)
    }

    #[test]
    fn ranks_are_with_those_whose_time_goes_the_same_way() {
        let mut all = Alike::default();
        for number in 0..10 {
            all.merge(&rank(9 - number, &[(Metric::Network, 950), (Metric::User, 50), (Metric::Calls, 1 << 40)]));
        }
        all.merge(&rank(10, &[(Metric::User, 940), (Metric::Kernel, 60)]));
        all.merge(&rank(11, &[(Metric::User, 937), (Metric::Kernel, 63)]));
        all.merge(&rank(12, &[(Metric::Futex, 500), (Metric::Sleep, 500)]));
        all.merge(&rank(13, &[(Metric::File, 4), (Metric::Sleep, 3), (Metric::User, 2)]));
        all.merge(&rank(14, &[]));
        let classes: Vec<_> =
            all.iter().map(|(metric, share, count, first)| (metric, share, count, first.to_vec())).collect();
        let ranks = |some: &[u32]| some.iter().copied().map(Rank).collect::<Vec<_>>();
        assert_eq!(
            classes,
            [
                (Metric::User, Share::All, 1, ranks(&[10])),
                (Metric::User, Share::Most, 1, ranks(&[11])),
                (Metric::Futex, Share::Half, 1, ranks(&[12])),
                (Metric::Network, Share::All, 10, ranks(&[0, 1, 2, 3])),
                (Metric::File, Share::Less, 1, ranks(&[13])),
            ]
        );
        assert!(all.are_of(&Ranks::range(Rank(0), 15)) && !all.are_of(&Ranks::range(Rank(0), 13)));
    }

    proptest! {
        #[test]
        fn they_are_the_same_in_whichever_order(
            values in vec(any::<[u32; 3]>(), 0..40), middle in any::<proptest::sample::Index>(),
        ) {
            let one = |(number, [user, futex, network]): (u32, &[u32; 3])| {
                let of = [(Metric::User, *user), (Metric::Futex, *futex), (Metric::Network, *network)];
                rank(number, &of.map(|(metric, value)| (metric, value.into())))
            };
            let of: Vec<Alike> = (0..).zip(&values).map(one).collect();
            let all = |some: &[Alike]| {
                let mut all = Alike::default();
                some.iter().for_each(|one| all.merge(one));
                all
            };
            let (left, right) = of.split_at(middle.index(of.len() + 1));
            let (mut forth, mut back) = (all(left), all(right));
            forth.merge(&all(right));
            back.merge(&all(left));
            prop_assert_eq!(&forth, &back);
            prop_assert_eq!(&forth, &all(&of));
            prop_assert!(forth.are_of(&Ranks::range(Rank(0), of.len() as u32)));
            prop_assert!(of.is_empty() || !forth.are_of(&Ranks::default()) || forth.iter().count() == 0);
        }
    }
}
