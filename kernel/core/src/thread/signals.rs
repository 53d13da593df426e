//! A thread and its signals: handlers it goes to and returns from, faults, and being stopped.

use alloc::boxed::Box;
use alloc::vec;
use core::future::poll_fn;
use core::task::Poll;

use coppice_hal::addr::USER_END;
use coppice_hal::paging::Access;
use coppice_hal::user::{extended, vector};

use super::{Over, Thread, Wait};
use crate::abi::INSTRUCTION_BYTES;
use crate::abi::signal::{SignalAction, SignalInfo};
use crate::errno::Errno;
use crate::memory;
use crate::process::signals::frame::{self, FRAME_BYTES, Frame, LEGACY_ONLY, Return};
use crate::process::signals::{Delivery, FaultContext, Next, PAGE_FAULT, Restart, Target};
use crate::process::{Caller, End, Failure};
use crate::syscall::check_stack;

/// What the processor says of a page fault.
pub(super) fn page_fault(address: u64, access: Access, present: bool) -> FaultContext {
    /// By the program, not by the kernel.
    const BY_PROGRAM: u64 = 1 << 2;
    let kind = match access {
        Access::EXECUTE => 1 << 4,
        Access::WRITE => 1 << 1,
        _ => 0,
    };
    // As on Linux, the kernel's pages look as if they were there, all of them.
    let present = present || address >= USER_END;
    FaultContext { vector: PAGE_FAULT, error: BY_PROGRAM | kind | u64::from(present), address }
}

impl Thread {
    /// What the thread has to do because of its signals before it goes on.
    pub(super) fn next_signal(&mut self) -> Option<Wait> {
        if self.signal_waits() || self.signal_waits_for_core() {
            return None;
        }
        let next = self.process.signals.lock().next(self.state.tid);
        match next {
            Next::Handler(delivery) => {
                Some(Wait::Handler(Box::new(self.process.timers.noticed(&self.process, delivery))))
            }
            Next::End(signal) => Some(Wait::Over(Over::Process(End::signal(signal as u8)))),
            Next::Stop { since_now } => {
                if since_now {
                    self.process.call_all();
                }
                self.state.leave_attention();
                Some(Wait::Continue)
            }
            Next::Nothing => {
                if self.interrupted.take().is_some() {
                    self.make_call_again();
                }
                None
            }
        }
    }

    /// Whether the process is to stand for a core file before the thread's next signal ends it.
    fn signal_waits_for_core(&self) -> bool {
        let ends = || self.process.signals.lock().upcoming_core(self.state.tid);
        self.process.identity.core_file && ends().is_some_and(|info| self.process.stands_for_core(self.state.tid, info))
    }

    /// Whether it is to stand before what the thread did ends it; the thread does it again then.
    fn fault_waits_for_core(&self, info: SignalInfo) -> bool {
        self.process.identity.core_file
            && self.process.signals.lock().fault_ends(self.state.tid, info.signal)
            && self.process.stands_for_core(self.state.tid, info)
    }

    /// The same of what happened behind an instruction, and does not happen again: it becomes a signal that was sent.
    fn trap_waits_for_core(&self, info: SignalInfo) -> bool {
        self.process.identity.core_file
            && self.process.signals.lock().ends_when_sent(self.state.tid, info.signal)
            && self.process.send(Target::Thread(self.state.tid), info).is_ok()
    }

    /// The thread is behind the instruction of a call that has had no effect.
    fn make_call_again(&mut self) {
        self.counts.undo(self.user.regs.rax);
        self.user.regs.rip = self.user.regs.rip.wrapping_sub(INSTRUCTION_BYTES);
    }

    /// Waits until the process is no longer stopped.
    pub(super) async fn wait_until_continued(&mut self) -> Option<Over> {
        let hold = &self.process.threads.hold;
        let is_stopped = || !hold.is_asked_of(self.state.tid) && self.process.signals.lock().is_stopped();
        poll_fn(|_| if is_stopped() { Poll::Pending } else { Poll::Ready(()) }).await;
        None
    }

    /// Goes on in a handler.
    pub(super) async fn deliver(&mut self, mut delivery: Box<Delivery>) -> Option<Over> {
        self.say_signal(&delivery);
        self.state.deeds.signal();
        match self.interrupted.take() {
            Some(Restart::Always) => self.make_call_again(),
            Some(Restart::IfAsked) if delivery.action.flags & SignalAction::RESTART != 0 => self.make_call_again(),
            Some(_) => self.user.regs.rax = Errno::EINTR.to_rax(),
            None => {}
        }
        loop {
            match self.try_to_enter(&delivery).await {
                Ok(()) => return None,
                Err(Some(over)) => return Some(over),
                Err(None) => {}
            }
            let (tid, signal) = (self.state.tid, delivery.info.signal);
            let instead = self.process.signals.lock().bad_frame(tid, signal);
            match instead {
                Some(instead) => *delivery = instead,
                None => return Some(Over::Process(self.process.no_frame(&self.user.regs))),
            }
        }
    }

