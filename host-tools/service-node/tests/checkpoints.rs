//! Checkpoints over a real socket with the real client: nodes are led in order, what goes wrong is said, and a job goes
//! on from what was kept.

mod support;

use std::time::Duration;

use coppice_api::checkpoint::{
    CheckpointChoice, CheckpointMode, CheckpointName, CheckpointsQuery, MakeOrder, RestartOrder,
};
use coppice_api::job::KillOrder;
use coppice_protocol::checkpoint::{Keeping, PartOf, Restore};
use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::inspect::cut::Step;
use coppice_service_node::limits::{CHECKPOINT_TRIES, CHECKPOINTS_MAX};
use support::Cluster;
use support::cutting::part;
use support::served::{Served, refusal};

/// The steps of each cut, one after the other, if both of the first nodes did each before any did the next.
fn steps(cluster: &Cluster) -> Vec<Step> {
    let (pairs, rest) = cluster.behaviour.cutting.steps.as_chunks::<2>();
    assert!(rest.is_empty());
    let both = |pair: &[(JobId, u64, NodeId, Step); 2]| {
        let [(job, by, node, step), (of, other, next, same)] = *pair;
        assert_eq!((job, by, step), (of, other, same));
        assert_ne!(node, next);
        step
    };
    pairs.iter().map(both).collect()
}

/// Who led each of them, in order.
fn leaders(cluster: &Cluster) -> Vec<u64> {
    let mut leaders: Vec<u64> = cluster.behaviour.cutting.steps.iter().map(|(_, by, ..)| *by).collect();
    leaders.dedup();
    leaders
}

/// The steps of one that goes on from another.
fn since(by: u64) -> [Step; 5] {
    Step::of_checkpoint(Keeping { since: Some(by), ..Keeping::default() })
}

/// Those of one that does not.
fn whole() -> [Step; 5] {
    Step::of_checkpoint(Keeping::default())
}

fn newest() -> RestartOrder {
    RestartOrder { detached: true, ..RestartOrder::default() }
}

