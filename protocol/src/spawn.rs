//! Ranks that a rank of a job starts while it runs, as `MPI_Comm_spawn` does: a job of their own on free nodes, in the
//! network of the job that they come from ([`crate::world::Kin`]).
//!
//! The node of the rank says what is wanted ([`Spawn`]). Before the new job starts, all nodes of the family, which is
//! all jobs that come from one, know where its nodes are ([`Joined`]): nobody is to be told of a rank that his node
//! cannot reach. Then the rank hears of it ([`Spawned`]). Requests and answers are numbered by rank, and may be said
//! again.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Rank};
use crate::limits::{SPAWN_TEXT_BYTES, SPAWN_TEXTS_BYTES_MAX};
use crate::text::ByteString;
use crate::world::NodeRange;

/// A rank wants others to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// Its job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
    /// Which of its requests this is, from 1: each has a larger number than those before.
    pub number: u64,
    /// What is to run.
    pub wanted: Wanted,
}

/// What is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The program as the rank names it: what its own job runs, or a path in its job's root.
    pub program: ByteString,
    /// Arguments, without the program's name.
    pub arguments: Vec<ByteString>,
    /// Working directory; that of the rank's job if there is none.
    pub directory: Option<ByteString>,
    /// How many ranks.
    pub ranks: u32,
    /// What these find in their job's key-value space when they begin.
    pub keys: Vec<KeyValue>,
}

impl Wanted {
    /// What its texts take, bytes.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let keys = self.keys.iter().flat_map(|KeyValue { key, value }| [key, value]);
        let texts = self.arguments.iter().chain(keys).chain(&self.directory).chain([&self.program]);
        texts.map(|text| text.len() + SPAWN_TEXT_BYTES).sum()
    }

    /// Whether they are within [`SPAWN_TEXTS_BYTES_MAX`].
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        self.text_bytes() <= SPAWN_TEXTS_BYTES_MAX
    }
}

/// A key of a job's key-value space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: ByteString,
    /// Its value.
    pub value: ByteString,
}

/// What came of what a rank wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// Its job.
    pub job: JobId,
    /// The rank.
    pub rank: Rank,
    /// Which of its requests.
    pub number: u64,
    /// The job of the ranks that are being started, or one line that says why there is none.
    pub outcome: Result<JobId, String>,
}

/// Nodes have come to a job's network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The job that is told.
    pub job: JobId,
    /// The number in the network that the first of these nodes has: as many there were before.
    pub first: u32,
    /// These nodes.
    pub nodes: Vec<NodeRange>,
}

impl Joined {
    /// How many nodes there are with these.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.nodes.iter().fold(self.first, |sum, range| sum.saturating_add(range.count))
    }
}

/// What a job that was started by a rank knows of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The job of that rank.
    pub job: JobId,
    /// What its ranks find in the key-value space.
    pub keys: Vec<KeyValue>,
}
