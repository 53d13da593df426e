//! Files that several nodes use at a time, and of which nodes keep what they know.
//!
//! What ranks do to files follows from a seed (`tests/guests/c/coherence.c`), so each knows what it must see. The suite
//! tries a few seeds; `COPPICE_SEED` begins elsewhere, and `COPPICE_SECONDS` goes on for so long.

use std::path::Path;
use std::time::{Duration, Instant};

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

/// Ranks of each node, of two nodes.
const PER_NODE: u32 = 2;
/// What is done to files for one seed.
const STEPS: u32 = 1500;
/// Seeds of the suite.
const SEEDS: u64 = 4;

fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// FNV-1a, as the guest has it.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Has ranks do what follows from a seed, and looks whether the files are what the guest says.
#[track_caller]
fn try_seed(cluster: &Cluster, path: &Path, seed: u64, io: &str) {
    let (ranks, per_node) = ((2 * PER_NODE).to_string(), PER_NODE.to_string());
    let (seed_text, steps) = (seed.to_string(), STEPS.to_string());
    let path = path.to_str().expect("a path");
    let command = ["-n", &ranks, "--ranks-per-node", &per_node, "--io", io, path, &seed_text, &steps, &per_node];
    let ran = cluster.run(&command);
    let text = ran.text();
    assert_eq!(ran.status, 0, "seed {seed}, {io}: {text}{}", ran.stderr);
    for line in text.lines() {
        let [name, length, digest] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes = std::fs::read(cluster.root().join(name)).expect("it is there");
        assert_eq!((bytes.len().to_string(), format!("{:x}", sum(&bytes))), (length.into(), digest.into()), "{name}");
        std::fs::remove_file(cluster.root().join(name)).expect("it can be removed");
    }
}

#[test]
fn what_one_rank_wrote_every_other_reads_at_once() {
    let cluster = Cluster::up(2);
    let path = program("coherence", Toolchain::Glibc);
    let first = told("COPPICE_SEED").unwrap_or(1);
    let end = told("COPPICE_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut tried = 0;
    while end.map_or(tried < SEEDS, |end| Instant::now() < end) {
        try_seed(&cluster, &path, first + tried, "leased");
        tried += 1;
    }
    try_seed(&cluster, &path, first + tried, "strict");
    println!("{tried} seeds");
}
