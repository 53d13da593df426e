//! What a program's task does, and for how long, while somebody wants to know.
//!
//! It is in one [`Phase`] at any time, and each time it goes over to another one, what the last one took is added to
//! that phase's sum. So the sums are the time that has passed, all of it and none of it twice. Only the task's own core
//! writes here, but for when it was woken, which whoever wakes it says. Anybody may look at any time, and sees the
//! phase that is under way, too.

use super::platform;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::sync::spin_loop;

/// What a program's task does, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It runs its program.
    User,
    /// It has the core, and is in the kernel.
    Kernel,
    /// It waits for a word of memory.
    Futex,
    /// It waits for a socket, or for what the kernel answers at a descriptor.
    Network,
    /// It waits for a file.
    File,
    /// It waits for standard input.
    Input,
    /// It waits for time to pass, or for a signal.
    Sleep,
    /// It waits for a page.
    Page,
    /// It could run, and others do.
    Ready,
    /// It waits for what is nobody's business: it is stopped, or held.
    Other,
}

impl Phase {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::User,
        Self::Kernel,
        Self::Futex,
        Self::Network,
        Self::File,
        Self::Input,
        Self::Sleep,
        Self::Page,
        Self::Ready,
        Self::Other,
    ];

    /// Whether it has the core in it.
    const fn has_core(self) -> bool {
        matches!(self, Self::User | Self::Kernel)
    }
}

/// How long a task was in each phase, ns.
pub type PhaseTimes = [u64; Phase::COUNT];

/// See this module.
#[derive(Debug)]
pub(super) struct Phases {
    /// Somebody wants to know.
    is_measured: AtomicBool,
    /// What it waits for when it next waits, a [`Phase`].
    waits_for: AtomicU8,
    /// The phase that is under way ([`Span`]), or [`NONE`], or [`CHANGING`].
    span: AtomicU64,
    /// When it was woken since it last began to run, ns, or [`NEVER`].
    woken_ns: AtomicU64,
    /// What phases that are over took, ns.
    sums: [AtomicU64; Phase::COUNT],
}

/// [`Phases::span`] of what is not measured.
const NONE: u64 = u64::MAX;

/// [`Phases::span`] while it changes.
const CHANGING: u64 = u64::MAX - 1;

/// [`Phases::woken_ns`] of what was not woken.
const NEVER: u64 = u64::MAX;

/// How often one looks again who has come upon a change. They are over in a few instructions, unless something keeps
/// the whole core from going on.
const LOOKS_MAX: u32 = 10_000;

/// A phase under way and when it began, as one word: no two of a task are the same.
#[derive(Clone, Copy)]
struct Span {
    phase: Phase,
    since_ns: u64,
}

impl Span {
    const PHASE_BITS: u32 = 4;

    const fn word(self) -> u64 {
        self.since_ns << Self::PHASE_BITS | self.phase as u64
    }

    /// `None`: there is none, or it changes.
    fn of(word: u64) -> Option<Self> {
        let number = word as usize & ((1 << Self::PHASE_BITS) - 1);
        Some(Self { phase: *Phase::ALL.get(number)?, since_ns: word >> Self::PHASE_BITS })
    }

    /// Where the time until `now_ns` goes, of a task that was woken then or not: the phase itself, and being ready.
    fn parts(self, woken_ns: u64, now_ns: u64) -> [(Phase, u64); 2] {
        let until_ns = woken_ns.clamp(self.since_ns, now_ns.max(self.since_ns));
        [(self.phase, until_ns - self.since_ns), (Phase::Ready, now_ns.saturating_sub(until_ns))]
    }
}

impl Phases {
    pub(super) const fn new() -> Self {
        Self {
            is_measured: AtomicBool::new(false),
            waits_for: AtomicU8::new(Phase::Other as u8),
            span: AtomicU64::new(NONE),
            woken_ns: AtomicU64::new(NEVER),
            sums: [const { AtomicU64::new(0) }; Phase::COUNT],
        }
    }

