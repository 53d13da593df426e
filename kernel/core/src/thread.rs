//! A thread's life: enter the program, handle why it came back, perhaps wait, enter again.
//!
//! Most of it happens in [`Thread::until_waiting`], which is an ordinary function: calls that need not wait, and faults
//! that need no I/O, are handled there without touching anything asynchronous. It returns only when the thread has to
//! wait, is interrupted, or is at its end. Long-running programs therefore return there at each interrupt, and calls
//! that take long are split or wait: nothing keeps the core for long.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use coppice_hal::paging::{Access, TableHandle};
use coppice_hal::user::{UserExit, UserThread};
use coppice_protocol::syscalls as nr;

use crate::abi::INSTRUCTION_BYTES;
use crate::errno::Errno;
use crate::executor::{self, Phase, Section, TASK_BYTES};
use crate::memory::{Fetch, Resolution};
use crate::process::counts::CoreCounts;
use crate::process::fetch::Fetched;
use crate::process::hold::Position;
use crate::process::signals::{Delivery, FaultContext, Restart};
use crate::process::{Caller, End, Immediate, Process, ThreadState, Trouble, Unfinished};
use crate::quota::Charge;
use crate::syscall::{self, Arguments, Futex, Memory};

mod clone;
mod debugged;
mod held;
mod life;
mod sampled;
mod signals;
#[cfg(test)]
mod testing;
mod traced;
mod waiting;

pub(crate) use life::{LIFE_BYTES, start, start_at};
use sampled::Sampling;
use signals::page_fault;
use traced::Tracing;

/// A thread that runs.
pub(crate) struct Thread {
    process: Arc<Process>,
    state: Arc<ThreadState>,
    /// Where calls are counted on this core.
    counts: Arc<CoreCounts>,
    user: UserThread,
    /// The process's page table.
    table: TableHandle,
    /// Its call was interrupted by a signal, and is made again or not.
    interrupted: Option<Restart>,
    /// What its task on another core is charged with, to which it is about to go.
    moves: Option<Charge>,
    /// It is traced.
    tracing: Option<Box<Tracing>>,
    /// When it is next looked where it is in its program, if somebody wants to know.
    sampling: Sampling,
    /// It is to be held, or was, outside of its program: where it goes on.
    held_at: Option<Position>,
}

/// What a thread waits for.
enum Wait {
    /// Others want the core, or an interrupt came and they may.
    Turn,
    /// It touched a page, as the processor said so.
    Page(Fetch, FaultContext),
    /// A signal has a handler to run. In a box, so that this much rarer wait does not make all others as large.
    Handler(Box<Delivery>),
    /// The process is stopped.
    Continue,
    /// It returns from a handler.
    Return,
    /// A call touched a page, and is to be made again when that is there.
    PageOfCall(Fetch),
    /// It makes a call that may wait.
    Call,
    /// A call has changed what is mapped, and the rest of it takes long.
    Rest(Unfinished),
    /// It is traced, and nobody takes what there is to say.
    Traced,
    /// It is held.
    Held,
    /// It sleeps at a word of memory, until this time of the monotonic clock, ns. If `always`, a signal's handler has
    /// the call made again.
    Sleep { until_ns: u64, always: bool },
    /// Nothing: it does not go on here.
    Over(Over),
}

impl Wait {
    /// What the time counts as, if that does not depend on the call that the thread makes.
    fn phase(&self) -> Option<Phase> {
        match self {
            Self::Turn => Some(Phase::Ready),
            Self::Page(..) | Self::PageOfCall(_) | Self::Rest(_) => Some(Phase::Page),
            Self::Continue | Self::Traced | Self::Held => Some(Phase::Other),
            Self::Handler(_) | Self::Return | Self::Call | Self::Sleep { .. } | Self::Over(_) => None,
        }
    }
}

/// Why a thread does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The process ends.
    Process(End),
    /// The thread ends, with this status.
    Thread(u64),
    /// It is to go on on this core.
    Move(usize),
}

