//! Schedulers and priorities: threads take turns, whatever a program asks for. The policies of ordinary users are
//! taken, remembered and told again; those that let a thread have the core for itself are not for users (`EPERM`).

use core::sync::atomic::Ordering;

use super::Arguments;
use super::thread::{only_self, thread_of};
use crate::abi::time::timespec;
use crate::abi::{Record, u32_at, u64_at};
use crate::errno::Errno;
use crate::process::remembered::OfThread;
use crate::process::{Caller, Immediate};

/// `SCHED_RESET_ON_FORK`, also as a flag of sched_setattr(2).
const RESET_ON_FORK: u32 = 0x4000_0000;
/// `SCHED_IDLE`.
const IDLE: u32 = 5;

/// `RLIMIT_NICE` is 0: nobody gets less nice.
const NICE_MIN: i32 = -20;
const NICE_MAX: i32 = 19;

/// Calls `f` with what is remembered of a thread of this process.
fn of_thread<T>(caller: Caller<'_>, tid: i32, f: impl FnOnce(&OfThread) -> T) -> Result<T, Errno> {
    let thread = thread_of(caller, tid)?;
    Ok(f(&thread.as_deref().unwrap_or(caller.thread).remembered))
}

/// Whether a user may have this policy with this priority.
///
/// # Errors
/// `EINVAL`: there is none such. `EPERM`.
fn check(policy: u32, priority: u32) -> Result<(), Errno> {
    match (policy, priority) {
        (0 | 3 | IDLE, 0) => Ok(()),
        (1 | 2, 1..=99) => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_getscheduler(2).
pub(super) fn sched_getscheduler(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(of_thread(caller, a.int(0), |known| known.policy.load(Ordering::Relaxed))?.into())
}

/// sched_setscheduler(2).
pub(super) fn sched_setscheduler(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.int(0) < 0 || a.int(1) < 0 || a.get(2) == 0 {
        return Err(Errno::EINVAL.into());
    }
    let priority = u32::from_le_bytes(caller.get(a.get(2))?);
    let policy = a.uint(1) & !RESET_ON_FORK;
    of_thread(caller, a.int(0), |known| {
        check(policy, priority)?;
        known.policy.store(a.uint(1), Ordering::Relaxed);
        Ok::<_, Errno>(())
    })??;
    Ok(0)
}

/// sched_getparam(2): priority 0.
pub(super) fn sched_getparam(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(1) == 0 {
        return Err(Errno::EINVAL.into());
    }
    only_self(caller, a.int(0))?;
    caller.put(a.get(1), &0_u32.to_le_bytes())?;
    Ok(0)
}

/// sched_setparam(2): priority 0.
pub(super) fn sched_setparam(caller: Caller<'_>, a: &Arguments) -> Immediate {
    if a.get(1) == 0 {
        return Err(Errno::EINVAL.into());
    }
    only_self(caller, a.int(0))?;
    if u32::from_le_bytes(caller.get(a.get(1))?) == 0 { Ok(0) } else { Err(Errno::EINVAL.into()) }
}

/// sched_get_priority_max(2) and _min: `real_time` for the real-time policies, 0 for the others.
pub(super) fn sched_get_priority(a: &Arguments, real_time: u64) -> Immediate {
    match a.int(0) {
        1 | 2 => Ok(real_time),
        0 | 3 | 5 | 6 => Ok(0),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// sched_rr_get_interval(2): no slices.
pub(super) fn sched_rr_get_interval(caller: Caller<'_>, a: &Arguments) -> Immediate {
    only_self(caller, a.int(0))?;
    caller.put(a.get(1), timespec(0).bytes())?;
    Ok(0)
}

/// Length of `struct sched_attr` in its first form and in the one known here, bytes.
const ATTRIBUTES_BYTES_MIN: u32 = 48;
const ATTRIBUTES_BYTES: u32 = 56;
/// Longest that is looked at, bytes: a page.
const ATTRIBUTES_BYTES_MAX: u32 = 4096;

/// sched_setattr(2): policy and niceness.
pub(super) fn sched_setattr(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const FLAG_RESET_ON_FORK: u64 = 1;
    const FLAGS: u64 = 0x7f;
    if a.get(1) == 0 || a.int(0) < 0 || a.uint(2) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let length = match u32::from_le_bytes(caller.get(a.get(1))?) {
        0 => ATTRIBUTES_BYTES_MIN,
        length => length,
    };
    if !(ATTRIBUTES_BYTES_MIN..=ATTRIBUTES_BYTES_MAX).contains(&length) {
        caller.put(a.get(1), &ATTRIBUTES_BYTES.to_le_bytes())?;
        return Err(Errno::E2BIG.into());
    }
    let bytes: [u8; ATTRIBUTES_BYTES_MIN as usize] = caller.get(a.get(1))?;
    // What is not known must not be asked for.
    for at in u64::from(ATTRIBUTES_BYTES)..u64::from(length) {
        if caller.get::<1>(a.get(1).wrapping_add(at))? != [0] {
            caller.put(a.get(1), &ATTRIBUTES_BYTES.to_le_bytes())?;
            return Err(Errno::E2BIG.into());
        }
    }
    let (policy, flags) = (u32_at(&bytes, 4), u64_at(&bytes, 8));
    let nice = u32_at(&bytes, 16).cast_signed().clamp(NICE_MIN, NICE_MAX);
    if policy.cast_signed() < 0 || flags & !FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    of_thread(caller, a.int(0), |known| {
        check(policy, u32_at(&bytes, 20))?;
        if policy != IDLE {
            set_nice(known, nice).map_err(|_| Errno::EPERM)?;
        }
        let reset = if flags & FLAG_RESET_ON_FORK != 0 { RESET_ON_FORK } else { 0 };
        known.policy.store(policy | reset, Ordering::Relaxed);
        Ok::<_, Errno>(())
    })??;
    Ok(0)
}

/// sched_getattr(2).
pub(super) fn sched_getattr(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let length = a.uint(2);
    let fits = (ATTRIBUTES_BYTES_MIN..=ATTRIBUTES_BYTES_MAX).contains(&length);
    if a.get(1) == 0 || a.int(0) < 0 || !fits || a.uint(3) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let length = length.min(ATTRIBUTES_BYTES);
    let known = |known: &OfThread| (known.policy.load(Ordering::Relaxed), known.nice.load(Ordering::Relaxed));
    let (policy, nice) = of_thread(caller, a.int(0), known)?;
    let record = Record::<{ ATTRIBUTES_BYTES as usize }>::new()
        .u32(0, length)
        .u32(4, policy & !RESET_ON_FORK)
        .u64(8, u64::from(policy & RESET_ON_FORK != 0))
        .u32(16, nice.cast_unsigned())
        // The greatest there is of what a thread may be held to use.
        .u32(52, 1024);
    caller.put(a.get(1), &record.bytes()[..length as usize])?;
    Ok(0)
}

/// # Errors
/// `EACCES`: it is less nice than before.
fn set_nice(known: &OfThread, nice: i32) -> Result<(), Errno> {
    if nice < known.nice.load(Ordering::Relaxed) {
        return Err(Errno::EACCES);
    }
    known.nice.store(nice, Ordering::Relaxed);
    Ok(())
}

/// The thread that getpriority(2) and its like are about: a process is its first thread, and a group or user this one.
fn whom(caller: Caller<'_>, a: &Arguments) -> Result<i32, Errno> {
    const PRIO_PROCESS: i32 = 0;
    const PRIO_PGRP: i32 = 1;
    const PRIO_USER: i32 = 2;
    match a.int(0) {
        PRIO_PROCESS => only_self(caller, a.int(1)).map(|()| a.int(1)).map_err(|_| Errno::ESRCH),
        PRIO_PGRP if a.uint(1) == 0 || a.uint(1) == caller.process.identity.pid => Ok(0),
        PRIO_USER if a.uint(1) == 0 || a.uint(1) == caller.process.identity.user => Ok(0),
        PRIO_PGRP | PRIO_USER => Err(Errno::ESRCH),
        _ => Err(Errno::EINVAL),
    }
}

/// getpriority(2): the system call gives 20 for niceness 0.
pub(super) fn getpriority(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let nice = of_thread(caller, whom(caller, a)?, |known| known.nice.load(Ordering::Relaxed))?;
    Ok(u64::from((NICE_MAX + 1 - nice).unsigned_abs()))
}

/// setpriority(2): being nicer changes nothing; being less nice is not for users.
pub(super) fn setpriority(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let tid = whom(caller, a)?;
    of_thread(caller, tid, |known| set_nice(known, a.int(2).clamp(NICE_MIN, NICE_MAX)))??;
    Ok(0)
}

/// ioprio_get(2), ioprio_set(2): classes for idle times and for all others; those that go before others are `EPERM`.
pub(super) fn io_priority(caller: Caller<'_>, a: &Arguments, new: Option<u32>) -> Immediate {
    const IOPRIO_WHO_PROCESS: i32 = 1;
    const CLASS_SHIFT: u32 = 13;
    let tid = match a.int(0) {
        IOPRIO_WHO_PROCESS => a.int(1),
        2 | 3 => 0,
        _ => return Err(Errno::EINVAL.into()),
    };
    only_self(caller, tid).map_err(|_| Errno::ESRCH)?;
    let Some(new) = new else {
        return Ok(of_thread(caller, tid, |known| known.io_priority.load(Ordering::Relaxed))?.into());
    };
    match (new >> CLASS_SHIFT, new & ((1 << CLASS_SHIFT) - 1)) {
        (0, 0) | (2, 0..=7) | (3, _) => {}
        (1, 0..=7) => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    }
    of_thread(caller, tid, |known| known.io_priority.store(new, Ordering::Relaxed))?;
    Ok(0)
}
