//! Programs with threads: POSIX's, C11's, OpenMP's and Rust's, of every C library, give on nodes of 1, 2 and 4 cores
//! what they give on the host.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

use crate::guests::compare;

/// A cluster whose nodes have that many cores.
#[track_caller]
pub(crate) fn cluster_of(nodes: u32, cores: u32) -> Cluster {
    Cluster::up_with(&["--nodes", &nodes.to_string(), "--cores", &cores.to_string()])
}

/// Ways to end a process that has several threads.
const ENDS: [&str; 5] = ["main-leaves", "last-leaves", "status", "return", "abort"];

fn all_programs(cores: u32) {
    let cluster = cluster_of(1, cores);
    for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
        for name in ["threads_posix", "threads_sync", "threads_c11", "threads_cancel"] {
            compare(&cluster, name, toolchain, &[]);
        }
        for end in ENDS {
            compare(&cluster, "threads_posix", toolchain, &[end]);
        }
    }
    for threads in ["1", "3", "4", "8"] {
        compare(&cluster, "threads_openmp", Toolchain::OpenMp, &[threads]);
    }
    for toolchain in [Toolchain::Rust, Toolchain::RustGlibc] {
        for arguments in [&[] as &[&str], &["exit"], &["panic"]] {
            compare(&cluster, "threads", toolchain, arguments);
        }
    }
}

#[test]
fn programs_with_threads_on_1_core() {
    all_programs(1);
}

#[test]
fn programs_with_threads_on_2_cores() {
    all_programs(2);
}

#[test]
fn programs_with_threads_on_4_cores() {
    all_programs(4);
}

/// Locks in `/dev/shm` between the threads of two ranks of a node; one rank ends with a robust one in its hands.
#[test]
fn threads_of_two_ranks_share_locks() {
    for cores in [1, 2, 4] {
        let cluster = cluster_of(1, cores);
        for toolchain in [Toolchain::Glibc, Toolchain::Musl] {
            let path = program("threads_sync", toolchain);
            let path = path.to_str().expect("a path");
            let ran = cluster.run(&["-n", "2", "--ranks-per-node", "2", path, "ranks", "2"]).success();
            let text = ran.text();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            let expected = ["counted 3200, written 800, turns 160", "leaves with it"];
            assert_eq!(lines, expected, "{cores} cores, {toolchain:?}");
        }
    }
}