    /// Whether it is to be measured. The task goes by that when it next begins or ceases to run.
    pub(super) fn measure(&self, on: bool) {
        self.is_measured.store(on, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_measured(&self) -> bool {
        self.is_measured.load(Ordering::Acquire)
    }

    /// What it waits for when it next waits.
    #[inline]
    pub(super) fn waits_for(&self, phase: Phase) {
        self.waits_for.store(phase as u8, Ordering::Relaxed);
    }

    /// It begins to run. Gives whether it is measured.
    #[inline]
    pub(super) fn runs(&self, now_ns: u64) -> bool {
        let is_measured = self.is_measured.load(Ordering::Relaxed);
        if is_measured || self.span.load(Ordering::Relaxed) != NONE {
            self.begin_to_run(is_measured, now_ns);
        }
        is_measured
    }

    #[cold]
    fn begin_to_run(&self, is_measured: bool, now_ns: u64) {
        self.turn_to(is_measured.then_some(Phase::Kernel), now_ns, true);
    }

    /// It ceases to run.
    #[inline]
    pub(super) fn waits(&self) {
        if self.is_measured.load(Ordering::Relaxed) || self.span.load(Ordering::Relaxed) != NONE {
            self.begin_to_wait();
        }
    }

    #[cold]
    fn begin_to_wait(&self) {
        let waits_for = usize::from(self.waits_for.load(Ordering::Relaxed));
        let phase = Phase::ALL.get(waits_for).copied().filter(|_| self.is_measured.load(Ordering::Relaxed));
        self.turn_to(phase, platform::now_ns(), false);
    }

    /// It runs its program, or no longer. Gives the time, ns.
    #[inline]
    pub(super) fn in_program(&self, is_in: bool) -> u64 {
        let now_ns = platform::now_ns();
        self.turn_to(Some(if is_in { Phase::User } else { Phase::Kernel }), now_ns, false);
        now_ns
    }

    /// It was woken. Whoever does that says so before the task is queued.
    pub(super) fn woken(&self, now_ns: u64) {
        self.woken_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Goes over to a phase, or to none. If it `was_away`, it may have been ready for a part of the time.
    fn turn_to(&self, phase: Option<Phase>, now_ns: u64, was_away: bool) {
        let over = Span::of(self.span.load(Ordering::Relaxed));
        self.span.store(CHANGING, Ordering::Relaxed);
        if let Some(over) = over {
            let woken_ns = if was_away { self.woken_ns.load(Ordering::Relaxed) } else { NEVER };
            for (phase, part_ns) in over.parts(woken_ns, now_ns) {
                let sum = &self.sums[phase as usize];
                // Who sees this sees that something changes.
                sum.store(sum.load(Ordering::Relaxed).saturating_add(part_ns), Ordering::Release);
            }
        }
        if was_away {
            self.woken_ns.store(NEVER, Ordering::Release);
        }
        let span = phase.map_or(NONE, |phase| Span { phase, since_ns: now_ns }.word());
        self.span.store(span, Ordering::Release);
    }

    /// How long it was in each phase until `now_ns`, which was the time a moment ago, the one under way included.
    pub(super) fn times(&self, now_ns: u64) -> PhaseTimes {
        for _ in 0..LOOKS_MAX {
            let word = self.span.load(Ordering::Acquire);
            let mut times = self.sums.each_ref().map(|sum| sum.load(Ordering::Acquire));
            let woken_ns = self.woken_ns.load(Ordering::Acquire);
            if word == CHANGING || self.span.load(Ordering::Acquire) != word {
                spin_loop();
                continue;
            }
            if let Some(span) = Span::of(word) {
                let woken_ns = if span.phase.has_core() { NEVER } else { woken_ns };
                for (phase, part_ns) in span.parts(woken_ns, now_ns) {
                    times[phase as usize] = times[phase as usize].saturating_add(part_ns);
                }
            }
            return times;
        }
        // Without the phase that is just over, as if this had been asked for before.
        self.sums.each_ref().map(|sum| sum.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::super::platform;
    use super::{Phase, PhaseTimes, Phases};

    fn only(times: &[(Phase, u64)]) -> PhaseTimes {
        let mut expected = PhaseTimes::default();
        for (phase, ns) in times {
            expected[*phase as usize] += ns;
        }
        expected
    }

    /// Lets time pass. Gives what it is then.
    fn after(ns: u64) -> u64 {
        platform::advance_to(platform::now_ns() + ns);
        platform::now_ns()
    }

    #[test]
    fn all_time_is_in_one_phase() {
        let phases = Phases::new();
        phases.measure(true);
        assert!(phases.runs(after(5)));
        after(10);
        phases.in_program(true);
        assert_eq!(phases.times(after(20)), only(&[(Phase::Kernel, 10), (Phase::User, 20)]));
        phases.in_program(false);
        phases.waits_for(Phase::Page);
        after(1);
        phases.waits();
        let so_far = [(Phase::Kernel, 11), (Phase::User, 20)];
        assert_eq!(phases.times(after(100)), only(&[so_far[0], so_far[1], (Phase::Page, 100)]));
        phases.woken(after(50));
        let expected = only(&[so_far[0], so_far[1], (Phase::Page, 150), (Phase::Ready, 7)]);
        assert_eq!(phases.times(after(7)), expected);
        assert!(phases.runs(platform::now_ns()));
        assert_eq!(phases.times(platform::now_ns()), expected);
        // A look that began before that says no more.
        assert_eq!(phases.times(platform::now_ns() - 3), expected);
    }

    #[test]
    fn who_is_woken_while_it_runs_is_ready_when_it_ceases_to() {
        let phases = Phases::new();
        phases.measure(true);
        phases.runs(platform::now_ns());
        phases.woken(after(3));
        assert_eq!(phases.times(after(4)), only(&[(Phase::Kernel, 7)]));
        phases.waits_for(Phase::File);
        phases.waits();
        assert_eq!(phases.times(after(11)), only(&[(Phase::Kernel, 7), (Phase::Ready, 11)]));
        phases.runs(platform::now_ns());
        phases.waits();
        let expected = only(&[(Phase::Kernel, 7), (Phase::Ready, 11), (Phase::File, 2)]);
        assert_eq!(phases.times(after(2)), expected, "it was woken once");
    }

    #[test]
    fn who_goes_on_as_another_task_is_ready_from_when_that_was_woken() {
        let phases = Phases::new();
        phases.measure(true);
        phases.runs(platform::now_ns());
        // It does not wait, but comes to its end here.
        phases.woken(after(3));
        assert_eq!(phases.times(after(4)), only(&[(Phase::Kernel, 7)]));
        phases.runs(platform::now_ns());
        assert_eq!(phases.times(after(2)), only(&[(Phase::Kernel, 5), (Phase::Ready, 4)]));
    }

    #[test]
    fn what_is_not_measured_takes_no_time() {
        let phases = Phases::new();
        let round = || {
            let is_measured = phases.runs(after(1));
            after(2);
            phases.waits_for(Phase::Sleep);
            phases.waits();
            after(4);
            is_measured
        };
        assert!(!round());
        assert_eq!(phases.times(platform::now_ns()), PhaseTimes::default());
        // A wait that is under way counts when the task has run for a moment.
        phases.measure(true);
        assert!(round());
        let expected = only(&[(Phase::Kernel, 2), (Phase::Sleep, 4)]);
        assert_eq!(phases.times(platform::now_ns()), expected);
        phases.measure(false);
        assert!(!round() && !round());
        assert_eq!(phases.times(platform::now_ns()), only(&[(Phase::Kernel, 2), (Phase::Sleep, 5)]));
    }
}

#[cfg(all(test, feature = "model"))]
mod models;
