//! Calls of a thread that wait.

use coppice_protocol::syscalls as nr;

use super::{Over, Thread};
use crate::errno::Errno;
use crate::process::hold::{PendingCall, Position};
use crate::process::{Awaited, Caller, Failure};
use crate::syscall::{self, Arguments};

/// Calls that every C library tries and does without: counted when they are refused, but no event.
const EXPECTED_TO_BE_MISSING: [u64; 2] = [nr::RSEQ as u64, nr::CLONE3 as u64];

impl Thread {
    /// Makes a call that may wait. Its result comes into the registers when it is done, not before.
    pub(super) fn call(&mut self) -> impl Future<Output = Option<Over>> + Send {
        let number = self.user.regs.rax;
        self.state.begin_call(number);
        self.make_call(number)
    }

    /// Makes a call again that it made when it was held.
    pub(super) fn call_again(&mut self, pending: PendingCall) -> impl Future<Output = Option<Over>> + Send {
        let number = self.user.regs.rax;
        self.state.take_up_call(number, pending);
        self.make_call(number)
    }

    async fn make_call(&mut self, number: u64) -> Option<Over> {
        let caller = Caller { process: &self.process, thread: &self.state };
        let arguments = Arguments::of(&self.user.regs);
        let result = syscall::awaited(caller, number, &arguments).await;
        self.end_call(number, result)
    }

    /// Sleeps at the word that the call in the registers is about.
    pub(super) async fn sleep(&mut self, until_ns: u64, always: bool) -> Option<Over> {
        self.state.begin_call(nr::FUTEX.into());
        let result = syscall::rest(Caller { process: &self.process, thread: &self.state }, until_ns, always).await;
        if let Err(Failure::Held) = result {
            self.held_at = Some(Position::Asleep { until_ns, always });
            self.state.leave_call();
            return None;
        }
        self.end_call(nr::FUTEX.into(), result)
    }

    /// Goes on after a call that waited.
    fn end_call(&mut self, number: u64, result: Awaited) -> Option<Over> {
        let result = match result {
            Ok(value) => value,
            Err(Failure::Errno(errno)) => errno.to_rax(),
            Err(Failure::Unknown) => {
                if self.process.counts.unknown(&self.counts, number) && !EXPECTED_TO_BE_MISSING.contains(&number) {
                    self.process.unknown_call(number, self.user.regs.rip);
                }
                Errno::ENOSYS.to_rax()
            }
            Err(Failure::OutOfMemory) => return Some(self.out_of_memory()),
            Err(Failure::End(end)) => return Some(Over::Process(end)),
            Err(Failure::Interrupted(restart)) => {
                self.state.end_call();
                self.interrupted = Some(restart);
                return None;
            }
            Err(Failure::Held) => {
                self.held_at = Some(Position::Call(self.state.pending()));
                self.state.leave_call();
                return None;
            }
        };
        self.state.end_call();
        self.user.regs.rax = result;
        None
    }
}
