//! What is accepted at one end of a connection is what was sent at the other, in that order, each once: a prefix of it.
//! Bytes of the shipping channel's bulk data may be changed on the way (they are not covered by the MAC), their number
//! may not.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::session::{Channel, Frame};

use crate::checkers::{Violation, ensure};
use crate::network::{Connection, ConnectionId, Side};

/// Frames sent and not yet accepted, per connection and sender.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    under_way: BTreeMap<(ConnectionId, Side), VecDeque<Frame>>,
}

impl Delivery {
    pub(crate) fn sent(&mut self, connection: ConnectionId, from: Side, id: u64, body: Vec<u8>, bulk: Vec<u8>) {
        self.under_way.entry((connection, from)).or_default().push_back(Frame { id, body, bulk });
    }

    /// A frame was accepted at side `at`.
    pub(crate) fn accepted(
        &mut self,
        connection: ConnectionId,
        link: &Connection,
        at: Side,
        frame: &Frame,
    ) -> Result<(), Violation> {
        let sent = self.under_way.get_mut(&(connection, at.other())).and_then(VecDeque::pop_front);
        let Some(sent) = sent else {
            return Err(Violation::new(format!("connection {connection}: {at:?} accepted a frame that nobody sent")));
        };
        let bulk_may_differ = link.channel == Channel::Ship && link.is_tampered();
        let same_bulk = if bulk_may_differ { sent.bulk.len() == frame.bulk.len() } else { sent.bulk == frame.bulk };
        ensure(sent.id == frame.id && sent.body == frame.body && same_bulk, || {
            format!("connection {connection}: {at:?} accepted frame {} where {} was sent", frame.id, sent.id)
        })
    }

    /// Both ends are gone: what was under way does not matter any more.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        for side in [Side::Node, Side::IoNode] {
            self.under_way.remove(&(connection, side));
        }
    }
}
