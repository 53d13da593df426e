//! What some ranks of a job did in an epoch: whose it is is said with it, so that parts come together to what is exact
//! about what is in it, and nothing is counted twice.

use alloc::boxed::Box;
use core::array;

use serde::{Deserialize, Serialize};

use super::metric::{METRICS, Metric};
use super::summary::Summary;
use crate::ids::Rank;
use crate::ranks::Ranks;

/// What one rank did in an epoch, by metric.
pub type Values = [u64; METRICS];

/// See this module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    epoch: u64,
    ranks: Ranks,
    summaries: Box<[Summary; METRICS]>,
}

/// Why parts do not come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMerged {
    /// Of other epochs.
    #[error("they are of different epochs")]
    OtherEpoch,
    /// All ranks of the other one are in it.
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
        Self { epoch, ranks: Ranks::default(), summaries: Box::new(array::from_fn(|_| Summary::default())) }
    }

    /// Of one rank.
    #[must_use]
    pub fn of(epoch: u64, rank: Rank, values: &Values) -> Self {
        let summaries = values.map(|value| Summary::of(rank, value));
        Self { epoch, ranks: rank.into(), summaries: Box::new(summaries) }
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
    pub fn summary(&self, metric: Metric) -> &Summary {
        &self.summaries[metric as usize]
    }

    /// Adds what others did.
    ///
    /// # Errors
    /// [`NotMerged`]: nothing was added.
    pub fn merge(&mut self, other: &Self) -> Result<(), NotMerged> {
        if self.epoch != other.epoch {
            return Err(NotMerged::OtherEpoch);
        }
        if self.ranks.has_any(&other.ranks) {
            return Err(if self.ranks.has_all(&other.ranks) { NotMerged::Again } else { NotMerged::Overlaps });
        }
        if !self.ranks.join(&other.ranks) {
            return Err(NotMerged::Scattered);
        }
        self.summaries.iter_mut().zip(other.summaries.iter()).for_each(|(one, other)| one.merge(other));
        Ok(())
    }

    /// Whether what came from elsewhere fits together.
    pub(super) fn is_sound(&self) -> bool {
        let count = self.ranks.count();
        self.summaries.iter().all(|summary| summary.is_of(count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::{NotMerged, Part, Values};
    use crate::ids::Rank;
    use crate::overlay::metric::{METRICS, Metric};
    use crate::overlay::{NoMessage, Source, Up};

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
                prop_assert_eq!(all.merge(&Part::of(9, Rank(*rank), &values)), Ok(()));
            }
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
            }
        }
    }
}
