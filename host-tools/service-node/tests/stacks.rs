//! What ranks were sampled at, as it is asked for: with the real client, database and store.

mod support;

use coppice_api::ApiError;
use coppice_api::job::Submission;
use coppice_api::overlay::{OverlayOrder, OverlayWish};
use coppice_api::stacks::StackView;
use coppice_protocol::ids::JobId;
use coppice_service_node::profiles::{ProfileOrder, Profiles};
use support::served::{Served, refusal};
use support::{Cluster, Order};

fn sampled(sample_hz: u32) -> OverlayWish {
    OverlayWish { sample_hz: Some(sample_hz), ..OverlayWish::default() }
}

fn submission(served: &Served) -> Submission {
    Submission { program: served.program.clone(), detached: true, ..support::job(2) }
}

#[tokio::test]
async fn stacks_are_told_with_the_program_that_names_them() {
    let cluster = Cluster::up(2, 2);
    let profiles = support::paths(cluster.home.path()).profiles();
    let served = Served::new(cluster);
    let job = Submission { overlay: Some(sampled(100)), ..submission(&served) };
    let job = served.client.submit(&job).await.expect("accepted").job;
    let nothing = served.client.stacks(job).await.expect("told");
    assert_eq!((nothing.samples, nothing.stacks.as_slice(), nothing.sample_hz), (0, [].as_slice(), None));
    assert!(matches!(served.client.stacks(99).await, Err(ApiError::Refused { status: 404, .. })));
    // What the thread that records would write.
    let (inner, outer) = (vec![0x40_0810, 0x40_0820], vec![0x40_0830]);
    let stacks = |generation, stacks| ProfileOrder::Stacks { job: JobId(job), generation, stacks };
    let orders = [
        ProfileOrder::Sampling { job: JobId(job), generation: 1, hz: 100 },
        stacks(1, vec![(outer.clone(), 1), (inner.clone(), 5)]),
        stacks(2, vec![(inner.clone(), 2)]),
    ];
    Profiles::open(&profiles).expect("new").add(&orders).expect("room");
    let view = served.client.stacks(job).await.expect("told");
    let stack = |frames, count| StackView { frames, count };
    assert_eq!(view.stacks, [stack(inner, 7), stack(outer, 1)]);
    assert_eq!((view.job, view.samples, view.sample_hz), (job, 8, Some(100)));
    let file = view.program_file.expect("stored");
    assert_eq!(std::fs::read(&file).expect("readable"), support::program_file());
    assert!(file.ends_with(&view.program), "{}", file.display());
    // A copy that was changed is not the program.
    let mut changed = support::program_file();
    changed[200] = 1;
    std::fs::write(&file, changed).expect("written");
    assert_eq!(served.client.stacks(job).await.expect("told").program_file, None);
    assert!(!file.exists());
    assert_eq!(served.client.stacks(job).await.expect("told").program_file, None);
    served.down().await;
}

#[tokio::test]
async fn how_often_ranks_are_sampled_is_checked_and_recorded() {
    let served = Served::new(Cluster::up(2, 2));
    for (wish, words) in [(sampled(0), "0 times a second"), (sampled(1001), "use 1 to 1000")] {
        let job = Submission { overlay: Some(wish.clone()), ..submission(&served) };
        let refused = refusal(served.client.submit(&job).await);
        assert!(refused.starts_with("--sample: ") && refused.contains(words), "{refused}");
    }
    let job = Submission { overlay: Some(sampled(100)), ..submission(&served) };
    let job = served.client.submit(&job).await.expect("accepted").job;
    let order = |wish| OverlayOrder { wish: Some(wish) };
    let refused = refusal(served.client.order_overlay(job, &order(sampled(5000))).await);
    assert!(refused.contains("5000 times a second"), "{refused}");
    let view = served.client.order_overlay(job, &order(sampled(7))).await.expect("begun");
    assert_eq!(view.wish, Some(sampled(7)));
    served.client.order_overlay(job, &order(OverlayWish::default())).await.expect("begun");
    let cluster = served.down().await;
    let rates: Vec<_> = cluster
        .orders
        .iter()
        .filter_map(|order| match order {
            Order::Profile(ProfileOrder::Sampling { job, generation, hz }) => Some((job.0, *generation, *hz)),
            _ => None,
        })
        .collect();
    assert_eq!(rates, [(job, 1, 100), (job, 2, 7)]);
}
