//! Checkpoints that lie in regions first, over a real socket with the real client and the real directory: I/O nodes
//! pull them, room is made for them, and they go when nobody needs them.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::checkpoint::{
    CheckpointChoice, CheckpointMode, CheckpointPolicy, CheckpointReport, CheckpointState, Drained, MakeOrder,
};
use coppice_api::{ApiError, Client};
use coppice_protocol::checkpoint::Keeping;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::pset::{FromPset, Pulled, ToPset};
use coppice_protocol::region::SlotKey;
use support::Cluster;
use support::cutting::Ordered;
use support::served::{Served, TICK, refusal};

/// A job goes on by itself, of whose checkpoints none is made by itself.
const RESTARTED: CheckpointPolicy =
    CheckpointPolicy { every_ms: u64::MAX, keep: 2, max_restarts: 1, node_mtbf_ms: None };

const COPY: MakeOrder = MakeOrder { mode: CheckpointMode::Copy, dma_pending: Some(3) };

/// Nodes in psets of one each, the first two of which keep checkpoints in their regions.
fn cluster(nodes: u32) -> Cluster {
    let mut cluster = Cluster::up(nodes, 1);
    cluster.behaviour.cutting.local = [NodeId(0), NodeId(1)].into();
    cluster
}

async fn checkpoint(served: &Served, job: u64) -> Result<CheckpointReport, ApiError> {
    served.client.checkpoint(job, MakeOrder::default()).await
}

fn in_background(client: &Client, job: u64) -> tokio::task::JoinHandle<Result<CheckpointReport, ApiError>> {
    let client = client.clone();
    tokio::spawn(async move { client.checkpoint(job, MakeOrder::default()).await })
}

/// What nodes were to keep, at each try.
fn keepings(cluster: &Cluster) -> Vec<(u64, Keeping)> {
    let save = |(_, by, node, step): &(JobId, u64, NodeId, Step)| match step {
        Step::Save(keeping) if *node == NodeId(0) => Some((*by, *keeping)),
        _ => None,
    };
    cluster.behaviour.cutting.steps.iter().filter_map(save).collect()
}

/// What a node's I/O node was to wipe: of which job, and but for what.
fn wipes(cluster: &Cluster, of: u32) -> Vec<(Option<JobId>, Option<SlotKey>)> {
    let wipe = |(_, message): (_, &ToPset)| match message {
        ToPset::Wipe { node, job, but, .. } if *node == NodeId(of) => Some((*job, *but)),
        _ => None,
    };
    cluster.told().filter_map(wipe).collect()
}

#[tokio::test]
async fn what_is_local_is_drained_whatever_becomes_of_the_job() {
    let cluster = cluster(2);
    cluster.behaviour.cutting.pull(None);
    let ordered = Arc::clone(&cluster.behaviour.cutting.ordered);
    let served = Served::new(cluster);
    served.put(3, 2);
    let job = served.submit(3).await;
    let made = in_background(&served.client, job);
    let views = served.listed(job, |views| !views.is_empty()).await;
    let view = &views[0];
    assert_eq!(
        (view.state, view.drained, view.checkpoint.number),
        (CheckpointState::Local, Some(Drained::default()), 1)
    );
    assert_eq!((&*view.name, view.pages, view.ranks), (&b"prog"[..], 20, 3));
    assert!(served.storage.jobs().expect("listed").is_empty(), "it is none yet");
    assert!(refusal(checkpoint(&served, job).await).contains("is being made already"));
    let of: BTreeMap<NodeId, Ordered> =
        ordered.lock().expect("not poisoned").iter().map(|ordered| (ordered.node, ordered.clone())).collect();
    for (pset, objects) in [(0, (3, 10)), (1, (4, 7))] {
        let request = of[&NodeId(pset)].request;
        served.said(pset, FromPset::Pulling { request, objects }).await;
    }
    let both = Some(Drained { objects: 7, of: 17 });
    served.listed(job, |views| views[0].drained == both).await;
    // Nodes and job go, and it is a checkpoint all the same.
    served.lose_machine(0).await;
    served.client.wait(job).await.expect("ended");
    for pset in [1, 0] {
        let Ordered { request, parts, .. } = of[&NodeId(pset)].clone();
        served.said(pset, FromPset::Pulled { request, pulled: Ok(Pulled { parts, hash_ns: 3_000_000 }) }).await;
    }
    let report = made.await.expect("no panic").expect("made");
    assert_eq!((report.checkpoint.number, report.mode), (1, CheckpointMode::Cow));
    assert_eq!(report.cost.hash_ms, Some(6), "of both");
    let views = served.listed(job, |views| views[0].state == CheckpointState::Drained).await;
    assert_eq!((views.len(), views[0].drained), (1, None));
    let manifest = served.storage.manifest(JobId(job), 1).expect("written");
    let parts: Vec<_> = manifest.parts.iter().map(ToString::to_string).collect();
    assert_eq!(parts, ["rank 0", "rank 1", "rank 2", "node 0", "node 1"]);
    let cost = served.client.job(job).await.expect("known").job.checkpoints_made.expect("one").cost;
    assert_eq!(cost, Some(report.cost));
    let from = of[&NodeId(0)].from;
    assert_eq!(from.key, served_key(&served.down().await));
}

