//! The queue by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use coppice_protocol::ids::{JobId, NodeId};
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Pool, QueueFull, Running, Scheduler, Start, Wish};
use crate::limits::JOBS_QUEUED_MAX;

const NODES: u32 = 8;

fn nodes(count: u32) -> BTreeSet<NodeId> {
    (0..count).map(NodeId).collect()
}

fn set(nodes: &[u32]) -> BTreeSet<NodeId> {
    nodes.iter().copied().map(NodeId).collect()
}

fn wish(job: u64, nodes: usize) -> Wish {
    Wish { job: JobId(job), nodes, listed: Vec::new(), bound: None }
}

fn bound(job: u64, nodes: usize, seconds: u64) -> Wish {
    Wish { bound: Some(Duration::from_secs(seconds)), ..wish(job, nodes) }
}

fn listed(job: u64, list: &[u32]) -> Wish {
    Wish { listed: list.iter().copied().map(NodeId).collect(), ..wish(job, list.len()) }
}

fn running(nodes: &[u32], left: Option<u64>) -> Running {
    Running { nodes: set(nodes).into_iter().collect(), left: left.map(Duration::from_secs) }
}

fn pool(free: &[u32], running: Vec<Running>) -> Pool {
    Pool { free: set(free), running, coming: BTreeSet::new() }
}

fn start(job: u64, from: &[u32]) -> Option<Start> {
    Some(Start { job: JobId(job), from: set(from) })
}

fn queue(wishes: impl IntoIterator<Item = Wish>) -> Scheduler {
    let mut scheduler = Scheduler::default();
    for wish in wishes {
        scheduler.submit(wish);
    }
    scheduler
}

#[test]
fn nobody_overtakes_the_head_of_the_queue() {
    let mut scheduler = Scheduler::default();
    assert_eq!(scheduler.submit(wish(1, 3)), 0);
    assert_eq!(scheduler.submit(wish(2, 2)), 1);
    assert_eq!(scheduler.submit(wish(3, 1)), 2);
    assert_eq!(scheduler.next_start(&pool(&[0, 1, 2, 3], vec![])), start(1, &[0, 1, 2, 3]));
    let left = pool(&[3], vec![running(&[0, 1, 2], None)]);
    assert_eq!(scheduler.next_start(&left), None, "job 3 would fit, but job 2 is first");
    assert!(scheduler.remove(JobId(2)) && !scheduler.remove(JobId(2)));
    assert_eq!(scheduler.next_start(&left), start(3, &[3]));
    assert!(scheduler.is_empty());
}

#[test]
fn listed_nodes_are_waited_for() {
    let mut scheduler = queue([listed(1, &[2, 0])]);
    assert_eq!(scheduler.next_start(&pool(&[0, 1, 3], vec![running(&[2], None)])), None);
    assert_eq!(scheduler.next_start(&pool(&[0, 1, 2, 3], vec![])), start(1, &[0, 2]));
}

#[test]
fn jobs_that_can_never_start_are_found() {
    let mut scheduler = queue([wish(1, 1), wish(2, 2), wish(3, 3), listed(4, &[1]), listed(5, &[2])]);
    assert_eq!(scheduler.take_impossible(&set(&[0, 2])), [JobId(3), JobId(4)]);
    assert_eq!(scheduler.len(), 3);
}

#[test]
fn the_queue_is_bounded() {
    let mut scheduler = Scheduler::default();
    for job in 0..JOBS_QUEUED_MAX {
        scheduler.check_room().expect("room");
        scheduler.submit(wish(job as u64, 1));
    }
    assert_eq!(scheduler.check_room(), Err(QueueFull));
}

#[test]
fn a_job_that_is_over_in_time_overtakes() {
    // Node 3 is idle until job 1's three nodes are free in 10 s, when job 2 takes all four.
    let state = pool(&[3], vec![running(&[0, 1, 2], Some(10))]);
    assert_eq!(queue([wish(2, 4), bound(3, 1, 11), bound(4, 1, 10)]).next_start(&state), start(4, &[3]));
    assert_eq!(queue([wish(2, 4), bound(3, 1, 11)]).next_start(&state), None, "a second too long");
    assert_eq!(queue([wish(2, 4), wish(3, 1)]).next_start(&state), None, "nobody knows how long");
    assert_eq!(queue([wish(2, 4), bound(3, 2, 1)]).next_start(&state), None, "too large");
    let unknown = pool(&[3], vec![running(&[0, 1, 2], Some(10)), running(&[4, 5, 6], None)]);
    assert_eq!(queue([wish(2, 4), bound(3, 1, 1)]).next_start(&unknown), None, "job 2 may start at any moment");
    let coming = Pool { coming: set(&[4]), ..state };
    assert_eq!(queue([wish(2, 4), bound(3, 1, 1)]).next_start(&coming), None, "node 4 may come at any moment");
}

