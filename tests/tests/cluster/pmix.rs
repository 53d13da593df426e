//! PMIx: ranks on real nodes that find each other with OpenPMIx's own library, unmodified.

use std::time::Duration;

use coppice_tests::guests::{Toolchain, program};
use coppice_tests::{Cluster, Waiting};
use rustix::process::{Signal, kill_process};

use crate::checkpoint::{checkpoint, restart, start};
use crate::regions::machine;

fn guest() -> String {
    program("meets", Toolchain::Pmix).to_string_lossy().into_owned()
}

fn cluster(nodes: u32) -> Cluster {
    Cluster::up_with(&["--nodes", &nodes.to_string(), "--memory", "128M"])
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// What all ranks say at their end.
fn done(size: u32) -> Vec<String> {
    let mut lines: Vec<String> = (0..size).map(|rank| format!("rank {rank}: done")).collect();
    lines.sort();
    lines
}

#[test]
fn ranks_find_each_other() {
    let cluster = cluster(4);
    for (size, per_node) in [(1, 1), (4, 1), (7, 2)] {
        let (n, each) = (size.to_string(), per_node.to_string());
        let ran = cluster.run(&["-n", &n, "--ranks-per-node", &each, &guest(), "exchange", "10"]).success();
        let about = |rank: u32| {
            let node = rank / per_node;
            let peers: Vec<String> =
                (node * per_node..size.min((node + 1) * per_node)).map(|rank| rank.to_string()).collect();
            let nodes = size.div_ceil(per_node);
            format!("rank {rank} of {size} on node{node} with {} of {nodes} nodes", peers.join(","))
        };
        let mut wanted: Vec<String> = (0..size).map(about).chain(done(size)).collect();
        wanted.sort();
        assert_eq!(sorted(&ran.text()), wanted, "{}", ran.stderr);
    }
}

#[test]
fn parts_of_a_job_and_groups_wait_for_each_other_and_names_are_found() {
    let cluster = cluster(3);
    for options in [&["-n", "3"][..], &["-n", "6", "--ranks-per-node", "2"]] {
        let size = options[1].parse().expect("a number");
        for what in [&["parts", "10"][..], &["names"]] {
            let guest = guest();
            let ran = cluster.run(&[options, &[&guest], what].concat()).success();
            assert_eq!(sorted(&ran.text()), done(size), "{what:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn what_is_put_later_is_waited_for_and_who_has_gone_is_not() {
    let cluster = cluster(2);
    for options in [&["-n", "2"][..], &["-n", "2", "--ranks-per-node", "2"]] {
        for what in [&["later", "5"][..], &["gone"]] {
            let guest = guest();
            let ran = cluster.run(&[options, &[&guest], what].concat()).success();
            assert_eq!(sorted(&ran.text()), done(2), "{what:?}: {}", ran.stderr);
        }
    }
}

#[test]
fn what_a_rank_says_is_told_to_others_once_and_in_order() {
    let cluster = cluster(4);
    for options in [&["-n", "4"][..], &["-n", "7", "--ranks-per-node", "2"], &["-n", "1"]] {
        let guest = guest();
        let ran = cluster.run(&[options, &[&guest, "events", "20"]].concat()).success();
        assert_eq!(sorted(&ran.text()), done(options[1].parse().expect("a number")), "{}", ran.stderr);
    }
}

#[test]
fn bad_links_change_nothing() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--memory", "128M", "--loss", "1%", "--latency", "5ms"]);
    for what in [&["exchange", "5"][..], &["parts", "5"], &["events", "9"]] {
        let guest = guest();
        let ran = cluster.run(&[&["-n", "4", &guest], what].concat()).success();
        assert!(ran.text().contains("rank 3: done"), "{what:?}: {}", ran.stderr);
    }
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let cluster = cluster(2);
    let ran = cluster.run(&["-n", "2", &guest(), "abort"]);
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 1 aborted the job with code 7: enough of it"), "{}", ran.stderr);
}

/// Told to go on, a job does without a rank that crashes, if its programs can; those that cannot be told end as ever.
#[test]
fn a_job_goes_on_without_a_rank_if_it_is_to() {
    let cluster = cluster(4);
    for placed in [&["-n", "4"][..], &["-n", "4", "--ranks-per-node", "4"], &["-n", "6", "--ranks-per-node", "2"]] {
        let guest = guest();
        let goes_on = [placed, &["--on-rank-failure", "continue", &guest, "survives"]].concat();
        let ran = cluster.run(&goes_on);
        let done: Vec<String> = sorted(&ran.text());
        let size: usize = placed[1].parse().expect("a number");
        let wanted = (0..size).filter(|rank| *rank != 1).map(|rank| format!("rank {rank}: done"));
        assert_eq!((done, ran.status), (wanted.collect(), 139), "{placed:?}: {}", ran.stderr);
        let ends = cluster.run(&[placed, &[&guest, "survives"]].concat());
        assert_eq!((ends.text().as_str(), ends.status), ("", 139), "{placed:?}: {}", ends.stderr);
        assert!(ends.stderr.contains("rank 1 on node"), "{}", ends.stderr);
    }
    let speaks_pmi = program("pmi", Toolchain::Musl);
    let leaves = [&*speaks_pmi.to_string_lossy(), "leave", "1", "crash"];
    let ran = cluster.run(&[&["-n", "3", "--on-rank-failure", "continue"], &leaves[..]].concat());
    let reason = "rank 1 on node 1 was ended by signal 11, and other ranks wait for it in a PMI barrier";
    assert_eq!((ran.status, ran.stderr.contains(reason)), (139, true), "{}", ran.stderr);
}

/// It also does without a node, with all that ran there, however its ranks wait for those.
#[test]
fn a_job_goes_on_without_a_node_if_it_is_to() {
    let cluster = cluster(4);
    for (ranks, per_node, lost) in [(4, 1, 1), (8, 2, 2), (8, 2, 3), (3, 1, 0)] {
        let (n, each, first) = (ranks.to_string(), per_node.to_string(), (lost * per_node).to_string());
        let nodes = ["0", "1", "2", "3"][..ranks as usize / per_node as usize].join(",");
        let placed = ["-n", &n, "--ranks-per-node", &each, "--nodes-list", &nodes, "--on-rank-failure", "continue"];
        let guest = guest();
        let running = Waiting::start(&cluster, &[&placed, &[&guest, "bereft", &first, &each][..]].concat(), "now");
        kill_process(machine(&cluster, lost as usize), Signal::KILL).expect("sent");
        let ran = running.end();
        let wanted: Vec<String> =
            (0..ranks).filter(|rank| rank / per_node != lost).map(|rank| format!("rank {rank}: done")).collect();
        assert_eq!((sorted(&ran.text()), ran.status), (wanted, 125), "{placed:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&format!("node {lost} was lost")), "{}", ran.stderr);
        cluster.wait_until_ready();
    }
}

#[test]
fn ranks_do_not_notice_that_they_are_taken_apart() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--memory", "128M", "--freeze-every", "20ms"]);
    for what in [&["exchange", "5"][..], &["parts", "5"], &["names"], &["later", "2"], &["events", "9"]] {
        let guest = guest();
        let size = if what[0] == "later" { "2" } else { "3" };
        let ran = cluster.run(&[&["-n", size, &guest], what].concat()).success();
        assert_eq!(sorted(&ran.text()).len() % size.parse::<usize>().expect("a number"), 0, "{what:?}: {}", ran.stderr);
    }
}

#[test]
fn ranks_go_on_from_their_checkpoints() {
    let cluster = cluster(4);
    let mut job = start(&cluster, &["-n", "4", "--ranks-per-node", "2", &guest(), "stay", "8"]);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        let made = checkpoint(&cluster, &job);
        let _ = cluster.coppice(&["kill", "--signal", "KILL", &job]);
        let _ = cluster.coppice(&["wait", &job]);
        job = restart(&cluster, &made, &[]);
    }
    let ended = cluster.coppice(&["wait", &job]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
}
