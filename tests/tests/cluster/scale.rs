//! As many nodes as this class of machine carries.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

#[test]
fn thirty_two_nodes_run_one_job() {
    let cluster = Cluster::up_with(&["--nodes", "32", "--memory", "64M"]);
    let path = program("exit_rank", Toolchain::Musl);
    let ran = cluster.run(&["-n", "32", &*path.to_string_lossy()]);
    assert_eq!(ran.status, 10 + 31, "{}", ran.stderr);
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..32).map(|rank| format!("rank {rank} of 32")).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

/// Several psets, each with an I/O node of its own, carry one job.
#[test]
fn a_job_spans_psets() {
    let cluster = Cluster::up_with(&["--nodes", "5", "--pset-size", "2"]);
    let path = program("exit_rank", Toolchain::Musl);
    let ran = cluster.run(&["-n", "5", &*path.to_string_lossy()]);
    assert_eq!(ran.status, 14, "{}", ran.stderr);
    assert_eq!(ran.text().lines().count(), 5);
}