impl Thread {
    /// One that is to run on this core.
    pub(crate) fn new(core: usize, process: Arc<Process>, state: Arc<ThreadState>, user: UserThread) -> Self {
        let counts = process.counts.on(core);
        let table = process.space.lock().table().handle();
        let sampling = Sampling::new(state.tid.into());
        Self {
            process,
            state,
            counts,
            user,
            table,
            interrupted: None,
            moves: None,
            tracing: None,
            sampling,
            held_at: None,
        }
    }

    /// Runs the thread to its end. May be dropped wherever it waits.
    async fn run(&mut self) -> Over {
        executor::section_is_none();
        // Whoever holds the process did not see a thread that was just made.
        if self.process.threads.hold.is_asked_of(self.state.tid) {
            self.state.leave_attention();
        }
        loop {
            let wait = match (&self.held_at, &self.tracing) {
                (Some(_), _) => Wait::Held,
                (None, None) if self.state.clock.is_measured() => self.until_waiting::<true>(),
                (None, None) => self.until_waiting::<false>(),
                (None, Some(_)) => self.until_waiting_traced(),
            };
            // Who only lets others go first, or sleeps, does nothing that could take long.
            let is_short = matches!(wait, Wait::Turn | Wait::Sleep { .. });
            if !is_short {
                executor::section_begins();
            }
            if let Some(over) = self.wait(wait).await {
                return over;
            }
            if is_short { executor::section_is_none() } else { executor::section_ends() }
        }
    }

    /// Waits, and does what there was to wait for. Gives the end, if this is it.
    #[expect(clippy::manual_async_fn, reason = "the future of an `async fn` has room for each argument twice")]
    fn wait(&mut self, wait: Wait) -> impl Future<Output = Option<Over>> + Send {
        async move {
            if let Some(phase) = wait.phase() {
                self.state.waits_for(phase);
            }
            match wait {
                Wait::Turn => {
                    executor::yield_now().await;
                    None
                }
                Wait::Page(ref fetch, context) => self.bring_page(fetch, context).await,
                Wait::Handler(delivery) => self.deliver(delivery).await,
                Wait::Continue => self.wait_until_continued().await,
                Wait::Return => self.return_from_handler().await,
                Wait::PageOfCall(ref fetch) => self.bring_page_of_call(fetch).await,
                Wait::Call => self.call().await,
                Wait::Rest(unfinished) => {
                    self.user.regs.rax = self.process.finish(unfinished).await;
                    None
                }
                Wait::Sleep { until_ns, always } => self.sleep(until_ns, always).await,
                // In a box: this much rarer wait does not make all others as large.
                Wait::Traced => {
                    Box::pin(self.say_what_is_left()).await;
                    None
                }
                Wait::Held => match self.be_held().await {
                    Position::Program => None,
                    Position::Call(pending) => self.call_again(pending).await,
                    Position::Asleep { until_ns, always } => self.sleep(until_ns, always).await,
                },
                Wait::Over(over) => Some(over),
            }
        }
    }

    /// Runs the program until it has to wait, or is to be `MEASURED`, or no longer.
    fn until_waiting<const MEASURED: bool>(&mut self) -> Wait {
        // A call may have woken somebody, who would otherwise wait for the next interrupt.
        while !executor::others_are_ready() {
            if self.state.has_attention() {
                if let Some(wait) = self.attend() {
                    return wait;
                }
                if self.state.clock.is_measured() != MEASURED {
                    return Wait::Turn;
                }
            }
            let exit = if MEASURED { self.enter_measured() } else { self.user.enter(&self.table) };
            if let Some(wait) = self.came_back(exit) {
                return wait;
            }
        }
        Wait::Turn
    }

