//! Members as ranges of neighbours.

use alloc::vec::Vec;

/// Some members, in ranges that neither meet nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberRanges {
    /// First and last, in order.
    ranges: Vec<(u32, u32)>,
}

impl MemberRanges {
    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The ranges, first and last of each.
    #[must_use]
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// How many members there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        let counts = self.ranges.iter().map(|(first, last)| (last - first).saturating_add(1));
        counts.fold(0, u32::saturating_add)
    }

    /// Whether all from `first` to `last` are there.
    #[must_use]
    pub fn covers(&self, first: u32, last: u32) -> bool {
        let index = self.ranges.partition_point(|(_, end)| *end < first);
        self.ranges.get(index).is_some_and(|range| range.0 <= first && last <= range.1)
    }

    /// Adds all from `first` to `last`, if that is a range. Whether anything is new.
    pub fn add(&mut self, first: u32, last: u32) -> bool {
        if first > last || self.covers(first, last) {
            return false;
        }
        let start = self.ranges.partition_point(|(_, end)| end.saturating_add(1) < first);
        let end = self.ranges.partition_point(|(begin, _)| *begin <= last.saturating_add(1));
        let joined = self.ranges[start..end]
            .iter()
            .fold((first, last), |(low, high), range| (low.min(range.0), high.max(range.1)));
        self.ranges.splice(start..end, [joined]);
        true
    }

    /// The first member from `from` to `to` that is not there.
    #[must_use]
    pub fn first_missing(&self, from: u32, to: u32) -> Option<u32> {
        let index = self.ranges.partition_point(|(_, end)| *end < from);
        let missing = match self.ranges.get(index) {
            Some((first, last)) if *first <= from => last.checked_add(1)?,
            _ => from,
        };
        (missing <= to).then_some(missing)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::MemberRanges;

    proptest! {
        #[test]
        fn they_are_a_set(added in vec((0..60_u32, 1..12_u32), 0..30), from in 0..80_u32, to in 0..80_u32) {
            let (mut ranges, mut model) = (MemberRanges::none(), BTreeSet::new());
            for (first, length) in added {
                let before = model.len();
                model.extend(first..first + length);
                prop_assert_eq!(ranges.add(first, first + length - 1), model.len() > before);
            }
            prop_assert_eq!(ranges.count() as usize, model.len());
            prop_assert!(ranges.ranges().is_sorted_by(|one, other| one.1 + 1 < other.0));
            prop_assert_eq!(ranges.first_missing(from, to), (from..=to).find(|member| !model.contains(member)));
            if from <= to {
                prop_assert_eq!(ranges.covers(from, to), (from..=to).all(|member| model.contains(&member)));
            }
        }
    }

    #[test]
    fn the_last_numbers_are_numbers_too() {
        let mut ranges = MemberRanges::none();
        assert!(ranges.add(u32::MAX, u32::MAX) && ranges.add(0, 0) && !ranges.add(5, 4));
        assert!(ranges.covers(u32::MAX, u32::MAX));
        assert_eq!(ranges.first_missing(u32::MAX, u32::MAX), None);
        assert_eq!(ranges.count(), 2);
        assert!(ranges.add(0, u32::MAX));
        assert_eq!(ranges.count(), u32::MAX, "one more than there are numbers for");
    }
}
