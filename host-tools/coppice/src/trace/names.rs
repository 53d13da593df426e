//! Names of numbers in arguments of calls, as Linux's headers have them.

use coppice_api::syscalls::Names;
use nix::libc;

/// What the bits of a number mean.
struct Table {
    /// Which bits are one number, with its values.
    values: (u64, &'static [(u64, &'static str)]),
    /// The other bits.
    bits: &'static [(u64, &'static str)],
}

macro_rules! named {
    ($($constant:ident)*) => {
        &[$((libc::$constant as u64, stringify!($constant))),*]
    };
}

const ALL: u64 = u32::MAX as u64;

const fn one(values: &'static [(u64, &'static str)]) -> Table {
    Table { values: (ALL, values), bits: &[] }
}

const fn bits(bits: &'static [(u64, &'static str)]) -> Table {
    Table { values: (0, &[]), bits }
}

/// How a file is opened, beside for what. The C library has no O_LARGEFILE where all files may be large.
const OPEN: &[(u64, &str)] = &[
    (libc::O_CREAT as u64, "O_CREAT"),
    (libc::O_EXCL as u64, "O_EXCL"),
    (libc::O_NOCTTY as u64, "O_NOCTTY"),
    (libc::O_TRUNC as u64, "O_TRUNC"),
    (libc::O_APPEND as u64, "O_APPEND"),
    (libc::O_NONBLOCK as u64, "O_NONBLOCK"),
    (libc::O_SYNC as u64, "O_SYNC"),
    (libc::O_DSYNC as u64, "O_DSYNC"),
    (libc::O_ASYNC as u64, "FASYNC"),
    (libc::O_DIRECT as u64, "O_DIRECT"),
    (0x8000, "O_LARGEFILE"),
    (libc::O_NOFOLLOW as u64, "O_NOFOLLOW"),
    (libc::O_NOATIME as u64, "O_NOATIME"),
    (libc::O_CLOEXEC as u64, "O_CLOEXEC"),
    (libc::O_PATH as u64, "O_PATH"),
    (libc::O_TMPFILE as u64, "O_TMPFILE"),
    (libc::O_DIRECTORY as u64, "O_DIRECTORY"),
];

/// The number in names, or as it is where it has none.
pub(super) fn name(names: Names, number: u64) -> String {
    let number = number & ALL;
    if names == Names::Futex {
        return futex(number);
    }
    let Table { values: (mask, values), bits } = table(names);
    let mut parts: Vec<String> = Vec::new();
    let mut left = number;
    let value = values.iter().find(|(value, _)| *value == number & mask);
    if let Some((value, name)) = value {
        parts.push((*name).to_owned());
        left &= !value;
    }
    for (bit, name) in bits {
        if *bit != 0 && left & bit == *bit {
            parts.push((*name).to_owned());
            left &= !bit;
        }
    }
    if left != 0 {
        parts.push(format!("{left:#x}"));
    }
    if parts.is_empty() { number.to_string() } else { parts.join("|") }
}

/// What is asked of futex(2): the names for one process have endings of their own.
fn futex(number: u64) -> String {
    let (private, real) = (libc::FUTEX_PRIVATE_FLAG as u64, libc::FUTEX_CLOCK_REALTIME as u64);
    let commands = named! {
        FUTEX_WAIT FUTEX_WAKE FUTEX_FD FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI FUTEX_UNLOCK_PI
        FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET FUTEX_WAIT_REQUEUE_PI FUTEX_CMP_REQUEUE_PI FUTEX_LOCK_PI2
    };
    let command = number & !(private | real);
    let found: Option<&(u64, &str)> = commands.iter().find(|(value, _)| *value == command);
    let Some((_, name)) = found else { return format!("{number:#x}") };
    let mut text = (*name).to_owned();
    if number & private != 0 {
        text += "_PRIVATE";
    }
    if number & real != 0 {
        text += "|FUTEX_CLOCK_REALTIME";
    }
    text
}

