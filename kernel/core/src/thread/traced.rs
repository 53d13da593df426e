//! A thread of a process that is traced: it makes one call after the other as any thread does, and says of each what it
//! was and what came of it ([`crate::process::trace`]).

use alloc::boxed::Box;

use coppice_hal::user::UserExit;
use coppice_protocol::trace::{CallRecord, Event, Outcome, RECORD_BYTES_MAX, Record};

use super::{Thread, Wait};
use crate::clock;
use crate::executor;
use crate::process::signals::{Delivery, Restart};
use crate::process::trace::record_of;
use crate::quota::Charge;
use crate::syscall::Arguments;

/// What a thread that is traced has more than others.
pub(super) struct Tracing {
    /// The call that it makes.
    call: Option<Made>,
    /// What there was no place for.
    left: Option<Record>,
    /// For that. Without it, nothing of what calls are about is said.
    charge: Option<Charge>,
}

/// A call that is made.
#[derive(Clone, Copy)]
struct Made {
    number: u64,
    arguments: Arguments,
    begun_ns: u64,
}

/// Errors are the numbers from here on.
const FIRST_ERROR: u64 = 4096_u64.wrapping_neg();

impl Thread {
    /// Begins or ends to say what it does, as its process says.
    pub(super) fn follow_tracing(&mut self) {
        self.tracing = self.process.trace.is_on().then(|| {
            let charge = self.state.charge(RECORD_BYTES_MAX).ok();
            Box::new(Tracing { call: None, left: None, charge })
        });
    }

    /// As [`Self::until_waiting`], for a thread that is traced.
    pub(super) fn until_waiting_traced(&mut self) -> Wait {
        loop {
            if !self.say_what_came_of_it() && !self.process.threads.hold.is_asked_of(self.state.tid) {
                return Wait::Traced;
            }
            if executor::others_are_ready() {
                return Wait::Turn;
            }
            if self.state.has_attention()
                && let Some(wait) = self.attend()
            {
                return wait;
            }
            let exit =
                if self.state.clock.is_measured() { self.enter_measured() } else { self.user.enter(&self.table) };
            let is_call = matches!(exit, UserExit::Syscall);
            if is_call && let Some(tracing) = &mut self.tracing {
                let (number, arguments) = (self.user.regs.rax, Arguments::of(&self.user.regs));
                tracing.call = Some(Made { number, arguments, begun_ns: clock::monotonic_ns() });
            }
            let Some(wait) = self.came_back(exit) else { continue };
            if is_call {
                self.say_that_it_waits(&wait);
            }
            return wait;
        }
    }

    /// The call in the registers is not done.
    fn say_that_it_waits(&mut self, wait: &Wait) {
        let Some(tracing) = &mut self.tracing else { return };
        let Some(made) = tracing.call else { return };
        match wait {
            // It is made again from the beginning.
            Wait::PageOfCall(_) => tracing.call = None,
            Wait::Over(_) => {
                tracing.call = None;
                let call = self.record_of(made, None);
                let took_ns = clock::monotonic_ns().saturating_sub(made.begun_ns);
                self.process.trace.add(self.state.tid, Event::Called { call, took_ns, outcome: Outcome::Gone });
            }
            Wait::Call | Wait::Sleep { .. } => {
                let mut call = self.record_of(made, None);
                // It is all said again when the call is over.
                if self.process.trace.is_full() {
                    call.excerpts.clear();
                }
                self.process.trace.add(self.state.tid, Event::Waits(call));
            }
            _ => {}
        }
    }

    /// Says what came of the call that it made last, if it did not yet. False: there is no place for that now.
    fn say_what_came_of_it(&mut self) -> bool {
        let Some(tracing) = &mut self.tracing else { return true };
        if tracing.left.is_some() {
            return false;
        }
        let Some(made) = tracing.call.take() else { return true };
        let outcome = match self.interrupted {
            Some(restart) => Outcome::Interrupted { again: restart == Restart::Always },
            None => Outcome::Result(self.user.regs.rax),
        };
        let result = match outcome {
            Outcome::Result(result) => Some(result).filter(|result| *result < FIRST_ERROR),
            Outcome::Interrupted { .. } | Outcome::Gone => None,
        };
        let call = self.record_of(made, result);
        let took_ns = clock::monotonic_ns().saturating_sub(made.begun_ns);
        let offered = self.process.trace.offer(self.state.tid, Event::Called { call, took_ns, outcome });
        let Some(tracing) = &mut self.tracing else { return true };
        tracing.left = offered.err();
        tracing.left.is_none()
    }

    fn record_of(&self, made: Made, result: Option<u64>) -> CallRecord {
        let has_room = self.tracing.as_ref().is_some_and(|tracing| tracing.charge.is_some());
        let space = has_room.then_some(&self.process.space);
        record_of(space, made.number, made.arguments.all(), result)
    }

    /// Waits until there is a place for what there was none for.
    pub(super) async fn say_what_is_left(&mut self) {
        let Some(tracing) = &mut self.tracing else { return };
        let Some(record) = tracing.left.take() else { return };
        let (hold, tid) = (&self.process.threads.hold, self.state.tid);
        if !self.process.trace.accept(&record, || hold.is_asked_of(tid)).await {
            tracing.left = Some(record);
        }
    }

    /// A handler is about to run.
    pub(super) fn say_signal(&mut self, delivery: &Delivery) {
        if self.tracing.is_some() {
            let info = &delivery.info;
            let event = Event::Signal { signal: info.signal, code: info.code, fields: info.first_fields() };
            let offered = self.process.trace.offer(self.state.tid, event);
            // What came of the call before it was said before it: the place is free, but for a handler whose frame
            // could not be made and another one in its stead.
            match (offered, &mut self.tracing) {
                (Err(record), Some(tracing)) if tracing.left.is_none() => tracing.left = Some(record),
                (Err(record), _) => self.process.trace.add(self.state.tid, record.event),
                (Ok(()), _) => {}
            }
        }
    }
}