#[test]
fn a_job_on_nodes_the_head_leaves_alone_overtakes() {
    // In 10 s there are six nodes for job 2, which takes four of them.
    let state = pool(&[4, 5, 6], vec![running(&[0, 1, 2], Some(10)), running(&[3], Some(20))]);
    assert_eq!(queue([wish(2, 4), bound(3, 2, 1000)]).next_start(&state), start(3, &[4, 5, 6]));
    assert_eq!(queue([wish(2, 4), bound(3, 3, 1000)]).next_start(&state), None, "one too many");
    // All that ends at that moment counts.
    let together = pool(&[4, 5, 6], vec![running(&[0], Some(10)), running(&[1], Some(10)), running(&[2], Some(10))]);
    assert_eq!(queue([wish(2, 4), bound(3, 2, 1000)]).next_start(&together), start(3, &[4, 5, 6]));
    // Nodes that are not listed are never needed, whatever is known of the running jobs.
    let state = pool(&[1, 2], vec![running(&[0], None)]);
    assert_eq!(queue([listed(2, &[0, 1]), bound(3, 1, 1000)]).next_start(&state), start(3, &[2]));
    assert_eq!(queue([listed(2, &[0, 1]), wish(3, 1)]).next_start(&state), None, "nobody knows how long");
    let bounded = pool(&[1, 2], vec![running(&[0], Some(10))]);
    assert_eq!(queue([listed(2, &[0, 1]), bound(3, 2, 10)]).next_start(&bounded), start(3, &[1, 2]));
    assert_eq!(queue([listed(2, &[0, 1]), bound(3, 2, 11)]).next_start(&bounded), None);
}

/// What may happen to a queue.
#[derive(Clone, Debug)]
enum Step {
    Submit(usize),
    Start,
    End(usize),
    Remove(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        (1usize..9).prop_map(Step::Submit),
        Just(Step::Start),
        (0usize..50).prop_map(Step::End),
        (0usize..50).prop_map(Step::Remove),
    ];
    proptest::collection::vec(one, 0..200)
}

proptest! {
    /// Whatever happens: no node has two jobs, none gets lost, and jobs start in the order they came.
    #[test]
    fn nodes_are_exclusive_and_order_is_kept(steps in steps()) {
        let mut scheduler = Scheduler::default();
        let mut free = nodes(NODES);
        let mut blocks: Vec<Vec<NodeId>> = Vec::new();
        let mut last_started = 0;
        let mut sizes = vec![0];
        for step in steps {
            match step {
                Step::Submit(nodes) => {
                    scheduler.submit(wish(sizes.len() as u64, nodes));
                    sizes.push(nodes);
                }
                Step::Start => {
                    let running = blocks.iter().map(|block| Running { nodes: block.clone(), left: None }).collect();
                    let pool = Pool { free: free.clone(), running, coming: BTreeSet::new() };
                    if let Some(Start { job, from }) = scheduler.next_start(&pool) {
                        prop_assert!(job.0 > last_started);
                        last_started = job.0;
                        prop_assert_eq!(&from, &free);
                        let block: Vec<NodeId> = from.into_iter().take(sizes[job.0 as usize]).collect();
                        free.retain(|node| !block.contains(node));
                        blocks.push(block);
                    }
                }
                Step::End(index) if index < blocks.len() => free.extend(blocks.swap_remove(index)),
                Step::Remove(job) => {
                    scheduler.remove(JobId(job as u64));
                }
                Step::End(_) => {}
            }
            let mut all: Vec<NodeId> = blocks.iter().flatten().chain(&free).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, nodes(NODES).into_iter().collect::<Vec<_>>());
        }
    }
}
