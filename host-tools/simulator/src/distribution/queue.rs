//! What is to happen, in the order of its time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coppice_protocol::distribution::{Message, PacketSet};

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A member's machine is due.
    Due(u32),
    /// Packets of a piece are there.
    Burst { from: u32, to: u32, piece: u32, packets: PacketSet, elapsed_ns: u64 },
    /// A message is there.
    Message { from: u32, to: u32, message: Box<Message>, elapsed_ns: u64 },
    /// A member has looked whether a piece is right.
    Checked(u32, u32),
    /// A member dies.
    Dies(u32),
}

/// See this module. Of two at the same time the one that was planned first comes first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Slot)>>,
    planned: u64,
}

/// An event, which has no order of its own.
#[derive(Debug)]
struct Slot(Event);

impl PartialEq for Slot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Slot {}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Queue {
    pub(super) fn plan(&mut self, at_ns: u64, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse((at_ns, self.planned, Slot(event))));
    }

    pub(super) fn take(&mut self) -> Option<(u64, Event)> {
        let Reverse((at_ns, _, Slot(event))) = self.heap.pop()?;
        Some((at_ns, event))
    }
}
