//! clone(2): one more thread. There are no other processes to make: CNK has no fork, and neither has Coppice.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_hal::addr::USER_END;
use coppice_hal::paging::Access;
use coppice_hal::user::UserThread;

use crate::errno::Errno;
use crate::process::resources::resource;
use crate::process::{Caller, Immediate, Process, ThreadState};

/// Linux's `CLONE_*` bits.
mod flag {
    pub(super) const VM: u64 = 0x100;
    pub(super) const FS: u64 = 0x200;
    pub(super) const FILES: u64 = 0x400;
    pub(super) const SIGHAND: u64 = 0x800;
    pub(super) const PIDFD: u64 = 0x1000;
    pub(super) const THREAD: u64 = 0x1_0000;
    pub(super) const NEWNS: u64 = 0x2_0000;
    pub(super) const SETTLS: u64 = 0x8_0000;
    pub(super) const PARENT_SETTID: u64 = 0x10_0000;
    pub(super) const CHILD_CLEARTID: u64 = 0x20_0000;
    pub(super) const CHILD_SETTID: u64 = 0x100_0000;
    /// Name spaces of all kinds: cgroup, UTS, IPC, user, process ids, network.
    pub(super) const NAME_SPACES: u64 = 0x7e00_0000;
    /// What a thread shares with the one that makes it.
    pub(super) const SHARED: u64 = VM | FS | FILES | SIGHAND | THREAD;
}

/// clone(2) of a thread; its id. `None`: it was to be a process, which cannot be made. Flags without a meaning here
/// (`CLONE_SYSVSEM`, `CLONE_DETACHED`, `CLONE_UNTRACED`, `CLONE_PTRACE`, `CLONE_IO`) and the signal at its end are
/// ignored, as Linux ignores them for threads.
pub(super) fn clone(process: &Arc<Process>, thread: &ThreadState, user: &mut UserThread) -> Option<Immediate> {
    let flags = user.regs.rdi;
    if flags & flag::THREAD == 0 {
        return None;
    }
    Some(make(Caller { process, thread }, process, flags, user))
}

fn make(caller: Caller<'_>, process: &Arc<Process>, flags: u64, user: &mut UserThread) -> Immediate {
    if flags & flag::SHARED != flag::SHARED || flags & (flag::NEWNS | flag::NAME_SPACES | flag::PIDFD) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (stack, parent_tid, child_tid, tls) = (user.regs.rsi, user.regs.rdx, user.regs.r10, user.regs.r8);
    if flags & flag::SETTLS != 0 && tls >= USER_END {
        return Err(Errno::EPERM.into());
    }
    let told = [(flag::PARENT_SETTID, parent_tid), (flag::CHILD_SETTID, child_tid)];
    let told = told.into_iter().filter(|(wanted, _)| flags & wanted != 0).map(|(_, address)| address);
    // Made sure of before there is a thread: the call may be made again.
    for address in told.clone() {
        process.space.lock().touch(address, size_of::<u32>(), Access::WRITE)?;
    }
    if process.threads.count() as u64 >= process.limits.soft(resource::NPROC) {
        return Err(Errno::EAGAIN.into());
    }
    let (name, affinity) = (*caller.thread.name.lock(), caller.thread.affinity.load(Ordering::Relaxed));
    let child = process.threads.add(name, affinity, &process.node.quota)?;
    child.remembered.inherit(&caller.thread.remembered);
    if flags & flag::CHILD_CLEARTID != 0 {
        child.clear_tid.store(child_tid, Ordering::Relaxed);
    }
    let tid = child.tid;
    {
        let mut signals = process.signals.lock();
        let blocked = signals.blocked(caller.thread.tid);
        signals.join(tid, blocked);
    }
    for address in told {
        // Another thread may have unmapped it meanwhile: then nobody is told, as on Linux.
        let _ = process.space.lock().write_u32(address, tid);
    }
    let mut new = user.duplicate();
    new.regs.rax = 0;
    if stack != 0 {
        new.regs.rsp = stack;
    }
    if flags & flag::SETTLS != 0 {
        new.regs.fs_base = tls;
    }
    if let Err(errno) = super::start(Arc::clone(process), child, new) {
        process.signals.lock().leave(tid);
        return Err(errno.into());
    }
    Ok(tid.into())
}
