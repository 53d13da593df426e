//! The start of a job of up to a million ranks, from its submission until the last rank is past `MPI_Init`.
//!
//! Nodes are the very servers and conversations of [`coppice_protocol::pmi`], one for each node and one for each rank;
//! what they work, and what goes over links, takes its time ([`Costs`]). Two orders are compared:
//!
//! - the **new** one: one launch for each node, keys are kept where they are put, barriers carry nothing, and whoever
//!   wants a card asks for it;
//! - the **old** one: a launch for each rank, and a barrier that brings every node the cards of all ranks. No host has
//!   the memory of 16,384 nodes that each know a million cards, so beyond [`Options::REAL_CARDS_MAX`] that barrier is a
//!   model ([`model`]), which is laid beside runs of the real one where these are possible.

mod costs;
mod meeting;
mod model;
mod telling;

use coppice_protocol::ids::NodeId;
use coppice_protocol::pmi::{Fence, Modex, Placement};
use coppice_protocol::world::{JobKey, World};

pub use self::costs::Costs;
pub use self::model::full_fence;

/// A way in which a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// See this module.
    New,
    /// See this module.
    Old,
}

/// A start.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// Nodes of a pset, which have one I/O node.
    pub pset_nodes: u32,
    /// The way.
    pub order: Order,
    /// The algorithm of barriers, if it is not to be chosen.
    pub fence: Option<Fence>,
    /// What things cost.
    pub costs: Costs,
}

impl Options {
    /// Cards that all nodes of a run together may know: those of each rank once on each node.
    pub const REAL_CARDS_MAX: u64 = 4_000_000;

    /// Ranks of the job.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.nodes.saturating_mul(self.ranks_per_node)
    }

    /// Whether its barriers are too much for real ones.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        self.order == Order::Old && u64::from(self.ranks()) * u64::from(self.nodes) > Self::REAL_CARDS_MAX
    }

    fn placement(&self) -> Result<Placement, String> {
        let world = World::new(JobKey([7; 32]), self.ranks_per_node, (0..self.nodes).map(NodeId));
        world.placement(self.ranks()).map_err(|error| error.to_string())
    }

    fn modex(&self) -> Modex {
        match self.order {
            Order::New => Modex::Direct,
            Order::Old => Modex::Full,
        }
    }
}

/// When the last one had come so far, ns since the job was submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Started {
    /// The I/O nodes had been told of the job.
    pub told_ns: u64,
    /// All nodes had been told.
    pub launched_ns: u64,
    /// All ranks ran.
    pub running_ns: u64,
    /// All ranks had put their cards and come to the first barrier.
    pub put_ns: u64,
    /// All ranks had left the first barrier, which makes cards known.
    pub met_ns: u64,
    /// All ranks had left the second one, and were past `MPI_Init`.
    pub past_init_ns: u64,
    /// All ranks had the card of their neighbour.
    pub card_ns: u64,
    /// Frames that servers sent each other.
    pub frames: u64,
    /// Bytes that the busiest node sent to others.
    pub node_bytes: u64,
    /// What the largest server took of its node's memory, about, bytes.
    pub memory_bytes: u64,
}

/// Runs a start to its end.
///
/// # Errors
/// There is no such job, or something did not go as it must: one line.
pub fn run(options: &Options) -> Result<Started, String> {
    let told = telling::tell(options);
    let mut started = told.started;
    if options.is_modelled() {
        model::go_on(options, &mut started);
    } else {
        meeting::Meeting::new(options, &told.ranks_run_ns)?.run(&mut started)?;
    }
    Ok(started)
}

#[cfg(test)]
mod tests;
