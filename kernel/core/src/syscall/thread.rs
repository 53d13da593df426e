//! What belongs to a thread: segment bases, its name, and scheduling, of which there is little to choose: the cores.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_hal::addr::USER_END;
use coppice_hal::user::Registers;

use super::Arguments;
use super::abi::time::timespec;
use crate::errno::Errno;
use crate::process::{Caller, Immediate, ThreadState};

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;

/// arch_prctl(2).
pub(super) fn arch_prctl(caller: Caller<'_>, regs: &mut Registers) -> Immediate {
    let (code, address) = (regs.rdi & 0xffff_ffff, regs.rsi);
    match code {
        ARCH_SET_FS | ARCH_SET_GS if address >= USER_END => return Err(Errno::EPERM.into()),
        ARCH_SET_FS => regs.fs_base = address,
        ARCH_SET_GS => regs.gs_base = address,
        ARCH_GET_FS => caller.put(address, &regs.fs_base.to_le_bytes())?,
        ARCH_GET_GS => caller.put(address, &regs.gs_base.to_le_bytes())?,
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0)
}

/// set_tid_address(2).
pub(super) fn set_tid_address(caller: Caller<'_>, a: &Arguments) -> u64 {
    caller.thread.clear_tid.store(a.get(0), Ordering::Relaxed);
    caller.thread.tid.into()
}

