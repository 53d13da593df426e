//! `coppice-simulator distribution`: one file to many members, in several ways, each beside the time that its bytes
//! take on one link.

use anyhow::anyhow;
use clap::Args;
use coppice_protocol::distribution::{AskVariant, Link, Plan, Scheme, TransferId};
use coppice_protocol::ids::Generation;
use coppice_simulator::distribution::{Faults, Model, Options, bound_ns, random_pull, run};

/// Headers of a datagram on the wire: Ethernet with preamble, check and gap, IPv4, UDP, and the transfer's own.
const OVERHEAD_BYTES: u32 = 38 + 20 + 8 + 64;
/// What may wait for a link, bytes.
const BUFFER_BYTES: u64 = 4_000_000;
/// A transfer that takes longer is given up, simulated ns.
const LIMIT_NS: u64 = 60_000_000_000;
/// More members are too many for the model that looks at all of them at each step.
const RANDOM_PULL_MEMBERS_MAX: u32 = 4096;
/// Pieces of the published scheme, and branches.
const BRANCHES: u64 = 128;

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
    /// Probability that a packet is lost, where something is
    #[arg(long, value_name = "P", default_value_t = 0.001)]
    loss: f64,
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
}

impl Transfer {
    fn plan(&self, scheme: Scheme) -> Plan {
        let mut plan = Plan {
            transfer: TransferId { number: 1, generation: Generation(1) },
            bytes: self.bytes,
            piece_bytes: self.piece,
            packet_bytes: self.packet,
            overhead_bytes: OVERHEAD_BYTES,
            members: self.members,
            scheme,
            link: Link {
                bytes_per_second: (self.bandwidth * 1e9 / 8.0) as u64,
                latency_ns: (self.latency * 1000.0) as u32,
                stall_ns: 0,
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

    /// Prints the table.
    pub(crate) fn show(&self) -> anyhow::Result<()> {
        let plan = self.plan(Scheme::TwoTrees);
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
        self.simulate("two trees", Scheme::TwoTrees, Faults::default())?;
        if self.short {
            return Ok(());
        }
        let Self { loss, dying, slow, .. } = *self;
        let lossy = format!("two trees, {} % of packets lost", loss * 100.0);
        self.simulate(&lossy, Scheme::TwoTrees, Faults { loss, ..Faults::default() })?;
        let dead = format!("two trees, that and {} % of members die", dying * 100.0);
        self.simulate(&dead, Scheme::TwoTrees, Faults { loss, dying, ..Faults::default() })?;
        let slower = format!("two trees, {} % ten times slower: the others", slow * 100.0);
        self.simulate(&slower, Scheme::TwoTrees, Faults { slow, ..Faults::default() })?;
        for (name, ask) in [("piece", AskVariant::PieceFirst), ("node", AskVariant::NodeFirst)] {
            let name = format!("published scheme, {name} first");
            self.simulate(&name, Scheme::Branches { layers: 2, ask }, Faults::default())?;
        }
        for (name, model) in [
            ("model: one copy after another", Model::Sequential),
            ("model: whole files through a tree of 128", Model::StoreAndForward(128)),
            ("model: sbcast, fan-out 50", Model::StoreAndForward(50)),
            ("model: binomial tree", Model::Binomial),
            ("model: chain, piece by piece", Model::Chain),
        ] {
            row(name, model.whole_ns(&plan), &plan);
        }
        if self.members <= RANDOM_PULL_MEMBERS_MAX {
            row("model: random pull, rarest first", random_pull(&plan, self.seed), &plan);
        }
        Ok(())
    }

    fn simulate(&self, name: &str, scheme: Scheme, faults: Faults) -> anyhow::Result<()> {
        let plan = self.plan(scheme);
        let buffer_bytes = match scheme {
            Scheme::TwoTrees => BUFFER_BYTES,
            // Whole pieces wait for each other.
            Scheme::Branches { .. } => self.bytes * 2,
        };
        let options = Options { plan, seed: self.seed, faults, buffer_bytes, check_ns: 0, limit_ns: LIMIT_NS };
        let result = run(&options).map_err(|what| anyhow!("{name}: {what}"))?;
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