#[tokio::test]
async fn nodes_are_led_in_order_and_then_there_is_a_checkpoint() {
    let served = Served::new(Cluster::up(2, 1));
    let job = served.submit(3).await;
    assert_eq!(served.client.checkpoints(&CheckpointsQuery::default()).await.expect("none"), []);
    for number in 1..=2 {
        let made = served.client.checkpoint(job, MakeOrder::default()).await.expect("made");
        assert_eq!((made.checkpoint, made.nodes), (CheckpointName { job, number }, 2));
        assert_eq!((made.cost.pages, made.cost.bytes, made.mode), (20, 81920, CheckpointMode::Cow));
        assert!(made.cost.local_ms <= made.cost.drain_ms && made.cost.hash_ms.is_none());
        assert!(made.cost.pause_us >= made.steps.iter().map(|step| step.us).sum());
        let names: Vec<_> = made.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["stop", "quiet", "record", "save", "resume"]);
    }
    let manifest = served.storage.manifest(JobId(job), 2).expect("written");
    let parts: Vec<_> = manifest.parts.iter().map(ToString::to_string).collect();
    assert_eq!(parts, ["rank 0", "rank 1", "rank 2", "node 0", "node 1"]);
    assert_eq!((manifest.ranks, manifest.ranks_per_node, manifest.program_bytes), (3, 2, 4096));
    let views = served.client.checkpoints(&CheckpointsQuery { job: Some(job) }).await.expect("listed");
    assert_eq!(views.iter().map(|view| view.checkpoint.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((&*views[0].name, views[0].pages, &views[0].damaged), (&b"prog"[..], 20, &None));
    assert_eq!(served.client.checkpoints(&CheckpointsQuery { job: Some(99) }).await.expect("none"), []);
    // One is deleted, then all that are left.
    served.put(3, 2);
    let one = CheckpointChoice { job, number: Some(2) };
    let deleted = served.client.delete_checkpoints(&one).await.expect("deleted");
    assert_eq!((deleted.checkpoints, deleted.kept), (vec![CheckpointName { job, number: 2 }], None));
    assert!(refusal(served.client.delete_checkpoints(&one).await).contains("has no checkpoint 2"));
    let all = CheckpointChoice { job, number: None };
    assert_eq!(served.client.delete_checkpoints(&all).await.expect("deleted").checkpoints.len(), 1);
    assert!(refusal(served.client.delete_checkpoints(&all).await).contains("has no checkpoints"));
    let cluster = served.down().await;
    assert_eq!(steps(&cluster), [whole(), since(leaders(&cluster)[0])].concat());
}

#[tokio::test]
async fn what_a_node_cannot_do_ends_it_for_all_nodes() {
    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.cutting.cannot = Some((NodeId(1), Step::Record));
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    let message = refusal(served.client.checkpoint(job, MakeOrder::default()).await);
    assert!(message.contains("cannot be looked at now: a thread does not stand"), "{message}");
    assert!(served.storage.jobs().expect("listed").is_empty());
    assert_eq!(steps(&served.down().await), [Step::Stop, Step::Quiet, Step::Record, Step::GiveUp]);

    let mut cluster = Cluster::up(2, 2);
    cluster.behaviour.cutting.cannot_keep = Some((NodeId(0), "cannot write 'x': No space left on device".into()));
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    let message = refusal(served.client.checkpoint(job, MakeOrder::default()).await);
    assert_eq!(message, format!("no checkpoint of job {job} was made: cannot write 'x': No space left on device"));
    assert!(served.storage.jobs().expect("listed").is_empty());
    assert_eq!(steps(&served.down().await), [&whole()[..], &[Step::GiveUp]].concat());
}

#[tokio::test]
async fn a_cut_through_a_barrier_is_made_again() {
    let mut cluster = Cluster::up(2, 2);
    let left = |barriers: &[u64]| barriers.iter().copied().collect();
    cluster.behaviour.cutting.barriers =
        [(NodeId(0), left(&[4, 5, 6, 7, 8])), (NodeId(1), left(&[3, 5, 5, 6, 7]))].into();
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    served.client.checkpoint(job, MakeOrder::default()).await.expect("made at the second try");
    assert_eq!(served.storage.manifest(JobId(job), 1).expect("written").barriers, 5);
    let message = refusal(served.client.checkpoint(job, MakeOrder::default()).await);
    assert_eq!(message, format!("ranks of job {job} were leaving a barrier; try again"));
    assert_eq!(served.storage.manifests(JobId(job)).expect("listed").len(), 1);
    // Those that came to nothing are no base for the next.
    let cluster = served.down().await;
    let base = since(leaders(&cluster)[1]);
    assert_eq!(steps(&cluster), [whole().repeat(2), base.repeat(CHECKPOINT_TRIES as usize)].concat());
}

#[tokio::test]
async fn as_many_are_made_at_a_time_as_may_be() {
    let nodes = CHECKPOINTS_MAX as u32 + 1;
    let mut cluster = Cluster::up(nodes, nodes);
    cluster.behaviour.cutting.is_slow = true;
    let served = Served::new(cluster);
    let mut jobs = Vec::new();
    for _ in 0..nodes {
        jobs.push(served.submit(1).await);
    }
    let (last, first) = jobs.split_last().expect("some");
    let made: Vec<_> = first
        .iter()
        .map(|job| {
            let (client, job) = (served.client.clone(), *job);
            tokio::spawn(async move { client.checkpoint(job, MakeOrder::default()).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(refusal(served.client.checkpoint(first[0], MakeOrder::default()).await).contains("is being made already"));
    assert!(
        refusal(served.client.checkpoint(*last, MakeOrder::default()).await).contains("4 other jobs are being made")
    );
    for (job, made) in first.iter().zip(made) {
        served.client.kill(*job, KillOrder { signal: 9 }).await.expect("killed");
        let message = refusal(made.await.expect("no panic"));
        assert!(message.contains(&format!("no checkpoint of job {job} was made: job {job} has ended")), "{message}");
    }
    let message = refusal(served.client.checkpoint(first[0], MakeOrder::default()).await);
    assert!(message.contains("has ended already"), "{message}");
    served.down().await;
}

#[tokio::test]
async fn a_job_goes_on_from_a_checkpoint() {
    let served = Served::new(Cluster::up(4, 2));
    let job = served.submit(3).await;
    served.client.checkpoint(job, MakeOrder::default()).await.expect("made");
    // Not while it runs.
    let message = refusal(served.client.restart(job, &newest()).await);
    assert_eq!(message, format!("job {job} still runs; end it first: coppice kill {job}"));
    served.client.kill(job, KillOrder { signal: 9 }).await.expect("killed");
    served.client.wait(job).await.expect("ended");
    // What nodes have kept is not there.
    let message = refusal(served.client.restart(job, &newest()).await);
    assert!(message.contains("is missing"), "{message}");
    served.put(3, 2);
    let order = RestartOrder { verify: true, nodes: vec![3, 2], ..newest() };
    let restarted = served.client.restart(job, &order).await.expect("restarted");
    assert_eq!((restarted.checkpoint, restarted.reads_input), (CheckpointName { job, number: 1 }, false));
    let view = served.client.job(restarted.job).await.expect("job").job;
    assert_eq!((view.restarted_from, view.nodes), (Some(restarted.checkpoint), vec![3, 2]));
    tokio::time::sleep(Duration::from_millis(100)).await;
    for (order, words) in [
        (RestartOrder { checkpoint: Some(7), ..newest() }, "has no checkpoint 7"),
        (RestartOrder { nodes: vec![1], ..newest() }, "--nodes-list names 1 node"),
    ] {
        let message = refusal(served.client.restart(job, &order).await);
        assert!(message.contains(words), "{message}");
    }
    // Its program goes, first from the store, then from its file.
    let copy = served.client.paths().programs().join(&view.program);
    std::fs::remove_file(&copy).expect("removed");
    served.client.restart(job, &newest()).await.expect("from its file");
    std::fs::remove_file(&copy).expect("removed");
    let mut other = support::program_file();
    other[4000] ^= 1;
    std::fs::write(&served.program, other).expect("written");
    let message = refusal(served.client.restart(job, &newest()).await);
    assert!(message.contains(&format!("cannot restart from {job}@1: its program")), "{message}");
    let message = refusal(served.client.restart(99, &newest()).await);
    assert_eq!(message, "job 99 has no checkpoints; `coppice checkpoint 99` makes one while it runs");

    let cluster = served.down().await;
    let mut members = cluster.members(JobId(restarted.job));
    members.sort_by_key(|member| member.rank);
    let by = members[0].restore.expect("restored").by;
    let from = |rank: u32| Restore {
        rank: part(PartOf::Rank(Rank(rank))).object,
        node: part(PartOf::Node(rank / 2)).object,
        by,
        keep_files: false,
    };
    let made: Vec<_> = members.iter().map(|member| (member.node.0, member.restore)).collect();
    assert_eq!(made, [(3, Some(from(0))), (3, Some(from(1))), (2, Some(from(2)))]);
    let led = cluster.behaviour.cutting.steps.iter().filter(|(of, ..)| *of == JobId(restarted.job));
    let led: Vec<_> = led.map(|(_, leader, node, step)| (*leader, node.0, *step)).collect();
    let each = |step| [(by, 2, step), (by, 3, step)];
    assert_eq!(led, Step::OF_RESTART.map(each).concat());
}
