//! System calls: Linux's ABI, one module per family.
//!
//! A call is either *immediate* (it never waits, and is made without touching anything asynchronous) or *awaited*. An
//! immediate call that touches a page which must be fetched first does nothing and says so; it is made again when the
//! page is there. So immediate calls write the program's memory only when they can write all of it, and change
//! anything else last.
//!
//! Every argument is a number the program chose. Addresses are never followed but copied through the page table,
//! lengths are cut to what the kernel is ready to keep, and what takes long is done in parts.

pub(crate) mod abi;
mod advise;
mod attributes;
mod clone;
mod descriptors;
mod directories;
mod epoll;
mod file_length;
mod futex;
mod identity;
mod io_control;
pub(crate) mod limits;
mod lock;
mod locks;
mod memory;
mod names;
mod open;
mod ownership;
mod pipe;
mod place;
mod poll;
mod process_control;
mod ranges;
mod read;
mod records;
mod schedule;
mod seek;
mod select;
mod send_signal;
mod shared;
mod signal;
mod signal_file;
mod sleep;
mod socket;
mod splice;
mod stat;
mod stream;
#[cfg(test)]
mod support;
pub(crate) mod system;
#[cfg(test)]
mod tests;
mod thread;
mod time;
mod timer_file;
mod timers;
mod transfer;
mod wait_signal;
mod whereabouts;
mod write;

use coppice_hal::user::Registers;
use coppice_protocol::syscalls as nr;

pub(crate) use self::advise::brings_pages;
pub(crate) use self::clone::clone;
pub(crate) use self::futex::{Futex, futex, rest};
pub(crate) use self::memory::Memory;
pub(crate) use self::signal::check_stack;
use crate::errno::Errno;
use crate::process::{Awaited, Caller, End, Failure, Identity, Immediate};

/// Length of the `syscall` instruction, bytes.
pub(crate) const INSTRUCTION_BYTES: u64 = 2;

/// The six arguments of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments([u64; 6]);

impl Arguments {
    /// The arguments in the registers.
    #[inline]
    pub(crate) fn of(regs: &Registers) -> Self {
        Self([regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9])
    }

    /// Argument `index`, 0 to 5, in full width.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0[index]
    }

    /// As a C `int`: Linux looks at its low half only.
    #[inline]
    pub(crate) fn int(&self, index: usize) -> i32 {
        self.0[index] as i32
    }

    /// As a C `unsigned int`.
    #[inline]
    pub(crate) fn uint(&self, index: usize) -> u32 {
        self.0[index] as u32
    }

    /// As a file offset or length, which must not be negative.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(crate) fn offset(&self, index: usize) -> Result<u64, Errno> {
        i64::try_from(self.0[index]).map(i64::cast_unsigned).map_err(|_| Errno::EINVAL)
    }
}

/// Answers calls that cannot fail and touch nothing: facts about the caller.
#[inline]
pub(crate) fn fact(caller: Caller<'_>, number: u64) -> Option<u64> {
    // Linux looks at all 64 bits of a number, and has none beyond 32.
    let fact = match u32::try_from(number).ok()? {
        nr::GETPID => caller.process.identity.pid,
        nr::GETTID => caller.thread.tid,
        nr::GETPPID => Identity::PARENT,
        nr::GETUID | nr::GETEUID => caller.process.identity.user,
        nr::GETGID | nr::GETEGID => caller.process.identity.group,
        _ => return None,
    };
    Some(fact.into())
}

/// Answers calls that programs make over and over, where there is nothing out of the ordinary.
#[inline]
pub(crate) fn at_once(caller: Caller<'_>, number: u64, regs: &Registers) -> Option<u64> {
    if number == u64::from(nr::POLL) { poll::poll_at_once(caller, regs) } else { None }
}

