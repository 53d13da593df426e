//! Timers that send signals: alarm(2), setitimer(2), timer_create(2).

use coppice_hal::paging::Access;

use super::Arguments;
use super::time::Clock;
use crate::abi::Record;
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGALRM, SIGNAL_MAX};
use crate::abi::time::{
    SECOND_NS, TIME_BYTES, TimerSetting, fraction, parse_timespec, parse_timeval, timespec, timeval,
};
use crate::abi::{i64_at, u32_at, u64_at};
use crate::errno::Errno;
use crate::process::signals::Target;
use crate::process::timers::{TimerClock, TimerName};
use crate::process::{Caller, Immediate};

/// Length of `struct itimerval` and of `struct itimerspec`, bytes: the interval, and the time until the timer is up.
const SETTING_BYTES: usize = 2 * TIME_BYTES;

/// Length of `struct sigevent`, bytes.
const EVENT_BYTES: usize = 64;

/// The timer of alarm(2).
const ALARM: TimerName = TimerName::Interval(0);

/// The two times of a structure.
fn times(bytes: &[u8; SETTING_BYTES]) -> [[u8; TIME_BYTES]; 2] {
    let mut times = [[0; TIME_BYTES]; 2];
    for (time, bytes) in times.iter_mut().zip(bytes.as_chunks::<TIME_BYTES>().0) {
        *time = *bytes;
    }
    times
}

fn parse_itimerval(bytes: &[u8; SETTING_BYTES]) -> Result<TimerSetting, Errno> {
    let parse = |bytes: &[u8; TIME_BYTES]| {
        fraction(i64_at(bytes, 8), 1_000_000)?;
        parse_timeval(bytes)
    };
    let [interval, value] = times(bytes);
    Ok(TimerSetting { value_ns: parse(&value)?, interval_ns: parse(&interval)? })
}

fn itimerval(setting: TimerSetting) -> Record<SETTING_BYTES> {
    // What is left is never told as nothing.
    let value = timeval(if setting.value_ns == 0 { 0 } else { setting.value_ns.max(1000) });
    Record::new().raw(0, timeval(setting.interval_ns).bytes()).raw(TIME_BYTES, value.bytes())
}

/// alarm(2): the seconds that were left.
pub(super) fn alarm(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let new = TimerSetting { value_ns: u64::from(a.uint(0)) * SECOND_NS, interval_ns: 0 };
    let before = caller.process.timers.set(caller.process, ALARM, new, false)?;
    let (seconds, rest_ns) = (before.value_ns / SECOND_NS, before.value_ns % SECOND_NS);
    // As Linux rounds: never to nothing.
    Ok(seconds + u64::from(rest_ns >= SECOND_NS / 2 || seconds == 0 && rest_ns > 0))
}

fn interval_timer(a: &Arguments) -> Result<TimerName, Errno> {
    u8::try_from(a.int(0)).ok().filter(|which| *which <= 2).map(TimerName::Interval).ok_or(Errno::EINVAL)
}

/// getitimer(2).
pub(super) fn getitimer(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let setting = caller.process.timers.setting(caller.process, interval_timer(a)?)?;
    caller.put(a.get(1), itimerval(setting).bytes())?;
    Ok(0)
}

/// setitimer(2).
pub(super) fn setitimer(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let new = match a.get(1) {
        0 => TimerSetting::default(),
        address => parse_itimerval(&caller.get(address)?)?,
    };
    let name = interval_timer(a)?;
    if a.get(2) != 0 {
        let before = caller.process.timers.setting(caller.process, name)?;
        caller.put(a.get(2), itimerval(before).bytes())?;
    }
    caller.process.timers.set(caller.process, name, new, false)?;
    Ok(0)
}

