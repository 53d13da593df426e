//! `coppice-simulator startup`: how long a job takes to start, phase by phase, in the old order and in the new one.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::Args;
use coppice_simulator::plot::{Axes, Curve, svg};
use coppice_simulator::startup::{Costs, Options, Order, Started, run};

use crate::transfers::{cost, sweep};

/// What is drawn.
const AXES: Axes = Axes { x: "nodes", y: "submission to the last rank past MPI_Init, ms" };
/// The first number of nodes that is drawn, and how much larger each other is than the one before.
const FIRST: u32 = 16;
const FACTOR: u32 = 4;

/// What the orders are called.
const ORDERS: [(&str, Order); 2] = [("new order", Order::New), ("old order", Order::Old)];

/// What starts.
#[derive(Args)]
pub(crate) struct Starts {
    /// Nodes of the job
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN.saturating_add(16_383))]
    nodes: NonZero<u32>,
    /// Ranks on each
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN.saturating_add(63))]
    ranks_per_node: NonZero<u32>,
    /// Nodes of a pset
    #[arg(long, value_name = "N", default_value_t = NonZero::<u32>::MIN.saturating_add(63))]
    pset_size: NonZero<u32>,
    /// Also run both orders with 16, 64, 256 … nodes, up to those above, and draw that to this file (SVG)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

impl Starts {
    /// Prints the table and draws the plot, if that is wanted, and says what that took.
    pub(crate) fn show(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.plot.as_deref().map_or(Ok(()), sweep::check)?;
        self.show_table()?;
        if let Some(path) = &self.plot {
            self.draw(path)?;
        }
        cost::show(begin);
        Ok(())
    }

    fn options(&self, nodes: u32, order: Order) -> Options {
        let (ranks_per_node, pset_nodes) = (self.ranks_per_node.get(), self.pset_size.get());
        Options { nodes, ranks_per_node, pset_nodes, order, fence: None, costs: Costs::default() }
    }

    fn run(&self, nodes: u32, order: Order) -> anyhow::Result<Started> {
        run(&self.options(nodes, order)).map_err(|what| anyhow!("{what}"))
    }

    fn show_table(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.get();
        let Costs { link_bytes_per_second, latency_ns, cores, .. } = Costs::default();
        println!(
            "{} ranks on {nodes} nodes of {cores} cores, {} nodes of a pset, {} Gbit/s and {} us",
            self.options(nodes, Order::New).ranks(),
            self.pset_size,
            link_bytes_per_second as f64 * 8e-9,
            latency_ns as f64 / 1e3
        );
        print!("{:44}", "ms since the job was submitted, last of all");
        let mut columns = Vec::new();
        for (name, order) in ORDERS {
            let is_modelled = self.options(nodes, order).is_modelled();
            print!(" {:>16}", format!("{name}{}", if is_modelled { "*" } else { "" }));
            columns.push(self.run(nodes, order)?);
        }
        println!();
        type Figure = fn(&Started) -> u64;
        let phases: [(&str, Figure); 7] = [
            ("I/O nodes were told", |it| it.told_ns),
            ("nodes were told", |it| it.launched_ns),
            ("ranks run", |it| it.running_ns),
            ("ranks have put their cards", |it| it.put_ns),
            ("ranks have met", |it| it.met_ns),
            ("ranks have met again: past MPI_Init", |it| it.past_init_ns),
            ("ranks have their neighbour's card", |it| it.card_ns),
        ];
        for (name, of) in phases {
            print!("{name:44}");
            columns.iter().for_each(|started| print!(" {:>16.1}", of(started) as f64 / 1e6));
            println!();
        }
        let sizes: [(&str, Figure); 3] = [
            ("frames between nodes", |it| it.frames),
            ("bytes that the busiest node sends", |it| it.node_bytes),
            ("bytes of memory for it, largest node", |it| it.memory_bytes),
        ];
        for (name, of) in sizes {
            print!("{name:44}");
            columns.iter().for_each(|started| print!(" {:>16}", of(started)));
            println!();
        }
        if ORDERS.iter().any(|(_, order)| self.options(nodes, *order).is_modelled()) {
            println!(
                "* its barrier that brings all cards is a model; runs of the real one are beside it in smaller jobs"
            );
        }
        Ok(())
    }

    fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let sizes = std::iter::successors(Some(FIRST), |size| size.checked_mul(FACTOR));
        let mut sizes: Vec<u32> = sizes.take_while(|size| *size < self.nodes.get()).collect();
        sizes.push(self.nodes.get());
        print!("\n{:44}", "past MPI_Init, ms, with so many nodes");
        sizes.iter().for_each(|size| print!(" {size:>9}"));
        println!();
        let mut curves = Vec::new();
        for (name, order) in ORDERS {
            print!("{name:44}");
            let mut points = Vec::new();
            for nodes in sizes.iter().copied() {
                let ms = self.run(nodes, order)?.past_init_ns as f64 / 1e6;
                print!(" {ms:>9.1}");
                points.push((nodes, ms));
            }
            println!();
            let is_model = sizes.iter().any(|nodes| self.options(*nodes, order).is_modelled());
            curves.push(Curve { name: name.into(), is_model, points });
        }
        let text = svg(&curves, AXES).map_err(|what| anyhow!("--plot: {what}"))?;
        std::fs::write(path, text).with_context(|| format!("cannot write the plot to {}", path.display()))
    }
}
