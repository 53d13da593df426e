//! What is told of a process that is held to be looked at: who it is, its threads, and its memory.
//!
//! [`super::Question::Hold`] has all its threads held for [`LEASE_NS`], and each further question of these for as
//! long anew. When nobody asks any more, the process goes on: who asked may be gone. So an answer to them is either
//! about the process as it was when it was held, or a refusal. Only who has it held is told of it: two moments are not
//! to be taken for one. Another may have it held instead when nothing was asked for [`ABANDONED_NS`].

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::text::ByteString;

/// How long a process is held from the last question on, ns.
pub const LEASE_NS: u64 = 10_000_000_000;

/// Who has asked nothing for so long, ns, has no more right to a process than others: he may be gone.
pub const ABANDONED_NS: u64 = 2_000_000_000;

/// Bytes of memory that one answer has at most.
pub const MEMORY_BYTES_MAX: usize = 32 * 1024;

/// Bytes of threads' registers, or of areas with the paths of their files, that one answer has at most, each with
/// [`ENTRY_BYTES`] beside them. One thread or area is told of in any case.
pub const LIST_BYTES_MAX: usize = 32 * 1024;

/// What the rest of a thread or an area takes at most, bytes.
pub const ENTRY_BYTES: usize = 256;

/// Of a process's arguments, so many bytes are told.
pub const ARGUMENT_BYTES_TOLD: usize = 80;

/// Integer registers of a thread.
pub const REGISTERS: usize = 20;

/// A process that is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldProcess {
    /// Its id.
    pub pid: u32,
    /// Id of its parent.
    pub parent: u32,
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// Its name, without zeros behind it.
    pub name: ByteString,
    /// Where its program was started from, as far as it is told ([`super::PATH_BYTES_TOLD`]).
    pub program: ByteString,
    /// Its arguments with spaces between them, the first [`ARGUMENT_BYTES_TOLD`] bytes.
    pub arguments: ByteString,
    /// The auxiliary vector, as it found it.
    pub auxiliary: ByteString,
    /// The components of vector registers that the processor has, as in its register XCR0.
    pub components: u64,
    /// How many threads it has.
    pub threads: u32,
    /// The signal that is about to end it.
    pub ends: Option<EndedBy>,
}

/// What is about to end a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedBy {
    /// The thread that has it.
    pub tid: u32,
    /// The signal.
    pub signal: u8,
    /// What it says, as the program would find it (`siginfo_t`).
    pub info: ByteString,
}

/// A thread that is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldThread {
    /// Its id.
    pub tid: u32,
    /// What it has used of the processor, ns.
    pub cpu_ns: u64,
    /// `rax`, `rbx`, `rcx`, `rdx`, `rsi`, `rdi`, `rbp`, `rsp`, `r8` to `r15`, `rip`, `rflags` and the bases of `fs` and
    /// `gs`. In a call, those behind its instruction.
    pub registers: [u64; REGISTERS],
    /// It waits in a call, whose number is in `rax`.
    pub in_call: bool,
    /// The signals that it blocks, as in a `sigset_t`.
    pub blocked: u64,
    /// The signals that were sent to it, not to its process, and that it has not taken.
    pub pending: u64,
    /// Its vector registers in the processor's standard format (XSAVE).
    pub vector: ByteString,
}

/// What is mapped somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedArea {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// It may be run.
    pub execute: bool,
    /// What it shows.
    pub shows: Shows,
}

/// What an area shows before it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shows {
    /// Zeros.
    Zeros,
    /// The program's file.
    Program {
        /// From where on, bytes.
        offset: u64,
    },
    /// A file.
    File {
        /// Where it was opened, as far as it is told ([`super::PATH_BYTES_TOLD`]).
        path: ByteString,
        /// From where on, bytes.
        offset: u64,
    },
    /// Memory that ranks share.
    Shared {
        /// From where on, bytes.
        offset: u64,
    },
}

/// What lies from an address on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPart {
    /// So many bytes of zeros, or that cannot be read.
    pub zeros: u64,
    /// Then these, up to [`MEMORY_BYTES_MAX`].
    pub bytes: ByteString,
}

/// Why a question about a held process is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotTold {
    /// The node answers as many questions as it can at once.
    Busy,
    /// The process is not held, or not any more: it goes on.
    NotHeld,
    /// It is at its end.
    Ending,
    /// It did not come to be held, or a page did not come, in time: for this.
    Late(String),
    /// There is no memory for it.
    NoMemory,
    /// Somebody else has it held or debugs it.
    Taken,
    /// There is no such thread, it cannot be like that, or the memory there cannot be written.
    Refused,
}
