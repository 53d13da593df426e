//! Many seeds, and one in full.

use std::collections::BTreeMap;

use coppice_simulator::{Options, run};

/// The seeds that every test run tries, split so that both cores have something to do.
const SEEDS: u64 = 40;

/// What must have happened in each half of the seeds: checkers that never see it check nothing.
const MUST_HAPPEN: [&str; 10] = [
    "cold launch",
    "discard",
    "launches said again",
    "retain: absent",
    "retain: busy",
    "retain: kept",
    "retain: other boot",
    "retain: twice",
    "requests lost",
    "warm launch",
];

fn try_seeds(seeds: std::ops::Range<u64>) {
    let mut happened = BTreeMap::new();
    for seed in seeds {
        match run(seed, &Options::default()) {
            Ok(report) => report.counts.iter().for_each(|(name, count)| *happened.entry(*name).or_default() += count),
            Err(failure) => {
                let start = failure.trace.len().saturating_sub(30);
                panic!(
                    "{}\n{failure}\nagain with: cargo run -p coppice-simulator -- sessions --seed {seed} --trace",
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
    let options = Options { faulty_ns: 20_000_000_000, ..Options::default() };
    let once = run(7, &options).expect("holds");
    let again = run(7, &options).expect("holds");
    assert_eq!(once, again);
    let other = run(8, &options).expect("holds");
    assert_ne!(once.digest, other.digest);
}

/// What a short run looks like. It changes with the protocol and with the simulator, and shows at a glance how.
#[test]
fn one_run() {
    let options = Options { nodes_max: 2, faulty_ns: 12_000_000_000, quiet_ns: 50_000_000_000 };
    let report = run(3, &options).expect("holds");
    let counts: Vec<String> = report.counts.iter().map(|(name, count)| format!("{count:>8} {name}")).collect();
    insta::assert_snapshot!(format!("{}\n\n{}", report.trace.join("\n"), counts.join("\n")));
}
