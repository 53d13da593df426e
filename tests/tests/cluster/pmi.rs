//! PMI: ranks on real nodes that exchange what they have put, wait for each other, and give up.

use coppice_tests::Cluster;
use coppice_tests::guests::{Toolchain, program};

fn guest() -> String {
    program("pmi", Toolchain::Musl).to_string_lossy().into_owned()
}

/// What a job prints of which everybody has found everybody's cards.
fn exchanged(size: u32) -> Vec<String> {
    exchanged_on(size, &format!("(vector,(0,{size},1))"))
}

/// The same of one whose ranks are placed so.
fn exchanged_on(size: u32, mapping: &str) -> Vec<String> {
    let mapping = format!("value={mapping}");
    let lines = (0..size).flat_map(|rank| [format!("rank {rank} of {size}: {mapping}"), format!("rank {rank}: done")]);
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

pub(crate) fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Rounds of put, barrier, get of all others' cards, and a second barrier right behind; ranks are late in turns.
#[test]
fn ranks_find_each_others_cards() {
    let cluster = Cluster::up(4);
    for size in [1, 2, 3, 4] {
        let ran = cluster.run(&["-n", &size.to_string(), &guest(), "exchange", "20"]).success();
        assert_eq!(sorted(&ran.text()), exchanged(size), "{}", ran.stderr);
    }
}

/// The same for ranks that call PMI_PORT, and for several on a node.
#[test]
fn ranks_may_call_and_share_a_node() {
    let cluster = Cluster::up(3);
    let ran = cluster.run(&["-n", "3", &guest(), "port", "exchange", "10"]).success();
    assert_eq!(sorted(&ran.text()), exchanged(3), "{}", ran.stderr);
    for how in [&["exchange", "10"][..], &["port", "exchange", "10"]] {
        let guest = guest();
        let ran = cluster.run(&[&["-n", "8", "--ranks-per-node", "3", &guest], how].concat()).success();
        assert_eq!(sorted(&ran.text()), exchanged_on(8, "(vector,(0,2,3),(2,1,2))"), "{}", ran.stderr);
    }
}

/// One frame in a hundred is lost on every link, and each takes 5 ms, in both directions.
#[test]
fn bad_links_change_nothing_between_ranks() {
    let cluster = Cluster::up_with(&["--nodes", "4", "--loss", "1%", "--latency", "5ms"]);
    for _ in 0..3 {
        let ran = cluster.run(&["-n", "4", &guest(), "exchange", "10"]).success();
        assert_eq!(sorted(&ran.text()), exchanged(4), "{}", ran.stderr);
    }
}

/// What speaks version 2.
pub(crate) fn second() -> String {
    program("pmi2", Toolchain::Musl).to_string_lossy().into_owned()
}

/// What ranks of version 2 print: as those of version 1.
pub(crate) fn exchanged_by_second(size: u32, mapping: &str) -> Vec<String> {
    let lines = exchanged_on(size, mapping).into_iter();
    lines
        .map(|line| line.replacen("value=", "cmd=info-getjobattr-response;found=TRUE;value=", 1))
        .map(|line| if line.ends_with(": done") { line } else { format!("{line};rc=0;") })
        .collect()
}

/// Version 2 does the same, and ranks of a node tell each other what no other node hears of.
#[test]
fn ranks_may_speak_version_2() {
    let cluster = Cluster::up_with(&["--nodes", "3", "--freeze-every", "20ms"]);
    let second = second();
    for how in
        [&["exchange", "10"][..], &["port", "exchange", "10"], &["neighbours", "3"], &["port", "neighbours", "3"]]
    {
        let ran = cluster.run(&[&["-n", "8", "--ranks-per-node", "3", &second], how].concat()).success();
        assert_eq!(sorted(&ran.text()), exchanged_by_second(8, "(vector,(0,2,3),(2,1,2))"), "{}", ran.stderr);
    }
    let ran = cluster.run(&["-n", "3", &second, "abort", "1", "out of cheese"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("rank 1 aborted the job with code 1: out of cheese"), "{}", ran.stderr);
}

/// What a rank says when it ends the job is what the job ends with.
#[test]
fn an_abort_reaches_the_user() {
    let cluster = Cluster::up(4);
    let ran = cluster.run(&["-n", "4", &guest(), "abort", "2", "42", "out of cheese"]);
    assert_eq!(ran.status, 42, "{}", ran.stderr);
    let reason = "rank 2 aborted the job with code 42: out of cheese";
    assert!(ran.stderr.contains(reason), "{}", ran.stderr);
    assert_eq!(cluster.last_job()["reason"], reason, "{}", cluster.last_job());
    // The nodes are good for the next job.
    let ran = cluster.run(&["-n", "4", &guest(), "exchange", "1"]).success();
    assert_eq!(sorted(&ran.text()), exchanged(4));
}

/// A rank that goes away while others wait for it ends the job, and is named.
#[test]
fn a_rank_that_dies_in_a_barrier_ends_the_job() {
    let cluster = Cluster::up(3);
    for (how, status, reason) in [
        ("exit", 7, "rank 1 on node 1 exited with status 7 without finalizing MPI"),
        ("crash", 139, "rank 1 on node 1 was ended by signal 11 without finalizing MPI"),
        ("close", 1, "rank 1 on node 1 closed its PMI descriptor, and other ranks wait for it in a PMI barrier"),
    ] {
        let ran = cluster.run(&["-n", "3", &guest(), "leave", "1", how]);
        assert_eq!(ran.status, status, "{how}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{how}: {}", ran.stderr);
    }
}
