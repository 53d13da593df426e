//! Signals: what a program set for them, where they wait, and how a thread gets to its handlers.
//!
//! A signal is sent by another task than the thread that takes it, often on another core. So sending ([`send`])
//! changes nothing but what is pending ([`state`], a state machine under one lock for the whole process), and calls a
//! thread's attention. The thread looks at its signals before it enters the program, and when it was brought back from
//! it; then a frame is put on its stack ([`frame`]) and it goes on in the handler. A thread that waits in a call looks,
//! too, if the call is one that signals interrupt ([`interrupt`]): either the call's result or the signal comes first,
//! and a call that a signal interrupted has had no effect and is made again or fails with `EINTR`.
//!
//! While a process is stopped, no thread of it enters the program. A signal that ends a process does so at once,
//! wherever its threads are.

pub(crate) mod frame;
mod interrupt;
mod outcome;
mod pending;
mod send;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use interrupt::{Patience, Restart};
pub(crate) use outcome::{Delivery, Next, Outcome, Target};
pub(crate) use state::record::SignalsRecord;
pub(crate) use state::{FaultContext, PAGE_FAULT, Signals};
