//! Nodes' regions ([`coppice_protocol::region`]): files in one directory, from which checkpoints are pulled and in
//! which they are wiped, on the threads that put objects. A pull takes long, so it is said now and then how far it is.
//!
//! A region is opened for each order: nobody holds one of a node that is gone.

mod error;
mod file;
mod index;
mod pull;
mod wipe;

use std::fs::DirBuilder;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use coppice_protocol::ids::NodeId;
use coppice_storage::Storage;
use rustix::fs::{CWD, Mode, OFlags};

use self::error::{RegionError, Result};
use self::file::Region;
use super::place::OwedRegion;
use super::{Completion, Completions};
use crate::limits::PROGRESS_PAUSE;
use crate::machine::{RegionAnswer, RegionOrder, RegionWork};

/// The directory that they lie in.
#[derive(Debug)]
pub(super) enum Regions {
    /// Nodes have none.
    None,
    /// It cannot be used, for that reason.
    Unusable(String),
    /// It is open.
    Here(OwnedFd),
}

impl Regions {
    /// Opens the directory, which is made if it is not there.
    pub(super) fn open(path: Option<&Path>) -> Self {
        let Some(path) = path else { return Self::None };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Only the cluster's user is to see what was in programs' memory.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        match made.and_then(|()| Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)) {
            Ok(directory) => Self::Here(directory),
            Err(error) => {
                let reason = format!("cannot use '{}', where the nodes' regions lie: {error}", path.display());
                tracing::error!("{reason}");
                Self::Unusable(reason)
            }
        }
    }

    /// It, to be kept in by the host's kernel.
    pub(super) fn directory(&self) -> Option<BorrowedFd<'_>> {
        if let Self::Here(directory) = self { Some(directory.as_fd()) } else { None }
    }

    fn region(&self, node: NodeId) -> Result<Option<Region>> {
        match self {
            Self::None => Ok(None),
            Self::Unusable(reason) => Err(RegionError::Unusable(reason.clone())),
            Self::Here(directory) => Region::open(directory, node),
        }
    }

    fn carry_out(&self, order: &RegionOrder, storage: &Storage, progress: &mut Progress) -> RegionAnswer {
        let node = order.node;
        match order.work {
            RegionWork::Pull(from) => {
                let region = self.region(node).and_then(|region| region.ok_or(RegionError::NoRegion(node)));
                let parts = region.and_then(|region| pull::pull(&region, storage, from, progress));
                RegionAnswer::Pulled(parts.map_err(|error| said(node, &error)))
            }
            RegionWork::Wipe { job, but } => {
                let wiped = self.region(node).and_then(|region| match region {
                    Some(region) => wipe::wipe(&region, job, but),
                    None => Ok(()),
                });
                RegionAnswer::Wiped(wiped.err().map(|error| said(node, &error)))
            }
        }
    }
}

fn said(node: NodeId, error: &RegionError) -> String {
    tracing::warn!(%error, "the region of node {node}");
    error.to_string()
}

/// An order about a region, and to whom its answer is owed.
#[derive(Debug)]
pub(super) struct RegionTask {
    pub(super) order: RegionOrder,
    pub(super) owed: OwedRegion,
    pub(super) progress: Progress,
}

impl RegionTask {
    pub(super) fn run(mut self, regions: &Regions, storage: &Storage) {
        let answer = regions.carry_out(&self.order, storage, &mut self.progress);
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
