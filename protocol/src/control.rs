//! The control protocol between a node and its I/O node: launch, kill, heartbeat, results, RAS events.
//!
//! Runs in a [`crate::session`] on [`crate::limits::CONTROL_PORT`]. Launch, kill and job-ended are idempotent: a node
//! that is told to launch what it already runs, or to kill what it does not run, answers with what is the case. So are
//! the orders of [`crate::retain`] and [`crate::keep`], which travel here too. Signals are numbered for that.

mod counters;
mod ends;
mod launch;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use self::counters::RankCounters;
pub use self::ends::Ends;
pub use self::launch::{Launch, NoPart, NodeRestore, Order};
use crate::broadcast::Broadcast;
use crate::ids::{JobId, NodeId, Rank};
use crate::inspect::{Inspect, Inspected};
use crate::keep::{Keep, Kept};
use crate::overlay;
use crate::ranks::Ranks;
use crate::ras::RasEvent;
use crate::retain::{Discard, Discarded, RankRetention, Retain, Retained};
use crate::spawn::{Joined, Spawn, Spawned};
use crate::trace::Traced;
use crate::transfer::MemberCounts;

/// From the I/O node to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// Answer with [`ToIoNode::Pong`] at once.
    Ping {
        /// Grows by one at each ping of a session.
        sequence: u64,
        /// The host's `CLOCK_REALTIME`, ns since 1970.
        realtime_ns: u64,
        /// How many messages that must arrive ([`ToIoNode::must_arrive`]) came over this connection and were read. That
        /// their bytes came does not say so: a connection may end with some that nobody has looked at.
        taken: u64,
    },
    /// Start processes.
    Launch(Launch),
    /// End a job's processes by `SIGKILL`, wherever they are between launch and end.
    Kill {
        /// The job to end.
        job: JobId,
    },
    /// Send a job's processes a signal, once.
    Signal(Signal),
    /// Cut the node back to one program's pages, because that program is about to be launched.
    Retain(Retain),
    /// Give retained pages back.
    Discard(Discard),
    /// Leave QEMU with a status.
    PowerOff,
    /// Have a file in memory, and keep it.
    Keep(Keep),
    /// Leave the transfer of a file that is to be kept. What is not all there is given back; what is stays.
    EndKeep {
        /// The number of the order that is meant.
        request: u64,
    },
    /// What [`Self::Ping`] says as well: so much was read. Said when ends of ranks were, so that a node keeps no
    /// reports of jobs that are over.
    Taken {
        /// How many messages.
        taken: u64,
    },
    /// Have what a job's ranks do printed, or not, from now on. May be said again.
    Trace {
        /// The job.
        job: JobId,
        /// Which of its ranks.
        traced: Traced,
    },
    /// Say something of a rank.
    Inspect(Inspect),
    /// Checkpoints of a job were made, or the one that a rank of it here asked for was not: it may ask again.
    Checkpointed {
        /// The job.
        job: JobId,
        /// How many were made since it began.
        made: u64,
    },
    /// A node of a job that goes on then is gone, and these ranks of it, which had not ended. May be said again.
    NodeLost {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// The ranks, at most [`crate::limits::RANKS_PER_NODE_MAX`].
        ranks: Vec<Rank>,
    },
    /// Nodes have come to a job's network: answered with [`ToIoNode::Joined`]. May be said again.
    Joined(Joined),
    /// What came of a rank's wish for more ranks. May be said again.
    Spawned(Spawned),
    /// No rank of a job runs on any node: what is kept of it for ranks elsewhere goes. Not said to a node that is not
    /// connected then; such a one forgets a job when it is told of the next.
    Forget {
        /// The job.
        job: JobId,
    },
    /// The front end of a job's overlay says something. May be said again.
    Overlay(OverlayOrder),
    /// Take part in a broadcast of a file that the job's ranks read. May be said again, or not be heard.
    Broadcast(Box<Broadcast>),
}

/// What the front end of a job's overlay says to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayOrder {
    /// The job.
    pub job: JobId,
    /// Counts what is said to the node of the job's overlay, from 1: what comes twice is obeyed once, and answered as
    /// often.
    pub number: u32,
    /// What it says.
    pub order: overlay::Down,
}

/// A signal for all processes of a job on a node. They do about it what they have said, as on Linux. One that is still
/// being launched has said nothing: it is ended or, when it begins, stopped if the signal does that to such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// The job.
    pub job: JobId,
    /// Counts the job's signals from 1: an order that comes twice is obeyed once.
    pub sequence: u32,
    /// Linux's number of the signal.
    pub signal: u8,
}

