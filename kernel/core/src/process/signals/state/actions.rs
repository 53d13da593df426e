//! What is set to be done about a signal.

use super::{SIG_DFL, SIG_IGN, Signals, check};
use crate::abi::signal::SignalAction;
use crate::abi::signal_set::{SIGKILL, SIGSTOP, SignalSet};
use crate::errno::Errno;

impl Signals {
    /// What is set for a signal.
    ///
    /// # Errors
    /// `EINVAL`: no such signal.
    pub(crate) fn action(&self, signal: u32) -> Result<SignalAction, Errno> {
        check(signal).map(|index| self.actions[index])
    }

    /// Whether what a signal does can be set.
    ///
    /// # Errors
    /// `EINVAL`: no such signal, or one that cannot be caught.
    pub(crate) fn check_settable(&self, signal: u32) -> Result<(), Errno> {
        check(signal)?;
        if signal == SIGKILL || signal == SIGSTOP { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Sets what a signal does. Setting it to be ignored forgets pending ones. Says whether it is pending now.
    ///
    /// # Errors
    /// `EINVAL`: no such signal, or one that cannot be caught.
    pub(crate) fn set_action(&mut self, signal: u32, action: SignalAction) -> Result<bool, Errno> {
        self.check_settable(signal)?;
        self.actions[check(signal)?] = action;
        if self.is_ignored(signal) {
            self.forget(SignalSet::of(signal));
        }
        let pending = self.threads.values().fold(self.shared.set(), |all, thread| all.or(thread.pending.set()));
        Ok(pending.contains(signal))
    }

    /// Whether a handler is set.
    pub(super) fn has_handler(&self, signal: u32) -> bool {
        check(signal).is_ok_and(|index| self.actions[index].handler > SIG_IGN)
    }

    pub(super) fn is_ignored(&self, signal: u32) -> bool {
        let handler = check(signal).map_or(SIG_DFL, |index| self.actions[index].handler);
        handler == SIG_IGN || handler == SIG_DFL && SignalSet::IGNORED.contains(signal)
    }

    /// Whether a signal ends the process by default, and nothing else is set for it.
    pub(super) fn ends(&self, signal: u32) -> bool {
        !self.is_ignored(signal) && !self.has_handler(signal) && !SignalSet::STOPPING.contains(signal)
    }
}
