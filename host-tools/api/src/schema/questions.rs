//! [`crate::inspect::Query`] and [`crate::inspect::Answer`] as they are in JSON.

use std::net::Ipv4Addr;

use utoipa::ToSchema;

use super::{Go, HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold, SetThread, Stop, Text};

/// A question about a rank, and who asks.
#[derive(Debug, ToSchema)]
pub struct Query {
    /// A number that nobody else has. While a rank is held for one, others are not told of it as one that is held.
    pub by: u64,
    /// What is asked.
    pub question: Question,
}

/// What is asked.
#[derive(Debug, ToSchema)]
pub enum Question {
    /// What it has open.
    Objects {
        /// At descriptors from this number on.
        from: u32,
    },
    /// Hold all its threads for 10 s, and say who it is. Each further question holds them for as long anew.
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
        /// These, 32 KiB at most.
        bytes: Text,
    },
    /// Make a thread something else, while it is held.
    Set(SetThread),
    /// Let it go on until a debugger is to hear of something.
    Go(Go),
    /// What that was, if there was anything.
    Stop,
    /// Do a step of a cut through the job of the rank, with all of its ranks on the node.
    Cut(Step),
    /// How far the node is with keeping what the step `Save` had it keep.
    Saving,
}

/// What is answered.
#[derive(Debug, ToSchema)]
pub enum Answer {
    /// The node does not have that rank, not yet or no more.
    NotHere,
    /// To `Objects`.
    Objects {
        /// Some, by their descriptors.
        objects: Vec<OpenObject>,
        /// The next descriptor, if there are more.
        next: Option<u32>,
    },
    /// Nothing: for this.
    NotTold(NotTold),
    /// To `Hold`.
    Held(HeldProcess),
    /// To `Threads`: some of them, by their ids, and the next one's if there are more.
    Threads((Vec<HeldThread>, Option<u32>)),
    /// To `Areas`: some of them, by their addresses, and where the next one starts if there are more.
    Areas((Vec<MappedArea>, Option<u64>)),
    /// To `Memory`.
    Memory(MemoryPart),
    /// To `Release`.
    Released,
    /// To `Write` and `Set`.
    Changed,
    /// To `Go`.
    Goes,
    /// To `Stop`: what it has stopped for, if it has.
    Stopped(Option<Stop>),
    /// To `Cut`: the step is done.
    Cut,
    /// To `Saving`.
    Saving(Saving),
}

/// What a descriptor stands for.
#[derive(Debug, ToSchema)]
pub struct OpenObject {
    /// The descriptor.
    pub descriptor: u32,
    /// It is closed at an exec, which there is none of.
    pub close_on_exec: bool,
    /// The number of the open file: descriptors that share one have the same.
    pub id: u64,
    /// `O_*`, as fcntl(2) tells.
    pub flags: u32,
    /// Where reads and writes go on, bytes.
    pub offset: u64,
    /// What the open file stands for.
    pub what: What,
}

/// What an open file stands for.
#[derive(Debug, ToSchema)]
pub enum What {
    /// A file or directory at the I/O node.
    File {
        /// Where it was opened, cut if it is long.
        path: Text,
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
        path: Text,
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
        /// What it keeps apart.
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
        #[schema(value_type = (String, u16))]
        local: (Ipv4Addr, u16),
        /// Its peer's, if it has one.
        #[schema(value_type = Option<(String, u16)>)]
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
        /// The first files that it watches: descriptor under which, number of the open file, and events.
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
#[derive(Debug, ToSchema)]
pub enum PairKind {
    /// Nothing.
    Stream,
    /// Messages.
    Sequence,
    /// Datagrams.
    Datagrams,
}

/// A step of a cut through a job.
#[derive(Debug, ToSchema)]
pub enum Step {
    /// Hold all threads of all ranks.
    Stop,
    /// Wait until nothing that they have sent is on its way.
    Quiet,
    /// Make all ranks data.
    Record,
    /// Have what they are, and their pages as they are now, be kept from now on.
    Save(Keeping),
    /// Go on with what they had.
    Resume,
    /// Let go of what they were, and make them again from that.
    Make,
    /// Make those connections between them again that ranks here call for.
    Connect,
    /// Finish those that ranks here were called for; others may connect from now on.
    Settle,
    /// Let them go on.
    Go,
    /// Let them go on at once: a node could not do a step.
    GiveUp,
}

/// How what ranks are is to be kept.
#[derive(Debug, ToSchema)]
pub struct Keeping {
    /// There is the checkpoint that was led by this one: pages that were not written since need not be kept again.
    pub since: Option<u64>,
    /// Ranks do not go on before all of it is in the region or with the I/O node; the region's engine has so many
    /// requests to do at most meanwhile.
    pub copy: Option<u8>,
    /// All of it is given to the I/O nodes: what is in regions may be wiped at any time.
    pub elsewhere: bool,
}

/// How far a node is with keeping what was cut.
#[derive(Debug, ToSchema)]
pub struct Saving {
    /// Pages that are kept so far, and that there are to be kept.
    pub pages: (u64, u64),
    /// Bytes of objects that the I/O node was given so far.
    pub bytes: u64,
    /// Barriers of PMI that the job's nodes have left.
    pub barriers: u64,
    /// It is over: all parts that the node keeps, on stable storage, or none, as `failed` says.
    pub parts: Option<Vec<Part>>,
    /// All of it lies in the node's region, from where its I/O node is to pull it; then `parts` says nothing.
    pub local: Option<SlotKey>,
    /// Why nothing is kept, one line.
    pub failed: Option<String>,
}

/// A part of a checkpoint that is kept.
#[derive(Debug, ToSchema)]
pub struct Part {
    /// Of what.
    pub of: PartOf,
    /// The object that lists what it consists of, by the BLAKE3 hash of its bytes.
    pub object: [u8; 32],
}

/// Of what a part is.
#[derive(Debug, ToSchema)]
pub enum PartOf {
    /// A rank.
    Rank(u32),
    /// What the ranks of one node share, by the node's number in the job.
    Node(u32),
}

/// Which filling of which slot of a region.
#[derive(Debug, ToSchema)]
pub struct SlotKey {
    /// The slot.
    pub slot: u8,
    /// What no other filling has.
    pub key: u64,
}
