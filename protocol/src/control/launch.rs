//! What a node is told of a job that it is to start: once for all of the job's ranks on it. What differs from rank to
//! rank follows from the rank's number; the node makes it ([`Order`]).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{ObjectId, Restore};
use crate::ids::{JobId, ProgramId, Rank};
use crate::limits::RANKS_PER_NODE_MAX;
use crate::spawn::Origin;
use crate::staging::Staging;
use crate::text::ByteString;
use crate::trace::Traced;
use crate::world::World;

/// The processes of a job to start on a node. If some of them run or ran already, the others are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The job.
    pub job: JobId,
    /// The first of the ranks that are meant.
    pub first: Rank,
    /// How many of them there are, one after the other: at most [`RANKS_PER_NODE_MAX`], the others are not started.
    pub count: u32,
    /// Ranks in the job.
    pub size: u32,
    /// The program.
    pub program: ProgramId,
    /// Length of the program's file, bytes.
    pub program_bytes: u64,
    /// Path of the program as the user gave it, for `AT_EXECFN` and messages.
    pub path: ByteString,
    /// Where its file lies in the job's root, without links, if it does: what `/proc/self/exe` says, from which dynamic
    /// linkers take `$ORIGIN`. In a box, as messages are moved about.
    pub executable: Option<Box<ByteString>>,
    /// Arguments; the first is the program's name.
    pub arguments: Vec<ByteString>,
    /// Environment for all ranks, `NAME=VALUE`. Each has more: [`Order::own_environment`].
    pub environment: Vec<ByteString>,
    /// Working directory, an absolute path inside the job's root.
    pub directory: ByteString,
    /// User and group id the program sees.
    pub user: u32,
    /// Group id the program sees.
    pub group: u32,
    /// File mode creation mask.
    pub umask: u32,
    /// Start on the page table that the node has retained of this program, if it has one. Otherwise, or if this is not
    /// set, the program is loaded, and a retained table of it is discarded first.
    pub use_retained: bool,
    /// Use what the node keeps of files that other jobs have read, and leave what this one reads to those that come.
    pub keeps_files: bool,
    /// The I/O node knows what the program looks up from the job's root ([`crate::manifest`]).
    pub has_manifest: bool,
    /// Where all ranks of the job are.
    pub world: World,
    /// Files that are to be in the node's memory before the processes start.
    pub staging: Option<Staging>,
    /// Of these ranks is printed what they do ([`crate::trace`]).
    pub traced: Traced,
    /// A core file of a rank is wanted when a signal ends it that leaves one: it stands then, until somebody has taken
    /// it ([`crate::inspect::held`]), or nobody has for [`crate::inspect::held::LEASE_NS`].
    pub core_file: bool,
    /// They are not to begin, but to go on from a checkpoint.
    pub restore: Option<NodeRestore>,
    /// The job goes on when a rank of it ends that has spoken PMI and has not finalized.
    pub outlives_ranks: bool,
    /// How many ranks there could be, those of the job counted, if more are started.
    pub universe: u32,
    /// A rank of another job has started it.
    pub origin: Option<Box<Origin>>,
}

impl Launch {
    /// The ranks that are meant.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        let first = self.first.0;
        (first..first.saturating_add(self.count.min(RANKS_PER_NODE_MAX))).map(Rank)
    }
}

/// What the ranks of a node are to be made from instead of their program's beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRestore {
    /// The node's part.
    pub node: ObjectId,
    /// The parts of its ranks, in their order.
    pub ranks: Vec<ObjectId>,
    /// As [`Restore::by`].
    pub by: u64,
    /// As [`Restore::keep_files`].
    pub keep_files: bool,
}

impl NodeRestore {
    /// What the rank is made from that is so many behind the first.
    #[must_use]
    pub fn of(&self, index: usize) -> Option<Restore> {
        let Self { node, by, keep_files, .. } = *self;
        Some(Restore { rank: *self.ranks.get(index)?, node, by, keep_files })
    }

    /// The same for some of the ranks, from the one that is so many behind the first on.
    #[must_use]
    pub fn part(&self, from: usize, count: usize) -> Self {
        let ranks = self.ranks.iter().skip(from).take(count).copied().collect();
        Self { ranks, ..*self }
    }
}

/// One process to start. What all of a node have in common is there once.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its rank.
    pub rank: Rank,
    launch: Arc<Launch>,
}

impl Deref for Order {
    type Target = Launch;

    fn deref(&self) -> &Launch {
        &self.launch
    }
}

impl From<Launch> for Order {
    /// The first of the ranks.
    fn from(launch: Launch) -> Self {
        Self { rank: launch.first, launch: Arc::new(launch) }
    }
}

impl Order {
    /// The part of that rank of a launch.
    #[must_use]
    pub const fn new(launch: Arc<Launch>, rank: Rank) -> Self {
        Self { rank, launch }
    }

