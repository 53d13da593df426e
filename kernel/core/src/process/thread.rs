//! A thread's life: enter the program, handle why it came back, perhaps wait, enter again.
//!
//! Most of it happens in [`Thread::until_waiting`], which is an ordinary function: calls that need not wait, and faults
//! that need no I/O, are handled there without touching anything asynchronous. It returns only when the thread has to
//! wait, is interrupted, or is at its end. Long-running programs therefore return there at each interrupt, and calls
//! that take long are split or wait: nothing keeps the core for long.

use core::sync::atomic::Ordering;

use coppice_hal::paging::Access;
use coppice_hal::user::{UserExit, UserThread};
use coppice_protocol::syscalls as nr;

use crate::clock;
use crate::errno::Errno;
use crate::executor;
use crate::memory::{Fetch, Resolution};
use crate::process::counts::Counts;
use crate::process::fetch::Fetched;
use crate::process::{Caller, End, Failure, Process, ThreadState, Trouble};
use crate::syscall::{self, Arguments};

/// A thread that runs.
pub(super) struct Thread<'a> {
    process: &'a Process,
    state: &'a ThreadState,
    counts: &'a mut Counts,
    user: UserThread,
}

/// Calls that every C library tries and does without: counted when they are refused, but no event.
const EXPECTED_TO_BE_MISSING: [u64; 2] = [nr::SET_ROBUST_LIST as u64, nr::RSEQ as u64];

/// What a thread waits for.
enum Wait {
    /// Others want the core, or an interrupt came and they may.
    Turn,
    /// It touched a page.
    Page(Fetch),
    /// A call touched a page, and is to be made again when that is there.
    PageOfCall(Fetch),
    /// It makes a call that may wait.
    Call,
    /// Nothing: it is at its end.
    End(End),
}

impl<'a> Thread<'a> {
    pub(super) fn new(
        process: &'a Process,
        state: &'a ThreadState,
        counts: &'a mut Counts,
        entry: u64,
        stack: u64,
    ) -> Self {
        Self { process, state, counts, user: UserThread::new(entry, stack) }
    }

    /// Runs the thread to its end. May be dropped wherever it waits.
    pub(super) async fn run(mut self) -> End {
        loop {
            let wait = self.until_waiting();
            let since_ns = clock::monotonic_ns();
            let end = self.wait(wait).await;
            if let Some(end) = end {
                return end;
            }
            let waited_ns = clock::monotonic_ns().saturating_sub(since_ns);
            self.process.account.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        }
    }

    /// Waits, and does what there was to wait for. Gives the end, if this is it.
    async fn wait(&mut self, wait: Wait) -> Option<End> {
        match wait {
            Wait::Turn => {
                executor::yield_now().await;
                None
            }
            Wait::Page(fetch) => self.bring_page(&fetch).await,
            Wait::PageOfCall(fetch) => self.bring_page_of_call(&fetch).await,
            Wait::Call => self.call().await,
            Wait::End(end) => Some(end),
        }
    }

    /// Runs the program until it has to wait.
    fn until_waiting(&mut self) -> Wait {
        // A call may have woken somebody, who would otherwise wait for the next interrupt.
        while !executor::others_are_ready() {
            // Only this thread uses the space while it runs: the lock is free, and taken for the table's sake.
            let exit = self.user.enter(self.process.space.lock().table());
            match exit {
                UserExit::Syscall => {
                    if !self.fact()
                        && let Some(wait) = self.system_call()
                    {
                        return wait;
                    }
                }
                UserExit::PageFault { address, write, execute, .. } => {
                    let access = if execute {
                        Access::EXECUTE
                    } else if write {
                        Access::WRITE
                    } else {
                        Access::READ
                    };
                    let resolution = self.process.space.lock().fault(address, access);
                    match resolution {
                        Resolution::Ready => {}
                        Resolution::Fetch(fetch) => return Wait::Page(fetch),
                        Resolution::Signal(signal) => {
                            return Wait::End(self.process.bad_touch(signal, None, &self.user.regs));
                        }
                        Resolution::OutOfMemory => return Wait::End(self.process.out_of_memory(self.user.regs.rip)),
                    }
                }
                UserExit::Exception { vector, .. } => {
                    return Wait::End(self.process.exception(vector, &self.user.regs));
                }
                UserExit::Interrupt => return Wait::Turn,
            }
        }
        Wait::Turn
    }

