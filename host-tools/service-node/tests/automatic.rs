//! Checkpoints that are made of jobs by themselves, and jobs that are to go on from them: when the controller says so.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_api::checkpoint::{CheckpointCost, CheckpointName, CheckpointPolicy, CheckpointsMade, Continuation};
use coppice_api::job::{EXIT_COPPICE, JobState, Submission};
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::signal::{SIGKILL, SIGTERM};
use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::control::{Exit, JobFailure};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::FromPset;
use coppice_service_node::controller::{Event, Newest, Refused, Request, Restart, Restoring};
use coppice_service_node::limits::RESTART_TIME_MAX;
use coppice_service_node::plant::{CheckpointEvent, CheckpointOrder, PlantEvent};
use support::{Cluster, Order, PROGRAM, job};

/// A signal that asks for nothing in particular.
const SIGUSR1: u8 = 10;

const POLICY: CheckpointPolicy = CheckpointPolicy { every_ms: 30_000, keep: 3, max_restarts: 2, node_mtbf_ms: None };

/// What checkpoints cost.
const COST: CheckpointCost =
    CheckpointCost { pause_us: 20_000, pages: 9, bytes: 4096, local_ms: 80, drain_ms: 600, hash_ms: None };

fn of_policy(ranks: u32) -> Submission {
    Submission { checkpoint_policy: Some(POLICY), detached: true, ..job(ranks) }
}

/// Orders to make checkpoints so far.
fn ordered(cluster: &Cluster) -> usize {
    let is_make = |order: &&Order| matches!(order, Order::Checkpoint(CheckpointOrder::Make { keep: 3, .. }));
    cluster.orders.iter().filter(is_make).count()
}

/// Jobs that were to be restarted so far, with what they were submitted with.
fn to_be_restarted(cluster: &Cluster) -> Vec<(JobId, Submission)> {
    let restart = |order: &Order| match order {
        Order::Checkpoint(CheckpointOrder::Restart { job, submission }) => Some((*job, (**submission).clone())),
        _ => None,
    };
    cluster.orders.iter().filter_map(restart).collect()
}

fn say(cluster: &mut Cluster, job: JobId, event: CheckpointEvent) {
    cluster.event(Event::Plant(PlantEvent::Checkpoint { job, event }));
}

/// There is a checkpoint.
fn made(cluster: &mut Cluster, job: JobId, number: u32) {
    let checkpoint = CheckpointName { job: job.0, number };
    let newest = Newest { checkpoint, by: number.into(), is_base: true, slots: BTreeMap::new() };
    say(cluster, job, CheckpointEvent::Made(newest, COST));
}

fn tried(cluster: &mut Cluster, job: JobId, troubles: &[&str]) {
    let troubles = troubles.iter().map(|text| (*text).to_owned()).collect();
    say(cluster, job, CheckpointEvent::Tried { troubles });
}

fn events(cluster: &mut Cluster, kind: &str) -> Vec<RasView> {
    let events = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    events.into_iter().filter(|event| event.kind == kind).collect()
}

fn go_on(cluster: &mut Cluster, old: JobId, number: u32) -> Result<JobId, Refused> {
    let part = |number: u32| ObjectId::of(&number.to_le_bytes());
    let restore = Restoring { by: 7, keep_files: false, ranks: vec![part(0), part(1)], nodes: vec![part(2), part(3)] };
    let checkpoint_policy = Some(CheckpointPolicy { max_restarts: 1, ..POLICY });
    let from = CheckpointName { job: old.0, number };
    let submission = Submission { restarted_from: Some(from), checkpoint_policy, ..of_policy(2) };
    let (program, staged) = (cluster.store.hold(PROGRAM), Vec::new());
    let restart = Restart { submission, program, file: None, staged, restore, continues: Some(old) };
    cluster.ask(|answer| Request::Restart(Box::new(restart), answer))
}

