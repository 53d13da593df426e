//! [`crate::inspect::debug`] as it is in JSON.

use utoipa::ToSchema;

use super::Text;

/// What a breakpoint is for.
#[derive(Debug, ToSchema)]
pub enum BreakOn {
    /// The instruction there is about to be executed.
    Execute,
    /// Something was written there.
    Write,
    /// Something was written or read there.
    Access,
}

/// Where threads are to stop.
#[derive(Debug, ToSchema)]
pub struct BreakAt {
    /// The address, a multiple of the length.
    pub address: u64,
    /// What for.
    pub on: BreakOn,
    /// How many bytes: 1, 2, 4 or 8; of instructions, 1.
    pub length: u8,
}

/// How a process goes on.
#[derive(Debug, ToSchema)]
pub struct Go {
    /// The only thread that goes on; nothing: all do.
    pub only: Option<u32>,
    /// The thread that makes one step.
    pub step: Option<u32>,
    /// The thread that gets the signal that it was stopped for. All others that were are not to get theirs.
    pub signal: Option<u32>,
    /// Where threads stop, by the processor's own means.
    pub breakpoints: [Option<BreakAt>; 4],
    /// Instructions that they stop at, 128 at most.
    pub planted: Vec<u64>,
}

/// What a thread has stopped for.
#[derive(Debug, ToSchema)]
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
#[derive(Debug, ToSchema)]
pub struct Stop {
    /// The thread.
    pub tid: u32,
    /// What it did.
    pub why: Why,
}

/// What a thread of a held process is to be.
#[derive(Debug, ToSchema)]
pub struct SetThread {
    /// The thread.
    pub tid: u32,
    /// As in `HeldThread`.
    pub registers: [u64; 20],
    /// It is in the call that it was held in, whose number is in `rax`. If not, it is in its program.
    pub in_call: bool,
    /// As in `HeldThread`.
    pub vector: Text,
}
