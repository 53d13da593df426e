//! Sending signals: to oneself, to one's threads, and to the job's other ranks on the node.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::syscalls as nr;

use super::Arguments;
use crate::abi::signal::{SI_TKILL, SIGINFO_BYTES, SignalInfo};
use crate::abi::signal_set::SIGNAL_MAX;
use crate::errno::Errno;
use crate::process::signals::Target;
use crate::process::{Caller, Immediate, Process};

/// kill(2).
pub(super) fn kill(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (pid, signal) = (a.int(0), a.uint(1));
    let processes: Vec<_> = match pid {
        // Each rank is a process group of its own.
        0 => find(caller, caller.process.identity.pid).into_iter().collect(),
        // Everybody but oneself.
        -1 => ranks(caller).into_iter().filter(|process| !is_own(caller, process)).collect(),
        pid => find(caller, pid.unsigned_abs()).into_iter().collect(),
    };
    if signal > SIGNAL_MAX {
        return Err(Errno::EINVAL.into());
    }
    if processes.is_empty() {
        return Err(Errno::ESRCH.into());
    }
    let identity = &caller.process.identity;
    send(caller, &processes, Target::Process, SignalInfo::user(signal, identity.pid, identity.user))
}

/// tkill(2), tgkill(2).
pub(super) fn kill_thread(caller: Caller<'_>, number: u32, a: &Arguments) -> Immediate {
    let (pid, tid, signal) = match number {
        nr::TKILL => (None, a.int(0), a.uint(1)),
        _ => (Some(a.int(0)), a.int(1), a.uint(2)),
    };
    let identity = &caller.process.identity;
    to_thread(caller, pid, tid, SignalInfo::to_thread(signal, identity.pid, identity.user))
}

/// rt_sigqueueinfo(2), rt_tgsigqueueinfo(2).
pub(super) fn queue(caller: Caller<'_>, number: u32, a: &Arguments) -> Immediate {
    let is_for_thread = number == nr::RT_TGSIGQUEUEINFO;
    let (pid, rest) = (a.int(0), usize::from(is_for_thread));
    let signal = a.uint(1 + rest);
    let info = SignalInfo::parse(&caller.get::<SIGINFO_BYTES>(a.get(2 + rest))?, signal);
    // Nobody but the kernel may say what only the kernel says; to oneself anything may be said.
    let is_forged = info.code >= 0 || info.code == SI_TKILL;
    if is_forged && u32::try_from(pid) != Ok(caller.process.identity.pid) {
        return Err(Errno::EPERM.into());
    }
    if is_for_thread {
        return to_thread(caller, Some(pid), a.int(1), info);
    }
    if signal > SIGNAL_MAX {
        return Err(Errno::EINVAL.into());
    }
    let process = u32::try_from(pid).ok().and_then(|pid| find(caller, pid)).ok_or(Errno::ESRCH)?;
    send(caller, &[process], Target::Process, info)
}

fn to_thread(caller: Caller<'_>, pid: Option<i32>, tid: i32, info: SignalInfo) -> Immediate {
    let positive = |id: i32| u32::try_from(id).ok().filter(|id| *id > 0).ok_or(Errno::EINVAL);
    let (pid, tid) = (pid.map(positive).transpose()?, positive(tid)?);
    if info.signal > SIGNAL_MAX {
        return Err(Errno::EINVAL.into());
    }
    let has_thread =
        |process: &Arc<Process>| pid.is_none_or(|pid| pid == process.identity.pid) && process.signals.lock().has(tid);
    let process = ranks(caller).into_iter().find(has_thread).ok_or(Errno::ESRCH)?;
    send(caller, &[process], Target::Thread(tid), info)
}

/// The job's ranks on the node.
fn ranks(caller: Caller<'_>) -> Vec<Arc<Process>> {
    caller.process.job.processes()
}

fn is_own(caller: Caller<'_>, process: &Arc<Process>) -> bool {
    core::ptr::eq(caller.process, Arc::as_ptr(process))
}

fn find(caller: Caller<'_>, pid: u32) -> Option<Arc<Process>> {
    ranks(caller).into_iter().find(|process| process.identity.pid == pid)
}

/// Sends a signal (0: none) to each of them. What goes wrong with one is told only if it goes wrong with all.
fn send(caller: Caller<'_>, processes: &[Arc<Process>], target: Target, info: SignalInfo) -> Immediate {
    if info.signal == 0 {
        return Ok(0);
    }
    let mut result = Err(Errno::ESRCH);
    for process in processes {
        match process.send(target, info) {
            Ok(Some(end)) if is_own(caller, process) => return Err(end.into()),
            Ok(_) => result = Ok(0),
            Err(errno) => result = result.or(Err(errno)),
        }
    }
    Ok(result?)
}
