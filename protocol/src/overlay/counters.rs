//! Counters that programs offer themselves, by names of their own.
//!
//! What is kept of them has a limit, and stays the same in whichever order parts come together: the first names of all
//! that there are, in their order, are in the first ones of each part that has them, so that what is kept of them in
//! the end was never left out on the way.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use crate::ids::Rank;
use crate::limits::{OVERLAY_COUNTER_NAME_BYTES_MAX, OVERLAY_COUNTERS_MAX};
use crate::ranks::Ranks;

/// The name of a counter: 1 to [`OVERLAY_COUNTER_NAME_BYTES_MAX`] of the characters `a`–`z`, `0`–`9`, `_`, `.` and `-`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CounterName([u8; OVERLAY_COUNTER_NAME_BYTES_MAX]);

/// What is no name of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no name of a counter")]
pub struct NoName;

impl CounterName {
    /// This name.
    ///
    /// # Errors
    /// [`NoName`].
    pub fn new(name: &[u8]) -> Result<Self, NoName> {
        let is_of_it = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
        let mut bytes = [0; OVERLAY_COUNTER_NAME_BYTES_MAX];
        let own = bytes.get_mut(..name.len()).ok_or(NoName)?;
        own.copy_from_slice(name);
        (!name.is_empty() && name.iter().all(is_of_it)).then_some(Self(bytes)).ok_or(NoName)
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        // It is ASCII.
        core::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl core::fmt::Debug for CounterName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::fmt::Display for CounterName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for CounterName {
    type Error = NoName;

    fn try_from(name: String) -> Result<Self, NoName> {
        Self::new(name.as_bytes())
    }
}

impl From<CounterName> for String {
    fn from(name: CounterName) -> Self {
        name.as_str().into()
    }
}

/// Counters of some ranks: of each name a summary over those that have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// At most [`OVERLAY_COUNTERS_MAX`], the first ones.
    some: BTreeMap<CounterName, Summary>,
    /// Values of others.
    dropped: u64,
}

impl Counters {
    /// What one rank offers.
    #[must_use]
    pub fn of(rank: Rank, values: impl IntoIterator<Item = (CounterName, u64)>) -> Self {
        let some = values.into_iter().map(|(name, value)| (name, Summary::of(rank, value))).collect();
        let mut all = Self { some, dropped: 0 };
        all.keep_to_limit();
        all
    }

    /// Those of other ranks, too.
    pub(super) fn merge(&mut self, other: &Self) {
        for (name, summary) in &other.some {
            self.some.entry(*name).or_default().merge(summary);
        }
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.keep_to_limit();
    }

    fn keep_to_limit(&mut self) {
        while self.some.len() > OVERLAY_COUNTERS_MAX
            && let Some((_, last)) = self.some.pop_last()
        {
            self.dropped = self.dropped.saturating_add(last.count());
        }
    }

    /// Each with the summary over the ranks that have it, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (CounterName, &Summary)> {
        self.some.iter().map(|(name, summary)| (*name, summary))
    }

    /// Values of ranks that were left out, because there were more than [`OVERLAY_COUNTERS_MAX`] names.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether these may be of these ranks: what came from elsewhere fits together.
    pub(super) fn are_of(&self, ranks: &Ranks) -> bool {
        let most = ranks.count();
        let is_of = |summary: &Summary| {
            let count = summary.count();
            (1..=most).contains(&count) && summary.is_of(count) && summary.is_within(ranks)
        };
        self.some.len() <= OVERLAY_COUNTERS_MAX && self.some.values().all(is_of)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{CounterName, Counters, NoName, Summary};
    use crate::ids::Rank;
    use crate::limits::{OVERLAY_COUNTER_NAME_BYTES_MAX, OVERLAY_COUNTERS_MAX};
    use crate::ranks::Ranks;

    fn name(number: u8) -> CounterName {
        CounterName::new(format!("n{number}").as_bytes()).expect("a name")
    }

    #[test]
    fn names_are_as_they_may_be() {
        let longest = "a".repeat(OVERLAY_COUNTER_NAME_BYTES_MAX);
        for good in ["a", "steps.done-0_9", &longest] {
            let name = CounterName::new(good.as_bytes()).expect("a name");
            assert_eq!((name.as_str(), CounterName::try_from(String::from(name))), (good, Ok(name)));
        }
        for bad in ["", "A", "a b", "a\0", "ü", &format!("{longest}a")] {
            assert_eq!(CounterName::new(bad.as_bytes()), Err(NoName), "{bad}");
        }
        assert!(name(1) < name(10) && name(10) < name(2), "by their characters");
    }

    proptest! {
        #[test]
        fn what_is_kept_of_all_is_exact_in_whichever_order(
            ranks in vec(btree_map(0_u8..40, any::<u64>(), 0..20), 0..12), middle in any::<proptest::sample::Index>(),
        ) {
            let of = |(rank, values): (u32, &BTreeMap<u8, u64>)| {
                Counters::of(Rank(rank), values.iter().map(|(number, value)| (name(*number), *value)))
            };
            let each: Vec<Counters> = (0..).zip(&ranks).map(of).collect();
            let sum = |some: &[Counters]| {
                let mut all = Counters::default();
                some.iter().for_each(|one| all.merge(one));
                all
            };
            let (left, right) = each.split_at(middle.index(each.len() + 1));
            let (mut one, mut other) = (sum(left), sum(right));
            one.merge(&other);
            other.merge(&sum(left));
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(&one, &sum(&each));
            prop_assert!(one.are_of(&Ranks::range(Rank(0), ranks.len() as u32)));

            let mut plain = BTreeMap::<CounterName, Summary>::new();
            for (rank, values) in (0..).zip(&ranks) {
                for (number, value) in values {
                    plain.entry(name(*number)).or_default().merge(&Summary::of(Rank(rank), *value));
                }
            }
            let beyond = plain.keys().nth(OVERLAY_COUNTERS_MAX).copied();
            let left_out = beyond.map(|first| plain.split_off(&first)).unwrap_or_default();
            prop_assert!(one.iter().eq(plain.iter().map(|(name, summary)| (*name, summary))));
            prop_assert_eq!(one.dropped(), left_out.values().map(Summary::count).sum::<u64>());
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let one = Counters::of(Rank(3), [(name(1), 0)]);
        assert!(one.are_of(&Ranks::range(Rank(2), 2)));
        assert!(!one.are_of(&Ranks::range(Rank(0), 3)), "of others");
        assert!(!Counters { some: [(name(1), Summary::default())].into(), dropped: 0 }.are_of(&Ranks::from(Rank(3))));
        let many: BTreeMap<_, _> = (0..17).map(|number| (name(number), Summary::of(Rank(0), 1))).collect();
        assert!(!Counters { some: many, dropped: 0 }.are_of(&Ranks::from(Rank(0))));
        let bytes = postcard::to_allocvec(&(BTreeMap::from([("No", Summary::of(Rank(0), 1))]), 0_u64)).expect("data");
        assert!(postcard::from_bytes::<Counters>(&bytes).is_err());
    }
}
