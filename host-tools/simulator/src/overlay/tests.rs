//! Seeds, and that each kind of fault is among them.

use std::collections::BTreeMap;

use super::{Options, run};

/// What must have happened: a checker that never sees it checks nothing.
const MUST_HAPPEN: [&str; 6] = ["deaths", "epochs", "late parts", "lies", "new front ends", "starts"];

#[test]
fn what_is_said_of_epochs_is_exact_whatever_dies() {
    let mut happened = BTreeMap::new();
    for seed in 0..150 {
        match run(seed, &Options::default()) {
            Ok(report) => report.counts.iter().for_each(|(name, count)| *happened.entry(*name).or_default() += count),
            Err(failure) => panic!(
                "{}\n{failure}\nagain with: coppice-simulator overlay --seed {seed} --trace",
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
