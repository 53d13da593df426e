//! What ranks of a node publish and look up ([`Names`]).

use super::{Event, Server};
use crate::ids::Rank;
use crate::pmi::frame::{PeerError, PeerFrame};
use crate::pmi::letter::{Answer, Wish};

impl Server {
    /// A rank wants something with a name. Returns the number of the answer, or why there will be none.
    pub(crate) fn ask(&mut self, rank: Rank, wish: Wish, now_ns: u64) -> Result<u64, &'static str> {
        let number = self.names.ask(rank, wish)?;
        self.go_on_with_names(now_ns);
        Ok(number)
    }

    /// The answer of that number, if it has come.
    pub(crate) fn take_answer(&mut self, number: u64) -> Option<Answer> {
        self.names.take(number)
    }

    /// What the node kept is to come, by [`Server::restore`]: until then nothing is done for anybody.
    pub fn await_record(&mut self) {
        self.names.hold();
    }

    /// Its ranks run again after [`Server::record`], or go on: all nodes have written down what they know.
    pub fn ranks_run(&mut self, now_ns: u64) {
        self.names.go_on();
        self.cards_go_on(now_ns);
        self.go_on_with_names(now_ns);
    }

    /// Whether the node has memory for what ranks may publish until this is said again. If not that is refused.
    pub fn set_room_for_names(&mut self, has_room: bool) {
        self.names.set_room(has_room);
    }

    pub(super) fn handle_letter(&mut self, frame: &PeerFrame, now_ns: u64) -> Result<(), PeerError> {
        let way = self.spread.verify_hop(frame)?;
        if let Some(value) = self.names.handle(way, frame.body())? {
            self.keep_value(&value);
        }
        self.go_on_with_names(now_ns);
        Ok(())
    }

    pub(super) fn go_on_with_names(&mut self, now_ns: u64) {
        if !self.has_failed {
            self.names.advance(now_ns);
            self.events.extend(self.names.take_answered().into_iter().map(Event::Released));
        }
    }
}
