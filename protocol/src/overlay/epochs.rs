//! What has come of epochs at the front end, and what is still to be added to them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::missing::Missing;
use super::part::{NotMerged, Part};
use crate::limits::{OVERLAY_LAST_EPOCHS_MAX, OVERLAY_LATE_EPOCHS_MAX, OVERLAY_STRANGERS_MAX};
use crate::ranks::Ranks;

/// See this module.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    /// Ranks of the job.
    size: u32,
    /// Those before that are closed.
    closed_to: u64,
    /// The last [`OVERLAY_LATE_EPOCHS_MAX`] of these.
    closed: BTreeMap<u64, Part>,
    /// What is to be added when its epoch is closed: at most [`OVERLAY_STRANGERS_MAX`] parts.
    apart: Vec<Part>,
    /// What ranks did that have ended in epochs that are not closed: at most [`OVERLAY_LAST_EPOCHS_MAX`] of these.
    last: BTreeMap<u64, Part>,
    /// Parts that came too late, and such of which some ranks were there before.
    dropped: u64,
    missing: Missing,
}

impl Epochs {
    /// Of a job of so many ranks.
    pub(super) fn new(size: u32) -> Self {
        Self { size, ..Self::default() }
    }

    /// A part is to be added when its epoch is closed, or now that it is.
    pub(super) fn add_apart(&mut self, part: Part) {
        self.apart.push(part);
    }

    /// What ranks did in the epoch in which they ended. Whether that is new.
    pub(super) fn add_last(&mut self, part: Part) -> bool {
        let epoch = part.epoch();
        let is_new = |known: Option<&Part>| known.is_none_or(|known| !known.ranks().has_any(part.ranks()));
        if part.ranks().count() == 0 || !is_new(self.closed.get(&epoch)) || !is_new(self.last.get(&epoch)) {
            return false;
        }
        if epoch < self.closed_to {
            self.apart.push(part);
            return true;
        }
        if !add(self.last.entry(epoch).or_insert_with(|| Part::none(epoch)), &part, &mut self.dropped) {
            return false;
        }
        if self.last.len() > OVERLAY_LAST_EPOCHS_MAX {
            // One that is far ahead is that of somebody whose clock is wrong.
            self.last.pop_last();
            self.dropped += 1;
        }
        true
    }

    /// An epoch is closed, after all before it that will be. What is in it, with what was said apart before.
    pub(super) fn close(&mut self, part: Part) -> Part {
        let mut whole = part;
        let apart: Vec<Part> = self.apart.extract_if(.., |apart| apart.epoch() == whole.epoch()).collect();
        for late in self.last.remove(&whole.epoch()).iter().chain(&apart) {
            add(&mut whole, late, &mut self.dropped);
        }
        self.missing.has_come(whole.epoch(), whole.ranks(), self.size);
        self.closed.insert(whole.epoch(), whole.clone());
        self.closed_to = self.closed_to.max(whole.epoch().saturating_add(1));
        whole
    }

    /// Epochs before that are closed. Those to which something was added that came late, with that.
    pub(super) fn settle(&mut self, closed_to: u64) -> Vec<Part> {
        self.closed_to = self.closed_to.max(closed_to);
        let oldest = self.closed_to.saturating_sub(OVERLAY_LATE_EPOCHS_MAX);
        self.closed = self.closed.split_off(&oldest);
        // Nothing else has come of an epoch that only has ranks that ended in it.
        let open = self.last.split_off(&self.closed_to);
        self.apart.extend(core::mem::replace(&mut self.last, open).into_values());
        let late: Vec<Part> = self.apart.extract_if(.., |apart| apart.epoch() < self.closed_to).collect();
        let mut changed = Vec::new();
        for part in late {
            if part.epoch() < oldest {
                self.dropped += 1;
                continue;
            }
            // All of an epoch may be late.
            let whole = self.closed.entry(part.epoch()).or_insert_with(|| Part::none(part.epoch()));
            if add(whole, &part, &mut self.dropped) {
                self.missing.has_come(whole.epoch(), whole.ranks(), self.size);
                changed.push(whole.clone());
            }
        }
        while self.apart.len() > OVERLAY_STRANGERS_MAX {
            self.apart.remove(0);
            self.dropped += 1;
        }
        changed
    }

