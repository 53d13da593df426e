//! futex(2): sleeping at a word of memory, and waking who does.
//!
//! All but sleeping never waits. Sleeping looks at the word under the lock under which others wake, so that none is
//! missed. What is waited at through memory that several ranks show is known by that memory, everything else by the
//! process and the address.

use core::sync::atomic::Ordering;

use coppice_hal::addr::USER_END;
use coppice_hal::paging::Access;

use super::time::Clock;
use super::{Arguments, lock};
use crate::abi::futex::{Change, command, flag};
use crate::abi::time::parse_timespec;
use crate::clock;
use crate::errno::Errno;
use crate::executor::{self, Elapsed, Phase};
use crate::process::futexes::Word;
use crate::process::signals::Patience;
use crate::process::{Awaited, Caller, Failure, Immediate};

/// What futex(2) is asked for.
fn command_of(a: &Arguments) -> u32 {
    a.uint(1) & !(flag::PRIVATE | flag::REAL_TIME)
}

/// What came of futex(2) so far.
pub(crate) enum Futex {
    /// It is done, with this result.
    Done(u64),
    /// The thread sleeps: it is to [`rest`].
    Sleeps {
        /// When its time is up by the monotonic clock, ns.
        until_ns: u64,
        /// The call is made again when a signal interrupted it, whatever was set for that.
        always: bool,
    },
}

/// futex(2), but for the sleep itself. To be made again if a page is missing.
pub(crate) fn futex(caller: Caller<'_>, a: &Arguments) -> Immediate<Futex> {
    let command = command_of(a);
    if a.uint(1) & flag::REAL_TIME != 0 && !matches!(command, command::WAIT_BITSET | command::LOCK_PI2) {
        return Err(Errno::ENOSYS.into());
    }
    let value = match command {
        command::WAIT | command::WAIT_BITSET => {
            return lie_down(caller, a).map(|until_ns| Futex::Sleeps { until_ns, always: false });
        }
        command::LOCK_PI | command::LOCK_PI2 | command::TRYLOCK_PI => return lock::lock(caller, a, command),
        command::UNLOCK_PI => return lock::unlock(caller, a),
        command::WAKE => wake(caller, a, u32::MAX)?,
        command::WAKE_BITSET => wake(caller, a, a.uint(5))?,
        command::REQUEUE => requeue(caller, a, None)?,
        command::CMP_REQUEUE => requeue(caller, a, Some(a.uint(5)))?,
        command::WAKE_OP => wake_op(caller, a)?,
        // Those that move sleepers to locks with priorities among them, which C libraries no longer use.
        _ => return Err(Errno::ENOSYS.into()),
    };
    Ok(Futex::Done(value))
}

fn wake(caller: Caller<'_>, a: &Arguments, bits: u32) -> Immediate {
    if bits == 0 {
        return Err(Errno::EINVAL.into());
    }
    let word = word(caller, a.get(0), a, Access::READ)?;
    Ok(caller.process.job.futexes.wake(word, at_least_one(a.int(2)), bits) as u64)
}

/// With a value to be there still, or without.
fn requeue(caller: Caller<'_>, a: &Arguments, value: Option<u32>) -> Immediate {
    let (Ok(wakes), Ok(moves)) = (usize::try_from(a.int(2)), usize::try_from(a.int(3))) else {
        return Err(Errno::EINVAL.into());
    };
    let from = word(caller, a.get(0), a, Access::READ)?;
    let to = word(caller, a.get(4), a, Access::READ)?;
    let may = || match value {
        Some(value) => check(caller, a.get(0), value),
        None => Ok(()),
    };
    Ok(caller.process.job.futexes.requeue((from, wakes), (to, moves), may)? as u64)
}

/// Changes the second word and wakes those at the first, and, if the second word was like that, those there.
fn wake_op(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let one = word(caller, a.get(0), a, Access::READ)?;
    let other = word(caller, a.get(4), a, Access::WRITE)?;
    let change = Change::parse(a.uint(5));
    let also = || -> Immediate<bool> {
        let operation = change.operation.ok_or(Errno::ENOSYS)?;
        let before = caller.process.space.lock().update_word(a.get(4), |word| Some(operation.apply(word)))?;
        // As on Linux, it was changed by then.
        Ok(change.comparison.ok_or(Errno::ENOSYS)?.holds(before))
    };
    let counts = (at_least_one(a.int(2)), at_least_one(a.int(3)));
    Ok(caller.process.job.futexes.wake_two((one, counts.0), (other, counts.1), also)? as u64)
}

