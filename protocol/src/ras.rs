//! RAS events: reliability, availability, serviceability. What went wrong, where, how bad.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Rank};

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Something degraded that still works.
    Warn,
    /// A job or a connection was lost.
    Error,
    /// A node was lost.
    Fatal,
}

/// What happened, as a name that does not change: tools search for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RasKind {
    /// A program was ended by a fault of its own (null pointer, illegal instruction, …).
    ProgramFault,
    /// A program used a system call that Coppice does not have.
    UnknownSyscall,
    /// A node ran out of memory for a program.
    OutOfMemory,
    /// The kernel of a node panicked.
    KernelPanic,
    /// A node's machine ended or stopped answering.
    NodeLost,
    /// A node was booted and reported ready.
    NodeReady,
    /// An I/O node ended or stopped answering.
    IoNodeLost,
    /// A peer failed to authenticate.
    BadPeer,
    /// Events were lost because a queue was full.
    EventsLost,
    /// The service node was restarted and found traces of an earlier life.
    Recovery,
    /// Pages of a program arrived that are not those its hash says.
    DamagedProgram,
    /// A piece of a file that is being staged is not the file's.
    DamagedPiece,
    /// What a job's ranks sent to others before they ended is not read: their end waits for it, or it is lost.
    Undelivered,
    /// A file could not be opened, as a node did not give its lease back.
    LeaseKept,
    /// A link was cut on request.
    LinkCut,
    /// A link that was cut passes frames again.
    LinkMended,
    /// A recording of a link's frames ended by itself.
    RecordingEnded,
    /// What a job writes is not kept any further, as its log cannot be written.
    OutputCut,
    /// A checkpoint that is made by itself was not made, or old ones were not deleted.
    CheckpointFailed,
    /// A job that has lost a node does not go on from a checkpoint.
    RestartFailed,
    /// A node says to the overlay of a job what it cannot know.
    Overlay,
}

/// One event as a node reports it. Node and time are added by whoever records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RasEvent {
    /// How bad it is.
    pub severity: Severity,
    /// What happened.
    pub kind: RasKind,
    /// The job it happened to, if any.
    pub job: Option<JobId>,
    /// The rank it happened to, if any.
    pub rank: Option<Rank>,
    /// Address that was touched, if that is what went wrong.
    pub address: Option<u64>,
    /// Instruction that did it.
    pub instruction: Option<u64>,
    /// One line for people, at most [`crate::limits::RAS_TEXT_BYTES_MAX`] bytes.
    pub text: String,
}
