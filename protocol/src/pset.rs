//! Between the service node and the I/O node of a pset: over the I/O node's standard input and output, which end with
//! either of them, so that an I/O node never outlives its service node.
//!
//! Each message is a little-endian `u32` length (at most [`MESSAGE_BYTES_MAX`]) and that many bytes of postcard. The
//! first message to the I/O node is [`ToPset::Configure`].

mod framing;
mod member;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use self::framing::{PsetError, decode, encode};
pub use self::member::Member;
use crate::broadcast::BroadcastBegun;
use crate::checkpoint::Part;
use crate::control::{Dying, Ends, JobFailure, MemoryStatus, NodeStatus, Waiting};
use crate::ids::{Generation, JobId, NodeId, ProgramId, PsetId, Rank};
use crate::inspect::{Inspect, Inspected};
use crate::keep::{KeepFile, KeepProgress, Kept};
use crate::overlay;
use crate::personality::NodeKey;
use crate::ranks::Ranks;
use crate::ras::RasEvent;
use crate::region::SlotKey;
use crate::retain::{Discarded, Retained};
use crate::ship::Stream;
use crate::spawn::{Joined, Origin, Spawn, Spawned};
use crate::staging::Staging;
use crate::text::ByteString;
use crate::trace::Traced;
use crate::transfer::{TransferEnd, TransferProgress};
use crate::world::World;

/// Version of this protocol; both ends are installed together, and another one ends the I/O node with an error.
pub const VERSION: u16 = 25;

/// Longest message, bytes; a longer one is an error that ends the connection.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// From the service node to an I/O node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToPset {
    /// Who you are. Always first, once.
    Configure {
        /// [`VERSION`].
        version: u16,
        /// The pset.
        pset: PsetId,
        /// Largest IP packet on the I/O node's link, bytes.
        mtu: u16,
        /// Unix datagram socket to bind: frames from the fabric arrive here.
        socket: ByteString,
        /// Unix datagram socket of the fabric's port to send frames to.
        fabric: ByteString,
        /// Directory in which objects of checkpoints are kept; without one, none are.
        storage: Option<ByteString>,
        /// Directory of the nodes' regions ([`crate::region`]), one file each by the node's number; without one, nodes
        /// have none.
        regions: Option<ByteString>,
    },
    /// This boot of a node may connect with this key. Replaces any earlier boot of the node, whose connections are cut.
    AddNode {
        /// The node.
        node: NodeId,
        /// Its boot.
        generation: Generation,
        /// Its key.
        key: NodeKey,
    },
    /// The node is gone: cut its connections and forget its key.
    RemoveNode {
        /// The node.
        node: NodeId,
    },
    /// Start a job on nodes of this pset.
    Start(StartJob),
    /// End a job's ranks on this pset by `SIGKILL`.
    Kill {
        /// The job.
        job: JobId,
    },
    /// Send a job's ranks on this pset a signal, once.
    Signal {
        /// The job.
        job: JobId,
        /// Linux signal number.
        signal: u8,
    },
    /// All ranks of the job have been heard of: free its files, root and buffers.
    Forget {
        /// The job.
        job: JobId,
    },
    /// As [`crate::control::ToNode::NodeLost`], for all of the job's nodes on this pset.
    NodeLost {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// The ranks.
        ranks: Vec<Rank>,
    },
    /// As [`crate::control::ToNode::Joined`], for all of the job's nodes on this pset. Each answers.
    Joined(Joined),
    /// As [`crate::control::ToNode::Spawned`].
    Spawned(Spawned),
    /// Standard input for the job's input rank.
    Input {
        /// The job.
        job: JobId,
        /// The bytes; empty: the end.
        bytes: Vec<u8>,
    },
    /// The user took that many bytes of the job's output: room in its window again.
    OutputTaken {
        /// The job.
        job: JobId,
        /// How many, bytes.
        bytes: u32,
    },
    /// Have these nodes give retained pages and kept files back. Who is ready answers: [`FromPset::Discarded`].
    Discard {
        /// Number of the request, for the answers.
        request: u64,
        /// The program; `None`: all programs.
        program: Option<ProgramId>,
        /// The nodes to tell.
        nodes: Vec<NodeId>,
    },
    /// End: tell every node to power off, then exit.
    Shutdown,
    /// Say that you are alive: [`FromPset::Alive`].
    Ask,
    /// Have nodes keep a file. Each that is ready answers with [`FromPset::Kept`].
    Keep(KeepFile),
    /// The transfer of a file to be kept is over, or given up: nodes that do not have all of it drop what they have.
    EndKeep {
        /// The number of its request.
        request: u64,
    },
    /// Have what a job's ranks on this pset do printed, or not, from now on.
    Trace {
        /// The job.
        job: JobId,
        /// Which of its ranks.
        traced: Traced,
    },
    /// Have a node say something of a rank. If it is ready it answers with [`FromPset::Inspected`].
    Inspect {
        /// The node.
        node: NodeId,
        /// The question.
        inspect: Inspect,
    },
    /// Pull what a node's region has of a checkpoint into the storage. Answered with [`FromPset::Pulled`].
    Pull {
        /// Number of the request, for the answers.
        request: u64,
        /// The node, which need not be there any more.
        node: NodeId,
        /// Where in its region.
        from: SlotKey,
    },
    /// Wipe what a node's region has, but for this, if it is there. What is being pulled is, first. Answered with
    /// [`FromPset::Wiped`].
    Wipe {
        /// Number of the request, for the answer.
        request: u64,
        /// The node.
        node: NodeId,
        /// Of this job alone; `None`: of all.
        job: Option<JobId>,
        /// What stays.
        but: Option<SlotKey>,
    },
    /// As [`crate::control::ToNode::Checkpointed`], for all of the job's nodes on this pset.
    Checkpointed {
        /// The job.
        job: JobId,
        /// How many were made since it began.
        made: u64,
    },
    /// The front end of a job's overlay says something to a node; once, whatever becomes of the node's connection.
    Overlay {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// What it says.
        order: overlay::Down,
    },
}

