//! The per-core executor: everything a core does is a task here, user threads included.
//!
//! A task runs until it awaits; nothing preempts it except that user mode returns on an interrupt. Programs take turns
//! ([`ready`]). When no task is ready the core halts until an interrupt comes: there is no tick, and the one alarm is
//! armed only while somebody sleeps or a program waits for another's turn to end. Tasks stay on the core they were
//! spawned on.
//!
//! On the host the same code runs each test thread as a core with a simulated clock, which jumps to the next timer when
//! nothing is ready, so that tests take no time and always go the same way.

mod combine;
mod core_state;
#[cfg(test)]
mod models;
pub mod oneshot;
mod phases;
mod platform;
mod queued;
mod ready;
mod run_time;
mod sections;
#[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
mod simulated;
mod task;
mod timer;
mod wait;
mod wall;

/// The atomics of [`queued`]; its model has others.
mod atomic {
    pub(super) use crate::sync::atomic::{AtomicBool, Ordering};
}

pub use combine::{Either, Elapsed, race, timeout, timeout_at, yield_now};
pub(crate) use core_state::idle_ns_until;
#[cfg(not(target_os = "none"))]
pub(crate) use core_state::wall_clock;
#[cfg(not(target_os = "none"))]
pub use core_state::{Stalled, run_to_end};
pub use core_state::{
    come_back_at, cores, give_way, idle_ns, interrupt, nic_interrupt, now_ns, others_are_ready, programs_first,
    region_interrupt, run, tasks,
};
pub use phases::{Phase, PhaseTimes};
pub use run_time::RunTime;
pub use sections::{Section, forget_sections, longest_section_ns, section_begins, section_ends, section_is_none};
#[cfg(not(any(target_os = "none", all(test, feature = "model"))))]
pub use simulated::SimulatedCore;
pub(crate) use task::{TASK_BYTES, spawn_aside, spawn_program_on};
pub use task::{TaskHandle, TooManyTasks, in_turns, spawn, spawn_on, spawn_program};
pub(crate) use timer::{Alarm, alarm};
pub use timer::{Sleep, sleep, sleep_until};
pub use wait::{Notify, WaitQueue};
pub(crate) use wall::WallClock;

/// Has the core for a while, as what computes does.
#[cfg(test)]
pub(crate) fn compute(duration_ns: u64) {
    platform::advance_to(now_ns().saturating_add(duration_ns));
}

#[cfg(test)]
pub(crate) use core_state::compute_until_alarm;

#[cfg(all(test, feature = "model"))]
pub(crate) use core_state::check;
#[cfg(test)]
mod tests;