    /// Enters the program, and notes how long it is there, and where, if it is time for that.
    fn enter_measured(&mut self) -> UserExit {
        let period_ns = self.process.profile.period_ns();
        let since_ns = self.state.clock.in_program(true);
        if period_ns > 0 {
            executor::come_back_at(since_ns.saturating_add(self.sampling.left_ns(period_ns)));
        }
        let exit = self.user.enter(&self.table);
        let until_ns = self.state.clock.in_program(false);
        let looks = if period_ns > 0 { self.sampling.due(period_ns, until_ns.saturating_sub(since_ns)) } else { 0 };
        if looks > 0 {
            self.note_where_it_is(looks);
        }
        exit
    }

    /// Does what the program came back for. Gives what there is to wait for.
    #[inline(always)]
    fn came_back(&mut self, exit: UserExit) -> Option<Wait> {
        match exit {
            UserExit::Syscall => {
                if self.fact() {
                    return None;
                }
                self.system_call()
            }
            UserExit::PageFault { address, write, execute, present } => {
                let access = if execute {
                    Access::EXECUTE
                } else if write {
                    Access::WRITE
                } else {
                    Access::READ
                };
                let section = Section::begin();
                let resolution = self.process.space.lock().fault(address, access);
                section.end();
                match resolution {
                    Resolution::Ready => None,
                    Resolution::Fetch(fetch) => Some(Wait::Page(fetch, page_fault(address, access, present))),
                    Resolution::Signal(signal) => {
                        let context = page_fault(address, access, present);
                        Some(self.bad_touch(signal, None, context))
                    }
                    Resolution::OutOfMemory => Some(Wait::Over(self.out_of_memory())),
                }
            }
            UserExit::Exception { vector, error } => Some(self.exception(vector, error)),
            UserExit::Interrupt => Some(Wait::Turn),
        }
    }

    /// Makes the call in the registers if it asks for nothing but a fact about the process: the shortest way there is.
    /// Counts the call, whatever it is.
    #[inline(always)]
    fn fact(&mut self) -> bool {
        let number = self.user.regs.rax;
        self.counts.made(number);
        let fact = syscall::fact(Caller { process: &self.process, thread: &self.state }, number);
        fact.inspect(|value| self.user.regs.rax = *value).is_some()
    }

    /// Makes the call in the registers, which was counted and is no fact, if it need not wait.
    #[inline(always)]
    fn system_call(&mut self) -> Option<Wait> {
        let caller = Caller { process: &self.process, thread: &self.state };
        let number = self.user.regs.rax;
        if let Some(value) = syscall::at_once(caller, number, &self.user.regs) {
            self.user.regs.rax = value;
            return None;
        }
        match u32::try_from(number) {
            Ok(nr::RT_SIGRETURN) => Some(Wait::Return),
            Ok(nr::EXIT) => Some(Wait::Over(Over::Thread(self.user.regs.rdi))),
            // What threads wait for each other with is to be quick.
            Ok(nr::FUTEX) => match syscall::futex(caller, &Arguments::of(&self.user.regs)) {
                Ok(Futex::Done(value)) => self.settle(Ok(value)),
                Ok(Futex::Sleeps { until_ns, always }) => Some(Wait::Sleep { until_ns, always }),
                Err(trouble) => self.face(trouble),
            },
            Ok(nr::CLONE) => match clone::clone(&self.process, &self.state, &mut self.user) {
                Some(result) => self.settle(result),
                None => self.immediate(number),
            },
            Ok(nr::MADVISE) if syscall::brings_pages(&Arguments::of(&self.user.regs)) => self.immediate(number),
            Ok(nr::BRK | nr::MMAP | nr::MUNMAP | nr::MPROTECT | nr::MREMAP | nr::MADVISE) => {
                let arguments = Arguments::of(&self.user.regs);
                let section = Section::begin();
                let result = syscall::change_memory(caller, number, &arguments);
                section.end();
                match result {
                    Ok(Memory::Done(value)) => self.settle(Ok(value)),
                    Ok(Memory::Unfinished(unfinished)) => Some(Wait::Rest(unfinished)),
                    Err(trouble) => self.face(trouble),
                }
            }
            _ => self.immediate(number),
        }
    }

