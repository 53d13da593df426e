//! How long a core of the kernel's goes without a look at interrupts and at its other tasks: the longest such section
//! since somebody last asked. Programs are interrupted at any time, so what they compute is none.
//!
//! What is measured: each stay of a task in the kernel, be it one of the kernel's or that of a thread that waited; and
//! of what a thread does between two stays in its program, its page faults and its calls, but for those that are to be
//! quick: those that ask for a fact, and those of poll(2) and futex(2).

use crate::sync::atomic::{AtomicU64, Ordering};

use super::core_state::{cores, current, numbered};
use super::platform;

/// No section is under way.
const NONE: u64 = u64::MAX;

/// The sections of a core, which alone writes here, but for whoever asks.
pub(super) struct Sections {
    /// When the one under way began, ns.
    since_ns: AtomicU64,
    longest_ns: AtomicU64,
    /// The longest of those in between two stays in a program, in ticks of the processor's counter.
    longest_ticks: AtomicU64,
}

impl Sections {
    pub(super) const fn new() -> Self {
        Self { since_ns: AtomicU64::new(NONE), longest_ns: AtomicU64::new(0), longest_ticks: AtomicU64::new(0) }
    }

    /// The core looks at what there is to do: a section ends, and another begins.
    #[inline]
    pub(super) fn look(&self, now_ns: u64) {
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        if since_ns != NONE && now_ns.saturating_sub(since_ns) > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(now_ns - since_ns, Ordering::Relaxed);
        }
    }

    /// What comes is none, and what came since the last look counts for nothing.
    #[inline]
    pub(super) fn leave(&self) {
        self.since_ns.store(NONE, Ordering::Relaxed);
    }
}

/// A thread's task has waited, and has done what there was to do after that: it goes on to its program.
pub fn section_ends() {
    let sections = &current().sections;
    sections.look(platform::now_ns());
    sections.leave();
}

/// A thread's task goes on to its program at once.
#[inline]
pub fn section_is_none() {
    current().sections.leave();
}

/// A thread's task is back from its program, and is about to do something that may wait.
pub fn section_begins() {
    current().sections.look(platform::now_ns());
}

/// A section of what a thread has to do between two stays in its program. Two calls and no closure, whose result would
/// be moved about.
#[must_use]
pub struct Section {
    since_ticks: u64,
}

impl Section {
    /// It begins.
    #[inline]
    pub fn begin() -> Self {
        Self { since_ticks: platform::ticks() }
    }

    /// It is over, on the same core.
    #[inline]
    pub fn end(self) {
        let ticks = platform::ticks().wrapping_sub(self.since_ticks);
        let longest = &current().sections.longest_ticks;
        if ticks > longest.load(Ordering::Relaxed) {
            longest.store(ticks, Ordering::Relaxed);
        }
    }
}

/// The longest section of a core since [`forget_sections`], ns.
#[must_use]
pub fn longest_section_ns(core: usize) -> u64 {
    let sections = &numbered(core).sections;
    let in_between_ns = platform::ticks_to_ns(sections.longest_ticks.load(Ordering::Relaxed));
    sections.longest_ns.load(Ordering::Relaxed).max(in_between_ns)
}

/// Begins anew, on all cores.
pub fn forget_sections() {
    for core in 0..cores() {
        let sections = &numbered(core).sections;
        sections.longest_ns.store(0, Ordering::Relaxed);
        sections.longest_ticks.store(0, Ordering::Relaxed);
    }
}