#[tokio::test]
async fn a_job_that_lost_a_node_waits_for_what_is_being_drained_and_goes_on_from_that() {
    for is_stored in [true, false] {
        let cluster = cluster(4);
        let cutting = &cluster.behaviour.cutting;
        let (pulls, ordered) = (Arc::clone(&cutting.pulls), Arc::clone(&cutting.ordered));
        let served = Served::new(cluster);
        served.put(3, 2);
        let job = served.submit_with(3, Some(RESTARTED)).await;
        checkpoint(&served, job).await.expect("made");
        *pulls.lock().expect("not poisoned") = None;
        let already = ordered.lock().expect("not poisoned").len();
        let made = in_background(&served.client, job);
        served.listed(job, |views| views.iter().any(|view| view.state == CheckpointState::Local)).await;
        served.lose_machine(0).await;
        while served.client.nodes().await.expect("listed")[1].job.is_some() {
            tokio::time::sleep(TICK).await;
        }
        // Whoever does not wait for it has gone on by then.
        tokio::time::sleep(10 * TICK).await;
        assert_eq!(served.client.job(job).await.expect("known").job.continued_as, None);
        let last = ordered.lock().expect("not poisoned").split_off(already);
        for Ordered { node, request, parts, .. } in last {
            let pulled = if is_stored { Ok(Pulled { parts, hash_ns: 1 }) } else { Err("its disk is full".to_owned()) };
            served.said(node.0, FromPset::Pulled { request, pulled }).await;
        }
        assert_eq!(made.await.expect("no panic").is_ok(), is_stored);
        let next = served.client.wait(job).await.expect("ended").continued_as.expect("goes on");
        assert_eq!(next.checkpoint.number, if is_stored { 2 } else { 1 });
        served.down().await;
    }
}

/// Who led the only one.
fn served_key(cluster: &Cluster) -> u64 {
    let keepings = keepings(cluster);
    assert_eq!(keepings.len(), 1);
    keepings[0].0
}

#[tokio::test]
async fn each_is_the_base_of_the_next_and_the_newest_alone_stays_in_regions() {
    let served = Served::new(cluster(2));
    let job = served.submit(4).await;
    for _ in 0..2 {
        checkpoint(&served, job).await.expect("made");
    }
    let one = CheckpointChoice { job, number: Some(2) };
    let deleted = served.client.delete_checkpoints(&one).await.expect("deleted");
    assert_eq!(deleted.not_wiped, None);
    // What is gone is none, and has no place in regions.
    checkpoint(&served, job).await.expect("made");
    // An older one lies in no region.
    served.client.delete_checkpoints(&CheckpointChoice { job, number: Some(1) }).await.expect("deleted");
    let cluster = served.down().await;
    let keepings = keepings(&cluster);
    let [(first, _), (second, _), (third, _)] = keepings[..] else { panic!("{keepings:?}") };
    let since = |since| Keeping { since, ..Keeping::default() };
    assert_eq!(keepings, [(first, since(None)), (second, since(Some(first))), (third, since(None))]);
    let of_job = Some(JobId(job));
    let slot = |slot, key| Some(SlotKey { slot, key });
    for node in 0..2 {
        let expected = [
            // Room, and all but the new one, in turns.
            (None, None),
            (of_job, slot(0, first)),
            (None, slot(0, first)),
            (of_job, slot(1, second)),
            (of_job, None),
            (None, None),
            (of_job, slot(0, third)),
        ];
        assert_eq!(wipes(&cluster, node), expected);
    }
}

#[tokio::test]
async fn what_may_be_wiped_later_does_not_lie_in_regions() {
    let mut cluster = cluster(2);
    cluster.behaviour.cutting.not_wiped.insert(NodeId(1), "its disk does not answer".to_owned());
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    checkpoint(&served, job).await.expect("made");
    let cluster = served.down().await;
    let [(_, keeping)] = keepings(&cluster)[..] else { panic!("one") };
    assert_eq!(keeping, Keeping { elsewhere: true, ..Keeping::default() });
}

#[tokio::test]
async fn what_cannot_be_pulled_is_no_checkpoint_and_the_next_has_no_base() {
    let cluster = cluster(2);
    let pulls = Arc::clone(&cluster.behaviour.cutting.pulls);
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    checkpoint(&served, job).await.expect("made");
    *pulls.lock().expect("not poisoned") = Some(Err("object 7 is not what was written".into()));
    let message = refusal(checkpoint(&served, job).await);
    assert!(message.starts_with(&format!("no checkpoint of job {job} was made: what node ")), "{message}");
    assert!(message.ends_with(" has in its region cannot be stored: object 7 is not what was written"), "{message}");
    *pulls.lock().expect("not poisoned") = Some(Ok(()));
    checkpoint(&served, job).await.expect("made");
    let views = served.listed(job, |views| views.len() == 2).await;
    assert!(views.iter().all(|view| view.state == CheckpointState::Drained), "{views:?}");
    let cluster = served.down().await;
    let keepings = keepings(&cluster);
    let first = keepings[0].0;
    let since: Vec<_> = keepings.iter().map(|(_, keeping)| keeping.since).collect();
    assert_eq!(since, [None, Some(first), None]);
    // The last that is one stays where it is, the other goes.
    let stays = Some(SlotKey { slot: 0, key: first });
    let of_job = Some(JobId(job));
    assert_eq!(wipes(&cluster, 1)[1..5], [(of_job, stays), (None, stays), (of_job, stays), (None, stays)]);
}

