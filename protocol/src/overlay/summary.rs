//! What many ranks say of one metric, brought together: summaries of parts make that of the whole, in whichever order.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize, Serializer};

use super::sketch::Sketch;
use crate::ids::Rank;
use crate::limits::OVERLAY_TOP_RANKS_MAX;
use crate::ranks::Ranks;

/// See this module. All of it is whole numbers, so that nothing depends on who was added first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Heard")]
pub struct Summary {
    sum: u128,
    /// The sum of squares; where that is too large for 128 bits the largest that there is.
    squares: u128,
    /// The smallest value, and the first rank that has it.
    least: Option<(u64, Rank)>,
    /// The largest values, in order, of equal ones the first rank first: as many as there are, up to a limit.
    top: ArrayVec<(u64, Rank), OVERLAY_TOP_RANKS_MAX>,
    /// How all others are spread, so that a summary of few ranks needs no memory of its own.
    rest: Sketch,
}

/// On the wire. Most summaries are those of one rank, of which all else follows from its value.
#[derive(Serialize)]
enum Said<'a> {
    One(u64, Rank),
    Some {
        sum: u128,
        squares: u128,
        least: &'a Option<(u64, Rank)>,
        top: &'a ArrayVec<(u64, Rank), OVERLAY_TOP_RANKS_MAX>,
        rest: &'a Sketch,
    },
}

/// From there.
#[derive(Deserialize)]
enum Heard {
    One(u64, Rank),
    Some {
        sum: u128,
        squares: u128,
        least: Option<(u64, Rank)>,
        top: ArrayVec<(u64, Rank), OVERLAY_TOP_RANKS_MAX>,
        rest: Sketch,
    },
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { sum, squares, least, top, rest } = self;
        let said = match top.as_slice() {
            [(value, rank)] => Said::One(*value, *rank),
            _ => Said::Some { sum: *sum, squares: *squares, least, top, rest },
        };
        said.serialize(serializer)
    }
}

impl From<Heard> for Summary {
    fn from(heard: Heard) -> Self {
        match heard {
            Heard::One(value, rank) => Self::of(rank, value),
            Heard::Some { sum, squares, least, top, rest } => Self { sum, squares, least, top, rest },
        }
    }
}

/// Larger values first, and of equal ones the first rank.
const fn order((value, rank): &(u64, Rank)) -> (u64, Rank) {
    (u64::MAX - *value, *rank)
}

impl Summary {
    /// Of one rank.
    #[must_use]
    pub fn of(rank: Rank, value: u64) -> Self {
        Self {
            sum: value.into(),
            squares: u128::from(value) * u128::from(value),
            least: Some((value, rank)),
            top: [(value, rank)].into_iter().collect(),
            rest: Sketch::none(),
        }
    }

    /// Of these ranks, for all of which it is 0.
    pub(super) fn zeros(ranks: &Ranks) -> Self {
        let top: ArrayVec<_, _> = ranks.iter().take(OVERLAY_TOP_RANKS_MAX).map(|rank| (0, rank)).collect();
        let others = ranks.count() - top.len() as u64;
        Self { sum: 0, squares: 0, least: top.first().copied(), top, rest: Sketch::zeros(others) }
    }

    /// Of other ranks, too: none of them is in it.
    pub fn merge(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        self.least = self.least.into_iter().chain(other.least).min();
        self.rest.merge(&other.rest);
        for one in &other.top {
            let place = self.top.partition_point(|known| order(known) < order(one));
            // The last of them makes room, if it is not smaller itself.
            let beyond = match self.top.is_full() {
                true if place == self.top.len() => Some(*one),
                true => self.top.pop(),
                false => None,
            };
            if beyond != Some(*one) {
                self.top.insert(place, *one);
            }
            beyond.inspect(|(value, _)| self.rest.add(*value, 1));
        }
    }

