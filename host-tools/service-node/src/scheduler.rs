//! Which job gets which nodes next: first in, first out, each node for one job at a time.
//!
//! The job at the head waits until there are nodes enough for it, and nobody overtakes it: a large job is never starved
//! by small ones. Which of the free nodes it gets is [`place`]'s choice.

use std::collections::{BTreeSet, VecDeque};

use coppice_protocol::ids::{JobId, NodeId};

use crate::limits::JOBS_QUEUED_MAX;

/// Jobs that wait, in order.
#[derive(Debug, Default)]
pub struct Scheduler {
    queue: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    job: JobId,
    nodes: usize,
}

/// The queue has [`JOBS_QUEUED_MAX`] jobs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{JOBS_QUEUED_MAX} jobs are waiting already; try again when some have ended")]
pub struct QueueFull;

impl Scheduler {
    /// Whether another job may be submitted.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn check_room(&self) -> Result<(), QueueFull> {
        if self.queue.len() < JOBS_QUEUED_MAX { Ok(()) } else { Err(QueueFull) }
    }

    /// Puts a job at the end of the queue and says how many are ahead of it.
    pub fn submit(&mut self, job: JobId, nodes: usize) -> usize {
        self.queue.push_back(Waiting { job, nodes });
        self.queue.len() - 1
    }

    /// Takes a job out of the queue; says whether it was there.
    pub fn remove(&mut self, job: JobId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiting| waiting.job != job);
        self.queue.len() < before
    }

    /// The next job that can start on the free nodes, and its block in order of ranks. The nodes are no longer free.
    pub fn next_start(&mut self, free: &mut BTreeSet<NodeId>) -> Option<(JobId, Vec<NodeId>)> {
        let head = self.queue.front()?;
        let block = place(free, head.nodes)?;
        let job = head.job;
        self.queue.pop_front();
        for node in &block {
            free.remove(node);
        }
        Some((job, block))
    }

    /// Jobs that need more nodes than there can be, which are taken out of the queue.
    pub fn take_impossible(&mut self, usable: usize) -> Vec<JobId> {
        let impossible =
            self.queue.iter().filter(|waiting| waiting.nodes > usable).map(|waiting| waiting.job).collect();
        self.queue.retain(|waiting| waiting.nodes <= usable);
        impossible
    }

    /// Jobs waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Chooses nodes of a block: the free ones with the lowest numbers, so that neighbours stay together; nothing if there
/// are too few.
fn place(free: &BTreeSet<NodeId>, nodes: usize) -> Option<Vec<NodeId>> {
    (free.len() >= nodes).then(|| free.iter().take(nodes).copied().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use coppice_protocol::ids::{JobId, NodeId};
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::{QueueFull, Scheduler};
    use crate::limits::JOBS_QUEUED_MAX;

    fn nodes(count: u32) -> BTreeSet<NodeId> {
        (0..count).map(NodeId).collect()
    }

    #[test]
    fn nobody_overtakes_the_head_of_the_queue() {
        let mut scheduler = Scheduler::default();
        let mut free = nodes(4);
        assert_eq!(scheduler.submit(JobId(1), 3), 0);
        assert_eq!(scheduler.submit(JobId(2), 2), 1);
        assert_eq!(scheduler.submit(JobId(3), 1), 2);
        assert_eq!(scheduler.next_start(&mut free), Some((JobId(1), vec![NodeId(0), NodeId(1), NodeId(2)])));
        assert_eq!(scheduler.next_start(&mut free), None, "job 3 would fit, but job 2 is first");
        assert!(scheduler.remove(JobId(2)) && !scheduler.remove(JobId(2)));
        assert_eq!(scheduler.next_start(&mut free), Some((JobId(3), vec![NodeId(3)])));
        assert!(scheduler.is_empty());
    }

    #[test]
    fn jobs_that_can_never_start_are_found() {
        let mut scheduler = Scheduler::default();
        for job in 1..=4u32 {
            scheduler.submit(JobId(job.into()), job as usize);
        }
        assert_eq!(scheduler.take_impossible(2), [JobId(3), JobId(4)]);
        assert_eq!(scheduler.len(), 2);
    }

    #[test]
    fn the_queue_is_bounded() {
        let mut scheduler = Scheduler::default();
        for job in 0..JOBS_QUEUED_MAX {
            scheduler.check_room().expect("room");
            scheduler.submit(JobId(job as u64), 1);
        }
        assert_eq!(scheduler.check_room(), Err(QueueFull));
    }

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
            proptest::strategy::Just(Step::Start),
            (0usize..50).prop_map(Step::End),
            (0usize..50).prop_map(Step::Remove),
        ];
        proptest::collection::vec(one, 0..200)
    }

    proptest! {
        /// Whatever happens: no node has two jobs, none gets lost, and jobs start in the order they came.
        #[test]
        fn nodes_are_exclusive_and_order_is_kept(steps in steps()) {
            const NODES: u32 = 8;
            let mut scheduler = Scheduler::default();
            let mut free = nodes(NODES);
            let mut running: Vec<Vec<NodeId>> = Vec::new();
            let mut last_started = 0;
            let mut submitted = 0;
            for step in steps {
                match step {
                    Step::Submit(nodes) => {
                        submitted += 1;
                        scheduler.submit(JobId(submitted), nodes);
                    }
                    Step::Start => {
                        if let Some((job, block)) = scheduler.next_start(&mut free) {
                            prop_assert!(job.0 > last_started);
                            last_started = job.0;
                            running.push(block);
                        }
                    }
                    Step::End(index) if index < running.len() => free.extend(running.swap_remove(index)),
                    Step::Remove(job) => {
                        scheduler.remove(JobId(job as u64));
                    }
                    Step::End(_) => {}
                }
                let mut all: Vec<NodeId> = running.iter().flatten().chain(&free).copied().collect();
                all.sort_unstable();
                prop_assert_eq!(all, nodes(NODES).into_iter().collect::<Vec<_>>());
            }
        }
    }
}
