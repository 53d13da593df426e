//! What a failure needs: the same run with ever fewer faults and users, as long as the same checker finds something.
//!
//! Faults are left out in halves, quarters, and so on down to single ones, as delta debugging does (Zeller and
//! Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002). A run with other faults is another run, so
//! what is found may be another failure of the same kind; it is one all the same, and easier to understand.

use super::{Options, run_with};
use crate::Failure;

/// A failure, and what it needs.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The failure as it came in the smallest run.
    pub failure: Failure,
    /// How that is run.
    pub options: Options,
    /// Runs that were tried.
    pub runs: u64,
}

/// Leaves out of a failing run what it does not need, until nothing more can be or `is_over`.
#[must_use]
pub fn shrink(failure: Failure, options: &Options, is_over: impl Fn() -> bool) -> Shrunk {
    let mut shrunk = Shrunk { failure, options: *options, runs: 0 };
    let mut parts = 1;
    while !is_over() {
        let faults = shrunk.failure.faults.clone();
        let part = faults.len().div_ceil(parts).max(1);
        let smaller = faults.chunks(part).any(|left_out| {
            let rest = faults.iter().copied().filter(|fault| !left_out.contains(fault));
            !is_over() && shrunk.attempt(shrunk.options, &rest.collect::<Vec<_>>())
        });
        if smaller {
            parts = parts.saturating_sub(1).max(1);
        } else if part == 1 {
            break;
        } else {
            parts *= 2;
        }
    }
    while shrunk.options.users > 1 && !is_over() {
        let options = Options { users: shrunk.options.users - 1, ..shrunk.options };
        if !shrunk.attempt(options, &shrunk.failure.faults.clone()) {
            break;
        }
    }
    shrunk
}

impl Shrunk {
    /// Whether the same checker finds something in this run, which is kept then.
    fn attempt(&mut self, options: Options, faults: &[u64]) -> bool {
        self.runs += 1;
        match run_with(self.failure.seed, &options, faults.iter().copied()) {
            Err(failure) if failure.violation.checker == self.failure.violation.checker => {
                (self.failure, self.options) = (failure, options);
                true
            }
            _ => false,
        }
    }
}
