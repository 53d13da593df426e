//! A cluster as a whole: what it consists of and how far it is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Text;

/// How far a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    /// Its nodes are being booted for the first time since `up`.
    Starting,
    /// Every node was ready once since `up`.
    Up,
    /// It cannot come up; [`ClusterView::failure`] says why.
    Failed,
    /// It is being ended.
    Stopping,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterView {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub state: ClusterState,
    /// Why it failed, one line.
    pub failure: Option<String>,
    /// Version of the service node.
    pub version: String,
    /// Process id of the service node.
    pub pid: u32,
    /// When the service node started, ns since 1970.
    pub started_at_ns: u64,
    /// Compute nodes it has.
    pub nodes: u32,
    /// Of those, ready for jobs or running one.
    pub nodes_ready: u32,
    /// Of those, given up after repeated failures to boot.
    pub nodes_failed: u32,
    /// Compute nodes per I/O node.
    pub pset_size: u32,
    /// Cores of each node.
    pub cores: u32,
    /// Memory of each node, bytes.
    pub memory_bytes: u64,
    /// Length of each node's region, where its checkpoints lie first, bytes; 0: they have none.
    #[serde(default)]
    pub region_bytes: u64,
    /// How nodes are executed, `tcg` or `kvm`; nothing while that is being found out.
    pub accelerator: Option<String>,
    /// Jobs waiting for nodes.
    pub jobs_queued: u32,
    /// Jobs that have nodes.
    pub jobs_running: u32,
    /// TCP port of the host's loopback where its metrics are scraped, if there is one.
    #[serde(default)]
    pub metrics_port: Option<u16>,
    /// Where database, programs and logs are.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub state_directory: PathBuf,
    /// Where the sockets are.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub runtime_directory: PathBuf,
    /// The helper processes, machines excluded.
    pub processes: Vec<ProcessView>,
}

/// A helper process of the service node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessView {
    /// What it is: `fabric` or `io-node`.
    pub role: String,
    /// The pset, if it is an I/O node.
    pub pset: Option<u32>,
    /// Process id.
    pub pid: u32,
}

/// First and only line that `coppiced` prints on its standard output, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartReport {
    /// The API answers; nodes are being booted.
    Listening,
    /// It could not start; one line for people.
    Failed(String),
}
