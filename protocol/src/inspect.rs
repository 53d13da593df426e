//! Looking into a rank that runs: whoever asks gets an answer of bounded length, and asks again for what comes behind.
//!
//! A question goes through the service node and the I/O node to the rank's node, with a number that the service node
//! chose and no other question has. It is answered soon, from what the node has of the rank just then. A question that
//! is lost with its connection is not asked again: who waits for the answer is told that there is none, and may
//! ask once more.

pub mod cut;
pub mod debug;
pub mod held;

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use self::debug::{Go, SetThread, Stop};
use self::held::{HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold};
use crate::checkpoint::Saving;
use crate::ids::{JobId, Rank};
use crate::text::ByteString;

/// Descriptors that one answer tells of.
pub const OBJECTS_MAX: usize = 64;

/// Of a path, so many bytes are told.
pub const PATH_BYTES_TOLD: usize = 256;

/// Of the files that an epoll watches, so many are told one by one.
pub const WATCHED_TOLD: usize = 16;

/// A question about a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspect {
    /// The question's number, for the answer.
    pub request: u64,
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
    /// What is asked, and by whom.
    pub query: Query,
}

/// A question, and who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// A number that nobody else has. While a rank is held for one, others are not told of it as one that is held.
    pub by: u64,
    /// What is asked.
    pub question: Question,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// What it has open.
    Objects {
        /// At descriptors from this number on.
        from: u32,
    },
    /// Hold all its threads for [`held::LEASE_NS`], and say who it is.
    Hold,
    /// Its threads, while it is held.
    Threads {
        /// Those with ids from this on.
        from: u32,
    },
    /// What is mapped, while it is held.
    Areas {
        /// From this address on.
        from: u64,
    },
    /// What lies there, while it is held.
    Memory {
        /// From this address on.
        address: u64,
        /// So many bytes. Fewer may be told.
        length: u64,
    },
    /// Let it go on.
    Release,
    /// Write there, while it is held.
    Write {
        /// From this address on.
        address: u64,
        /// These, up to [`held::MEMORY_BYTES_MAX`].
        bytes: ByteString,
    },
    /// Make a thread something else, while it is held.
    Set(SetThread),
    /// Let it go on until a debugger is to hear of something.
    Go(Go),
    /// What that was, if there was anything.
    Stop,
    /// Do a step of a cut through the job of the rank, with all of its ranks on the node.
    Cut(cut::Step),
    /// How far the node is with keeping what [`cut::Step::Save`] had it keep.
    Saving,
}

/// The answer to an [`Inspect`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspected {
    /// The number of the question.
    pub request: u64,
    /// The answer.
    pub answer: Answer,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The node does not have that rank, not yet or no more.
    NotHere,
    /// To [`Question::Objects`].
    Objects {
        /// Up to [`OBJECTS_MAX`], by their descriptors.
        objects: Vec<OpenObject>,
        /// The next descriptor, if there are more.
        next: Option<u32>,
    },
    /// Nothing: for this.
    NotTold(NotTold),
    /// To [`Question::Hold`].
    Held(HeldProcess),
    /// To [`Question::Threads`]: some of them, by their ids, and the next one's if there are more.
    Threads(Vec<HeldThread>, Option<u32>),
    /// To [`Question::Areas`]: some of them, by their addresses, and where the next one starts if there are more.
    Areas(Vec<MappedArea>, Option<u64>),
    /// To [`Question::Memory`].
    Memory(MemoryPart),
    /// To [`Question::Release`].
    Released,
    /// To [`Question::Write`] and [`Question::Set`].
    Changed,
    /// To [`Question::Go`].
    Goes,
    /// To [`Question::Stop`]: what it has stopped for, if it has.
    Stopped(Option<Stop>),
    /// To [`Question::Cut`]: the step is done.
    Cut,
    /// To [`Question::Saving`].
    Saving(Saving),
}

/// What a descriptor stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenObject {
    /// The descriptor.
    pub descriptor: u32,
    /// It is closed at an exec, which there is none of.
    pub close_on_exec: bool,
    /// The number of the open file: descriptors that share one have the same.
    pub id: u64,
    /// `O_*`, as `F_GETFL` tells.
    pub flags: u32,
    /// Where reads and writes go on, bytes.
    pub offset: u64,
    /// What the open file stands for.
    pub what: What,
}

/// What an open file stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A file or directory at the I/O node.
    File {
        /// Where it was opened, as far as it is told ([`PATH_BYTES_TOLD`]).
        path: ByteString,
        /// What it was then: type and permissions.
        mode: u32,
        /// Device.
        device: u64,
        /// Inode.
        inode: u64,
        /// Length then, bytes.
        size: u64,
    },
    /// Standard input (0), output (1) or error (2).
    Standard(u8),
    /// A file that the kernel makes, or one of its directories or devices.
    Kernel {
        /// Its path.
        path: ByteString,
    },
    /// Memory that ranks share.
    Shared {
        /// Its inode.
        inode: u64,
        /// Length, bytes.
        size: u64,
    },
    /// An end of a pipe.
    Pipe {
        /// Which pipe.
        pipe: u64,
        /// Bytes in it.
        held: u64,
    },
    /// An end of a pair of sockets.
    Pair {
        /// Which end.
        end: u64,
        /// What it keeps apart: nothing, messages in order, datagrams.
        kind: PairKind,
        /// Bytes that can be read.
        held: u64,
    },
    /// A socket of the network.
    Socket {
        /// Whether it is for connections.
        stream: bool,
        /// It accepts connections.
        listening: bool,
        /// Its own address and port.
        local: (Ipv4Addr, u16),
        /// Its peer's, if it has one.
        peer: Option<(Ipv4Addr, u16)>,
        /// Bytes that can be read.
        held: u64,
        /// Bytes that the peer's node has not acknowledged.
        unsent: u64,
    },
    /// A counter.
    Event {
        /// What it counts.
        value: u64,
    },
    /// A timer.
    Timer {
        /// How long until it is up, ns; 0: it is not set.
        left_ns: u64,
        /// How long until it is up again, ns; 0: it is not.
        interval_ns: u64,
    },
    /// Signals that are read, a bit each.
    Signals {
        /// Which.
        wanted: u64,
    },
    /// An epoll.
    Poller {
        /// The files that it watches: descriptor under which, number of the open file, and events. The first
        /// [`WATCHED_TOLD`].
        watched: Vec<(i32, u64, u32)>,
        /// How many it watches in all.
        count: u32,
    },
    /// What the node's kernel is at the other end of.
    Service {
        /// Bytes that can be read.
        held: u64,
    },
}

/// What a pair of sockets keeps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairKind {
    /// Nothing.
    Stream,
    /// Messages.
    Sequence,
    /// Datagrams.
    Datagrams,
}
