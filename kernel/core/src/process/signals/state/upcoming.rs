//! What will come of a thread's signals, before anything does: for those who are to hear of it first.

use super::Signals;
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGKILL, SIGNAL_MAX, SignalSet};

impl Signals {
    /// The signal for which [`Self::next`] would have a handler run or end the process next, if there is one. Not
    /// `SIGKILL`.
    pub(crate) fn upcoming(&self, id: u32) -> Option<u32> {
        let thread = self.threads.get(&id)?;
        if let Some(taken) = &thread.taken {
            return Some(taken.info.signal);
        }
        if self.stopped {
            return None;
        }
        let unblocked = thread.blocked.or(thread.awaited).others();
        let heeded = (1..=SIGNAL_MAX).filter(|signal| !self.is_ignored(*signal));
        let heeded = heeded.fold(SignalSet::NONE, |set, signal| set.or(SignalSet::of(signal))).and(unblocked);
        let first = thread.pending.set().and(heeded).first().or_else(|| self.shared.set().and(heeded).first())?;
        let is_told = first != SIGKILL && (self.has_handler(first) || !SignalSet::STOPPING.contains(first));
        is_told.then_some(first)
    }

    /// The signal with which [`Self::next`] would have the process end next, and leave a core file.
    pub(crate) fn upcoming_core(&self, id: u32) -> Option<SignalInfo> {
        let signal = self.upcoming(id).filter(|signal| SignalSet::CORE_FILE.contains(*signal))?;
        let thread = self.threads.get(&id).filter(|thread| thread.taken.is_none() && !self.has_handler(signal))?;
        thread.pending.first_of(signal).or_else(|| self.shared.first_of(signal))
    }

    /// Whether a thread that has caused a signal by what it did ends the process; see [`Self::fault`].
    pub(crate) fn fault_ends(&self, id: u32, signal: u32) -> bool {
        self.threads.get(&id).is_none_or(|thread| thread.blocked.contains(signal) || !self.has_handler(signal))
    }

    /// Has signals that leave a core file end the process only when their thread has looked at them.
    pub(crate) fn leave_cores(&mut self) {
        self.core_file = true;
    }

    /// Has all that end the process do so, or not any more.
    pub(crate) fn debugged(&mut self, is_debugged: bool) {
        self.debugged = is_debugged;
    }

    /// Whether a signal that ends the process does so only when its thread has looked.
    pub(super) const fn is_told_first(&self, signal: u32) -> bool {
        self.debugged || self.core_file && SignalSet::CORE_FILE.contains(signal)
    }

    /// Whether a signal that a thread is sent would end the process when it looks.
    pub(crate) fn ends_when_sent(&self, id: u32, signal: u32) -> bool {
        self.threads.get(&id).is_some_and(|thread| !thread.blocked.contains(signal)) && self.ends(signal)
    }
}
