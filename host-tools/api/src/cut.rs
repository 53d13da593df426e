//! A cut through a job: all of its ranks stand, become data, and are made again, on all of its nodes at once.

use serde::{Deserialize, Serialize};

/// What a cut took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutView {
    /// Nodes that the job is on.
    pub nodes: u32,
    /// Its steps, in order.
    pub steps: Vec<CutStep>,
}

/// One of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutStep {
    /// What it is called.
    pub name: String,
    /// How long it took until all nodes had done it, µs.
    pub us: u64,
}
