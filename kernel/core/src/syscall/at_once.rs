//! What calls that never wait are made by, each under its name, and those that are tried first.

use coppice_protocol::syscalls as nr;

pub(super) use super::descriptors::dup;
pub(super) use super::epoll::{control as epoll_ctl, create as epoll_create, create1 as epoll_create1};
pub(super) use super::futex::{get_robust_list, set_robust_list};
pub(super) use super::identity::{getgroups, group_of as getpgid, group_of as getsid, setpgid};
pub(super) use super::limits::{getrlimit, prlimit64, setrlimit};
pub(super) use super::memory::{lock as mlock, lock as mlock2, lock as munlock};
pub(super) use super::pipe::{eventfd, eventfd2, pipe, pipe2, socketpair};
pub(super) use super::process_control::{capget, capset, prctl};
pub(super) use super::schedule::{
    getpriority, sched_getattr, sched_getparam, sched_getscheduler, sched_rr_get_interval, sched_setattr,
    sched_setparam, sched_setscheduler, setpriority,
};
pub(super) use super::seek::{fadvise64, readahead};
pub(super) use super::send_signal::kill;
pub(super) use super::signal::{rt_sigaction, rt_sigpending, rt_sigprocmask};
pub(super) use super::signal_file::{signalfd, signalfd4};
pub(super) use super::socket::{
    bind, get_option as getsockopt, listen, local_name as getsockname, peer_name as getpeername,
    set_option as setsockopt, shutdown, socket,
};
pub(super) use super::system::{getrusage, sysinfo, uname};
pub(super) use super::thread::{getcpu, membarrier, sched_getaffinity, sched_setaffinity};
pub(super) use super::time::{clock_getres, clock_gettime, gettimeofday, time, times};
pub(super) use super::timer_file::{create as timerfd_create, gettime as timerfd_gettime, settime as timerfd_settime};
pub(super) use super::timers::{
    alarm, getitimer, setitimer, timer_create, timer_delete, timer_getoverrun, timer_gettime, timer_settime,
};
pub(super) use super::whereabouts::getcwd;

use super::{Arguments, attributes, identity, process_control, schedule, send_signal, thread};
use crate::process::{Caller, End, Immediate};

/// Those that answer at once if all they take is there.
pub(super) mod tried {
    pub(in super::super) use crate::syscall::cached::{
        pread64_now as pread64, pwrite64_now as pwrite64, read_now as read, write_now as write,
    };
    pub(in super::super) use crate::syscall::descriptors::{close, close_range, dup2, dup3};
    pub(in super::super) use crate::syscall::epoll::wait_now as epoll_wait;
    pub(in super::super) use crate::syscall::io_control::ioctl;
    pub(in super::super) use crate::syscall::locks::flock;
    pub(in super::super) use crate::syscall::poll::poll_now as poll;
    pub(in super::super) use crate::syscall::records::fcntl;
    pub(in super::super) use crate::syscall::seek::lseek;
    pub(in super::super) use crate::syscall::system::getrandom;
}

/// Those that look at the thread's registers, or change them.
pub(super) mod registers {
    pub(in super::super) use crate::syscall::signal::sigaltstack;
    pub(in super::super) use crate::syscall::thread::arch_prctl;
}

/// No page leaves memory.
pub(super) fn mlockall(_: Caller<'_>, _: &Arguments) -> Immediate {
    Ok(0)
}

pub(super) use self::mlockall as munlockall;

/// What was written is where others see it.
pub(super) fn sync(_: Caller<'_>, _: &Arguments) -> Immediate {
    Ok(0)
}

pub(super) fn set_tid_address(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(thread::set_tid_address(caller, a))
}

pub(super) fn sched_get_priority_max(_: Caller<'_>, a: &Arguments) -> Immediate {
    schedule::sched_get_priority(a, 99)
}

pub(super) fn sched_get_priority_min(_: Caller<'_>, a: &Arguments) -> Immediate {
    schedule::sched_get_priority(a, 1)
}

pub(super) fn ioprio_set(caller: Caller<'_>, a: &Arguments) -> Immediate {
    schedule::io_priority(caller, a, Some(a.uint(2)))
}

pub(super) fn ioprio_get(caller: Caller<'_>, a: &Arguments) -> Immediate {
    schedule::io_priority(caller, a, None)
}

pub(super) fn personality(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(process_control::personality(caller, a))
}

/// A process leads its own group.
pub(super) fn getpgrp(caller: Caller<'_>, _: &Arguments) -> Immediate {
    Ok(caller.process.identity.pid.into())
}

pub(super) fn setuid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::set_one(caller, nr::SETUID, a)
}

pub(super) fn setgid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::set_one(caller, nr::SETGID, a)
}

pub(super) fn setreuid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::set_several(caller, nr::SETREUID, a)
}

pub(super) fn setregid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::set_several(caller, nr::SETREGID, a)
}

pub(super) fn setresuid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::set_several(caller, nr::SETRESUID, a)
}

pub(super) fn setresgid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::set_several(caller, nr::SETRESGID, a)
}

pub(super) fn getresuid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::get_three(caller, nr::GETRESUID, a)
}

pub(super) fn getresgid(caller: Caller<'_>, a: &Arguments) -> Immediate {
    identity::get_three(caller, nr::GETRESGID, a)
}

/// It never says that it failed.
pub(super) fn setfsuid(caller: Caller<'_>, _: &Arguments) -> Immediate {
    Ok(caller.process.identity.user.into())
}

/// As [`setfsuid`].
pub(super) fn setfsgid(caller: Caller<'_>, _: &Arguments) -> Immediate {
    Ok(caller.process.identity.group.into())
}

pub(super) fn tkill(caller: Caller<'_>, a: &Arguments) -> Immediate {
    send_signal::kill_thread(caller, nr::TKILL, a)
}

pub(super) fn tgkill(caller: Caller<'_>, a: &Arguments) -> Immediate {
    send_signal::kill_thread(caller, nr::TGKILL, a)
}

pub(super) fn rt_sigqueueinfo(caller: Caller<'_>, a: &Arguments) -> Immediate {
    send_signal::queue(caller, nr::RT_SIGQUEUEINFO, a)
}

pub(super) fn rt_tgsigqueueinfo(caller: Caller<'_>, a: &Arguments) -> Immediate {
    send_signal::queue(caller, nr::RT_TGSIGQUEUEINFO, a)
}

pub(super) fn exit_group(_: Caller<'_>, a: &Arguments) -> Immediate {
    Err(End::status(a.get(0)).into())
}

pub(super) fn umask(caller: Caller<'_>, a: &Arguments) -> Immediate {
    Ok(attributes::umask(caller, a))
}
