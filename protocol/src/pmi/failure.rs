//! Why a job's ranks cannot go on together.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::control::Exit;
use crate::ids::{NodeId, Rank};
use crate::limits::{PMI_SILENCE_NS, PMI_WATCH_NS};

/// How a rank left the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Departure {
    /// It said that it is done with PMI.
    Finalized,
    /// It closed its connection to PMI.
    Closed,
    /// Its process is gone.
    Ended(Exit),
    /// Its node is gone.
    NodeLost,
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalized => f.write_str("has finalized"),
            Self::Closed => f.write_str("closed its PMI descriptor"),
            Self::Ended(Exit::Status(status)) => write!(f, "exited with status {status}"),
            Self::Ended(Exit::Signal(signal)) => write!(f, "was ended by signal {signal}"),
            Self::Ended(Exit::NotStarted) => f.write_str("could not be started"),
            Self::NodeLost => f.write_str("was lost with its node"),
        }
    }
}

/// A job that has no way on: to be ended with this as the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Others wait in a barrier for a rank that cannot come any more.
    #[error("rank {rank} on node {node} {how}, and other ranks wait for it in a PMI barrier")]
    Missing {
        /// The rank that they wait for.
        rank: Rank,
        /// Its node.
        node: NodeId,
        /// Where it went.
        how: Departure,
    },
    /// A rank went away in a barrier.
    #[error("rank {rank} on node {node} {how} in a PMI barrier")]
    InBarrier {
        /// The rank.
        rank: Rank,
        /// Its node.
        node: NodeId,
        /// How it went.
        how: Departure,
    },
    /// A rank ended between its first words and `finalize`: the others may wait for it in ways that nobody sees.
    #[error("rank {rank} on node {node} {how} without finalizing MPI")]
    NotFinalized {
        /// The rank.
        rank: Rank,
        /// Its node.
        node: NodeId,
        /// How it went.
        how: Departure,
    },
    /// A node did not answer another one for [`PMI_SILENCE_NS`].
    #[error("node {silent} did not answer node {node} for {} s in a PMI barrier", PMI_SILENCE_NS / 1_000_000_000)]
    Silent {
        /// A rank that waits.
        rank: Rank,
        /// Its node.
        node: NodeId,
        /// The node that is waited for.
        silent: NodeId,
    },
    /// Nothing was heard of a node for twice [`PMI_WATCH_NS`]: it is dead, or cut off from all who could hear of it.
    #[error("node {dead} is dead: node {by} has heard nothing of it for {} s", 2 * PMI_WATCH_NS / 1_000_000_000)]
    Dead {
        /// A rank here.
        rank: Rank,
        /// The node.
        dead: NodeId,
        /// Who has found that.
        by: NodeId,
    },
    /// A node has no memory for what it has to know.
    #[error("node {node} has no memory for what rank {rank} has to know from a PMI barrier")]
    OutOfMemory {
        /// A rank that waits.
        rank: Rank,
        /// Its node.
        node: NodeId,
    },
}

impl Failure {
    /// The rank that is to be named with it.
    #[must_use]
    pub fn rank(&self) -> Rank {
        match *self {
            Self::Missing { rank, .. }
            | Self::InBarrier { rank, .. }
            | Self::NotFinalized { rank, .. }
            | Self::Silent { rank, .. }
            | Self::Dead { rank, .. }
            | Self::OutOfMemory { rank, .. } => rank,
        }
    }

    /// What the job's exit status is to be: as a shell shows a process that ended like the one that is to blame, and
    /// never success.
    #[must_use]
    pub fn code(&self) -> u8 {
        let (Self::Missing { how, .. } | Self::InBarrier { how, .. } | Self::NotFinalized { how, .. }) = self else {
            return 1;
        };
        match how {
            Departure::Ended(Exit::Status(status @ 1..)) => *status,
            Departure::Ended(Exit::Signal(signal)) => signal.saturating_add(128),
            Departure::Ended(_) | Departure::Finalized | Departure::Closed | Departure::NodeLost => 1,
        }
    }
}
