//! A cut through a job: all of its ranks stand, become data, and are made again, on all of its nodes at once.

pub use coppice_protocol::inspect::cut::Step;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// An order to cut a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CutOrder {
    /// The last step to lead through: the nodes then wait for the next one in vain, as if whoever leads were gone.
    #[serde(default)]
    #[schema(value_type = Option<schema::Step>)]
    pub last: Option<Step>,
}

/// What a cut took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CutView {
    /// Nodes that the job is on.
    pub nodes: u32,
    /// Its steps, in order.
    pub steps: Vec<CutStep>,
}

/// One of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CutStep {
    /// What it is called.
    pub name: String,
    /// How long it took until all nodes had done it, µs.
    pub us: u64,
}
