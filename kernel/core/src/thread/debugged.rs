//! A thread of a process that is debugged: where it stops, and what becomes of its signals
//! ([`crate::process::debugger`]).

use coppice_hal::user::{DEBUG_STEP, vector};
use coppice_protocol::inspect::debug::Why;

use super::{Thread, Wait};
use crate::process::debugger::Verdict;

/// The trap flag: every instruction ends in a debug exception.
const TRAP_FLAG: u64 = 1 << 8;

impl Thread {
    /// Stops where the debugger wants it to, if one has come, and nowhere, if it has gone.
    pub(super) fn notice_debugger(&mut self) {
        if self.process.threads.hold.debugger.is_there() != self.user.breakpoints().is_some() {
            self.follow_debugger();
        }
    }

    /// Stops where the debugger wants it to from now on, or nowhere.
    pub(super) fn follow_debugger(&mut self) {
        let (breakpoints, steps) = self.process.threads.hold.debugger.wants_of(self.state.tid);
        self.end_step();
        self.user.set_breakpoints(breakpoints);
        if steps {
            self.user.regs.rflags |= TRAP_FLAG;
            self.user.restore_all();
        }
    }

    /// Makes no step, if it was to make one.
    pub(super) fn end_step(&mut self) {
        if self.user.breakpoints().is_some() {
            self.user.regs.rflags &= !TRAP_FLAG;
        }
    }

    /// An exception that the debugger has wanted. Gives what there is to wait for then.
    pub(super) fn exception_of_debugger(&mut self, vector: u8, error: u64) -> Option<Wait> {
        let breakpoints = *self.user.breakpoints()?;
        let debugger = &self.process.threads.hold.debugger;
        let before = self.user.regs.rip.wrapping_sub(1);
        let why = match vector {
            vector::BREAKPOINT if debugger.is_planted(before) => {
                self.user.regs.rip = before;
                Why::Breakpoint
            }
            vector::DEBUG if error & DEBUG_STEP == 0 => debugger.met(&breakpoints, error)?,
            vector::DEBUG => debugger.met(&breakpoints, error).unwrap_or(Why::Step),
            _ => return None,
        };
        self.end_step();
        if !self.process.stops(self.state.tid, why) {
            // It has just gone.
            self.user.set_breakpoints(None);
        }
        Some(Wait::Turn)
    }

    /// Whether the debugger is to hear first of a signal for what the thread did, which happens again when it goes on.
    pub(super) fn stops_for_fault(&self, signal: u32) -> bool {
        let debugger = &self.process.threads.hold.debugger;
        let Some(signal) = u8::try_from(signal).ok().filter(|_| debugger.is_there()) else { return false };
        debugger.verdict(self.state.tid, signal) != Verdict::Deliver
            && self.process.stops(self.state.tid, Why::Signal(signal))
    }

    /// Whether the thread's next signal waits for what the debugger says of it.
    pub(super) fn signal_waits(&self) -> bool {
        let (debugger, tid) = (&self.process.threads.hold.debugger, self.state.tid);
        while debugger.is_there() {
            let upcoming = self.process.signals.lock().upcoming(tid).and_then(|signal| u8::try_from(signal).ok());
            let Some(signal) = upcoming else { return false };
            match debugger.verdict(tid, signal) {
                Verdict::Tell => return self.process.stops_for_signal(tid, signal),
                Verdict::Wait => return true,
                Verdict::Deliver => return false,
                Verdict::Forget => {
                    let _ = self.process.signals.lock().next(tid);
                }
            }
        }
        false
    }
}
