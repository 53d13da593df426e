//! Letting time pass, or others have the core.

use super::Arguments;
use super::abi::time::parse_timespec;
use super::time::Clock;
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::process::{Awaited, Caller};

/// sched_yield(2).
pub(super) async fn sched_yield() -> Awaited {
    executor::give_way().await;
    Ok(0)
}

/// nanosleep(2). No signal interrupts it, so the rest is never written.
pub(super) async fn nanosleep(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let duration_ns = parse_timespec(&caller.read_array(a.get(0)).await?)?;
    executor::sleep(duration_ns).await;
    Ok(0)
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
    let duration_ns =
        if a.int(1) & TIMER_ABSTIME != 0 { time_ns.saturating_sub(clock.now_ns(caller)) } else { time_ns };
    executor::sleep_until(clock::monotonic_ns().saturating_add(duration_ns)).await;
    Ok(0)
}
