//! Whether a job's program is sent to all of its nodes ahead of the launch, and why.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How that was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AheadDecision {
    /// It is.
    pub staged: bool,
    /// The decision in one line.
    pub summary: String,
    /// What was reckoned, if it came to that.
    pub reckoned: Option<Reckoning>,
}

/// What a decision rests on, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reckoning {
    /// Length of the program, bytes.
    pub program_bytes: u64,
    /// Nodes of the job.
    pub nodes: u32,
    /// Nodes that are believed to hold all that they are going to touch.
    pub nodes_holding: u32,
    /// Pages that each node is going to touch, those included that come with them.
    pub pages_touched: u64,
    /// Whether that many were touched when the program last ran; if not, it is taken to be a share of the program.
    pub is_measured: bool,
    /// Pages of them that nodes do not hold, all together.
    pub pages_missing: u64,
    /// The same of the node that lacks most.
    pub pages_missing_most: u64,
    /// Bandwidth of each link, bytes/s.
    pub link_bytes_per_second: u64,
    /// Latency from node to node, ns.
    pub latency_ns: u64,
    /// Time until nodes have what they touch, if each fetches that, ns.
    pub demand_ns: u64,
    /// Time until all have the program, if it is sent ahead, ns.
    pub staged_ns: u64,
}
