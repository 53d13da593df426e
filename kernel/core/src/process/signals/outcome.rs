//! What comes of signals: whom they are for, and what is to be done about them.

use serde::{Deserialize, Serialize};

use crate::abi::signal::{SignalAction, SignalInfo};

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Target {
    /// Any thread of the process that does not block it.
    Process,
    /// One thread.
    Thread(u32),
}

/// What is to be done about a signal that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing: it waits to be unblocked, or is pending already.
    Nothing,
    /// Nothing, for it is ignored.
    Ignored,
    /// A thread is to look at its signals.
    Call(u32),
    /// All threads are to look at their signals.
    CallAll,
    /// The process is at its end, by this signal.
    End(u32),
}

/// A signal on its way to its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// What it says.
    pub(crate) info: SignalInfo,
    /// What was set for it when it was taken.
    pub(crate) action: SignalAction,
}

/// What a thread has to do next because of its signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Nothing,
    /// Run a handler.
    Handler(Delivery),
    /// The process is stopped; if it is since this moment, all threads are to look at their signals.
    Stop { since_now: bool },
    /// The process is at its end, by this signal.
    End(u32),
}
