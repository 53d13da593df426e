//! Checkpoints that are made and deleted by themselves, and jobs that go on from them when they have lost a node, over
//! a real socket with the real client and the real directory.

mod support;

use coppice_api::checkpoint::{CheckpointName, CheckpointPolicy, CheckpointsQuery, MakeOrder};
use coppice_api::job::{EXIT_COPPICE, JobState, JobView};
use coppice_api::ras::{RasQuery, RasView};
use coppice_protocol::checkpoint::{PartOf, Restore};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use support::Cluster;
use support::cutting::part;
use support::served::{Served, TICK, refusal};

/// Checkpoints that are made all the time.
const OFTEN: CheckpointPolicy = CheckpointPolicy { every_ms: 1000, keep: 2, max_restarts: 0, node_mtbf_ms: None };

/// Checkpoints that nobody lives to see, and restarts.
const RARELY: CheckpointPolicy = CheckpointPolicy { every_ms: u64::MAX, keep: 2, max_restarts: 2, node_mtbf_ms: None };

async fn numbers(served: &Served, job: u64) -> Vec<u32> {
    let views = served.client.checkpoints(&CheckpointsQuery { job: Some(job) }).await.expect("listed");
    views.iter().map(|view| view.checkpoint.number).collect()
}

async fn events(served: &Served, kind: &str) -> Vec<RasView> {
    let events = served.client.ras(&RasQuery::default()).await.expect("events");
    events.into_iter().filter(|event| event.kind == kind).collect()
}

fn made(view: &JobView) -> u32 {
    view.checkpoints_made.map_or(0, |made| made.count)
}

#[tokio::test]
async fn old_checkpoints_go_when_a_new_one_is_whole_and_not_before() {
    let mut cluster = Cluster::up(2, 1);
    // Two are made, then nodes leave barriers whenever it is tried.
    let left = |barriers: &[u64]| barriers.iter().copied().collect();
    cluster.behaviour.cutting.barriers =
        [(NodeId(0), left(&[1, 2, 3, 3, 3])), (NodeId(1), left(&[1, 2, 4, 4, 4]))].into();
    let served = Served::in_time(cluster);
    served.put(3, 2);
    let job = served.submit_with(3, Some(OFTEN)).await;
    let mut seen = Vec::new();
    while !seen.contains(&vec![3, 4]) {
        // What is listed is there: never less than stay, once there are so many.
        let now = numbers(&served, job).await;
        let fewest = if made(&served.client.job(job).await.expect("known").job) < 2 { 0 } else { 1 };
        assert!(now.len() <= 3 && now.len() >= fewest, "{now:?}");
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        tokio::time::sleep(TICK).await;
    }
    assert!(seen.contains(&vec![1, 2]), "{seen:?}");
    assert!(!seen.contains(&vec![2]) && !seen.contains(&vec![3]), "{seen:?}");
    let failed = events(&served, "checkpoint-failed").await;
    let text = format!("no checkpoint of job {job} was made: ranks of job {job} were leaving a barrier; try again");
    assert_eq!(failed.iter().map(|event| event.text.as_str()).collect::<Vec<_>>(), [&text]);
    // What somebody wants is made all the same, and counts.
    let others = loop {
        match served.client.checkpoint(job, MakeOrder::default()).await {
            Ok(report) => break report.checkpoint.number,
            refused => assert!(refusal(refused).contains("is being made already")),
        }
    };
    served.until(job, |view| made(view) > others).await;
    served.down().await;
}

#[tokio::test]
async fn a_job_that_has_lost_a_node_goes_on_from_its_newest_checkpoint() {
    let served = Served::in_time(Cluster::up(4, 2));
    served.put(3, 2);
    let first = served.submit_with(3, Some(RARELY)).await;
    for _ in 0..2 {
        served.client.checkpoint(first, MakeOrder::default()).await.expect("made");
    }
    served.lose_machine(0).await;
    let view = served.client.wait(first).await.expect("ended");
    let next = view.continued_as.expect("goes on");
    let newest = CheckpointName { job: first, number: 2 };
    assert_eq!((next.checkpoint, next.lost_node, view.exit_status), (newest, 0, Some(EXIT_COPPICE)));
    let second = served.until(next.job, |view| view.state == JobState::Running).await;
    let policy = Some(CheckpointPolicy { max_restarts: 1, ..RARELY });
    assert_eq!((second.restarted_from, second.checkpoint_policy, second.detached), (Some(newest), policy, true));
    // It has no checkpoint of its own yet: once more from the same, and then no more.
    served.lose_machine(second.nodes[1]).await;
    let next = served.client.wait(next.job).await.expect("ended").continued_as.expect("goes on");
    assert_eq!(next.checkpoint, newest);
    let third = served.until(next.job, |view| view.state == JobState::Running).await;
    assert_eq!(third.checkpoint_policy.map(|policy| policy.max_restarts), Some(0));
    served.lose_machine(third.nodes[0]).await;
    let view = served.client.wait(next.job).await.expect("ended");
    assert_eq!((view.continued_as, view.exit_status), (None, Some(EXIT_COPPICE)));
    assert!(events(&served, "restart-failed").await.is_empty());
    let cluster = served.down().await;
    let mut members = cluster.members(JobId(next.job));
    members.sort_by_key(|member| member.rank);
    for (rank, member) in (0..).zip(&members) {
        let Restore { rank: of_rank, node, .. } = member.restore.expect("restored");
        assert_eq!(of_rank, part(PartOf::Rank(Rank(rank))).object);
        assert_eq!(node, part(PartOf::Node(rank / 2)).object);
    }
    assert_eq!(members.len(), 3);
}

#[tokio::test]
async fn the_newest_older_checkpoint_is_tried_or_it_is_said_why_there_is_none() {
    let served = Served::in_time(Cluster::up(4, 2));
    served.put(3, 2);
    let job = served.submit_with(3, Some(RARELY)).await;
    for _ in 0..3 {
        served.client.checkpoint(job, MakeOrder::default()).await.expect("made");
    }
    let damage = |number: u32| {
        let file = served.storage.path().join(format!("jobs/{job}/{number}.json"));
        std::fs::write(file, b"{}").expect("written");
    };
    damage(2);
    damage(3);
    served.lose_machine(0).await;
    let next = served.client.wait(job).await.expect("ended").continued_as.expect("goes on");
    assert_eq!(next.checkpoint, CheckpointName { job, number: 1 });
    damage(1);
    let second = served.until(next.job, |view| view.state == JobState::Running).await;
    served.lose_machine(second.nodes[0]).await;
    let view = served.client.wait(next.job).await.expect("ended");
    let reason = view.reason.expect("a reason");
    assert!(reason.contains("; not restarted: ") && reason.contains("damaged") && !reason.contains('\n'), "{reason}");
    assert_eq!(events(&served, "restart-failed").await.len(), 1);
    // Another never had one.
    let third = served.submit_with(1, Some(RARELY)).await;
    let nodes = served.until(third, |view| view.state == JobState::Running).await.nodes;
    served.lose_machine(nodes[0]).await;
    let reason = served.client.wait(third).await.expect("ended").reason.expect("a reason");
    assert!(reason.ends_with("; not restarted: there is no checkpoint of it yet"), "{reason}");
    served.down().await;
}