fn table(names: Names) -> Table {
    match names {
        Names::Access => bits(named! { R_OK W_OK X_OK }).or("F_OK"),
        Names::Action => bits(&[
            (0x0400_0000, "SA_RESTORER"),
            (0x0800_0000, "SA_ONSTACK"),
            (0x1000_0000, "SA_RESTART"),
            (0x4000_0000, "SA_NODEFER"),
            (0x8000_0000, "SA_RESETHAND"),
            (1, "SA_NOCLDSTOP"),
            (2, "SA_NOCLDWAIT"),
            (4, "SA_SIGINFO"),
        ]),
        Names::Advice => one(named! {
            MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_REMOVE MADV_DONTFORK
            MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_DONTDUMP MADV_DODUMP
            MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD MADV_PAGEOUT MADV_POPULATE_READ MADV_POPULATE_WRITE
        }),
        Names::Arch => {
            one(&[(0x1001, "ARCH_SET_GS"), (0x1002, "ARCH_SET_FS"), (0x1003, "ARCH_GET_FS"), (0x1004, "ARCH_GET_GS")])
        }
        Names::At | Names::AtFollow => bits(named! {
            AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH AT_STATX_FORCE_SYNC
            AT_STATX_DONT_SYNC
        }),
        Names::AtRemove => bits(named! { AT_REMOVEDIR }),
        Names::Clock => one(named! {
            CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID CLOCK_MONOTONIC_RAW
            CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM
            CLOCK_TAI
        }),
        Names::Clone => bits(named! {
            CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PTRACE CLONE_VFORK CLONE_PARENT CLONE_THREAD CLONE_NEWNS
            CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_UNTRACED
            CLONE_CHILD_SETTID
        }),
        Names::CloseRange => bits(named! { CLOSE_RANGE_UNSHARE CLOSE_RANGE_CLOEXEC }),
        Names::Descriptor => bits(named! { O_CLOEXEC O_NONBLOCK O_DIRECT }),
        Names::Domain => one(named! { AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET }),
        Names::Epoll => one(named! { EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD }),
        Names::EpollDescriptor => bits(named! { EPOLL_CLOEXEC }),
        Names::EventDescriptor => bits(named! { EFD_SEMAPHORE EFD_CLOEXEC EFD_NONBLOCK }),
        Names::Fadvice => one(named! {
            POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED
            POSIX_FADV_NOREUSE
        }),
        Names::Fcntl => one(named! {
            F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN F_OFD_GETLK F_OFD_SETLK
            F_OFD_SETLKW F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_SETLEASE F_GETLEASE
        }),
        Names::Futex => bits(&[]),
        Names::IntervalTimer => one(named! { ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF }),
        Names::Ioctl => one(named! { TCGETS TCSETS TIOCGWINSZ TIOCGPGRP FIONREAD FIONBIO FIOCLEX FIONCLEX }),
        Names::Lock => bits(named! { LOCK_SH LOCK_EX LOCK_UN LOCK_NB }),
        Names::LockAll => bits(named! { MCL_CURRENT MCL_FUTURE MCL_ONFAULT }),
        Names::Map => Table {
            values: (0xf, named! { MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE }),
            bits: named! {
                MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN MAP_DENYWRITE MAP_LOCKED MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK
                MAP_STACK MAP_HUGETLB MAP_SYNC MAP_FIXED_NOREPLACE
            },
        },
        Names::MemoryFile => bits(named! { MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB }),
        Names::Message => bits(named! {
            MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL MSG_NOSIGNAL MSG_MORE
            MSG_WAITFORONE MSG_CMSG_CLOEXEC
        }),
        Names::Move => bits(named! { MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP }),
        Names::Open => Table { values: (3, named! { O_RDONLY O_WRONLY O_RDWR }), bits: OPEN },
        Names::Policy => one(named! { SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE }),
        Names::Prctl => one(named! {
            PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_GET_KEEPCAPS PR_SET_KEEPCAPS
            PR_SET_NAME PR_GET_NAME PR_CAPBSET_READ PR_CAPBSET_DROP PR_SET_TIMERSLACK PR_GET_TIMERSLACK
            PR_SET_NO_NEW_PRIVS PR_GET_NO_NEW_PRIVS PR_SET_VMA
        }),
        Names::Priority => one(named! { PRIO_PROCESS PRIO_PGRP PRIO_USER }),
        Names::Protection => {
            bits(named! { PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN PROT_GROWSUP }).or("PROT_NONE")
        }
        Names::Random => bits(named! { GRND_NONBLOCK GRND_RANDOM GRND_INSECURE }),
        Names::ReadWrite => bits(named! { RWF_HIPRI RWF_DSYNC RWF_SYNC RWF_NOWAIT RWF_APPEND }),
        Names::Rename => bits(named! { RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT }),
        Names::Resource => one(named! {
            RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC RLIMIT_NOFILE
            RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO
            RLIMIT_RTTIME
        }),
        Names::SignalDescriptor => bits(named! { SFD_CLOEXEC SFD_NONBLOCK }),
        Names::SignalMask => one(named! { SIG_BLOCK SIG_UNBLOCK SIG_SETMASK }),
        Names::Shutdown => one(named! { SHUT_RD SHUT_WR SHUT_RDWR }),
        Names::SocketFlags => bits(named! { SOCK_CLOEXEC SOCK_NONBLOCK }),
        Names::SocketLevel => one(&[(0, "SOL_IP"), (1, "SOL_SOCKET"), (6, "SOL_TCP"), (17, "SOL_UDP")]),
        Names::SocketType => Table {
            values: (0xf, named! { SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET }),
            bits: named! { SOCK_CLOEXEC SOCK_NONBLOCK },
        },
        Names::Splice => bits(named! { SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE SPLICE_F_GIFT }),
        Names::Statx => bits(named! { STATX_ALL STATX_BASIC_STATS STATX_TYPE STATX_MODE STATX_SIZE STATX_MNT_ID }),
        Names::Sync => bits(named! { MS_ASYNC MS_INVALIDATE MS_SYNC }),
        Names::Timer => bits(named! { TIMER_ABSTIME }),
        Names::TimerDescriptor => bits(named! { TFD_CLOEXEC TFD_NONBLOCK }),
        Names::TimerFile => bits(named! { TFD_TIMER_ABSTIME TFD_TIMER_CANCEL_ON_SET }),
        Names::Usage => one(named! { RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD }),
        Names::Whence => one(named! { SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE }),
    }
}

