//! Broadcasts: files that the nodes of a job read from their start, sent to all of them as staged files are, instead of
//! to each by itself.
//!
//! The I/O node sees who reads what. When so many nodes of a job have a file open and begin to read it that the others
//! are likely to do so, too ([`is_worth`]), it takes the file as it is into memory, under the leases that its readers
//! have ([`crate::lease`]), and tells all nodes of the job: it is home of a [transfer](crate::distribution) of that
//! file as it is in that version. A node takes part if it has memory for it that nobody wants. What its ranks read it
//! finds there as soon as it comes, as long as its own lease is of that version; what does not come it asks for as
//! ever. So nothing depends on a broadcast: who does not take part, or hears of it late, reads what the others read.

pub mod limits;

use serde::{Deserialize, Serialize};

use self::limits::{BROADCAST_BYTES_MIN, BROADCAST_NODES_MIN, BROADCASTS_PER_JOB_MAX};
use crate::distribution::{Plan, PlanError, TransferId, packet};
use crate::ids::{Generation, JobId};
use crate::lease::FileId;
use crate::limits::STAGED_FILES_MAX;
use crate::staging::{Roster, StagedFile, Staging};
use crate::text::ByteString;
use crate::transfer::FileOfJob;
use crate::world::JobKey;

/// From the I/O node to the nodes of a job: have this file in memory, as your ranks are about to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broadcast {
    /// The job.
    pub job: JobId,
    /// Which of the job's broadcasts it is, below [`limits::BROADCASTS_PER_JOB_MAX`].
    pub number: u8,
    /// The file.
    pub file: FileId,
    /// The version that its bytes are of ([`crate::lease::Grant::version`]).
    pub version: u64,
    /// The file, the only one, and over what it comes.
    pub staging: Staging,
}

/// From an I/O node to the service node: a broadcast begins, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroadcastBegun {
    /// Which transfer it is.
    pub of: FileOfJob,
    /// Where the file is, as the job's ranks see it.
    pub path: ByteString,
    /// Its length, bytes.
    pub bytes: u64,
    /// Nodes that had it open.
    pub opened: u32,
}

/// Whether a file of so many bytes is sent to all nodes of a job: once some of them have begun to read it from its
/// start, and at least half have it open, so that what the others do not want of it is no more than what these do.
#[must_use]
pub const fn is_worth(bytes: u64, begun: u32, opened: u32, nodes: u32) -> bool {
    bytes >= BROADCAST_BYTES_MIN && begun >= BROADCAST_NODES_MIN && opened >= nodes.div_ceil(2)
}

/// How the transfer of a job's broadcast of that number is spoken of: behind its staged files.
#[must_use]
pub const fn file_of_job(job: JobId, number: u8) -> FileOfJob {
    FileOfJob { job, file: number.saturating_add(STAGED_FILES_MAX as u8) }
}

/// Which of the job's broadcasts a transfer is, if it is one.
#[must_use]
pub const fn number_of(of: FileOfJob) -> Option<u8> {
    of.file.checked_sub(STAGED_FILES_MAX as u8)
}

impl Broadcast {
    /// Which transfer it is. Staged files have another generation.
    #[must_use]
    pub fn id(&self) -> TransferId {
        let generation = Generation(2 + u32::from(self.number));
        TransferId { generation, ..Staging::transfer(self.job, 0) }
    }

    /// What its members know each other by.
    #[must_use]
    pub fn key(&self, key: &JobKey) -> packet::TransferKey {
        let mut own = key.clone();
        own.0 = *blake3::keyed_hash(&key.0, &[KEY_CONTEXT, &[self.number]].concat()).as_bytes();
        Staging::key(&own, self.job, 0)
    }

    /// The file.
    ///
    /// # Errors
    /// [`PlanError::Empty`] if there is not one.
    pub const fn content(&self) -> Result<&StagedFile, PlanError> {
        match self.staging.files.as_slice() {
            [file] if self.number < BROADCASTS_PER_JOB_MAX => Ok(file),
            _ => Err(PlanError::Empty),
        }
    }

