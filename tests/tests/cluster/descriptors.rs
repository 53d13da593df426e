//! Open files: what is said to be needed of their limit is what a cluster needs, and a limit that is too low is noticed
//! before anything is started.

use std::process::{Command, Stdio};
use std::time::Duration;

use coppice_api::descriptors::{Extent, IO_NODE_OWN, IO_NODE_PER_NODE};
use coppice_io_node::limits::{DESCRIPTORS_OWN, DESCRIPTORS_PER_JOB};
use coppice_protocol::limits::HANDLES_PER_RANK_KEPT;
use coppice_tests::Cluster;
use coppice_tests::cluster::{Ran, finish, wait_until};
use coppice_tests::guests::BUSYBOX;

/// What users are told is what the I/O node keeps back, for a job of one rank on each node.
const _: () = assert!(
    IO_NODE_OWN as usize == DESCRIPTORS_OWN && IO_NODE_PER_NODE as usize == DESCRIPTORS_PER_JOB + HANDLES_PER_RANK_KEPT
);

/// As low as no cluster can do with, and high enough for `coppice` itself.
const TOO_LOW: u32 = 256;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the control tool under a hard limit of open files.
fn limited(cluster: &Cluster, limit: u32, arguments: &[&str]) -> Ran {
    let command = cluster.command(arguments);
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--nofile={limit}")).arg("--").arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(cluster.root()).stdin(Stdio::null());
    finish(limited)
}

fn extent(nodes: u32) -> Extent {
    Extent::here(nodes, 64)
}

#[test]
fn a_limit_that_is_too_low_is_refused_in_one_line() {
    let cluster = Cluster::home();
    let needs = extent(4).needs();
    let wants = format!("a cluster of 4 nodes needs {needs}");
    let most = format!("at most {TOO_LOW} files");
    let raise = format!("ulimit -Hn {needs}");
    let up = ["up", "--nodes", "4", "--accel", "tcg"];
    let ran = limited(&cluster, TOO_LOW, &up).refused(&[&most, &wants, &raise, "LimitNOFILE"]);
    assert!(!ran.stderr.contains("fewer nodes"), "not one would fit: {}", ran.stderr);
    let _ = limited(&cluster, needs - 1, &up).refused(&[&wants, &raise, "or bring up fewer nodes"]);
    cluster.assert_no_process_left();

    let ran = limited(&cluster, TOO_LOW, &["doctor"]);
    let text = ran.text();
    assert_ne!(ran.status, 0, "{text}");
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("MISSING open files")).take(2).collect();
    assert!(lines[0].contains(&format!("at most {TOO_LOW} at a time, not enough for a node")), "{text}");
    assert!(lines[1].contains(&raise) && lines[1].contains("LimitNOFILE"), "{text}");
    let text = limited(&cluster, needs, &["doctor"]).text();
    assert!(text.contains(&format!("ok      open files: at most {needs} at a time, enough for 4 nodes")), "{text}");
}

#[test]
fn a_cluster_has_no_more_open_than_is_said_of_it() {
    let cluster = Cluster::home();
    let extent = extent(4);
    // With the least that it comes up with.
    let _ = limited(&cluster, extent.needs(), &["up", "--nodes", "4", "--accel", "tcg"]).success();
    let mut job = cluster.command(&["run", "--quiet", "-n", "4", BUSYBOX, "cat"]);
    let mut job = job.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("start");
    wait_until("the job runs", PATIENCE, || {
        let jobs = cluster.json(&["jobs"]);
        if jobs[0]["state"] == "running" { Ok(()) } else { Err(jobs.to_string()) }
    });
    let processes = [
        ("coppiced", extent.of_service_node()),
        ("coppice-fabric", extent.of_fabric()),
        ("coppice-io-node", extent.of_io_node()),
    ];
    for (what, most) in processes {
        let has = open(&cluster, what);
        assert!(has <= most, "{what} has {has} open, at most {most} are said");
    }
    drop(job.stdin.take());
    assert!(job.wait().expect("a job").success());
}

/// What nodes and psets add is told apart from what a cluster has open anyway, or keeps room for.
#[test]
fn nodes_and_psets_add_no_more_than_is_said_of_them() {
    let up = |nodes: &str| Cluster::up_with(&["--nodes", nodes, "--pset-size", "1"]);
    let (small, large) = (up("1"), up("4"));
    let said = |nodes| Extent { nodes, pset_size: 1, boots: 0 };
    let service_node = said(4).of_service_node() - said(1).of_service_node();
    let fabric = said(4).of_fabric() - said(1).of_fabric();
    for (what, said) in [("coppiced", service_node), ("coppice-fabric", fabric)] {
        // The connection of `up` may be open for a moment more.
        wait_until("no more is open", PATIENCE, || {
            let (less, more) = (open(&small, what), open(&large, what));
            if more <= less + said { Ok(()) } else { Err(format!("{what}: {less} and {more} open, {said} are said")) }
        });
    }
}

/// Files that one of a cluster's processes has open.
fn open(cluster: &Cluster, what: &str) -> u32 {
    let processes = cluster.processes();
    let is_it = |command: &str| command.split(' ').next().is_some_and(|program| program.ends_with(what));
    let process = processes.iter().find(|process| is_it(&process.command));
    let pid = process.unwrap_or_else(|| panic!("no {what} in {processes:?}")).pid;
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process of ours").count();
    u32::try_from(open).expect("few")
}
