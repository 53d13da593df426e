//! `crowd`: what a job on very many nodes costs the service node, as a table; `served`: such a cluster to look at.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::Args;
use coppice_protocol::limits::RANKS_PER_NODE_MAX;
use coppice_simulator::crowd::{Costs, Ended, Options, run, serve};

/// The sizes that are shown if none is named: nodes, and ranks on each.
const SIZES: [(u32, u32); 3] = [(64, 4), (1024, 64), (16_384, 4)];

/// One job on a cluster of very many nodes.
#[derive(Args)]
pub(crate) struct Crowd {
    /// Nodes of the cluster [default: a table of several sizes]
    #[arg(long, value_name = "N", requires = "ranks_per_node")]
    nodes: Option<u32>,
    /// Ranks of the job on each of them
    #[arg(long, value_name = "R", requires = "nodes")]
    ranks_per_node: Option<u32>,
    /// Nodes of a pset
    #[arg(long, value_name = "N", default_value_t = Options::default().pset_size)]
    pset_size: u32,
}

impl Crowd {
    /// Runs and prints.
    ///
    /// # Errors
    /// If a job did not end as it must.
    pub(crate) fn show(&self) -> anyhow::Result<()> {
        let sizes = match (self.nodes, self.ranks_per_node) {
            (Some(nodes), Some(ranks)) => vec![(nodes, ranks)],
            _ => SIZES.to_vec(),
        };
        println!("processor time of the service node (controller with its database, in this process):");
        println!(
            "{:>7} {:>6} {:>9} {:>9} {:>10} {:>10} {:>10} {:>12} {:>12}",
            "nodes", "ranks", "start", "end", "messages", "bytes", "per node", "bytes down", "bytes up"
        );
        for (nodes, ranks_per_node) in sizes {
            if nodes == 0 || self.pset_size == 0 || !(1..=RANKS_PER_NODE_MAX).contains(&ranks_per_node) {
                bail!("there is at least one node and at most {RANKS_PER_NODE_MAX} ranks on it, and a pset has a node");
            }
            let options = Options { nodes, ranks_per_node, pset_size: self.pset_size, ..Options::default() };
            let (ended, costs) = run(&options).map_err(|error| anyhow!(error))?;
            show(&options, &ended, &costs)?;
        }
        println!(
            "messages and bytes: between I/O nodes and service node; per node: control messages of a node, down and \
             up, and their bytes"
        );
        Ok(())
    }
}

fn show(options: &Options, ended: &Ended, costs: &Costs) -> anyhow::Result<()> {
    let ranks = u64::from(options.nodes) * u64::from(options.ranks_per_node);
    if ended.exit_status != 0 || ended.reports as u64 != ranks {
        bail!("{ended:?} where {ranks} ranks should have ended");
    }
    let nodes = f64::from(options.nodes);
    let each = |sum: u64| sum as f64 / nodes;
    println!(
        "{:>7} {:>6} {:>6} ms {:>6} ms {:>10} {:>10} {:>10.1} {:>12.0} {:>12.0}",
        options.nodes,
        ranks,
        costs.start.as_millis(),
        costs.end.as_millis(),
        costs.psets.messages_down + costs.psets.messages_up,
        costs.psets.bytes_down + costs.psets.bytes_up,
        each(costs.nodes.messages_down + costs.nodes.messages_up),
        each(costs.nodes.bytes_down),
        each(costs.nodes.bytes_up),
    );
    Ok(())
}

/// A cluster that answers.
#[derive(Args)]
pub(crate) struct Served {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    nodes: u32,
    /// Jobs that have ended
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    past: u64,
    /// Directory of the clusters of this user, which is there: tools find it with `COPPICE_HOME` set to it
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
}

impl Served {
    /// Serves it until SIGINT or SIGTERM. A line on standard output says that it can be asked.
    ///
    /// # Errors
    /// If it cannot be.
    pub(crate) fn serve(&self) -> anyhow::Result<()> {
        let home = std::path::absolute(&self.home)?;
        let options = Options { nodes: self.nodes, ranks_per_node: 1, lasts_ns: u64::MAX, ..Options::default() };
        serve(&options, self.past, &home, || println!("up")).map_err(|error| anyhow!(error))
    }
}
