//! The directories of a running cluster are deleted: it is found all the same, and can be ended.

use coppice_tests::Cluster;

/// Deletes one of the home's directories under a running cluster.
#[track_caller]
fn deleted(directory: &str) {
    let cluster = Cluster::up(1);
    std::fs::remove_dir_all(cluster.home_path().join(directory)).expect("removed");
    let pid = cluster.processes().into_iter().find(|process| process.command.contains("coppiced")).expect("it").pid;
    let _ = cluster.coppice(&["up", "--accel", "tcg"]).refused(&["is up already", &pid.to_string(), "coppice down"]);
    if directory == "run" {
        let _ = cluster.coppice(&["nodes"]).refused(&["is up", &pid.to_string(), "api.sock", "coppice down"]);
    } else {
        let _ = cluster.json(&["nodes"]);
    }
    let _ = cluster.coppice(&["down"]).success();
    assert!(cluster.processes().is_empty(), "{:?}", cluster.processes());
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
}

#[test]
fn state_directory() {
    deleted("state");
}

#[test]
fn runtime_directory() {
    deleted("run");
}

#[test]
fn both() {
    let cluster = Cluster::up(1);
    for directory in ["run", "state"] {
        std::fs::remove_dir_all(cluster.home_path().join(directory)).expect("removed");
    }
    let _ = cluster.coppice(&["nodes"]).refused(&["is up", "coppice down"]);
    let _ = cluster.coppice(&["down"]).success();
    assert!(cluster.processes().is_empty(), "{:?}", cluster.processes());
    let _ = cluster.coppice(&["down"]).refused(&["is not up"]);
}