    /// Makes the call in the registers if it asks for nothing but a fact about the process: the shortest way there is.
    /// Counts the call, whatever it is.
    #[inline]
    fn fact(&mut self) -> bool {
        let number = self.user.regs.rax;
        self.counts.made(number);
        let fact = syscall::fact(Caller { process: self.process, thread: self.state }, number);
        fact.inspect(|value| self.user.regs.rax = *value).is_some()
    }

    /// Makes the call in the registers, which was counted and is no fact, if it need not wait.
    fn system_call(&mut self) -> Option<Wait> {
        let caller = Caller { process: self.process, thread: self.state };
        let number = self.user.regs.rax;
        if let Some(value) = syscall::at_once(caller, number, &self.user.regs) {
            self.user.regs.rax = value;
            return None;
        }
        match syscall::immediate(caller, number, &mut self.user.regs) {
            Some(Ok(value)) => self.user.regs.rax = value,
            Some(Err(Trouble::Errno(errno))) => self.user.regs.rax = errno.to_rax(),
            Some(Err(Trouble::Fetch(fetch))) => return Some(Wait::PageOfCall(fetch)),
            Some(Err(Trouble::OutOfMemory)) => {
                return Some(Wait::End(self.process.out_of_memory(self.user.regs.rip)));
            }
            Some(Err(Trouble::End(end))) => return Some(Wait::End(end)),
            None => return Some(Wait::Call),
        }
        None
    }

    async fn bring_page(&mut self, fetch: &Fetch) -> Option<End> {
        match self.process.fetch(fetch).await {
            Fetched::Ready => None,
            Fetched::Failed(signal, errno) => Some(self.process.bad_touch(signal, errno, &self.user.regs)),
            Fetched::OutOfMemory => Some(self.process.out_of_memory(self.user.regs.rip)),
        }
    }

    /// Brings the page, and rewinds the thread to its `syscall` instruction: nothing of the call was done.
    async fn bring_page_of_call(&mut self, fetch: &Fetch) -> Option<End> {
        match self.process.fetch(fetch).await {
            Fetched::Ready => {
                self.counts.undo(self.user.regs.rax);
                self.user.regs.rip = self.user.regs.rip.wrapping_sub(syscall::INSTRUCTION_BYTES);
                None
            }
            Fetched::Failed(..) => {
                self.user.regs.rax = Errno::EFAULT.to_rax();
                None
            }
            Fetched::OutOfMemory => Some(self.process.out_of_memory(self.user.regs.rip)),
        }
    }

    /// Makes a call that may wait. Its result comes into the registers when it is done, not before.
    async fn call(&mut self) -> Option<End> {
        let number = self.user.regs.rax;
        self.state.begin_call(number);
        let caller = Caller { process: self.process, thread: self.state };
        let result = match syscall::awaited(caller, number, Arguments::of(&self.user.regs)).await {
            Ok(value) => value,
            Err(Failure::Errno(errno)) => errno.to_rax(),
            Err(Failure::Unknown) => {
                if self.counts.unknown(number) && !EXPECTED_TO_BE_MISSING.contains(&number) {
                    self.process.unknown_call(number, self.user.regs.rip);
                }
                Errno::ENOSYS.to_rax()
            }
            Err(Failure::OutOfMemory) => return Some(self.process.out_of_memory(self.user.regs.rip)),
            Err(Failure::End(end)) => return Some(end),
        };
        self.state.end_call();
        self.user.regs.rax = result;
        None
    }
}

#[cfg(test)]
impl Thread<'_> {
    /// `rax` and `rip`.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.user.regs.rax, self.user.regs.rip)
    }

    /// Makes one call as the program would, to its end.
    pub(super) async fn make(&mut self, number: u64, arguments: [u64; 6]) -> Result<u64, End> {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let regs = &mut self.user.regs;
        // As the processor leaves them: behind the instruction.
        let after = regs.rip + syscall::INSTRUCTION_BYTES;
        (regs.rax, regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9, regs.rip) =
            (number, rdi, rsi, rdx, r10, r8, r9, after);
        loop {
            if !self.fact()
                && let Some(wait) = self.system_call()
                && let Some(end) = self.wait(wait).await
            {
                return Err(end);
            }
            if self.user.regs.rip == after {
                return Ok(self.user.regs.rax);
            }
            // It was rewound, so the program makes it again.
            assert_eq!((self.user.regs.rip, self.user.regs.rax), (after - syscall::INSTRUCTION_BYTES, number));
            self.user.regs.rip = after;
        }
    }
}
