//! What a debugger has a held process do, and what it is told of: see [`super::held`] for how it is held.
//!
//! [`super::Question::Go`] lets the process go on until one of its threads comes to where the debugger is to hear of
//! it; then all of them stand, and [`super::Question::Stop`] is answered with that. As long as it goes on, each
//! question keeps the debugger at it as it keeps it held. When nobody asks any more, or it is told to let go
//! ([`super::Question::Release`]), the process is debugged no longer.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::held::REGISTERS;
use crate::text::ByteString;

/// Breakpoints that a processor has.
pub const BREAKPOINTS: usize = 4;

/// Breakpoints in the program's instructions that a process has at once.
pub const PLANTED_MAX: usize = 128;

/// What a breakpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BreakOn {
    /// The instruction there is about to be executed.
    Execute,
    /// Something was written there.
    Write,
    /// Something was written or read there.
    Access,
}

/// Where threads are to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakAt {
    /// The address, a multiple of the length.
    pub address: u64,
    /// What for.
    pub on: BreakOn,
    /// How many bytes: 1, 2, 4 or 8; of instructions, 1.
    pub length: u8,
}

/// How a process goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// The only thread that goes on; `None`: all do.
    pub only: Option<u32>,
    /// The thread that makes one step.
    pub step: Option<u32>,
    /// The thread that gets the signal that it was stopped for. All others that were are not to get theirs.
    pub signal: Option<u32>,
    /// Where threads stop, by the processor's own means.
    pub breakpoints: [Option<BreakAt>; BREAKPOINTS],
    /// Instructions that they stop at, up to [`PLANTED_MAX`]: each is another one while the process goes on, and what
    /// it was when it stands, or is debugged no longer.
    pub planted: Vec<u64>,
}

/// What a thread has stopped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// A signal is to be delivered to it.
    Signal(u8),
    /// It has made a step.
    Step,
    /// It is at a breakpoint.
    Breakpoint,
    /// It has written or read what it is to be stopped for.
    Touched(BreakAt),
}

/// All threads stand, for what one of them did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The thread.
    pub tid: u32,
    /// What it did.
    pub why: Why,
}

/// What a thread of a held process is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetThread {
    /// The thread.
    pub tid: u32,
    /// As in [`super::held::HeldThread::registers`].
    pub registers: [u64; REGISTERS],
    /// It is in the call that it was held in, whose number is in `rax`. If not, it is in its program.
    pub in_call: bool,
    /// As in [`super::held::HeldThread::vector`].
    pub vector: ByteString,
}
