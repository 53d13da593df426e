//! What is set to be done about a signal.

use super::{SIG_DFL, SIG_IGN, Signals, check};
use crate::abi::signal_set::SignalSet;

impl Signals {
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
