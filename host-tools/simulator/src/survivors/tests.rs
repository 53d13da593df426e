//! Seeds, and that each kind of death is among them.

use super::{Options, run};
use crate::many::hold;

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
    hold(0..500, "survivors", &MUST_HAPPEN, |seed| run(seed, &Options::default()));
}

#[test]
fn a_seed_is_all_there_is_to_remember() {
    let [once, again, other] = [7, 7, 8].map(|seed| run(seed, &Options::default()).expect("holds").digest);
    assert!(once == again && once != other);
}
