//! Messages for the service node, in order. At its limit nothing is heard any more that could add to them
//! ([`super::Machine::is_full`]); what was heard before, or is due, is said all the same.

use std::collections::VecDeque;

use coppice_protocol::pset::FromPset;

use crate::limits::OUTBOX_MESSAGES_MAX;

/// See this module.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<FromPset>,
}

impl Outbox {
    pub(super) fn push(&mut self, message: FromPset) {
        self.queue.push_back(message);
    }

    pub(super) fn next(&mut self) -> Option<FromPset> {
        self.queue.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= OUTBOX_MESSAGES_MAX
    }
}
