//! Signals that users have jobs sent.

mod support;

use coppice_api::job::JobState;
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_service_node::controller::{Refused, Request};
use coppice_service_node::limits::KILL_TIME_MAX;
use support::{Cluster, job};

const INT: u8 = 2;
const KILL: u8 = 9;
const USR1: u8 = 10;
const TERM: u8 = 15;
const RTMIN: u8 = 34;

fn send(cluster: &mut Cluster, job: JobId, signal: u8) -> Result<(), Refused> {
    cluster.ask(|answer| Request::Kill(job, signal, answer))
}

/// What psets were told about a job's end and signals, 0 being told to kill.
fn told(cluster: &Cluster) -> Vec<(u32, u8)> {
    let orders = cluster.told().filter_map(|(pset, told)| match told {
        ToPset::Kill { .. } => Some((pset.0, 0)),
        ToPset::Signal { signal, .. } => Some((pset.0, *signal)),
        _ => None,
    });
    orders.collect()
}

fn end(cluster: &mut Cluster, job: JobId, pset: u32, rank: u32, exit: Exit) {
    let ended = cluster.behaviour.ended(PsetId(pset), job, Rank(rank), NodeId(rank), exit);
    cluster.event(ended);
}

fn state(cluster: &mut Cluster, job: JobId) -> (JobState, Option<u8>, Option<String>) {
    let job = cluster.job(job).job;
    (job.state, job.exit_status, job.reason)
}

/// A job of three ranks on two psets, which do about signals what the tests say.
fn listening() -> (Cluster, JobId) {
    let mut cluster = Cluster::up(3, 2);
    cluster.behaviour.obeys_signals = false;
    let id = cluster.submit(job(3)).expect("accepted");
    (cluster, id)
}

#[test]
fn a_signal_goes_to_all_ranks_and_the_job_goes_on() {
    let (mut cluster, id) = listening();
    let _output = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    for signal in [USR1, RTMIN, TERM, INT] {
        send(&mut cluster, id, signal).expect("sent");
    }
    let each = |signal| [(0, signal), (1, signal)];
    assert_eq!(told(&cluster), [each(USR1), each(RTMIN), each(TERM), each(INT)].concat());
    cluster.pass(KILL_TIME_MAX * 2);
    assert_eq!(state(&mut cluster, id), (JobState::Running, None, None), "its ranks have a use for them");
    // Its own end is no consequence.
    (0..3).for_each(|rank| end(&mut cluster, id, rank / 2, rank, Exit::Status(0)));
    assert_eq!(state(&mut cluster, id), (JobState::Ended, Some(0), None));
    assert!(send(&mut cluster, id, USR1).is_err_and(|refused| refused.message.contains("has ended")));
}

#[test]
fn ranks_that_have_ended_are_sent_nothing() {
    let (mut cluster, id) = listening();
    end(&mut cluster, id, 1, 2, Exit::Status(0));
    send(&mut cluster, id, USR1).expect("sent");
    assert_eq!(told(&cluster), [(0, USR1)]);
}

#[test]
fn a_job_that_a_signal_ends_says_so() {
    let mut cluster = Cluster::up(3, 2);
    let id = cluster.submit(job(3)).expect("accepted");
    send(&mut cluster, id, TERM).expect("sent");
    let because = |signal: &str| Some(format!("ended by {signal} on request"));
    assert_eq!(state(&mut cluster, id), (JobState::Ended, Some(143), because("SIGTERM")));
    assert_eq!(cluster.job(id).rank_reports[2].signal, Some(TERM));
    // So does one of which only a part is ended by it.
    let (mut cluster, id) = listening();
    send(&mut cluster, id, RTMIN).expect("sent");
    end(&mut cluster, id, 0, 0, Exit::Signal(RTMIN));
    end(&mut cluster, id, 0, 1, Exit::Status(0));
    end(&mut cluster, id, 1, 2, Exit::Status(200));
    assert_eq!(state(&mut cluster, id), (JobState::Ended, Some(200), because("SIGRTMIN")));
    // Another signal is another story.
    let (mut cluster, id) = listening();
    send(&mut cluster, id, USR1).expect("sent");
    (0..3).for_each(|rank| end(&mut cluster, id, rank / 2, rank, Exit::Signal(11)));
    assert_eq!(state(&mut cluster, id), (JobState::Ended, Some(139), None));
}

#[test]
fn kill_ends_a_job_that_ignores_everything_else() {
    let (mut cluster, id) = listening();
    send(&mut cluster, id, TERM).expect("sent");
    send(&mut cluster, id, KILL).expect("killed");
    assert_eq!(told(&cluster)[2..], [(0, 0), (1, 0)]);
    assert_eq!(state(&mut cluster, id), (JobState::Ended, Some(137), Some("ended by SIGKILL on request".into())));
}

#[test]
fn a_job_that_waits_takes_only_what_ends_it() {
    let (mut cluster, _) = listening();
    for (signal, status) in [(KILL, 137), (TERM, 143), (INT, 130)] {
        let id = cluster.submit(job(1)).expect("accepted");
        let refused = send(&mut cluster, id, USR1).expect_err("nobody to take it");
        assert_eq!(refused.status, 409);
        assert!(refused.message.contains("SIGUSR1") && !refused.message.contains('\n'), "{}", refused.message);
        assert_eq!(state(&mut cluster, id).0, JobState::Queued);
        send(&mut cluster, id, signal).expect("taken out");
        let reason = format!("ended by {} on request", coppice_api::signal::name(signal));
        assert_eq!(state(&mut cluster, id), (JobState::Ended, Some(status), Some(reason)));
    }
    assert_eq!(told(&cluster), []);
}
