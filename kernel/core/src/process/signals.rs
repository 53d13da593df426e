//! What a process does about signals. They are acted on at once, by the process itself: there is nobody else who could
//! send one but the operator, whose kill does not ask.
//!
//! Handlers are recorded but not called. A signal that would run one ends the process, with a reason that says so.

use coppice_protocol::signal::{self, name};

use crate::errno::Errno;
use crate::process::End;
use crate::syscall::abi::signal::SignalAction;

use alloc::format;

/// Highest signal number.
pub(crate) const SIGNAL_MAX: u32 = signal::SIGNAL_MAX as u32;

pub(crate) const SIGILL: u32 = 4;
pub(crate) const SIGTRAP: u32 = 5;
pub(crate) const SIGBUS: u32 = 7;
pub(crate) const SIGFPE: u32 = 8;
pub(crate) const SIGKILL: u32 = signal::SIGKILL as u32;
pub(crate) const SIGSEGV: u32 = 11;
pub(crate) const SIGPIPE: u32 = 13;
const SIGCHLD: u32 = 17;
const SIGCONT: u32 = 18;
pub(crate) const SIGSTOP: u32 = 19;
const SIGTSTP: u32 = 20;
const SIGTTIN: u32 = 21;
const SIGTTOU: u32 = 22;
const SIGURG: u32 = 23;
const SIGWINCH: u32 = 28;

const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// A set of signals, signal `n` as bit `n − 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalSet(pub(crate) u64);

impl SignalSet {
    /// The set of one signal.
    pub(crate) const fn of(signal: u32) -> Self {
        Self(1 << (signal - 1))
    }

    /// Whether a signal is in it.
    pub(crate) const fn contains(self, signal: u32) -> bool {
        self.0 & Self::of(signal).0 != 0
    }

    /// The lowest signal in it.
    pub(crate) const fn first(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() + 1) }
    }

    /// Without `SIGKILL` and `SIGSTOP`, which cannot be blocked.
    pub(crate) const fn blockable(self) -> Self {
        Self(self.0 & !(Self::of(SIGKILL).0 | Self::of(SIGSTOP).0))
    }
}

/// What a signal does to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing (ignored, or kept until it is unblocked).
    Nothing,
    /// It ends.
    End(End),
    /// It stops, for good: there is nobody who could continue it.
    Stop,
}

/// Dispositions and pending signals of a process.
#[derive(Debug)]
pub(crate) struct Signals {
    actions: [SignalAction; SIGNAL_MAX as usize],
    pending: SignalSet,
}

impl Signals {
    /// As a new program finds them: everything default, nothing pending.
    pub(crate) fn new() -> Self {
        Self { actions: [SignalAction::default(); SIGNAL_MAX as usize], pending: SignalSet::default() }
    }

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

    /// Sets what a signal does. Setting it to be ignored forgets a pending one.
    ///
    /// # Errors
    /// `EINVAL`: no such signal, or one that cannot be caught.
    pub(crate) fn set_action(&mut self, signal: u32, action: SignalAction) -> Result<(), Errno> {
        self.check_settable(signal)?;
        let index = check(signal)?;
        self.actions[index] = action;
        if self.is_ignored(signal) {
            self.pending.0 &= !SignalSet::of(signal).0;
        }
        Ok(())
    }

    /// Signals that wait to be unblocked.
    pub(crate) const fn pending(&self) -> SignalSet {
        self.pending
    }

    /// Takes a pending signal of `wanted`.
    pub(crate) fn take(&mut self, wanted: SignalSet) -> Option<u32> {
        let signal = SignalSet(self.pending.0 & wanted.0).first()?;
        self.pending.0 &= !SignalSet::of(signal).0;
        Some(signal)
    }

    /// Sends the process a signal (0: none) while `blocked` ones wait.
    ///
    /// # Errors
    /// `EINVAL`: no such signal.
    pub(crate) fn send(&mut self, signal: u32, blocked: SignalSet) -> Result<Effect, Errno> {
        if signal == 0 {
            return Ok(Effect::Nothing);
        }
        check(signal)?;
        if blocked.blockable().contains(signal) {
            // Even an ignored one: the disposition may change before it is unblocked.
            self.pending.0 |= SignalSet::of(signal).0;
            return Ok(Effect::Nothing);
        }
        Ok(self.act(signal))
    }

    /// What the pending signals do now that only `blocked` ones wait.
    pub(crate) fn release(&mut self, blocked: SignalSet) -> Effect {
        while let Some(signal) = self.take(SignalSet(!blocked.blockable().0)) {
            let effect = self.act(signal);
            if effect != Effect::Nothing {
                return effect;
            }
        }
        Effect::Nothing
    }

    /// The end by a signal that the processor caused: it cannot be ignored or blocked.
    pub(crate) fn fault(&self, signal: u32) -> End {
        let end = End::signal(signal as u8);
        if self.has_handler(signal) { end.because(handler_reason(signal)) } else { end }
    }

    /// Whether a handler is set.
    pub(crate) fn has_handler(&self, signal: u32) -> bool {
        check(signal).is_ok_and(|index| self.actions[index].handler > SIG_IGN)
    }

