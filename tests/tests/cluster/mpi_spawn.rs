//! Ranks that start others while they run (`MPI_Comm_spawn`), which run on nodes that were free, and talk with them.

use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::wait_until;
use coppice_tests::guests::{Toolchain, program};

use crate::checkpoint::start;

fn family(toolchain: Toolchain) -> String {
    program("family", toolchain).to_string_lossy().into_owned()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Nothing of any job is left on any node.
fn all_nodes_are_free(cluster: &Cluster) {
    let nodes = cluster.json(&["nodes"]);
    let is_free = |node: &serde_json::Value| node["state"] == "ready";
    assert!(nodes.as_array().expect("nodes").iter().all(is_free), "{nodes}");
}

/// Those of three generations, started by all of the one before or by each of them, talk with those that have started
/// them and with those that they have; each job is one, and says whose it is.
#[track_caller]
fn ranks_start_others(toolchain: Toolchain) {
    let cluster = Cluster::up_with(&["--nodes", "6", "--memory", "128M"]);
    let program = family(toolchain);
    let ran = cluster.run(&["-n", "2", &program, "together", "2", "2"]).success();
    let expected = [
        "family: 2 ranks and 2 that they started agree",
        "family: 2 ranks and 2 that they started agree",
        "family: rank 0 of 2 on node2, 1 left",
        "family: rank 0 of 2 on node4, 0 left",
        "family: rank 1 of 2 on node3, 1 left",
        "family: rank 1 of 2 on node5, 0 left",
        "family: there could be 6 ranks",
    ];
    assert_eq!((sorted(&ran.text()), &*ran.stderr), (expected.to_vec(), ""));
    let jobs = cluster.json(&["jobs"]);
    let found: Vec<_> = jobs.as_array().expect("jobs").iter().map(|job| &job["spawned_by"]).collect();
    let by = |job: u64| serde_json::json!({"job": job, "rank": 0});
    assert_eq!(found, [&serde_json::Value::Null, &by(1), &by(2)]);
    // Several ranks of a node, and jobs that join the family at the same time.
    let run = ["-n", "4", "--ranks-per-node", "2", &program, "each", "1", "1"];
    let text = cluster.run(&run).success().text();
    let agree = text.matches("family: 1 ranks and 1 that they started agree\n").count();
    assert_eq!((agree, text.matches("family: rank 0 of 1 on node").count()), (4, 4), "{text}");
    for node in 2..6 {
        assert!(text.contains(&format!(" on node{node}, 0 left\n")), "{text}");
    }
    // What they started may go on when they are through.
    let text = cluster.run(&["-n", "1", &program, "late", "2", "1"]).success().text();
    assert_eq!(text.matches("is last\n").count(), 2, "{text}");
    all_nodes_are_free(&cluster);
}

#[test]
fn ranks_start_others_with_pmi_1() {
    ranks_start_others(Toolchain::Mpi);
}

#[test]
fn ranks_start_others_with_pmi_2() {
    ranks_start_others(Toolchain::MpichPmi2);
}

/// Taken apart and made again all the time, and where frames are lost.
#[test]
fn ranks_start_others_frozen_and_on_a_bad_network() {
    let up = ["--nodes", "6", "--memory", "128M", "--freeze-every", "20ms", "--loss", "1%"];
    let ran = Cluster::up_with(&up).run(&["--label", "-n", "2", &family(Toolchain::Mpi), "together", "2", "2"]);
    let expected = [
        "0: family: 2 ranks and 2 that they started agree",
        "0: family: there could be 6 ranks",
        "2.0: family: 2 ranks and 2 that they started agree",
        "2.0: family: rank 0 of 2 on node2, 1 left",
        "2.1: family: rank 1 of 2 on node3, 1 left",
        "3.0: family: rank 0 of 2 on node4, 0 left",
        "3.1: family: rank 1 of 2 on node5, 0 left",
    ];
    assert_eq!(sorted(&ran.success().text()), expected);
}

/// Whoever asks for more than there are is told so, and may go on.
#[track_caller]
fn what_cannot_be_started_is_refused(toolchain: Toolchain) {
    let cluster = Cluster::up_with(&["--nodes", "2", "--memory", "128M"]);
    let program = family(toolchain);
    let ran = cluster.run(&["-n", "1", &program, "refused", "2", "1"]).success();
    assert_eq!(ran.text(), "family: there could be 2 ranks\nfamily: nobody was started\n");
    assert!(ran.stderr.contains("rank 0 wanted to spawn others, and none are started"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 ranks need 2 nodes, and only one is free"), "{}", ran.stderr);
    // If it leaves that to MPI, the job ends.
    let ran = cluster.run(&["-n", "2", &program, "together", "1", "1"]);
    assert!(ran.status != 0 && ran.stderr.contains("1 rank needs 1 node, and none is free"), "{}", ran.stderr);
    all_nodes_are_free(&cluster);
    assert!(cluster.run(&["-n", "1", &program, "together", "1", "1"]).success().text().contains("agree"));
}

#[test]
fn what_cannot_be_started_is_refused_with_pmi_1() {
    what_cannot_be_started_is_refused(Toolchain::Mpi);
}

#[test]
fn what_cannot_be_started_is_refused_with_pmi_2() {
    what_cannot_be_started_is_refused(Toolchain::MpichPmi2);
}

/// A job that fails ends those that it has started, and the one that has started it.
#[test]
fn a_family_ends_together() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "128M"]);
    let program = family(Toolchain::Mpi);
    let ran = cluster.run(&["-n", "1", &program, "abort", "1", "2"]);
    assert_eq!(ran.status, 3, "{}", ran.text());
    assert!(ran.stderr.contains("job 3: rank 0 aborted the job with code 3"), "{}", ran.stderr);
    assert!(ran.stderr.contains("job 2: job 3, which it has started, ended: rank 0 aborted"), "{}", ran.stderr);
    assert!(ran.stderr.contains("job 1: job 2, which it has started, ended: job 3"), "{}", ran.stderr);
    all_nodes_are_free(&cluster);
    // From the other end.
    let job = start(&cluster, &["-n", "1", &program, "wait", "1", "1"]);
    let states = |cluster: &Cluster| {
        let jobs = cluster.json(&["jobs"]);
        let jobs = jobs.as_array().expect("jobs").iter().skip(3);
        jobs.map(|job| job["state"].as_str().expect("a state").to_owned()).collect::<Vec<_>>()
    };
    wait_until("both run", Duration::from_secs(60), || match states(&cluster) {
        states if states == ["running", "running"] => Ok(()),
        states => Err(format!("{states:?}")),
    });
    let refused = cluster.coppice(&["checkpoint", &job]);
    assert!(refused.stderr.contains("has started others"), "{}", refused.stderr);
    let _ = cluster.coppice(&["kill", &job]).success();
    wait_until("both end", Duration::from_secs(60), || match states(&cluster) {
        states if states == ["ended", "ended"] => Ok(()),
        states => Err(format!("{states:?}")),
    });
    all_nodes_are_free(&cluster);
}
