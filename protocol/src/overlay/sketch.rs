//! How values are spread, in few bytes, such that sketches of parts add up to that of the whole: a quantile that is
//! read from it is off by at most 1/32 of itself.
//!
//! It is a DDSketch (Masson, Rim, Lee, *DDSketch: a fast and fully-mergeable quantile sketch with relative-error
//! guarantees*, VLDB 2019) with the mapping that takes a power of two and divides it linearly, which needs no
//! logarithm: between 2^*e* and 2^(*e* + 1) there are 16 buckets.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Buckets of a power of two, as a power of two.
const FRACTION_BITS: u32 = 4;

/// The last bucket that a value of 64 bits is in.
const LAST: u16 = bucket(u64::MAX);

/// See this module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Buckets that are not empty, in order, and how many values are in each.
    buckets: Vec<(u16, u32)>,
}

/// On the wire each bucket is said by how far it is from the one before.
impl Serialize for Sketch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut next = 0;
        serializer.collect_seq(self.buckets.iter().map(|(bucket, count)| {
            let step = bucket - next;
            next = bucket + 1;
            (step, *count)
        }))
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Steps)
    }
}

/// Reads what [`Sketch`] says. Buckets that there are not, or that are empty, are refused.
struct Steps;

impl<'de> Visitor<'de> for Steps {
    type Value = Sketch;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("buckets of a sketch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<Sketch, A::Error> {
        let (mut buckets, mut last) = (Vec::new(), None::<u16>);
        while let Some((step, count)) = steps.next_element::<(u16, u32)>()? {
            let bucket = last.map_or(Some(step), |last| last.checked_add(step)?.checked_add(1));
            let bucket = bucket.filter(|bucket| *bucket <= LAST && count > 0);
            let bucket = bucket.ok_or_else(|| A::Error::custom("no sketch"))?;
            buckets.push((bucket, count));
            last = Some(bucket);
        }
        Ok(Sketch { buckets })
    }
}

/// The bucket of a value. What is less than 16 has one of its own.
const fn bucket(value: u64) -> u16 {
    match value.checked_ilog2() {
        Some(exponent) if exponent >= FRACTION_BITS => {
            let shift = exponent - FRACTION_BITS;
            ((shift as u16) << FRACTION_BITS) + (value >> shift) as u16
        }
        _ => value as u16,
    }
}

/// The least and the greatest value of a bucket.
fn bounds(bucket: u16) -> (u64, u64) {
    let shift = u32::from(bucket >> FRACTION_BITS).saturating_sub(1);
    let leading = u64::from(bucket) - (u64::from(shift) << FRACTION_BITS);
    (leading << shift, (leading << shift) + ((1 << shift) - 1))
}