    /// How it gets to its members.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn plan(&self, roster: &Roster) -> Result<Plan, PlanError> {
        self.content()?;
        Ok(Plan { transfer: self.id(), ..self.staging.plan(self.job, 0, roster)? })
    }
}

/// Separates the keys of broadcasts from those of staged files.
const KEY_CONTEXT: &[u8] = b"Coppice key of a job's broadcast, version 1";

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Broadcast, file_of_job, is_worth, number_of};
    use crate::broadcast::limits::{BROADCAST_BYTES_MIN, BROADCASTS_PER_JOB_MAX};
    use crate::distribution::PlanError;
    use crate::ids::{JobId, NodeId, ProgramId, PsetId};
    use crate::lease::FileId;
    use crate::limits::STAGED_FILES_MAX;
    use crate::psets::PsetTable;
    use crate::staging::testing::over;
    use crate::staging::{Roster, StagedFile, Staging};
    use crate::world::{JobKey, World};

    fn broadcast(job: u64, number: u8, files: usize) -> Broadcast {
        let file = StagedFile { content: ProgramId([1; 32]), bytes: 100_000, path: None };
        let staging = over(PsetId(0), PsetTable::new(20, 20), 9000, vec![file; files]);
        Broadcast { job: JobId(job), number, file: FileId { device: 1, inode: 2 }, version: 3, staging }
    }

    #[test]
    fn half_of_the_nodes_decide_and_never_one() {
        let opened = |nodes: u32| (2..=nodes).find(|opened| is_worth(BROADCAST_BYTES_MIN, 2, *opened, nodes));
        let wanted = [(1, None), (2, Some(2)), (3, Some(2)), (4, Some(2)), (5, Some(3)), (16, Some(8)), (17, Some(9))];
        for (nodes, wanted) in wanted {
            assert_eq!(opened(nodes), wanted, "{nodes}");
            assert!(!is_worth(BROADCAST_BYTES_MIN, 1, nodes, nodes));
        }
        assert!(!is_worth(BROADCAST_BYTES_MIN - 1, 16, 16, 16) && is_worth(u64::MAX, u32::MAX, u32::MAX, u32::MAX));
    }

    #[test]
    fn no_two_transfers_have_a_number_or_a_key_in_common() {
        let world = World::new(JobKey([7; 32]), 1, (0..4).map(NodeId));
        let roster = |of: &Broadcast| Roster::new(&of.staging, &world).expect("memory");
        let of = |job, number| broadcast(job, number, 1);
        let plan = of(5, 1).plan(&roster(&of(5, 1))).expect("a plan");
        assert_eq!((plan.transfer, plan.members), (of(5, 1).id(), 4));
        let staged = (0..STAGED_FILES_MAX).map(|file| Staging::transfer(JobId(5), file));
        let others = [of(5, 0).id(), of(6, 1).id(), of(4, 1).id()];
        assert!(staged.chain(others).all(|other| other != of(5, 1).id()));
        let staged: Vec<_> = (0..STAGED_FILES_MAX).map(|file| Staging::key(&world.key, JobId(5), file)).collect();
        assert!(!staged.contains(&of(5, 1).key(&world.key)) && of(5, 0).key(&world.key) != of(5, 1).key(&world.key));
        for number in [0, BROADCASTS_PER_JOB_MAX - 1] {
            assert_eq!(number_of(file_of_job(JobId(5), number)), Some(number));
        }
        assert_eq!(number_of(Staging::file(JobId(5), STAGED_FILES_MAX - 1)), None);
    }

    #[test]
    fn it_is_of_one_file_and_of_few() {
        let world = World::new(JobKey([7; 32]), 1, [NodeId(0)]);
        for broadcast in [broadcast(1, 0, 0), broadcast(1, 0, 2), broadcast(1, BROADCASTS_PER_JOB_MAX, 1)] {
            let roster = Roster::new(&broadcast.staging, &world).expect("memory");
            assert_eq!(broadcast.plan(&roster), Err(PlanError::Empty));
        }
    }
}
