//! Checkpoints that ranks of a job ask for: when they are made, and what its nodes are told.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_api::checkpoint::{CheckpointCost, CheckpointName, CheckpointPolicy};
use coppice_api::job::Submission;
use coppice_api::limits::CHECKPOINTS_KEPT_DEFAULT;
use coppice_api::ras::RasQuery;
use coppice_api::signal::SIGKILL;
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_service_node::controller::{Event, Newest, Request};
use coppice_service_node::limits::ASKED_CHECKPOINT_INTERVAL;
use coppice_service_node::plant::{CheckpointEvent, CheckpointOrder, PlantEvent};
use support::{Cluster, Order, job};

const SOON: Duration = Duration::from_millis(1);

/// How many are kept of those that were ordered so far.
fn ordered(cluster: &Cluster) -> Vec<u32> {
    let kept = |order: &Order| match order {
        Order::Checkpoint(CheckpointOrder::Make { keep, .. }) => Some(*keep),
        _ => None,
    };
    cluster.orders.iter().filter_map(kept).collect()
}

/// What psets were told of checkpoints so far.
fn told(cluster: &Cluster) -> Vec<(u32, u64)> {
    let told = cluster.told().filter_map(|(pset, message)| match message {
        ToPset::Checkpointed { made, .. } => Some((pset.0, *made)),
        _ => None,
    });
    told.collect()
}

/// A rank on a node asks.
fn ask(cluster: &mut Cluster, node: u32, job: JobId) {
    cluster.said(node, FromPset::WantsCheckpoint { job });
    cluster.pass(SOON);
}

fn say(cluster: &mut Cluster, job: JobId, event: CheckpointEvent) {
    cluster.event(Event::Plant(PlantEvent::Checkpoint { job, event }));
}

fn made(cluster: &mut Cluster, job: JobId, number: u32) {
    let checkpoint = CheckpointName { job: job.0, number };
    let newest = Newest { checkpoint, by: number.into(), is_base: true, slots: BTreeMap::new() };
    let cost = CheckpointCost { pause_us: 20_000, pages: 9, bytes: 4096, local_ms: 80, drain_ms: 600, hash_ms: None };
    say(cluster, job, CheckpointEvent::Made(newest, cost));
}

fn tried(cluster: &mut Cluster, job: JobId, troubles: &[&str]) {
    let troubles = troubles.iter().map(|text| (*text).to_owned()).collect();
    say(cluster, job, CheckpointEvent::Tried { troubles });
}

fn submit(cluster: &mut Cluster, ranks: u32) -> JobId {
    cluster.submit(Submission { detached: true, ..job(ranks) }).expect("accepted")
}

#[test]
fn those_who_ask_together_have_one_made_and_are_told() {
    // Two psets of one node each.
    let mut cluster = Cluster::up(2, 1);
    let id = submit(&mut cluster, 2);
    ask(&mut cluster, 0, id);
    assert_eq!(ordered(&cluster), [CHECKPOINTS_KEPT_DEFAULT]);
    ask(&mut cluster, 1, id);
    made(&mut cluster, id, 1);
    assert_eq!(told(&cluster), [(0, 1), (1, 1)]);
    tried(&mut cluster, id, &[]);
    cluster.pass(ASKED_CHECKPOINT_INTERVAL * 3);
    assert_eq!((ordered(&cluster).len(), told(&cluster).len()), (1, 2), "once");
    assert_eq!(cluster.job(id).job.checkpoints_made.map(|made| made.count), Some(1));
    // One that nobody asked for is told of, too.
    made(&mut cluster, id, 2);
    assert_eq!(told(&cluster)[2..], [(0, 2), (1, 2)]);
    ask(&mut cluster, 1, id);
    assert_eq!(ordered(&cluster).len(), 2);
}

#[test]
fn one_that_is_made_is_none_for_those_who_ask_then() {
    let mut cluster = Cluster::up(2, 2);
    let id = submit(&mut cluster, 2);
    ask(&mut cluster, 0, id);
    made(&mut cluster, id, 1);
    // Old ones are still being deleted.
    ask(&mut cluster, 0, id);
    tried(&mut cluster, id, &[]);
    assert_eq!(told(&cluster), [(0, 1)], "what is asked for is not over");
    cluster.pass(ASKED_CHECKPOINT_INTERVAL - SOON * 3);
    assert_eq!(ordered(&cluster).len(), 1, "not so soon behind the first");
    cluster.pass(SOON);
    assert_eq!(ordered(&cluster).len(), 2);
    made(&mut cluster, id, 2);
    assert_eq!(told(&cluster), [(0, 1), (0, 2)]);
}

#[test]
fn who_asks_in_vain_is_told_and_may_ask_again() {
    let mut cluster = Cluster::up(2, 2);
    let id = submit(&mut cluster, 2);
    ask(&mut cluster, 0, id);
    tried(&mut cluster, id, &["no checkpoint of job 1 was made: the disk is full"]);
    assert_eq!(told(&cluster), [(0, 0)]);
    let failed = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    assert_eq!(failed.iter().filter(|event| event.kind == "checkpoint-failed").count(), 1);
    ask(&mut cluster, 0, id);
    cluster.pass(ASKED_CHECKPOINT_INTERVAL);
    assert_eq!(ordered(&cluster).len(), 2);
}

#[test]
fn those_that_are_due_count_and_are_counted_from() {
    let mut cluster = Cluster::up(2, 2);
    let policy = CheckpointPolicy { every_ms: 30_000, keep: 5, max_restarts: 0, node_mtbf_ms: None };
    let submission = Submission { checkpoint_policy: Some(policy), detached: true, ..job(2) };
    let id = cluster.submit(submission).expect("accepted");
    cluster.pass(Duration::from_secs(20));
    ask(&mut cluster, 0, id);
    assert_eq!(ordered(&cluster), [5], "of the job's own");
    made(&mut cluster, id, 1);
    tried(&mut cluster, id, &[]);
    cluster.pass(Duration::from_secs(29));
    assert_eq!(ordered(&cluster).len(), 1, "an interval after the last");
    cluster.pass(Duration::from_secs(1));
    assert_eq!(ordered(&cluster).len(), 2);
    ask(&mut cluster, 0, id);
    made(&mut cluster, id, 2);
    tried(&mut cluster, id, &[]);
    cluster.pass(Duration::from_secs(10));
    assert_eq!(ordered(&cluster).len(), 2, "that one counted");
}

#[test]
fn none_is_made_before_all_ranks_run_or_of_what_ends() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.launches = false;
    cluster.behaviour.obeys_kill = false;
    let id = submit(&mut cluster, 2);
    cluster.said(0, FromPset::Launched { job: id, ranks: Rank(0).into() });
    ask(&mut cluster, 0, id);
    cluster.pass(ASKED_CHECKPOINT_INTERVAL * 2);
    assert!(ordered(&cluster).is_empty());
    cluster.said(0, FromPset::Launched { job: id, ranks: Rank(1).into() });
    cluster.pass(SOON);
    assert_eq!(ordered(&cluster).len(), 1);
    made(&mut cluster, id, 1);
    tried(&mut cluster, id, &[]);
    ask(&mut cluster, 0, id);
    let _waiting = cluster.ask_and_wait(|answer| Request::Kill(id, SIGKILL, answer));
    ask(&mut cluster, 0, id);
    cluster.pass(ASKED_CHECKPOINT_INTERVAL * 2);
    assert_eq!(ordered(&cluster).len(), 1);
    // Of jobs that are not there nobody asks.
    ask(&mut cluster, 0, JobId(77));
}
