//! Many launches: nothing is used up by them.

use std::fmt::Write;

use coppice_tests::Cluster;
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// Nodes, and jobs that run on all of them: 1,000 launches.
const NODES: u32 = 8;
/// See [`NODES`].
const JOBS: u32 = 125;

/// Jobs that come before these: cold and warm ones of both programs, with and without the other's table beside.
const WARM_UP_JOBS: u32 = 8;

/// What is used of a node's heap may differ by this much, KiB: its tables of what happened last are not always as full.
const HEAP_KIB: u64 = 16;

/// What each node has when it holds nothing, KiB: memory that is free or the heap's, and what of the heap is used.
fn memory(cluster: &Cluster) -> Vec<(u64, u64)> {
    let _ = cluster.coppice(&["forget"]).success();
    let path = program("node_state", Toolchain::Musl);
    let ran = cluster.run(&["-n", "8", "--nodes-list", "0-7", "--label", path.to_str().expect("a path")]).success();
    let _ = cluster.coppice(&["forget"]).success();
    let text = ran.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let number = |word: &str| word.parse().expect("a number");
    let parse = |line: &&str| match line.split(' ').collect::<Vec<_>>()[..] {
        [_, "memory", memory, "heap", heap, "tasks", _] => (number(memory), number(heap)),
        _ => panic!("{line}"),
    };
    lines.iter().map(parse).collect()
}

/// Two programs in turn, two jobs of each, each job on all nodes, which keep both.
#[test]
fn a_thousand_launches_use_nothing_up() {
    let cluster = Cluster::up(NODES);
    let other = program("exit_rank", Toolchain::Musl);
    let text = (0..NODES).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "line {number}");
        text
    });
    std::fs::write(cluster.root().join("file"), &text).expect("file");
    let run = |number: u32| {
        if number % 4 < 2 {
            let ran = cluster.run(&["-n", "8", BUSYBOX, "wc", "-l", "file"]).success();
            assert_eq!(ran.text(), "8 file\n".repeat(8), "job {number}");
        } else {
            let ran = cluster.run(&["-n", "8", other.to_str().expect("a path")]);
            assert_eq!(ran.status, 17, "job {number}: {}", ran.stderr);
            let text = ran.text();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            assert_eq!(lines.len(), 8, "job {number}: {lines:?}");
            let expected = (0..8).map(|rank| format!("rank {rank} of 8"));
            assert!(expected.eq(lines.iter().copied()), "job {number}: {lines:?}");
        }
    };
    // What the kernel takes for its own heap the first times, it keeps.
    let _ = memory(&cluster);
    (0..WARM_UP_JOBS).for_each(run);
    let before = memory(&cluster);
    assert_eq!(before.len(), 8);
    (0..JOBS).for_each(run);
    let held = cluster.json(&["nodes"]);
    assert!(
        held.as_array().expect("nodes").iter().all(|node| node["retained"][0]["pages"].as_u64() > Some(0)),
        "{held}"
    );
    // How much the heap holds beyond what is used depends on what it did last. Everything else is as it was.
    let after = memory(&cluster);
    let is_as_before =
        |(after, before): (&(u64, u64), &(u64, u64))| after.0 == before.0 && after.1.abs_diff(before.1) <= HEAP_KIB;
    assert!(after.len() == 8 && after.iter().zip(&before).all(is_as_before), "{after:?}, {before:?} before");
    let generations = cluster.json(&["nodes"]);
    assert!(generations.as_array().expect("nodes").iter().all(|node| node["generation"] == 1), "{generations}");
}
