//! `coppice-simulator distribution`: one file to many members, in several ways, each beside the time that its bytes
//! take on one link.

pub(crate) mod cost;
mod psets;
pub(crate) mod sweep;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::Args;
use coppice_protocol::distribution::{AskVariant, Link, Plan, Scheme, TransferId};
use coppice_protocol::ids::Generation;
use coppice_protocol::trees::Topology;
use coppice_simulator::distribution::{Faults, Model, Options, Psets, Transferred, bound_ns, random_pull, run};

/// Headers of a datagram on the wire: Ethernet with preamble, check and gap, IPv4, UDP, and the transfer's own.
const OVERHEAD_BYTES: u32 = 38 + 20 + 8 + 64;
/// What may wait for a link, bytes.
const BUFFER_BYTES: u64 = 4_000_000;
/// A transfer that takes longer is given up, simulated ns.
const LIMIT_NS: u64 = 60_000_000_000;
/// More members are too many for the model in which each knows what its neighbours have.
const RANDOM_PULL_MEMBERS_MAX: u32 = 32_768;
const RANDOM_PULL: &str = "model: random pull, rarest first";
/// Pieces of the published scheme, and branches.
const BRANCHES: u64 = 128;

/// What the machines do.
const SCHEMES: [(&str, Scheme); 3] = [
    ("two trees", Scheme::TwoTrees),
    ("published scheme, piece first", Scheme::Branches { branches: u32::MAX, layers: 2, ask: AskVariant::PieceFirst }),
    ("published scheme, node first", Scheme::Branches { branches: u32::MAX, layers: 2, ask: AskVariant::NodeFirst }),
];
/// What people use today, beside [`RANDOM_PULL`].
const MODELS: [(&str, Model); 5] = [
    ("model: one copy after another", Model::Sequential),
    ("model: whole files through a tree of 128", Model::StoreAndForward(128)),
    ("model: sbcast, fan-out 50", Model::StoreAndForward(50)),
    ("model: binomial tree", Model::Binomial),
    ("model: chain, piece by piece", Model::Chain),
];

/// What to transfer, over what.
#[derive(Args)]
pub(crate) struct Transfer {
    /// Members beside home
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    members: u32,
    /// Length of the file
    #[arg(long, value_name = "BYTES", default_value_t = 50_000_000)]
    bytes: u64,
    /// Length of a piece, for two trees
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    piece: u32,
    /// Bytes of a piece in a packet
    #[arg(long, value_name = "BYTES", default_value_t = 8192)]
    packet: u32,
    /// Bandwidth of every link, Gbit/s
    #[arg(long, value_name = "G", default_value_t = 10.0)]
    bandwidth: f64,
    /// Latency between any two, microseconds
    #[arg(long, value_name = "US", default_value_t = 5.0)]
    latency: f64,
    /// How long a member, or the way to it, may stand still before it is taken for dead, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    stall: u32,
    /// Probabilities that a packet is lost, where something is: a row for each
    #[arg(long, value_name = "P", value_delimiter = ',', default_values_t = [0.001, 0.01])]
    loss: Vec<f64>,
    /// Share of the members that die, where some do
    #[arg(long, value_name = "P", default_value_t = 0.01)]
    dying: f64,
    /// Share of the members whose links are ten times slower, where some are
    #[arg(long, value_name = "P", default_value_t = 0.01)]
    slow: f64,
    /// Where random choices come from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Two trees without faults, and nothing else
    #[arg(long)]
    short: bool,
    /// Only two trees among psets of so many of the members each, with an I/O node more
    #[arg(long, value_name = "N", conflicts_with_all = ["short", "plot"])]
    pset: Option<NonZero<u32>>,
    /// Bandwidth of each pset's link to the others, Gbit/s [default: that of every link]
    #[arg(long, value_name = "G", requires = "pset")]
    pset_bandwidth: Option<f64>,
    /// Also run each way without faults for 16, 64, 256 … members, up to those above, and draw that to this file (SVG)
    #[arg(long, value_name = "FILE", conflicts_with = "short")]
    plot: Option<PathBuf>,
}

impl Transfer {
    fn plan(&self, scheme: Scheme, members: u32) -> Plan {
        let mut plan = Plan {
            transfer: TransferId { number: 1, generation: Generation(1) },
            bytes: self.bytes,
            piece_bytes: self.piece,
            packet_bytes: self.packet,
            overhead_bytes: OVERHEAD_BYTES,
            members,
            topology: Topology::one_pset(),
            scheme,
            link: Link {
                bytes_per_second: (self.bandwidth * 1e9 / 8.0) as u64,
                latency_ns: (self.latency * 1000.0) as u32,
                stall_ns: self.stall.saturating_mul(1_000_000),
            },
        };
        if let Scheme::Branches { .. } = scheme {
            // As published: one piece for each branch, and nothing but its bytes on the links.
            plan.piece_bytes = u32::try_from(self.bytes.div_ceil(BRANCHES)).unwrap_or(u32::MAX);
            plan.packet_bytes = plan.packet_bytes.max(plan.piece_bytes.div_ceil(32));
            plan.overhead_bytes = 0;
            plan.link.latency_ns = 0;
        }
        plan
    }

