//! What calls that may wait are made by, each under its name.

use coppice_protocol::syscalls as nr;

pub(super) use super::attributes::{
    chmod, fallocate, fchmod, fchmodat, fchmodat2, ftruncate, sync_file_range, truncate, utime, utimensat, utimes,
};
pub(super) use super::descriptors::{
    close_range_waiting as close_range, close_written as close, dup2_waiting as dup2, dup3_waiting as dup3,
};
pub(super) use super::directories::{getdents64, mkdir, mkdirat, rmdir};
pub(super) use super::epoll::{pwait as epoll_pwait, pwait2 as epoll_pwait2, wait as epoll_wait};
pub(super) use super::io_control::bytes_readable as ioctl;
pub(super) use super::locks::flock_waiting as flock;
pub(super) use super::memory::{mincore, msync};
pub(super) use super::names::{
    link, linkat, readlink, readlinkat, rename, renameat, renameat2, symlink, symlinkat, unlink, unlinkat,
};
pub(super) use super::open::{creat, open, openat, openat2};
pub(super) use super::ownership::{fchown, fchownat};
pub(super) use super::poll::{poll, ppoll};
pub(super) use super::read::{pread64, preadv, preadv2, read, readv};
pub(super) use super::records::fcntl_waiting as fcntl;
pub(super) use super::seek::lseek_in_turn as lseek;
pub(super) use super::select::{pselect6, select};
pub(super) use super::shared::memfd_create;
pub(super) use super::sleep::{clock_nanosleep, nanosleep};
pub(super) use super::socket::{
    accept, accept4, connect, receive_from as recvfrom, receive_message as recvmsg, receive_messages as recvmmsg,
    send_message as sendmsg, send_messages as sendmmsg, send_to as sendto,
};
pub(super) use super::splice::{splice, tee, vmsplice};
pub(super) use super::stat::{access, faccessat, faccessat2, fstat, fstatfs, newfstatat, statfs, statx};
pub(super) use super::system::getrandom_long as getrandom;
pub(super) use super::transfer::{copy_file_range, sendfile};
pub(super) use super::wait_signal::rt_sigtimedwait;
pub(super) use super::whereabouts::{chdir, fchdir};
pub(super) use super::write::{pwrite64, pwritev, pwritev2, write, writev};

use super::{Arguments, attributes, ownership, sleep, wait_signal};
use crate::process::{Awaited, Caller};

pub(super) fn stat<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    super::stat::stat(caller, a, true)
}

pub(super) fn lstat<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    super::stat::stat(caller, a, false)
}

pub(super) fn fsync<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    attributes::fsync(caller, a, false)
}

pub(super) fn fdatasync<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    attributes::fsync(caller, a, true)
}

/// Of the one file.
pub(super) use self::fsync as syncfs;

pub(super) fn chown<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    ownership::chown(caller, a, true)
}

pub(super) fn lchown<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    ownership::chown(caller, a, false)
}

pub(super) fn sched_yield(_: Caller<'_>, _: &Arguments) -> impl Future<Output = Awaited> {
    sleep::sched_yield()
}

pub(super) fn pause<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    wait_signal::suspend(caller, nr::PAUSE, a)
}

pub(super) fn rt_sigsuspend<'a>(caller: Caller<'a>, a: &'a Arguments) -> impl Future<Output = Awaited> {
    wait_signal::suspend(caller, nr::RT_SIGSUSPEND, a)
}
