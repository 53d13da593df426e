//! What goes to the one above, and what of it is said again when there is another one.

use alloc::collections::VecDeque;

use super::message::{Above, Generation, Source, Up};
use super::part::Part;
use super::stacks::Stacks;
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
    /// Stacks that go up with the next epoch, and whether that is on its way.
    stacks: Stacks,
    are_stacks_due: bool,
    /// Parts that were lost because there was no room.
    pub(super) lost: u64,
}

impl Sending {
    pub(super) fn new(generation: Generation, source: Source, above: Above) -> Self {
        Self {
            generation,
            source,
            above,
            waiting: VecDeque::new(),
            kept: VecDeque::new(),
            stacks: Stacks::default(),
            are_stacks_due: false,
            lost: 0,
        }
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

    /// Stacks are to go up with the next epoch.
    pub(super) fn add_stacks(&mut self, stacks: &Stacks) {
        self.stacks.merge(stacks);
    }

    /// An epoch is over: what there is of stacks goes up, if there is any.
    pub(super) fn send_stacks(&mut self) {
        self.are_stacks_due = !self.stacks.is_empty();
    }

    /// Stacks for the one above. They are to go before the part of their epoch, which has nobody wait for them.
    pub(super) fn poll_stacks(&mut self) -> Option<(Above, Stacks)> {
        core::mem::take(&mut self.are_stacks_due).then(|| (self.above, core::mem::take(&mut self.stacks)))
    }

    /// Stacks that have not gone up yet, which are not to any more.
    pub(super) fn take_stacks(&mut self) -> Stacks {
        self.are_stacks_due = false;
        core::mem::take(&mut self.stacks)
    }

    /// Parts from this epoch on that were sent or are to be.
    pub(super) fn since(&self, epoch: u64) -> impl Iterator<Item = &Part> {
        self.kept.iter().chain(self.waiting.iter().map(|(_, part)| part)).filter(move |part| part.epoch() >= epoch)
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
