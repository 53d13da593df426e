//! Random sequences of calls, on a node and on the host: what every call says is the same. The sequences are made by
//! `tests/guests/c/likeness.c` from a seed and their numbers; `COPPICE_SEED` and `COPPICE_CALLS` say which and how many,
//! so that fresh ones can be tried for as long as one likes.

use std::path::PathBuf;

use crate::guests::{Toolchain, program};
use crate::{Cluster, host};

/// Calls of a sequence: enough to get somewhere, few enough to be read.
const CALLS_PER_SEQUENCE: u64 = 40;

/// Sequences that one process makes.
const SEQUENCES_PER_RUN: u64 = 100;

/// What is made of chance.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// Where sequences start from.
    pub seed: u64,
    /// How many calls are made, at least.
    pub calls: u64,
}

impl Chance {
    /// This, unless `COPPICE_SEED` and `COPPICE_CALLS` say otherwise.
    ///
    /// # Panics
    /// If they are no numbers.
    #[must_use]
    pub fn or_as_told(self) -> Self {
        let told = |name| std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")));
        Self { seed: told("COPPICE_SEED").unwrap_or(self.seed), calls: told("COPPICE_CALLS").unwrap_or(self.calls) }
    }
}

/// The program that makes the calls.
#[must_use]
pub fn guest() -> PathBuf {
    program("likeness", Toolchain::Glibc)
}

/// Makes calls on both sides and compares them. Gives how many were equal.
///
/// # Errors
/// The first difference, with the line that makes it again.
///
/// # Panics
/// If the program cannot be run.
pub fn compare(cluster: &Cluster, chance: Chance) -> Result<u64, String> {
    let guest = guest();
    let sequences = chance.calls.div_ceil(CALLS_PER_SEQUENCE);
    let mut equal = 0;
    for first in (0..sequences).step_by(SEQUENCES_PER_RUN as usize) {
        let count = SEQUENCES_PER_RUN.min(sequences - first);
        let numbers = [chance.seed, first, count, CALLS_PER_SEQUENCE].map(|number| number.to_string());
        let directory = tempfile::tempdir().expect("temporary directory");
        let native = host::run(directory.path(), &guest, &numbers);
        let path = guest.to_string_lossy().into_owned();
        let arguments: Vec<&str> = [path.as_str()].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        let on_node = cluster.run(&arguments);
        equal += same_lines(&native.text(), &on_node.text(), chance.seed)?;
        if (native.status, on_node.status) != (0, 0) {
            let (host, node) = (native.status, on_node.status);
            return Err(format!("{arguments:?}: status {host} on the host, {node} on the node: {}", on_node.stderr));
        }
    }
    Ok(equal)
}

/// How many lines there are, if they are all the same.
fn same_lines(host: &str, node: &str, seed: u64) -> Result<u64, String> {
    let mut lines = 0;
    let mut others = node.lines();
    for line in host.lines() {
        let other = others.next().unwrap_or("(nothing)");
        if line != other {
            let number = line.split('.').next().unwrap_or_default();
            return Err(format!(
                "seed {seed}, call {line}\n    the node: {other}\n    again: likeness {seed} {number} 1 {CALLS_PER_SEQUENCE}"
            ));
        }
        lines += 1;
    }
    match others.next() {
        Some(more) => Err(format!("seed {seed}: the host says nothing, and the node {more}")),
        None => Ok(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::same_lines;

    #[test]
    fn a_difference_is_told_with_the_line_that_makes_it_again() {
        assert_eq!(same_lines("0.0 a = 1\n0.1 b = 2\n", "0.0 a = 1\n0.1 b = 2\n", 5), Ok(2));
        let told = same_lines("3.0 a = 1\n3.1 b = 2\n", "3.0 a = 1\n3.1 b = EIO\n", 5).expect_err("they differ");
        assert!(told.contains("3.1 b = 2") && told.contains("b = EIO") && told.contains("likeness 5 3 1"), "{told}");
        assert!(same_lines("0.0 a\n", "", 5).is_err() && same_lines("", "0.0 a\n", 5).is_err());
    }
}