    /// Prints the table and draws the plot, if that is wanted, and says what that took.
    pub(crate) fn show(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.plot.as_deref().map_or(Ok(()), sweep::check)?;
        match self.pset {
            Some(pset) => psets::show(self, pset)?,
            None => self.show_table()?,
        }
        self.plot.as_deref().map_or(Ok(()), |path| sweep::show(self, path))?;
        cost::show(begin);
        Ok(())
    }

    fn show_table(&self) -> anyhow::Result<()> {
        let plan = self.plan(Scheme::TwoTrees, self.members);
        println!(
            "{} bytes to {} members at {} Gbit/s and {} us; the bytes alone take {:.3} ms on one link",
            self.bytes,
            self.members,
            self.bandwidth,
            self.latency,
            bound_ns(&plan) / 1e6
        );
        println!(
            "{:44} {:>9} {:>8} {:>9} {:>8} {:>9} {:>7}",
            "", "whole ms", "x bound", "known ms", "of home", "asked", "lost"
        );
        self.simulate(SCHEMES[0].0, Scheme::TwoTrees, Faults::default())?;
        if self.short {
            return Ok(());
        }
        let Self { dying, slow, .. } = *self;
        for loss in self.loss.iter().copied() {
            let lossy = format!("two trees, {} % of packets lost", loss * 100.0);
            self.simulate(&lossy, Scheme::TwoTrees, Faults { loss, ..Faults::default() })?;
        }
        let loss = self.loss.first().copied().unwrap_or(0.0);
        let dead = format!("two trees, {} % lost and {} % of members die", loss * 100.0, dying * 100.0);
        self.simulate(&dead, Scheme::TwoTrees, Faults { loss, dying, ..Faults::default() })?;
        let next = "two trees, one next to home dies";
        self.simulate(next, Scheme::TwoTrees, Faults { next_dies: true, ..Faults::default() })?;
        let slower = format!("two trees, {} % ten times slower: the others", slow * 100.0);
        self.simulate(&slower, Scheme::TwoTrees, Faults { slow, ..Faults::default() })?;
        for (name, scheme) in &SCHEMES[1..] {
            self.simulate(name, *scheme, Faults::default())?;
        }
        for (name, model) in MODELS {
            row(name, model.whole_ns(&plan), &plan);
        }
        if self.members <= RANDOM_PULL_MEMBERS_MAX {
            row(RANDOM_PULL, random_pull(&plan, self.seed), &plan);
        }
        Ok(())
    }

    fn run(&self, plan: &Plan, faults: Faults) -> anyhow::Result<Transferred> {
        let buffer_bytes = match plan.scheme {
            Scheme::TwoTrees => BUFFER_BYTES,
            // Whole pieces wait for each other.
            Scheme::Branches { .. } => self.bytes.saturating_mul(2),
        };
        self.run_with(plan, faults, None, buffer_bytes)
    }

    fn run_with(
        &self,
        plan: &Plan,
        faults: Faults,
        psets: Option<Psets>,
        buffer_bytes: u64,
    ) -> anyhow::Result<Transferred> {
        let (plan, seed) = (plan.clone(), self.seed);
        let options = Options { plan, seed, faults, psets, buffer_bytes, check_ns: 0, limit_ns: LIMIT_NS };
        run(&options).map_err(|what| anyhow!("{what}"))
    }

    fn simulate(&self, name: &str, scheme: Scheme, faults: Faults) -> anyhow::Result<()> {
        let plan = self.plan(scheme, self.members);
        let result = self.run(&plan, faults).with_context(|| name.to_owned())?;
        println!(
            "{name:44} {:>9.3} {:>8.3} {:>9.3} {:>8.3} {:>9} {:>7}",
            result.quick_ns as f64 / 1e6,
            result.of_bound(&plan),
            result.known_ns as f64 / 1e6,
            result.home_bytes as f64 / self.bytes as f64,
            result.asks,
            result.lost
        );
        if result.incomplete > 0 {
            println!("{:44} {} members never got it", "", result.incomplete);
        }
        Ok(())
    }
}

fn row(name: &str, whole_ns: f64, plan: &Plan) {
    println!("{name:44} {:>9.3} {:>8.3}", whole_ns / 1e6, whole_ns / bound_ns(plan));
}
