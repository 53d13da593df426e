//! Jobs that go on from a checkpoint: what their ranks are made from, and when somebody hears that they run.

mod support;

use coppice_api::checkpoint::CheckpointName;
use coppice_api::job::Submission;
use coppice_protocol::checkpoint::{ObjectId, Restore};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::FromPset;
use coppice_service_node::controller::{Place, Refused, Request, Restart, Restoring};
use support::{Cluster, PROGRAM, job};

const FROM: CheckpointName = CheckpointName { job: 7, number: 2 };

fn part(number: u32) -> ObjectId {
    ObjectId::of(&number.to_le_bytes())
}

/// Parts of so many ranks and nodes, which are all different.
fn restoring(ranks: u32, nodes: u32) -> Restoring {
    let (ranks, nodes) = ((0..ranks).map(part).collect(), (100..100 + nodes).map(part).collect());
    Restoring { by: 77, keep_files: true, ranks, nodes }
}

fn restart(cluster: &mut Cluster, submission: Submission, restore: Restoring) -> Result<JobId, Refused> {
    let submission = Submission { restarted_from: Some(FROM), ..submission };
    let program = cluster.store.hold(PROGRAM);
    let restart = Restart { submission, program, file: None, staged: Vec::new(), restore, continues: None };
    cluster.ask(|answer| Request::Restart(Box::new(restart), answer))
}

#[test]
fn each_rank_is_made_from_its_part_and_its_nodes() {
    let mut cluster = Cluster::up(4, 2);
    let wanted = Submission { ranks_per_node: 2, nodes: vec![3, 0, 1], ..job(5) };
    let id = restart(&mut cluster, wanted, restoring(5, 3)).expect("accepted");
    let mut members = cluster.members(id);
    members.sort_by_key(|member| member.rank);
    let made: Vec<_> = members.iter().map(|member| (member.rank.0, member.node.0, member.restore)).collect();
    let from = |rank, node: u32| Some(Restore { rank: part(rank), node: part(100 + node), by: 77, keep_files: true });
    let wanted = [(0, 3, from(0, 0)), (1, 3, from(1, 0)), (2, 0, from(2, 1)), (3, 0, from(3, 1)), (4, 1, from(4, 2))];
    assert_eq!(made, wanted);
    assert_eq!(cluster.job(id).job.restarted_from, Some(FROM));
    // One that begins at its beginning is made from nothing.
    let other = cluster.submit(job(1)).expect("accepted");
    assert!(cluster.members(other).iter().all(|member| member.restore.is_none()));
    assert_eq!(cluster.job(other).job.restarted_from, None);
}

#[test]
fn a_checkpoint_without_all_parts_is_no_job() {
    let mut cluster = Cluster::up(2, 2);
    for restore in [restoring(1, 2), restoring(2, 1), restoring(3, 2)] {
        let refused = restart(&mut cluster, job(2), restore).expect_err("parts are missing");
        assert!(refused.message.contains("does not have a part of each rank"), "{}", refused.message);
    }
}

#[test]
fn whoever_waits_for_all_ranks_hears_of_them_or_of_the_end() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.launches = false;
    let id = restart(&mut cluster, Submission { ranks_per_node: 2, ..job(4) }, restoring(4, 2)).expect("accepted");
    let mut running = cluster.ask_and_wait(|answer| Request::Running(id, answer));
    for rank in 0..4 {
        assert!(running.try_recv().is_err(), "rank {rank} does not run yet");
        let launched = cluster.behaviour.said(PsetId(0), FromPset::Launched { job: id, ranks: Rank(rank).into() });
        cluster.event(launched);
    }
    let place = |(rank, node)| Place { rank: Rank(rank), node: NodeId(node) };
    let places = [(0, 0), (2, 1)].map(place).to_vec();
    assert_eq!(running.try_recv().expect("answered"), Ok(places.clone()));
    assert_eq!(cluster.ask(|answer| Request::Running(id, answer)), Ok(places));
    let waits = cluster.submit(job(1)).expect("accepted");
    let mut running = cluster.ask_and_wait(|answer| Request::Running(waits, answer));
    cluster.ask(|answer| Request::Kill(waits, 9, answer)).expect("taken out of the queue");
    assert!(running.try_recv().expect("answered").expect_err("it is over").message.contains("has ended already"));
    let unknown = cluster.ask(|answer| Request::Running(JobId(99), answer)).expect_err("no job");
    assert_eq!(unknown.status, 404);
}

#[test]
fn what_a_job_was_submitted_with_is_known_while_it_is_under_way() {
    let mut cluster = Cluster::up(1, 1);
    let id = cluster.submit(job(1)).expect("accepted");
    let submitted = cluster.ask(|answer| Request::Submitted(id, answer)).expect("under way");
    assert_eq!((submitted.submission, submitted.program), (job(1), PROGRAM));
    let stored = cluster.ask(|answer| Request::Stored(PROGRAM.id, answer)).expect("known");
    assert_eq!(stored.map(|held| *held), Some(PROGRAM));
    assert!(cluster.ask(|answer| Request::Stored(support::program(9).id, answer)).expect("known").is_none());
    cluster.end(id);
    assert!(cluster.ask(|answer| Request::Submitted(id, answer)).is_err());
}
