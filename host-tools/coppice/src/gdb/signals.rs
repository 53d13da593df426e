//! Signals' numbers as gdb's protocol has them, which are not Linux's.

use gdbstub::common::Signal;

/// What gdb calls Linux's signals, from 1 on.
const OF_LINUX: [Signal; 31] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGKILL,
    Signal::SIGUSR1,
    Signal::SIGSEGV,
    Signal::SIGUSR2,
    Signal::SIGPIPE,
    Signal::SIGALRM,
    Signal::SIGTERM,
    Signal::UNKNOWN,
    Signal::SIGCHLD,
    Signal::SIGCONT,
    Signal::SIGSTOP,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGURG,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGWINCH,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSYS,
];

/// What gdb calls a signal of Linux's.
pub(super) fn of_linux(signal: u8) -> Signal {
    match signal {
        1..=31 => OF_LINUX[usize::from(signal) - 1],
        32 => Signal::SIG32,
        // From 33 to 63 they follow each other.
        33..=63 => Signal(Signal::SIG33.0 + signal - 33),
        64 => Signal::SIG64,
        _ => Signal::UNKNOWN,
    }
}