/// Linux counts after it has woken.
fn at_least_one(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0).max(1)
}

/// Waits until the thread, which sleeps, is woken, the monotonic clock shows `until_ns`, or a signal comes.
pub(crate) async fn rest(caller: Caller<'_>, until_ns: u64, always: bool) -> Awaited {
    let asleep = caller.process.job.futexes.asleep(&caller.thread.sleeper);
    // Who waits for a lock with priorities gets it, whatever comes in between.
    let patience = if always { Patience::Stubborn } else { Patience::until(until_ns) };
    let failure = if until_ns == u64::MAX {
        match caller.interruptible(Phase::Futex, patience, asleep.woken()).await {
            Ok(()) => return Ok(0),
            Err(failure) => failure,
        }
    } else {
        match caller.interruptible(Phase::Futex, patience, executor::timeout_at(until_ns, asleep.woken())).await {
            Ok(Ok(())) => return Ok(0),
            Ok(Err(Elapsed)) => Errno::ETIMEDOUT.into(),
            Err(failure) => failure,
        }
    };
    if matches!(failure, Failure::Held) {
        asleep.stay();
        return Err(failure);
    }
    if asleep.get_up() { Ok(0) } else { Err(failure) }
}

/// Falls asleep at a word that has the value it is to have. Gives when to give up.
fn lie_down(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let is_plain = command_of(a) == command::WAIT;
    let bits = if is_plain { u32::MAX } else { a.uint(5) };
    if bits == 0 {
        return Err(Errno::EINVAL.into());
    }
    let deadline_ns = deadline_ns(caller, a)?;
    let word = word(caller, a.get(0), a, Access::READ)?;
    let may = || check(caller, a.get(0), a.uint(2));
    caller.process.job.futexes.lie_down(&caller.thread.sleeper, word, bits, may)?;
    Ok(deadline_ns)
}

/// # Errors
/// `EAGAIN`: the word has another value.
fn check(caller: Caller<'_>, address: u64, value: u32) -> Immediate<()> {
    let there = caller.process.space.lock().load_word(address)?;
    if there == value { Ok(()) } else { Err(Errno::EAGAIN.into()) }
}

/// What is slept at at an address.
///
/// # Errors
/// `EINVAL`: it is not aligned. `EFAULT`: it is not the program's, or, of memory that others may show, not usable like
/// that.
pub(super) fn word(caller: Caller<'_>, address: u64, a: &Arguments, access: Access) -> Immediate<Word> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    if address >= USER_END {
        return Err(Errno::EFAULT.into());
    }
    if a.uint(1) & flag::PRIVATE != 0 {
        return Ok(Word::Own { pid: caller.process.identity.pid, address });
    }
    caller.process.space.lock().touch(address, 4, access)?;
    Ok(caller.process.word(address))
}

/// When to give up, by the monotonic clock: after a duration for plain waits, at a time for those with a bit set.
fn deadline_ns(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(3) == 0 {
        return Ok(u64::MAX);
    }
    let time_ns = parse_timespec(&caller.get(a.get(3))?)?;
    let now_ns = clock::monotonic_ns();
    if command_of(a) == command::WAIT {
        return Ok(now_ns.saturating_add(time_ns));
    }
    let clock = if a.uint(1) & flag::REAL_TIME != 0 { Clock::Real } else { Clock::Monotonic };
    Ok(now_ns.saturating_add(time_ns.saturating_sub(clock.now_ns(caller))))
}

/// Length of the head of a robust list, bytes.
const ROBUST_HEAD_BYTES: u64 = 24;

/// set_robust_list(2).
pub(super) fn set_robust_list(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(1) != ROBUST_HEAD_BYTES {
        return Err(Errno::EINVAL.into());
    }
    caller.thread.robust_list.store(a.get(0), Ordering::Relaxed);
    Ok(0)
}

/// get_robust_list(2), of any thread of the process.
pub(super) fn get_robust_list(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let list = match a.uint(0) {
        0 => caller.thread.robust_list.load(Ordering::Relaxed),
        tid => caller.process.threads.find(tid).ok_or(Errno::ESRCH)?.robust_list.load(Ordering::Relaxed),
    };
    caller.put(a.get(2), &ROBUST_HEAD_BYTES.to_le_bytes())?;
    caller.put(a.get(1), &list.to_le_bytes())?;
    Ok(0)
}
