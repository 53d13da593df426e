//! Locks that the kernel hands on: futex(2)'s commands "with priorities". A word says which thread has the lock; who
//! wants it sleeps, and whoever gives it up hands it to the one that has slept longest. Threads of a node have no
//! priorities, so none is inherited.

use super::Arguments;
use super::futex::{Futex, word};
use super::time::Clock;
use crate::abi::futex::{command, flag, owner};
use crate::abi::time::parse_timespec;
use crate::clock;
use crate::errno::Errno;
use crate::process::{Caller, Immediate, Trouble};
use coppice_hal::paging::Access;

/// What a thread found that wants a lock.
enum Found {
    /// It has it.
    Had,
    /// It cannot have it.
    Trouble(Trouble),
}

impl From<Trouble> for Found {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2`, `FUTEX_TRYLOCK_PI`.
pub(super) fn lock(caller: Caller<'_>, a: &Arguments, what: u32) -> Immediate<Futex> {
    let (address, tid) = (a.get(0), caller.thread.tid);
    let until_ns = if what == command::TRYLOCK_PI { u64::MAX } else { until_ns(caller, a, what)? };
    let place = word(caller, address, a, Access::WRITE)?.as_lock();
    caller.process.space.lock().touch(address, 4, Access::WRITE)?;
    check_holder(caller, address)?;
    let may_sleep = || -> Result<(), Found> {
        let before = caller.process.space.lock().update_word(address, |word| match word & owner::THREAD {
            0 => Some(word & (owner::DIED | owner::WAITERS) | tid),
            holder if holder == tid || what == command::TRYLOCK_PI => None,
            _ => Some(word | owner::WAITERS),
        });
        match before.map_err(Trouble::from)? & owner::THREAD {
            0 => Err(Found::Had),
            holder if holder == tid => Err(Found::Trouble(Errno::EDEADLK.into())),
            _ if what == command::TRYLOCK_PI => Err(Found::Trouble(Errno::EAGAIN.into())),
            _ => Ok(()),
        }
    };
    match caller.process.job.futexes.lie_down(&caller.thread.sleeper, place, tid, may_sleep) {
        Ok(()) => Ok(Futex::Sleeps { until_ns, always: true }),
        Err(Found::Had) => Ok(Futex::Done(0)),
        Err(Found::Trouble(trouble)) => Err(trouble),
    }
}

/// That whoever has a lock can still hand it on.
///
/// A thread hands its locks on before it is no more, so a word says who has the lock only if it still does after that
/// thread was looked for in vain: one that unlocks and ends in between has done right, and C libraries wait for ever
/// if they hear otherwise.
///
/// # Errors
/// `ESRCH`: a thread has it that ended without a word about it.
fn check_holder(caller: Caller<'_>, address: u64) -> Immediate<()> {
    let load = || Ok::<_, Trouble>(caller.process.space.lock().load_word(address)? & owner::THREAD);
    let is_thread =
        |holder| caller.process.job.processes().iter().any(|process| process.threads.find(holder).is_some());
    let mut holder = load()?;
    while holder != 0 && holder != caller.thread.tid && !is_thread(holder) {
        let still = load()?;
        if still == holder {
            return Err(Errno::ESRCH.into());
        }
        holder = still;
    }
    Ok(())
}

/// `FUTEX_UNLOCK_PI`.
pub(super) fn unlock(caller: Caller<'_>, a: &Arguments) -> Immediate<Futex> {
    let (address, tid) = (a.get(0), caller.thread.tid);
    // Whose it is comes before whether it lies where a lock can.
    if u32::from_le_bytes(caller.get(address)?) & owner::THREAD != tid {
        return Err(Errno::EPERM.into());
    }
    let place = word(caller, address, a, Access::WRITE)?.as_lock();
    caller.process.job.futexes.hand_on(place, |next| {
        let new = next.map_or(0, |next| next | owner::WAITERS);
        let has = |word: u32| word & owner::THREAD == tid;
        let before = caller.process.space.lock().update_word(address, |word| has(word).then_some(new))?;
        Ok::<_, Trouble>(has(before))
    })?;
    Ok(Futex::Done(0))
}

/// When to give up, by the monotonic clock: at a time of day, or for `FUTEX_LOCK_PI2` as its flag says.
fn until_ns(caller: Caller<'_>, a: &Arguments, what: u32) -> Immediate {
    if a.get(3) == 0 {
        return Ok(u64::MAX);
    }
    let time_ns = parse_timespec(&caller.get(a.get(3))?)?;
    let of_day = what == command::LOCK_PI || a.uint(1) & flag::REAL_TIME != 0;
    let clock = if of_day { Clock::Real } else { Clock::Monotonic };
    Ok(clock::monotonic_ns().saturating_add(time_ns.saturating_sub(clock.now_ns(caller))))
}