    /// What this process does is to be printed.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.traced.has(self.rank)
    }

    /// What it is to be made from, if it does not begin.
    ///
    /// # Errors
    /// Others are made from something, and it is not said from what this one is.
    pub fn restores(&self) -> Result<Option<Restore>, NoPart> {
        let Some(restore) = &self.restore else { return Ok(None) };
        let index = self.rank.0.checked_sub(self.first.0).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| restore.of(index)).map(Some).ok_or(NoPart)
    }

    /// The job's environment, and who this rank is. What the user set wins.
    #[must_use]
    pub fn own_environment(&self) -> Vec<ByteString> {
        let own = [
            ("COPPICE_JOB", self.job.to_string()),
            ("COPPICE_RANK", self.rank.to_string()),
            ("COPPICE_SIZE", self.size.to_string()),
            // Libraries ask who has none what the password file says, which need not be there.
            ("HOME", String::from("/")),
        ];
        let mut environment = Vec::with_capacity(self.environment.len() + own.len());
        environment.extend_from_slice(&self.environment);
        for (name, value) in own {
            let is_set =
                |pair: &ByteString| pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
            if !self.environment.iter().any(is_set) {
                environment.push(format!("{name}={value}").into());
            }
        }
        environment
    }
}

/// A launch that goes on from a checkpoint says nothing of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the launch says nothing of what this rank is made from")]
pub struct NoPart;

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::{Launch, NoPart, NodeRestore, Order};
    use crate::checkpoint::ObjectId;
    use crate::ids::{JobId, NodeId, ProgramId, Rank};
    use crate::limits::RANKS_PER_NODE_MAX;
    use crate::text::ByteString;
    use crate::trace::Traced;
    use crate::world::{JobKey, World};

    fn launch(environment: &[&str]) -> Launch {
        Launch {
            job: JobId(7),
            first: Rank(12),
            count: 3,
            size: 100,
            program: ProgramId([1; 32]),
            program_bytes: 5,
            path: "p".into(),
            executable: Some(Box::new("/bin/p".into())),
            arguments: Vec::new(),
            environment: environment.iter().map(|text| ByteString::from(*text)).collect(),
            directory: "/".into(),
            user: 1,
            group: 1,
            umask: 0,
            use_retained: false,
            keeps_files: false,
            has_manifest: false,
            world: World::new(JobKey([1; 32]), 3, (0..34).map(NodeId)),
            staging: None,
            traced: Traced::Rank(Rank(13)),
            core_file: false,
            restore: None,
            outlives_ranks: false,
            universe: 100,
            origin: None::<Box<_>>,
        }
    }

    fn environment(of: &[&str], rank: u32) -> Vec<ByteString> {
        Order::new(Arc::new(launch(of)), Rank(rank)).own_environment()
    }

    #[test]
    fn each_rank_is_told_who_it_is_behind_what_the_user_has_set() {
        let expected = |rank: &str| -> Vec<ByteString> {
            vec!["A=B".into(), "COPPICE_JOB=7".into(), rank.into(), "COPPICE_SIZE=100".into(), "HOME=/".into()]
        };
        assert_eq!(environment(&["A=B"], 12), expected("COPPICE_RANK=12"));
        assert_eq!(environment(&["A=B"], 14), expected("COPPICE_RANK=14"));
    }

    #[test]
    fn what_the_user_has_set_wins() {
        let set = ["HOME=/root", "COPPICE_RANK=me", "COPPICE_SIZE=", "COPPICE_JOBS=no", "COPPICE_JOB"];
        let told = environment(&set, 13);
        let own: Vec<ByteString> = vec!["COPPICE_JOB=7".into()];
        let expected: Vec<ByteString> = set.iter().map(|text| ByteString::from(*text)).chain(own).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_launch_is_of_so_many_ranks_at_most() {
        let ranks = |first, count| Launch { first: Rank(first), count, ..launch(&[]) }.ranks().map(|rank| rank.0);
        assert!(ranks(12, 3).eq([12, 13, 14]));
        assert_eq!((ranks(5, 0).count(), ranks(5, u32::MAX).count()), (0, RANKS_PER_NODE_MAX as usize));
        assert!(ranks(u32::MAX - 1, 9).eq([u32::MAX - 1]));
    }

    #[test]
    fn ranks_have_their_own_part_of_what_is_said_of_all() {
        let object = |number: u8| ObjectId([number; 32]);
        let restore = NodeRestore { node: object(9), ranks: vec![object(2), object(3)], by: 4, keep_files: true };
        let of = |rank: u32, restore: Option<&NodeRestore>| {
            Order::new(Arc::new(Launch { restore: restore.cloned(), ..launch(&[]) }), Rank(rank))
        };
        assert_eq!([12, 13].map(|rank| of(rank, None).is_traced()), [false, true]);
        assert_eq!(of(12, None).restores(), Ok(None));
        let found = of(13, Some(&restore)).restores().expect("there").expect("a part");
        assert_eq!((found.rank, found.node, found.by, found.keep_files), (object(3), object(9), 4, true));
        // Of which nothing is said.
        assert_eq!([14, 11].map(|rank| of(rank, Some(&restore)).restores()), [Err(NoPart); 2]);
        let part = restore.part(1, 5);
        assert_eq!((part.ranks, part.node), (vec![object(3)], object(9)));
    }
}
