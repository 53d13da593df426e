//! What ranks are told unasked: what others of them say, and that one of them has ended.

use alloc::vec::Vec;

use super::pmix::Whereabouts;
use super::{Departure, Server};
use crate::control::Exit;
use crate::ids::Rank;
use crate::pmix::{Ending, Notification, Status};

impl Server {
    /// A rank here asks for what has these codes.
    ///
    /// # Errors
    /// [`Status::OUT_OF_RESOURCE`].
    pub(crate) fn register(&mut self, rank: Rank, codes: &[i32], now_ns: u64) -> Result<(), Status> {
        self.pmix.board.register(rank, codes, now_ns)
    }

    /// It asks for that no longer.
    pub(crate) fn deregister(&mut self, rank: Rank, codes: &[i32]) {
        self.pmix.board.deregister(rank, codes);
    }

    /// What a rank here is to be told next, and under which code.
    pub(crate) fn take_notification(&mut self, rank: Rank) -> Option<(i32, Notification)> {
        self.pmix.board.take(rank)
    }

    /// A rank here has others told something: those of this node, or all that it is for.
    ///
    /// # Errors
    /// [`Status::OUT_OF_RESOURCE`]: others have not heard what was said before.
    pub(crate) fn notify(&mut self, notification: Notification, is_far: bool, now_ns: u64) -> Result<(), Status> {
        if is_far && self.is_spread() && !self.pmix.may_notify() {
            return Err(Status::OUT_OF_RESOURCE);
        }
        self.tell(notification, is_far, now_ns);
        Ok(())
    }

    /// All ranks here are to be told something of which other nodes tell theirs.
    pub(super) fn tell_here(&mut self, notification: Notification, now_ns: u64) {
        self.tell(notification, false, now_ns);
    }

    fn tell(&mut self, notification: Notification, is_far: bool, now_ns: u64) {
        let nodes: Vec<u32> = match notification.targets() {
            _ if !is_far => Vec::new(),
            None => (0..self.placement.nodes()).collect(),
            Some(ranks) => ranks.iter().filter_map(|rank| self.placement.index_of_rank(*rank)).collect(),
        };
        let places = Whereabouts { placement: &self.placement, ranks: &self.ranks };
        let ranks = self.pmix.notify(notification, nodes.into_iter(), (self.here, &places), now_ns);
        self.released(ranks);
    }

    /// Its ranks are being ended on purpose: nobody is told of that.
    pub fn set_ending(&mut self) {
        self.is_ending = true;
        self.watch.stop();
    }

    /// A rank's process is gone. Others are told if they may have expected something else of it.
    pub(super) fn rank_ends(&mut self, rank: Rank, exit: Exit, now_ns: u64) {
        let Some(local) = self.local(rank) else { return };
        local.ended.get_or_insert(exit);
        let is_over = matches!(local.departure, Some(Departure::Finalized | Departure::Ended(_)));
        let has_spoken = local.has_spoken;
        if (has_spoken || self.outlives_end(exit)) && !is_over {
            let how = match exit {
                Exit::Status(status) => Ending::Status(status),
                Exit::Signal(signal) => Ending::Signal(signal),
                Exit::NotStarted => Ending::NotStarted,
            };
            self.tell_of_end(rank, how, now_ns);
        }
    }

    /// Tells all others of a rank here that has ended, or ends the job.
    pub(super) fn tell_of_end(&mut self, rank: Rank, how: Ending, now_ns: u64) {
        if !self.has_failed && !self.is_ending {
            self.tell(Notification::of_end(self.here(), rank, how), true, now_ns);
        }
    }
}
