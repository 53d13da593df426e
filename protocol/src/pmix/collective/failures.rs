//! Calls that a member cannot come to: who is told so, and when.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Collectives, Outcome};
use crate::limits::{PMI_ASK_NS, PMIX_COLLECTIVES_MAX};
use crate::pmix::call::CallId;
use crate::pmix::status::Status;
use crate::pmix::word::{Piece, Word};

/// Calls of nodes of which is noted that they have failed before; of a further one the node hears when it is asked for
/// the next.
pub(super) const MISSED_MAX: usize = 4 * PMIX_COLLECTIVES_MAX;

/// Calls that ranks here have given up because the leader was silent, by the numbers under which their parts were
/// brought.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GivenUp {
    calls: BTreeMap<u64, (u32, CallId)>,
    /// When to say so again, ns.
    #[serde(skip)]
    again_ns: u64,
}

impl GivenUp {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether it is within the limits in a job of so many nodes, if it was written down.
    pub(super) fn is_within_limits(&self, nodes: u32) -> bool {
        self.calls.len() <= PMIX_COLLECTIVES_MAX && self.calls.values().all(|(leader, _)| *leader < nodes)
    }

    /// The lowest number.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.calls.keys().next().copied()
    }

    fn insert(&mut self, number: u64, leader: u32, id: CallId, now_ns: u64) {
        if self.calls.is_empty() {
            self.again_ns = now_ns;
        }
        if self.calls.len() < PMIX_COLLECTIVES_MAX {
            self.calls.insert(number, (leader, id));
        }
    }

    /// The leader knows.
    pub(super) fn is_known(&mut self, number: u64) {
        self.calls.remove(&number);
    }

    /// The leader is gone, and need not know.
    pub(super) fn leader_lost(&mut self, node: u32) {
        self.calls.retain(|_, (leader, _)| *leader != node);
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        (!self.calls.is_empty()).then_some(self.again_ns)
    }

    /// What is to be said to whom, if it is time.
    pub(super) fn handle_timeout(&mut self, now_ns: u64) -> Vec<(u32, CallId, Word)> {
        if self.again_ns > now_ns {
            return Vec::new();
        }
        self.again_ns = now_ns.saturating_add(PMI_ASK_NS);
        let oldest = self.oldest().unwrap_or_default();
        let word = |(number, (leader, id)): (&u64, &(u32, CallId))| {
            let piece = Piece { place: 0, count: 1, bytes: Box::default() };
            let (number, status) = (*number, Status::UNREACHABLE);
            (*leader, *id, Word::Brings { number, oldest, yours: Vec::new(), status, piece })
        };
        self.calls.iter().map(word).collect()
    }
}

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

    /// The leader of a call has been silent for too long.
    pub(super) fn give_up_leader(&mut self, id: CallId, now_ns: u64) {
        let (Some(call), Some(number)) = (self.calls.remove(&id), self.numbers.remove(&id)) else { return };
        self.given_up.insert(number, call.leader, id, now_ns);
        self.release(id, &call, &Outcome::unreachable());
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
