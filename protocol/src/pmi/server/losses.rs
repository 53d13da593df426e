//! Jobs that go on without ranks that have ended before they finalized: what their barriers are then.
//!
//! All nodes hear of such an end, as what PMIx clients are told of it goes to all. From then on no barrier of all ranks
//! comes to its end: PMIx clients that wait in one, or enter it later, are told so and may do without; those of PMI 1
//! and 2 cannot be told, and their job ends. Some may have left the last barrier that others are told of: the rank was
//! there and ended then.

use super::{Departure, Event, Phase, Server};
use crate::control::Exit;
use crate::ids::{NodeId, Rank};
use crate::pmi::failure::Failure;
use crate::pmix::{Ending, Notification};

/// A rank that has ended without finalizing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) rank: Rank,
    pub(super) node: NodeId,
    pub(super) how: Departure,
}

impl Server {
    /// The job goes on when a rank of it ends that has not finalized.
    pub fn set_outlives_ranks(&mut self) {
        self.outlives_ranks = true;
    }

    /// Whether that is an end of a rank, even of one that has said nothing yet, without which the job goes on.
    pub(super) fn outlives_end(&self, exit: Exit) -> bool {
        self.outlives_ranks && matches!(exit, Exit::Status(1..) | Exit::Signal(_))
    }

    /// Whether barriers of all ranks do not come to their end any more.
    pub(crate) fn has_lost_ranks(&self) -> bool {
        self.lost.is_some()
    }

    /// A rank is told that its barrier does not come to its end, and waits no longer.
    pub(crate) fn leave_lost_barrier(&mut self, rank: Rank) {
        if let Some(local) = self.local(rank).filter(|local| local.phase == Phase::InBarrier) {
            local.phase = Phase::Outside;
        }
    }

    /// Another node has said how a rank of its ended.
    pub(super) fn hear_of_loss(&mut self, rank: Rank, how: Ending) {
        let exit = match how {
            Ending::Status(status) => Exit::Status(status),
            Ending::Signal(signal) => Exit::Signal(signal),
            // It was never there; and that ends the job. Of a lost node no other node tells.
            Ending::NotStarted | Ending::Abort(_) | Ending::NodeLost => return,
        };
        let place = self.placement.index_of_rank(rank).and_then(|index| self.placement.place(index));
        if let Some(place) = place.filter(|_| self.outlives_ranks) {
            self.lose(Lost { rank, node: place.node, how: Departure::Ended(exit) });
        }
    }

    /// A node of the job is gone, and with it these ranks, which had not ended. All nodes that are left are told so,
    /// maybe again. Nothing, unless the job goes on then.
    pub fn node_lost(&mut self, node: NodeId, ranks: &[Rank], now_ns: u64) {
        let index = self.placement.index_of(node).filter(|index| *index != self.here());
        if let Some(index) = index.filter(|_| self.outlives_ranks) {
            self.watch.is_told(index, now_ns);
            self.lose_node(index, ranks, now_ns);
        }
    }

    /// The same, whoever says so; only the first time.
    pub(super) fn lose_node(&mut self, index: u32, ranks: &[Rank], now_ns: u64) {
        let Some(place) = self.placement.place(index) else { return };
        let (node, is_known) = (place.node, self.names.is_gone(index));
        if self.has_failed || is_known {
            return;
        }
        self.spread.node_lost(index);
        self.names.node_lost(index, now_ns);
        self.go_on_with_names(now_ns);
        self.cards_of_lost(index, now_ns);
        for rank in ranks.iter().filter(|rank| place.has(**rank)) {
            self.tell_here(Notification::of_end(self.here(), *rank, Ending::NodeLost), now_ns);
        }
        // Whether its ranks had finalized or not: what is kept of barriers there is gone.
        let rank = ranks.iter().copied().find(|rank| place.has(*rank)).unwrap_or(place.first);
        self.lose(Lost { rank, node, how: Departure::NodeLost });
    }

    /// A rank is not there any more.
    pub(super) fn lose(&mut self, lost: Lost) {
        if self.lost.is_some() || self.has_failed {
            return;
        }
        self.lost = Some(lost);
        let waiting = self.ranks.iter().filter(|local| local.phase == Phase::InBarrier && local.patience.hears_of_loss);
        self.events.extend(waiting.map(|local| Event::Released(local.rank)));
        self.miss_what_is_lost();
    }

    /// Ends the job if somebody waits for a rank that is lost who cannot be told.
    pub(super) fn miss_what_is_lost(&mut self) {
        let is_stuck = |local: &super::Local| {
            local.phase == Phase::InBarrier && !local.patience.hears_of_loss && local.departure.is_none()
        };
        if let Some(Lost { rank, node, how }) = self.lost
            && self.ranks.iter().any(is_stuck)
        {
            self.fail(Failure::Missing { rank, node, how });
        }
    }
}
