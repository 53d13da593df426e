//! Retained page tables: what the service node, the I/O node and a node say to each other so that a program that ran on
//! a node runs there again without being loaded.
//!
//! When a process ends, its node walks its page table and cuts it back to what the program's file says and nobody ever
//! wrote. That table stays on the node, under the program's hash. Before a job is launched on nodes that hold its
//! program's table they are told to [`Retain`] it, which discards the tables of all other programs if the cluster's
//! [`RetentionPolicy`] is to keep one; the launch that
//! follows on the same connection says to use it ([`crate::control::Launch::use_retained`]). A node that does not have
//! the table (any more) says so and the launch loads the program as if nothing had been asked for.
//!
//! Both orders are idempotent: a repeated [`Retain`] of one job is answered as the first one was; a repeated
//! [`Discard`] finds nothing left.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::{Generation, JobId, ProgramId};

/// What becomes of the tables of other programs when a node is to retain one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetentionPolicy {
    /// They stay until their memory is wanted: the program that ran longest ago goes first.
    #[default]
    Many,
    /// They are discarded whole.
    One,
}

/// From the I/O node to a node: keep the table of this program, and those of others if the policy is to keep many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retain {
    /// The job that is about to be launched.
    pub job: JobId,
    /// The boot that is meant; any other one holds nothing of what the sender knows.
    pub generation: Generation,
    /// The program to keep.
    pub program: ProgramId,
}

/// Answer to a [`Retain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// The order's job.
    pub job: JobId,
    /// The order's program.
    pub program: ProgramId,
    /// What came of it.
    pub outcome: RetainOutcome,
}

/// What came of a [`Retain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetainOutcome {
    /// The table is there. If the policy is to keep one it is the only one: the node is clean but for that program's
    /// pristine pages.
    Kept(WalkCounts),
    /// The node holds no table of that program; those of others stay. The launch loads the program.
    Absent,
    /// A process of this job runs on the node; nothing was changed.
    Busy(JobId),
    /// The order is for another boot of the node; nothing was changed.
    OtherBoot(Generation),
}

/// What walking page tables did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkCounts {
    /// Entries that stayed, pages.
    pub kept: u64,
    /// Entries that were dropped because their page was, or ever had been, writable, or is not the program's.
    pub dropped: u64,
    /// Frames that were zeroed, page tables included. Fewer than `dropped` if frames were shared.
    pub zeroed: u64,
    /// Tables of other programs that were discarded whole.
    pub discarded: u64,
    /// Time it took, zeroing included, ns of the node's clock.
    pub walk_ns: u64,
}

/// From the I/O node to a node: give retained tables and kept files back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discard {
    /// Number of the request, for the answer.
    pub request: u64,
    /// The program whose table, or the file that, is to go; `None`: all of them. What a job uses stays.
    pub program: Option<ProgramId>,
}

/// Answer to a [`Discard`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// The order's number.
    pub request: u64,
    /// What was given back, in the order of [`Discarded::still_held`]; empty if there was nothing.
    pub given_back: Vec<RetainedProgram>,
    /// What the node still holds, the program that ran last first, files behind programs.
    pub still_held: Vec<RetainedProgram>,
}

/// As what a node holds bytes of a program or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HeldAs {
    /// The page table of a program that ran.
    Table,
    /// A file that it was told to keep ([`crate::keep`]), all of it.
    File,
    /// Pages of files that jobs of the program have read, libraries among them.
    Read,
}

/// A program whose page table a node holds, or a file that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedProgram {
    /// Which one; for [`HeldAs::Read`] the program whose job has used them last.
    pub program: ProgramId,
    /// Pages that a launch, or who opens the file, finds.
    pub pages: u64,
    /// Memory that takes, page tables included, bytes.
    pub bytes: u64,
    /// As what.
    pub held_as: HeldAs,
}

/// What retention did for one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRetention {
    /// Pages that the launch found in the node's memory; 0 if the program was loaded.
    pub found: u64,
    /// What the walk at the rank's end did.
    pub walk: WalkCounts,
}
