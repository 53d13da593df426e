//! Frames under way on shaped links, in the order of their arrival.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::limits::UNDER_WAY_BYTES_MAX;

/// What happens when the time has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The frame from the link's station has reached the switch.
    AtSwitch(Vec<u8>),
    /// The frame has reached the link's station.
    AtStation(Vec<u8>),
    /// The link's queue is to be tried again.
    Retry,
}

impl Arrival {
    fn bytes(&self) -> usize {
        match self {
            Self::AtSwitch(frame) | Self::AtStation(frame) => frame.len(),
            Self::Retry => 0,
        }
    }
}

#[derive(Debug)]
struct Entry {
    due_ns: u64,
    /// Frames of the same time arrive in the order in which they were sent.
    sequence: u64,
    link: usize,
    arrival: Arrival,
}

impl Ord for Entry {
    /// The heap gives the greatest first, which is to be the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due_ns, other.sequence).cmp(&(self.due_ns, self.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    heap: BinaryHeap<Entry>,
    bytes: usize,
    sequence: u64,
}

impl UnderWay {
    /// Adds one; false if there are too many bytes under way already.
    pub(crate) fn push(&mut self, due_ns: u64, link: usize, arrival: Arrival) -> bool {
        if self.bytes + arrival.bytes() > UNDER_WAY_BYTES_MAX {
            return false;
        }
        self.bytes += arrival.bytes();
        self.sequence += 1;
        self.heap.push(Entry { due_ns, sequence: self.sequence, link, arrival });
        true
    }

    /// When the next one is due, ns.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.due_ns)
    }

    /// The next one that is due by now.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<(usize, Arrival)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        let entry = self.heap.pop()?;
        self.bytes -= entry.arrival.bytes();
        Some((entry.link, entry.arrival))
    }

    /// Drops what is under way on `link`.
    pub(crate) fn forget(&mut self, link: usize) {
        self.heap.retain(|entry| entry.link != link);
        self.bytes = self.heap.iter().map(|entry| entry.arrival.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_first_in_first_out() {
        let mut under_way = UnderWay::default();
        for (due_ns, byte) in [(30, 1), (10, 2), (10, 3), (20, 4)] {
            assert!(under_way.push(due_ns, 0, Arrival::AtStation(vec![byte])));
        }
        assert_eq!((under_way.next_ns(), under_way.pop(9)), (Some(10), None));
        let order: Vec<_> = std::iter::from_fn(|| under_way.pop(100)).map(|(_, arrival)| arrival).collect();
        assert_eq!(order, [2, 3, 4, 1].map(|byte| Arrival::AtStation(vec![byte])));
        assert_eq!(under_way.bytes, 0);
    }

    #[test]
    fn bytes_are_bounded_and_forgotten() {
        let mut under_way = UnderWay::default();
        let frame = || Arrival::AtSwitch(vec![0; UNDER_WAY_BYTES_MAX / 2]);
        assert!(under_way.push(1, 0, frame()) && under_way.push(1, 1, frame()));
        assert!(!under_way.push(1, 2, Arrival::AtSwitch(vec![0])));
        assert!(under_way.push(1, 2, Arrival::Retry));
        under_way.forget(0);
        assert!(under_way.push(1, 2, frame()));
    }
}