/// timer_create(2).
pub(super) fn timer_create(caller: Caller<'_>, a: &Arguments) -> Immediate {
    /// `SIGEV_*`.
    const SIGNAL: i32 = 0;
    const NONE: i32 = 1;
    const THREAD: i32 = 2;
    const THREAD_ID: i32 = 4;
    const CLOCK_MONOTONIC_RAW: i32 = 4;
    const CLOCK_REALTIME_COARSE: i32 = 5;
    const CLOCK_MONOTONIC_COARSE: i32 = 6;
    let event = match a.get(1) {
        0 => None,
        address => Some(caller.get::<EVENT_BYTES>(address)?),
    };
    // They can be looked at, and no more.
    if matches!(a.int(0), CLOCK_MONOTONIC_RAW | CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let clock = match Clock::of(caller, a.int(0))? {
        Clock::Real => TimerClock::Real,
        Clock::Monotonic => TimerClock::Monotonic,
        Clock::Processor => TimerClock::Process,
        Clock::Thread(tid) => TimerClock::Thread(tid.unwrap_or(caller.thread.tid)),
    };
    // Made sure of before there is a timer: the call may be made again.
    caller.process.space.lock().touch(a.get(2), size_of::<u32>(), Access::WRITE)?;
    let (how, signal, thread) = match &event {
        None => (SIGNAL, SIGALRM, 0),
        Some(event) => (u32_at(event, 12).cast_signed(), u32_at(event, 8), u32_at(event, 16)),
    };
    let target = match how {
        NONE => None,
        SIGNAL | THREAD => Some(Target::Process),
        THREAD_ID if caller.process.signals.lock().has(thread) => Some(Target::Thread(thread)),
        _ => return Err(Errno::EINVAL.into()),
    };
    if target.is_some() && !(1..=SIGNAL_MAX).contains(&signal) {
        return Err(Errno::EINVAL.into());
    }
    let id = caller.process.timers.make(clock, &caller.process.node.quota, |id| {
        let value = event.as_ref().map_or(id.into(), |event| u64_at(event, 0));
        target.map(|target| (target, SignalInfo::timer(signal, id, value)))
    })?;
    caller.put(a.get(2), &id.to_le_bytes()).inspect_err(|_| {
        // Another thread took the memory away meanwhile: nobody would ever know the timer.
        let _ = caller.process.timers.delete(TimerName::Made(id));
    })?;
    Ok(0)
}

fn made_timer(a: &Arguments) -> TimerName {
    TimerName::Made(a.uint(0))
}

/// `struct itimerspec`.
pub(super) fn itimerspec(setting: TimerSetting) -> Record<SETTING_BYTES> {
    let (interval, value) = (timespec(setting.interval_ns), timespec(setting.value_ns));
    Record::new().raw(0, interval.bytes()).raw(TIME_BYTES, value.bytes())
}

/// The times of a `struct itimerspec`.
///
/// # Errors
/// `EINVAL`.
pub(super) fn parse_itimerspec(bytes: &[u8; SETTING_BYTES]) -> Result<TimerSetting, Errno> {
    let [interval, value] = times(bytes);
    Ok(TimerSetting { value_ns: parse_timespec(&value)?, interval_ns: parse_timespec(&interval)? })
}

/// timer_settime(2).
pub(super) fn timer_settime(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const TIMER_ABSTIME: i32 = 1;
    let new = parse_itimerspec(&caller.get(a.get(2))?)?;
    let before = caller.process.timers.setting(caller.process, made_timer(a))?;
    if a.get(3) != 0 {
        caller.put(a.get(3), itimerspec(before).bytes())?;
    }
    caller.process.timers.set(caller.process, made_timer(a), new, a.int(1) & TIMER_ABSTIME != 0)?;
    Ok(0)
}

/// timer_gettime(2).
pub(super) fn timer_gettime(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let setting = caller.process.timers.setting(caller.process, made_timer(a))?;
    caller.put(a.get(1), itimerspec(setting).bytes())?;
    Ok(0)
}

/// timer_getoverrun(2).
pub(super) fn timer_getoverrun(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(caller.process.timers.overruns(made_timer(a))?.into())
}

/// timer_delete(2).
pub(super) fn timer_delete(caller: Caller<'_>, a: &Arguments) -> Immediate {
    caller.process.timers.delete(made_timer(a))?;
    caller.process.signals.lock().forget_timer(a.uint(0));
    Ok(0)
}
