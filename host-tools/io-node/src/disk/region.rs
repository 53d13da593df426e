//! Orders about nodes' regions ([`crate::regions`]), carried out on the threads that put objects. A pull takes long, so
//! it is said now and then how far it is.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use coppice_protocol::ids::NodeId;
use coppice_storage::Storage;

use super::place::OwedRegion;
use super::{Completion, Completions};
use crate::clock::monotonic;
use crate::limits::{PROGRESS_PAUSE, PULL_THREADS_MAX};
use crate::machine::RegionOrder;
use crate::regions::{PullBy, Regions};

/// An order about a region, and to whom its answer is owed.
#[derive(Debug)]
pub(super) struct RegionTask {
    pub(super) order: RegionOrder,
    pub(super) owed: OwedRegion,
    pub(super) progress: Progress,
}

impl RegionTask {
    pub(super) fn run(mut self, regions: &Regions, storage: &Storage) {
        // One of them waits for the disk.
        let threads = (available_parallelism().map_or(1, NonZero::get) + 1).min(PULL_THREADS_MAX);
        let answer = regions.carry_out(&self.order, storage, &PullBy { threads, clock: monotonic }, &mut |objects| {
            self.progress.at(objects)
        });
        self.owed.pay(answer);
    }
}

/// How far it is with pulling from a region, which is said now and then.
#[derive(Debug)]
pub(super) struct Progress {
    node: NodeId,
    completions: Completions,
    /// Whoever has not taken what was said last holds it, too: nothing more is said until then.
    untaken: Arc<()>,
    /// When it was said last, or begun.
    said: Instant,
}

impl Progress {
    pub(super) fn new(node: NodeId, completions: Completions) -> Self {
        Self { node, completions, untaken: Arc::new(()), said: Instant::now() }
    }

    /// So many objects are stored, of so many.
    fn at(&mut self, objects: (u64, u64)) {
        self.look(objects, Instant::now());
    }

    fn look(&mut self, objects: (u64, u64), now: Instant) {
        if now.duration_since(self.said) >= PROGRESS_PAUSE && Arc::strong_count(&self.untaken) == 1 {
            self.said = now;
            drop(self.completions.send(Completion::Pulling(self.node, objects, Arc::clone(&self.untaken))));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn how_far_it_is_is_said_now_and_then_to_whoever_has_taken_what_was_said() {
        let (completions, mut queue) = unbounded_channel();
        let mut progress = Progress::new(NodeId(3), completions);
        let mut said = || match queue.try_recv() {
            Ok(Completion::Pulling(NodeId(3), objects, untaken)) => Some((objects, untaken)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        };
        let begun = progress.said;
        progress.look((1, 9), begun);
        assert!(said().is_none(), "it is too early");
        progress.look((2, 9), begun + PROGRESS_PAUSE);
        progress.look((3, 9), begun + 5 * PROGRESS_PAUSE);
        let (objects, untaken) = said().expect("it is time");
        assert_eq!(objects, (2, 9));
        assert!(said().is_none(), "that before was not taken");
        drop(untaken);
        progress.look((4, 9), begun + 5 * PROGRESS_PAUSE);
        assert_eq!(said().expect("it is time again").0, (4, 9));
    }
}
