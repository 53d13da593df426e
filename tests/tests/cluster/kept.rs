//! Files that nodes keep without a job: staged once, found by jobs that name the same bytes, given back when their
//! memory is wanted or they are told to, and gone with a reboot.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use coppice_api::keep::KeepOrder;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};
use coppice_tests::physical::{PAGE_BYTES, Pattern, memory_of};
use coppice_tests::{Cluster, Waiting};
use rustix::process::{Pid, Signal, kill_process};

/// How long something of a cluster may take that is not measured here.
const TIME_MAX: Duration = Duration::from_secs(60);

const BYTES: usize = 8 * 1024 * 1024;

const NOBODY: [u64; 0] = [];

/// Where jobs find the staged file.
const PATH: &str = "/data/of/the job";

/// A file of the pattern in the cluster's root.
fn file(cluster: &Cluster, name: &str, pattern: &Pattern, bytes: usize) -> PathBuf {
    let path = cluster.root().join(name);
    std::fs::write(&path, pattern.repeated(bytes)).expect("written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// What `sha256sum` says of a file of the host.
fn sum(path: &Path) -> String {
    let output = Command::new(BUSYBOX).args(["sha256sum", text(path)]).output().expect("run");
    String::from_utf8(output.stdout).expect("text").split(' ').next().expect("a sum").to_owned()
}

/// The nodes that are listed as those that keep the file of that path.
fn kept_on(cluster: &Cluster, path: &Path) -> Vec<u64> {
    let programs = cluster.json(&["programs"]);
    let file = programs.as_array().into_iter().flatten().find(|program| program["path"] == text(path));
    let nodes = file.and_then(|file| file["kept_nodes"].as_array().cloned()).unwrap_or_default();
    nodes.iter().filter_map(serde_json::Value::as_u64).collect()
}

/// Packets that the I/O node sent for this, as its log has it when that is over.
fn packets_sent(cluster: &Cluster, cause: &str) -> u64 {
    let mut sent = None;
    wait_until("the transfer is over", TIME_MAX, || {
        let log = std::fs::read_to_string(cluster.home_path().join("state/default/io-node-0.log")).expect("a log");
        let line = log.lines().find(|line| line.contains(&format!(" cause={cause} ")));
        let number = line.and_then(|line| line.split_once("packets_sent: ")?.1.split(',').next());
        sent = number.and_then(|number| number.parse().ok());
        if sent.is_some() { Ok(()) } else { Err(log) }
    });
    sent.expect("it was there")
}

/// Pages of the pattern in a node's memory.
fn pages(cluster: &Cluster, node: u32, pattern: &Pattern) -> usize {
    memory_of(cluster, node).pages_with(pattern).len()
}

#[test]
fn a_file_stays_on_its_nodes_and_jobs_find_it_there() {
    let cluster = Cluster::up(4);
    let pattern = Pattern::of_seed(91_001);
    let path = file(&cluster, "table", &pattern, BYTES);
    let staged = cluster.coppice(&["stage", text(&path)]).success();
    assert_eq!(staged.text(), format!("staged '{}' (8.0 MiB) on 4 nodes, 0 had it\n", text(&path)));
    let whole = packets_sent(&cluster, "file to be kept of request 1");
    assert!(whole >= (BYTES / 8192) as u64, "{whole} packets");
    assert_eq!(kept_on(&cluster, &path), [0, 1, 2, 3]);
    // A node that has the file may still be sent some of it, which is wiped when the transfer is over for it.
    for node in 0..4 {
        wait_until("a node has the file, and nothing else of it", TIME_MAX, || {
            let there = pages(&cluster, node, &pattern);
            if there == BYTES / PAGE_BYTES { Ok(()) } else { Err(format!("{there} pages on node {node}")) }
        });
    }
    // The same bytes under another name.
    let copy = file(&cluster, "copy", &pattern, BYTES);
    let again = cluster.coppice(&["stage", "--nodes", "1,3", text(&copy)]).success();
    assert_eq!(again.text(), format!("staged '{}' (8.0 MiB) on 2 nodes, 2 had it\n", text(&copy)));
    // A job that stages them has hardly anything sent, and every byte right.
    let stage = format!("{}={PATH}", text(&path));
    for job in 1..3 {
        let ran = cluster.run(&["-n", "4", "--stage", &stage, BUSYBOX, "sha256sum", PATH]).success();
        assert_eq!(ran.text(), format!("{}  {PATH}\n", sum(&path)).repeat(4));
        let sent = packets_sent(&cluster, &format!("staged file 0 of job {job}"));
        assert!(sent < whole / 8, "{sent} packets instead of {whole}");
    }
    assert_eq!(kept_on(&cluster, &copy), [0, 1, 2, 3], "with the job nothing of it went");
    // Whoever is told by its content forgets it, whatever it is called; while a job uses it, it stays.
    let waits = program("waits_and_exits", Toolchain::Musl);
    let job = Waiting::start(&cluster, &["--nodes-list", "2", "--stage", &stage, text(&waits), "0"], "waiting");
    let forgotten = cluster.coppice(&["forget", text(&copy)]).success();
    assert!(forgotten.text().starts_with("3 nodes gave back 6144 pages ("), "{}", forgotten.text());
    assert_eq!(kept_on(&cluster, &copy), [2]);
    let _ = job.go_on().success();
    let forgotten = cluster.coppice(&["forget"]).success();
    assert!(forgotten.text().starts_with("4 nodes gave back "), "busybox is gone, too: {}", forgotten.text());
    assert_eq!(kept_on(&cluster, &copy), NOBODY);
    for node in 0..4 {
        memory_of(&cluster, node).assert_none(&pattern, "it was forgotten");
    }
}

#[test]
fn nothing_is_left_of_it_when_it_was_forgotten_and_a_reboot_ends_it() {
    let cluster = Cluster::up(3);
    let pattern = Pattern::of_seed(91_002);
    let path = file(&cluster, "secret", &pattern, 2 * 1024 * 1024);
    for round in 0..2 {
        let _ = cluster.coppice(&["stage", text(&path)]).success();
        if round == 1 {
            // One that has it sends it to the others.
            let _ = cluster.coppice(&["reboot", "1"]).success();
            wait_until("the node is back", TIME_MAX, || {
                let nodes = cluster.json(&["nodes"]);
                let is_back = nodes[1]["state"] == "ready" && nodes[1]["generation"] == 2;
                if is_back { Ok(()) } else { Err(nodes.to_string()) }
            });
            assert_eq!(kept_on(&cluster, &path), [0, 2]);
            memory_of(&cluster, 1).assert_none(&pattern, "a reboot");
            let staged = cluster.coppice(&["stage", text(&path)]).success();
            assert!(staged.text().ends_with("on 3 nodes, 2 had it\n"), "{}", staged.text());
        }
        let forgotten = cluster.coppice(&["forget", text(&path)]).success();
        assert!(forgotten.text().starts_with("3 nodes gave back 1536 pages ("), "{}", forgotten.text());
        for node in 0..3 {
            memory_of(&cluster, node).assert_none(&pattern, "it was forgotten");
        }
    }
}

#[test]
fn its_memory_goes_to_whoever_wants_it() {
    let cluster = Cluster::up(2);
    let pattern = Pattern::of_seed(91_003);
    let path = file(&cluster, "table", &pattern, 24 * 1024 * 1024);
    let _ = cluster.coppice(&["stage", text(&path), "--nodes", "0"]).success();
    assert_eq!(kept_on(&cluster, &path), [0]);
    // More than is left beside it.
    let wants = ["--nodes-list", "0", BUSYBOX, "dd", "if=/dev/zero", "of=/dev/null", "bs=40M", "count=1"];
    let _ = cluster.run(&wants).success();
    assert_eq!(kept_on(&cluster, &path), NOBODY);
    memory_of(&cluster, 0).assert_none(&pattern, "its memory was wanted");
    let _ = cluster.coppice(&["stage", text(&path)]).success();
    assert_eq!(kept_on(&cluster, &path), [0, 1]);
}

#[test]
fn what_cannot_be_staged_is_refused_in_one_line() {
    let cluster = Cluster::up(2);
    let long = file(&cluster, "long", &Pattern::of_seed(1), 80 * 1024 * 1024);
    let missing = cluster.root().join("missing");
    let refusals: [(&[&str], &[&str]); 5] = [
        (&["stage", text(&missing)], &["missing"]),
        (&["stage", text(&long)], &["83886080 bytes: a node has"]),
        (&["stage", text(cluster.root())], &["is not a file"]),
        (&["stage", BUSYBOX, "--nodes", "2"], &["has no node 2"]),
        (&["stage", BUSYBOX, "--nodes", "0,0"], &["node 0 is named twice"]),
    ];
    for (arguments, words) in refusals {
        let _ = cluster.coppice(arguments).refused(words);
    }
    // A program is a file, too; what is known of it as a program is not less for that.
    let _ = cluster.coppice(&["stage", BUSYBOX]).success();
    let _ = cluster.run(&["-n", "2", "--stage-program", BUSYBOX, "true"]).success();
    let programs = cluster.json(&["programs"]);
    assert_eq!(programs[0]["kept_nodes"], serde_json::json!([0, 1]));
    assert!(programs[0]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{programs}");
    assert_eq!(programs[0]["nodes"], serde_json::json!([0, 1]), "its pages are retained beside it");
}

/// An order that is given over slow links, when a part of the file is on the second node.
fn under_way(cluster: &Cluster, path: &Path) -> Child {
    let mut command = cluster.command(&["stage", text(path)]);
    let before = cluster.bytes_to(1);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    cluster.wait_for_bytes_to(1, before + BYTES as u64 / 8);
    child
}

#[test]
fn whoever_stages_it_is_told_how_far_it_is() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--bandwidth", "10M"]);
    let path = file(&cluster, "slow", &Pattern::of_seed(91_005), BYTES);
    let (order, mut seen) = (KeepOrder { file: path, nodes: Vec::new() }, Vec::new());
    let report = cluster.ask(async |client| client.keep(&order, |progress| seen.push(progress)).await);
    assert_eq!((report.nodes, report.had, report.failed), (3, 0, Vec::new()));
    assert!(seen.iter().all(|progress| (progress.total, progress.nodes) == (BYTES as u64, 3)), "{seen:?}");
    assert!(seen.is_sorted_by_key(|progress| (progress.bytes, progress.whole)), "{seen:?}");
    // It takes many times as long as nothing is said.
    assert!(seen.iter().any(|progress| progress.bytes > 0), "{seen:?}");
}

#[test]
fn what_is_given_up_or_loses_a_node_leaves_nothing_half_done() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--bandwidth", "10M"]);
    let pattern = Pattern::of_seed(91_004);
    let path = file(&cluster, "slow", &pattern, BYTES);
    let child = under_way(&cluster, &path);
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    let ran = finish_child(child, "an order that is given up");
    assert_eq!((ran.status, ran.stderr.as_str()), (143, ""));
    wait_until("nodes have dropped what they had", TIME_MAX, || {
        let left: usize = (0..3).map(|node| pages(&cluster, node, &pattern)).sum();
        if left == 0 { Ok(()) } else { Err(format!("{left} pages")) }
    });
    assert_eq!(kept_on(&cluster, &path), NOBODY);

    let child = under_way(&cluster, &path);
    cluster.kill_process("n2.qmp");
    let ran = finish_child(child, "an order that loses a node");
    assert_eq!(ran.status, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("node 2 does not have it: it was lost"), "{}", ran.stderr);
    assert!(ran.text().ends_with("(8.0 MiB) on 2 nodes, 0 had it\n"), "{}", ran.text());
    assert_eq!(kept_on(&cluster, &path), [0, 1]);
}