#[test]
fn one_is_made_in_each_interval_from_when_all_ranks_run() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.launches = false;
    let id = cluster.submit(of_policy(2)).expect("accepted");
    cluster.said(0, FromPset::Launched { job: id, ranks: Rank(0).into() });
    cluster.pass(Duration::from_secs(100));
    assert_eq!(ordered(&cluster), 0, "not all ranks run");
    cluster.said(0, FromPset::Launched { job: id, ranks: Rank(1).into() });
    for number in 1..=3 {
        cluster.pass(Duration::from_millis(29_999));
        assert_eq!(ordered(&cluster), number - 1);
        cluster.pass(Duration::from_millis(1));
        assert_eq!(ordered(&cluster), number);
        made(&mut cluster, id, number as u32);
        tried(&mut cluster, id, &[]);
    }
    let last = CheckpointName { job: id.0, number: 3 };
    let all = CheckpointsMade { count: 3, last, cost: Some(COST), interval_ms: None };
    assert_eq!(cluster.job(id).job.checkpoints_made, Some(all));
    assert_eq!(cluster.job(id).job.checkpoint_policy, Some(POLICY));
    cluster.end(id);
    cluster.pass(Duration::from_secs(100));
    assert_eq!(ordered(&cluster), 3, "it has ended");
    // One that was whole only when it had ended is one all the same.
    made(&mut cluster, id, 4);
    tried(&mut cluster, id, &["too late"]);
    assert_eq!(cluster.job(id).job.checkpoints_made.map(|made| made.count), Some(4));
    assert!(events(&mut cluster, "checkpoint-failed").is_empty());
}

#[test]
fn they_are_made_as_often_as_pays() {
    let mut cluster = Cluster::up(2, 2);
    let day = 24 * 3_600_000;
    let policy = CheckpointPolicy { every_ms: 60_000, node_mtbf_ms: Some(30 * day), ..POLICY };
    let id = cluster.submit(Submission { checkpoint_policy: Some(policy), ..of_policy(2) }).expect("accepted");
    cluster.pass(Duration::from_secs(60));
    assert_eq!(ordered(&cluster), 1, "the first, to see what it costs");
    // It is whole a second after it began. Two nodes that last 30 days each, and 20 ms: √(2 · 20 ms · 15 d) = 227.7 s.
    cluster.pass(Duration::from_secs(1));
    made(&mut cluster, id, 1);
    tried(&mut cluster, id, &[]);
    let interval = |cluster: &mut Cluster| cluster.job(id).job.checkpoints_made.and_then(|made| made.interval_ms);
    assert_eq!(interval(&mut cluster), Some(227_690));
    cluster.pass(Duration::from_millis(226_690));
    assert_eq!(ordered(&cluster), 1);
    cluster.pass(Duration::from_millis(1));
    assert_eq!(ordered(&cluster), 2, "from the beginning of the last");
    tried(&mut cluster, id, &["disk full"]);
    // What somebody has made counts as well: it is due at once if it should have been made by now.
    cluster.pass(Duration::from_secs(100));
    let checkpoint = CheckpointName { job: id.0, number: 2 };
    let newest = Newest { checkpoint, by: 2, is_base: true, slots: BTreeMap::new() };
    let cheap = CheckpointCost { pause_us: 1000, ..COST };
    say(&mut cluster, id, CheckpointEvent::Made(newest, cheap));
    assert_eq!(interval(&mut cluster), Some(50_912));
    cluster.pass(Duration::from_millis(1));
    assert_eq!(ordered(&cluster), 3);
}

#[test]
fn never_two_are_made_at_once() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(of_policy(2)).expect("accepted");
    cluster.pass(Duration::from_secs(75));
    assert_eq!(ordered(&cluster), 1, "the first is being made yet");
    tried(&mut cluster, id, &[]);
    cluster.pass(Duration::from_millis(1));
    assert_eq!(ordered(&cluster), 2, "the interval is over long since");
    tried(&mut cluster, id, &[]);
    cluster.pass(Duration::from_secs(29));
    assert_eq!(ordered(&cluster), 2, "counted from the beginning of the second");
    cluster.pass(Duration::from_secs(1));
    assert_eq!(ordered(&cluster), 3);
}

