//! What ranks of a node say to each other alone, and those of them that wait for that.

use super::{Event, Server};
use crate::ids::Rank;
use crate::pmi::space::PutError;

impl Server {
    pub(crate) fn attribute(&self, key: &[u8]) -> Option<&[u8]> {
        self.attributes.get(key)
    }

    pub(crate) fn put_attribute(&mut self, key: &[u8], value: &[u8]) -> Result<(), PutError> {
        self.attributes.put(key, value)?;
        self.wake_who_await();
        Ok(())
    }

    /// A rank wants to hear when others of the node have said something, or left.
    pub(crate) fn await_others(&mut self, rank: Rank) {
        if let Some(local) = self.local(rank) {
            local.awaits = true;
        }
    }

    /// Whether all other ranks of the node have left.
    pub(crate) fn is_alone(&self, rank: Rank) -> bool {
        self.ranks.iter().all(|local| local.rank == rank || local.departure.is_some())
    }

    pub(super) fn wake_who_await(&mut self) {
        for local in self.ranks.iter_mut().filter(|local| local.awaits) {
            local.awaits = false;
            self.events.push_back(Event::Released(local.rank));
        }
    }
}
