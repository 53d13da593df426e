//! An I/O node's side of a node's requests: each is carried out once, however often connections break.
//!
//! Of each of a node's slots it knows the last request, and the answer to that if the call changed something: when the
//! same request comes again, on a new connection, it is answered as before. A call that changes nothing is carried out
//! anew. One that is still being carried out is answered when that is done, if the node has said it again by then. What
//! is known of a slot goes with its next request, and all of it with the node's boot.

use alloc::vec::Vec;

use super::{Reply, RequestId, SLOTS};

/// The requests of one boot of a node.
#[derive(Debug, Default)]
pub struct Replies {
    slots: [Slot; SLOTS],
    connections: u64,
}

/// One of a node's connections, which come one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection(u64);

#[derive(Debug, Default)]
struct Slot {
    /// The number of its last request; 0: there was none.
    number: u64,
    /// The connection on which that was said last.
    heard_on: u64,
    state: SlotState,
}

#[derive(Debug, Default)]
enum SlotState {
    /// Answered. It would be carried out anew.
    #[default]
    Answered,
    /// Answered with this, as it always will be.
    Known(Reply, Vec<u8>),
    /// Being carried out. Does it change something?
    UnderWay { changes: bool },
}

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Carry it out, then call [`Replies::answered`].
    New,
    /// Nothing: it is being carried out.
    UnderWay,
    /// Answer with this.
    Again(Reply, Vec<u8>),
    /// Ask again when [`Replies::answered`] was called: an earlier request of its slot, which the node does not wait
    /// for any more, is still being carried out.
    Later,
    /// The node does not keep to the protocol: it has sent later ones, or does not wait for answers; or this connection
    /// is not its last one.
    Nonsense,
}

impl Replies {
    /// The node has a new connection; nothing counts any more that comes on an earlier one.
    pub fn connected(&mut self) -> Connection {
        self.connections += 1;
        Connection(self.connections)
    }

    /// A request came. `changes`: whether its call does ([`super::Call::changes`]).
    pub fn hear(&mut self, connection: Connection, id: RequestId, changes: bool) -> Heard {
        let Some(slot) = self.slots.get_mut(id.slot()) else { return Heard::Nonsense };
        let (is_again, is_first) = (id.number() == slot.number, slot.heard_on != connection.0);
        let heard = match &slot.state {
            _ if connection.0 != self.connections || id.number() < slot.number => return Heard::Nonsense,
            _ if is_again && !is_first => return Heard::Nonsense,
            SlotState::UnderWay { .. } if is_again => Heard::UnderWay,
            SlotState::UnderWay { .. } if is_first => return Heard::Later,
            SlotState::UnderWay { .. } => return Heard::Nonsense,
            SlotState::Known(reply, bulk) if is_again => Heard::Again(reply.clone(), bulk.clone()),
            SlotState::Known(..) | SlotState::Answered => {
                slot.state = SlotState::UnderWay { changes };
                Heard::New
            }
        };
        (slot.number, slot.heard_on) = (id.number(), connection.0);
        heard
    }

    /// A request has been carried out, with this answer. Whether that is to be sent now: if not, the node has lost the
    /// connection on which it asked, and will ask again if it still wants to know.
    #[must_use]
    pub fn answered(&mut self, id: RequestId, reply: &Reply, bulk: &[u8]) -> bool {
        let Some(slot) = self.slots.get_mut(id.slot()).filter(|slot| slot.number == id.number()) else { return false };
        slot.state = match slot.state {
            SlotState::UnderWay { changes: true } => SlotState::Known(reply.clone(), bulk.to_vec()),
            _ => SlotState::Answered,
        };
        slot.heard_on == self.connections
    }
}
