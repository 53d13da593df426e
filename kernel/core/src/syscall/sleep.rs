//! Letting time pass, or others have the core.

use super::Arguments;
use super::time::Clock;
use crate::abi::time::{parse_timespec, timespec};
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Phase};
use crate::process::signals::Patience;
use crate::process::timers::TimerClock;
use crate::process::{Awaited, Caller, Failure};

/// sched_yield(2).
pub(super) async fn sched_yield() -> Awaited {
    executor::give_way().await;
    Ok(0)
}

/// nanosleep(2).
pub(super) async fn nanosleep(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let duration_ns = parse_timespec(&caller.read_array(a.get(0)).await?)?;
    let deadline_ns = caller.deadline_ns(|| clock::monotonic_ns().saturating_add(duration_ns));
    sleep(caller, deadline_ns, a.get(1)).await
}

/// Sleeps. If a signal ends that, writes how long it would have been to where `rest` says.
async fn sleep(caller: Caller<'_>, deadline_ns: u64, rest: u64) -> Awaited {
    let slept = caller.interruptible(Phase::Sleep, Patience::Limited, executor::sleep_until(deadline_ns)).await;
    if let Err(Failure::Interrupted(_)) = slept
        && rest != 0
    {
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        caller.write(rest, timespec(left_ns).bytes()).await?;
    }
    slept.map(|()| 0)
}

/// clock_nanosleep(2).
pub(super) async fn clock_nanosleep(caller: Caller<'_>, a: &Arguments) -> Awaited {
    const TIMER_ABSTIME: i32 = 1;
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    const CLOCK_MONOTONIC_RAW: i32 = 4;
    const CLOCK_REALTIME_COARSE: i32 = 5;
    const CLOCK_MONOTONIC_COARSE: i32 = 6;
    if a.int(0) < 0 {
        // Which clock that is comes last.
        let _ = parse_timespec(&caller.read_array(a.get(2)).await?)?;
    }
    let clock = Clock::of(caller, a.int(0))?;
    // They can be looked at, and no more.
    if matches!(
        a.int(0),
        CLOCK_THREAD_CPUTIME_ID | CLOCK_MONOTONIC_RAW | CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE
    ) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    // Its own time does not pass while a thread sleeps.
    if matches!(clock, Clock::Thread(tid) if tid.is_none_or(|tid| tid == caller.thread.tid)) {
        return Err(Errno::EINVAL.into());
    }
    let time_ns = parse_timespec(&caller.read_array(a.get(2)).await?)?;
    // Who sleeps until a certain time knows how long that is.
    let is_absolute = a.int(1) & TIMER_ABSTIME != 0;
    let (from_ns, rest) = if is_absolute { (0, 0) } else { (clock.now_ns(caller), a.get(3)) };
    let until_ns = from_ns.saturating_add(time_ns);
    match clock {
        Clock::Processor => sleep_by(caller, TimerClock::Process, caller.until_ns(|| until_ns), rest).await,
        Clock::Thread(tid) => {
            sleep_by(caller, TimerClock::Thread(tid.unwrap_or(0)), caller.until_ns(|| until_ns), rest).await
        }
        Clock::Real | Clock::Monotonic => {
            let duration_ns = || until_ns.saturating_sub(clock.now_ns(caller));
            let deadline_ns = caller.deadline_ns(|| clock::monotonic_ns().saturating_add(duration_ns()));
            sleep(caller, deadline_ns, rest).await
        }
    }
}

/// Sleeps until other threads have used so much of the processor, or the one that was to is gone.
async fn sleep_by(caller: Caller<'_>, clock: TimerClock, until_ns: u64, rest: u64) -> Awaited {
    let left_ns = || Some(until_ns.saturating_sub(clock.now_ns(caller.process)?)).filter(|left_ns| *left_ns > 0);
    let waiting = async {
        while let Some(left_ns) = left_ns() {
            executor::sleep(clock.earliest_ns(caller.process, left_ns)).await;
        }
    };
    let slept = caller.interruptible(Phase::Sleep, Patience::Limited, waiting).await;
    if let Err(Failure::Interrupted(_)) = slept
        && rest != 0
    {
        caller.write(rest, timespec(left_ns().unwrap_or(0)).bytes()).await?;
    }
    slept.map(|()| 0)
}