    /// Makes the call if it is an immediate one.
    #[inline]
    fn immediate(&mut self, number: u64) -> Option<Wait> {
        let caller = Caller { process: &self.process, thread: &self.state };
        let section = Section::begin();
        let result = syscall::immediate(caller, number, &mut self.user.regs);
        section.end();
        match result {
            Some(result) => self.settle(result),
            None => Some(Wait::Call),
        }
    }

    /// Goes on after a call that was made without waiting.
    #[inline]
    fn settle(&mut self, result: Immediate) -> Option<Wait> {
        match result {
            Ok(value) => {
                self.user.regs.rax = value;
                None
            }
            Err(trouble) => self.face(trouble),
        }
    }

    /// Goes on after a call that had no result. Out of the way of those that have one: trouble is large.
    #[inline(never)]
    fn face(&mut self, trouble: Trouble) -> Option<Wait> {
        match trouble {
            Trouble::Errno(errno) => {
                self.user.regs.rax = errno.to_rax();
                None
            }
            Trouble::Fetch(fetch) => Some(Wait::PageOfCall(fetch)),
            Trouble::OutOfMemory => Some(Wait::Over(self.out_of_memory())),
            Trouble::End(end) => Some(Wait::Over(Over::Process(end))),
        }
    }

    /// Looks at what others changed.
    fn attend(&mut self) -> Option<Wait> {
        self.state.take_attention();
        if self.process.trace.is_on() != self.tracing.is_some() {
            self.follow_tracing();
            self.state.leave_attention();
            return Some(Wait::Turn);
        }
        self.notice_debugger();
        // What becomes of the call is to be known before the thread leaves its core.
        if self.interrupted.is_some()
            && let Some(wait) = self.next_signal()
        {
            self.state.leave_attention();
            return Some(wait);
        }
        if self.process.threads.hold.is_asked_of(self.state.tid) {
            self.state.leave_attention();
            return Some(Wait::Held);
        }
        let affinity = self.state.affinity.load(Ordering::Acquire);
        // Without memory for a task there it stays, until it looks again.
        if affinity & 1 << self.state.core() == 0
            && let Ok(charge) = self.state.charge(TASK_BYTES)
            && let Some(core) = self.process.threads.place_again(affinity)
        {
            self.moves = Some(charge);
            // The other core looks at the rest.
            self.state.leave_attention();
            return Some(Wait::Over(Over::Move(core)));
        }
        self.next_signal()
    }

    async fn bring_page(&mut self, fetch: &Fetch, context: FaultContext) -> Option<Over> {
        match self.process.fetch(fetch).await {
            Fetched::Ready => None,
            Fetched::Failed(signal, errno) => {
                let delivery = match self.bad_touch(signal, errno, context) {
                    Wait::Handler(delivery) => delivery,
                    Wait::Over(over) => return Some(over),
                    _ => return None,
                };
                self.deliver(delivery).await
            }
            Fetched::OutOfMemory => Some(self.out_of_memory()),
        }
    }

    fn out_of_memory(&self) -> Over {
        Over::Process(self.process.out_of_memory(self.user.regs.rip))
    }

    /// Brings the page, and rewinds the thread to its `syscall` instruction: nothing of the call was done.
    async fn bring_page_of_call(&mut self, fetch: &Fetch) -> Option<Over> {
        match self.process.fetch(fetch).await {
            Fetched::Ready => {
                self.counts.undo(self.user.regs.rax);
                self.user.regs.rip = self.user.regs.rip.wrapping_sub(INSTRUCTION_BYTES);
                None
            }
            Fetched::Failed(..) => {
                self.user.regs.rax = Errno::EFAULT.to_rax();
                None
            }
            Fetched::OutOfMemory => Some(self.out_of_memory()),
        }
    }
}
