//! What is due when. A timer is not taken back: whoever it was for looks whether it still means anything.

use std::collections::BTreeSet;

use coppice_protocol::ids::Rank;
use coppice_protocol::lease::FileId;

use super::calls::CallId;
use super::effect::PlaceId;
use super::lines::LineId;
use super::nodes::Loss;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The peer must have proved who it is.
    Handshake(LineId),
    /// The node is asked whether it is alive.
    Heartbeat(LineId),
    /// The node must have come back.
    Return(Loss),
    /// The job's root and program must be open.
    Opening(PlaceId),
    /// The rank's end is told, whether its files are closed or not.
    Closing(PlaceId, Rank),
    /// Leases that stand in the way of a call on that file must be back.
    Recall(CallId, FileId),
    /// Leases of names that stand in the way of a call must be back.
    RecallNames(CallId),
    /// Reads of a file that is to be broadcast have waited for that long enough.
    Held(PlaceId, FileId),
    /// Files of which nodes have leases are looked at.
    Look,
    /// Somebody's turn to lock a file is over.
    LockTurn,
    /// The I/O node ends, whoever has heard of it.
    Stop,
}

/// All of them: a few for each connection, job and rank.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, Timer)>,
}

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, timer: Timer) {
        self.due.insert((at_ns, timer));
    }

    /// When the next is due, ns.
    pub(super) fn next(&self) -> Option<u64> {
        self.due.first().map(|(at_ns, _)| *at_ns)
    }

    /// Takes one that is due.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<Timer> {
        let (at_ns, _) = self.due.first()?;
        if *at_ns > now_ns { None } else { self.due.pop_first().map(|(_, timer)| timer) }
    }
}