/// A job as an I/O node needs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartJob {
    /// The job.
    pub job: JobId,
    /// Ranks in the whole job.
    pub size: u32,
    /// Directory of the host that the job sees as `/`.
    pub root: ByteString,
    /// The program.
    pub program: ProgramId,
    /// Length of the program, bytes.
    pub program_bytes: u64,
    /// A file of the host that holds the program's bytes and does not change.
    pub program_file: ByteString,
    /// The program's path as the user gave it.
    pub path: ByteString,
    /// As [`crate::control::Launch::executable`].
    pub executable: Option<Box<ByteString>>,
    /// Arguments; the first is the program's name.
    pub arguments: Vec<ByteString>,
    /// Environment for all ranks, `NAME=VALUE`.
    pub environment: Vec<ByteString>,
    /// Working directory, absolute inside the root.
    pub directory: ByteString,
    /// User the program sees.
    pub user: u32,
    /// Group the program sees.
    pub group: u32,
    /// File mode creation mask.
    pub umask: u32,
    /// Rank that gets standard input, if any; the others read its end at once.
    pub input_rank: Option<Rank>,
    /// The nodes of this pset with ranks of it.
    pub members: Vec<Member>,
    /// Where all ranks are.
    pub world: World,
    /// Files that every node of the job has before its ranks start.
    pub staging: Option<Box<Staging>>,
    /// The files of the host that have the bytes of the staged ones and do not change, in the same order.
    pub staged_files: Vec<ByteString>,
    /// Of these ranks is printed what they do ([`crate::trace`]).
    pub traced: Traced,
    /// As [`crate::control::Launch::core_file`].
    pub core_file: bool,
    /// As [`crate::control::Launch::keeps_files`].
    pub keeps_files: bool,
    /// Its nodes may have leases of files ([`crate::lease`]); without, each call on a file is made here.
    pub leases: bool,
    /// Over what files that its nodes read are [broadcast](crate::broadcast), of which it names none; without, each
    /// node reads them by itself.
    pub broadcasts: Option<Box<Staging>>,
    /// As [`crate::control::Launch::outlives_ranks`].
    pub outlives_ranks: bool,
    /// As [`crate::control::Launch::universe`].
    pub universe: u32,
    /// As [`crate::control::Launch::origin`].
    pub origin: Option<Box<Origin>>,
}