impl Table {
    /// With a name for no bits at all.
    const fn or(self, none: &'static str) -> Self {
        // One name of no bits, which is said where all bits are none.
        const fn of(none: &'static str) -> &'static [(u64, &'static str)] {
            match none.as_bytes() {
                b"F_OK" => &[(0, "F_OK")],
                _ => &[(0, "PROT_NONE")],
            }
        }
        Self { values: (ALL, of(none)), bits: self.bits }
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::syscalls::Names;
    use nix::libc;

    use super::name;

    #[test]
    fn numbers_have_the_names_that_strace_gives_them() {
        let flags = (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC) as u64;
        assert_eq!(name(Names::Open, flags), "O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC");
        assert_eq!(name(Names::Open, 0), "O_RDONLY");
        assert_eq!(name(Names::Open, (libc::O_DIRECTORY | libc::O_CLOEXEC) as u64), "O_RDONLY|O_CLOEXEC|O_DIRECTORY");
        assert_eq!(name(Names::Protection, 0), "PROT_NONE");
        assert_eq!(name(Names::Protection, 3), "PROT_READ|PROT_WRITE");
        assert_eq!(name(Names::Map, 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(name(Names::At, 0), "0");
        assert_eq!(name(Names::Access, 0), "F_OK");
        assert_eq!(name(Names::Access, 4), "R_OK");
        assert_eq!(name(Names::Futex, 128), "FUTEX_WAIT_PRIVATE");
        assert_eq!(name(Names::Futex, 9 | 128 | 256), "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME");
        assert_eq!(name(Names::SocketType, 1 | 0o2_000_000), "SOCK_STREAM|SOCK_CLOEXEC");
        assert_eq!(name(Names::Whence, 77), "0x4d");
        assert_eq!(name(Names::Protection, 0x100), "0x100");
    }
}
