//! Staging: files that every node of a job has in its memory before the job's ranks start.
//!
//! A launch names the files; with the job's own key, its nodes and its pset's links that says everything about the
//! [transfers](crate::distribution) which bring them, so that nobody exchanges anything beforehand. Home is the I/O
//! node of one pset; the I/O nodes of other psets are members beside the nodes, and pass on what their nodes get
//! ([`Roster`]).

mod roster;

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

pub use self::roster::{Roster, Station, damaged_piece};
use crate::distribution::{Link, Plan, PlanError, Scheme, TransferId, packet};
use crate::ids::{Generation, JobId, ProgramId, PsetId};
use crate::limits::{PIECES_PER_TRANSFER_MAX, STAGED_FILES_MAX};
use crate::psets::PsetTable;
use crate::text::ByteString;
use crate::transfer::FileOfJob;
use crate::trees::Topology;
use crate::world::JobKey;

/// A file that is staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// The BLAKE3 of its bytes.
    pub content: ProgramId,
    /// Its length, bytes; not 0.
    pub bytes: u64,
    /// Where ranks of the job find it, an absolute path. `None`: it is the job's program, of which pages are taken from
    /// there.
    pub path: Option<ByteString>,
}

/// What a job has staged, and over what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// The pset whose I/O node has the files for all.
    pub home: PsetId,
    /// The cluster's psets.
    pub psets: PsetTable,
    /// Largest IP packet on the links, bytes.
    pub mtu: u16,
    /// Bandwidth of each link, bytes/s.
    pub bytes_per_second: u64,
    /// Latency from one node to another, ns.
    pub latency_ns: u32,
    /// How long a node may stand still without being taken for dead, ns.
    pub stall_ns: u32,
    /// How the files get to the nodes.
    pub scheme: Scheme,
    /// The files, at most [`STAGED_FILES_MAX`].
    pub files: Vec<StagedFile>,
}

/// Headers of a packet on the link beside a datagram's own: Ethernet, IPv4 and UDP, bytes.
const LINK_HEADERS_BYTES: u32 = 14 + IP_HEADERS_BYTES;
const IP_HEADERS_BYTES: u32 = 20 + 8;

/// Length of pieces, unless there would be too many of them, bytes: short enough to be hashed in one go.
const PIECE_BYTES: u32 = 32 * 1024;

/// Packets of bytes that a piece may have.
const PACKETS_PER_PIECE: u32 = 32;

/// Separates the keys of transfers from everything else that may ever be made of a job's key.
const KEY_CONTEXT: &[u8] = b"Coppice key of a job's transfer, version 1";

impl Staging {
    /// The transfer of one of the files: files of a job are numbered, and no job has another's number.
    #[must_use]
    pub fn transfer(job: JobId, file: usize) -> TransferId {
        let number = job.0.wrapping_mul(STAGED_FILES_MAX as u64).wrapping_add(file as u64);
        TransferId { number, generation: Generation(1) }
    }

    /// How such a file is called where its transfer is spoken of. A job has at most [`STAGED_FILES_MAX`] of them.
    #[must_use]
    pub fn file(job: JobId, file: usize) -> FileOfJob {
        FileOfJob { job, file: u8::try_from(file).unwrap_or(u8::MAX) }
    }

    /// What the members of a file's transfer know each other by.
    #[must_use]
    pub fn key(key: &JobKey, job: JobId, file: usize) -> packet::TransferKey {
        let mut secret = [0; 32];
        let mut hasher = blake3::Hasher::new_keyed(&key.0);
        hasher.update(KEY_CONTEXT).update(&Self::transfer(job, file).number.to_le_bytes());
        hasher.finalize_xof().fill(&mut secret);
        packet::TransferKey::new(secret)
    }

    /// The plan of a file's transfer to these members. Files of a job share the links evenly.
    ///
    /// # Errors
    /// [`PlanError`], also if there is no such file.
    pub fn plan(&self, job: JobId, file: usize, roster: &Roster) -> Result<Plan, PlanError> {
        self.plan_for(job, file, roster.members(), roster.topology())
    }

    /// The same to so many nodes, wherever they are, for whoever only wants to know whether that can be.
    ///
    /// # Errors
    /// [`PlanError`], also if there is no such file.
    pub fn check(&self, file: usize, nodes: u32) -> Result<Plan, PlanError> {
        self.plan_for(JobId(0), file, nodes.saturating_add(self.psets.count()), &Topology::one_pset())
    }

