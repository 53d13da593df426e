//! How long a program's task had the processor, how often, and what it does else.

use crate::sync::atomic::{AtomicU64, Ordering};

use super::phases::{Phase, PhaseTimes, Phases};
use super::platform;

/// The time a program's task had the processor, in all its turns. Only its core writes it.
#[derive(Debug)]
pub struct RunTime {
    /// In turns that are over, ns.
    used_ns: AtomicU64,
    /// When its turn began, ns of the monotonic clock; [`NO_TURN`]: it has none now.
    since_ns: AtomicU64,
    /// How many turns it had, or pieces of them.
    turns: AtomicU64,
    /// What it does, while somebody wants to know.
    phases: Phases,
}

/// [`RunTime::since_ns`] of what does not run.
const NO_TURN: u64 = u64::MAX;

impl RunTime {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            used_ns: AtomicU64::new(0),
            since_ns: AtomicU64::new(NO_TURN),
            turns: AtomicU64::new(0),
            phases: Phases::new(),
        }
    }

    /// Goes on from so much, ns, before its first turn.
    pub fn go_on_from(&self, used_ns: u64) {
        self.used_ns.store(used_ns, Ordering::Release);
    }

    /// A turn begins. Gives whether it is measured what the task does.
    #[inline]
    pub(super) fn begin(&self, now_ns: u64) -> bool {
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.phases.runs(now_ns)
    }

    /// The task is about to leave the core, and has not come to its end.
    #[inline]
    pub(super) fn pause(&self) {
        self.phases.waits();
    }

    /// The task was woken, and is about to be queued.
    pub(super) fn woken(&self) {
        self.phases.woken(platform::now_ns());
    }

    /// The turn ends after so long.
    #[inline]
    pub(super) fn end(&self, turn_ns: u64) {
        // Whoever looks between the two misses a turn for a moment, rather than having it twice.
        self.since_ns.store(NO_TURN, Ordering::Release);
        self.used_ns.store(self.used_ns.load(Ordering::Relaxed).saturating_add(turn_ns), Ordering::Release);
    }

    /// The time so far, ns, that of a turn under way included.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let used_ns = self.used_ns.load(Ordering::Acquire);
        match self.since_ns.load(Ordering::Acquire) {
            NO_TURN => used_ns,
            since_ns => used_ns.saturating_add(platform::now_ns().saturating_sub(since_ns)),
        }
    }

    /// How many turns it had, or pieces of them.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Whether it is to be measured how long the task is in which phase. It goes by that from when it next begins or
    /// ceases to run: who wants that to be now wakes it.
    pub fn measure(&self, on: bool) {
        self.phases.measure(on);
    }

    /// Whether that is measured.
    #[inline]
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.phases.is_measured()
    }

    /// What the task waits for when it next waits. To be said by itself.
    #[inline]
    pub fn waits_for(&self, phase: Phase) {
        self.phases.waits_for(phase);
    }

    /// The task goes into its program, or has come back. To be said by itself, if it is measured. Gives the time, ns.
    #[inline]
    pub fn in_program(&self, is_in: bool) -> u64 {
        self.phases.in_program(is_in)
    }

    /// How long it was in which phase until `now_ns`, which is to be what the clock showed just now, as far as that was
    /// measured.
    #[must_use]
    pub fn phase_times(&self, now_ns: u64) -> PhaseTimes {
        self.phases.times(now_ns)
    }
}

impl Default for RunTime {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::platform;
    use super::RunTime;

    #[test]
    fn only_turns_count() {
        let time = RunTime::new();
        platform::advance_to(1_000);
        assert_eq!(time.ns(), 0);
        time.begin(1_000);
        platform::advance_to(1_300);
        assert_eq!(time.ns(), 300);
        time.end(300);
        platform::advance_to(5_000);
        assert_eq!(time.ns(), 300);
        time.begin(5_000);
        platform::advance_to(5_100);
        assert_eq!(time.ns(), 400);
    }
}
