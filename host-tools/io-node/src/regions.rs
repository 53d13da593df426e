//! Nodes' regions ([`coppice_protocol::region`]): files in one directory, from which checkpoints are pulled and in
//! which they are wiped.
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
use std::time::Duration;

use coppice_protocol::ids::NodeId;
use coppice_storage::Storage;
use rustix::fs::{CWD, Mode, OFlags};

use self::error::{RegionError, Result};
use self::file::Region;
use crate::machine::{RegionAnswer, RegionOrder, RegionWork};

/// By what is pulled.
#[derive(Clone, Copy, Debug)]
pub struct PullBy {
    /// Threads at most: the one that has the order and, if they can be had, others.
    pub threads: usize,
    /// What shows the time, from whenever.
    pub clock: fn() -> Duration,
}

/// The directory that they lie in.
#[derive(Debug)]
pub enum Regions {
    /// Nodes have none.
    None,
    /// It cannot be used, for that reason.
    Unusable(String),
    /// It is open.
    Here(OwnedFd),
}

impl Regions {
    /// Opens the directory, which is made if it is not there.
    #[must_use]
    pub fn open(path: Option<&Path>) -> Self {
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
    pub(crate) fn directory(&self) -> Option<BorrowedFd<'_>> {
        if let Self::Here(directory) = self { Some(directory.as_fd()) } else { None }
    }

    fn region(&self, node: NodeId) -> Result<Option<Region>> {
        match self {
            Self::None => Ok(None),
            Self::Unusable(reason) => Err(RegionError::Unusable(reason.clone())),
            Self::Here(directory) => Region::open(directory, node),
        }
    }

    /// Does what was ordered. While it pulls, it says after each object of this thread how many are stored, and how
    /// many there are.
    pub fn carry_out(
        &self,
        order: &RegionOrder,
        storage: &Storage,
        by: &PullBy,
        progress: &mut dyn FnMut((u64, u64)),
    ) -> RegionAnswer {
        let node = order.node;
        match order.work {
            RegionWork::Pull(from) => {
                let region = self.region(node).and_then(|region| region.ok_or(RegionError::NoRegion(node)));
                let pulled = region.and_then(|region| pull::pull(&region, storage, from, by, progress));
                RegionAnswer::Pulled(pulled.map_err(|error| said(node, &error)))
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