/// Makes a call that changes what is mapped; its pages may take longer.
pub(crate) fn change_memory(caller: Caller<'_>, number: u64, a: &Arguments) -> Immediate<Memory> {
    match u32::try_from(number).unwrap_or(u32::MAX) {
        nr::BRK => memory::brk(caller, a),
        nr::MMAP => memory::mmap(caller, a),
        nr::MUNMAP => memory::munmap(caller, a),
        nr::MPROTECT => memory::mprotect(caller, a),
        nr::MREMAP => memory::mremap(caller, a),
        nr::MADVISE => memory::madvise(caller, a),
        _ => Err(Errno::ENOSYS.into()),
    }
}

/// Makes the call if it is an immediate one, and no [`fact`].
pub(crate) fn immediate(caller: Caller<'_>, number: u64, regs: &mut Registers) -> Option<Immediate> {
    let number = u32::try_from(number).ok()?;
    let a = &Arguments::of(regs);
    Some(match number {
        nr::MSYNC => memory::msync(caller, a),
        nr::MLOCK | nr::MUNLOCK | nr::MLOCK2 => memory::lock(caller, a),
        nr::MLOCKALL | nr::MUNLOCKALL => Ok(0),

        nr::ARCH_PRCTL => thread::arch_prctl(caller, regs),
        nr::SET_TID_ADDRESS => Ok(thread::set_tid_address(caller, a)),
        nr::PRCTL => process_control::prctl(caller, a),
        nr::SCHED_GETAFFINITY => thread::sched_getaffinity(caller, a),
        nr::SCHED_SETAFFINITY => thread::sched_setaffinity(caller, a),
        nr::SCHED_GETSCHEDULER => schedule::sched_getscheduler(caller, a),
        nr::SCHED_SETSCHEDULER => schedule::sched_setscheduler(caller, a),
        nr::SCHED_GETPARAM => schedule::sched_getparam(caller, a),
        nr::SCHED_SETPARAM => schedule::sched_setparam(caller, a),
        nr::SCHED_GET_PRIORITY_MAX => schedule::sched_get_priority(a, 99),
        nr::SCHED_GET_PRIORITY_MIN => schedule::sched_get_priority(a, 1),
        nr::SCHED_RR_GET_INTERVAL => schedule::sched_rr_get_interval(caller, a),
        nr::GETPRIORITY => schedule::getpriority(caller, a),
        nr::SETPRIORITY => schedule::setpriority(caller, a),
        nr::SCHED_SETATTR => schedule::sched_setattr(caller, a),
        nr::SCHED_GETATTR => schedule::sched_getattr(caller, a),
        nr::IOPRIO_SET => schedule::io_priority(caller, a, Some(a.uint(2))),
        nr::IOPRIO_GET => schedule::io_priority(caller, a, None),
        nr::CAPGET => process_control::capget(caller, a),
        nr::CAPSET => process_control::capset(caller, a),
        nr::PERSONALITY => Ok(process_control::personality(caller, a)),
        nr::GETCPU => thread::getcpu(caller, a),
        nr::MEMBARRIER => thread::membarrier(caller, a),

        nr::GETPGRP => Ok(caller.process.identity.pid.into()),
        nr::GETPGID | nr::GETSID => identity::group_of(caller, a),
        nr::SETPGID => identity::setpgid(caller, a),
        nr::SETSID => Err(Errno::EPERM.into()),
        nr::SETUID | nr::SETGID => identity::set_one(caller, number, a),
        nr::SETREUID | nr::SETREGID | nr::SETRESUID | nr::SETRESGID => identity::set_several(caller, number, a),
        nr::GETRESUID | nr::GETRESGID => identity::get_three(caller, number, a),
        nr::SETFSUID => Ok(caller.process.identity.user.into()),
        nr::SETFSGID => Ok(caller.process.identity.group.into()),
        nr::GETGROUPS => identity::getgroups(caller, a),
        nr::SETGROUPS => Err(Errno::EPERM.into()),

        nr::CLOCK_GETTIME => time::clock_gettime(caller, a),
        nr::CLOCK_GETRES => time::clock_getres(caller, a),
        nr::CLOCK_SETTIME | nr::SETTIMEOFDAY => Err(Errno::EPERM.into()),
        nr::GETTIMEOFDAY => time::gettimeofday(caller, a),
        nr::TIME => time::time(caller, a),
        nr::TIMES => time::times(caller, a),
        nr::ALARM => timers::alarm(caller, a),
        nr::GETITIMER => timers::getitimer(caller, a),
        nr::SETITIMER => timers::setitimer(caller, a),
        nr::TIMER_CREATE => timers::timer_create(caller, a),
        nr::TIMER_SETTIME => timers::timer_settime(caller, a),
        nr::TIMER_GETTIME => timers::timer_gettime(caller, a),
        nr::TIMER_GETOVERRUN => timers::timer_getoverrun(caller, a),
        nr::TIMER_DELETE => timers::timer_delete(caller, a),

        nr::UNAME => system::uname(caller, a),
        nr::SYSINFO => system::sysinfo(caller, a),
        nr::GETRUSAGE => system::getrusage(caller, a),
        nr::GETRANDOM => system::getrandom(caller, a)?,
        nr::SETHOSTNAME | nr::SETDOMAINNAME => Err(Errno::EPERM.into()),
        nr::PRLIMIT64 => limits::prlimit64(caller, a),
        nr::GETRLIMIT => limits::getrlimit(caller, a),
        nr::SETRLIMIT => limits::setrlimit(caller, a),

        nr::RT_SIGACTION => signal::rt_sigaction(caller, a),
        nr::RT_SIGPROCMASK => signal::rt_sigprocmask(caller, a),
        nr::RT_SIGPENDING => signal::rt_sigpending(caller, a),
        nr::SIGALTSTACK => signal::sigaltstack(caller, regs),
        nr::KILL => send_signal::kill(caller, a),
        nr::TKILL | nr::TGKILL => send_signal::kill_thread(caller, number, a),
        nr::RT_SIGQUEUEINFO | nr::RT_TGSIGQUEUEINFO => send_signal::queue(caller, number, a),

        nr::EXIT_GROUP => Err(End::status(a.get(0)).into()),
        nr::WAIT4 | nr::WAITID => Err(Errno::ECHILD.into()),

        nr::SET_ROBUST_LIST => futex::set_robust_list(caller, a),
        nr::GET_ROBUST_LIST => futex::get_robust_list(caller, a),

        nr::UMASK => Ok(attributes::umask(caller, a)),
        nr::GETCWD => whereabouts::getcwd(caller, a),
        nr::PIPE => pipe::pipe(caller, a),
        nr::PIPE2 => pipe::pipe2(caller, a),
        nr::EVENTFD => pipe::eventfd(caller, a),
        nr::EVENTFD2 => pipe::eventfd2(caller, a),
        nr::TIMERFD_CREATE => timer_file::create(caller, a),
        nr::TIMERFD_SETTIME => timer_file::settime(caller, a),
        nr::TIMERFD_GETTIME => timer_file::gettime(caller, a),
        nr::SIGNALFD => signal_file::signalfd(caller, a),
        nr::SIGNALFD4 => signal_file::signalfd4(caller, a),
        nr::SOCKETPAIR => pipe::socketpair(caller, a),
        nr::SOCKET => socket::socket(caller, a),
        nr::BIND => socket::bind(caller, a),
        nr::LISTEN => socket::listen(caller, a),
        nr::GETSOCKNAME => socket::local_name(caller, a),
        nr::GETPEERNAME => socket::peer_name(caller, a),
        nr::GETSOCKOPT => socket::get_option(caller, a),
        nr::SETSOCKOPT => socket::set_option(caller, a),
        nr::SHUTDOWN => socket::shutdown(caller, a),
        nr::EPOLL_CREATE => epoll::create(caller, a),
        nr::EPOLL_CREATE1 => epoll::create1(caller, a),
        nr::EPOLL_CTL => epoll::control(caller, a),
        nr::EPOLL_WAIT => epoll::wait_now(caller, a)?,
        nr::DUP => descriptors::dup(caller, a),
        nr::DUP2 => descriptors::dup2(caller, a),
        nr::DUP3 => descriptors::dup3(caller, a),
        nr::CLOSE => descriptors::close(caller, a),
        nr::CLOSE_RANGE => descriptors::close_range(caller, a),
        nr::FCNTL => records::fcntl(caller, a)?,
        nr::FLOCK => locks::flock(caller, a)?,
        nr::IOCTL => io_control::ioctl(caller, a)?,
        nr::POLL => poll::poll_now(caller, a)?,
        nr::LSEEK => seek::lseek(caller, a)?,
        nr::FADVISE64 => seek::fadvise64(caller, a),
        nr::READAHEAD => seek::readahead(caller, a),
        nr::SYNC => Ok(0),
        nr::GETXATTR | nr::LGETXATTR | nr::FGETXATTR | nr::LISTXATTR | nr::LLISTXATTR | nr::FLISTXATTR => {
            Err(Errno::EOPNOTSUPP.into())
        }
        nr::SETXATTR | nr::LSETXATTR | nr::FSETXATTR | nr::REMOVEXATTR | nr::LREMOVEXATTR | nr::FREMOVEXATTR => {
            Err(Errno::EOPNOTSUPP.into())
        }
        _ => return None,
    })
}

