//! Who the process is, signals, limits, time, memory.

use alloc::vec;

use coppice_protocol::control::Exit;
use coppice_protocol::syscalls as nr;

use crate::abi::signal::SignalAction;
use crate::abi::u64_at;
use crate::errno::Errno;
use crate::process::testing::{Bench, MEMORY, READ_ONLY};

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

#[test]
fn ids_are_the_launch_messages() {
    let bench = Bench::new(&[]);
    for (call, expected) in [
        (nr::GETPID, 1002),
        (nr::GETTID, 1002),
        (nr::GETPPID, 1),
        (nr::GETUID, 1),
        (nr::GETEUID, 1),
        (nr::GETGID, 2),
        (nr::GETEGID, 2),
        (nr::GETPGRP, 1002),
        (nr::SET_TID_ADDRESS, 1002),
    ] {
        assert_eq!(bench.call(call, &[0]), expected, "call {call}");
    }
    assert_eq!(bench.call(nr::SETUID, &[1]), 0);
    assert_eq!(bench.call(nr::SETUID, &[0]), error(Errno::EPERM));
    assert_eq!(bench.call(nr::SETRESGID, &[2, u64::MAX, 2]), 0);
    assert_eq!(bench.call(nr::GETPGID, &[5]), error(Errno::ESRCH));
}

#[test]
fn signals_to_oneself_do_what_is_set() {
    let bench = Bench::new(&[]);
    let end = bench.try_call(nr::TGKILL, &[1002, 1002, 6]).expect_err("SIGABRT ends it");
    assert_eq!(end.exit, Exit::Signal(6));
    assert_eq!(bench.call(nr::KILL, &[1002, 0]), 0);
    assert_eq!(bench.call(nr::KILL, &[1003, 9]), error(Errno::ESRCH));
    assert_eq!(bench.call(nr::KILL, &[1002, 65]), error(Errno::EINVAL));
    let all = bench.put(0, &u64::MAX.to_le_bytes());
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[2, all, MEMORY + 8, 8]), 0);
    assert_eq!(bench.call(nr::KILL, &[1002, 15]), 0);
    assert_eq!(bench.call(nr::RT_SIGPENDING, &[MEMORY + 16, 8]), 0);
    assert_eq!(u64_at(&bench.get(16, 8), 0), 1 << 14);
    assert_eq!(bench.call(nr::RT_SIGTIMEDWAIT, &[all, 0, 0, 8]), 15);
    assert_eq!(bench.call(nr::KILL, &[1002, 10]), 0);
    let none = bench.put(0, &[0; 8]);
    let end = bench.try_call(nr::RT_SIGPROCMASK, &[2, none, 0, 8]).expect_err("SIGUSR1 was pending");
    assert_eq!(end.exit, Exit::Signal(10));
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[3, none, 0, 8]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[0, none, 0, 4]), error(Errno::EINVAL));
}

#[test]
fn dispositions_are_remembered_and_set_only_when_all_is_well() {
    let bench = Bench::new(&[]);
    let action = SignalAction { handler: 0x40_0000, flags: 4, restorer: 0x40_1000, mask: 2 };
    let new = bench.put(0, action.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[11, new, READ_ONLY, 8]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::RT_SIGACTION, &[11, 0, MEMORY + 0x100, 8]), 0);
    assert_eq!(bench.get(0x100, 32), vec![0; 32]);
    assert_eq!(bench.call(nr::RT_SIGACTION, &[11, new, 0, 8]), 0);
    assert_eq!(bench.call(nr::RT_SIGACTION, &[11, 0, MEMORY + 0x100, 8]), 0);
    assert_eq!(bench.get(0x100, 32), action.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[9, new, 0, 8]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::RT_SIGACTION, &[9, 0, MEMORY + 0x100, 8]), 0);
    assert_eq!(bench.call(nr::RT_SIGACTION, &[65, 0, 0, 8]), error(Errno::EINVAL));
}

#[test]
fn exits_have_their_status() {
    let bench = Bench::new(&[]);
    let end = bench.try_call(nr::EXIT_GROUP, &[0x103]).expect_err("it ends");
    assert_eq!(end.exit, Exit::Status(3));
    let end = bench.try_call(nr::EXIT, &[u64::MAX]).expect_err("it ends");
    assert_eq!(end.exit, Exit::Status(255));
}

#[test]
fn limits_are_told_and_not_raised() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::PRLIMIT64, &[0, 7, 0, MEMORY]), 0);
    assert_eq!(u64_at(&bench.get(0, 16), 0), 1024);
    assert_eq!(bench.call(nr::GETRLIMIT, &[3, MEMORY]), 0);
    assert_eq!(u64_at(&bench.get(0, 16), 0), 8 * 1024 * 1024);
    let more = bench.put(0, &[5000_u64.to_le_bytes(), 5000_u64.to_le_bytes()].concat());
    assert_eq!(bench.call(nr::SETRLIMIT, &[7, more]), error(Errno::EPERM));
    assert_eq!(bench.call(nr::PRLIMIT64, &[0, 16, 0, MEMORY]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::PRLIMIT64, &[55, 7, 0, MEMORY]), error(Errno::ESRCH));
}

#[test]
fn random_bytes_come_in_any_number() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::GETRANDOM, &[MEMORY, 200, 0]), 200);
    assert_ne!(bench.get(0, 200), vec![0; 200]);
    assert_eq!(bench.call(nr::GETRANDOM, &[MEMORY, 300_000, 0]), 300_000);
    assert_ne!(bench.get(290_000, 10_000), vec![0; 10_000]);
    assert_eq!(bench.call(nr::GETRANDOM, &[MEMORY, 10, 6]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::GETRANDOM, &[READ_ONLY, 10, 0]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::GETRANDOM, &[u64::MAX, 1 << 50, 0]), error(Errno::EFAULT));
}

#[test]
fn calls_that_are_not_there_say_so() {
    let bench = Bench::new(&[]);
    for number in [nr::FORK, nr::CLONE, nr::CLONE3, nr::EXECVE, nr::SHMGET, nr::RSEQ] {
        assert_eq!(bench.call(number, &[0; 6]), error(Errno::ENOSYS), "call {number}");
    }
    assert_eq!(bench.call(4_000_000_000, &[]), error(Errno::ENOSYS));
    assert_eq!(bench.call(nr::WAIT4, &[u64::MAX]), error(Errno::ECHILD));
    assert_eq!(bench.call(nr::PRCTL, &[15, MEMORY]), 0);
    assert_eq!(bench.call(nr::PRCTL, &[1000]), error(Errno::EINVAL));
}

#[test]
fn barriers_there_are_can_be_asked_for() {
    let bench = Bench::new(&[]);
    let _sibling = bench.sibling(None);
    let commands = bench.call(nr::MEMBARRIER, &[0, 0]);
    for bit in 0..31 {
        let expected = if commands & 1 << bit != 0 { 0 } else { error(Errno::EINVAL) };
        assert_eq!(bench.call(nr::MEMBARRIER, &[1 << bit, 0]), expected, "command {bit}");
    }
    assert_eq!(bench.call(nr::MEMBARRIER, &[3, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::MEMBARRIER, &[1, 1]), error(Errno::EINVAL));
}
