//! What is to happen, in the order of its time.
//!
//! Millions of things are planned at once, nearly all for a few pieces' times from now. A heap of them all would be the
//! most of a run's time. So the near future is cut into slots, which have their events in the order in which these were
//! planned; a slot's events are sorted when its time has come. Only what is far away is in a heap. Slots have their
//! events in chunks, which are used again: an event takes memory while it waits, and no longer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coppice_protocol::distribution::{Message, PacketSet};

/// Slots of the near future, a power of two.
const SLOTS: usize = 8192;
/// Slots in the time of a piece: so few that what is planned for 64 pieces from now is near, as nearly all is.
const SLOTS_PER_PIECE: u64 = 128;
/// Events of a chunk.
const CHUNK_EVENTS: usize = 64;
/// No chunk.
const NONE: u32 = u32::MAX;

/// Something that happens. There are millions of them: messages, which are large and few, are apart.
#[derive(Debug)]
pub(super) enum Event {
    /// A member's machine is due.
    Due(u32),
    /// Packets of a piece that a slow link brings get to the receiver's, all of which takes a time there.
    Reaches { from: u32, to: u32, piece: u32, packets: PacketSet, elapsed_ns: u64 },
    /// Packets of a piece are there.
    Burst { from: u32, to: u32, piece: u32, packets: PacketSet, elapsed_ns: u64 },
    /// A message is there.
    Message { from: u32, to: u32, message: Box<Message>, elapsed_ns: u64 },
    /// A member has looked whether a piece is right.
    Checked(u32, u32),
    /// A member dies.
    Dies(u32),
}

/// An event and when it is, ns.
type Planned = (u64, Event);

/// See this module. Of two at the same time the one that was planned first comes first.
#[derive(Debug)]
pub(super) struct Queue {
    /// A slot is so long, as a power of two, ns.
    slot_bits: u32,
    /// The slot that is open, counted from time 0.
    open: u64,
    /// Its events that were planned before it was opened, the first at the end.
    now: Vec<Planned>,
    /// Those that were planned since.
    late: Heap,
    /// First and last chunk of each slot behind the open one.
    slots: Vec<(u32, u32)>,
    /// How many events these have.
    near: usize,
    chunks: Vec<Chunk>,
    /// Chunks that no slot has.
    free: Vec<u32>,
    /// What was planned for later than all slots.
    far: Heap,
}

/// Some events of a slot, and the chunk that has the next.
#[derive(Debug)]
struct Chunk {
    events: Vec<Planned>,
    next: u32,
}

impl Queue {
    /// For events of which most are as far away as a piece takes on a link, or some of them, ns.
    pub(super) fn new(piece_ns: u64) -> Self {
        Self {
            slot_bits: (piece_ns / SLOTS_PER_PIECE).max(1).ilog2(),
            open: 0,
            now: Vec::new(),
            late: Heap::default(),
            slots: vec![(NONE, NONE); SLOTS],
            near: 0,
            chunks: Vec::new(),
            free: Vec::new(),
            far: Heap::default(),
        }
    }

    pub(super) fn plan(&mut self, at_ns: u64, event: Event) {
        let slot = at_ns >> self.slot_bits;
        if slot <= self.open {
            self.late.push(at_ns, event);
        } else if slot - self.open < SLOTS as u64 {
            self.add((slot % SLOTS as u64) as usize, (at_ns, event));
        } else {
            self.far.push(at_ns, event);
        }
    }

    pub(super) fn take(&mut self) -> Option<Planned> {
        while self.now.is_empty() && self.late.next_ns().is_none() {
            if !self.open_next() {
                return None;
            }
        }
        let is_late = match (self.now.last(), self.late.next_ns()) {
            (Some((at_ns, _)), Some(late_ns)) => late_ns < *at_ns,
            (now, _) => now.is_none(),
        };
        if is_late { self.late.pop() } else { self.now.pop() }
    }

