//! What happens while the database cannot be written: nothing is forgotten, and nothing new is begun.

mod support;

use std::time::Duration;

use coppice_api::cluster::ClusterState;
use coppice_api::job::JobState;
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::stream::JobEvent;
use coppice_service_node::controller::Request;
use coppice_service_node::feed::Piece;
use coppice_service_node::limits::{RECORDS_RETRY_TIME_MAX, STARTING_RECORDS_TIME_MAX};
use rusqlite::Connection;
use support::{Cluster, Order, job, paths};

/// Another program that holds the database's lock.
struct Holder(Connection);

impl Holder {
    fn of(cluster: &Cluster) -> Self {
        let connection = Connection::open(paths(cluster.home.path()).database()).expect("opened");
        connection.execute_batch("BEGIN IMMEDIATE").expect("locked");
        Self(connection)
    }

    fn let_go(self) {
        self.0.execute_batch("ROLLBACK").expect("unlocked");
    }
}

fn events(cluster: &mut Cluster, kind: &str) -> Vec<RasView> {
    let all = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    all.into_iter().filter(|event| event.kind == kind).collect()
}

#[test]
fn an_end_that_could_not_be_recorded_is_told_shown_and_recorded_later() {
    let mut cluster = Cluster::up(2, 2);
    let id = cluster.submit(job(2)).expect("accepted");
    let mut feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    let holder = Holder::of(&cluster);
    cluster.end(id);
    // Whoever ran it hears the truth, and so does who asks.
    let ended = std::iter::from_fn(|| feed.try_recv().ok()).find_map(|piece| match piece {
        Piece::Event(JobEvent::Ended(view)) => Some(view),
        _ => None,
    });
    let ended = ended.expect("told");
    assert_eq!((ended.state, ended.exit_status, ended.reason.clone()), (JobState::Ended, Some(0), None));
    let shown = cluster.job(id);
    assert_eq!((shown.job.state, shown.job.exit_status, shown.rank_reports.len()), (JobState::Ended, Some(0), 2));
    let listed = cluster.ask(|answer| Request::Jobs(10, None, answer)).expect("listed");
    assert_eq!(listed, std::slice::from_ref(&shown.job));
    // Nothing new is taken meanwhile, and it is said why.
    let refused = cluster.submit(job(1)).expect_err("cannot be recorded");
    assert_eq!(refused.status, 503);
    assert!(refused.message.contains("another program holds the lock of the database"), "{}", refused.message);
    cluster.pass(Duration::from_secs(20));
    assert!(events(&mut cluster, "recovery").is_empty());
    holder.let_go();
    cluster.pass(RECORDS_RETRY_TIME_MAX);
    assert_eq!(cluster.job(id), shown, "the record is what was shown");
    let recovered = events(&mut cluster, "recovery");
    assert!(recovered[0].text.contains("another program holds the lock"), "{recovered:?}");
    cluster.submit(job(1)).expect("taken again");
    // It is in the database, not in this process.
    let mut cluster = cluster.restarted();
    assert_eq!(cluster.job(id), shown);
}

#[test]
fn what_waits_outlives_the_service_node() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    let holder = Holder::of(&cluster);
    cluster.end(id);
    let shown = cluster.job(id);
    let Cluster { controller, home, .. } = cluster;
    drop(controller);
    holder.let_go();
    let mut cluster = Cluster::in_home(home, 1, 1, coppice_protocol::retain::RetentionPolicy::One);
    assert_eq!(cluster.job(id), shown, "a success is not recorded as a failure later");
    assert!(events(&mut cluster, "recovery").is_empty(), "no job was ended for it");
}

#[test]
fn jobs_in_the_queue_and_boots_wait_and_come_then() {
    let mut cluster = Cluster::up(1, 1);
    let first = cluster.submit(job(1)).expect("accepted");
    let _first = cluster.ask(|answer| Request::Attach(first, answer)).expect("attached");
    let second = cluster.submit(job(1)).expect("queued");
    let _second = cluster.ask(|answer| Request::Attach(second, answer)).expect("attached");
    let holder = Holder::of(&cluster);
    cluster.end(first);
    assert_eq!(cluster.job(second).job.state, JobState::Queued, "what cannot be recorded is not begun");
    let boots = |cluster: &Cluster| cluster.orders.iter().filter(|order| matches!(order, Order::Boot(..))).count();
    let before = boots(&cluster);
    cluster.lose_machine(0);
    cluster.pass(Duration::from_secs(10));
    assert_eq!(boots(&cluster), before);
    holder.let_go();
    cluster.pass(RECORDS_RETRY_TIME_MAX);
    assert_eq!(boots(&cluster), before + 1);
    assert_eq!(cluster.nodes()[0].generation, 2);
    assert_ne!(cluster.job(second).job.state, JobState::Queued);
    assert_eq!(events(&mut cluster, "node-lost").len(), 1);
}

/// Nobody waits for ever for a cluster whose nodes are not booted because nothing can be recorded.
#[test]
fn a_cluster_that_comes_up_meanwhile_is_given_up_with_the_reason() {
    let mut cluster = Cluster::new(1, 1);
    let holder = Holder::of(&cluster);
    cluster.settle();
    cluster.pass(STARTING_RECORDS_TIME_MAX / 2);
    let view = |cluster: &mut Cluster| cluster.ask_only(Request::Watch).expect("watched").borrow().clone();
    assert_eq!(view(&mut cluster).state, ClusterState::Starting);
    cluster.pass(STARTING_RECORDS_TIME_MAX + RECORDS_RETRY_TIME_MAX);
    let view = view(&mut cluster);
    assert_eq!(view.state, ClusterState::Failed);
    let failure = view.failure.expect("a reason");
    assert!(failure.contains("records cannot be written: another program holds the lock"), "{failure}");
    holder.let_go();
}

#[test]
fn too_many_events_are_counted_and_histories_kept() {
    use coppice_protocol::ids::NodeId;
    use coppice_protocol::pset::FromPset;
    use coppice_protocol::ras::{RasEvent, RasKind, Severity};
    use coppice_service_node::limits::RECORDS_WAITING_MAX;
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    let holder = Holder::of(&cluster);
    let event = RasEvent {
        severity: Severity::Warn,
        kind: RasKind::UnknownSyscall,
        job: Some(id),
        rank: None,
        address: None,
        instruction: None,
        text: "one of many".into(),
    };
    for _ in 0..RECORDS_WAITING_MAX + 7 {
        cluster.said(0, FromPset::Ras { node: Some(NodeId(0)), event: event.clone() });
    }
    cluster.end(id);
    holder.let_go();
    cluster.pass(RECORDS_RETRY_TIME_MAX);
    assert_eq!(cluster.job(id).job.exit_status, Some(0));
    let lost = events(&mut cluster, "events-lost");
    // These and what the node held when the job ended.
    assert!(lost[0].text.starts_with("8 events and states of nodes are lost"), "{lost:?}");
}
