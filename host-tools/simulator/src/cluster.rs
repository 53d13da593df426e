//! A simulated world of whole clusters, in which the very code of service node, I/O nodes and nodes runs: the
//! controller with its database, the I/O nodes' machines, and in every node the kernel's agent, its function shipping
//! and its processes, on an executor and on memory of its own.
//!
//! What stands around them is simulated: time, the network between nodes and I/O nodes as streams of bytes that come
//! late, in pieces, or not at all ([`network`]), pipes, the hosts' disks, machines that boot, users, and what the
//! instructions of programs do ([`actor`]). Faults strike for a while, then they end and all must come right. The
//! [`checkers`] see what users see, and what processes do.
//!
//! Everything follows from a seed, but for what SQLite does in memory, which depends on nothing else.

mod actor;
mod alarm;
mod checkers;
mod clock;
mod courses;
mod disk;
mod dispatch;
mod faults;
mod forgets;
mod host;
mod host_life;
mod io_node;
mod kept;
mod last_job;
mod leading;
mod link_orders;
mod links;
mod listener;
mod looks;
mod machine;
mod neighbours;
mod network;
mod observing;
mod pmix;
mod process;
mod programs;
mod queue;
mod regions;
mod script;
mod shared_files;
mod sharing;
mod shrink;
mod sockets;
mod storage;
mod streams;
mod tracers;
mod trial;
mod users;
mod whole;
mod wire;
mod words;
mod world;

pub use self::shrink::{Shrunk, shrink};
pub use self::trial::{Outcome, Trial, Tried, Victim, try_all, try_one, try_some};
use crate::{Failure, Report};

/// How long and how large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: u32,
    /// Nodes of a pset.
    pub pset_size: u32,
    /// Users who submit job after job.
    pub users: usize,
    /// Nothing but one job on all nodes, one of which dies.
    pub is_whole: bool,
    /// The ranks of every job use the same files.
    pub shares: bool,
    /// Nothing but jobs that have checkpoints, and what may strike meanwhile.
    pub trial: Option<Trial>,
    /// Simulated time during which things go wrong, ns.
    pub faulty_ns: u64,
    /// Simulated time after that at most, until all has come right, ns.
    pub quiet_ns: u64,
}

impl Options {
    /// There are no users, and no faults of all kinds.
    fn is_alone(&self) -> bool {
        self.is_whole || self.trial.is_some()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 8,
            pset_size: 2,
            users: 6,
            is_whole: false,
            shares: false,
            trial: None,
            faulty_ns: 120 * crate::cluster::queue::SECOND_NS,
            quiet_ns: 240 * crate::cluster::queue::SECOND_NS,
        }
    }
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: a checker found something that must not be.
pub fn run(seed: u64, options: &Options) -> Result<Report, Failure> {
    world::World::new(seed, options, None)?.run()
}

/// Runs one seed with some of its faults only, by their numbers.
///
/// # Errors
/// [`Failure`]: a checker found something that must not be.
pub fn run_with(seed: u64, options: &Options, faults: impl IntoIterator<Item = u64>) -> Result<Report, Failure> {
    world::World::new(seed, options, Some(faults.into_iter().collect()))?.run()
}
