//! One holder's locks of one file.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Bytes that are locked alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub first: u64,
    /// Last byte, not before the first.
    pub last: u64,
    /// Nobody else may have one of any of its bytes; else others may have such as this.
    pub exclusive: bool,
}

impl Span {
    /// Of all bytes.
    #[must_use]
    pub const fn whole(exclusive: bool) -> Self {
        Self { first: 0, last: u64::MAX, exclusive }
    }

    /// Whether two holders cannot have both.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        (self.exclusive || other.exclusive) && self.first <= other.last && other.first <= self.last
    }
}

/// What a holder has locked of a file: in order, no byte twice, and none beside another that is locked alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    list: Vec<Span>,
}

impl Spans {
    /// None; a constant.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> &[Span] {
        &self.list
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Those with any of these bytes, in order.
    #[must_use]
    pub fn within(&self, first: u64, last: u64) -> &[Span] {
        let from = self.list.partition_point(|span| span.last < first);
        let to = self.list.partition_point(|span| span.first <= last);
        self.list.get(from..to).unwrap_or_default()
    }

    /// The first that another holder's stands in the way of.
    #[must_use]
    pub fn in_the_way(&self, of: &Span) -> Option<Span> {
        self.within(of.first, of.last).iter().find(|span| span.conflicts(of)).copied()
    }

    /// Sees to it that a change needs no memory: one may become three.
    ///
    /// # Errors
    /// There is none.
    pub fn reserve(&mut self) -> Result<(), TryReserveError> {
        self.list.try_reserve(2)
    }

    /// Locks these bytes so, however they were locked before.
    pub fn lock(&mut self, span: Span) {
        self.put(span.first, span.last, Some(span.exclusive));
    }

    /// Unlocks these bytes.
    pub fn unlock(&mut self, first: u64, last: u64) {
        self.put(first, last, None);
    }

    fn put(&mut self, first: u64, last: u64, exclusive: Option<bool>) {
        // With those that end right before it, or begin right behind it: they may become one.
        let from = self.list.partition_point(|span| span.last < first.saturating_sub(1));
        let to = self.list.partition_point(|span| span.first <= last.saturating_add(1));
        let mut put = exclusive.map(|exclusive| Span { first, last, exclusive });
        let (mut before, mut behind) = (None, None);
        if from < to {
            let (head, tail) = (self.list[from], self.list[to - 1]);
            if head.first < first {
                match &mut put {
                    Some(put) if put.exclusive == head.exclusive => put.first = head.first,
                    _ => before = Some(Span { last: head.last.min(first - 1), ..head }),
                }
            }
            if tail.last > last {
                match &mut put {
                    Some(put) if put.exclusive == tail.exclusive => put.last = tail.last,
                    _ => behind = Some(Span { first: tail.first.max(last + 1), ..tail }),
                }
            }
            self.list.drain(from..to);
        }
        for span in [behind, put, before].into_iter().flatten() {
            self.list.insert(from, span);
        }
    }
}
