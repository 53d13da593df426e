//! Ranks enter barriers and leave them, and are found to be missing.

use super::{Completed, Event, Failure, Local, OutOfMemory, PMI_TELL_NS, Patience, Phase, Server};
use crate::ids::Rank;
use crate::limits::PMI_WATCHED_PER_CORE_MAX;
use crate::pmi::fence::{Conditions, Fence};

impl Local {
    /// Whether it waits in a barrier until that comes to its end. Who has finalized there has come to it, and waits for
    /// nobody.
    fn is_stuck_without_others(&self) -> bool {
        self.phase == Phase::InBarrier && self.departure.is_none() && !self.patience.has_deadline
    }
}

impl Server {
    /// The algorithm of the barrier that this node is in or enters next.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.spread.fence()
    }

    /// Barriers are walked by this algorithm; `None`: by the one that is predicted to take the least time, as is so
    /// from the beginning. To be said on all nodes alike, before any of them enters a barrier or goes on from a record.
    pub fn force_fence(&mut self, fence: Option<Fence>) {
        self.spread.force(fence);
    }

    /// What the job's nodes are like; they are like [`Conditions::default`] unless that is said. If many of them share
    /// a core of a host they do not watch each other. To be said as [`Self::force_fence`].
    pub fn walk_under(&mut self, conditions: Conditions) {
        self.spread.walk_under(conditions);
        if conditions.nodes_per_core > PMI_WATCHED_PER_CORE_MAX {
            self.trust_nodes();
        }
    }

    /// Whether a connection with a node is to be made before there is something to say: a rank here has begun to speak,
    /// so that it will meet the others, and in that barrier this node calls the other. What they say then need not wait
    /// for the connection.
    #[must_use]
    pub fn calls_ahead(&self, peer: u32) -> bool {
        let is_here = |local: &Local| local.has_spoken && local.departure.is_none();
        let goes_on = !self.has_failed && !self.is_ending && self.lost.is_none();
        goes_on && self.spread.calls_first(peer) && self.ranks.iter().any(is_here)
    }

    /// A rank enters the next barrier; false if it is in one.
    pub(crate) fn enter(&mut self, rank: Rank, patience: Patience, now_ns: u64) -> bool {
        let entered = self.local(rank).filter(|local| local.phase == Phase::Outside && local.departure.is_none());
        let Some(local) = entered else { return false };
        (local.phase, local.patience) = (Phase::InBarrier, Patience { has_deadline: true, ..patience });
        if !patience.has_deadline {
            self.waits_without_end(rank, now_ns);
        }
        self.go_on(now_ns);
        self.miss_what_is_lost();
        true
    }

    /// A rank waits in its barrier without a deadline, or does so now.
    pub(crate) fn waits_without_end(&mut self, rank: Rank, now_ns: u64) {
        // On a single node, whoever is missing is found here.
        if self.placement.nodes() > 1 && !self.ranks.iter().any(Local::is_stuck_without_others) {
            self.tell_ns = Some(now_ns.saturating_add(PMI_TELL_NS));
        }
        let had_deadline = self.local(rank).map(|local| core::mem::take(&mut local.patience.has_deadline));
        if had_deadline == Some(true) {
            self.spread.wait_without_end();
            self.go_on(now_ns);
        }
    }

    /// Whether a rank is to be told that it may leave its barrier; it is told now.
    pub(crate) fn take_release(&mut self, rank: Rank) -> bool {
        let released = self.local(rank).filter(|local| local.phase == Phase::Released);
        released.map(|local| local.phase = Phase::Outside).is_some()
    }

    /// Enters and leaves barriers as far as ranks and nodes have come.
    pub(super) fn go_on(&mut self, now_ns: u64) {
        if self.has_failed || self.lost.is_some() {
            return;
        }
        if let Err(OutOfMemory) = self.try_go_on(now_ns) {
            self.out_of_memory();
        }
        self.look_for_missing();
    }

    fn try_go_on(&mut self, now_ns: u64) -> Result<(), OutOfMemory> {
        let all_wait = self.ranks.iter().all(|local| local.phase == Phase::InBarrier);
        if all_wait && !self.spread.is_entered() {
            let puts = self.space.take_pending();
            let is_without_end = self.ranks.iter().any(Local::is_stuck_without_others);
            self.spread.enter(puts, is_without_end, now_ns).map_err(|_| OutOfMemory)?;
        }
        if let Some(Completed { generation, gathered }) = self.spread.advance(now_ns).map_err(|_| OutOfMemory)? {
            self.space.commit(generation, &gathered)?;
            self.tell_ns = None;
            for local in &mut self.ranks {
                local.phase = Phase::Released;
                self.events.push_back(Event::Released(local.rank));
            }
        }
        Ok(())
    }

    /// Finds a rank that others wait for and that cannot come.
    fn look_for_missing(&mut self) {
        if self.spread.is_entered() {
            return;
        }
        let is_there = |local: &&Local| local.phase == Phase::InBarrier;
        let local_waits = self.ranks.iter().any(Local::is_stuck_without_others);
        if !local_waits && !self.spread.others_wait() {
            return;
        }
        let node = self.here.node;
        let missing =
            self.ranks.iter().filter(|local| !is_there(local)).find_map(|local| Some((local.rank, local.departure?)));
        if let Some((rank, how)) = missing {
            self.fail(Failure::Missing { rank, node, how });
        }
    }
}