/// Makes a call that may wait. May be dropped wherever it waits; see [`crate::process`].
pub(crate) async fn awaited(caller: Caller<'_>, number: u64, a: Arguments) -> Awaited {
    let Ok(number) = u32::try_from(number) else { return Err(Failure::Unknown) };
    let a = &a;
    match number {
        nr::READ => read::read(caller, a).await,
        nr::PREAD64 => read::pread64(caller, a).await,
        nr::READV => read::readv(caller, a).await,
        nr::PREADV => read::preadv(caller, a).await,
        nr::PREADV2 => read::preadv2(caller, a).await,
        nr::WRITE => write::write(caller, a).await,
        nr::PWRITE64 => write::pwrite64(caller, a).await,
        nr::WRITEV => write::writev(caller, a).await,
        nr::PWRITEV => write::pwritev(caller, a).await,
        nr::PWRITEV2 => write::pwritev2(caller, a).await,
        nr::SENDFILE => transfer::sendfile(caller, a).await,
        nr::COPY_FILE_RANGE => transfer::copy_file_range(caller, a).await,
        nr::SPLICE => splice::splice(caller, a).await,
        nr::TEE => splice::tee(caller, a).await,
        nr::VMSPLICE => splice::vmsplice(caller, a).await,
        nr::LSEEK => seek::lseek_in_turn(caller, a).await,

        nr::OPEN => open::open(caller, a).await,
        nr::OPENAT => open::openat(caller, a).await,
        nr::MEMFD_CREATE => shared::memfd_create(caller, a).await,
        nr::CREAT => open::creat(caller, a).await,
        nr::FCNTL => records::fcntl_waiting(caller, a).await,
        nr::FLOCK => locks::flock_waiting(caller, a).await,
        nr::IOCTL => io_control::bytes_readable(caller, a).await,

        nr::STAT => stat::stat(caller, a, true).await,
        nr::LSTAT => stat::stat(caller, a, false).await,
        nr::FSTAT => stat::fstat(caller, a).await,
        nr::NEWFSTATAT => stat::newfstatat(caller, a).await,
        nr::STATX => stat::statx(caller, a).await,
        nr::STATFS => stat::statfs(caller, a).await,
        nr::FSTATFS => stat::fstatfs(caller, a).await,
        nr::ACCESS => stat::access(caller, a).await,
        nr::FACCESSAT => stat::faccessat(caller, a).await,
        nr::FACCESSAT2 => stat::faccessat2(caller, a).await,

        nr::GETDENTS64 => directories::getdents64(caller, a).await,
        nr::MKDIR => directories::mkdir(caller, a).await,
        nr::MKDIRAT => directories::mkdirat(caller, a).await,
        nr::RMDIR => directories::rmdir(caller, a).await,
        nr::CHDIR => whereabouts::chdir(caller, a).await,
        nr::FCHDIR => whereabouts::fchdir(caller, a).await,

        nr::UNLINK => names::unlink(caller, a).await,
        nr::UNLINKAT => names::unlinkat(caller, a).await,
        nr::RENAME => names::rename(caller, a).await,
        nr::RENAMEAT => names::renameat(caller, a).await,
        nr::RENAMEAT2 => names::renameat2(caller, a).await,
        nr::LINK => names::link(caller, a).await,
        nr::LINKAT => names::linkat(caller, a).await,
        nr::SYMLINK => names::symlink(caller, a).await,
        nr::SYMLINKAT => names::symlinkat(caller, a).await,
        nr::READLINK => names::readlink(caller, a).await,
        nr::READLINKAT => names::readlinkat(caller, a).await,

        nr::TRUNCATE => attributes::truncate(caller, a).await,
        nr::FTRUNCATE => attributes::ftruncate(caller, a).await,
        nr::FALLOCATE => attributes::fallocate(caller, a).await,
        nr::FSYNC => attributes::fsync(caller, a, false).await,
        nr::FDATASYNC => attributes::fsync(caller, a, true).await,
        nr::SYNCFS => attributes::fsync(caller, a, false).await,
        nr::SYNC_FILE_RANGE => attributes::sync_file_range(caller, a).await,
        nr::CHMOD => attributes::chmod(caller, a).await,
        nr::FCHMOD => attributes::fchmod(caller, a).await,
        nr::FCHMODAT => attributes::fchmodat(caller, a).await,
        nr::FCHMODAT2 => attributes::fchmodat2(caller, a).await,
        nr::CHOWN => ownership::chown(caller, a, true).await,
        nr::LCHOWN => ownership::chown(caller, a, false).await,
        nr::FCHOWN => ownership::fchown(caller, a).await,
        nr::FCHOWNAT => ownership::fchownat(caller, a).await,
        nr::UTIMENSAT => attributes::utimensat(caller, a).await,
        nr::UTIME => attributes::utime(caller, a).await,
        nr::UTIMES => attributes::utimes(caller, a).await,

        nr::POLL => poll::poll(caller, a).await,
        nr::PPOLL => poll::ppoll(caller, a).await,
        nr::SELECT => select::select(caller, a).await,
        nr::PSELECT6 => select::pselect6(caller, a).await,

        nr::EPOLL_WAIT => epoll::wait(caller, a).await,
        nr::EPOLL_PWAIT => epoll::pwait(caller, a).await,
        nr::EPOLL_PWAIT2 => epoll::pwait2(caller, a).await,

        nr::CONNECT => socket::connect(caller, a).await,
        nr::ACCEPT => socket::accept(caller, a).await,
        nr::ACCEPT4 => socket::accept4(caller, a).await,
        nr::SENDTO => socket::send_to(caller, a).await,
        nr::RECVFROM => socket::receive_from(caller, a).await,
        nr::SENDMSG => socket::send_message(caller, a).await,
        nr::RECVMSG => socket::receive_message(caller, a).await,
        nr::SENDMMSG => socket::send_messages(caller, a).await,
        nr::RECVMMSG => socket::receive_messages(caller, a).await,

        nr::MADVISE => advise::madvise(caller, a).await,
        nr::MINCORE => memory::mincore(caller, a).await,
        nr::OPENAT2 => open::openat2(caller, a).await,
        nr::GETRANDOM => system::getrandom_long(caller, a).await,
        nr::SCHED_YIELD => sleep::sched_yield().await,
        nr::NANOSLEEP => sleep::nanosleep(caller, a).await,
        nr::CLOCK_NANOSLEEP => sleep::clock_nanosleep(caller, a).await,
        nr::PAUSE | nr::RT_SIGSUSPEND => wait_signal::suspend(caller, number, a).await,
        nr::RT_SIGTIMEDWAIT => wait_signal::rt_sigtimedwait(caller, a).await,
        _ => Err(Failure::Unknown),
    }
}
