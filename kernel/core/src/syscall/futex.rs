//! futex(2): sleeping at a word of memory, and waking who does: a thread of the same process, or of another rank of the
//! job on the node through memory that both show.

use super::Arguments;
use super::abi::time::parse_timespec;
use super::time::Clock;
use crate::clock;
use crate::errno::Errno;
use crate::executor::Elapsed;
use crate::process::futexes::Word;
use crate::process::{Awaited, Caller, Immediate};

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
            let bits = if command == FUTEX_WAIT_BITSET { a.uint(5) } else { u32::MAX };
            let word = word(caller, address, operation).await?;
            let may = || -> Immediate<()> {
                match u32::from_le_bytes(caller.get(address)?) {
                    there if there == value => Ok(()),
                    _ => Err(Errno::EAGAIN.into()),
                }
            };
            match caller.process.job.futexes.sleep(word, bits, deadline_ns, may).await? {
                Ok(()) => Ok(0),
                Err(Elapsed) => Err(Errno::ETIMEDOUT.into()),
            }
        }
        FUTEX_WAKE | FUTEX_WAKE_BITSET => {
            let bits = if command == FUTEX_WAKE_BITSET { a.uint(5) } else { u32::MAX };
            if bits == 0 {
                return Err(Errno::EINVAL.into());
            }
            let word = word(caller, address, operation).await?;
            Ok(caller.process.job.futexes.wake(&word, count(a.int(2)).max(1), bits) as u64)
        }
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
            let (wakes, moves) = (a.int(2), a.get(3) as i32);
            if wakes < 0 || moves < 0 {
                return Err(Errno::EINVAL.into());
            }
            let (from, to) = (word(caller, address, operation).await?, word(caller, a.get(4), operation).await?);
            if command == FUTEX_CMP_REQUEUE && u32::from_le_bytes(caller.get(address)?) != a.uint(5) {
                return Err(Errno::EAGAIN.into());
            }
            let futexes = &caller.process.job.futexes;
            let woken = futexes.wake(&from, count(wakes), u32::MAX);
            let moved = futexes.move_on(&from, &to, count(moves));
            // Of plain requeues only those woken count, as on Linux.
            Ok((woken + if command == FUTEX_CMP_REQUEUE { moved } else { 0 }) as u64)
        }
        _ => Err(Errno::ENOSYS.into()),
    }
}

/// Wakes one thread that sleeps at an address, whoever may see that memory.
pub(crate) async fn wake_at(caller: Caller<'_>, address: u64) {
    // What cannot be slept at has no sleepers.
    if let Ok(word) = word(caller, address, 0).await {
        caller.process.job.futexes.wake(&word, 1, u32::MAX);
    }
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// What is slept at at an address, which must be the program's to read.
async fn word(caller: Caller<'_>, address: u64, operation: u32) -> Awaited<Word> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    let _: [u8; 4] = caller.read_array(address).await?;
    let shared = match operation & FUTEX_PRIVATE_FLAG {
        0 => caller.process.space.lock().shared_at(address),
        _ => None,
    };
    Ok(match shared {
        Some((memory, offset)) => Word::Shared { memory, offset },
        None => Word::Own { pid: caller.process.identity.pid, address },
    })
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
