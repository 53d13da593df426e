//! What time it is.

use super::Arguments;
use crate::abi::time::{ticks, timespec, timeval, tms};
use crate::abi::{Record, time::SECOND_NS};
use crate::clock;
use crate::errno::Errno;
use crate::process::{Caller, Immediate};

const CLOCK_REALTIME: i32 = 0;
const CLOCK_MONOTONIC: i32 = 1;
const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
const CLOCK_MONOTONIC_RAW: i32 = 4;
const CLOCK_REALTIME_COARSE: i32 = 5;
const CLOCK_MONOTONIC_COARSE: i32 = 6;
const CLOCK_BOOTTIME: i32 = 7;
const CLOCK_REALTIME_ALARM: i32 = 8;
const CLOCK_BOOTTIME_ALARM: i32 = 9;
const CLOCK_TAI: i32 = 11;

/// What a clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// The time of day.
    Real,
    /// Time since boot, where the process began; it goes on with the process.
    Monotonic,
    /// Time the process's threads had the processor.
    Processor,
    /// Time one thread had it: the one that asks, or the one with this id.
    Thread(Option<u32>),
}

impl Clock {
    /// The clock of a number.
    ///
    /// # Errors
    /// `EINVAL`: none.
    #[inline]
    pub(super) fn of(caller: Caller<'_>, id: i32) -> Result<Self, Errno> {
        /// Lower bits of a clock by number: all threads of a process together, and one thread.
        const PROCESS_CPU: i32 = 2;
        const THREAD_CPU: i32 = 6;
        match id {
            CLOCK_MONOTONIC | CLOCK_MONOTONIC_RAW | CLOCK_MONOTONIC_COARSE | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => {
                Ok(Self::Monotonic)
            }
            CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_REALTIME_ALARM | CLOCK_TAI => Ok(Self::Real),
            CLOCK_PROCESS_CPUTIME_ID => Ok(Self::Processor),
            CLOCK_THREAD_CPUTIME_ID => Ok(Self::Thread(None)),
            // The clock of a process or thread by its number (clock_getcpuclockid(3)): ~number in the upper bits.
            ..0 => {
                let number = u32::try_from(!(id >> 3)).map_err(|_| Errno::EINVAL)?;
                let is_thread = || number == 0 || caller.process.threads.find(number).is_some();
                match id & 0b111 {
                    PROCESS_CPU if number == 0 || number == caller.process.identity.pid => Ok(Self::Processor),
                    THREAD_CPU if is_thread() => Ok(Self::Thread(Some(number).filter(|number| *number != 0))),
                    _ => Err(Errno::EINVAL),
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// What it shows now, ns.
    #[inline]
    pub(super) fn now_ns(self, caller: Caller<'_>) -> u64 {
        match self {
            Self::Real => clock::realtime_ns(),
            Self::Monotonic => caller.process.clock.now_ns(),
            Self::Processor => caller.process.threads.cpu_ns(),
            Self::Thread(None) => caller.thread.clock.ns(),
            Self::Thread(Some(tid)) => caller.process.threads.find(tid).map_or(0, |thread| thread.clock.ns()),
        }
    }
}

/// clock_gettime(2).
pub(super) fn clock_gettime(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let now_ns = Clock::of(caller, a.int(0))?.now_ns(caller);
    caller.put(a.get(1), timespec(now_ns).bytes())?;
    Ok(0)
}

/// clock_getres(2): 1 ns.
pub(super) fn clock_getres(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Clock::of(caller, a.int(0))?;
    if a.get(1) != 0 {
        caller.put(a.get(1), timespec(1).bytes())?;
    }
    Ok(0)
}

/// gettimeofday(2): UTC.
pub(super) fn gettimeofday(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(0) != 0 {
        caller.put(a.get(0), timeval(clock::realtime_ns()).bytes())?;
    }
    if a.get(1) != 0 {
        caller.put(a.get(1), Record::<8>::new().bytes())?;
    }
    Ok(0)
}

/// time(2).
pub(super) fn time(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let seconds = clock::realtime_ns() / SECOND_NS;
    if a.get(0) != 0 {
        caller.put(a.get(0), &seconds.to_le_bytes())?;
    }
    Ok(seconds)
}

/// times(2).
pub(super) fn times(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(0) != 0 {
        caller.put(a.get(0), tms(caller.process.threads.cpu_ns()).bytes())?;
    }
    Ok(ticks(caller.process.clock.now_ns()))
}
