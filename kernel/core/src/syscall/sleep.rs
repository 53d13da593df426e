//! Letting time pass, or others have the core.

use super::Arguments;
use super::abi::time::{parse_timespec, timespec};
use super::time::Clock;
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::process::signals::Restart;
use crate::process::{Awaited, Caller, Failure};

/// sched_yield(2).
pub(super) async fn sched_yield() -> Awaited {
    executor::give_way().await;
    Ok(0)
}

/// nanosleep(2).
pub(super) async fn nanosleep(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let duration_ns = parse_timespec(&caller.read_array(a.get(0)).await?)?;
    sleep(caller, clock::monotonic_ns().saturating_add(duration_ns), a.get(1)).await
}

/// Sleeps. If a signal ends that, writes how long it would have been to where `rest` says.
async fn sleep(caller: Caller<'_>, deadline_ns: u64, rest: u64) -> Awaited {
    let slept = caller.interruptible(Restart::Never, executor::sleep_until(deadline_ns)).await;
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
    let clock = match Clock::of(caller, a.int(0))? {
        // Only other threads could let this time pass.
        Clock::Processor | Clock::Thread(_) => return Err(Errno::EINVAL.into()),
        clock => clock,
    };
    let time_ns = parse_timespec(&caller.read_array(a.get(2)).await?)?;
    // Who sleeps until a certain time knows how long that is.
    let (duration_ns, rest) = match a.int(1) & TIMER_ABSTIME {
        0 => (time_ns, a.get(3)),
        _ => (time_ns.saturating_sub(clock.now_ns(caller)), 0),
    };
    sleep(caller, clock::monotonic_ns().saturating_add(duration_ns), rest).await
}
