//! `coppice-simulator failures`: how the nodes of a job hear of one that has died.

use std::num::NonZero;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use coppice_protocol::limits::PMI_WATCH_NS;
use coppice_simulator::failures::{Heard, Options, run};
use coppice_simulator::startup::Costs;

use crate::transfers::cost;

/// The first number of nodes in the table, and how much larger each other is than the one before.
const FIRST: u32 = 16;
const FACTOR: u32 = 4;

/// What dies.
#[derive(Args)]
pub(crate) struct Deaths {
    /// Nodes of the largest job
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN.saturating_add(16_383))]
    nodes: NonZero<u32>,
    /// Nodes that follow each other and die at the same time
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN)]
    deaths: NonZero<u32>,
    /// The job goes on without them
    #[arg(long)]
    goes_on: bool,
}

impl Deaths {
    /// Prints the table, and says what that took.
    pub(crate) fn show(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        println!(
            "{:>8} {:>12} {:>14} {:>12} {:>9} {:>9}",
            "", "first knows", "all know that", "all know", "frames", "frames"
        );
        println!("{:>8} {:>12} {:>14} {:>12} {:>9} {:>9}", "nodes", "s", "ms later", "all, s", "quiet*", "then*");
        let sizes = std::iter::successors(Some(FIRST), |size| size.checked_mul(FACTOR));
        let smaller = sizes.take_while(|size| *size < self.nodes.get()).filter(|size| *size > self.deaths.get());
        for nodes in smaller.chain([self.nodes.get()]) {
            let costs = Costs::default();
            let dies_ns = Options::latest_ns(nodes);
            let options = Options { nodes, deaths: self.deaths.get(), dies_ns, goes_on: self.goes_on, costs };
            let Heard { first_ns, spread_ns, all_ns, quiet_frames, frames, .. } =
                run(&options).map_err(|what| anyhow!("{what}"))?;
            println!(
                "{nodes:>8} {:>12.3} {:>14.3} {:>12.3} {quiet_frames:>9} {frames:>9}",
                first_ns as f64 / 1e9,
                spread_ns as f64 / 1e6,
                all_ns as f64 / 1e9
            );
        }
        println!(
            "* of the busiest node, in an interval of {} s, and from the deaths until all know",
            PMI_WATCH_NS as f64 / 1e9
        );
        cost::show(begin);
        Ok(())
    }
}
