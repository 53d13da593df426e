//! Jobs that end because a node says that they cannot go on.

mod support;

use coppice_api::job::{EXIT_COPPICE, JobState, OnRankFailure, RankOutcome, Submission};
use coppice_protocol::control::{Exit, JobFailure, Waiting};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::{FromPset, ToPset};
use coppice_service_node::controller::Request;
use support::{Cluster, job};

fn failed(node: u32, job: JobId, code: u8, reason: &str) -> FromPset {
    let failure = JobFailure { job, rank: Rank(1), code, reason: reason.into() };
    FromPset::Failed { node: NodeId(node), failure }
}

/// A cluster whose killed ranks do not end by themselves, with a job of four ranks on two nodes.
fn stubborn() -> (Cluster, JobId) {
    stubborn_with(OnRankFailure::End)
}

fn stubborn_with(on_rank_failure: OnRankFailure) -> (Cluster, JobId) {
    let mut cluster = Cluster::up(3, 2);
    cluster.behaviour.obeys_kill = false;
    let id = cluster.submit(Submission { ranks_per_node: 2, on_rank_failure, ..job(4) }).expect("accepted");
    (cluster, id)
}

fn end(cluster: &mut Cluster, job: JobId, rank: u32, exit: Exit) {
    let ended = cluster.behaviour.ended(PsetId(0), job, Rank(rank), NodeId(rank / 2), exit);
    cluster.event(ended);
}

fn end_of(cluster: &mut Cluster, job: JobId) -> (JobState, Option<u8>, Option<String>) {
    let job = cluster.job(job).job;
    (job.state, job.exit_status, job.reason)
}

fn ended_as(code: u8, reason: &str) -> (JobState, Option<u8>, Option<String>) {
    (JobState::Ended, Some(code), Some(reason.into()))
}

#[test]
fn a_failed_job_ends_with_its_reason_and_status() {
    let mut cluster = Cluster::up(3, 2);
    let id = cluster.submit(job(3)).expect("accepted");
    cluster.said(1, failed(1, id, 77, "rank 1 called MPI_Abort: no convergence"));
    assert_eq!(end_of(&mut cluster, id), ended_as(77, "rank 1 called MPI_Abort: no convergence"));
    assert!(cluster.job(id).rank_reports.iter().all(|rank| rank.signal == Some(9)));
    let killed: Vec<u32> =
        cluster.told().filter(|(_, told)| matches!(told, ToPset::Kill { .. })).map(|(pset, _)| pset.0).collect();
    assert_eq!(killed, [0, 1]);
}

#[test]
fn ranks_that_end_at_the_same_time_change_nothing() {
    let (mut cluster, id) = stubborn();
    end(&mut cluster, id, 0, Exit::Status(0));
    cluster.said(1, failed(1, id, 5, "abort"));
    // By themselves, in whatever way, before they hear of the kill.
    end(&mut cluster, id, 3, Exit::Status(200));
    end(&mut cluster, id, 2, Exit::Signal(11));
    assert_eq!(cluster.job(id).job.state, JobState::Running);
    end(&mut cluster, id, 1, Exit::Status(0));
    assert_eq!(end_of(&mut cluster, id), ended_as(5, "abort"));
}

#[test]
fn a_node_whose_ranks_have_ended_may_say_so() {
    let (mut cluster, id) = stubborn();
    end(&mut cluster, id, 2, Exit::Signal(11));
    end(&mut cluster, id, 3, Exit::Status(0));
    cluster.said(1, failed(1, id, 1, "rank 2 ended in a barrier"));
    end(&mut cluster, id, 0, Exit::Signal(9));
    end(&mut cluster, id, 1, Exit::Signal(9));
    assert_eq!(end_of(&mut cluster, id), ended_as(1, "rank 2 ended in a barrier"));
}

/// It cannot come any more, whoever is heard of first; ranks that do not wait for it may go on without it.
#[test]
fn a_job_whose_ranks_wait_for_one_that_is_gone_ends() {
    let waits = |barrier| move |job| FromPset::Waits(Waiting { job, barrier });
    let reason = "rank 2 on node 1 exited with status 4, and other ranks wait for it in a PMI barrier";
    for first_waits in [true, false] {
        let (mut cluster, id) = stubborn();
        if first_waits {
            cluster.said(0, waits(0)(id));
        }
        end(&mut cluster, id, 2, Exit::Status(4));
        if !first_waits {
            assert!(!cluster.told().any(|(_, told)| matches!(told, ToPset::Kill { .. })));
            cluster.said(0, waits(0)(id));
        }
        for rank in [0, 1, 3] {
            end(&mut cluster, id, rank, Exit::Signal(9));
        }
        assert_eq!(end_of(&mut cluster, id), ended_as(4, reason));
    }
    // The ranks that wait, wait in a barrier that this one had left.
    let (mut cluster, id) = stubborn();
    cluster.said(0, waits(6)(id));
    cluster.behaviour.barriers = 7;
    end(&mut cluster, id, 2, Exit::Status(4));
    assert_eq!(cluster.job(id).job.state, JobState::Running);
    cluster.said(0, waits(7)(id));
    assert!(cluster.told().any(|(_, told)| matches!(told, ToPset::Kill { .. })));
}

