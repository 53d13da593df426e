//! Helpers that hang instead of ending: they are noticed, ended and started anew, and what rested on them says why.

mod support;

use coppice_api::job::EXIT_COPPICE;
use coppice_api::node::NodeState;
use coppice_api::ras::RasQuery;
use coppice_api::signal::SIGKILL;
use coppice_protocol::pset::ToPset;
use coppice_service_node::controller::Request;
use coppice_service_node::limits::{
    ATTACH_TIME_MAX, HEARING_TIME, HELPER_ANSWER_TIME_MAX, HELPER_ASK_INTERVAL, HELPER_START_TIME_MAX, KILL_TIME_MAX,
};
use support::{Cluster, Order, job};

fn io_nodes_started(cluster: &Cluster) -> usize {
    cluster.orders.iter().filter(|order| matches!(order, Order::StartIoNode(..))).count()
}

fn texts(cluster: &mut Cluster) -> Vec<String> {
    let events = cluster.ask(|answer| Request::Ras(RasQuery::default(), answer)).expect("events");
    events.into_iter().filter(|event| event.kind == "io-node-lost").map(|event| event.text).collect()
}

fn all_ready(cluster: &mut Cluster) -> bool {
    cluster.nodes().iter().all(|node| node.state == NodeState::Ready)
}

#[test]
fn helpers_that_answer_are_asked_and_left_alone() {
    let mut cluster = Cluster::up(2, 1);
    cluster.pass(HELPER_ASK_INTERVAL * 20);
    assert!(cluster.told().filter(|(_, message)| matches!(message, ToPset::Ask)).count() >= 30);
    assert!(cluster.orders.iter().filter(|order| matches!(order, Order::AskFabric)).count() >= 15);
    assert_eq!(io_nodes_started(&cluster), 2);
    assert!(texts(&mut cluster).is_empty() && all_ready(&mut cluster));
}

#[test]
fn a_silent_io_node_is_replaced_and_its_jobs_end_with_that_reason() {
    let mut cluster = Cluster::up(2, 1);
    let id = cluster.submit(job(2)).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.behaviour.io_nodes_answer = false;
    cluster.pass(HELPER_ASK_INTERVAL + HELPER_ANSWER_TIME_MAX / 2);
    assert_eq!(io_nodes_started(&cluster), 2, "not silent for long enough");
    cluster.pass(HELPER_ANSWER_TIME_MAX / 2);
    cluster.behaviour.io_nodes_answer = true;
    assert!(io_nodes_started(&cluster) >= 3);
    let ended = cluster.job(id).job;
    assert_eq!(ended.exit_status, Some(EXIT_COPPICE));
    assert!(ended.reason.is_some_and(|reason| reason.contains("did not say that it is alive")));
    assert!(texts(&mut cluster)[0].contains("did not say that it is alive"));
    assert!(all_ready(&mut cluster));
}

#[test]
fn a_silent_fabric_is_replaced_with_all_that_rests_on_it() {
    let mut cluster = Cluster::up(2, 1);
    let id = cluster.submit(job(2)).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.behaviour.fabric_answers = false;
    cluster.pass(HELPER_ASK_INTERVAL + HELPER_ANSWER_TIME_MAX);
    cluster.behaviour.fabric_answers = true;
    let reason = cluster.job(id).job.reason.expect("it has one");
    assert!(reason.contains("the fabric did not say that it is alive"), "{reason}");
    assert!(all_ready(&mut cluster));
    assert!(cluster.nodes().iter().all(|node| node.generation == 2));
}

/// The service node itself was stopped: what lies there unheard is heard before anybody is condemned.
#[test]
fn who_did_not_run_condemns_nobody() {
    let mut cluster = Cluster::up(2, 1);
    cluster.behaviour.io_nodes_answer = false;
    cluster.pass(HELPER_ASK_INTERVAL);
    cluster.behaviour.io_nodes_answer = true;
    cluster.sleep(HELPER_ANSWER_TIME_MAX * 4);
    cluster.pass(HELPER_ASK_INTERVAL * 3);
    assert_eq!(io_nodes_started(&cluster), 2);
    assert!(all_ready(&mut cluster));
}

/// Helpers were up in time: that lies there unheard, too.
#[test]
fn who_did_not_run_hears_first_that_helpers_are_up() {
    let mut cluster = Cluster::new(2, 1);
    cluster.sleep(HELPER_START_TIME_MAX * 2);
    cluster.pass(HEARING_TIME * 2);
    assert!(!cluster.orders.iter().any(|order| matches!(order, Order::StopFabric(_))));
    assert!(all_ready(&mut cluster));
}

#[test]
fn who_did_not_run_hears_first_that_a_killed_job_has_ended() {
    let mut cluster = Cluster::up(2, 1);
    let id = cluster.submit(job(2)).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.ask_only(|answer| Request::Kill(id, SIGKILL, answer)).expect("accepted");
    cluster.sleep(KILL_TIME_MAX * 2);
    cluster.pass(HEARING_TIME * 2);
    assert_eq!(cluster.job(id).job.exit_status, Some(128 + SIGKILL));
    assert!(all_ready(&mut cluster) && cluster.nodes().iter().all(|node| node.generation == 1));
}

#[test]
fn who_did_not_run_hears_first_that_somebody_takes_a_jobs_output() {
    let mut cluster = Cluster::up(2, 1);
    let id = cluster.submit(job(2)).expect("accepted");
    cluster.sleep(ATTACH_TIME_MAX * 2);
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.pass(HEARING_TIME * 2);
    assert_eq!(cluster.job(id).job.exit_status, None);
}
