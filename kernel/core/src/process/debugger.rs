//! A debugger at a process: where its threads stop, and what it is told of.
//!
//! It is there as long as somebody who has the process held ([`super::lease`]) keeps asking, also while the process
//! goes on. When a thread comes to where the debugger is to hear of it, it says so ([`Process::stops`]): all threads
//! are held then, and the debugger may look and say how they go on ([`Process::go`]). What happens to others until
//! they stand happens again when they go on, as nothing of it was done: they are before the instruction at a
//! breakpoint, or that was at fault, and their signals wait. Only what one has written or read is kept to be told
//! next.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::user::{BreakOn, Breakpoint, Breakpoints};
use coppice_protocol::inspect::debug::{self, BREAKPOINTS, BreakAt, Go, Stop, Why};
use coppice_protocol::inspect::held::NotTold;

use super::Process;
use super::hold::PendingCall;
use crate::limits::THREADS_MAX;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{LockLevel, Mutex};

/// A debugger, if there is one.
pub(crate) struct Debugger {
    is_there: AtomicBool,
    wants: Mutex<Wants>,
}

/// What it wants, and what it has been told.
#[derive(Default)]
struct Wants {
    breakpoints: Arc<Breakpoints>,
    /// The same, as it said them.
    said: [Option<BreakAt>; BREAKPOINTS],
    /// Instructions that are others while the process goes on: where, and what each begins with.
    planted: Vec<(u64, u8)>,
    /// The thread that makes one step.
    step: Option<u32>,
    /// What the process has stopped for.
    stop: Option<Stop>,
    /// What others did meanwhile that will not happen again.
    next: Vec<Stop>,
    /// Signals that threads were stopped for.
    signals: BTreeMap<u32, Told>,
    /// Calls of threads that are to be in their programs instead, for a time.
    aside: BTreeMap<u32, PendingCall>,
}

/// A signal that a thread was stopped for.
#[derive(Clone, Copy)]
struct Told {
    signal: u8,
    /// It waits to be delivered; if not, what it was sent for happens again.
    waits: bool,
    /// Whether the thread is to get it, once that is decided.
    delivers: Option<bool>,
}

/// What becomes of a signal that is about to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The debugger is to hear of it first.
    Tell,
    /// It has heard, and has not decided.
    Wait,
    /// It is delivered.
    Deliver,
    /// It is forgotten.
    Forget,
}

/// As the processor has it.
fn breakpoint(at: BreakAt) -> Result<Breakpoint, NotTold> {
    let on = match at.on {
        debug::BreakOn::Execute => BreakOn::Execute,
        debug::BreakOn::Write => BreakOn::Write,
        debug::BreakOn::Access => BreakOn::Access,
    };
    Breakpoint::new(at.address, on, at.length).ok_or(NotTold::Refused)
}