/// From an I/O node to the service node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromPset {
    /// Configured, and the sockets are bound.
    Listening,
    /// A node has authenticated on both connections and is ready for jobs.
    NodeReady {
        /// The node.
        node: NodeId,
        /// Its boot.
        generation: Generation,
        /// What it said of itself.
        status: NodeStatus,
    },
    /// A node that was ready is not reachable any more.
    NodeLost {
        /// The node.
        node: NodeId,
        /// Its boot.
        generation: Generation,
        /// Why, one line.
        reason: String,
    },
    /// Processes of ranks exist.
    Launched {
        /// The job.
        job: JobId,
        /// The ranks.
        ranks: Ranks,
    },
    /// Processes of ranks are gone: of several nodes, if those come together, in order. Their reports may take
    /// [`crate::limits::ENDS_BYTES_MAX`] bytes in all, or there is one.
    Ended(Vec<NodeEnds>),
    /// A node says that a job cannot go on.
    Failed {
        /// The node.
        node: NodeId,
        /// Why.
        failure: JobFailure,
    },
    /// Ranks of a job have waited in a barrier for a while. Said once by an I/O node for a barrier.
    Waits(Waiting),
    /// A node's answer to the order to retain that came before a launch.
    Retained {
        /// The node.
        node: NodeId,
        /// What it said.
        answer: Retained,
    },
    /// A node's answer to [`ToPset::Discard`].
    Discarded {
        /// The node.
        node: NodeId,
        /// What it said.
        answer: Discarded,
    },
    /// A node's answer to [`ToPset::Inspect`].
    Inspected {
        /// The node.
        node: NodeId,
        /// What it said.
        answer: Inspected,
    },
    /// Ranks could not be started on this pset (root unreadable, node gone, …).
    Refused {
        /// The job.
        job: JobId,
        /// The ranks.
        ranks: Ranks,
        /// Why, one line.
        reason: String,
    },
    /// Output of a rank. At most [`crate::limits::OUTPUT_WINDOW_BYTES`] of a job are under way before
    /// [`ToPset::OutputTaken`] says they were taken.
    Output {
        /// The job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Which stream.
        stream: Stream,
        /// The bytes, never empty.
        bytes: Vec<u8>,
    },
    /// The input rank has read that many bytes: the sender may send as many more (it starts with
    /// [`crate::limits::INPUT_WINDOW_BYTES`]).
    InputTaken {
        /// The job.
        job: JobId,
        /// How many, bytes.
        bytes: u32,
    },
    /// Something worth recording.
    Ras {
        /// The node that it is about; if there is none, the I/O node saw it by itself.
        node: Option<NodeId>,
        /// The event.
        event: RasEvent,
    },
    /// A ready node's memory is not what it was when this was said last, or when it got ready.
    Memory {
        /// The node.
        node: NodeId,
        /// Its boot.
        generation: Generation,
        /// Its memory now.
        memory: MemoryStatus,
    },
    /// The answer to [`ToPset::Ask`].
    Alive,
    /// A transfer of a job's staged file that has its home here is over. Said once.
    Transferred(TransferEnd),
    /// How far such a transfer is. Said now and then, if the service node has taken all that was said before.
    Transferring(TransferProgress),
    /// A node's answer to [`ToPset::Keep`].
    Kept {
        /// The node.
        node: NodeId,
        /// What it said.
        answer: Kept,
    },
    /// A file that has its home on this pset cannot be sent.
    KeepFailed {
        /// The number of its request.
        request: u64,
        /// Why, one line.
        reason: String,
    },
    /// How far a file is on its way that has its home here and nodes are to keep. Said now and then, if the service
    /// node has taken all that was said before.
    Keeping(KeepProgress),
    /// A signal is about to end a rank of which a core file is wanted, and which stands for a while for that.
    Dies {
        /// Its node.
        node: NodeId,
        /// Which rank, and of what.
        dying: Dying,
    },
    /// The answer to [`ToPset::Pull`].
    Pulled {
        /// Number of the request.
        request: u64,
        /// What was there, on stable storage; or why not, one line.
        pulled: Result<Pulled, String>,
    },
    /// How far it is with a request to pull. Said now and then.
    Pulling {
        /// Number of the request.
        request: u64,
        /// Objects that are stored, and that there are.
        objects: (u64, u64),
    },
    /// The answer to [`ToPset::Wipe`].
    Wiped {
        /// Number of the request.
        request: u64,
        /// Why something is left, one line.
        failed: Option<String>,
    },
    /// A rank asks for a checkpoint of its job. [`ToPset::Checkpointed`] says when that is over.
    WantsCheckpoint {
        /// The job.
        job: JobId,
    },
    /// A rank wants others to be started. Answered with [`ToPset::Spawned`].
    Spawns {
        /// The rank's node.
        node: NodeId,
        /// What it wants.
        spawn: Spawn,
    },
    /// A node's answer to [`ToPset::Joined`].
    Joined {
        /// The node.
        node: NodeId,
        /// The job.
        job: JobId,
        /// As [`crate::control::ToIoNode::Joined`].
        nodes: u32,
    },
    /// A node says something to the front end of a job's overlay. Not said when too much waits for the service node.
    Overlay {
        /// The node.
        node: NodeId,
        /// The job.
        job: JobId,
        /// As [`crate::control::ToIoNode::Overlay`].
        said: Vec<u8>,
    },
    /// A file that a job's nodes read is sent to all of them. Its end is a [`FromPset::Transferred`].
    BroadcastBegun(BroadcastBegun),
}

/// Ranks of a node that are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEnds {
    /// The node.
    pub node: NodeId,
    /// What it said of them.
    pub ends: Ends,
}

/// What was pulled from a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    /// All parts that were there.
    pub parts: Vec<Part>,
    /// How long processors took to hold objects against their checks and to name them, ns.
    pub hash_ns: u64,
}