#[test]
fn what_fails_is_said_and_tried_again() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(of_policy(2)).expect("accepted");
    for number in 1..=2 {
        cluster.pass(Duration::from_secs(30));
        assert_eq!(ordered(&cluster), number);
        tried(&mut cluster, id, &["no checkpoint of job 1 was made: the disk is full"]);
    }
    let failed = events(&mut cluster, "checkpoint-failed");
    assert_eq!(failed.len(), 2);
    assert_eq!((failed[0].severity.as_str(), failed[0].job, failed[0].node), ("warn", Some(id.0), None));
    assert_eq!(failed[0].text, "no checkpoint of job 1 was made: the disk is full");
    assert_eq!(cluster.job(id).job.checkpoints_made, None);
    // Jobs of which nobody wants any have none made.
    let other = cluster.submit(Submission { checkpoint_policy: None, ..of_policy(1) });
    assert!(other.is_ok());
    cluster.pass(Duration::from_secs(300));
    assert_eq!(ordered(&cluster), 3);
}

#[test]
fn a_job_that_has_lost_a_node_goes_on_as_another() {
    let mut cluster = Cluster::up(4, 2);
    let id = cluster.submit(of_policy(2)).expect("accepted");
    let mut waiting = cluster.ask_and_wait(|answer| Request::Wait(id, answer));
    cluster.lose_machine(1);
    assert_eq!(to_be_restarted(&cluster), [(id, of_policy(2))]);
    assert!(waiting.try_recv().is_err(), "it is not known yet how it goes on");
    assert!(cluster.job(id).job.exit_status.is_none());
    // Its nodes are others' already.
    let other = cluster.submit(Submission { nodes: vec![0], ..job(1) }).expect("accepted");
    assert_eq!(cluster.job(other).job.state, JobState::Running);
    // What comes late of it changes nothing.
    let failure = JobFailure { job: id, rank: Rank(0), code: 3, reason: "lost its peer".into() };
    cluster.said(0, FromPset::Failed { node: NodeId(0), failure });
    let new = go_on(&mut cluster, id, 4).expect("restarted");
    let view = waiting.try_recv().expect("told").expect("known");
    let checkpoint = CheckpointName { job: id.0, number: 4 };
    assert_eq!(view.continued_as, Some(Continuation { job: new.0, checkpoint, lost_node: 1 }));
    assert_eq!((view.state, view.exit_status), (JobState::Ended, Some(EXIT_COPPICE)));
    assert!(view.reason.is_some_and(|reason| reason.starts_with("node 1 was lost")));
    assert_eq!(cluster.job(id).job.continued_as.map(|next| next.job), Some(new.0));
    let next = cluster.job(new).job;
    assert_eq!(
        (next.restarted_from, next.checkpoint_policy.map(|policy| policy.max_restarts)),
        (Some(checkpoint), Some(1))
    );
    assert!(cluster.members(new).iter().all(|member| member.restore.is_some()));
    // It goes on once.
    assert!(go_on(&mut cluster, id, 4).expect_err("done").message.contains("does not wait to be restarted"));
    say(&mut cluster, id, CheckpointEvent::NotRestarted { reason: "late".into() });
    cluster.pass(RESTART_TIME_MAX * 2);
    assert!(events(&mut cluster, "restart-failed").is_empty());
}

