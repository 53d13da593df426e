//! What is said of a transfer ([`crate::staging`]) beside the transfer itself: how far it is, what it took, and what
//! each node counted in it. Only what was counted or measured is said.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::distribution::Tally;
use crate::ids::{JobId, NodeId};

/// Which transfer: a job's file, as its [`crate::staging::Staging::files`] number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOfJob {
    /// The job.
    pub job: JobId,
    /// The file's number.
    pub file: u8,
}

/// A transfer is over, as its home knows: every node has the file, or is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferEnd {
    /// Which transfer.
    pub of: FileOfJob,
    /// Pieces that the file was cut into.
    pub pieces: u32,
    /// Time from its begin until home knew that, ns.
    pub elapsed_ns: u64,
    /// What home sent of pieces, on its link with all headers, bytes.
    pub bytes_sent: u64,
    /// Pieces, or packets of them, that home sent because somebody asked for them.
    pub answered: u64,
    /// Nodes that did not say that they have the file.
    pub lost: u32,
    /// The first of them, at most [`crate::limits::LOST_NAMED_MAX`].
    pub first_lost: Vec<NodeId>,
}

/// How far a transfer is, as far as home knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferProgress {
    /// Which transfer.
    pub of: FileOfJob,
    /// Length of what all of those next to home have, at most that of the file, bytes.
    pub bytes: u64,
    /// Nodes that have the whole file, or were given up.
    pub whole: u32,
}

/// What a node counted as a member of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberCounts {
    /// The file's number in its job.
    pub file: u8,
    /// Pieces that it asked others for, as often as it did.
    pub asked: u64,
    /// Pieces, or packets of them, that it sent because somebody asked for them.
    pub answered: u64,
    /// Pieces that came and were not those of the file.
    pub wrong: u64,
    /// What came of pieces from other psets, on the link with all headers, bytes.
    pub crossed_bytes: u64,
}

impl MemberCounts {
    /// What was counted of a file.
    #[must_use]
    pub const fn new(file: u8, tally: Tally) -> Self {
        let Tally { asked, answered, wrong, crossed_bytes, .. } = tally;
        Self { file, asked, answered, wrong, crossed_bytes }
    }
}
