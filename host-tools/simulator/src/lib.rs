//! Deterministic simulator, of the protocols over bad networks and of whole clusters.
//!
//! In the first, nodes and an I/O node drive the very sessions that the kernel and the I/O node drive, over connections
//! that split, delay, cut and forge what they carry, while nodes and the I/O node restart, earlier boots live on, and
//! strangers call. Time is simulated and every choice comes from one seed, so a failure reproduces from its seed alone.
//! What must hold is said by the [`checkers`], each in a file of its own.
//!
//! `cargo run -p coppice-simulator -- sessions --seeds 1000` tries many seeds, `--seed 17 --trace` shows one. Whole
//! clusters are in [`cluster`], jobs on very many small nodes in [`crowd`], transfers to many members in
//! [`distribution`], jobs whose nodes die while ranks find each other in [`survivors`],
//! performance overlays in [`overlay`].

pub mod checkers;
pub mod cluster;
mod context;
pub mod crowd;
pub mod distribution;
pub mod failures;
mod faults;
mod io_node;
#[cfg(test)]
mod many;
mod network;
mod node;
mod orders;
pub mod overlay;
pub mod plot;
mod random;
mod schedule;
pub mod startup;
mod strangers;
pub mod survivors;
mod tables;
mod trace;
mod work;
mod world;

use crate::world::World;

/// How long and how large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most nodes; a run has one to this many.
    pub nodes_max: u32,
    /// Simulated time during which things go wrong, ns.
    pub faulty_ns: u64,
    /// Simulated time after that, in which all must come right again, ns.
    pub quiet_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes_max: 4, faulty_ns: 60_000_000_000, quiet_ns: 60_000_000_000 }
    }
}

/// What happened in a run that went as it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was counted, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// The last lines of the trace, or all of them up to [`TRACE_LINES_MAX`].
    pub trace: Vec<String>,
    /// Digest of the whole trace: equal only for equal runs.
    pub digest: u64,
}

/// Lines of the trace that are kept; the oldest go first.
pub const TRACE_LINES_MAX: usize = 20_000;

/// A run in which something did not hold.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed} at {at_ns} ns: {violation}")]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// When it happened, simulated ns.
    pub at_ns: u64,
    /// What did not hold.
    pub violation: checkers::Violation,
    /// The faults that had struck, in worlds where they are numbered.
    pub faults: Vec<u64>,
    /// The trace up to there.
    pub trace: Vec<String>,
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: a checker found something that must not be.
pub fn run(seed: u64, options: &Options) -> Result<Report, Failure> {
    World::new(seed, options).run()
}
