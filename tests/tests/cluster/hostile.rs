//! Programs that mean harm: the node survives all of them and runs the next job at once.

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// The node still is the same boot and still works.
#[track_caller]
pub(crate) fn assert_unharmed(cluster: &Cluster, after: &str) {
    let ran = cluster.run(&[BUSYBOX, "echo", "fine"]);
    assert_eq!(ran.text(), "fine\n", "after {after}: {}", ran.stderr);
    let nodes = cluster.json(&["nodes"]);
    assert_eq!(nodes[0]["generation"], 1, "the node was rebooted after {after}");
}

/// Ways to end and the exit status they have on Linux.
const FAULTS: &[(&str, i32)] = &[
    ("null-read", 139),
    ("call-null", 139),
    ("kernel-read", 139),
    ("kernel-write", 139),
    ("kernel-jump", 139),
    ("non-canonical", 139),
    ("non-canonical-jump", 139),
    ("edge-syscall", 139),
    ("read-only", 139),
    ("execute-data", 139),
    ("stack-overflow", 139),
    ("double-fault-stack", 139),
    ("divide", 136),
    ("illegal", 132),
    ("breakpoint", 133),
    ("trap-flag", 133),
    ("hlt", 139),
    ("cli", 139),
    ("in", 139),
    ("out", 139),
    ("wrmsr", 139),
    ("cr3", 139),
    ("lgdt", 139),
    ("iretq", 139),
    ("int-vector", 139),
    ("far-jump", 139),
    ("segment", 139),
    ("misaligned-stack", 55),
    ("abort", 134),
    ("raise-term", 143),
];

#[test]
fn faults_and_privileged_instructions() {
    let cluster = Cluster::up(1);
    let path = program("fault", Toolchain::Glibc);
    for (how, status) in FAULTS {
        let ran = cluster.run(&[&*path.to_string_lossy(), how]);
        assert_eq!(ran.status, *status, "{how}: {} {}", ran.text(), ran.stderr);
        assert_eq!(ran.text(), format!("about to: {how}\n"));
    }
    // What these do differs between processors; all that matters is that the node survives them.
    for how in ["int80", "sysenter", "alignment-check"] {
        let _ = cluster.run(&[&*path.to_string_lossy(), how]);
    }
    assert_unharmed(&cluster, "all faults");
}

#[test]
fn random_system_calls() {
    let cluster = Cluster::up(1);
    let path = program("random_syscalls", Toolchain::Glibc);
    // `cargo xtask soak` has others.
    let fresh = std::env::var("COPPICE_SEED").map(|seed| vec![seed]);
    for seed in fresh.unwrap_or_else(|_| vec!["1".to_owned(), "20261121".to_owned()]) {
        let ran = cluster.run(&[&*path.to_string_lossy(), "100000", &seed]).success();
        assert_eq!(ran.text(), "made 100000, most refused: 1\n", "seed {seed}");
        assert_unharmed(&cluster, "random system calls");
    }
}

#[test]
fn memory_exhaustion_ends_the_program_alone() {
    let cluster = Cluster::up(1);
    let path = program("eat_memory", Toolchain::Musl);
    let ran = cluster.run(&[&*path.to_string_lossy()]);
    assert_eq!(ran.status, 137, "{} {}", ran.text(), ran.stderr);
    assert!(ran.stderr.contains("memory"), "{}", ran.stderr);
    assert_unharmed(&cluster, "memory exhaustion");
}
