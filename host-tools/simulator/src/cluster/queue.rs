//! Events to come, in the order of their times; those of one time in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coppice_io_node::machine::{CallId, PlaceId};
use coppice_protocol::ids::{JobId, NodeId, PsetId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_service_node::plant::{Incarnation, PlantEvent};

use super::faults::Undo;
use super::machine::LifeId;
use super::network::{ConnectionId, End};

pub(super) const MILLISECOND_NS: u64 = 1_000_000;
pub(super) const SECOND_NS: u64 = 1000 * MILLISECOND_NS;

/// Who can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// The service node.
    Host,
    /// The I/O node of a pset.
    IoNode(PsetId),
    /// A boot of a node.
    Machine(LifeId),
}

/// Something that is to happen.
#[derive(Debug)]
pub(super) enum Event {
    /// Something is due at the service node.
    HostDue,
    /// The service node is started again.
    HostStart,
    /// The service node's plant tells it something.
    Plant(Box<PlantEvent>),
    /// The service node's message reaches an I/O node.
    Ordered(PsetId, Incarnation, Box<ToPset>),
    /// Something is due at an I/O node.
    IoNodeDue(PsetId, Incarnation),
    /// A job's root and program are open.
    Opened(PsetId, Incarnation, PlaceId),
    /// A call is done.
    Done(PsetId, Incarnation, CallId),
    /// A rank's files are closed.
    Closed(PsetId, Incarnation, PlaceId, Rank),
    /// An I/O node goes on with what it does with a region.
    Region(PsetId, Incarnation, NodeId),
    /// What whoever leads in the service node waits for happens.
    Led(u64),
    /// The engine of a node's region does something.
    Engine(LifeId),
    /// A node's machine has booted.
    Booted(LifeId),
    /// A machine that boots begins with that anew.
    Reset(LifeId),
    /// Something is due at a node.
    NodeDue(LifeId),
    /// A node's call for a connection reaches whom it called.
    Dialled(ConnectionId),
    /// The answer to that reaches the node.
    Answered(ConnectionId, bool),
    /// Bytes, or the end, reach an end of a connection.
    Arrive(ConnectionId, End),
    /// A node at an end of a connection hears how many of its bytes have reached the other.
    Acknowledged(ConnectionId, End, u64),
    /// An end of a connection learns that it is broken.
    Broke(ConnectionId, End),
    /// Whoever brought the cluster up looks whether it came up.
    Up,
    /// A user does something.
    User(usize),
    /// A user has taken output.
    Taken(JobId, PsetId, usize),
    /// A tracer has taken what ranks do.
    TraceTaken(u64, PsetId, usize),
    /// A machine that does not boot ends.
    Kill(LifeId),
    /// Something goes wrong: which fault.
    Fault(u64),
    /// It is mended.
    Undo(Undo),
    /// Who was stopped goes on.
    Resume(Party),
}

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Times, numbers in the order of planning, and places of the events.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event>>,
    /// Places where none is.
    free: Vec<usize>,
    planned: u64,
}

impl Queue {
    /// What is planned for the end of time never happens.
    pub(super) fn plan(&mut self, at_ns: u64, event: Event) {
        if at_ns == u64::MAX {
            return;
        }
        self.planned += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.order.push(Reverse((at_ns, self.planned, place)));
    }

    /// The next event and its time.
    pub(super) fn take(&mut self) -> Option<(u64, Event)> {
        let Reverse((at_ns, _, place)) = self.order.pop()?;
        self.free.push(place);
        let event = self.events[place].take()?;
        Some((at_ns, event))
    }

    /// These do not happen any more.
    pub(super) fn forget(&mut self, is_it: impl Fn(&Event) -> bool) {
        let Self { order, events, free, .. } = self;
        order.retain(|Reverse((.., place))| {
            let is_forgotten = events[*place].take_if(|event| is_it(event)).is_some();
            if is_forgotten {
                free.push(*place);
            }
            !is_forgotten
        });
    }
}
