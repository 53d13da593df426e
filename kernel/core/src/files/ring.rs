//! Bytes in the order they came, in a buffer that is filled and emptied in place.

use alloc::vec::Vec;

use super::stream::{Sink, Source};
use crate::errno::Errno;

/// See this module.
pub(crate) struct Ring {
    /// All of it is initialised; the bytes in use start at `start` and go round at the end.
    buffer: Vec<u8>,
    start: usize,
    length: usize,
}

impl Ring {
    /// An empty one.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(capacity: usize) -> Result<Self, Errno> {
        Ok(Self { buffer: super::buffer(capacity)?, start: 0, length: 0 })
    }

    /// Bytes that are in it.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Bytes that it has room for in all.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Makes it larger.
    ///
    /// # Errors
    /// `ENOMEM`: it stays as it is.
    pub(crate) fn grow(&mut self, capacity: usize) -> Result<(), Errno> {
        let mut larger = super::buffer(capacity.max(self.length))?;
        let (first, second) = self.filled(self.length);
        larger[..first.len()].copy_from_slice(first);
        larger[first.len()..first.len() + second.len()].copy_from_slice(second);
        self.start = 0;
        self.buffer = larger;
        Ok(())
    }

    /// Gives the first `limit` bytes to `sink`. Returns how many that took; all stay.
    pub(crate) fn peek(&self, limit: usize, sink: &mut Sink<'_>) -> usize {
        let (first, second) = self.filled(limit.min(self.length));
        let taken = if first.is_empty() { 0 } else { sink(first).min(first.len()) };
        if taken < first.len() || second.is_empty() { taken } else { taken + sink(second).min(second.len()) }
    }

    /// Forgets the first `count` bytes.
    pub(crate) fn forget(&mut self, count: usize) {
        let count = count.min(self.length);
        self.length -= count;
        // An empty one starts over, so that what comes lies together.
        self.start = if self.length == 0 { 0 } else { (self.start + count) % self.buffer.len() };
    }

    /// Has `source` fill up to `limit` bytes behind the others, as far as there is room. Returns how many it did; they
    /// are not in the ring before [`Self::add`].
    pub(crate) fn fill(&mut self, limit: usize, source: &mut Source<'_>) -> usize {
        let capacity = self.buffer.len();
        let room = limit.min(capacity - self.length);
        if room == 0 {
            return 0;
        }
        let from = (self.start + self.length) % capacity;
        let first = room.min(capacity - from);
        let filled = source(&mut self.buffer[from..from + first]).min(first);
        if filled < first || first == room {
            filled
        } else {
            filled + source(&mut self.buffer[..room - first]).min(room - first)
        }
    }

    /// Adds the first `count` bytes that were filled.
    pub(crate) fn add(&mut self, count: usize) {
        self.length = (self.length + count).min(self.buffer.len());
    }

    /// The first `count` bytes, which there are.
    fn filled(&self, count: usize) -> (&[u8], &[u8]) {
        let end = self.start + count;
        match end.checked_sub(self.buffer.len()) {
            Some(over) => (&self.buffer[self.start..], &self.buffer[..over]),
            None => (&self.buffer[self.start..end], &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    use super::Ring;

    #[derive(Clone, Debug)]
    enum Step {
        Put(Vec<u8>, usize),
        Take(usize, usize),
        Grow(usize),
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..20)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (bytes(), 0_usize..20).prop_map(|(bytes, most)| Step::Put(bytes, most)),
            4 => (0_usize..20, 0_usize..20).prop_map(|(limit, most)| Step::Take(limit, most)),
            1 => (1_usize..40).prop_map(Step::Grow),
        ]
    }

    proptest! {
        #[test]
        fn a_ring_is_a_queue(steps in proptest::collection::vec(step(), 1..80)) {
            let mut ring = Ring::new(7).expect("memory");
            let mut model = VecDeque::new();
            for step in steps {
                match step {
                    Step::Put(bytes, most) => {
                        let mut left = &bytes[..bytes.len().min(most)];
                        let filled = ring.fill(bytes.len(), &mut |slot| {
                            let count = slot.len().min(left.len());
                            slot[..count].copy_from_slice(&left[..count]);
                            left = &left[count..];
                            count
                        });
                        prop_assert_eq!(filled, bytes.len().min(most).min(ring.capacity() - ring.len()));
                        ring.add(filled);
                        model.extend(&bytes[..filled]);
                    }
                    Step::Take(limit, most) => {
                        let mut seen = Vec::new();
                        let mut left = most;
                        let taken = ring.peek(limit, &mut |part| {
                            let count = part.len().min(left);
                            left -= count;
                            seen.extend_from_slice(&part[..count]);
                            count
                        });
                        prop_assert_eq!(taken, limit.min(most).min(model.len()));
                        ring.forget(taken);
                        prop_assert_eq!(seen, model.drain(..taken).collect::<Vec<u8>>());
                    }
                    Step::Grow(capacity) => {
                        prop_assert_eq!(ring.grow(capacity), Ok(()));
                        prop_assert_eq!(ring.capacity(), capacity.max(model.len()));
                    }
                }
                prop_assert_eq!(ring.len(), model.len());
            }
        }
    }
}
