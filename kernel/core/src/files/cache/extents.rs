//! Which bytes of a file were written on the node and are not at the I/O node yet: ranges that do not touch each other.

use core::ops::Range;

use alloc::vec::Vec;

/// Ranges that are kept apart; one more has the file written back first.
pub(super) const EXTENTS_MAX: usize = 32;

/// See this module. Ordered, and never longer than [`EXTENTS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Extents {
    ranges: Vec<Range<u64>>,
    bytes: u64,
}

impl Extents {
    /// What all of them may take of the heap, bytes.
    pub(super) const BYTES: usize = EXTENTS_MAX * size_of::<Range<u64>>();

    /// How many bytes are in them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether any byte of a range is in them.
    pub(super) fn touch(&self, range: &Range<u64>) -> bool {
        self.ranges.iter().any(|own| own.start < range.end && range.start < own.end)
    }

    /// Whether a range can be added.
    pub(super) fn fits(&mut self, range: &Range<u64>) -> bool {
        let touches = |own: &Range<u64>| own.start <= range.end && range.start <= own.end;
        self.ranges.iter().any(touches) || self.ranges.len() < EXTENTS_MAX && self.ranges.try_reserve(1).is_ok()
    }

    /// Adds a range. False, and nothing changes: there are too many.
    pub(super) fn add(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let first = self.ranges.partition_point(|own| own.end < range.start);
        let behind = self.ranges.partition_point(|own| own.start <= range.end);
        let merged = self.ranges.get(first..behind).unwrap_or_default();
        if merged.is_empty() {
            if self.ranges.len() >= EXTENTS_MAX || self.ranges.try_reserve(1).is_err() {
                return false;
            }
            self.bytes += range.end - range.start;
            self.ranges.insert(first, range);
            return true;
        }
        let start = merged.first().map_or(range.start, |own| own.start.min(range.start));
        let end = merged.last().map_or(range.end, |own| own.end.max(range.end));
        let before: u64 = merged.iter().map(|own| own.end - own.start).sum();
        self.bytes += (end - start) - before;
        self.ranges.drain(first + 1..behind);
        if let Some(own) = self.ranges.get_mut(first) {
            *own = start..end;
        }
        true
    }

    /// Takes the first bytes out that `may` go, at most that many in a piece. A piece ends where a multiple of `most`
    /// does, so that those of one who writes on are whole.
    pub(super) fn take(&mut self, most: u64, may: impl Fn(&Range<u64>) -> bool) -> Option<Range<u64>> {
        let piece = |own: &Range<u64>| own.start..own.end.min((own.start / most + 1).saturating_mul(most));
        let index = self.ranges.iter().position(|own| may(&piece(own)))?;
        let own = self.ranges.get_mut(index)?;
        let taken = piece(own);
        own.start = taken.end;
        if own.is_empty() {
            self.ranges.remove(index);
        }
        self.bytes -= taken.end - taken.start;
        Some(taken)
    }

    /// Forgets all bytes from `length` on.
    pub(super) fn cut(&mut self, length: u64) {
        self.ranges.retain_mut(|own| {
            own.end = own.end.min(length);
            own.start < own.end
        });
        self.bytes = self.ranges.iter().map(|own| own.end - own.start).sum();
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{EXTENTS_MAX, Extents};

    #[test]
    fn so_many_are_kept_apart() {
        let mut extents = Extents::default();
        for at in 0..EXTENTS_MAX as u64 {
            assert!(extents.add(10 * at..10 * at + 1));
        }
        assert!(!extents.add(5..6), "one too many");
        assert!(extents.add(1..10), "it joins two");
        assert!(extents.add(5000..5001));
    }

    #[test]
    fn pieces_end_where_whole_ones_do() {
        let mut extents = Extents::default();
        assert!(extents.add(5..30));
        let piece = |extents: &mut Extents| extents.take(10, |_| true);
        assert_eq!([piece(&mut extents), piece(&mut extents)], [Some(5..10), Some(10..20)]);
        assert_eq!(extents.take(10, |piece| piece.start > 20), None, "it may not go");
        assert_eq!([piece(&mut extents), piece(&mut extents)], [Some(20..30), None]);
    }

    proptest! {
        #[test]
        fn they_are_the_bytes_that_were_added(
            steps in proptest::collection::vec((0..200_u64, 0..20_u64, 0..5_u8), 1..60),
        ) {
            let (mut extents, mut model) = (Extents::default(), BTreeSet::new());
            for (start, length, what) in steps {
                match what {
                    0 => {
                        extents.cut(start);
                        model.retain(|byte| *byte < start);
                    }
                    1 => {
                        let taken = extents.take(16, |_| true);
                        prop_assert_eq!(taken.is_none(), model.is_empty());
                        for byte in taken.into_iter().flatten() {
                            prop_assert!(model.remove(&byte));
                        }
                    }
                    _ => {
                        prop_assert!(extents.add(start..start + length));
                        model.extend(start..start + length);
                    }
                }
                prop_assert_eq!(extents.bytes(), model.len() as u64);
                for byte in 0..230 {
                    prop_assert_eq!(extents.touch(&(byte..byte + 1)), model.contains(&byte));
                }
                prop_assert!(extents.ranges.is_sorted_by(|one, next| one.end < next.start));
            }
        }
    }
}
