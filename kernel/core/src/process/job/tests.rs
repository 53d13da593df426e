//! What ranks of a job share on a node, and what that takes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_hal::heap::measure;
use coppice_protocol::control::Launch;
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::spawn::Joined;
use coppice_protocol::world::{JobKey, NodeRange, World};

use super::JobsOnNode;
use crate::errno::Errno;
use crate::executor;
use crate::files::cache::LeftFiles;
use crate::memory::limits::READ_AHEAD_PAGES;
use crate::net::testing::Net;
use crate::net::{self, Network};
use crate::process::testing::{order, pool};
use crate::quota::tests::quota;
use crate::sync::{LockLevel, Mutex};

fn left() -> Arc<LeftFiles> {
    LeftFiles::new(&Arc::default())
}

#[test]
fn ranks_of_a_job_share_one_until_the_last_has_gone() {
    let jobs = Arc::new(JobsOnNode::default());
    let quota = quota();
    let enter = |order: &Launch| jobs.enter(order, (pool(), &left()), &quota).expect("memory");
    let (first, second) = (enter(&order(2)), enter(&order(2)));
    let other = enter(&Launch { job: JobId(8), ..order(1) });
    assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
    assert_eq!(jobs.count(), 2);
    drop(first);
    assert_eq!(jobs.count(), 2);
    drop(second);
    drop(other);
    assert_eq!(jobs.count(), 0);
}

/// Before the node is in the network of the job, and then.
#[test]
fn nodes_that_come_to_a_jobs_network_are_known_when_it_is_there() {
    let (jobs, quota, net) = (Arc::new(JobsOnNode::default()), quota(), Net::new());
    let (order, network) = (order(3), &net.dial.stack);
    let job = jobs.enter(&order, (pool(), &left()), &quota).expect("memory");
    let came = |first: u32| {
        let nodes = alloc::vec![NodeRange { first: NodeId(40 + first), count: 2 }];
        job.nodes_came(Joined { job: order.job, first, nodes }, network, &quota)
    };
    let before = quota.taken();
    assert_eq!([came(3), came(5)], [5, 7]);
    assert!(quota.taken() > before);
    let eaten: Vec<_> = core::iter::from_fn(|| quota.charge(64).ok()).collect();
    assert_eq!(came(7), 0, "there is no memory");
    drop(eaten);
    assert_eq!(net::job::enter(&order, network, &quota), Ok(()));
    assert_eq!(Network::nodes(network), Some(3));
    job.is_in_network(network, &quota);
    assert_eq!(Network::nodes(network), Some(7));
    assert_eq!([came(5), came(7), came(11)], [7, 9, 9], "the last does not come next");
}

#[test]
fn what_is_known_of_a_job_is_charged() {
    let (jobs, quota) = (Arc::new(JobsOnNode::default()), quota());
    let scattered = World::new(JobKey([2; 32]), 1, (0..10_000).map(|node| NodeId(2 * node)));
    let order = Launch { world: scattered, ..order(2) };
    let (job, taken) = measure(|| jobs.enter(&order, (pool(), &left()), &quota).expect("memory"));
    let kept = usize::try_from(taken.kept_bytes).expect("something");
    // Apart from its place among others, of which a node has few.
    assert!((80_000..quota.taken() + 2048).contains(&kept), "{kept} of {} bytes", quota.taken());
    drop(job);
    assert_eq!(quota.taken(), 0);
    let mut all = quota.charge(0).expect("nothing");
    while all.grow(64 * 1024).is_ok() {}
    assert_eq!(jobs.enter(&order, (pool(), &left()), &quota).err(), Some(Errno::ENOMEM));
    assert_eq!(jobs.count(), 0);
}

#[test]
fn the_end_of_a_fetch_wakes_those_who_wait_for_that_one() {
    let jobs = Arc::new(JobsOnNode::default());
    let job = jobs.enter(&order(1), (pool(), &left()), &quota()).expect("memory");
    let log = Arc::new(Mutex::new(LockLevel::Fact, alloc::vec::Vec::new()));
    let noted = Arc::clone(&log);
    let result = executor::run_to_end(async move {
        let first = job.turn_to_fetch(0, 0).await;
        let second = job.turn_to_fetch(0, READ_AHEAD_PAGES).await;
        for (name, page) in [("of the first", 1), ("of the first, too", 2), ("of the second", READ_AHEAD_PAGES + 1)] {
            let (job, log) = (Arc::clone(&job), Arc::clone(&log));
            let waits = executor::spawn(async move {
                let turn = job.turn_to_fetch(0, page).await;
                log.lock().push(name);
                // Those of one run have it one after the other.
                executor::yield_now().await;
                drop(turn);
            });
            assert!(waits.is_ok());
        }
        for _ in 0..4 {
            executor::yield_now().await;
        }
        assert!(log.lock().is_empty());
        drop(second);
        for _ in 0..4 {
            executor::yield_now().await;
        }
        assert_eq!(*log.lock(), ["of the second"]);
        assert_eq!(job.fetched.lock().len(), 1);
        drop(first);
        for _ in 0..8 {
            executor::yield_now().await;
        }
        assert!(job.fetched.lock().is_empty());
    });
    assert_eq!(result, Ok(()));
    assert_eq!(*noted.lock(), ["of the second", "of the first", "of the first, too"]);
}
