//! What happens when: events in order of time, and of being planned where times are equal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use coppice_protocol::ids::{Generation, JobId, NodeId};
use coppice_protocol::session::Channel;
use coppice_protocol::ship::Request;

use crate::network::{ConnectionId, Side};
use crate::node::LifeId;

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A node tries to connect.
    Connect { life: LifeId, channel: Channel },
    /// A connection breaks.
    Cut { connection: ConnectionId },
    /// The next piece of the stream reaches that side.
    Arrive { connection: ConnectionId, at: Side },
    /// That side learns that the connection is gone.
    Closed { connection: ConnectionId, at: Side },
    /// A session's timer.
    Timeout { connection: ConnectionId, at: Side },
    /// A node's program makes a request, if it may.
    Issue { life: LifeId },
    /// The process of a job ends.
    Exit { life: LifeId, job: JobId },
    /// The I/O node has the answer to a request.
    Serve { connection: ConnectionId, id: u64, request: Box<Request>, bulk_bytes: usize },
    /// The I/O node looks after a control connection.
    Heartbeat { connection: ConnectionId },
    /// A node is switched on again.
    Boot { node: NodeId },
    /// The I/O node is told a node's key.
    Register { node: NodeId, generation: Generation },
    /// An earlier boot that lived on ends.
    End { life: LifeId },
    /// The I/O node is started again.
    StartIoNode,
    /// Something goes wrong.
    Fault,
}

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    planned: u64,
}

impl Schedule {
    pub(crate) fn plan(&mut self, at_ns: u64, event: Event) {
        self.planned += 1;
        self.order.push(Reverse((at_ns, self.planned)));
        self.events.insert(self.planned, event);
    }

    /// The next event and its time.
    pub(crate) fn take(&mut self) -> Option<(u64, Event)> {
        let Reverse((at_ns, number)) = self.order.pop()?;
        let event = self.events.remove(&number)?;
        Some((at_ns, event))
    }
}
