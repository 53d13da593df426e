//! What belongs to a thread: segment bases, its name, its cores.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_hal::addr::USER_END;
use coppice_hal::user::Registers;

use super::Arguments;
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

/// Names a thread of the process, or its first.
///
/// # Errors
/// `ESRCH`: there is none.
pub(super) fn set_name(caller: Caller<'_>, tid: Option<u32>, text: &[u8]) -> Result<(), Errno> {
    let tid = tid.unwrap_or(caller.process.identity.pid);
    let thread = caller.process.threads.find(tid).ok_or(Errno::ESRCH)?;
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().zip(text.iter().take(15).take_while(|byte| **byte != 0)) {
        *to = *from;
    }
    *thread.name.lock() = name;
    Ok(())
}

/// Whether `pid` is this process (0 or its number) or a thread of it.
///
/// # Errors
/// `ESRCH`: there is no other.
pub(super) fn only_self(caller: Caller<'_>, pid: i32) -> Result<(), Errno> {
    thread_of(caller, pid).map(drop)
}

/// The thread of this process with this id, 0 for the one that asks.
pub(super) fn thread_of(caller: Caller<'_>, tid: i32) -> Result<Option<Arc<ThreadState>>, Errno> {
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
    let length = a.uint(1);
    if u64::from(length) < MASK_BYTES || u64::from(length) % MASK_BYTES != 0 {
        return Err(Errno::EINVAL.into());
    }
    // There is nobody with a number below 0.
    let thread = thread_of(caller, a.int(0)).map_err(|_| Errno::ESRCH)?;
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
