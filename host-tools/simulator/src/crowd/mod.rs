//! One job on a cluster of very many nodes: what its start and its end cost the service node, and what they take on
//! the way.
//!
//! The controller with its database and the I/O nodes' machines are the real ones, and so are the sessions and every
//! byte on them. Nodes are as small as can be: they boot at once, say that ranks run when they are told to launch them,
//! and that they have ended a little later. So a hundred thousand ranks fit into one process, and all that takes the
//! controller's time is its own.

mod node;
mod plant;
mod served;
mod time;
mod world;

use std::time::Duration;

use coppice_protocol::ids::NodeId;

pub use self::served::serve;
use self::world::World;

/// How large it is, and what goes wrong.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes of the cluster and of the job.
    pub nodes: u32,
    /// Nodes of a pset.
    pub pset_size: u32,
    /// Ranks of the job on each node.
    pub ranks_per_node: u32,
    /// Nodes that read one another's input before the service node takes a message of their I/O node.
    pub turn: usize,
    /// How long its ranks run, ns.
    pub lasts_ns: u64,
    /// A node with something wrong.
    pub fault: Option<(NodeId, Fault)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 1024, pset_size: 64, ranks_per_node: 64, turn: 8, lasts_ns: 5_000_000_000, fault: None }
    }
}

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It answers pings, and does nothing when it is told to launch or to end ranks.
    Deaf,
    /// From the launch on it says nothing at all.
    Silent,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What `run` exits with.
    pub exit_status: u8,
    /// Why, if not by its ranks' own exits.
    pub reason: Option<String>,
    /// Ranks of which it is recorded what became of them.
    pub reports: usize,
    /// Simulated time from its submission to its end.
    pub lasted: Duration,
}

/// What a job took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Processor time of the service node from the submission until all of the job's ranks run.
    pub start: Duration,
    /// The same from then until its end is recorded and told.
    pub end: Duration,
    /// What went between I/O nodes and service node, from submission to end.
    pub psets: Traffic,
    /// What went between nodes and I/O nodes on control connections, but for pings.
    pub nodes: Traffic,
}

/// Messages and bytes, down to nodes and up from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Messages down.
    pub messages_down: u64,
    /// Messages up.
    pub messages_up: u64,
    /// Bytes down.
    pub bytes_down: u64,
    /// Bytes up.
    pub bytes_up: u64,
}

/// A run: brings a cluster up and has a job run on all of it.
///
/// # Errors
/// What did not happen in time, or did and must not, one line.
pub fn run(options: &Options) -> Result<(Ended, Costs), String> {
    let mut world = World::new(options)?;
    world.come_up()?;
    world.run_job()
}