#[test]
fn what_does_not_end_by_the_loss_of_a_node_is_not_restarted() {
    let mut cluster = Cluster::up(2, 2);
    let submit = |cluster: &mut Cluster| cluster.submit(of_policy(2)).expect("accepted");
    // Its own end, a rank's failure, its user's wish, the end of its time.
    let own = submit(&mut cluster);
    cluster.end(own);
    let failed = submit(&mut cluster);
    let failure = JobFailure { job: failed, rank: Rank(1), code: 9, reason: "abort".into() };
    cluster.said(1, FromPset::Failed { node: NodeId(1), failure });
    for signal in [SIGKILL, SIGTERM] {
        let killed = submit(&mut cluster);
        cluster.ask(|answer| Request::Kill(killed, signal, answer)).expect("killed");
        assert_eq!(cluster.job(killed).job.exit_status, Some(128 + signal));
    }
    let timed = cluster.submit(Submission { timeout_ms: Some(10), ..of_policy(2) }).expect("accepted");
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.job(timed).job.reason.is_some_and(|reason| reason.contains("--timeout")));
    // A node that is lost while it is being killed, or while it does what SIGTERM asks for.
    cluster.behaviour.obeys_kill = false;
    let killed = submit(&mut cluster);
    cluster.ask(|answer| Request::Kill(killed, SIGKILL, answer)).expect("killed");
    cluster.lose_machine(0);
    cluster.lose_machine(1);
    cluster.behaviour.obeys_kill = true;
    cluster.behaviour.obeys_signals = false;
    let asked = submit(&mut cluster);
    cluster.ask(|answer| Request::Kill(asked, SIGTERM, answer)).expect("asked");
    cluster.lose_machine(0);
    assert!(cluster.job(asked).job.exit_status.is_some());
    // The last of its restarts was made.
    let policy = CheckpointPolicy { max_restarts: 0, ..POLICY };
    let last = cluster.submit(Submission { checkpoint_policy: Some(policy), ..of_policy(2) }).expect("accepted");
    cluster.lose_machine(1);
    assert_eq!(cluster.job(last).job.exit_status, Some(EXIT_COPPICE));
    // A rank that had ended before is no loss.
    let ended = submit(&mut cluster);
    let end = cluster.behaviour.ended(PsetId(0), ended, Rank(0), NodeId(0), Exit::Status(0));
    cluster.event(end);
    cluster.lose_machine(0);
    assert_eq!(cluster.job(ended).job.state, JobState::Running);
    let end = cluster.behaviour.ended(PsetId(0), ended, Rank(1), NodeId(1), Exit::Status(0));
    cluster.event(end);
    assert_eq!(to_be_restarted(&cluster), []);
    // Another signal asks for nothing like that.
    let asked = submit(&mut cluster);
    cluster.ask(|answer| Request::Kill(asked, SIGUSR1, answer)).expect("asked");
    cluster.lose_machine(1);
    assert_eq!(to_be_restarted(&cluster), [(asked, of_policy(2))]);
}

#[test]
fn what_cannot_be_restarted_stays_ended_and_says_why() {
    let mut cluster = Cluster::up(2, 2);
    let lost = |cluster: &mut Cluster| {
        let id = cluster.submit(of_policy(2)).expect("accepted");
        cluster.lose_machine(1);
        id
    };
    let id = lost(&mut cluster);
    say(&mut cluster, id, CheckpointEvent::NotRestarted { reason: "there is no checkpoint of it yet".into() });
    let view = cluster.job(id).job;
    let words = "last words; not restarted: there is no checkpoint of it yet";
    assert!(view.reason.as_ref().is_some_and(|reason| reason.ends_with(words)), "{view:?}");
    assert_eq!((view.exit_status, view.continued_as), (Some(EXIT_COPPICE), None));
    let failed = events(&mut cluster, "restart-failed");
    assert_eq!(failed[0].text, format!("job {id} is not restarted: there is no checkpoint of it yet"));
    assert_eq!((failed[0].severity.as_str(), failed[0].job), ("error", Some(id.0)));
    // It takes too long.
    let id = lost(&mut cluster);
    cluster.pass(RESTART_TIME_MAX);
    assert!(cluster.job(id).job.reason.is_some_and(|reason| reason.ends_with("that took longer than 600 s")));
    assert!(go_on(&mut cluster, id, 1).is_err());
    // Its user does not want it any more, which is nothing to worry about.
    for signal in [SIGKILL, SIGTERM] {
        let id = lost(&mut cluster);
        cluster.ask(|answer| Request::Kill(id, signal, answer)).expect("killed");
        let view = cluster.job(id).job;
        assert_eq!(view.state, JobState::Ended);
        assert!(view.reason.is_some_and(|reason| reason.ends_with("on request")));
        assert!(go_on(&mut cluster, id, 1).is_err());
    }
    assert_eq!(events(&mut cluster, "restart-failed").len(), 2);
    // Nor does the cluster wait for it.
    let id = lost(&mut cluster);
    cluster.event(Event::Request(Request::Down));
    assert_eq!(cluster.job(id).job.state, JobState::Ended);
}
