//! Files that are staged on nodes of several psets: each pset's I/O node sends them to its own nodes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use coppice_tests::Cluster;
use coppice_tests::cluster::{finish_child, wait_until};
use coppice_tests::guests::BUSYBOX;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long something of a cluster may take that is not measured here.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Where jobs find the staged file.
const PATH: &str = "/in/data";

const BYTES: u64 = 4 << 20;

fn file(cluster: &Cluster) -> PathBuf {
    let path = cluster.root().join("file");
    let content: Vec<u8> = (0..BYTES).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8).collect();
    std::fs::write(&path, content).expect("written");
    path
}

/// What `sha256sum` says of a file of the host.
fn sum(path: &Path) -> String {
    let output = Command::new(BUSYBOX).arg("sha256sum").arg(path).output().expect("run");
    String::from_utf8(output.stdout).expect("text").split(' ').next().expect("a sum").to_owned()
}

/// Bytes that have gone to an I/O node, and from it, as the fabric counts them.
#[track_caller]
fn counted(cluster: &Cluster, pset: u32) -> [u64; 2] {
    let links = cluster.json(&["nodes", "--links"]);
    let name = format!("io{pset}");
    let link = links.as_array().and_then(|links| links.iter().find(|link| link["link"] == *name));
    let link = link.unwrap_or_else(|| panic!("no link {name} in {links}"));
    ["to", "from"].map(|way| link[way]["bytes"].as_u64().unwrap_or_else(|| panic!("no bytes {way} in {link}")))
}

/// The process of a pset's I/O node: the one that writes that log.
fn io_node(cluster: &Cluster, pset: u32) -> Pid {
    let log = format!("io-node-{pset}.log");
    let writes = |pid: i32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|path| path.ends_with(&log))
    };
    let processes = cluster.processes();
    let mut io_nodes = processes.iter().filter(|process| process.command.contains("coppice-io-node"));
    let found = io_nodes.find(|process| writes(process.pid));
    let found = found.unwrap_or_else(|| panic!("no process has {log} open: {processes:?}"));
    Pid::from_raw(found.pid).expect("a process id")
}

#[test]
fn each_io_node_sends_to_its_own_nodes_and_hardly_anything_crosses() {
    let cluster = Cluster::up_with(&["--nodes", "7", "--pset-size", "3", "--bandwidth", "10M"]);
    let path = file(&cluster);
    let stage = format!("{}={PATH}", path.display());
    // The same again from another home, with nodes in another order.
    for list in ["0-6", "6,4,0,2,5,1,3"] {
        let before = [0, 1, 2].map(|pset| counted(&cluster, pset));
        let arguments = ["--nodes-list", list, "--no-stage", "--stage", &stage, BUSYBOX, "sha256sum", PATH];
        let ran = cluster.run(&arguments).success();
        assert_eq!(ran.text(), format!("{}  {PATH}\n", sum(&path)).repeat(7), "{list}");
        let job = cluster.last_job();
        let transfer = &job["transfers"][0];
        let number = |value: &Value, name: &str| value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {job}"));
        assert_eq!((number(transfer, "nodes"), number(transfer, "lost")), (7, 0), "{job}");
        let members = &transfer["members"];
        assert_eq!((number(members, "nodes"), number(members, "wrong")), (7, 0), "{job}");
        let crossed = number(members, "crossed_bytes");
        let home = if list == "0-6" { 0 } else { 2 };
        let mut entered = crossed;
        for pset in 0..3 {
            let [to, from] = [0, 1].map(|way| counted(&cluster, pset)[way] - before[pset as usize][way]);
            assert!(from >= BYTES, "pset {pset} of {list}: {from} bytes from its I/O node, {job}");
            if pset != home {
                entered += to;
            }
        }
        assert!(number(transfer, "home_bytes") < 2 * BYTES, "{job}");
        // At most half of it for each of the other two psets. Where trees know nothing of psets it would all go to each
        // of them once or more, and to home's as well.
        assert!(entered < BYTES, "{list}: {entered} bytes entered psets, {crossed} of them at nodes: {job}");
    }
}

#[test]
fn an_io_node_that_dies_meanwhile_costs_nobody_else_anything() {
    let cluster = Cluster::up_with(&["--nodes", "6", "--pset-size", "2", "--bandwidth", "5M"]);
    let path = file(&cluster);
    let before = counted(&cluster, 1)[1];
    let mut command = cluster.command(&["stage", path.to_str().expect("a path")]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    wait_until("a part of the file has gone", TIME_MAX, || {
        let sent = counted(&cluster, 1)[1] - before;
        if sent > BYTES / 8 { Ok(()) } else { Err(format!("{sent} bytes")) }
    });
    kill_process(io_node(&cluster, 1), Signal::KILL).expect("sent");
    let ran = finish_child(child, "an order that loses a pset");
    // Its nodes go with it, and are not the last that is heard of the others.
    assert_eq!(ran.status, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("nodes 2-3 do not have it: it was lost"), "{}", ran.stderr);
    assert!(ran.text().ends_with("(4.0 MiB) on 4 nodes, 0 had it\n"), "{}", ran.text());
    // They are booted anew, and whoever stages the file then finds it where it came.
    cluster.wait_until_ready();
    let stage = format!("{}={PATH}", path.display());
    let ran = cluster.run(&["-n", "6", "--stage", &stage, BUSYBOX, "sha256sum", PATH]).success();
    assert_eq!(ran.text(), format!("{}  {PATH}\n", sum(&path)).repeat(6));
}
