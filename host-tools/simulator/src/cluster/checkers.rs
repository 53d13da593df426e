//! What must hold in every run of a whole cluster, whatever goes wrong, as those see it who are outside.

mod given_up;
mod jobs;
mod limits;
mod numbers;
mod overlays;
mod pmi;
mod pmix;
mod promises;
mod rates;
mod refusals;
mod retention;
mod shares;
mod troubles;

pub(super) use self::given_up::{GivenUp, Who};
pub(super) use self::jobs::Jobs;
pub(super) use self::limits::Limits;
pub(super) use self::numbers::Numbers;
pub(super) use self::overlays::Overlays;
pub(super) use self::pmi::{Note, Pmi};
pub(super) use self::pmix::{Pmix, PmixNote};
pub(super) use self::promises::Promises;
pub(super) use self::rates::Rates;
pub(super) use self::refusals::Refusals;
pub(super) use self::retention::{Asked, Retention};
pub(super) use self::shares::{Found, ShareNote, Sharer, Shares};
pub(super) use self::troubles::Troubles;
use crate::checkers::Violation;

/// All checkers of a run.
#[derive(Debug, Default)]
pub(super) struct Checkers {
    pub given_up: GivenUp,
    pub jobs: Jobs,
    pub limits: Limits,
    pub numbers: Numbers,
    pub overlays: Overlays,
    pub pmi: Pmi,
    pub pmix: Pmix,
    pub promises: Promises,
    pub rates: Rates,
    pub refusals: Refusals,
    pub retention: Retention,
    pub shares: Shares,
    pub troubles: Troubles,
}

impl Checkers {
    /// What was found since this was last asked.
    ///
    /// # Errors
    /// The first of it.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let all = [
            ("given up", self.given_up.found()),
            ("jobs", self.jobs.found()),
            ("limits", self.limits.found()),
            ("numbers", self.numbers.found()),
            ("overlays", self.overlays.found()),
            ("pmi", self.pmi.found()),
            ("pmix", self.pmix.found()),
            ("promises", self.promises.found()),
            ("rates", self.rates.found()),
            ("refusals", self.refusals.found()),
            ("retention", self.retention.found()),
            ("shares", self.shares.found()),
        ];
        for (checker, found) in all {
            if let Some(first) = found.pop() {
                return Err(first.by(checker));
            }
        }
        Ok(())
    }
}