    /// Puts the frame of a handler on its stack, and goes to the handler.
    ///
    /// # Errors
    /// There is no room for the frame where it has to go, or no memory at all.
    async fn try_to_enter(&mut self, delivery: &Delivery) -> Result<(), Option<Over>> {
        let context = self.process.signals.lock().context(self.state.tid);
        // In a box, as this short wait is not to make all others as large.
        let frame = Box::new(Frame::new(&mut self.user, delivery, &context).map_err(|_| None)?);
        let caller = Caller { process: &self.process, thread: &self.state };
        for (address, bytes) in [(frame.vector_address, &frame.vector[..]), (frame.address, &frame.bytes)] {
            match caller.write(address, bytes).await {
                Ok(()) => {}
                Err(Failure::OutOfMemory) => return Err(Some(self.out_of_memory())),
                Err(_) => return Err(None),
            }
        }
        frame::enter(&mut self.user, delivery, frame.address);
        let called = self.process.signals.lock().enter(self.state.tid, delivery);
        self.process.call_threads(called);
        Ok(())
    }

    /// Makes the thread what the frame on its stack says it was before the handler ran.
    pub(super) async fn return_from_handler(&mut self) -> Option<Over> {
        match self.try_to_return().await {
            Ok(()) => None,
            Err(Failure::OutOfMemory) => Some(self.out_of_memory()),
            Err(_) => {
                let tid = self.state.tid;
                let instead = self.process.signals.lock().bad_frame(tid, 0);
                match instead {
                    Some(delivery) => self.deliver(Box::new(delivery)).await,
                    None => Some(Over::Process(self.process.no_frame(&self.user.regs))),
                }
            }
        }
    }

    /// # Errors
    /// `EFAULT`, `EINVAL`: there is no frame, or none of a thread as there can be.
    async fn try_to_return(&mut self) -> Result<(), Failure> {
        let caller = Caller { process: &self.process, thread: &self.state };
        // The handler's return took the first word.
        let frame = {
            let bytes: [u8; FRAME_BYTES] = caller.read_array(self.user.regs.rsp.wrapping_sub(8)).await?;
            Return::parse(&bytes, &self.user.regs).map_err(|_| Errno::EINVAL)?
        };
        if frame.vector_address == 0 {
            self.user.reset_vector();
        } else {
            let mut vector = vec![0; extended::LEGACY_BYTES];
            caller.read(frame.vector_address, &mut vector).await?;
            let mut length = vector.first_chunk().map_or(LEGACY_ONLY, frame::vector_bytes);
            if length > LEGACY_ONLY {
                vector.resize(length, 0);
                if caller.read(frame.vector_address, &mut vector).await.is_err() {
                    length = LEGACY_ONLY;
                }
            }
            frame::restore_vector(&mut self.user, &vector[..length]).map_err(|_| Errno::EINVAL)?;
        }
        frame.restore(&mut self.user);
        let called = {
            let mut signals = self.process.signals.lock();
            let stack = signals.stack(self.state.tid);
            if let Ok(restored) = check_stack(frame.stack)
                && !stack.is_used(self.user.regs.rsp)
            {
                signals.set_stack(self.state.tid, restored);
            }
            signals.set_blocked(self.state.tid, frame.mask)
        };
        self.process.call_threads(called);
        Ok(())
    }

    /// The program touched memory that it may not touch so; `error` says why the page could not be had, if it exists.
    pub(super) fn bad_touch(&mut self, signal: memory::Signal, error: Option<Errno>, context: FaultContext) -> Wait {
        let info = SignalInfo::fault(signal.number.into(), signal.code, signal.address);
        if self.stops_for_fault(info.signal) || self.fault_waits_for_core(info) {
            return Wait::Turn;
        }
        let handled = self.process.signals.lock().fault(self.state.tid, info, context);
        match handled {
            Some(delivery) => Wait::Handler(Box::new(delivery)),
            None => Wait::Over(Over::Process(self.process.bad_touch(signal, error, &self.user.regs))),
        }
    }

    /// The program did what the processor does not do.
    pub(super) fn exception(&mut self, vector: u8, error: u64) -> Wait {
        if let Some(wait) = self.exception_of_debugger(vector, error) {
            return wait;
        }
        let (vector, error) = if self.is_at_int1(vector) {
            self.user.regs.rip += 1;
            (vector::DEBUG, 0)
        } else {
            (vector, error)
        };
        let (info, context) = crate::process::fault::explain(vector, error, &mut self.user);
        let waits = match vector {
            vector::DEBUG | vector::BREAKPOINT => self.stops_for_fault(info.signal) || self.trap_waits_for_core(info),
            _ => self.stops_for_fault(info.signal) || self.fault_waits_for_core(info),
        };
        if waits {
            return Wait::Turn;
        }
        let handled = self.process.signals.lock().fault(self.state.tid, info, context);
        match handled {
            Some(delivery) => Wait::Handler(Box::new(delivery)),
            None => Wait::Over(Over::Process(self.process.exception(vector, &self.user.regs))),
        }
    }

    /// Whether an exception is what QEMU's translator makes of the instruction `int1`: it does not know that, and calls
    /// it invalid. A processor ends it, and raises the debug exception.
    fn is_at_int1(&self, vector: u8) -> bool {
        const INT1: u8 = 0xf1;
        vector == vector::INVALID_OPCODE
            && self.process.space.lock().read_array(self.user.regs.rip).is_ok_and(|bytes| bytes == [INT1])
    }
}
