//! Which job starts when: nodes that users name, and estimates that let others go first.

mod support;

use std::time::Duration;

use coppice_api::job::{EXIT_COPPICE, JobState, Submission};
use coppice_api::retain::PlacementReason;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_service_node::controller::Request;
use coppice_service_node::limits::{BOOT_ATTEMPTS_MAX, BOOT_RETRY_TIME_MIN, BOOT_TIME_MAX};
use support::memory::PAGES;
use support::{Cluster, job, program};

fn on(nodes: &[u32]) -> Submission {
    Submission { nodes: nodes.to_vec(), ..job(u32::try_from(nodes.len()).expect("few")) }
}

fn estimated(ranks: u32, seconds: u64) -> Submission {
    Submission { estimate_ms: Some(seconds * 1000), ..job(ranks) }
}

fn timed(ranks: u32, seconds: u64) -> Submission {
    Submission { timeout_ms: Some(seconds * 1000), ..job(ranks) }
}

/// Submits a job and takes its output, so that it is not killed when time passes.
fn submit(cluster: &mut Cluster, job: Submission) -> JobId {
    let id = cluster.submit(job).expect("accepted");
    // Forgotten on purpose: a feed that is dropped is somebody who went away.
    std::mem::forget(cluster.ask(|answer| Request::Attach(id, answer)).expect("attached"));
    id
}

fn nodes(cluster: &mut Cluster, job: JobId) -> Vec<u32> {
    cluster.job(job).job.nodes
}

fn state(cluster: &mut Cluster, job: JobId) -> JobState {
    cluster.job(job).job.state
}

#[test]
fn ranks_run_where_their_user_says() {
    let mut cluster = Cluster::up(6, 2);
    cluster.run_on(program(3), &[1, 5]);
    let id = submit(&mut cluster, on(&[5, 0, 2]));
    assert_eq!(nodes(&mut cluster, id), [5, 0, 2], "rank i on the i-th");
    let members: Vec<_> =
        cluster.members(id).iter().map(|member| (member.rank.0, member.node.0, member.use_retained)).collect();
    assert_eq!(members, [(1, 0, false), (2, 2, false), (0, 5, true)], "pset by pset");
    let placement = cluster.job(id).job.placement.expect("placed");
    assert_eq!(placement.summary, "3 nodes as listed, 1 holds 128 pages of the program");
    assert!(placement.nodes.iter().all(|placed| placed.reason == PlacementReason::Listed));
    assert_eq!(placement.nodes[0].pages, PAGES);
    cluster.end(id);
    let unaware = submit(&mut cluster, Submission { retain: false, ..on(&[5]) });
    assert!(!cluster.members(unaware)[0].use_retained);
    let placement = cluster.job(unaware).job.placement.expect("placed");
    assert_eq!(placement.summary, "1 node as listed, retained pages are not used");
}

#[test]
fn named_nodes_are_waited_for() {
    let mut cluster = Cluster::up(4, 4);
    let first = submit(&mut cluster, on(&[1]));
    let second = submit(&mut cluster, on(&[3]));
    let id = submit(&mut cluster, on(&[3, 1]));
    let behind = submit(&mut cluster, job(1));
    cluster.end(first);
    assert_eq!(state(&mut cluster, id), JobState::Queued, "only one of them is free");
    assert_eq!(state(&mut cluster, behind), JobState::Queued, "nobody knows how long it takes");
    cluster.end(second);
    assert_eq!(nodes(&mut cluster, id), [3, 1]);
    assert_eq!(nodes(&mut cluster, behind), [0]);
}

#[test]
fn a_queued_job_with_named_nodes_can_be_killed() {
    let mut cluster = Cluster::up(2, 2);
    let first = submit(&mut cluster, on(&[1]));
    let id = submit(&mut cluster, on(&[1]));
    let behind = submit(&mut cluster, job(1));
    cluster.ask(|answer| Request::Kill(id, 15, answer)).expect("killed");
    let killed = cluster.job(id).job;
    assert_eq!((killed.state, killed.exit_status, killed.nodes), (JobState::Ended, Some(143), vec![]));
    assert_eq!((killed.placement, killed.retention), (None, None), "it never had nodes");
    assert_eq!(nodes(&mut cluster, behind), [0], "the one behind it goes on");
    assert_eq!(state(&mut cluster, first), JobState::Running);
}

#[test]
fn lists_that_make_no_sense_are_refused_in_one_line() {
    let mut cluster = Cluster::up(4, 4);
    let cases = [
        (on(&[4]), 400, "no node 4; it has 4"),
        (on(&[0, u32::MAX]), 400, "no node 4294967295"),
        (on(&[2, 1, 2]), 400, "names node 2 twice"),
        (Submission { ranks: 3, ..on(&[0, 1]) }, 400, "names 2 nodes and -n says 3"),
        (Submission { ranks: 2, ..on(&[3]) }, 400, "names 1 node and -n says 2"),
        (Submission { ranks: 1, ..on(&[0, 1, 2, 3, 4, 5]) }, 400, "names 6 nodes and -n says 1"),
    ];
    for (job, status, words) in cases {
        let refused = cluster.submit(job).expect_err(words);
        assert_eq!(refused.status, status);
        assert!(refused.message.contains(words) && !refused.message.contains('\n'), "{}", refused.message);
    }
    assert_eq!(cluster.ask(|answer| Request::Jobs(9, None, answer)).expect("jobs"), [], "none was recorded");
}

