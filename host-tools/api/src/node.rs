//! Compute nodes.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::retain::{LastProgram, RetainedView};
use crate::schema::Text;

/// What a node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Waits until fewer others are booting.
    Waiting,
    /// Its machine was started.
    Booting,
    /// Takes a job.
    Ready,
    /// Belongs to a job.
    Busy,
    /// Its machine is being ended.
    Stopping,
    /// Given up: it did not get ready several times running.
    Failed,
    /// Not running: the cluster is down.
    Off,
}

impl NodeState {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Booting => "booting",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
            Self::Off => "off",
        }
    }
}

/// One compute node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its number.
    pub node: u32,
    /// Number of the pset it belongs to.
    pub pset: u32,
    /// What it is doing.
    pub state: NodeState,
    /// The job it belongs to.
    pub job: Option<u64>,
    /// How often it was booted in the life of the cluster's database.
    pub generation: u32,
    /// Its address in the cluster's network.
    #[schema(value_type = String, format = Ipv4)]
    pub address: Ipv4Addr,
    /// Version of its kernel, once it was ready.
    pub kernel: Option<String>,
    /// Kernel entry → ready at its last boot, ns of the node's clock.
    pub boot_ns: Option<u64>,
    /// Of that, time it had nothing to do, ns. With a clock that counts instructions the difference is the number of
    /// instructions it took to get ready.
    pub boot_idle_ns: Option<u64>,
    /// Cores that run, once it was ready.
    pub cores: Option<u32>,
    /// Its memory when it was last heard of.
    pub memory: Option<MemoryView>,
    /// Length of its region, where its checkpoints lie first, bytes; 0: it has none.
    #[serde(default)]
    pub region_bytes: u64,
    /// The last program it ran in this boot.
    pub last_program: Option<LastProgram>,
    /// What it holds of programs it ran, the last one first.
    pub retained: Vec<RetainedView>,
    /// Process id of its QEMU, while there is one.
    pub pid: Option<u32>,
    /// The file its console is logged to.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub console: PathBuf,
}

/// Memory of a node, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryView {
    /// Usable memory the machine has.
    pub total_bytes: u64,
    /// What the kernel keeps for itself.
    pub kernel_bytes: u64,
    /// What nobody uses.
    pub free_bytes: u64,
}
