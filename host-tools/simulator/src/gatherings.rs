//! `coppice-simulator gathering`: what the overlay of a very large job takes.

use std::num::NonZero;
use std::time::Instant;

use clap::Args;
use coppice_simulator::overlay::scale::{Costs, Scale, run};

use crate::transfers::cost;

/// How much larger each job is than the one before.
const FACTOR: u32 = 8;
/// The first number of nodes.
const FIRST: u32 = 32;
const EPOCHS: u64 = 3;

/// What is gathered.
#[derive(Args)]
pub(crate) struct Gatherings {
    /// Most nodes of the job: it is tried with 32, 256, 2048 … up to these
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN.saturating_add(16_383))]
    nodes: NonZero<u32>,
    /// Ranks on each
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN.saturating_add(15))]
    ranks_per_node: NonZero<u32>,
}

impl Gatherings {
    /// Prints the table, and says what that took.
    pub(crate) fn show(&self) {
        let begin = Instant::now();
        let costs = Costs::default();
        let (each, most) = (self.ranks_per_node.get(), self.nodes.get());
        println!(
            "{each} ranks on each node, {} Gbit/s and {} us; nodes work {} us for a message and {} ns for each byte",
            costs.link_bytes_per_second as f64 * 8e-9,
            costs.latency_ns as f64 / 1e3,
            costs.message_ns as f64 / 1e3,
            costs.byte_ns
        );
        println!(
            "{:>8} {:>10} {:>6} {:>10} {:>14} {:>16} {:>14}",
            "nodes", "processes", "depth", "start, ms", "an epoch, ms", "to front end, B", "by all, B"
        );
        let mut nodes = FIRST.min(most);
        loop {
            let gathered = run(&Scale { nodes, ranks_per_node: each, epochs: EPOCHS, costs });
            println!(
                "{nodes:>8} {:>10} {:>6} {:>10.1} {:>14.2} {:>16} {:>14}",
                gathered.processes,
                gathered.depth,
                gathered.start_ns as f64 / 1e6,
                gathered.lag_ns as f64 / 1e6,
                gathered.front_end_bytes,
                gathered.all_bytes
            );
            if nodes >= most {
                break;
            }
            nodes = nodes.saturating_mul(FACTOR).min(most);
        }
        cost::show(begin);
    }
}
