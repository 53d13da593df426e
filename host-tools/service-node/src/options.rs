//! What `coppiced` is told when it is started; everything comes as arguments.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use coppice_api::limits::{
    CORES_MAX, NODE_MEMORY_BYTES_MAX, NODE_MEMORY_BYTES_MIN, NODE_REGION_BYTES_MAX, NODE_REGION_BYTES_MIN,
    NODE_REGION_MEMORIES_DEFAULT, NODES_DEFAULT, NODES_MAX, PSET_NODES_DEFAULT, PSET_NODES_MAX,
};
use coppice_api::paths::ClusterName;
use coppice_protocol::retain::RetentionPolicy;
use coppice_qemu::processor::Processor;

/// The service node of one Coppice cluster. Started by `coppice up`.
#[derive(Clone, Debug, Parser)]
#[command(name = "coppiced", version, max_term_width = 100)]
pub struct Options {
    /// Name of the cluster
    #[arg(long, default_value = "default")]
    pub cluster: ClusterName,
    /// Compute nodes
    #[arg(long, default_value_t = NODES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// Cores of each node
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(CORES_MAX)))]
    pub cores: u16,
    /// Memory of each node, bytes
    #[arg(long, default_value_t = 64 << 20,
          value_parser = clap::value_parser!(u64).range(NODE_MEMORY_BYTES_MIN..=NODE_MEMORY_BYTES_MAX))]
    pub memory_bytes: u64,
    /// Length of each node's region, bytes, a whole number of MiB; 0: none; without it twice the memory
    #[arg(long, value_parser = parse_region_bytes)]
    pub nmr_bytes: Option<u64>,
    /// Compute nodes per I/O node
    #[arg(long, default_value_t = PSET_NODES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PSET_NODES_MAX)))]
    pub pset_size: u32,
    /// How nodes are executed
    #[arg(long, value_enum, default_value_t = AcceleratorChoice::Auto)]
    pub accel: AcceleratorChoice,
    /// Processor of each node, MODEL[,±FEATURE|,NAME=VALUE…]
    #[arg(long)]
    pub cpu: Option<Processor>,
    /// Let the nodes' clocks count instructions
    #[arg(long)]
    pub icount: bool,
    /// What nodes keep of the programs that ran on them
    #[arg(long, value_enum, default_value_t = RetentionChoice::Many)]
    pub retention: RetentionChoice,
    /// TCP port of loopback where metrics are scraped; 0: any that is free; without it none
    #[arg(long)]
    pub metrics_port: Option<u16>,
    /// Directory of checkpoints; without it one in the cluster's state directory
    #[arg(long)]
    pub storage: Option<PathBuf>,
    /// How often nodes take processes apart and make them again, ns; 0: never
    #[arg(long, default_value_t = 0)]
    pub freeze_every_ns: u64,
    /// Frames lost on every link, each way, of a million
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub loss_ppm: u32,
    /// How long a frame takes over every link, each way, ns
    #[arg(long, default_value_t = 0)]
    pub latency_ns: u64,
    /// Bits per second of every link, each way; without it no limit
    #[arg(long)]
    pub bandwidth_bits_per_s: Option<u64>,
}

impl Options {
    /// Length of each node's region, bytes; 0: none.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        self.nmr_bytes.unwrap_or(self.memory_bytes.saturating_mul(NODE_REGION_MEMORIES_DEFAULT))
    }
}

fn parse_region_bytes(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| match bytes {
        0 => true,
        bytes => (NODE_REGION_BYTES_MIN..=NODE_REGION_BYTES_MAX).contains(bytes) && bytes.is_multiple_of(1 << 20),
    };
    let error = || format!("give 0, or a whole number of MiB from {NODE_REGION_BYTES_MIN} to {NODE_REGION_BYTES_MAX}");
    text.parse().ok().filter(fits).ok_or_else(error)
}

/// What nodes keep of the programs that ran on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RetentionChoice {
    /// Pages of several programs, as long as their memory is not wanted
    Many,
    /// Of the one that is run again alone
    One,
}

impl From<RetentionChoice> for RetentionPolicy {
    fn from(choice: RetentionChoice) -> Self {
        match choice {
            RetentionChoice::Many => Self::Many,
            RetentionChoice::One => Self::One,
        }
    }
}

/// How nodes are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorChoice {
    /// KVM if it works, else emulation
    Auto,
    /// Emulation
    Tcg,
    /// KVM
    Kvm,
}
