//! The timers of a process as data: they go by its own clocks, so they are what they are wherever it is.

use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Timer, TimerClock, TimerName, Timers};
use crate::abi::signal::SignalInfo;
use crate::errno::Errno;
use crate::limits::{TIMER_BYTES, TIMERS_MAX};
use crate::process::Process;
use crate::process::signals::Target;
use crate::quota::Quota;

/// See this module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TimersRecord {
    timers: Vec<TimerRecord>,
    next_id: u32,
}

/// A timer.
#[derive(Debug, Serialize, Deserialize)]
struct TimerRecord {
    name: TimerName,
    clock: TimerClock,
    sends: Option<(Target, SignalInfo)>,
    next_ns: u64,
    interval_ns: u64,
    is_pending: bool,
    overruns: u32,
}

impl Timers {
    /// Writes them down.
    pub(crate) fn record(&self) -> TimersRecord {
        let state = self.state.lock();
        let timer = |(name, timer): (&TimerName, &Timer)| TimerRecord {
            name: *name,
            clock: timer.clock,
            sends: timer.sends,
            next_ns: timer.next_ns,
            interval_ns: timer.interval_ns,
            is_pending: timer.is_pending,
            overruns: timer.overruns,
        };
        TimersRecord { timers: state.timers.iter().map(timer).collect(), next_id: state.next_id }
    }

    /// Goes on with those that are set.
    ///
    /// # Errors
    /// `EAGAIN`: there is no task for them.
    pub(crate) fn go_on(&self, process: &Process) -> Result<(), Errno> {
        let is_any = self.state.lock().timers.values().any(|timer| timer.next_ns != 0);
        if is_any { self.start(process) } else { Ok(()) }
    }
}

impl TimersRecord {
    /// Makes them again.
    ///
    /// # Errors
    /// `EINVAL`: no process has so many. `ENOMEM`.
    pub(crate) fn make(self, quota: &Arc<Quota>) -> Result<Timers, Errno> {
        let timers = Timers::new();
        {
            let mut state = timers.state.lock();
            state.next_id = self.next_id;
            for of in self.timers {
                let is_made = matches!(of.name, TimerName::Made(_));
                if is_made && state.timers.len() >= TIMERS_MAX + super::INTERVAL_TIMERS.len() {
                    return Err(Errno::EINVAL);
                }
                let charge = if is_made { Some(quota.charge(TIMER_BYTES)?) } else { None };
                let mut timer = Timer::new(of.clock, of.sends, charge);
                (timer.next_ns, timer.interval_ns) = (of.next_ns, of.interval_ns);
                (timer.is_pending, timer.overruns) = (of.is_pending, of.overruns);
                state.timers.insert(of.name, timer);
            }
        }
        Ok(timers)
    }
}
