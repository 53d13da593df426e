//! Who may overtake the head of the queue: EASY backfilling.
//!
//! Strictly first in, first out leaves nodes idle while a large job waits for its last ones. A later job may have them
//! if that does not delay the job at the head: when it is over before the head can start, or takes only nodes that the
//! head does not need then. When the head can start follows from how long the running jobs last at most, which their
//! users said (`--estimate`, `--timeout`). Only the head has such a reservation, which is what makes this "EASY":
//!
//! - D. Lifka, "The ANL/IBM SP Scheduling System", Job Scheduling Strategies for Parallel Processing, 1995.
//! - A. Mu'alem, D. Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
//!   IBM SP2 with Backfilling", IEEE Transactions on Parallel and Distributed Systems 12(6), 2001.
//!
//! What is not known is never guessed: a job without a bound overtakes nobody, and nobody overtakes a head whose nodes
//! are held by jobs without a bound (or past it), or are on their way up and may be there at any moment. A job that
//! lasts longer than its estimate is not ended for it; it only delays those who relied on it.

use std::collections::BTreeSet;
use std::time::Duration;

use coppice_protocol::ids::NodeId;

use super::{Pool, Wish};

/// What the head of the queue is promised, and so what others may have.
#[derive(Debug)]
pub(super) struct Reservation {
    /// When it starts at the latest, from now, as far as the running jobs keep to their bounds; nothing if that is not
    /// known.
    starts_in: Option<Duration>,
    /// Nodes, free now, of which it leaves some unused when it starts.
    spare: BTreeSet<NodeId>,
    /// How many of these.
    spare_count: usize,
}

impl Reservation {
    /// The reservation of a head that cannot start now.
    pub(super) fn of(head: &Wish, pool: &Pool) -> Self {
        if head.listed.is_empty() { Self::of_number(head.nodes, pool) } else { Self::of_list(&head.listed, pool) }
    }

    /// For a head that takes any nodes, if there are so many.
    fn of_number(nodes: usize, pool: &Pool) -> Self {
        let nothing = Self { starts_in: None, spare: BTreeSet::new(), spare_count: 0 };
        if !pool.coming.is_empty() {
            return nothing;
        }
        let ends: Option<Vec<(Duration, usize)>> =
            pool.running.iter().map(|running| Some((running.left?, running.nodes.len()))).collect();
        let Some(mut ends) = ends else { return nothing };
        ends.sort_unstable();
        let mut available = pool.free.len();
        let mut starts_in = None;
        for (left, released) in ends {
            // All that end at the same time count, not only those it takes.
            if starts_in.is_some_and(|start| start < left) {
                break;
            }
            available += released;
            if available >= nodes {
                starts_in = Some(left);
            }
        }
        match starts_in {
            Some(_) => Self { starts_in, spare: pool.free.clone(), spare_count: available.saturating_sub(nodes) },
            None => nothing,
        }
    }

    /// For a head that takes certain nodes; it leaves all others alone, whenever it starts.
    fn of_list(listed: &[NodeId], pool: &Pool) -> Self {
        let spare: BTreeSet<NodeId> = pool.free.iter().filter(|node| !listed.contains(node)).copied().collect();
        let free_in = |node: &NodeId| {
            if pool.free.contains(node) {
                return Some(Duration::ZERO);
            }
            pool.running.iter().find(|running| running.nodes.contains(node)).and_then(|running| running.left)
        };
        let starts_in = listed.iter().map(free_in).try_fold(Duration::ZERO, |latest, one| Some(latest.max(one?)));
        Self { starts_in, spare_count: spare.len(), spare }
    }

    /// The nodes that a later job may choose from, if it may start now.
    pub(super) fn permits<'a>(&'a self, later: &Wish, pool: &'a Pool) -> Option<&'a BTreeSet<NodeId>> {
        let lasts = later.bound?;
        let nodes = if self.starts_in.is_some_and(|start| lasts <= start) {
            &pool.free
        } else if later.nodes <= self.spare_count {
            &self.spare
        } else {
            return None;
        };
        later.fits(nodes).then_some(nodes)
    }
}
