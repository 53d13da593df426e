//! [`crate::inspect::held`] as it is in JSON.

use utoipa::ToSchema;

use super::Text;

/// A process that is held.
#[derive(Debug, ToSchema)]
pub struct HeldProcess {
    /// Its id.
    pub pid: u32,
    /// Id of its parent.
    pub parent: u32,
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// Its name.
    pub name: Text,
    /// Where its program was started from, cut if it is long.
    pub program: Text,
    /// Its arguments with spaces between them, cut if they are long.
    pub arguments: Text,
    /// The auxiliary vector, as it found it.
    pub auxiliary: Text,
    /// The components of vector registers that the processor has, as in its register XCR0.
    pub components: u64,
    /// How many threads it has.
    pub threads: u32,
    /// The signal that is about to end it.
    pub ends: Option<EndedBy>,
}

/// What is about to end a process.
#[derive(Debug, ToSchema)]
pub struct EndedBy {
    /// The thread that has it.
    pub tid: u32,
    /// The signal.
    pub signal: u8,
    /// What it says, as the program would find it (`siginfo_t`).
    pub info: Text,
}

/// A thread that is held.
#[derive(Debug, ToSchema)]
pub struct HeldThread {
    /// Its id.
    pub tid: u32,
    /// What it has used of the processor, ns.
    pub cpu_ns: u64,
    /// `rax`, `rbx`, `rcx`, `rdx`, `rsi`, `rdi`, `rbp`, `rsp`, `r8` to `r15`, `rip`, `rflags` and the bases of `fs` and
    /// `gs`. In a call, those behind its instruction.
    pub registers: [u64; 20],
    /// It waits in a call, whose number is in `rax`.
    pub in_call: bool,
    /// The signals that it blocks, as in a `sigset_t`.
    pub blocked: u64,
    /// The signals that were sent to it, not to its process, and that it has not taken.
    pub pending: u64,
    /// Its vector registers in the processor's standard format (XSAVE).
    pub vector: Text,
}

/// What is mapped somewhere.
#[derive(Debug, ToSchema)]
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
#[derive(Debug, ToSchema)]
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
        /// Where it was opened, cut if it is long.
        path: Text,
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
#[derive(Debug, ToSchema)]
pub struct MemoryPart {
    /// So many bytes of zeros, or that cannot be read.
    pub zeros: u64,
    /// Then these.
    pub bytes: Text,
}

/// Why a question about a held process is not answered.
#[derive(Debug, ToSchema)]
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
