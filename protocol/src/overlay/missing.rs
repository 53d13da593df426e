//! Who is missing, and since when.

use alloc::collections::BTreeMap;

use crate::limits::OVERLAY_MISSING_SINCE_MAX;
use crate::ranks::Ranks;

/// Ranks that are missing, by the first epoch in which they were: at most [`OVERLAY_MISSING_SINCE_MAX`] of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    since: BTreeMap<u64, Ranks>,
    /// The last epoch that was looked at.
    last: u64,
}

/// Those of `ranks` that are not in `others`. All of them, if that would be too scattered to be said.
fn without(ranks: &Ranks, others: &Ranks, size: u32) -> Ranks {
    let remain = |ranks: &Ranks, others: &Ranks| {
        let mut outside = ranks.missing_of(size)?;
        outside.join(others).then(|| outside.missing_of(size)).flatten()
    };
    remain(ranks, others).unwrap_or_else(|| ranks.clone())
}

impl Missing {
    /// These were in an epoch of a job of so many ranks: others are missing, if no later one has come.
    pub(super) fn has_come(&mut self, epoch: u64, ranks: &Ranks, size: u32) {
        for missing in self.since.values_mut() {
            *missing = without(missing, ranks, size);
        }
        self.since.retain(|_, missing| missing.count() > 0);
        if epoch < self.last {
            return;
        }
        self.last = epoch;
        let mut new = ranks.missing_of(size).unwrap_or_default();
        for known in self.since.values() {
            new = without(&new, known, size);
        }
        if new.count() == 0 {
            return;
        }
        if self.since.len() >= OVERLAY_MISSING_SINCE_MAX
            && let Some(mut last) = self.since.last_entry()
        {
            last.get_mut().join(&new);
            return;
        }
        self.since.entry(epoch).or_default().join(&new);
    }

    /// They, the first ones first.
    pub(super) fn since(&self) -> impl Iterator<Item = (u64, &Ranks)> {
        self.since.iter().map(|(epoch, ranks)| (*epoch, ranks))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Missing;
    use crate::ids::Rank;
    use crate::limits::OVERLAY_MISSING_SINCE_MAX;
    use crate::ranks::Ranks;

    fn ranks(some: &[u32]) -> Ranks {
        some.iter().copied().map(Rank).collect()
    }

    #[test]
    fn who_is_missing_is_known_since_when() {
        let mut missing = Missing::default();
        let all = |missing: &Missing| missing.since().map(|(epoch, ranks)| (epoch, ranks.clone())).collect::<Vec<_>>();
        missing.has_come(4, &ranks(&[0, 1, 2, 3, 4, 5]), 6);
        assert_eq!(all(&missing), []);
        missing.has_come(5, &ranks(&[0, 2, 3, 5]), 6);
        missing.has_come(6, &ranks(&[0, 2, 3, 5]), 6);
        missing.has_come(7, &ranks(&[0, 3, 5]), 6);
        assert_eq!(all(&missing), [(5, ranks(&[1, 4])), (7, ranks(&[2]))]);
        missing.has_come(8, &ranks(&[0, 3, 4, 5]), 6);
        assert_eq!(all(&missing), [(5, ranks(&[1])), (7, ranks(&[2]))]);
        // What comes late of an earlier epoch is there, and nobody is missing for it.
        missing.has_come(7, &ranks(&[0, 2, 3, 5]), 6);
        assert_eq!(all(&missing), [(5, ranks(&[1]))]);
    }

    #[test]
    fn it_is_not_known_without_end() {
        let mut missing = Missing::default();
        for epoch in 0..2 * OVERLAY_MISSING_SINCE_MAX as u32 {
            missing.has_come(epoch.into(), &Ranks::range(Rank(0), 1000 - epoch), 1000);
        }
        assert_eq!(missing.since().count(), OVERLAY_MISSING_SINCE_MAX);
        let all: u64 = missing.since().map(|(_, ranks)| ranks.count()).sum();
        assert_eq!(all, 2 * OVERLAY_MISSING_SINCE_MAX as u64 - 1);
    }
}
