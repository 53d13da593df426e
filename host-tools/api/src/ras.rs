//! RAS events as they are recorded.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RasView {
    /// Number of the event, growing.
    pub event: u64,
    /// When it was recorded, ns since 1970.
    pub at_ns: u64,
    /// `info`, `warn`, `error` or `fatal`.
    pub severity: String,
    /// Name of what happened, such as `node-lost`.
    pub kind: String,
    /// The node it happened on.
    pub node: Option<u32>,
    /// The job it happened to.
    pub job: Option<u64>,
    /// The rank it happened to.
    pub rank: Option<u32>,
    /// Address that was touched.
    pub address: Option<u64>,
    /// Instruction that did it.
    pub instruction: Option<u64>,
    /// One line for people.
    pub text: String,
}

/// Which events to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RasQuery {
    /// At most that many, the newest.
    pub limit: Option<u32>,
    /// Of this node.
    pub node: Option<u32>,
    /// Of this job.
    pub job: Option<u64>,
}