    fn add(&mut self, slot: usize, planned: Planned) {
        let (first, last) = self.slots[slot];
        let mut chunk = last;
        if last == NONE || self.chunks[last as usize].events.len() == CHUNK_EVENTS {
            chunk = self.free.pop().unwrap_or_else(|| {
                self.chunks.push(Chunk { events: Vec::with_capacity(CHUNK_EVENTS), next: NONE });
                self.chunks.len() as u32 - 1
            });
            match last {
                NONE => self.slots[slot] = (chunk, chunk),
                _ => {
                    self.chunks[last as usize].next = chunk;
                    self.slots[slot] = (first, chunk);
                }
            }
        }
        self.chunks[chunk as usize].events.push(planned);
        self.near += 1;
    }

    /// Opens the next slot that has events. Whether there is one.
    fn open_next(&mut self) -> bool {
        let far = self.far.next_ns().map(|at_ns| at_ns >> self.slot_bits);
        let near = (1..SLOTS as u64)
            .map(|ahead| self.open + ahead)
            .find(|slot| self.near > 0 && self.slots[(slot % SLOTS as u64) as usize].0 != NONE);
        let Some(slot) = near.into_iter().chain(far).min() else { return false };
        self.open = slot;
        // What was far when it was planned was planned before what was near.
        while self.far.next_ns().is_some_and(|at_ns| at_ns >> self.slot_bits == slot) {
            self.now.extend(self.far.pop());
        }
        let (mut chunk, _) = std::mem::replace(&mut self.slots[(slot % SLOTS as u64) as usize], (NONE, NONE));
        while chunk != NONE {
            let Chunk { events, next } = &mut self.chunks[chunk as usize];
            self.near -= events.len();
            self.now.append(events);
            self.free.push(chunk);
            chunk = std::mem::replace(next, NONE);
        }
        // Those at one time stay in their order.
        self.now.sort_by_key(|(at_ns, _)| *at_ns);
        self.now.reverse();
        true
    }
}

/// Few events, in the same order.
#[derive(Debug, Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, Unordered)>>,
    planned: u64,
}

impl Heap {
    fn push(&mut self, at_ns: u64, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse((at_ns, self.planned, Unordered(event))));
    }

    fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    fn pop(&mut self) -> Option<Planned> {
        let Reverse((at_ns, _, Unordered(event))) = self.heap.pop()?;
        Some((at_ns, event))
    }
}

/// An event, which has no order of its own.
#[derive(Debug)]
struct Unordered(Event);

impl PartialEq for Unordered {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Unordered {}

impl PartialOrd for Unordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unordered {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CHUNK_EVENTS, Event, Queue, SLOTS, SLOTS_PER_PIECE};
    use crate::random::Random;

    /// Against a sorted set: times that fall together, into the open slot, near and far.
    #[test]
    fn what_was_planned_first_comes_first_at_its_time() {
        let mut random = Random::new(3);
        for piece_ns in [1, 2048, 1_000_000] {
            let mut queue = Queue::new(piece_ns);
            let mut model = BTreeSet::new();
            let (mut now_ns, mut number) = (0, 0);
            for round in 0..40_000 {
                if model.is_empty() || random.chance(if round < 20_000 { 550 } else { 300 }) {
                    let ahead = (random.next() % (SLOTS as u64 * 2)) >> random.between(0, 14);
                    let at_ns = now_ns + ahead * (piece_ns / SLOTS_PER_PIECE).max(1);
                    queue.plan(at_ns, Event::Due(number));
                    model.insert((at_ns, number));
                    number += 1;
                } else {
                    let taken = queue.take().map(|(at_ns, event)| match event {
                        Event::Due(number) => (at_ns, number),
                        other => panic!("nobody planned {other:?}"),
                    });
                    assert_eq!(taken, model.pop_first(), "piece of {piece_ns} ns, round {round}");
                    now_ns = taken.map_or(0, |(at_ns, _)| at_ns);
                }
            }
            std::iter::from_fn(|| queue.take()).for_each(drop);
            assert_eq!((queue.near, queue.free.len()), (0, queue.chunks.len()), "all chunks can be used again");
        }
    }

    #[test]
    fn memory_is_used_again() {
        let mut queue = Queue::new(512);
        for round in 0..1000 {
            (0..10 * CHUNK_EVENTS as u32).for_each(|number| queue.plan(round + 1, Event::Due(number)));
            std::iter::from_fn(|| queue.take()).for_each(drop);
        }
        assert_eq!(queue.chunks.len(), 10);
    }
}
