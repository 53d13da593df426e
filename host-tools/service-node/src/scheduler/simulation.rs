//! A machine that runs jobs in time of its own, to see what backfilling does to them.

use std::collections::BTreeSet;
use std::time::Duration;

use coppice_protocol::ids::{JobId, NodeId};
use proptest::prelude::{Strategy, any, prop_assert, proptest};

use super::{Pool, Running, Scheduler, Start, Wish};

const NODES: u32 = 8;

/// A job: when it comes, how long it runs, whether its user says so.
#[derive(Clone, Debug)]
struct Planned {
    arrives: u64,
    lasts: u64,
    nodes: usize,
    list: Option<BTreeSet<NodeId>>,
    tells: bool,
}

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
            free: (0..NODES).map(NodeId).collect(),
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

proptest! {
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
