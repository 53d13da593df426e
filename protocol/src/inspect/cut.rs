//! A cut through a job: a moment at which all of its ranks stand, on all of its nodes, with nothing on its way between
//! them, so that all they are lies on their nodes.
//!
//! The service node asks one rank of each node for a step, and for the next one when all have done it. A node that does
//! not hear of the next step for [`super::held::LEASE_NS`] goes on without: as if nothing had been, as long as nothing
//! was let go of, or else with what it can make again by itself.

use serde::{Deserialize, Serialize};

use crate::checkpoint::Keeping;

/// How long a step may take on a node, ns. Less than it is waited for.
pub const STEP_NS_MAX: u64 = 3_000_000_000;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Hold all threads of all ranks.
    Stop,
    /// Wait until nothing that they have sent is on its way.
    Quiet,
    /// Make all ranks data.
    Record,
    /// Have what they are, and their pages as they are now, be kept from now on ([`crate::checkpoint`]).
    Save(Keeping),
    /// Go on with what they had.
    Resume,
    /// Let go of what they were, and make them again from that.
    Make,
    /// Make those connections between them again that ranks here call for.
    Connect,
    /// Finish those that ranks here were called for; others may connect from now on.
    Settle,
    /// Let them go on.
    Go,
    /// Let them go on at once: a node could not do a step.
    GiveUp,
}

impl Step {
    /// Those of a cut that comes to its end.
    pub const IN_ORDER: [Self; 7] =
        [Self::Stop, Self::Quiet, Self::Record, Self::Make, Self::Connect, Self::Settle, Self::Go];

    /// Those of a checkpoint.
    #[must_use]
    pub const fn of_checkpoint(keeping: Keeping) -> [Self; 5] {
        [Self::Stop, Self::Quiet, Self::Record, Self::Save(keeping), Self::Resume]
    }

    /// Those that are left when all ranks were made from a checkpoint.
    pub const OF_RESTART: [Self; 3] = [Self::Connect, Self::Settle, Self::Go];

    /// What it is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Quiet => "quiet",
            Self::Record => "record",
            Self::Save(_) => "save",
            Self::Resume => "resume",
            Self::Make => "make",
            Self::Connect => "connect",
            Self::Settle => "settle",
            Self::Go => "go",
            Self::GiveUp => "give up",
        }
    }
}