impl Debugger {
    /// None.
    pub(super) fn none() -> Self {
        Self { is_there: AtomicBool::new(false), wants: Mutex::new(LockLevel::Fact, Wants::default()) }
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    /// It is there no more. What it has planted is still to be made what it was.
    pub(crate) fn leave(&self) {
        self.is_there.store(false, Ordering::Release);
        let mut wants = self.wants.lock();
        let planted = core::mem::take(&mut wants.planted);
        let left = core::mem::replace(&mut *wants, Wants { planted, ..Wants::default() });
        drop(wants);
        drop(left);
    }

    /// Where a thread is to stop, and whether it is to make one step only.
    pub(crate) fn wants_of(&self, tid: u32) -> (Option<Arc<Breakpoints>>, bool) {
        if !self.is_there() {
            return (None, false);
        }
        let wants = self.wants.lock();
        (Some(Arc::clone(&wants.breakpoints)), wants.step == Some(tid))
    }

    /// What a thread that came back at a breakpoint with this error has stopped for.
    pub(crate) fn met(&self, breakpoints: &Breakpoints, error: u64) -> Option<Why> {
        let (number, met) = breakpoints.met(error)?;
        let said = self.wants.lock().said.get(number).copied().flatten();
        match (met.on(), said) {
            (BreakOn::Write | BreakOn::Access, Some(said)) => Some(Why::Touched(said)),
            _ => Some(Why::Breakpoint),
        }
    }

    /// Notes an instruction that was made another, and began with that.
    pub(crate) fn planted(&self, at: u64, began: u8) {
        self.is_there.store(true, Ordering::Release);
        self.wants.lock().planted.push((at, began));
    }

    /// One that is still to be made what it was.
    pub(crate) fn first_planted(&self) -> Option<(u64, u8)> {
        self.wants.lock().planted.last().copied()
    }

    /// It is, or cannot be.
    pub(crate) fn is_unplanted(&self, at: u64) {
        self.wants.lock().planted.retain(|(address, _)| *address != at);
    }

    /// Whether the instruction there is another one.
    pub(crate) fn is_planted(&self, at: u64) -> bool {
        self.wants.lock().planted.iter().any(|(address, _)| *address == at)
    }

    /// What becomes of a signal that is to be delivered to a thread. That it is delivered or forgotten is said once.
    pub(crate) fn verdict(&self, tid: u32, signal: u8) -> Verdict {
        let mut wants = self.wants.lock();
        let Some(told) = wants.signals.get(&tid).filter(|told| told.signal == signal) else { return Verdict::Tell };
        let Some(delivers) = told.delivers else { return Verdict::Wait };
        wants.signals.remove(&tid);
        if delivers { Verdict::Deliver } else { Verdict::Forget }
    }

    /// Takes note of what a thread did. `None`: the debugger is not there; otherwise, whether the process is to stand
    /// for it, and does not yet.
    fn take(&self, stop: Stop, waits: bool) -> Option<bool> {
        if !self.is_there() {
            return None;
        }
        let mut wants = self.wants.lock();
        if wants.stop.is_some() {
            if matches!(stop.why, Why::Touched(_)) && wants.next.len() < THREADS_MAX {
                wants.next.push(stop);
            }
            return Some(false);
        }
        if let Why::Signal(signal) = stop.why {
            wants.signals.insert(stop.tid, Told { signal, waits, delivers: None });
        }
        wants.stop = Some(stop);
        Some(true)
    }

    /// Lays the call aside that a thread is in, or gives it back.
    pub(crate) fn set_aside(&self, tid: u32, call: Option<PendingCall>) -> Option<PendingCall> {
        let mut wants = self.wants.lock();
        match call {
            Some(call) => wants.aside.insert(tid, call),
            None => wants.aside.remove(&tid),
        }
    }

    /// What the process has stopped for, if it has.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.wants.lock().stop
    }
}

impl Process {
    /// Lets the threads go on as a debugger says, who has them held.
    ///
    /// # Errors
    /// [`NotTold`]: they are not held, or cannot go on so.
    pub(crate) fn go(&self, go: &Go) -> Result<(), NotTold> {
        let hold = &self.threads.hold;
        let mut breakpoints = [None; BREAKPOINTS];
        for (slot, at) in breakpoints.iter_mut().zip(go.breakpoints) {
            *slot = at.map(breakpoint).transpose()?;
        }
        let breakpoints = Arc::new(Breakpoints::new(breakpoints));
        if let Some(only) = go.only
            && self.threads.find(only).is_none()
        {
            return Err(NotTold::Refused);
        }
        let debugger = &hold.debugger;
        {
            let mut wants = debugger.wants.lock();
            debugger.is_there.store(true, Ordering::Release);
            wants.signals.retain(|tid, told| {
                let delivers = *told.delivers.get_or_insert(go.signal == Some(*tid));
                delivers || told.waits
            });
            (wants.breakpoints, wants.said, wants.step) = (breakpoints, go.breakpoints, go.step);
            // What was done while others stopped is told first.
            wants.stop = if wants.next.is_empty() { None } else { Some(wants.next.remove(0)) };
            if wants.stop.is_some() {
                return Ok(());
            }
        }
        self.signals.lock().debugged(true);
        if self.lease_lets_go(go.only) { Ok(()) } else { Err(NotTold::NotHeld) }
    }

    /// A thread has come to where a debugger is to hear of it: all of them are held, this one when it looks next.
    /// Not so, if there is no debugger.
    pub(crate) fn stops(&self, tid: u32, why: Why) -> bool {
        self.stand(Stop { tid, why }, false)
    }

    /// The same of a thread that a signal waits for.
    pub(crate) fn stops_for_signal(&self, tid: u32, signal: u8) -> bool {
        self.stand(Stop { tid, why: Why::Signal(signal) }, true)
    }

    fn stand(&self, stop: Stop, waits: bool) -> bool {
        let debugger = &self.threads.hold.debugger;
        match debugger.take(stop, waits) {
            None => false,
            Some(false) => true,
            Some(true) => {
                self.lease_holds();
                true
            }
        }
    }
}