    fn plan_for(&self, job: JobId, file: usize, members: u32, topology: &Topology) -> Result<Plan, PlanError> {
        let bytes = self.files.get(file).ok_or(PlanError::Empty)?.bytes;
        let share = self.files.len() as u64;
        let room = u32::from(self.mtu).saturating_sub(IP_HEADERS_BYTES + packet::HEADER_BYTES as u32);
        let packet_bytes = 1 << room.checked_ilog2().ok_or(PlanError::Empty)?;
        let most = packet_bytes * PACKETS_PER_PIECE;
        let mut piece_bytes = PIECE_BYTES.min(most);
        while bytes.div_ceil(piece_bytes.into()) > PIECES_PER_TRANSFER_MAX.into() && piece_bytes < most {
            piece_bytes *= 2;
        }
        let plan = Plan {
            transfer: Self::transfer(job, file),
            bytes,
            piece_bytes,
            packet_bytes,
            overhead_bytes: LINK_HEADERS_BYTES + packet::HEADER_BYTES as u32,
            members,
            topology: topology.clone(),
            scheme: self.scheme,
            link: Link {
                bytes_per_second: (self.bytes_per_second / share).max(1),
                latency_ns: self.latency_ns,
                stall_ns: self.stall_ns,
            },
        };
        plan.check()?;
        Ok(plan)
    }

    /// Length of all files together, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use alloc::vec::Vec;

    use super::{StagedFile, Staging};
    use crate::distribution::Scheme;
    use crate::ids::PsetId;
    use crate::psets::PsetTable;

    /// These files, sent from there over links that are alike.
    pub(crate) fn over(home: PsetId, psets: PsetTable, mtu: u16, files: Vec<StagedFile>) -> Staging {
        let (bytes_per_second, latency_ns, stall_ns) = (100_000_000, 1000, 0);
        Staging { home, psets, mtu, bytes_per_second, latency_ns, stall_ns, scheme: Scheme::TwoTrees, files }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::testing::over;
    use super::{StagedFile, Staging};
    use crate::distribution::PlanError;
    use crate::ids::{JobId, ProgramId, PsetId};
    use crate::limits::{MTU_BYTES_MIN, STAGED_FILES_MAX};
    use crate::psets::PsetTable;
    use crate::world::JobKey;

    fn staging(bytes: u64, mtu: u16) -> Staging {
        let file = StagedFile { content: ProgramId([1; 32]), bytes, path: None };
        over(PsetId(1), PsetTable::new(2, 1), mtu, vec![file])
    }

    #[test]
    fn files_of_all_lengths_have_plans_on_all_links() {
        for (mtu, most) in [(MTU_BYTES_MIN, 64 << 20), (1500, 256 << 20), (9000, 2 << 30)] {
            for bytes in [1, 4096, 32 * 1024, 63 << 20, most] {
                let plan = staging(bytes, mtu).check(0, 32).expect("a plan");
                assert!(plan.packet_bytes + plan.overhead_bytes <= u32::from(mtu) + 14, "{plan:?}");
                assert!(plan.proof_bytes() + plan.overhead_bytes <= u32::from(mtu) + 14, "{plan:?}");
            }
        }
        let longer = staging((2 << 30) + 1, 9000).check(0, 32);
        assert_eq!(longer, Err(PlanError::Pieces(8193)));
        assert_eq!(staging(0, 9000).check(0, 32), Err(PlanError::Empty));
        assert_eq!(staging(1, 9000).check(1, 32), Err(PlanError::Empty), "there is no such file");
    }

    #[test]
    fn no_two_transfers_have_a_number_or_a_key_in_common() {
        let last = STAGED_FILES_MAX - 1;
        assert_ne!(Staging::transfer(JobId(1), last), Staging::transfer(JobId(2), 0));
        let key = |job, file| Staging::key(&JobKey([5; 32]), JobId(job), file);
        assert!(key(1, 0) != key(1, 1) && key(1, 0) != key(2, 0) && key(1, 0) == key(1, 0));
        assert!(key(1, 0) != Staging::key(&JobKey([6; 32]), JobId(1), 0));
    }
}
