//! Signal numbers, and sets of signals.

use coppice_protocol::signal;
use serde::{Deserialize, Serialize};

/// Highest signal number.
pub(crate) const SIGNAL_MAX: u32 = signal::SIGNAL_MAX as u32;

/// Lowest real-time signal.
pub(crate) const REAL_TIME_MIN: u32 = 32;

const SIGQUIT: u32 = 3;
pub(crate) const SIGILL: u32 = 4;
pub(crate) const SIGTRAP: u32 = 5;
const SIGABRT: u32 = 6;
pub(crate) const SIGBUS: u32 = 7;
pub(crate) const SIGFPE: u32 = 8;
pub(crate) const SIGKILL: u32 = signal::SIGKILL as u32;
pub(crate) const SIGSEGV: u32 = 11;
pub(crate) const SIGPIPE: u32 = 13;
pub(crate) const SIGALRM: u32 = 14;
const SIGCHLD: u32 = 17;
pub(crate) const SIGCONT: u32 = 18;
pub(crate) const SIGSTOP: u32 = 19;
const SIGTSTP: u32 = 20;
const SIGTTIN: u32 = 21;
const SIGTTOU: u32 = 22;
const SIGURG: u32 = 23;
pub(crate) const SIGXCPU: u32 = 24;
pub(crate) const SIGXFSZ: u32 = 25;
pub(crate) const SIGVTALRM: u32 = 26;
pub(crate) const SIGPROF: u32 = 27;
const SIGWINCH: u32 = 28;
const SIGSYS: u32 = 31;

/// A set of signals, signal `n` as bit `n − 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalSet(pub(crate) u64);

/// Whether a signal ends a process that has set nothing for it.
pub(crate) const fn ends_by_default(signal: u32) -> bool {
    !SignalSet::STOPPING.or(SignalSet::IGNORED).contains(signal)
}

/// Whether a signal stops a process that has set nothing for it.
pub(crate) const fn stops_by_default(signal: u32) -> bool {
    SignalSet::STOPPING.contains(signal)
}

impl SignalSet {
    /// No signal.
    pub(crate) const NONE: Self = Self(0);
    /// Those that stop the process by default.
    pub(crate) const STOPPING: Self = Self::of_all(&[SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU]);
    /// Those that leave a core file by default, where that is wanted.
    pub(crate) const CORE_FILE: Self =
        Self::of_all(&[SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS]);
    /// Those that do nothing by default.
    pub(crate) const IGNORED: Self = Self::of_all(&[SIGCHLD, SIGCONT, SIGURG, SIGWINCH]);
    /// Those that a thread causes by what it does: taken before all others.
    const SYNCHRONOUS: Self = Self::of_all(&[SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS]);

    /// The set of one signal.
    pub(crate) const fn of(signal: u32) -> Self {
        Self(1 << (signal - 1))
    }

    const fn of_all(signals: &[u32]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < signals.len() {
            set |= Self::of(signals[index]).0;
            index += 1;
        }
        Self(set)
    }

    /// Whether a signal is in it.
    pub(crate) const fn contains(self, signal: u32) -> bool {
        self.0 & Self::of(signal).0 != 0
    }

    /// Whether no signal is in it.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in any of them.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is not in it.
    pub(crate) const fn others(self) -> Self {
        Self(!self.0)
    }

    /// The signal in it that is taken first: one that a thread causes by what it does, or else the lowest.
    pub(crate) const fn first(self) -> Option<u32> {
        let urgent = self.0 & Self::SYNCHRONOUS.0;
        let from = if urgent == 0 { self.0 } else { urgent };
        if from == 0 { None } else { Some(from.trailing_zeros() + 1) }
    }

    /// Without `SIGKILL` and `SIGSTOP`, which cannot be blocked.
    pub(crate) const fn blockable(self) -> Self {
        Self(self.0 & !(Self::of(SIGKILL).0 | Self::of(SIGSTOP).0))
    }
}
