//! Nodes of a job die while its ranks start and find each other, at any moment: before they are told of the job, in any
//! step of any algorithm, when others have come to their end. Nodes are the very servers of [`coppice_protocol::pmi`],
//! and ranks speak to them in its own words. What must hold for those that are left:
//!
//! - nobody hears anything wrong, and nobody leaves a barrier to which somebody has not come;
//! - nobody waits for ever: every rank comes to its end, or its node says why the job fails, within [`bound_ns`];
//! - nobody who lives is taken for dead.
//!
//! A seed is run twice, first without deaths: so the moment is one of those in which something happens.

mod node;
mod script;
mod world;

use coppice_protocol::limits::PMI_WATCH_NS;
use coppice_protocol::pmi::{Fence, Modex};

use crate::random::Random;
use crate::survivors::world::World;
use crate::{Failure, Report};

/// How large jobs are.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most nodes; a job has two to this many.
    pub nodes_max: u32,
    /// Most ranks of a node.
    pub ranks_per_node_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes_max: 20, ranks_per_node_max: 3 }
    }
}

/// From the last death, or the last launch if that comes later, until all that live have come to an end, at most, ns:
/// two intervals until somebody knows, as much again if those have died, too, who watched, and what news and the rest
/// of the ranks' lines take. Pending questions to the dead end then as well, and not when they are given up.
#[must_use]
pub const fn bound_ns(deaths: usize) -> u64 {
    let intervals = if deaths > 1 { 4 } else { 2 };
    intervals * PMI_WATCH_NS + 1_000_000_000
}

/// A job, as its seed has it.
#[derive(Clone, Copy, Debug)]
struct Job {
    nodes: u32,
    ranks_per_node: u32,
    modex: Modex,
    fence: Option<Fence>,
    /// It goes on without those that die.
    goes_on: bool,
    /// Between two nodes, at most, ns.
    latency_ns: u64,
    /// Nodes are told of the job within so long, ns.
    launches_ns: u64,
}

impl Job {
    fn of(random: &mut Random, options: &Options) -> Self {
        let algorithms = [Some(Fence::Dissemination), Some(Fence::Tree), Some(Fence::Ring), None];
        let most = options.nodes_max.max(2);
        Self {
            // Small ones are where most of what is peculiar is.
            nodes: random.between(2, random.clone().between(2, most.into())) as u32,
            ranks_per_node: random.between(1, options.ranks_per_node_max.max(1).into()) as u32,
            modex: if random.chance(500) { Modex::Full } else { Modex::Direct },
            fence: algorithms[random.length(0, algorithms.len() - 1)],
            goes_on: random.chance(400),
            latency_ns: random.delay(5_000_000).max(1_000),
            launches_ns: if random.chance(50) { random.delay(25_000_000_000) } else { random.delay(50_000_000) },
        }
    }

    fn ranks(&self) -> u32 {
        self.nodes * self.ranks_per_node
    }

    fn node_of(&self, rank: u32) -> u32 {
        rank / self.ranks_per_node
    }
}

/// Nodes that die, and when.
#[derive(Clone, Debug, Default)]
struct Deaths {
    /// Before this event, by its number in the run, counted from 0; the others die with it or after that many more.
    at: Vec<(u64, u32)>,
}

impl Deaths {
    /// In a run that has so many events.
    fn of(random: &mut Random, job: &Job, events: u64) -> Self {
        let most = (job.nodes - 1).min(3);
        let count = if random.chance(500) { 1 } else { random.between(1, most.into()) as u32 };
        let first = random.between(0, events.saturating_sub(1));
        let node = random.between(0, u64::from(job.nodes) - 1) as u32;
        // All at once or one after the other; neighbours, who watch each other, or anybody.
        let (is_at_once, are_neighbours) = (random.chance(600), random.chance(400));
        let mut at: Vec<(u64, u32)> = Vec::new();
        while (at.len() as u32) < count {
            let died = at.len() as u32;
            let near = if are_neighbours { died } else { random.between(0, u64::from(job.nodes) - 1) as u32 };
            let next = (node + near) % job.nodes;
            if at.iter().all(|(_, dead)| *dead != next) {
                let later = if is_at_once { 0 } else { random.between(0, events) };
                at.push((first + later, next));
            }
        }
        at.sort_unstable();
        Self { at }
    }
}

/// Runs one seed.
///
/// # Errors
/// [`Failure`]: something did not hold.
pub fn run(seed: u64, options: &Options) -> Result<Report, Failure> {
    let mut random = Random::new(seed);
    let job = Job::of(&mut random, options);
    let (_, events) = World::new(seed, job, Deaths::default()).run()?;
    let deaths = Deaths::of(&mut random, &job, events);
    World::new(seed, job, deaths).run().map(|(report, _)| report)
}

#[cfg(test)]
mod tests;
