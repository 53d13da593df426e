//! The queue by itself, and a machine that runs jobs in time of its own to see what backfilling does to it.

use std::collections::BTreeSet;
use std::time::Duration;

use coppice_protocol::ids::{JobId, NodeId};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{Pool, QueueFull, Running, Scheduler, Start, Wish};
use crate::limits::JOBS_QUEUED_MAX;

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
    let unknown = pool(&[3], vec![running(&[0, 1], Some(10)), running(&[2], None)]);
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

/// A job of the machine below: when it comes, how long it runs, whether its user says so.
#[derive(Clone, Debug)]
struct Planned {
    arrives: u64,
    lasts: u64,
    nodes: usize,
    list: Option<BTreeSet<NodeId>>,
    tells: bool,
}

const NODES: u32 = 8;

fn planned(told: f64) -> impl Strategy<Value = Vec<Planned>> {
    let list = proptest::option::weighted(0.2, proptest::collection::btree_set((0..NODES).prop_map(NodeId), 1..4));
    let one = (0..60u64, 1..30u64, 1..=NODES as usize, list, proptest::bool::weighted(told));
    let job = one.prop_map(|(arrives, lasts, nodes, list, tells)| Planned {
        arrives,
        lasts,
        nodes: list.as_ref().map_or(nodes, BTreeSet::len),
        list,
        tells,
    });
    proptest::collection::vec(job, 1..40)
}

/// Runs jobs on nodes, each exactly as long as planned.
struct Machine<'a> {
    planned: &'a [Planned],
    scheduler: Scheduler,
    now: u64,
    waiting: Vec<usize>,
    /// Job, its nodes, its end.
    running: Vec<(usize, BTreeSet<NodeId>, u64)>,
    free: BTreeSet<NodeId>,
    started: Vec<Option<u64>>,
    /// When a job that had come to the head would have started had nobody overtaken it from then on.
    promised: Vec<Option<u64>>,
}

impl<'a> Machine<'a> {
    fn new(planned: &'a [Planned]) -> Self {
        let none = vec![None; planned.len()];
        Self {
            planned,
            scheduler: Scheduler::default(),
            now: 0,
            waiting: Vec::new(),
            running: Vec::new(),
            free: nodes(NODES),
            started: none.clone(),
            promised: none,
        }
    }

    fn pool(&self) -> Pool {
        let left = |job: usize, end: u64| self.planned[job].tells.then(|| Duration::from_secs(end - self.now));
        let running = self.running.iter();
        let running =
            running.map(|(job, on, end)| Running { nodes: on.iter().copied().collect(), left: left(*job, *end) });
        Pool { free: self.free.clone(), running: running.collect(), coming: BTreeSet::new() }
    }

    fn fits(&self, job: usize, free: &BTreeSet<NodeId>) -> bool {
        self.planned[job].list.as_ref().map_or(free.len() >= self.planned[job].nodes, |list| list.is_subset(free))
    }

    /// When the head starts if only running jobs end from now on.
    fn promise(&self, head: usize) -> u64 {
        let mut ends: Vec<_> = self.running.iter().map(|(_, on, end)| (*end, on)).collect();
        ends.sort_unstable();
        let mut free = self.free.clone();
        let enough = ends.into_iter().find(|(_, on)| {
            free.extend(*on);
            self.fits(head, &free)
        });
        enough.expect("all nodes come free in the end").0
    }

    fn schedule(&mut self, pick: impl Fn(usize) -> usize) {
        loop {
            if let Some(head) = self.waiting.first().copied().filter(|head| !self.fits(*head, &self.free)) {
                let promise = self.promise(head);
                self.promised[head].get_or_insert(promise);
            }
            let Some(Start { job, from }) = self.scheduler.next_start(&self.pool()) else { return };
            let job = usize::try_from(job.0).expect("small");
            let mut from: Vec<NodeId> = from.into_iter().collect();
            let on = (0..self.planned[job].nodes).map(|_| from.swap_remove(pick(from.len()))).collect::<BTreeSet<_>>();
            assert!(on.is_subset(&self.free) && self.fits(job, &on), "{job} on {on:?} of {:?}", self.free);
            self.free.retain(|node| !on.contains(node));
            self.waiting.retain(|waiting| *waiting != job);
            self.started[job] = Some(self.now);
            self.running.push((job, on, self.now + self.planned[job].lasts));
        }
    }

    /// To the end. `pick` chooses nodes.
    fn run(&mut self, pick: impl Fn(usize) -> usize) {
        let mut coming: Vec<usize> = (0..self.planned.len()).collect();
        coming.sort_by_key(|job| self.planned[*job].arrives);
        coming.reverse();
        loop {
            let next_end = self.running.iter().map(|(_, _, end)| *end).min();
            let next_arrival = coming.last().map(|job| self.planned[*job].arrives);
            let Some(next) = next_end.into_iter().chain(next_arrival).min() else { return };
            self.now = next;
            let (ended, running) = self.running.drain(..).partition(|(_, _, end)| *end == next);
            self.running = running;
            let ended: Vec<(usize, BTreeSet<NodeId>, u64)> = ended;
            self.free.extend(ended.into_iter().flat_map(|(_, on, _)| on));
            while let Some(job) = coming.pop_if(|job| self.planned[*job].arrives == next) {
                let Planned { nodes, list, lasts, tells, .. } = &self.planned[job];
                let listed = list.iter().flatten().copied().collect();
                let bound = tells.then(|| Duration::from_secs(*lasts));
                self.scheduler.submit(Wish { job: JobId(job as u64), nodes: *nodes, listed, bound });
                self.waiting.push(job);
            }
            self.schedule(&pick);
        }
    }
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

    /// Whoever comes to the head starts no later than if nobody had overtaken it, as long as users tell the truth; of
    /// jobs whose users say nothing nobody expects anything.
    #[test]
    fn the_head_is_never_delayed(planned in planned(0.8), salt in any::<usize>()) {
        let mut machine = Machine::new(&planned);
        machine.run(|choices| salt % choices);
        for (started, promised) in machine.started.iter().zip(&machine.promised) {
            let started = started.expect("all start in the end");
            prop_assert!(promised.is_none_or(|promised| started <= promised), "{started} after {promised:?}");
        }
    }

    /// Nobody says how long anything takes: strictly in order.
    #[test]
    fn without_bounds_nobody_overtakes(planned in planned(0.0), salt in any::<usize>()) {
        let mut machine = Machine::new(&planned);
        machine.run(|choices| salt % choices);
        let mut order: Vec<usize> = (0..planned.len()).collect();
        order.sort_by_key(|job| planned[*job].arrives);
        prop_assert!(order.is_sorted_by_key(|job| machine.started[*job]));
    }
}

/// Backfilling is worth something: a machine that would stand half idle does not.
#[test]
fn idle_nodes_are_used() {
    let job = |arrives, nodes, lasts| Planned { arrives, lasts, nodes, list: None, tells: true };
    let planned = [job(0, 4, 100), job(1, 8, 10), job(2, 4, 90), job(3, 4, 8)];
    let mut machine = Machine::new(&planned);
    machine.run(|_| 0);
    let started: Vec<u64> = machine.started.iter().map(|started| started.expect("started")).collect();
    assert_eq!(started, [0, 100, 2, 92], "jobs 2 and 3 fill the nodes that job 1 waits for");
}
