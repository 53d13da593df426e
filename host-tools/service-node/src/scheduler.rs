//! Which job gets which nodes next: first in, first out, each node for one job at a time.
//!
//! The job at the head waits until there are nodes for it: enough of them, or the ones its user named. Nobody overtakes
//! it but jobs that do not delay it ([`backfill`]): a large job is never starved by small ones. Which of the free nodes
//! a job gets is the choice of [`placement`].

pub mod ahead;
mod backfill;
pub mod placement;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use coppice_protocol::ids::{JobId, NodeId};

use self::backfill::Reservation;
use crate::limits::JOBS_QUEUED_MAX;

/// Jobs that wait, in order.
#[derive(Debug, Default)]
pub struct Scheduler {
    queue: VecDeque<Wish>,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The job.
    pub job: JobId,
    /// How many nodes it needs.
    pub nodes: usize,
    /// The nodes it needs, if not just any.
    pub listed: Vec<NodeId>,
    /// How long it lasts at most once it has them, if its user said so.
    pub bound: Option<Duration>,
}

impl Wish {
    /// Whether these nodes are enough.
    fn fits(&self, nodes: &BTreeSet<NodeId>) -> bool {
        if self.listed.is_empty() {
            nodes.len() >= self.nodes
        } else {
            self.listed.iter().all(|node| nodes.contains(node))
        }
    }
}

/// The nodes as the scheduler sees them.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// Nodes that take a job now.
    pub free: BTreeSet<NodeId>,
    /// Jobs that have nodes.
    pub running: Vec<Running>,
    /// Nodes that are on their way up: free at any moment.
    pub coming: BTreeSet<NodeId>,
}

/// A job that has nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The nodes that are free once it has ended.
    pub nodes: Vec<NodeId>,
    /// How long it still lasts at most; nothing if nobody said so, or it has lasted longer already.
    pub left: Option<Duration>,
}

/// A job that can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// The free nodes to choose from: enough, or exactly the listed ones.
    pub from: BTreeSet<NodeId>,
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
    pub fn submit(&mut self, wish: Wish) -> usize {
        self.queue.push_back(wish);
        self.queue.len() - 1
    }

    /// Takes a job out of the queue; says whether it was there.
    pub fn remove(&mut self, job: JobId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|waiting| waiting.job != job);
        self.queue.len() < before
    }

    /// The next job that can start, which leaves the queue. Whoever starts it asks again, with fewer free nodes.
    pub fn next_start(&mut self, pool: &Pool) -> Option<Start> {
        let head = self.queue.front()?;
        let (index, from) = if head.fits(&pool.free) {
            (0, pool.free.clone())
        } else {
            let reservation = Reservation::of(head, pool);
            let permitted = |(index, later)| Some((index, reservation.permits(later, pool)?.clone()));
            self.queue.iter().enumerate().skip(1).find_map(permitted)?
        };
        let wish = self.queue.remove(index)?;
        let from = if wish.listed.is_empty() { from } else { wish.listed.into_iter().collect() };
        Some(Start { job: wish.job, from })
    }

    /// Jobs that can never start as only these nodes work, which are taken out of the queue.
    pub fn take_impossible(&mut self, usable: &BTreeSet<NodeId>) -> Vec<JobId> {
        let (possible, impossible): (VecDeque<Wish>, VecDeque<Wish>) =
            self.queue.drain(..).partition(|waiting| waiting.fits(usable));
        self.queue = possible;
        impossible.into_iter().map(|waiting| waiting.job).collect()
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
