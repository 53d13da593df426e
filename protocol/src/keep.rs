//! Kept files: files that lie in the memory of nodes without a job, until somebody else wants that memory or they are
//! told to give it back.
//!
//! They come by a [transfer](crate::distribution) like those of a job's [staged files](crate::staging), of which the
//! order says everything; nodes that have the file already say so first and help the others. What a file is, is its
//! hash. A node tells what it keeps together with the page tables that it [retains](crate::retain::RetainedProgram),
//! and gives both back in the same way.
//!
//! Both orders are idempotent: a repeated [`Keep`] is answered as the first one was or will be; a repeated end of one
//! finds nothing to end.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::distribution::{Plan, PlanError, TransferId, packet};
use crate::ids::{Generation, JobId, NodeId, ProgramId};
use crate::retain::RetainedProgram;
use crate::staging::{Roster, StagedFile, Staging};
use crate::text::ByteString;
use crate::world::World;

/// The transfer of a file that nodes are to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTransfer {
    /// Number of the request. No other of the cluster has it while nodes are up.
    pub request: u64,
    /// The nodes, and what they know each other by.
    pub world: World,
    /// The file, the only one, and over what it comes.
    pub staging: Staging,
}

impl KeptTransfer {
    /// Which transfer it is. Jobs' have other numbers.
    #[must_use]
    pub const fn id(&self) -> TransferId {
        TransferId { number: self.request | 1 << 63, generation: Generation(1) }
    }

    /// What its members know each other by.
    #[must_use]
    pub fn key(&self) -> packet::TransferKey {
        Staging::key(&self.world.key, JobId(0), 0)
    }

    /// The file.
    ///
    /// # Errors
    /// [`PlanError::Empty`] if there is not one.
    pub const fn file(&self) -> Result<&StagedFile, PlanError> {
        match self.staging.files.as_slice() {
            [file] => Ok(file),
            _ => Err(PlanError::Empty),
        }
    }

    /// Its members. `None` as for [`Roster::new`].
    #[must_use]
    pub fn roster(&self) -> Option<Roster> {
        Roster::new(&self.staging, &self.world)
    }

    /// How it gets to them.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(&self, roster: &Roster) -> Result<Plan, PlanError> {
        self.file()?;
        Ok(Plan { transfer: self.id(), ..self.staging.plan(JobId(0), 0, roster)? })
    }
}

/// From the I/O node to a node: have this file in memory, and keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The boot that is meant.
    pub generation: Generation,
    /// The node that is meant.
    pub node: NodeId,
    /// How the file comes.
    pub transfer: KeptTransfer,
}

/// Answer to a [`Keep`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The order's number.
    pub request: u64,
    /// What came of it.
    pub outcome: KeepOutcome,
    /// All that the node holds now.
    pub held: Vec<RetainedProgram>,
}

/// What came of a [`Keep`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeepOutcome {
    /// The file is there, all of it.
    Whole {
        /// It was there before.
        was_here: bool,
    },
    /// It is not there, for this reason.
    Refused(String),
    /// The order is for another boot of the node; nothing was changed.
    OtherBoot(Generation),
}

/// How far a file is on its way to nodes that are to keep it, as far as home knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepProgress {
    /// The order's number.
    pub request: u64,
    /// Length of what all of those next to home have, at most that of the file, bytes.
    pub bytes: u64,
    /// Nodes that have the whole file, or were given up.
    pub whole: u32,
}

/// From the service node to an I/O node: have nodes of the pset keep a file. Each of them that is ready answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepFile {
    /// How the file comes to all of its nodes.
    pub transfer: KeptTransfer,
    /// Those of them that are in this pset.
    pub nodes: Vec<NodeId>,
    /// A file of the host that has its bytes and does not change.
    pub file: ByteString,
}

impl KeepFile {
    /// What the file is.
    #[must_use]
    pub fn content(&self) -> Option<ProgramId> {
        self.transfer.file().ok().map(|file| file.content)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::KeptTransfer;
    use crate::distribution::PlanError;
    use crate::ids::{JobId, NodeId, ProgramId, PsetId};
    use crate::limits::STAGED_FILES_MAX;
    use crate::psets::PsetTable;
    use crate::staging::testing::over;
    use crate::staging::{StagedFile, Staging};
    use crate::world::{JobKey, World};

    fn transfer(request: u64, nodes: &[u32], files: usize) -> KeptTransfer {
        let file = StagedFile { content: ProgramId([1; 32]), bytes: 100_000, path: None };
        let staging = over(PsetId(1), PsetTable::new(20, 4), 9000, vec![file; files]);
        let world = World::new(JobKey([7; 32]), 1, nodes.iter().copied().map(NodeId));
        KeptTransfer { request, world, staging }
    }

    #[test]
    fn its_number_is_no_jobs() {
        let five = transfer(5, &[1, 2], 1);
        let plan = five.plan(&five.roster().expect("memory")).expect("a plan");
        // Home is another pset's.
        assert_eq!((plan.transfer, plan.members), (transfer(5, &[3], 1).id(), 3));
        assert_ne!(transfer(5, &[1], 1).id(), transfer(6, &[1], 1).id());
        // As many jobs as there can be.
        for job in [0, 5, u64::MAX / 2 / STAGED_FILES_MAX as u64] {
            for file in [0, STAGED_FILES_MAX - 1] {
                assert_ne!(Staging::transfer(JobId(job), file), transfer(job, &[1], 1).id());
            }
        }
    }

    #[test]
    fn it_is_of_one_file() {
        for files in [0, 2] {
            let transfer = transfer(1, &[1], files);
            assert_eq!(transfer.plan(&transfer.roster().expect("memory")), Err(PlanError::Empty));
            assert!(transfer.file().is_err());
        }
        let of_nobody = transfer(1, &[], 1);
        assert_eq!(of_nobody.plan(&of_nobody.roster().expect("memory")), Err(PlanError::Members(0)));
    }
}
