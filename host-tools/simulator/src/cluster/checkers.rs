//! What must hold in every run of a whole cluster, whatever goes wrong, as those see it who are outside.

mod jobs;
mod retention;

pub(super) use self::jobs::Jobs;
pub(super) use self::retention::{Asked, Retention};

/// All checkers of a run.
#[derive(Debug, Default)]
pub(super) struct Checkers {
    pub jobs: Jobs,
    pub retention: Retention,
}