/// prctl(2): the thread's name; that nobody gains privileges is true and may be asked for; everything else is `EINVAL`,
/// as on a Linux without that feature.
pub(super) fn prctl(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const PR_GET_DUMPABLE: i32 = 3;
    const PR_SET_DUMPABLE: i32 = 4;
    const PR_SET_NAME: i32 = 15;
    const PR_GET_NAME: i32 = 16;
    const PR_SET_NO_NEW_PRIVS: i32 = 38;
    const PR_GET_NO_NEW_PRIVS: i32 = 39;
    match a.int(0) {
        PR_SET_NAME => {
            let name = read_name(caller, a.get(1))?;
            *caller.thread.name.lock() = name;
            Ok(0)
        }
        PR_GET_NAME => {
            let name = *caller.thread.name.lock();
            caller.put(a.get(1), &name)?;
            Ok(0)
        }
        PR_GET_DUMPABLE => Ok(0),
        PR_SET_DUMPABLE if a.get(1) <= 1 => Ok(0),
        PR_SET_NO_NEW_PRIVS if a.get(1) == 1 && a.get(2) | a.get(3) | a.get(4) == 0 => Ok(0),
        PR_GET_NO_NEW_PRIVS => Ok(1),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Up to 15 bytes before a zero; what lies behind the zero need not be mapped.
fn read_name(caller: Caller<'_>, address: u64) -> Immediate<[u8; 16]> {
    let mut name = [0; 16];
    for (index, byte) in name.iter_mut().take(15).enumerate() {
        let at = address.checked_add(index as u64).ok_or(Errno::EFAULT)?;
        let [read] = caller.get::<1>(at)?;
        if read == 0 {
            break;
        }
        *byte = read;
    }
    Ok(name)
}

/// Whether `pid` is this process (0 or its number) or a thread of it.
///
/// # Errors
/// `ESRCH`: there is no other.
pub(super) fn only_self(caller: Caller<'_>, pid: i32) -> Result<(), Errno> {
    thread_of(caller, pid).map(drop)
}

/// The thread of this process with this id, 0 for the one that asks.
fn thread_of(caller: Caller<'_>, tid: i32) -> Result<Option<Arc<ThreadState>>, Errno> {
    let tid = u32::try_from(tid).map_err(|_| Errno::EINVAL)?;
    // The process is known by its first thread's id, also when that thread is gone.
    if tid == 0 || tid == caller.thread.tid || tid == caller.process.identity.pid {
        return Ok(caller.process.threads.find(tid));
    }
    caller.process.threads.find(tid).map(Some).ok_or(Errno::ESRCH)
}

/// Length of the processor mask that is told, bytes: one word, as Linux gives at least.
const MASK_BYTES: u64 = 8;

/// sched_getaffinity(2): by default, the cores of the rank.
pub(super) fn sched_getaffinity(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let thread = thread_of(caller, a.int(0))?;
    let length = a.uint(1);
    if u64::from(length) < MASK_BYTES || u64::from(length) % MASK_BYTES != 0 {
        return Err(Errno::EINVAL.into());
    }
    let affinity = thread.as_deref().unwrap_or(caller.thread).affinity.load(Ordering::Relaxed);
    caller.put(a.get(2), &affinity.to_le_bytes())?;
    Ok(MASK_BYTES)
}

/// sched_setaffinity(2): any mask that has a core of the rank in it. A thread whose core is not in it moves before it
/// runs again.
pub(super) fn sched_setaffinity(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let thread = thread_of(caller, a.int(0))?;
    let length = (a.uint(1) as usize).min(MASK_BYTES as usize);
    let mut bytes = [0; MASK_BYTES as usize];
    for (index, byte) in bytes.iter_mut().take(length).enumerate() {
        let [read] = caller.get::<1>(a.get(2).checked_add(index as u64).ok_or(Errno::EFAULT)?)?;
        *byte = read;
    }
    let affinity = u64::from_le_bytes(bytes) & caller.process.cores;
    if affinity == 0 {
        return Err(Errno::EINVAL.into());
    }
    let thread = thread.as_deref().unwrap_or(caller.thread);
    thread.affinity.store(affinity, Ordering::Release);
    thread.call_attention();
    Ok(0)
}

/// sched_getscheduler(2): `SCHED_OTHER`.
pub(super) fn sched_getscheduler(caller: Caller<'_>, a: &Arguments) -> Immediate {
    only_self(caller, a.int(0))?;
    Ok(0)
}

/// sched_setscheduler(2): the ordinary policies change nothing; real-time ones are not for users.
pub(super) fn sched_setscheduler(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const SCHED_RESET_ON_FORK: u32 = 0x4000_0000;
    only_self(caller, a.int(0))?;
    let priority = u32::from_le_bytes(caller.get(a.get(2))?);
    match (a.uint(1) & !SCHED_RESET_ON_FORK, priority) {
        (0 | 3 | 5, 0) => Ok(0),
        (1 | 2, 1..=99) => Err(Errno::EPERM.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// sched_getparam(2): priority 0.
pub(super) fn sched_getparam(caller: Caller<'_>, a: &Arguments) -> Immediate {
    only_self(caller, a.int(0))?;
    caller.put(a.get(1), &0_u32.to_le_bytes())?;
    Ok(0)
}

/// sched_setparam(2): priority 0.
pub(super) fn sched_setparam(caller: Caller<'_>, a: &Arguments) -> Immediate {
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

/// getpriority(2): nice value 0, which the system call gives as 20.
pub(super) fn getpriority(caller: Caller<'_>, a: &Arguments) -> Immediate {
    check_whom(caller, a)?;
    Ok(20)
}

/// setpriority(2): being nicer changes nothing; being less nice is not for users.
pub(super) fn setpriority(caller: Caller<'_>, a: &Arguments) -> Immediate {
    check_whom(caller, a)?;
    if a.int(2) < 0 { Err(Errno::EACCES.into()) } else { Ok(0) }
}

fn check_whom(caller: Caller<'_>, a: &Arguments) -> Result<(), Errno> {
    const PRIO_USER: i32 = 2;
    match a.int(0) {
        0 | 1 => only_self(caller, a.int(1)).map_err(|_| Errno::ESRCH),
        PRIO_USER if a.uint(1) == 0 || a.uint(1) == caller.process.identity.user => Ok(()),
        PRIO_USER => Err(Errno::ESRCH),
        _ => Err(Errno::EINVAL),
    }
}

/// getcpu(2): the core, of memory node 0.
pub(super) fn getcpu(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let core = u32::try_from(caller.thread.core()).unwrap_or(u32::MAX);
    for (address, value) in [(a.get(0), core), (a.get(1), 0)] {
        if address != 0 {
            caller.put(address, &value.to_le_bytes())?;
        }
    }
    Ok(0)
}

/// membarrier(2). Whoever is in the kernel meanwhile passes a barrier when it goes back to its program.
pub(super) fn membarrier(caller: Caller<'_>, a: &Arguments) -> Immediate {
    const QUERY: i32 = 0;
    const GLOBAL: i32 = 1 << 0;
    const GLOBAL_EXPEDITED: i32 = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;
    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;
    const SYNC_CORE: i32 = 1 << 5;
    const REGISTER_SYNC_CORE: i32 = 1 << 6;
    if a.uint(1) != 0 {
        return Err(Errno::EINVAL.into());
    }
    match a.int(0) {
        // All of these.
        QUERY => Ok(0x7f),
        REGISTER_GLOBAL_EXPEDITED | REGISTER_PRIVATE_EXPEDITED | REGISTER_SYNC_CORE => Ok(0),
        PRIVATE_EXPEDITED | SYNC_CORE => {
            caller.process.space.lock().table().fence();
            Ok(0)
        }
        // Other ranks of the job may show the same memory.
        GLOBAL | GLOBAL_EXPEDITED => {
            caller.process.job.processes().iter().for_each(|process| process.space.lock().table().fence());
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}
