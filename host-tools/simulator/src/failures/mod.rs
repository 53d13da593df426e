//! How the nodes of a job hear that one of them has died: the very servers of [`coppice_protocol::pmi`], one for each
//! node, with a rank each, that were told of the job one after the other and have nothing to do but to watch each
//! other. What a node works for a frame, and what goes over links, takes its time ([`Costs`]).

mod ring;

use coppice_protocol::limits::PMI_WATCH_NS;

use crate::startup::Costs;

/// Nodes are told of the job so far apart, ns.
const APART_NS: u64 = 20_000;

/// A job of which nodes die.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nodes of the job.
    pub nodes: u32,
    /// How many that follow each other die at the same time.
    pub deaths: u32,
    /// When they do after the job's start, ns.
    pub dies_ns: u64,
    /// The job goes on without them; otherwise it fails when the first is known to be dead.
    pub goes_on: bool,
    /// What things cost.
    pub costs: Costs,
}

impl Options {
    /// When all nodes have just said that they are there, so that it takes longest to find out, ns.
    #[must_use]
    pub fn latest_ns(nodes: u32) -> u64 {
        4 * PMI_WATCH_NS + u64::from(nodes) * APART_NS
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// From the deaths until the first node knew of one, ns.
    pub first_ns: u64,
    /// From then until all that live knew of that one, ns.
    pub spread_ns: u64,
    /// From the deaths until all that live knew of all, ns.
    pub all_ns: u64,
    /// Frames that a node sends in an interval when nothing happens, at most.
    pub quiet_frames: u64,
    /// Frames that a node sent from the deaths on until all knew, at most.
    pub frames: u64,
    /// The same of all nodes.
    pub all_frames: u64,
}

/// Runs until all that live know of all that died.
///
/// # Errors
/// There is no such job, or a node does not hear of it, or takes one that lives for dead: one line.
pub fn run(options: &Options) -> Result<Heard, String> {
    ring::Ring::new(options)?.run()
}

#[cfg(test)]
mod tests;