    fn act(&self, signal: u32) -> Effect {
        if self.is_ignored(signal) {
            return Effect::Nothing;
        }
        if self.has_handler(signal) {
            return Effect::End(self.fault(signal));
        }
        match signal {
            SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => Effect::Stop,
            _ => Effect::End(End::signal(signal as u8)),
        }
    }

    fn is_ignored(&self, signal: u32) -> bool {
        let handler = check(signal).map_or(SIG_DFL, |index| self.actions[index].handler);
        handler == SIG_IGN || handler == SIG_DFL && matches!(signal, SIGCHLD | SIGCONT | SIGURG | SIGWINCH)
    }
}

fn handler_reason(signal: u32) -> alloc::string::String {
    format!("{}: the program set a handler for it, but Coppice does not call signal handlers yet", name(signal))
}

/// A signal's index, if there is such a signal.
fn check(signal: u32) -> Result<usize, Errno> {
    if (1..=SIGNAL_MAX).contains(&signal) { Ok(signal as usize - 1) } else { Err(Errno::EINVAL) }
}

#[cfg(test)]
mod tests {
    use coppice_protocol::control::Exit;
    use proptest::prelude::{any, proptest};

    use super::{Effect, SIGKILL, SIGPIPE, SIGSEGV, SIGSTOP, SignalSet, Signals, name};
    use crate::errno::Errno;
    use crate::process::End;
    use crate::syscall::abi::signal::SignalAction;

    const SIGABRT: u32 = 6;
    const NONE: SignalSet = SignalSet(0);

    fn handled(handler: u64) -> SignalAction {
        SignalAction { handler, ..SignalAction::default() }
    }

    #[test]
    fn defaults_are_linuxs() {
        let mut signals = Signals::new();
        assert_eq!(signals.send(SIGABRT, NONE), Ok(Effect::End(End::signal(6))));
        assert_eq!(signals.send(64, NONE), Ok(Effect::End(End::signal(64))));
        for ignored in [17, 18, 23, 28, 0] {
            assert_eq!(signals.send(ignored, NONE), Ok(Effect::Nothing), "{}", name(ignored));
        }
        for stopping in [19, 20, 21, 22] {
            assert_eq!(signals.send(stopping, NONE), Ok(Effect::Stop), "{}", name(stopping));
        }
        assert_eq!(signals.send(65, NONE), Err(Errno::EINVAL));
    }

    #[test]
    fn ignored_signals_do_nothing_but_faults_cannot_be_ignored() {
        let mut signals = Signals::new();
        assert_eq!(signals.set_action(SIGPIPE, handled(1)), Ok(()));
        assert_eq!(signals.send(SIGPIPE, NONE), Ok(Effect::Nothing));
        assert_eq!(signals.set_action(SIGSEGV, handled(1)), Ok(()));
        assert_eq!(signals.fault(SIGSEGV), End::signal(11));
    }

    #[test]
    fn handlers_end_the_process_and_the_reason_says_so() {
        let mut signals = Signals::new();
        assert_eq!(signals.set_action(SIGSEGV, handled(0x40_0000)), Ok(()));
        let end = signals.fault(SIGSEGV);
        assert_eq!(end.exit, Exit::Signal(11));
        assert!(end.reason.is_some_and(|reason| reason.contains("SIGSEGV") && reason.contains("handler")));
    }

    #[test]
    fn kill_and_stop_cannot_be_caught_or_blocked() {
        let mut signals = Signals::new();
        assert_eq!(signals.set_action(SIGKILL, handled(1)), Err(Errno::EINVAL));
        assert_eq!(signals.set_action(SIGSTOP, handled(0)), Err(Errno::EINVAL));
        assert_eq!(signals.send(SIGKILL, SignalSet(u64::MAX)), Ok(Effect::End(End::signal(9))));
    }

    #[test]
    fn blocked_signals_wait() {
        let mut signals = Signals::new();
        let blocked = SignalSet::of(SIGABRT);
        assert_eq!(signals.send(SIGABRT, blocked), Ok(Effect::Nothing));
        assert_eq!(signals.pending(), blocked);
        assert_eq!(signals.release(blocked), Effect::Nothing);
        assert_eq!(signals.release(NONE), Effect::End(End::signal(6)));
        assert_eq!(signals.pending(), NONE);
    }

    #[test]
    fn ignoring_forgets_what_is_pending() {
        let mut signals = Signals::new();
        assert_eq!(signals.send(SIGABRT, SignalSet::of(SIGABRT)), Ok(Effect::Nothing));
        assert_eq!(signals.set_action(SIGABRT, handled(1)), Ok(()));
        assert_eq!(signals.pending(), NONE);
    }

    proptest! {
        #[test]
        fn no_signal_number_or_mask_panics(signal in any::<u32>(), mask in any::<u64>(), handler in any::<u64>()) {
            let mut signals = Signals::new();
            let set = signals.set_action(signal, handled(handler));
            let sent = signals.send(signal, SignalSet(mask));
            assert_eq!(set.is_ok(), (1..=64).contains(&signal) && signal != SIGKILL && signal != SIGSTOP);
            assert_eq!(sent.is_ok(), signal <= 64);
            let _ = signals.release(SignalSet(!mask));
        }
    }
}