/// From a node to its I/O node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToIoNode {
    /// First message of a control session: the node takes jobs from now on.
    Ready(NodeStatus),
    /// Answer to a ping.
    Pong {
        /// The ping's number.
        sequence: u64,
        /// Memory as it is now.
        memory: MemoryStatus,
    },
    /// These processes exist, and their first instruction is about to run.
    Launched {
        /// The job.
        job: JobId,
        /// The ranks, at most [`crate::limits::RANKS_PER_NODE_MAX`].
        ranks: Ranks,
    },
    /// Processes are gone, and so is all they had on the node but for what their program's file says.
    Ended(Ends),
    /// A job cannot go on: it is to be ended. Said once by a node for a job, before the ranks of it that end for that.
    Failed(JobFailure),
    /// Ranks of a job have waited in a barrier for a while. Said once for a barrier that takes long.
    Waits(Waiting),
    /// Answer to an order to retain.
    Retained(Retained),
    /// Answer to an order to discard.
    Discarded(Discarded),
    /// Something worth recording.
    Ras(RasEvent),
    /// Answer to an order to keep a file.
    Kept(Kept),
    /// Answer to a question about a rank.
    Inspected(Inspected),
    /// A signal is about to end a rank of which a core file is wanted. It stands for a while for somebody to take that.
    Dies(Dying),
    /// A rank here asks for a checkpoint of its job. Not said again before [`ToNode::Checkpointed`] has come.
    WantsCheckpoint {
        /// The job.
        job: JobId,
    },
    /// A rank here wants others to be started.
    Spawns(Spawn),
    /// Nodes that have come to a job's network are known here.
    Joined {
        /// The job.
        job: JobId,
        /// How many nodes the network has, of which all are known.
        nodes: u32,
    },
    /// Something for the front end of a job's overlay.
    Overlay {
        /// The job.
        job: JobId,
        /// An [`overlay::Up`], as bytes: only the front end looks at it.
        said: Vec<u8>,
    },
}

impl ToIoNode {
    /// Whether it is said again over the next connection if this one ends before the I/O node says that it has read it.
    #[must_use]
    pub const fn must_arrive(&self) -> bool {
        // An overlay does without what is lost: answers come again when they are asked for again.
        !matches!(self, Self::Ready(_) | Self::Pong { .. } | Self::Ras(_) | Self::Inspected(_) | Self::Overlay { .. })
    }
}

/// What a node says of itself when it is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Version of the kernel.
    pub kernel: String,
    /// Kernel entry → ready, ns of the node's clock.
    pub boot_ns: u64,
    /// Of that, time the core had nothing to do and slept, ns.
    pub boot_idle_ns: u64,
    /// Cores that run.
    pub cores: u32,
    /// Memory as it is now.
    pub memory: MemoryStatus,
}

/// Memory of a node, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Usable memory the machine has.
    pub total: u64,
    /// Memory the kernel keeps: image, tables, heap, buffers.
    pub kernel: u64,
    /// Frames nobody uses.
    pub free: u64,
    /// Retained pages and their tables, and kept files that no job uses. They are given back when memory is wanted.
    pub retained: u64,
}

/// Why a job cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFailure {
    /// The job.
    pub job: JobId,
    /// The rank that said so or was found missing.
    pub rank: Rank,
    /// What the job's exit status is to be.
    pub code: u8,
    /// One line for the user.
    pub reason: String,
}

/// Ranks that wait for others in a barrier of PMI. A rank that ended before that barrier ends their job: it never
/// comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Their job.
    pub job: JobId,
    /// The barrier, counted from 0.
    pub barrier: u64,
}

/// A rank that a signal is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dying {
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
    /// The signal.
    pub signal: u8,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It called exit with this status.
    Status(u8),
    /// A signal ended it.
    Signal(u8),
    /// It could not be started; [`RankReport::reason`] says why.
    NotStarted,
}

/// What became of one rank, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankReport {
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
    /// How it ended.
    pub exit: Exit,
    /// One line that says why, when it is not obvious.
    pub reason: Option<String>,
    /// What it took.
    pub counters: RankCounters,
    /// System calls made: (number, how often, of those answered ENOSYS because Coppice does not have the call).
    pub syscalls: Vec<SyscallCount>,
    /// What was found of the program at its launch, and what is kept of it now.
    pub retention: RankRetention,
    /// Barriers of PMI that it has left: it never comes to the one after.
    pub barriers: u64,
    /// What the node counted in the transfers of the job's staged files; one of its ranks says that for all.
    pub transfers: Vec<MemberCounts>,
}

impl RankReport {
    /// The report of a rank that ended and of which nothing else is to be said: nothing was counted or retained.
    #[must_use]
    pub fn ended(job: JobId, rank: Rank, exit: Exit) -> Self {
        Self {
            job,
            rank,
            exit,
            reason: None,
            counters: RankCounters::default(),
            syscalls: Vec::new(),
            retention: RankRetention::default(),
            barriers: 0,
            transfers: Vec::new(),
        }
    }
}

/// How often a rank made one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyscallCount {
    /// Linux's number for x86-64; −1 for all numbers beyond [`crate::limits::SYSCALL_NUMBERS_MAX`].
    pub number: i32,
    /// How often it was made.
    pub calls: u64,
    /// How often it was refused because Coppice does not have it.
    pub unknown: u64,
}
