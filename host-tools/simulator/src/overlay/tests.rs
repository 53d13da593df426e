//! Seeds, and that each kind of fault is among them.

use super::{Options, run};
use crate::many::hold;

/// What must have happened: a checker that never sees it checks nothing.
const MUST_HAPPEN: [&str; 7] = ["deaths", "epochs", "late parts", "lies", "new front ends", "stacks", "starts"];

#[test]
fn what_is_said_of_epochs_is_exact_whatever_dies() {
    hold(0..150, "overlay", &MUST_HAPPEN, |seed| run(seed, &Options::default()));
}

#[test]
fn a_seed_is_all_there_is_to_remember() {
    let [once, again, other] = [7, 7, 8].map(|seed| run(seed, &Options::default()).expect("holds").digest);
    assert!(once == again && once != other);
}