#[tokio::test]
async fn a_lost_io_node_ends_it_with_a_line_and_so_does_a_silent_one() {
    let cluster = cluster(2);
    cluster.behaviour.cutting.pull(None);
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    let made = in_background(&served.client, job);
    served.listed(job, |views| !views.is_empty()).await;
    served.lose_io_node(1).await;
    let why = "the I/O node of pset 1 ended: it was killed by signal 9";
    assert_eq!(refusal(made.await.expect("no panic")), format!("no checkpoint of job {job} was made: {why}"));
    served.listed(job, <[_]>::is_empty).await;
    served.down().await;

    let cluster = self::cluster(2);
    cluster.behaviour.cutting.pull(None);
    let served = Served::in_time(cluster);
    let job = served.submit(4).await;
    let message = refusal(checkpoint(&served, job).await);
    assert!(message.contains("has stored nothing more of what node"), "{message}");
    served.down().await;
}

#[tokio::test]
async fn nodes_may_give_it_away_themselves_and_regions_may_not_be_wiped() {
    let mut cluster = cluster(4);
    cluster.behaviour.cutting.local.remove(&NodeId(1));
    let why = "cannot write '3': Input/output error".to_owned();
    cluster.behaviour.cutting.not_wiped = [(NodeId(0), why.clone()), (NodeId(3), why.clone())].into();
    let served = Served::new(cluster);
    let job = served.submit(3).await;
    checkpoint(&served, job).await.expect("made, without room");
    assert_eq!(served.storage.manifest(JobId(job), 1).expect("written").parts.len(), 5);
    let deleted = served.client.delete_checkpoints(&CheckpointChoice { job, number: None }).await.expect("deleted");
    let line = format!("the regions of nodes 0, 3 may have it yet: {why}");
    assert_eq!(deleted.not_wiped, Some(line));
    let cluster = served.down().await;
    // The job was on two of them, and it may lie on any.
    for node in 0..4 {
        assert_eq!(wipes(&cluster, node).last(), Some(&(Some(JobId(job)), None)));
        assert_eq!(wipes(&cluster, node).len(), if node < 2 { 3 } else { 1 });
    }
}

#[tokio::test]
async fn ranks_that_are_copied_stand_until_all_nodes_have_kept_it() {
    let served = Served::new(cluster(2));
    let job = served.submit(4).await;
    let copied = served.client.checkpoint(job, COPY).await.expect("made");
    let names: Vec<_> = copied.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["stop", "quiet", "record", "save", "copy", "resume"]);
    assert_eq!(copied.mode, CheckpointMode::Copy);
    assert!(copied.cost.pause_us >= copied.steps.iter().map(|step| step.us).sum());
    checkpoint(&served, job).await.expect("made");
    let cluster = served.down().await;
    assert_eq!(cluster.behaviour.cutting.kept_at_resume, [2, 2, 0, 0]);
    let keepings = keepings(&cluster);
    assert_eq!(keepings.iter().map(|(_, keeping)| keeping.copy).collect::<Vec<_>>(), [Some(3), None]);

    // If one cannot, all go on.
    let mut cluster = self::cluster(2);
    cluster.behaviour.cutting.cannot_keep = Some((NodeId(1), "No space left on device".into()));
    let served = Served::new(cluster);
    let job = served.submit(4).await;
    let message = refusal(served.client.checkpoint(job, COPY).await);
    assert_eq!(message, format!("no checkpoint of job {job} was made: No space left on device"));
    let cluster = served.down().await;
    let last: Vec<_> = cluster.behaviour.cutting.steps.iter().rev().take(2).map(|(.., step)| *step).collect();
    assert_eq!(last, [Step::GiveUp, Step::GiveUp]);
    assert!(cluster.behaviour.cutting.kept_at_resume.is_empty());
}

/// An I/O node that is killed while it stores something leaves it under a name of its own.
#[tokio::test]
async fn what_is_half_stored_goes_when_checkpoints_are_deleted() {
    let served = Served::new(cluster(2));
    served.put(3, 2);
    let job = served.submit(3).await;
    checkpoint(&served, job).await.expect("made");
    let half = served.storage.path().join("temporary/4711-0");
    std::fs::write(&half, b"half").expect("written");
    served.client.delete_checkpoints(&CheckpointChoice { job, number: None }).await.expect("deleted");
    assert!(!half.exists());
    served.down().await;
}
