//! The corpora hold, and so do some thousand inputs made of them, the same ones each time.

use coppice_fuzz::{Hunt, TARGETS};

/// Inputs for each target.
const INPUTS: u64 = 4_000;

#[test]
fn corpora_and_what_becomes_of_them_hold() {
    for target in &TARGETS {
        let mut hunt = Hunt::new(target, 1).unwrap_or_else(|found| panic!("{found:?}"));
        let known = hunt.made();
        // What the corpus is made of is understood: else everything that is changed is refused at its first byte.
        assert!(known >= 3 || target.name == "personality", "{}: {known}", target.name);
        hunt.go_on(INPUTS).unwrap_or_else(|found| panic!("{found:?}"));
        assert!(hunt.made() > known, "{}: nothing new", target.name);
    }
}