    /// Of how many ranks it is.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.top.len() as u64 + self.rest.count()
    }

    /// All values together.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest value, and the first rank that has it.
    #[must_use]
    pub const fn least(&self) -> Option<(u64, Rank)> {
        self.least
    }

    /// The ranks with the largest values, and these, the largest first.
    #[must_use]
    pub fn top(&self) -> &[(u64, Rank)] {
        &self.top
    }

    /// The mean, if it is of any rank.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The variance of the values, if it is of any rank: their mean squared distance from the mean.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        let mean = self.mean()?;
        // Never below 0, as it may come out where numbers are rounded.
        Some((self.squares as f64 / self.count() as f64 - mean * mean).max(0.0))
    }

    /// How the values are spread.
    #[must_use]
    pub fn sketch(&self) -> Sketch {
        let mut all = self.rest.clone();
        self.top.iter().for_each(|(value, _)| all.add(*value, 1));
        all
    }

    /// Whether it may be of these many ranks: what came from elsewhere fits together.
    pub(super) fn is_of(&self, ranks: u64) -> bool {
        let top = (self.top.len() as u64) == ranks.min(OVERLAY_TOP_RANKS_MAX as u64);
        let is_falling = self.top.is_sorted_by_key(order);
        let is_above = self.top.last().is_none_or(|(value, _)| self.rest.is_below(*value));
        self.count() == ranks && self.least.is_some() == (ranks > 0) && top && is_falling && is_above
    }

    /// Whether all that it names are among these.
    pub(super) fn is_within(&self, ranks: &Ranks) -> bool {
        self.top.iter().chain(&self.least).all(|(_, rank)| ranks.has(*rank))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::Summary;
    use crate::ids::Rank;
    use crate::limits::OVERLAY_TOP_RANKS_MAX;

    fn summary(of: &[(u32, u64)]) -> Summary {
        let mut all = Summary::default();
        of.iter().for_each(|(rank, value)| all.merge(&Summary::of(Rank(*rank), *value)));
        all
    }

    #[test]
    fn a_few_values_come_out() {
        let all = summary(&[(7, 4), (3, 9), (5, 4), (1, 9), (2, 0)]);
        assert_eq!((all.count(), all.sum(), all.mean()), (5, 26, Some(5.2)));
        assert_eq!(all.least(), Some((0, Rank(2))));
        assert_eq!(all.top()[..3], [(9, Rank(1)), (9, Rank(3)), (4, Rank(5))]);
        // (1.2² + 3.8² + 1.2² + 3.8² + 5.2²) ÷ 5
        assert!((all.variance().expect("some") - 11.76).abs() < 1e-9);
        assert_eq!((Summary::default().mean(), Summary::default().variance()), (None, None));
        let huge = summary(&[(0, u64::MAX), (1, u64::MAX), (2, u64::MAX)]);
        assert_eq!((huge.sum(), huge.squares), (3 * u128::from(u64::MAX), u128::MAX));
    }

    proptest! {
        #[test]
        fn it_is_the_same_in_whichever_order(
            values in vec(any::<u64>(), 0..40), middle in any::<proptest::sample::Index>(),
        ) {
            let of: alloc::vec::Vec<(u32, u64)> = (0..).zip(values.iter().copied()).collect();
            let (left, right) = of.split_at(middle.index(of.len() + 1));
            let (mut one, mut other) = (summary(left), summary(right));
            one.merge(&other);
            other.merge(&summary(left));
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(&one, &summary(&of));
            prop_assert_eq!(one.sum(), values.iter().copied().map(u128::from).sum::<u128>());
            prop_assert!(one.is_of(of.len() as u64) && !one.is_of(of.len() as u64 + 1));
            let said = postcard::to_allocvec(&one).expect("plain data");
            prop_assert_eq!(postcard::from_bytes(&said), Ok(one.clone()));
            prop_assert_eq!(one.sketch().count(), of.len() as u64);
            prop_assert_eq!(one.least().map(|(value, _)| value), values.iter().copied().min());
            let mut sorted = values;
            sorted.sort_unstable_by(|one, other| other.cmp(one));
            sorted.truncate(OVERLAY_TOP_RANKS_MAX);
            prop_assert!(one.top().iter().map(|(value, _)| *value).eq(sorted));
        }
    }
}
