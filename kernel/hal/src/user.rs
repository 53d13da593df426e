//! Giving the core to a program's thread, and getting it back.
//!
//! [`UserThread::enter`] is an ordinary call that returns a [`UserExit`]: why the thread came back. Everything a
//! stopped thread is lies in its [`UserThread`]; nothing of it is left on a kernel stack.

pub use self::breakpoints::{BREAKPOINTS, BreakOn, Breakpoint, Breakpoints};
pub use self::registers::Registers;
pub use self::thread::UserThread;

mod breakpoints;
pub mod extended;
mod registers;
#[cfg(not(target_os = "none"))]
pub mod simulated;
mod thread;

#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
pub(crate) mod fpu;

#[cfg(target_os = "none")]
pub(crate) use self::entry::{USER_CODE, USER_DATA, leave_by_trap, syscall_entry};

/// Why a thread came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserExit {
    /// It made a system call: `rax` is its number, `rdi`, `rsi`, `rdx`, `r10`, `r8` and `r9` its arguments. `rax` takes
    /// the result. `rip` is behind the instruction; 2 less and the thread makes the call again.
    Syscall,
    /// It touched a page it may not touch so.
    PageFault {
        /// The address it touched.
        address: u64,
        /// It wanted to write.
        write: bool,
        /// It wanted to fetch an instruction.
        execute: bool,
        /// The page is mapped, but not for this.
        present: bool,
    },
    /// It did what the processor does not do: divide by zero, invalid instruction, breakpoint and so on.
    Exception {
        /// The processor's number of the exception.
        vector: u8,
        /// The processor's error code; 0 for exceptions that have none. For [`vector::DEBUG`] what its status register
        /// (DR6) says: with [`DEBUG_STEP`] the end of a single step, or a breakpoint ([`Breakpoints::met`]), or the
        /// instruction `int1`.
        error: u64,
    },
    /// An interrupt came (see [`crate::irq::take`]), or the core was kicked ([`crate::cpu::kick`]).
    Interrupt,
}

/// In the error of a [`vector::DEBUG`]: the program steps through its instructions one by one.
pub const DEBUG_STEP: u64 = 1 << 14;

/// Vectors of [`UserExit::Exception`] that mean something to a program.
pub mod vector {
    /// Divide error.
    pub const DIVIDE: u8 = 0;
    /// Single step, or the instruction `int1`, which reaches its gate whatever that says of privileges.
    pub const DEBUG: u8 = 1;
    /// The breakpoint instruction.
    pub const BREAKPOINT: u8 = 3;
    /// Invalid instruction.
    pub const INVALID_OPCODE: u8 = 6;
    /// Stack segment: a non-canonical address through the stack pointer.
    pub const STACK: u8 = 12;
    /// General protection: privileged instruction, non-canonical address, and much more.
    pub const GENERAL_PROTECTION: u8 = 13;
    /// x87 floating-point error.
    pub const X87: u8 = 16;
    /// Access not aligned, for a program that asked for the check.
    pub const ALIGNMENT: u8 = 17;
    /// SSE floating-point error.
    pub const SIMD: u8 = 19;
}