    /// Nothing else will come: epochs of which nothing is known but what ranks did that ended in them, or what was said
    /// apart.
    pub(super) fn end(&mut self) -> Vec<Part> {
        for apart in &self.apart {
            self.last.entry(apart.epoch()).or_insert_with(|| Part::none(apart.epoch()));
        }
        core::mem::take(&mut self.last).into_values().map(|part| self.close(part)).collect()
    }

    /// Parts that came too late, and such of which some ranks were there before.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Ranks that were in no epoch since this one, by that, the first ones first.
    pub(super) fn missing(&self) -> impl Iterator<Item = (u64, &Ranks)> {
        self.missing.since()
    }
}

/// Adds what came late; whether anything is new.
fn add(whole: &mut Part, late: &Part, dropped: &mut u64) -> bool {
    match whole.merge(late) {
        Ok(()) => late.ranks().count() > 0,
        // It was lost for nobody.
        Err(NotMerged::Again) => false,
        Err(NotMerged::Overlaps | NotMerged::Scattered | NotMerged::OtherEpoch) => {
            *dropped += 1;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Epochs;
    use crate::ids::Rank;
    use crate::limits::{OVERLAY_LAST_EPOCHS_MAX, OVERLAY_LATE_EPOCHS_MAX};
    use crate::overlay::{METRICS, Metric, Part};

    fn part(epoch: u64, rank: u32) -> Part {
        Part::of(epoch, Rank(rank), &[u64::from(rank) + 1; METRICS])
    }

    fn sum(part: &Part) -> u128 {
        part.summary(Metric::Calls).sum()
    }

    #[test]
    fn ranks_that_end_are_in_the_epoch_in_which_they_did() {
        let mut epochs = Epochs::new(4);
        assert!(epochs.add_last(part(7, 2)) && epochs.add_last(part(7, 3)));
        assert!(!epochs.add_last(part(7, 3)), "again");
        let whole = epochs.close(part(7, 0));
        assert_eq!((whole.ranks().count(), sum(&whole)), (3, 1 + 3 + 4));
        assert!(!epochs.add_last(part(7, 2)), "again, when the epoch is closed");
        assert!(epochs.settle(8).is_empty());
        // One whose epoch is closed by then is late.
        assert!(epochs.add_last(part(7, 1)));
        let late = epochs.settle(8);
        assert_eq!((late.len(), sum(&late[0])), (1, 10));
        // One of which nothing else comes is told at the end, or when a later one is closed.
        assert!(epochs.add_last(part(8, 1)) && epochs.add_last(part(9, 2)));
        epochs.close(part(10, 0));
        assert_eq!(epochs.settle(11).iter().map(Part::epoch).collect::<alloc::vec::Vec<_>>(), [8, 9]);
        // What was said again of an epoch that has not come up the tree is told, too.
        epochs.add_apart(part(11, 3));
        assert!(epochs.settle(11).is_empty() && epochs.add_last(part(12, 3)));
        let ends = epochs.end();
        assert_eq!(ends.iter().map(|end| (end.epoch(), sum(end))).collect::<alloc::vec::Vec<_>>(), [(11, 4), (12, 4)]);
        assert_eq!(epochs.dropped(), 0);
    }

    #[test]
    fn who_is_far_ahead_does_not_have_others_lost() {
        let mut epochs = Epochs::new(1000);
        for far in 0..2 * OVERLAY_LAST_EPOCHS_MAX as u64 {
            epochs.add_last(part(1_000_000 + far, far as u32));
        }
        assert!(epochs.add_last(part(5, 999)));
        assert_eq!(sum(&epochs.close(Part::none(5))), 1000);
        assert_eq!(epochs.dropped(), OVERLAY_LAST_EPOCHS_MAX as u64 + 1);
    }

    #[test]
    fn what_is_too_late_is_counted() {
        let mut epochs = Epochs::new(4);
        epochs.close(part(100, 0));
        epochs.add_apart(part(100 - OVERLAY_LATE_EPOCHS_MAX, 1));
        epochs.add_apart(part(101 - OVERLAY_LATE_EPOCHS_MAX, 1));
        assert_eq!(epochs.settle(101).len(), 1);
        assert_eq!(epochs.dropped(), 1);
    }
}
