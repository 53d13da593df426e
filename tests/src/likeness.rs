//! Random sequences of calls, on a node and on the host: what every call says is the same. The sequences are made by
//! `tests/guests/c/likeness.c` from a seed and their numbers; `COPPICE_SEED` and `COPPICE_CALLS` say which and how
//! many, so that fresh ones can be tried for as long as one likes.

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

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Compared {
    /// Sequences that were made.
    pub sequences: u64,
    /// Calls that said the same, up to the first difference of each sequence.
    pub equal: u64,
    /// The first difference of each sequence that has any, with the line that makes it again.
    pub differences: Vec<String>,
}

/// Makes calls on both sides and compares them.
///
/// # Panics
/// If the program cannot be run, or does not come to its end.
#[must_use]
pub fn compare(cluster: &Cluster, chance: Chance) -> Compared {
    let guest = guest();
    let sequences = chance.calls.div_ceil(CALLS_PER_SEQUENCE);
    let mut compared = Compared { sequences, ..Compared::default() };
    for first in (0..sequences).step_by(SEQUENCES_PER_RUN as usize) {
        let count = SEQUENCES_PER_RUN.min(sequences - first);
        let numbers = [chance.seed, first, count, CALLS_PER_SEQUENCE].map(|number| number.to_string());
        let directory = tempfile::tempdir().expect("temporary directory");
        let native = host::run(directory.path(), &guest, &numbers);
        let path = guest.to_string_lossy().into_owned();
        let arguments: Vec<&str> = [path.as_str()].into_iter().chain(numbers.iter().map(String::as_str)).collect();
        let on_node = cluster.run(&arguments);
        let statuses = (native.status, on_node.status);
        assert_eq!(statuses, (0, 0), "{arguments:?}: status on the host and the node; {}", on_node.stderr);
        compared.add(&native.text(), &on_node.text(), chance.seed);
    }
    compared
}

impl Compared {
    /// Compares what sequences said on the host and on the node.
    fn add(&mut self, host: &str, node: &str, seed: u64) {
        let mut others = node.lines().peekable();
        let mut differs_in = None;
        for line in host.lines() {
            let number = number_of(line);
            // Behind a difference, the same calls need not be made any more.
            while others.peek().is_some_and(|other| is_before(other, number)) {
                others.next();
            }
            let other = others.next_if(|other| number_of(other) == number).unwrap_or("(nothing)");
            if differs_in == Some(number) {
                continue;
            }
            if line == other {
                self.equal += 1;
                continue;
            }
            differs_in = Some(number);
            self.differences.push(format!(
                "seed {seed}, call {line}\n    the node: {other}\n    again: likeness {seed} {number} 1 \
                 {CALLS_PER_SEQUENCE}"
            ));
        }
    }
}

/// The number of the sequence that a line is of.
fn number_of(line: &str) -> &str {
    line.split('.').next().unwrap_or_default()
}

fn is_before(line: &str, number: &str) -> bool {
    let as_number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    as_number(number_of(line)) < as_number(number)
}

#[cfg(test)]
mod tests {
    use super::Compared;

    #[test]
    fn a_difference_is_told_with_the_line_that_makes_it_again() {
        let mut compared = Compared::default();
        compared.add("0.0 a = 1\n0.1 b = 2\n", "0.0 a = 1\n0.1 b = 2\n", 5);
        assert_eq!((compared.equal, compared.differences.len()), (2, 0));
        let host = "3.0 a = 1\n3.1 b = 2\n3.2 c = 3\n4.0 d = 4\n";
        compared.add(host, "3.0 a = 1\n3.1 b = EIO\n4.0 d = 4\n", 5);
        assert_eq!((compared.equal, compared.differences.len()), (4, 1));
        let told = &compared.differences[0];
        assert!(told.contains("3.1 b = 2") && told.contains("b = EIO") && told.contains("likeness 5 3 1"), "{told}");
        compared.add("5.0 a\n", "", 5);
        assert_eq!(compared.differences.len(), 2);
    }
}
