//! Retained page tables: what nodes hold of programs, how that chose a job's nodes, and giving it back.

use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Text;

/// A program whose page table a node holds, a file that it keeps, or what it holds of files that a program has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetainedView {
    /// BLAKE3 hash of its bytes, hexadecimal.
    pub program: String,
    /// Pages that a launch finds.
    pub pages: u64,
    /// Memory that takes, page tables included, bytes.
    pub bytes: u64,
    /// It is a file that was staged to be kept, all of it.
    #[serde(default)]
    pub is_file: bool,
    /// It is pages of files that jobs of the program have read, libraries among them.
    #[serde(default)]
    pub is_read: bool,
}

/// The last program a node ran in its present boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastProgram {
    /// BLAKE3 hash of its bytes, hexadecimal.
    pub program: String,
    /// Its path as the user gave it.
    #[schema(value_type = Text)]
    pub path: ByteString,
    /// Length of its file, bytes.
    pub bytes: u64,
    /// The job that ran it.
    pub job: u64,
    /// When that job was given the node, ns since 1970.
    pub at_ns: u64,
}

/// Why a job was given a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementReason {
    /// The node holds pages of the job's program.
    Retained,
    /// The node holds pages of no program.
    Clean,
    /// The node's last program was used less recently than those of other nodes.
    LeastRecentlyUsed,
    /// The user named the node.
    Listed,
}

/// One node of a job and why it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedNode {
    /// The node.
    pub node: u32,
    /// Why.
    pub reason: PlacementReason,
    /// Pages of the program that the node was believed to hold then.
    pub pages: u64,
}

/// How a job got its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Placement {
    /// The decision in one line.
    pub summary: String,
    /// The nodes in order of the ranks.
    pub nodes: Vec<PlacedNode>,
}

/// What retention saved a job, once it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetentionSummary {
    /// Ranks that started on a retained page table.
    pub warm_ranks: u32,
    /// Nodes that those ran on.
    #[serde(default)]
    pub warm_nodes: u32,
    /// Pages that those nodes had, all together. The ranks of a node share them.
    pub pages_kept: u64,
    /// Pages those ranks still fetched, all together.
    pub pages_fetched: u64,
}

/// A node's answer to the order to retain, given before a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum RetainAnswer {
    /// It holds the program's table and no other.
    Kept {
        /// Entries that stayed, pages.
        kept: u64,
        /// Entries that were dropped since the program last ran.
        dropped: u64,
        /// Frames zeroed since then.
        zeroed: u64,
        /// Tables of other programs that were discarded.
        discarded: u64,
    },
    /// It did not have the table; the program was loaded.
    Absent,
    /// A job ran on it.
    Busy {
        /// The job.
        job: u64,
    },
    /// The order was for another boot of the node.
    OtherBoot {
        /// The boot it is.
        generation: u32,
    },
}

/// An order to give retained pages and kept files back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForgetOrder {
    /// The program or file: the first digits of its hash, at least four, or the path of which it was the last to be
    /// submitted or staged. Without it, all of them.
    #[schema(value_type = Option<Text>)]
    pub program: Option<ByteString>,
}

/// What came of a [`ForgetOrder`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forgotten {
    /// Nodes that gave something back.
    pub nodes: u32,
    /// Pages given back, all together.
    pub pages: u64,
    /// Memory given back, page tables included, bytes.
    pub bytes: u64,
    /// Nodes that did not answer in time. What they hold is not known to be gone.
    pub silent: Vec<u32>,
    /// From the order to the last answer, ns.
    pub round_trip_ns: u64,
}