/// Its nodes know who can be told, and say so if somebody cannot.
#[test]
fn a_job_that_outlives_ranks_is_not_ended_for_those_that_wait() {
    let (mut cluster, id) = stubborn_with(OnRankFailure::Continue);
    cluster.said(0, FromPset::Waits(Waiting { job: id, barrier: 0 }));
    end(&mut cluster, id, 2, Exit::Signal(11));
    assert!(!cluster.told().any(|(_, told)| matches!(told, ToPset::Kill { .. })));
    let starts: Vec<bool> = cluster
        .told()
        .filter_map(|(_, told)| if let ToPset::Start(start) = told { Some(start.outlives_ranks) } else { None })
        .collect();
    assert_eq!(starts, [true]);
    for rank in [0, 1, 3] {
        end(&mut cluster, id, rank, Exit::Status(0));
    }
    assert_eq!(end_of(&mut cluster, id).1, Some(139));
}

/// What I/O nodes were told of nodes that jobs go on without.
fn losses(cluster: &Cluster) -> Vec<(u32, u32, Vec<u32>)> {
    let lost = cluster.told().filter_map(|(pset, told)| match told {
        ToPset::NodeLost { node, ranks, .. } => Some((pset.0, node.0, ranks.iter().map(|rank| rank.0).collect())),
        _ => None,
    });
    lost.collect()
}

/// All I/O nodes of the job hear of it. Its status is not one of a job of which all was heard.
#[test]
fn a_job_that_outlives_ranks_goes_on_without_a_node() {
    let mut cluster = Cluster::up(3, 1);
    let submission = Submission { ranks_per_node: 2, on_rank_failure: OnRankFailure::Continue, ..job(6) };
    let id = cluster.submit(submission).expect("accepted");
    let end = |cluster: &mut Cluster, rank: u32| {
        let ended = cluster.behaviour.ended(PsetId(rank / 2), id, Rank(rank), NodeId(rank / 2), Exit::Status(0));
        cluster.event(ended);
    };
    end(&mut cluster, 2);
    cluster.lose_machine(1);
    assert_eq!(losses(&cluster), [(0, 1, vec![3]), (1, 1, vec![3]), (2, 1, vec![3])]);
    assert_eq!(cluster.job(id).job.state, JobState::Running);
    // Another one, of which all ranks had ended.
    end(&mut cluster, 4);
    end(&mut cluster, 5);
    cluster.lose_machine(2);
    assert_eq!(losses(&cluster)[3..], [(0, 2, vec![]), (1, 2, vec![]), (2, 2, vec![])]);
    assert!(!cluster.told().any(|(_, told)| matches!(told, ToPset::Kill { .. })));
    end(&mut cluster, 0);
    end(&mut cluster, 1);
    let reason = "node 1 was lost: QEMU was ended by signal 9; its console ends: last words";
    assert_eq!(end_of(&mut cluster, id), ended_as(EXIT_COPPICE, reason));
    let lost: Vec<bool> = cluster.job(id).rank_reports.iter().map(|rank| rank.outcome == RankOutcome::Lost).collect();
    assert_eq!(lost, [false, false, false, true, false, false]);
}

/// Nobody is told of nodes of a job that ends with them, or is being ended.
#[test]
fn a_job_that_is_ended_ends_with_its_node() {
    for on_rank_failure in [OnRankFailure::End, OnRankFailure::Continue] {
        let (mut cluster, id) = stubborn_with(on_rank_failure);
        if on_rank_failure == OnRankFailure::Continue {
            cluster.said(0, failed(0, id, 5, "abort"));
        }
        cluster.lose_machine(1);
        assert!(cluster.told().any(|(_, told)| matches!(told, ToPset::Kill { .. })));
        assert_eq!(losses(&cluster), []);
    }
}

