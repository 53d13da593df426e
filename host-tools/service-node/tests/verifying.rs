//! Checkpoints that are read once more, over a real socket with the real client and the real directory.

mod support;

use coppice_api::checkpoint::{CheckpointChoice, CheckpointName, CheckpointState, MakeOrder, RestartOrder};
use coppice_api::job::KillOrder;
use coppice_protocol::checkpoint::ObjectId;
use support::Cluster;
use support::served::{Served, refusal};

async fn states(served: &Served, job: u64) -> Vec<CheckpointState> {
    served.listed(job, |_| true).await.iter().map(|view| view.state).collect()
}

#[tokio::test]
async fn what_is_verified_is_noted_until_it_is_deleted() {
    use CheckpointState::{Drained, Verified};
    let served = Served::new(Cluster::up(2, 1));
    served.put(3, 2);
    let job = served.submit(3).await;
    for _ in 0..3 {
        served.client.checkpoint(job, MakeOrder::default()).await.expect("made");
    }
    let name = |number| CheckpointName { job, number };
    let second = served.client.verify_checkpoints(&CheckpointChoice { job, number: Some(2) }).await.expect("read");
    assert_eq!((second.checkpoints, second.damaged.len()), (vec![name(2)], 0));
    assert_eq!(states(&served, job).await, [Drained, Verified, Drained]);
    let all = served.client.verify_checkpoints(&CheckpointChoice { job, number: None }).await.expect("read");
    assert_eq!((all.checkpoints, all.damaged.len()), ((1..=3).map(name).collect(), 0));
    assert_eq!(states(&served, job).await, [Verified; 3]);
    // Another one with its number is another one.
    served.client.delete_checkpoints(&CheckpointChoice { job, number: Some(3) }).await.expect("deleted");
    served.client.checkpoint(job, MakeOrder::default()).await.expect("made");
    assert_eq!(states(&served, job).await, [Verified, Verified, Drained]);
    // A restart that reads all of it notes that, too.
    served.put(3, 2);
    served.client.kill(job, KillOrder { signal: 9 }).await.expect("killed");
    served.client.wait(job).await.expect("ended");
    let order = RestartOrder { detached: true, verify: true, ..RestartOrder::default() };
    served.client.restart(job, &order).await.expect("restarted");
    assert_eq!(states(&served, job).await, [Verified; 3]);
    served.down().await;
}

#[tokio::test]
async fn what_is_damaged_is_said_of_each() {
    let served = Served::new(Cluster::up(2, 1));
    served.put(3, 2);
    let job = served.submit(3).await;
    for _ in 0..2 {
        served.client.checkpoint(job, MakeOrder::default()).await.expect("made");
    }
    std::fs::write(served.storage.path().join(format!("jobs/{job}/1.json")), b"{}").expect("written");
    let object = ObjectId::of(&0_u32.to_le_bytes()).to_string();
    std::fs::write(served.storage.path().join(format!("objects/{}/{object}", &object[..2])), b"\0else")
        .expect("written");
    let all = served.client.verify_checkpoints(&CheckpointChoice { job, number: None }).await.expect("read");
    assert!(all.checkpoints.is_empty());
    let [manifest, part] = &all.damaged[..] else { panic!("{all:?}") };
    assert!(manifest.starts_with(&format!("checkpoint 1 of job {job} is damaged")), "{manifest}");
    let beginning = format!("checkpoint 2 of job {job} is not whole, at rank 0: object {object} is damaged");
    assert!(part.starts_with(&beginning), "{part}");
    assert_eq!(states(&served, job).await[1], CheckpointState::Drained);
    let missing = CheckpointChoice { job, number: Some(7) };
    assert!(refusal(served.client.verify_checkpoints(&missing).await).contains("has no checkpoint 7"));
    let unknown = CheckpointChoice { job: 99, number: None };
    assert!(refusal(served.client.verify_checkpoints(&unknown).await).contains("has no checkpoints"));
    served.down().await;
}
