//! Files that all nodes of a job read: over slow links they come to all of them about once, byte for byte, whatever
//! happens meanwhile, and are gone with the job.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::finish_child;
use coppice_tests::guests::BUSYBOX;
use coppice_tests::physical::{Pattern, memory_of};

const BYTES: usize = 6 * 1024 * 1024;

/// The nodes of a cluster.
const NODES: u32 = 4;

fn cluster(more: &[&str]) -> Cluster {
    Cluster::up_with(&[&["--nodes", "4", "--bandwidth", "40M"], more].concat())
}

/// Puts a file of this pattern where all ranks find it.
fn write(cluster: &Cluster, pattern: &Pattern, bytes: usize) {
    let path = cluster.root().join("in");
    std::fs::write(&path, pattern.repeated(bytes)).expect("written");
    // Of what not everybody may read nothing stays for jobs that come.
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("private");
}

/// What so many ranks say that have read it.
fn sums(cluster: &Cluster, ranks: u32) -> String {
    let output = Command::new(BUSYBOX).arg("sha256sum").arg(cluster.root().join("in")).output().expect("run");
    let said = String::from_utf8(output.stdout).expect("text");
    let sum = said.split(' ').next().expect("a sum");
    format!("{sum}  /in\n").repeat(ranks as usize)
}

/// The last job, as it is recorded.
fn last(cluster: &Cluster) -> serde_json::Value {
    let jobs = cluster.json(&["jobs"]);
    jobs.as_array().and_then(|jobs| jobs.last()).expect("a job").clone()
}

/// Bytes that the I/O node has sent over its link.
fn sent(cluster: &Cluster) -> u64 {
    cluster.links("io0")[0].from.counters.bytes
}

/// The transfers of the last job.
fn transfers(cluster: &Cluster) -> Vec<serde_json::Value> {
    last(cluster)["transfers"].as_array().cloned().unwrap_or_default()
}

/// Whether the file was broadcast to the last job that has read it.
#[track_caller]
fn assert_broadcast(cluster: &Cluster) {
    let transfers = transfers(cluster);
    assert!(transfers.iter().any(|transfer| transfer["path"] == "/in"), "{transfers:?}");
}

fn begin(cluster: &Cluster, arguments: &[&str]) -> Child {
    let mut command = cluster.command(&[&["run", "--quiet", "-n", "4"], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
}

#[test]
fn what_all_nodes_read_is_sent_about_once() {
    let cluster = cluster(&[]);
    let pattern = Pattern::of_seed(81_001);
    write(&cluster, &pattern, BYTES);
    // So that the program is there.
    let _ = cluster.run(&["-n", "4", BUSYBOX, "sha256sum", BUSYBOX]);
    let before = sent(&cluster);
    let ran = cluster.run(&["-n", "4", BUSYBOX, "sha256sum", "/in"]).success();
    assert_eq!(ran.text(), sums(&cluster, NODES));
    let carried = sent(&cluster) - before;
    assert!(carried < 2 * BYTES as u64, "{carried} bytes for one file of {BYTES}");
    let transfers = transfers(&cluster);
    let [.., transfer] = &transfers[..] else { panic!("none") };
    let said = ["path", "bytes", "nodes", "lost"].map(|name| transfer[name].to_string());
    assert_eq!(said, ["\"/in\"", &BYTES.to_string(), "4", "0"]);
    assert!(transfer["readers"].as_u64().is_some_and(|readers| (2..=4).contains(&readers)), "{transfer}");
    let shown = cluster.coppice(&["job", &last(&cluster)["job"].to_string()]).success().text();
    assert!(
        shown.contains("transfer of /in, as ") && shown.contains("nodes had it open: 6.0 MiB to 4 nodes"),
        "{shown}"
    );
    (0..NODES).for_each(|node| memory_of(&cluster, node).assert_none(&pattern, "a job that has read it"));

    // Whoever wants each call made gets that.
    let before = sent(&cluster);
    let ran = cluster.run(&["-n", "4", "--io", "strict", BUSYBOX, "sha256sum", "/in"]).success();
    assert_eq!(ran.text(), sums(&cluster, NODES));
    assert!(sent(&cluster) - before > 4 * BYTES as u64);
    assert_eq!(self::transfers(&cluster), Vec::<serde_json::Value>::new());
}

#[test]
fn what_the_host_has_changed_is_read_by_the_next() {
    let cluster = cluster(&[]);
    for seed in 81_010..81_013 {
        // The times of the file tell it from what it was.
        write(&cluster, &Pattern::of_seed(seed), BYTES);
        let ran = cluster.run(&["-n", "4", BUSYBOX, "sha256sum", "/in"]).success();
        assert_eq!(ran.text(), sums(&cluster, NODES), "{seed}");
        assert_broadcast(&cluster);
    }
}

#[test]
fn links_that_lose_packets_or_are_cut_only_take_time() {
    let cluster = cluster(&["--loss", "1%"]);
    write(&cluster, &Pattern::of_seed(81_020), BYTES);
    for cut in [None, Some("2")] {
        let before = cluster.bytes_to(1);
        let job = begin(&cluster, &[BUSYBOX, "sha256sum", "/in"]);
        if let Some(cut) = cut {
            cluster.wait_for_bytes_to(1, before + BYTES as u64 / 4);
            cluster.cut_until_missed(cut);
        }
        let ran = finish_child(job, "a job that reads what comes late").success();
        assert_eq!(ran.text(), sums(&cluster, NODES), "{cut:?}");
        assert_broadcast(&cluster);
    }
}

#[test]
fn a_kill_or_the_loss_of_a_node_meanwhile_leaves_nothing() {
    let cluster = cluster(&[]);
    let pattern = Pattern::of_seed(81_030);
    write(&cluster, &pattern, BYTES);
    let under_way = |arguments: &[&str]| {
        let before = cluster.bytes_to(1);
        let job = begin(&cluster, &[arguments, &[BUSYBOX, "sha256sum", "/in"]].concat());
        cluster.wait_for_bytes_to(1, before + BYTES as u64 / 4);
        job
    };
    let clean = |nodes: &[u32], after: &str| {
        nodes.iter().for_each(|node| memory_of(&cluster, *node).assert_none(&pattern, after));
    };
    let job = under_way(&[]);
    let number = last(&cluster)["job"].to_string();
    let _ = cluster.coppice(&["kill", &number]).success();
    assert!(finish_child(job, "a job that is killed").status > 128);
    clean(&[0, 1, 2, 3], "a kill");

    // Those that are left have it all the same.
    let job = under_way(&["--on-rank-failure", "continue"]);
    cluster.kill_process("n2.qmp");
    let ran = finish_child(job, "a job that loses a node");
    assert_eq!(ran.text(), sums(&cluster, NODES - 1), "{}", ran.stderr);
    clean(&[0, 1, 3], "the loss of a node");
}

#[test]
fn a_node_with_little_memory_reads_it_without() {
    let cluster = cluster(&["--memory", "64M"]);
    write(&cluster, &Pattern::of_seed(81_040), 24 * 1024 * 1024);
    let ran = cluster.run(&["-n", "2", BUSYBOX, "sha256sum", "/in"]).success();
    assert_eq!(ran.text(), sums(&cluster, 2));
}
