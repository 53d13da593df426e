//! Many seeds in a test, and that each kind of thing is among what happened in them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Failure, Report};

/// Runs seeds, and sees that all of `must` has happened: a checker that never sees it checks nothing. `command` runs
/// one of them.
pub(crate) fn hold(seeds: Range<u64>, command: &str, must: &[&str], run: impl Fn(u64) -> Result<Report, Failure>) {
    let mut happened = BTreeMap::new();
    for seed in seeds {
        match run(seed) {
            Ok(report) => report.counts.iter().for_each(|(name, count)| *happened.entry(*name).or_default() += count),
            Err(failure) => panic!(
                "{}\n{failure}\nagain with: coppice-simulator {command} --seed {seed} --trace",
                failure.trace.join("\n")
            ),
        }
    }
    for name in must {
        assert!(happened.get(name).is_some_and(|count: &u64| *count > 0), "no {name} in {happened:?}");
    }
}
