//! Calls that a member cannot come to: who is told so, and when.

use alloc::boxed::Box;

use super::{Collectives, Outcome};
use crate::limits::PMIX_COLLECTIVES_MAX;
use crate::pmix::call::CallId;
use crate::pmix::status::Status;

/// Calls of nodes of which is noted that they have failed before; of a further one the node hears when it is asked for
/// the next.
pub(super) const MISSED_MAX: usize = 4 * PMIX_COLLECTIVES_MAX;

impl Outcome {
    /// A member cannot come.
    pub(super) fn unreachable() -> Self {
        Self { status: Status::UNREACHABLE, serial: 0, parts: Box::default() }
    }
}

impl Collectives {
    /// Whether what a node brings under this number is over: what came of it is repeated, if that is known.
    pub(super) fn is_over(&mut self, from: u32, number: u64, oldest: u64) -> bool {
        let over = self.over.entry(from).or_default();
        over.0 = over.0.max(oldest);
        let first = over.0;
        over.1.retain(|number| *number >= first);
        let is_known = over.1.contains(&number);
        if is_known {
            self.repeat(from, number);
        }
        is_known || number < first
    }

    /// A call has failed before a node had brought its part.
    pub(super) fn misses(&mut self, id: CallId, node: u32) {
        if self.missed.len() < MISSED_MAX {
            *self.missed.entry((id, node)).or_default() += 1;
        }
    }

    /// Whether what a node brings is for a call that has failed; the next is not.
    pub(super) fn has_missed(&mut self, id: CallId, node: u32) -> bool {
        let Some(count) = self.missed.get_mut(&(id, node)) else { return false };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.missed.remove(&(id, node));
        }
        true
    }

    /// A node is told that a member cannot come.
    pub(super) fn refuse(&mut self, to: u32, id: CallId, number: u64) {
        self.told.insert((to, number), (id, Outcome::unreachable()));
        self.over.entry(to).or_default().1.insert(number);
        self.repeat(to, number);
    }

    /// A member of this node has left before any has made the call.
    pub(super) fn give_up(&mut self, from: u32, id: CallId, number: u64) {
        if self.led.get(&id).is_some_and(|led| led.parts.contains_key(&from)) {
            self.led.remove(&id);
            self.refuse(from, id, number);
        }
    }
}
