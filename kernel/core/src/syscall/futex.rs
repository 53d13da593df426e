//! futex(2) of a process with one thread: there is nobody to wake, and nobody who could wake it.

use super::Arguments;
use super::abi::time::parse_timespec;
use super::time::Clock;
use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::process::{Awaited, Caller};

const FUTEX_PRIVATE_FLAG: u32 = 128;
const FUTEX_CLOCK_REALTIME: u32 = 256;
const FUTEX_WAIT: u32 = 0;
const FUTEX_WAKE: u32 = 1;
const FUTEX_REQUEUE: u32 = 3;
const FUTEX_CMP_REQUEUE: u32 = 4;
const FUTEX_WAIT_BITSET: u32 = 9;
const FUTEX_WAKE_BITSET: u32 = 10;

/// futex(2). Waiting ends by its time limit, or never: until the job is killed.
pub(super) async fn futex(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let (address, operation, value) = (a.get(0), a.uint(1), a.uint(2));
    let command = operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    if operation & FUTEX_CLOCK_REALTIME != 0 && command != FUTEX_WAIT_BITSET && command != FUTEX_WAIT {
        return Err(Errno::ENOSYS.into());
    }
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            if command == FUTEX_WAIT_BITSET && a.uint(5) == 0 {
                return Err(Errno::EINVAL.into());
            }
            let deadline_ns = deadline_ns(caller, a, operation).await?;
            if u32::from_le_bytes(caller.read_array(address).await?) != value {
                return Err(Errno::EAGAIN.into());
            }
            executor::sleep_until(deadline_ns).await;
            Err(Errno::ETIMEDOUT.into())
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET | FUTEX_REQUEUE => {
            let _: [u8; 4] = caller.read_array(address).await?;
            Ok(0)
        }
        FUTEX_CMP_REQUEUE => {
            let there = u32::from_le_bytes(caller.read_array(address).await?);
            if there == a.uint(5) { Ok(0) } else { Err(Errno::EAGAIN.into()) }
        }
        _ => Err(Errno::ENOSYS.into()),
    }
}

/// When to give up, by the monotonic clock: after a duration for plain waits, at a time for those with a bit set.
async fn deadline_ns(caller: Caller<'_>, a: &Arguments, operation: u32) -> Awaited {
    if a.get(3) == 0 {
        return Ok(u64::MAX);
    }
    let time_ns = parse_timespec(&caller.read_array(a.get(3)).await?)?;
    let now_ns = clock::monotonic_ns();
    if operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) == FUTEX_WAIT {
        return Ok(now_ns.saturating_add(time_ns));
    }
    let clock = if operation & FUTEX_CLOCK_REALTIME != 0 { Clock::Real } else { Clock::Monotonic };
    Ok(now_ns.saturating_add(time_ns.saturating_sub(clock.now_ns(caller))))
}
