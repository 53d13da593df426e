//! How often the ranks of a job are looked at: as often as somebody wants to know, and less often if what comes of it
//! comes late again and again, because nodes, links or the service node have too much else to do.

use coppice_protocol::limits::OVERLAY_PERIOD_NS_MAX;

use crate::limits::OVERLAY_PACE_EPOCHS;

/// See this module. The rate goes down only; whoever wants it up again says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Length of an epoch, ms.
    period_ms: u64,
    /// Epochs since it was looked at last, …
    epochs: u32,
    /// … and how many of them were late.
    late: u32,
    /// The last one that was.
    last_late: Option<u64>,
}

impl Pace {
    pub(super) const fn new(period_ms: u64) -> Self {
        Self { period_ms, epochs: 0, late: 0, last_late: None }
    }

    pub(super) const fn period_ms(self) -> u64 {
        self.period_ms
    }

    /// Parts of an epoch came late, or could not be taken at all.
    pub(super) fn is_late(&mut self, epoch: u64) {
        if self.last_late != Some(epoch) {
            self.late += 1;
            self.last_late = Some(epoch);
        }
    }

    /// An epoch came together. How long epochs are to be from now on, ms, if that is another length: half or more of
    /// the last [`OVERLAY_PACE_EPOCHS`] were late.
    pub(super) fn epoch(&mut self) -> Option<u64> {
        self.epochs += 1;
        if self.epochs < OVERLAY_PACE_EPOCHS {
            return None;
        }
        let is_slow = self.late >= OVERLAY_PACE_EPOCHS / 2;
        (self.epochs, self.late) = (0, 0);
        let next_ms = self.period_ms.saturating_mul(2);
        (is_slow && next_ms <= OVERLAY_PERIOD_NS_MAX / 1_000_000).then_some(next_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use crate::limits::OVERLAY_PACE_EPOCHS;

    /// What comes of so many epochs, the first ones of which are late.
    fn after(period_ms: u64, late: u32) -> Option<u64> {
        let mut pace = Pace::new(period_ms);
        let mut next = None;
        for epoch in 0..OVERLAY_PACE_EPOCHS {
            assert_eq!(next, None, "before it is due");
            if epoch < late {
                // Parts of several nodes.
                pace.is_late(epoch.into());
                pace.is_late(epoch.into());
            }
            next = pace.epoch();
        }
        next
    }

    #[test]
    fn the_rate_goes_down_when_half_of_the_epochs_are_late() {
        assert_eq!(after(100, 0), None);
        assert_eq!(after(100, OVERLAY_PACE_EPOCHS / 2 - 1), None);
        assert_eq!(after(100, OVERLAY_PACE_EPOCHS / 2), Some(200));
        assert_eq!(after(100, OVERLAY_PACE_EPOCHS), Some(200));
        assert_eq!(after(3_600_000, OVERLAY_PACE_EPOCHS), None, "no less often than that");
    }

    #[test]
    fn what_was_late_long_ago_does_not_count() {
        let mut pace = Pace::new(100);
        for epoch in 0..8 * OVERLAY_PACE_EPOCHS {
            if epoch % OVERLAY_PACE_EPOCHS < OVERLAY_PACE_EPOCHS / 2 - 1 {
                pace.is_late(epoch.into());
            }
            assert_eq!(pace.epoch(), None);
        }
    }
}
