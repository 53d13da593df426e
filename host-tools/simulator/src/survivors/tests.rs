//! Seeds, and that each kind of death is among them.

use std::collections::BTreeMap;

use super::{Options, run};

/// What must have happened: a checker that never sees it checks nothing.
const MUST_HAPPEN: [&str; 15] = [
    "deaths before the launch",
    "deaths before the first barrier",
    "deaths in the first barrier",
    "deaths while keys are asked for",
    "deaths while names are published",
    "deaths in the second barrier",
    "deaths while names are looked up",
    "deaths in the last barrier",
    "deaths in the end",
    "deaths among dissemination",
    "deaths in a tree",
    "deaths in a ring",
    "failures",
    "refusals",
    "jobs that came to their end",
];

#[test]
fn whoever_dies_nobody_waits_for_ever() {
    let mut happened = BTreeMap::new();
    for seed in 0..500 {
        match run(seed, &Options::default()) {
            Ok(report) => report.counts.iter().for_each(|(name, count)| *happened.entry(*name).or_default() += count),
            Err(failure) => panic!(
                "{}\n{failure}\nagain with: coppice-simulator survivors --seed {seed} --trace",
                failure.trace.join("\n")
            ),
        }
    }
    for name in MUST_HAPPEN {
        assert!(happened.get(name).is_some_and(|count: &u64| *count > 0), "no {name} in {happened:?}");
    }
}

#[test]
fn a_seed_is_all_there_is_to_remember() {
    let [once, again, other] = [7, 7, 8].map(|seed| run(seed, &Options::default()).expect("holds").digest);
    assert!(once == again && once != other);
}
