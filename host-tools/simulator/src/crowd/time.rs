//! Processor time of this thread, for what is measured in the middle of everything else.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Adds up the time of some things of many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    taken: Duration,
}

impl Meter {
    /// Does it, and counts the time.
    pub(super) fn count<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let begin = now();
        let result = work();
        self.taken += now().saturating_sub(begin);
        result
    }

    /// What was counted since the last time.
    pub(super) fn take(&mut self) -> Duration {
        std::mem::take(&mut self.taken)
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
