//! What front end, communication processes and nodes say to each other.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::part::Part;
use super::stacks::Stacks;
use crate::ids::NodeId;
use crate::limits::{OVERLAY_CHILDREN_MAX, OVERLAY_LAST_PARTS_MAX, OVERLAY_MESSAGE_BYTES_MAX};
use crate::ranks::Ranks;

/// Which start of a job's overlay something belongs to: what is of another one is not heard.
pub type Generation = u32;

/// Who says something to the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// A communication process, by its index in the topology.
    Process(u32),
    /// Back ends of a node.
    BackEnds(NodeId),
}

/// Who is above somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Above {
    /// The front end.
    FrontEnd,
    /// A communication process, and where it is.
    Process {
        /// Its index in the topology.
        index: u32,
        /// The node that it runs on.
        node: NodeId,
    },
}

/// Somebody below a process, and whose parts come from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// Who it is.
    pub source: Source,
    /// Ranks of which it may say something.
    pub ranks: Ranks,
}

/// What goes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// A node of the job is there: its auxiliary process says so for the back ends of these ranks.
    Here {
        /// The start.
        generation: Generation,
        /// The node.
        node: NodeId,
        /// Its ranks that run.
        ranks: Ranks,
    },
    /// A communication process is there.
    Ready {
        /// The start.
        generation: Generation,
        /// Its index in the topology.
        index: u32,
    },
    /// What ranks did in an epoch.
    Part {
        /// The start.
        generation: Generation,
        /// Who says so.
        source: Source,
        /// It is not brought together with others on the way: it was late, or is said again after somebody died.
        is_apart: bool,
        /// What they did.
        part: Part,
    },
    /// Where programs were when somebody looked, since the last such message.
    Stacks {
        /// The start.
        generation: Generation,
        /// Who says so.
        source: Source,
        /// How many of these the source has said with this one: what is heard twice is counted once.
        number: u64,
        /// Where they were.
        stacks: Stacks,
    },
    /// What ranks of a node did until they ended, in the epoch in which the last one there has: to the front end
    /// itself, and before the end of that rank is told, so that it comes before the job is over.
    Last {
        /// The start.
        generation: Generation,
        /// The node.
        node: NodeId,
        /// What those did that ended in this epoch.
        part: Part,
        /// What was said last of earlier epochs, which may still be on its way up the tree: at most
        /// [`OVERLAY_LAST_PARTS_MAX`] parts.
        again: Vec<Part>,
        /// Where their programs were since that.
        stacks: Stacks,
    },
}

/// What the front end says, to nodes and to the processes on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// Say that you are there. An epoch is so long.
    Announce {
        /// The start.
        generation: Generation,
        /// Length of an epoch, ns.
        period_ns: u64,
        /// How often it is looked where each thread is in its program, ns of its time there, on average; 0: not at all.
        sample_period_ns: u64,
        /// Ranks of the job.
        size: u32,
    },
    /// Run a communication process.
    Begin {
        /// The start.
        generation: Generation,
        /// Its index in the topology.
        index: u32,
        /// Who is above it.
        above: Above,
        /// How many are between it and the back ends that are furthest below it, itself included.
        height: u32,
        /// Who is below it: at most [`OVERLAY_CHILDREN_MAX`].
        children: Vec<Child>,
    },
    /// The back ends of these ranks speak to that one. If they spoke to another one before, they say again to this one
    /// what they have kept.
    Attach {
        /// The start.
        generation: Generation,
        /// Which ranks.
        ranks: Ranks,
        /// Who hears them.
        above: Above,
    },
    /// A process has another one above it, and says again to it what it has kept.
    Move {
        /// The start.
        generation: Generation,
        /// The process.
        index: u32,
        /// Who is above it.
        above: Above,
    },
    /// A process has others below it.
    Below {
        /// The start.
        generation: Generation,
        /// The process.
        index: u32,
        /// Who is not any more.
        without: Option<Source>,
        /// Who is now.
        with: Vec<Child>,
    },
    /// That was all.
    End {
        /// The start.
        generation: Generation,
    },
}

/// Bytes that are no message, or one beyond the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no message of an overlay")]
pub struct NoMessage;

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Plain data into a growing vector has no way to fail.
    postcard::to_allocvec(message).unwrap_or_default()
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, NoMessage> {
    match postcard::take_from_bytes::<T>(bytes) {
        Ok((message, [])) if bytes.len() <= OVERLAY_MESSAGE_BYTES_MAX => Ok(message),
        _ => Err(NoMessage),
    }
}

impl Up {
    /// On the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From there.
    ///
    /// # Errors
    /// [`NoMessage`].
    pub fn decode(bytes: &[u8]) -> Result<Self, NoMessage> {
        let message = decode(bytes)?;
        match &message {
            Self::Part { part, .. } if !part.is_sound() => Err(NoMessage),
            Self::Last { part, again, .. }
                if again.len() > OVERLAY_LAST_PARTS_MAX || !again.iter().chain([part]).all(Part::is_sound) =>
            {
                Err(NoMessage)
            }
            _ => Ok(message),
        }
    }

    /// Of which start it is.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        match self {
            Self::Here { generation, .. }
            | Self::Ready { generation, .. }
            | Self::Part { generation, .. }
            | Self::Stacks { generation, .. }
            | Self::Last { generation, .. } => *generation,
        }
    }
}

impl Down {
    /// On the wire.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From there.
    ///
    /// # Errors
    /// [`NoMessage`].
    pub fn decode(bytes: &[u8]) -> Result<Self, NoMessage> {
        let message = decode(bytes)?;
        match &message {
            Self::Begin { children: some, .. } | Self::Below { with: some, .. }
                if some.len() > OVERLAY_CHILDREN_MAX =>
            {
                Err(NoMessage)
            }
            _ => Ok(message),
        }
    }

    /// Of which start it is.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        match self {
            Self::Announce { generation, .. }
            | Self::Begin { generation, .. }
            | Self::Attach { generation, .. }
            | Self::Move { generation, .. }
            | Self::Below { generation, .. }
            | Self::End { generation } => *generation,
        }
    }
}
