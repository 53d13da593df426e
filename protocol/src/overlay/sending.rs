//! What goes to the one above, and what of it is said again when there is another one.

use alloc::collections::VecDeque;

use super::message::{Above, Generation, Source, Up};
use super::part::Part;
use crate::limits::{OVERLAY_KEPT_PARTS_MAX, OVERLAY_WAITING_PARTS_MAX};

/// See this module.
#[derive(Debug)]
pub(super) struct Sending {
    generation: Generation,
    source: Source,
    above: Above,
    /// Parts that are to be sent, and whether they stay apart: at most [`OVERLAY_WAITING_PARTS_MAX`], the oldest go.
    waiting: VecDeque<(bool, Part)>,
    /// Those that were sent last, of which nobody knows whether they have come further than to the one above: at most
    /// [`OVERLAY_KEPT_PARTS_MAX`].
    kept: VecDeque<Part>,
    /// Parts that were lost because there was no room.
    pub(super) lost: u64,
}

impl Sending {
    pub(super) fn new(generation: Generation, source: Source, above: Above) -> Self {
        Self { generation, source, above, waiting: VecDeque::new(), kept: VecDeque::new(), lost: 0 }
    }

    /// Who is above.
    pub(super) fn above(&self) -> Above {
        self.above
    }

    /// A part is to go up.
    pub(super) fn send(&mut self, is_apart: bool, part: Part) {
        if self.waiting.len() >= OVERLAY_WAITING_PARTS_MAX {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back((is_apart, part));
    }

    /// Somebody else is above. What was sent before may have been lost with the one that was.
    pub(super) fn turn_to(&mut self, above: Above) {
        self.above = above;
        for part in core::mem::take(&mut self.kept).into_iter().rev() {
            self.waiting.push_front((true, part));
        }
        while self.waiting.len() > OVERLAY_WAITING_PARTS_MAX {
            self.waiting.pop_front();
            self.lost += 1;
        }
    }

    /// The next for the one above.
    pub(super) fn poll(&mut self) -> Option<(Above, Up)> {
        let (is_apart, part) = self.waiting.pop_front()?;
        if self.kept.len() >= OVERLAY_KEPT_PARTS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(part.clone());
        let Self { generation, source, above, .. } = *self;
        Some((above, Up::Part { generation, source, is_apart, part }))
    }
}
