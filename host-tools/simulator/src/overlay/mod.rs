//! The performance overlay of a job among faults: the very machines of [`coppice_protocol::overlay`], the front end,
//! and on each node its back ends and the communication processes that run there. Nodes die, come late or lie, the
//! front end is made anew, and every message takes its time. What must hold:
//!
//! - what is said of an epoch is exact: it is the sum over the ranks that are said to be in it, each once;
//! - no rank is in an epoch that has not said anything of it, or that is not of the job;
//! - when nothing goes wrong any more, all that live are in every epoch, and *k of n* says so;
//! - no rank is seen somewhere in its program more often than it was there;
//! - what a node said that lives is not lost because one process on the way died.

mod checker;
mod node;
pub mod scale;
mod world;

use crate::random::Random;
use crate::{Failure, Report};

/// How large and how long a run is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most nodes; a job has one to this many.
    pub nodes_max: u32,
    /// Most ranks of a node.
    pub ranks_per_node_max: u32,
    /// Epochs in which things go wrong.
    pub faulty_epochs: u64,
    /// Epochs after that.
    pub quiet_epochs: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes_max: 60, ranks_per_node_max: 4, faulty_epochs: 20, quiet_epochs: 12 }
    }
}

/// How processes come to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    Average,
    Comprehensive,
    File,
}

/// A job, as its seed has it.
#[derive(Clone, Copy, Debug)]
struct Job {
    nodes: u32,
    ranks_per_node: u32,
    placed: Placed,
    period_ns: u64,
    /// Between any two, at most, ns.
    latency_ns: u64,
    /// How long it takes until the front end hears of a death, at most, ns.
    hears_ns: u64,
    /// In a hundred epochs so many nodes die.
    deaths_percent: u64,
    /// The front end is made anew once.
    has_new_front_end: bool,
}

impl Job {
    fn of(random: &mut Random, options: &Options) -> Self {
        let most = random.between(1, options.nodes_max.max(1).into());
        let period_ns = [100_000_000, 1_000_000_000][random.length(0, 1)];
        Self {
            nodes: random.between(1, most) as u32,
            ranks_per_node: random.between(1, options.ranks_per_node_max.max(1).into()) as u32,
            placed: [Placed::Average, Placed::Comprehensive, Placed::File][random.length(0, 2)],
            period_ns,
            latency_ns: random.delay(5_000_000).max(2_000),
            hears_ns: random.delay(2 * period_ns),
            deaths_percent: if random.chance(200) { 0 } else { random.between(1, 30) },
            has_new_front_end: random.chance(150),
        }
    }

    fn size(&self) -> u32 {
        self.nodes * self.ranks_per_node
    }
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: something did not hold.
pub fn run(seed: u64, options: &Options) -> Result<Report, Failure> {
    let mut random = Random::new(seed);
    let job = Job::of(&mut random, options);
    world::World::new(seed, job, *options, random).run()
}

#[cfg(test)]
mod tests;