impl Sketch {
    /// Of nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { buckets: Vec::new() }
    }

    /// Of so many zeros.
    pub(super) fn zeros(count: u64) -> Self {
        let mut all = Self::none();
        all.add(0, u32::try_from(count).unwrap_or(u32::MAX));
        all
    }

    /// And of a value so often.
    pub fn add(&mut self, value: u64, count: u32) {
        self.add_to(bucket(value), count);
    }

    fn add_to(&mut self, bucket: u16, count: u32) {
        if count == 0 {
            return;
        }
        let place = self.buckets.partition_point(|(known, _)| *known < bucket);
        match self.buckets.get_mut(place) {
            Some((known, sum)) if *known == bucket => *sum = sum.saturating_add(count),
            _ => self.buckets.insert(place, (bucket, count)),
        }
    }

    /// Those of another, too.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        other.buckets.iter().for_each(|(bucket, count)| self.add_to(*bucket, *count));
    }

    /// Whether no value of it need be greater than that.
    pub(super) fn is_below(&self, value: u64) -> bool {
        self.buckets.last().is_none_or(|(last, _)| *last <= bucket(value))
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The value of which a part `quantile` of all (0 to 1) is not more, about. Nothing, if there are none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile.clamp(0.0, 1.0) * self.count().saturating_sub(1) as f64) as u64;
        let mut before = 0;
        let place = self.buckets.iter().find(|(_, count)| {
            before += u64::from(*count);
            before > rank
        });
        let (least, greatest) = bounds(place?.0);
        Some(least + (greatest - least) / 2)
    }

    /// A histogram of at most so many bars, or one: the least and the greatest value that each may have, and how many
    /// values it has. None is empty.
    #[must_use]
    pub fn histogram(&self, bars: usize) -> Vec<(u64, u64, u64)> {
        let bars_if =
            |shift: u32| self.buckets.iter().map(|(bucket, _)| bucket >> shift).collect::<BTreeSet<_>>().len();
        let shift = (0..u16::BITS - 1).find(|shift| bars_if(*shift) <= bars).unwrap_or(u16::BITS - 1);
        let mut all = BTreeMap::<u16, u64>::new();
        for (bucket, count) in &self.buckets {
            *all.entry(bucket >> shift).or_default() += u64::from(*count);
        }
        let last = |bar: u16| (bar << shift | ((1 << shift) - 1)).min(LAST);
        all.into_iter().map(|(bar, count)| (bounds(bar << shift).0, bounds(last(bar)).1, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{LAST, Sketch, bounds, bucket};

    fn sketch(values: &[u64]) -> Sketch {
        let mut all = Sketch::default();
        values.iter().for_each(|value| all.add(*value, 1));
        all
    }

    /// Small ones, and large ones of all magnitudes.
    fn value() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut next = 0_u64;
        for number in 0..=LAST {
            let (least, greatest) = bounds(number);
            assert_eq!((least, bucket(least), bucket(greatest)), (next, number, number));
            assert!((greatest - least) / 2 <= least / 32, "bucket {number}");
            next = greatest.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last one ends where numbers do");
    }

    proptest! {
        #[test]
        fn quantiles_are_near(values in vec(value(), 1..200), quantile in 0.0..=1.0) {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = sorted[(quantile * (values.len() - 1) as f64) as usize];
            let read = sketch(&values).quantile(quantile).expect("there are some");
            prop_assert!(read.abs_diff(exact) <= exact / 16, "{read} for {exact}");
        }

        #[test]
        fn all_values_are_in_a_histogram(values in vec(value(), 0..100), bars in 2..20_usize) {
            let of = sketch(&values).histogram(bars);
            prop_assert!(of.len() <= bars, "{of:?}");
            prop_assert!(of.windows(2).all(|pair| pair[0].1 < pair[1].0), "{of:?}");
            for (least, greatest, count) in of {
                let within = values.iter().filter(|value| (least..=greatest).contains(value)).count();
                prop_assert!(count > 0 && count == within as u64, "{count} from {least} to {greatest}");
            }
        }

        #[test]
        fn parts_add_up_to_the_whole(values in vec(value(), 0..100), middle in any::<proptest::sample::Index>()) {
            let (left, right) = values.split_at(middle.index(values.len() + 1));
            let (mut one, mut other) = (sketch(left), sketch(right));
            one.merge(&other);
            other.merge(&sketch(left));
            prop_assert_eq!(&one, &sketch(&values));
            prop_assert_eq!(&other, &one);
            let said = postcard::to_allocvec(&one).expect("plain data");
            prop_assert_eq!(postcard::from_bytes::<Sketch>(&said), Ok(one));
        }
    }

    #[test]
    fn what_is_no_sketch_is_refused() {
        for steps in [Vec::from([(0, 0)]), Vec::from([(LAST + 1, 1)]), Vec::from([(LAST, 1_u32), (0, 1)])] {
            let said = postcard::to_allocvec(&steps).expect("plain data");
            assert!(postcard::from_bytes::<Sketch>(&said).is_err(), "{steps:?}");
        }
        assert_eq!(Sketch::default().quantile(0.5), None);
    }
}
