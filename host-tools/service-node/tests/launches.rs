//! Launches and ends of many ranks, and nodes that do not answer theirs.

mod support;

use std::time::Duration;

use coppice_api::job::{JobState, OnRankFailure, RankOutcome, Submission};
use coppice_api::node::NodeState;
use coppice_protocol::control::{Ends, Exit, RankReport};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::pset::{FromPset, NodeEnds, ToPset};
use coppice_protocol::ranks::Ranks;
use coppice_service_node::limits::{KILL_TIME_MAX, LAUNCH_TIME_MAX};

use self::support::behaviour::report;
use self::support::{Cluster, job};

const SECOND: Duration = Duration::from_secs(1);

/// Two nodes of a pset with two ranks each, and one of another pset.
fn launching(cluster: &mut Cluster) -> JobId {
    cluster.behaviour.launches = false;
    cluster.submit(Submission { ranks: 5, ranks_per_node: 2, detached: true, ..job(5) }).expect("accepted")
}

fn launched(id: JobId, ranks: &[u32]) -> FromPset {
    FromPset::Launched { job: id, ranks: ranks.iter().copied().map(Rank).collect() }
}

fn state(cluster: &mut Cluster, id: JobId) -> JobState {
    cluster.job(id).job.state
}

/// The reports of ranks that exit, two for each node.
fn ends(id: JobId, ranks: &[u32]) -> FromPset {
    let all = ranks.chunk_by(|one, other| one / 2 == other / 2).map(|ranks| {
        let reports: Vec<RankReport> =
            ranks.iter().map(|rank| report(id, Rank(*rank), Exit::Status(*rank as u8))).collect();
        NodeEnds { node: NodeId(ranks[0] / 2), ends: Ends { held: Vec::new(), reports } }
    });
    FromPset::Ended(all.collect())
}

#[test]
fn ranks_are_launched_and_end_many_at_a_time() {
    let mut cluster = Cluster::up(4, 2);
    let id = launching(&mut cluster);
    // Of ranks that are elsewhere, or nowhere, an I/O node says nothing that counts.
    cluster.said(0, FromPset::Launched { job: id, ranks: Ranks::range(Rank(0), u32::MAX) });
    assert_eq!(state(&mut cluster, id), JobState::Starting);
    cluster.said(2, launched(id, &[4, 7]));
    assert_eq!(state(&mut cluster, id), JobState::Running);
    cluster.said(0, ends(id, &[1, 0, 3]));
    assert_eq!(cluster.job(id).rank_reports.iter().map(|report| report.rank).collect::<Vec<_>>(), [0, 1, 3]);
    // Twice in one message, again, and of one that is on another node.
    cluster.said(0, ends(id, &[3, 2, 2]));
    cluster.said(
        0,
        FromPset::Ended(vec![NodeEnds {
            node: NodeId(1),
            ends: Ends { held: Vec::new(), reports: vec![report(id, Rank(4), Exit::Status(9))] },
        }]),
    );
    assert_eq!(state(&mut cluster, id), JobState::Running);
    cluster.said(2, ends(id, &[4]));
    let detail = cluster.job(id);
    assert_eq!((detail.job.state, detail.job.exit_status), (JobState::Ended, Some(4)));
    let found: Vec<_> = detail.rank_reports.iter().map(|report| (report.rank, report.node, report.exit)).collect();
    assert_eq!(found, [0, 1, 2, 3, 4].map(|rank| (u32::from(rank), u32::from(rank) / 2, Some(rank))));
}

#[test]
fn ranks_that_are_refused_together_are_all_recorded() {
    let mut cluster = Cluster::up(4, 2);
    let id = launching(&mut cluster);
    cluster.behaviour.obeys_kill = false;
    let ranks = Ranks::range(Rank(0), 4);
    cluster.said(0, FromPset::Refused { job: id, ranks, reason: "no such directory".into() });
    cluster.said(2, ends(id, &[4]));
    let detail = cluster.job(id);
    assert_eq!(detail.job.reason.as_deref(), Some("rank 0 could not be started on node 0: no such directory"));
    assert_eq!(detail.rank_reports.iter().filter(|report| report.outcome == RankOutcome::NotStarted).count(), 4);
}

#[test]
fn a_node_that_does_not_launch_ends_the_job_by_its_name_and_leaves_nothing() {
    let mut cluster = Cluster::up(4, 2);
    let id = launching(&mut cluster);
    cluster.said(0, launched(id, &[0, 1, 3]));
    cluster.pass(LAUNCH_TIME_MAX - SECOND);
    // That is news: it has as much time again.
    cluster.said(2, launched(id, &[4]));
    cluster.pass(LAUNCH_TIME_MAX - SECOND);
    assert_eq!(state(&mut cluster, id), JobState::Starting);
    cluster.behaviour.obeys_kill = false;
    cluster.pass(2 * SECOND);
    let killed = cluster.told().filter(|(_, message)| matches!(message, ToPset::Kill { job } if *job == id)).count();
    assert_eq!(killed, 2, "both psets are told");
    // All but that node end.
    for (node, ranks) in [(0, &[0, 1][..]), (1, &[3]), (2, &[4])] {
        for rank in ranks {
            let ended = cluster.behaviour.ended(pset(node), id, Rank(*rank), NodeId(node), Exit::Signal(9));
            cluster.event(ended);
        }
    }
    cluster.behaviour.launches = true;
    cluster.pass(KILL_TIME_MAX + SECOND);
    let detail = cluster.job(id);
    assert_eq!(detail.job.state, JobState::Ended);
    let reason = "node 1 has not launched rank 2, and there was nothing new for 300 s";
    assert_eq!(detail.job.reason.as_deref(), Some(reason));
    assert_eq!(detail.rank_reports.len(), 5);
    assert!(cluster.nodes().iter().all(|node| node.state == NodeState::Ready), "it is booted again");
    let next = cluster.submit(Submission { ranks: 8, ranks_per_node: 2, ..job(8) }).expect("accepted");
    assert_eq!(state(&mut cluster, next), JobState::Running);
}

fn pset(node: u32) -> coppice_protocol::ids::PsetId {
    coppice_protocol::ids::PsetId(node / 2)
}

#[test]
fn a_job_that_runs_has_all_the_time_there_is() {
    let mut cluster = Cluster::up(4, 2);
    let id = launching(&mut cluster);
    cluster.said(0, launched(id, &[0, 1, 2, 3]));
    cluster.said(2, launched(id, &[4]));
    cluster.pass(3 * LAUNCH_TIME_MAX);
    assert_eq!(state(&mut cluster, id), JobState::Running);
}

/// Nobody waits for ranks that are lost before they begin, if the job goes on without them.
#[test]
fn a_job_that_goes_on_without_a_node_is_not_ended_for_its_ranks() {
    let mut cluster = Cluster::up(4, 2);
    cluster.behaviour.launches = false;
    let submission =
        Submission { ranks: 5, ranks_per_node: 2, on_rank_failure: OnRankFailure::Continue, detached: true, ..job(5) };
    let id = cluster.submit(submission).expect("accepted");
    cluster.said(0, launched(id, &[0, 1]));
    cluster.said(2, launched(id, &[4]));
    cluster.lose_machine(1);
    cluster.pass(2 * LAUNCH_TIME_MAX);
    assert_ne!(state(&mut cluster, id), JobState::Ended);
}