/// The last of it.
#[test]
fn a_job_that_outlives_ranks_ends_with_its_last_node() {
    let (mut cluster, id) = stubborn_with(OnRankFailure::Continue);
    cluster.lose_machine(1);
    cluster.lose_machine(0);
    let reason = "node 0 was lost: QEMU was ended by signal 9; its console ends: last words";
    assert_eq!(end_of(&mut cluster, id), ended_as(EXIT_COPPICE, reason));
}

#[test]
fn a_status_of_zero_is_one_too() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    cluster.said(0, failed(0, id, 0, "rank 0 called MPI_Abort"));
    assert_eq!(end_of(&mut cluster, id), ended_as(0, "rank 0 called MPI_Abort"));
}

#[test]
fn the_loss_of_the_node_that_said_so_changes_nothing() {
    let (mut cluster, id) = stubborn();
    cluster.said(1, failed(1, id, 9, "abort"));
    cluster.lose_machine(1);
    assert_eq!(cluster.job(id).job.state, JobState::Running);
    end(&mut cluster, id, 0, Exit::Signal(9));
    end(&mut cluster, id, 1, Exit::Signal(9));
    assert_eq!(end_of(&mut cluster, id), ended_as(9, "abort"));
    assert_eq!(cluster.job(id).rank_reports[2].outcome, RankOutcome::Lost);
}

#[test]
fn the_first_reason_counts() {
    let (mut cluster, id) = stubborn();
    cluster.said(0, failed(0, id, 3, "first"));
    cluster.said(1, failed(1, id, 4, "second"));
    cluster.said(0, failed(0, id, 5, "first again"));
    (0..4).for_each(|rank| end(&mut cluster, id, rank, Exit::Signal(9)));
    assert_eq!(end_of(&mut cluster, id), ended_as(3, "first"));

    // What nodes find when another is gone is a consequence of that.
    let (mut cluster, id) = stubborn();
    cluster.lose_machine(1);
    cluster.said(0, failed(0, id, 6, "node 1 does not answer"));
    (0..2).for_each(|rank| end(&mut cluster, id, rank, Exit::Signal(9)));
    let (_, status, reason) = end_of(&mut cluster, id);
    assert_eq!(status, Some(EXIT_COPPICE));
    assert!(reason.is_some_and(|reason| reason.contains("node 1 was lost")));

    // So is what becomes of a job that its user ends.
    let (mut cluster, id) = stubborn();
    cluster.behaviour.obeys_signals = false;
    cluster.ask(|answer| Request::Kill(id, 15, answer)).expect("sent");
    cluster.said(0, failed(0, id, 6, "rank 3 ended in a barrier"));
    (0..4).for_each(|rank| end(&mut cluster, id, rank, Exit::Signal(15)));
    assert_eq!(end_of(&mut cluster, id), ended_as(143, "ended by SIGTERM on request"));
}

#[test]
fn who_has_no_part_in_a_job_does_not_fail_it() {
    let (mut cluster, id) = stubborn();
    let waiting = cluster.submit(job(3)).expect("accepted");
    // A node without a rank, an I/O node that the node is not of, a job that waits, one that never was.
    cluster.said(2, failed(2, id, 1, "no"));
    cluster.said(2, failed(1, id, 1, "no"));
    cluster.said(0, failed(0, waiting, 1, "no"));
    cluster.said(0, failed(0, JobId(99), 1, "no"));
    assert_eq!(cluster.job(waiting).job.state, JobState::Queued);
    (0..4).for_each(|rank| end(&mut cluster, id, rank, Exit::Status(0)));
    assert_eq!(end_of(&mut cluster, id), (JobState::Ended, Some(0), None));
    // It is over.
    cluster.said(0, failed(0, id, 1, "no"));
    assert_eq!(end_of(&mut cluster, id), (JobState::Ended, Some(0), None));
    assert_eq!(cluster.job(waiting).job.state, JobState::Running);
}

/// Killed so early that its I/O node has not begun with it.
#[test]
fn who_is_killed_before_it_begins_ends_as_one_that_was_killed() {
    let mut cluster = Cluster::up(1, 1);
    cluster.behaviour.launches = false;
    cluster.behaviour.obeys_kill = false;
    let id = cluster.submit(job(1)).expect("accepted");
    let _feed = cluster.ask(|answer| Request::Attach(id, answer)).expect("attached");
    cluster.ask(|answer| Request::Kill(id, 9, answer)).expect("killed");
    cluster.said(0, FromPset::Refused { job: id, ranks: Rank(0).into(), reason: "it was ended before".into() });
    let (state, exit, reason) = end_of(&mut cluster, id);
    assert_eq!((state, exit), (JobState::Ended, Some(137)));
    assert_eq!(reason.as_deref(), Some("ended by SIGKILL on request"));
}
