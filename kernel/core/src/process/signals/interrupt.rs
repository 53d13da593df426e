//! Calls that wait, and that signals interrupt.

use core::pin::Pin;
use core::task::{Context, Poll};

use coppice_protocol::syscalls::{self, Interruption};
use pin_project_lite::pin_project;

use super::outcome::{Next, Target};
use crate::abi::signal::SignalInfo;
use crate::abi::signal_set::{SIGPIPE, SignalSet};
use crate::executor::Phase;
use crate::process::{Awaited, Caller, End, Failure};

/// What becomes of a call when a signal's handler has run in its place (signal(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// It is made again if the handler was set with `SA_RESTART`, or else fails with `EINTR`.
    IfAsked,
    /// It fails with `EINTR`.
    Never,
    /// It is made again.
    Always,
}

/// What the table of calls leaves open of that: which wait of the call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For as long as it takes.
    Endless,
    /// Until a time.
    Limited,
    /// For as long as it takes, and the call is made again whatever was set for the signal.
    Stubborn,
}

impl Patience {
    /// That of a wait that ends at this time, ns.
    pub(crate) const fn until(deadline_ns: u64) -> Self {
        if deadline_ns == u64::MAX { Self::Endless } else { Self::Limited }
    }
}

pin_project! {
    /// See [`Caller::interruptible`]. A type of its own, for an `async fn` has room for each of its arguments twice.
    #[must_use = "futures do nothing unless awaited"]
    pub(crate) struct Interruptible<'a, F> {
        #[pin]
        waiting: F,
        caller: Caller<'a>,
        phase: Phase,
        patience: Patience,
    }
}

impl<F: Future> Future for Interruptible<'_, F> {
    type Output = Awaited<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let thread = this.caller.thread;
        thread.waits_for(*this.phase);
        let polled = match this.waiting.poll(context) {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => this.caller.interruption(*this.patience).map(Err),
        };
        if polled.is_ready() {
            thread.waits_for(Phase::File);
        }
        polled
    }
}

impl Caller<'_> {
    /// Waits, unless a signal comes that has a handler, or that ends the process. If both come together, the wait was
    /// the first. One that only stops the process does not end the wait.
    ///
    /// `phase` is what the time counts as. Whoever waits may know better, and say so whenever it is polled.
    pub(crate) fn interruptible<F: Future>(
        &self,
        phase: Phase,
        patience: Patience,
        waiting: F,
    ) -> Interruptible<'_, F> {
        Interruptible { waiting, caller: *self, phase, patience }
    }

    /// Goes on, unless a signal has come as for [`Self::interruptible`].
    pub(crate) async fn unless_interrupted(&self, patience: Patience) -> Awaited<()> {
        match self.interruption(patience) {
            Poll::Ready(failure) => Err(failure),
            Poll::Pending => Ok(()),
        }
    }

    /// Looks for a signal that interrupts the call. The thread's own task is woken when there may be one.
    #[inline]
    fn interruption(&self, patience: Patience) -> Poll<Failure> {
        if self.thread.has_attention() { self.attend(patience) } else { Poll::Pending }
    }

    fn attend(&self, patience: Patience) -> Poll<Failure> {
        if self.process.threads.hold.is_asked_of(self.thread.tid) {
            return Poll::Ready(Failure::Held);
        }
        // A debugger is to hear of it first.
        if self.process.threads.hold.debugger.is_there()
            && self.process.signals.lock().upcoming(self.thread.tid).is_some()
        {
            return Poll::Ready(Failure::Interrupted(self.restart(patience)));
        }
        // Or somebody is to take a core file first.
        if self.process.identity.core_file && self.process.signals.lock().upcoming_core(self.thread.tid).is_some() {
            return Poll::Ready(Failure::Interrupted(self.restart(patience)));
        }
        let next = self.process.signals.lock().interrupt(self.thread.tid);
        match next {
            Next::Handler(_) => Poll::Ready(Failure::Interrupted(self.restart(patience))),
            Next::End(signal) => Poll::Ready(Failure::End(End::signal(signal as u8))),
            Next::Stop { since_now } => {
                if since_now {
                    self.process.call_all();
                }
                self.thread.waits_for(Phase::Other);
                Poll::Pending
            }
            Next::Nothing => Poll::Pending,
        }
    }

    /// What becomes of the call that the thread is in, by the table of calls.
    fn restart(&self, patience: Patience) -> Restart {
        let call = self.thread.in_call().and_then(syscalls::call);
        let interruption = call.map_or(Interruption::Fails, |call| call.interruption);
        match (patience, interruption) {
            (Patience::Stubborn, _) => Restart::Always,
            (_, Interruption::Restarts) | (Patience::Endless, Interruption::RestartsUntimed) => Restart::IfAsked,
            (_, Interruption::Waits | Interruption::Fails | Interruption::RestartsUntimed) => Restart::Never,
        }
    }

    /// Makes a call while other signals are blocked than the thread says, if `mask` says so.
    pub(crate) async fn with_mask<T>(
        &self,
        mask: Option<SignalSet>,
        call: Pin<&mut impl Future<Output = Awaited<T>>>,
    ) -> Awaited<T> {
        let masked = mask.map(|mask| Masked::start(*self, mask));
        let result = call.await;
        // A call that is taken up again goes on as it was.
        if matches!(result, Err(Failure::Held)) {
            core::mem::forget(masked);
        }
        result
    }

    /// Sends the thread the signal that means that nobody reads what it writes.
    pub(crate) fn raise_broken_pipe(&self) -> Awaited<()> {
        let identity = &self.process.identity;
        let info = SignalInfo::user(SIGPIPE, identity.pid, identity.user);
        match self.process.send(Target::Thread(self.thread.tid), info)? {
            Some(end) => Err(Failure::End(end)),
            None => Ok(()),
        }
    }

    /// What the thread blocks.
    pub(crate) fn blocked(&self) -> SignalSet {
        self.process.signals.lock().blocked(self.thread.tid)
    }
}

/// A call that other signals are blocked for than the thread says, as long as it is made. It may end in the middle:
/// what the thread blocks is what it says again then, too.
struct Masked<'a>(Caller<'a>);

impl<'a> Masked<'a> {
    fn start(caller: Caller<'a>, mask: SignalSet) -> Self {
        let called = caller.process.signals.lock().block_for_call(caller.thread.tid, mask);
        caller.process.call_threads(called);
        Self(caller)
    }
}

impl Drop for Masked<'_> {
    fn drop(&mut self) {
        let called = self.0.process.signals.lock().restore(self.0.thread.tid);
        self.0.process.call_threads(called);
    }
}
