//! Locks and memory under the worst that threads on several cores can do to each other, and a checker for both.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

use crate::threads::cluster_of;

#[track_caller]
fn run(cluster: &Cluster, name: &str, toolchain: Toolchain, arguments: &[&str]) -> String {
    let path = program(name, toolchain);
    let command: Vec<&str> = [path.to_str().expect("a path")].into_iter().chain(arguments.iter().copied()).collect();
    let ran = cluster.run(&command);
    assert_eq!(ran.status, 0, "{name} {toolchain:?} {arguments:?}: {}{}", ran.text(), ran.stderr);
    ran.text()
}

/// 64 threads, more than a million operations: the C libraries' locks and futex(2) itself.
#[track_caller]
fn futexes(cores: u32) {
    let cluster = cluster_of(1, cores);
    for (toolchain, percent, million) in [(Toolchain::Glibc, "100", 1), (Toolchain::Musl, "25", 0)] {
        let text = run(&cluster, "futex_torture", toolchain, &["64", percent]);
        let expected = format!("threads 64, a million operations {million}, some waits timed out 1\n");
        assert_eq!(text, expected, "{toolchain:?}");
    }
}

#[test]
fn futexes_on_1_core() {
    futexes(1);
}

#[test]
fn futexes_on_2_cores() {
    futexes(2);
}

#[test]
fn futexes_on_4_cores() {
    futexes(4);
}

/// Memory that one thread changes and the others use; as many threads as keep all cores in the program.
#[track_caller]
fn memory(cores: u32, threads: &str, rounds: &str) {
    let cluster = cluster_of(1, cores);
    let exercise = |name| format!("{name}: wrong 0, looked 1, faults as expected 1\n");
    let expected: String =
        ["contents", "rights", "place", "copies"].map(exercise).concat() + "copy on write and storms: wrong 0\n";
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        assert_eq!(run(&cluster, "memory_race", toolchain, &[threads, rounds]), expected, "{toolchain:?}");
    }
}

#[test]
fn memory_that_changes_on_1_core() {
    memory(1, "4", "60");
}

#[test]
fn memory_that_changes_on_2_cores() {
    memory(2, "3", "150");
}

#[test]
fn memory_that_changes_on_4_cores() {
    memory(4, "6", "80");
}

/// A thread that gives a lock up and ends at once is not taken for one that ended with it: if it were, threads in a C
/// library would stop for ever.
#[test]
fn locks_are_handed_on_by_threads_that_end() {
    let cluster = cluster_of(1, 4);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        let text = run(&cluster, "lock_holders", toolchain, &["12", "150"]);
        assert_eq!(text, "inside 1800 times\n", "{toolchain:?}");
    }
}