#[test]
fn a_named_node_that_stops_working_ends_the_wait() {
    let mut cluster = Cluster::up(2, 2);
    let first = submit(&mut cluster, on(&[1]));
    let id = submit(&mut cluster, on(&[1, 0]));
    cluster.behaviour.boots = false;
    cluster.lose_machine(1);
    assert_eq!(state(&mut cluster, first), JobState::Ended);
    assert_eq!(state(&mut cluster, id), JobState::Queued, "it may come back");
    for attempt in 0..BOOT_ATTEMPTS_MAX {
        cluster.pass(BOOT_TIME_MAX + BOOT_RETRY_TIME_MIN * 4u32.pow(attempt));
    }
    let ended = cluster.job(id).job;
    assert_eq!(ended.exit_status, Some(EXIT_COPPICE));
    assert_eq!(ended.reason.as_deref(), Some("node 1, which it was to run on, does not work any more"));
    let refused = cluster.submit(on(&[1])).expect_err("it does not work");
    assert_eq!(refused.status, 409);
    assert!(refused.message.contains("node 1 does not work"), "{}", refused.message);
    let other = submit(&mut cluster, on(&[0]));
    assert_eq!(nodes(&mut cluster, other), [0]);
}

#[test]
fn a_short_job_goes_first_if_that_delays_nobody() {
    let mut cluster = Cluster::up(4, 4);
    let running = submit(&mut cluster, estimated(3, 100));
    let head = submit(&mut cluster, job(4));
    cluster.pass(Duration::from_secs(10));
    let too_long = submit(&mut cluster, estimated(1, 91));
    let unknown = submit(&mut cluster, job(1));
    let short = submit(&mut cluster, timed(1, 90));
    assert_eq!(cluster.job(short).job.nodes, [3], "ended by --timeout in time");
    assert_eq!(cluster.job(running).job.estimate_ms, Some(100_000));
    for waiting in [head, too_long, unknown] {
        assert_eq!(state(&mut cluster, waiting), JobState::Queued);
    }
    cluster.end(short);
    assert_eq!(state(&mut cluster, head), JobState::Queued);
    cluster.end(running);
    assert_eq!(nodes(&mut cluster, head), [0, 1, 2, 3]);
}

#[test]
fn a_job_that_exceeds_its_estimate_goes_on() {
    let mut cluster = Cluster::up(2, 2);
    let running = submit(&mut cluster, Submission { timeout_ms: Some(50_000), ..estimated(1, 10) });
    let head = submit(&mut cluster, job(2));
    cluster.pass(Duration::from_secs(11));
    assert_eq!(state(&mut cluster, running), JobState::Running, "an estimate is no limit");
    let long = submit(&mut cluster, estimated(1, 40));
    assert_eq!(state(&mut cluster, long), JobState::Queued, "39 s are left by --timeout");
    let short = submit(&mut cluster, estimated(1, 39));
    assert_eq!(nodes(&mut cluster, short), [1]);
    cluster.end(short);
    // One without a limit that has exceeded its estimate may end at any moment.
    cluster.end(running);
    cluster.end(head);
    cluster.end(long);
    let running = submit(&mut cluster, estimated(1, 10));
    let head = submit(&mut cluster, job(2));
    cluster.pass(Duration::from_secs(11));
    let short = submit(&mut cluster, estimated(1, 1));
    assert_eq!(state(&mut cluster, short), JobState::Queued);
    cluster.end(running);
    assert_eq!(nodes(&mut cluster, head), [0, 1]);
}

#[test]
fn nobody_overtakes_while_a_node_is_on_its_way_up() {
    let mut cluster = Cluster::up(3, 3);
    let running = submit(&mut cluster, estimated(1, 100));
    cluster.behaviour.boots = false;
    cluster.lose_machine(2);
    let head = submit(&mut cluster, job(2));
    let short = submit(&mut cluster, estimated(1, 1));
    assert_eq!(state(&mut cluster, short), JobState::Queued, "node 2 may be there at any moment");
    let generation = cluster.behaviour.generation(NodeId(2));
    let ready = cluster.behaviour.ready(coppice_protocol::ids::PsetId(0), NodeId(2), generation);
    cluster.event(ready);
    assert_eq!(nodes(&mut cluster, head), [1, 2]);
    cluster.end(running);
    assert_eq!(nodes(&mut cluster, short), [0]);
}

#[test]
fn jobs_on_other_nodes_do_not_wait_for_a_named_one() {
    let mut cluster = Cluster::up(3, 3);
    let running = submit(&mut cluster, on(&[1]));
    let head = submit(&mut cluster, on(&[1, 2]));
    let beside = submit(&mut cluster, estimated(1, 1000));
    assert_eq!(nodes(&mut cluster, beside), [0], "the head never needs it");
    let in_the_way = submit(&mut cluster, Submission { estimate_ms: Some(1), ..on(&[2]) });
    assert_eq!(state(&mut cluster, in_the_way), JobState::Queued);
    cluster.end(running);
    assert_eq!(nodes(&mut cluster, head), [1, 2]);
}
