//! Whole clusters: many seeds, and what they must have seen.

use std::collections::BTreeMap;

use coppice_simulator::cluster::{Options, run};

/// The seeds that every test run tries, split so that both cores have something to do.
const SEEDS: u64 = 20;

/// What must have happened in each half of the seeds: checkers that never see it check nothing.
const MUST_HAPPEN: [&str; 20] = [
    "fault: I/O node killed",
    "fault: I/O node stopped",
    "fault: connection cut",
    "fault: disk that does not answer",
    "fault: fabric killed",
    "fault: fabric stopped",
    "fault: machine killed",
    "fault: machine stopped",
    "fault: machine that does not boot",
    "fault: node cut off",
    "fault: service node killed",
    "fault: service node stopped",
    "forgotten",
    "job ended",
    "job killed",
    "processes",
    "programs that nodes hold at the end",
    "rank reports held against its output",
    "ranks on retained pages",
    "user left",
];

fn try_seeds(seeds: std::ops::Range<u64>) {
    let options = Options { faulty_ns: 60_000_000_000, ..Options::default() };
    let mut happened = BTreeMap::new();
    for seed in seeds {
        match run(seed, &options) {
            Ok(report) => report.counts.iter().for_each(|(name, count)| *happened.entry(*name).or_default() += count),
            Err(failure) => {
                let start = failure.trace.len().saturating_sub(30);
                panic!(
                    "{}\n{failure}\nagain with: cargo xtask simulate --seed {seed} --faulty 60 --trace",
                    failure.trace[start..].join("\n")
                );
            }
        }
    }
    for name in MUST_HAPPEN {
        assert!(happened.get(name).is_some_and(|count: &u64| *count > 0), "no {name} in {happened:?}");
    }
}

#[test]
fn the_first_half_of_the_seeds_holds() {
    try_seeds(0..SEEDS / 2);
}

#[test]
fn the_second_half_of_the_seeds_holds() {
    try_seeds(SEEDS / 2..SEEDS);
}

#[test]
fn a_seed_is_all_there_is_to_remember() {
    let options = Options { faulty_ns: 30_000_000_000, ..Options::default() };
    let once = run(5, &options).expect("holds");
    // Beside others, and in another thread.
    let beside = std::thread::spawn(move || run(5, &options).expect("holds"));
    let other = run(6, &options).expect("holds");
    assert_eq!(once, beside.join().expect("holds"));
    assert_eq!(once, run(5, &options).expect("holds"));
    assert_ne!(once.digest, other.digest);
}

/// More nodes than jobs want, of many psets.
#[test]
fn a_large_cluster_holds() {
    let options = Options { nodes: 96, pset_size: 16, faulty_ns: 20_000_000_000, ..Options::default() };
    run(1, &options).expect("holds");
}
