//! A node's requests: which wait, which are under way, and which goes next.
//!
//! **Share.** Requests wait in a queue per rank, and ranks take turns, so that a rank with hundreds of threads in calls
//! keeps nobody else's waiting longer than one with a single thread. Of several ranks none has more than
//! [`REQUESTS_PER_RANK_MAX`] under way, so that calls of one that take long leave places to the others.
//!
//! **Owed.** What others wait for – bytes of a file that were not written yet, a lease that is given back – goes before
//! all that, and has [`REQUESTS_OWED_MAX`] places of its own: requests that wait for it at the I/O node cannot keep it
//! from going.
//!
//! **Once.** A request keeps its id until it is answered. When the connection breaks, all that are under way are said
//! again on the next one, under the same ids; the I/O node's [`super::Replies`] knows them. So a call is never lost
//! with a connection, and never made twice.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use super::{Owner, RequestId, SLOTS};
use crate::limits::{REQUESTS_IN_FLIGHT_MAX, REQUESTS_PER_RANK_MAX};

#[cfg(doc)]
use crate::limits::REQUESTS_OWED_MAX;

/// Requests of a node's ranks. `R` is what the node knows of one.
#[derive(Debug)]
pub struct Requests<R> {
    /// An empty queue stays until its rank is forgotten, so that a call that need not wait costs no allocation.
    waiting: BTreeMap<Owner, VecDeque<R>>,
    /// How many wait in all queues: mostly none, as a call goes at once.
    waiting_count: usize,
    /// What others wait for, in order.
    owed: VecDeque<(Owner, R)>,
    /// Whose request went last.
    last: Option<Owner>,
    slots: [Slot<R>; SLOTS],
    /// Requests that went, of all slots.
    sent: u64,
}

#[derive(Debug)]
struct Slot<R> {
    /// The number of its last request.
    number: u64,
    state: SlotState<R>,
}

#[derive(Debug)]
enum SlotState<R> {
    Free,
    /// Under way, as the so manieth of all.
    UnderWay {
        owner: Owner,
        order: u64,
        request: R,
    },
    /// Under way, and nobody waits for the answer.
    Forgotten,
}

/// What an answer is to.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered<R> {
    /// This request.
    Request(R),
    /// One that nobody waits for any more.
    Forgotten,
    /// None that is under way.
    Unknown,
}

impl<R> Default for Requests<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Requests<R> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        let slots = [const { Slot { number: 0, state: SlotState::Free } }; SLOTS];
        Self { waiting: BTreeMap::new(), waiting_count: 0, owed: VecDeque::new(), last: None, slots, sent: 0 }
    }

    /// Adds a request behind the others of its rank.
    pub fn push(&mut self, owner: Owner, request: R) {
        self.waiting.entry(owner).or_default().push_back(request);
        self.waiting_count += 1;
    }

    /// Adds a request for which others wait.
    pub fn push_owed(&mut self, owner: Owner, request: R) {
        self.owed.push_back((owner, request));
    }

    /// The request that is to be sent now, with its id; it is under way from now on. `None`: nothing waits, or there is
    /// no place. `ranks`: how many the node has.
    pub fn next(&mut self, ranks: usize) -> Option<(RequestId, &mut R)> {
        if !self.owed.is_empty() {
            // The last ones are nobody else's.
            let index = self.slots.iter().rposition(|slot| matches!(slot.state, SlotState::Free))?;
            let (owner, request) = self.owed.pop_front()?;
            return self.send(index, owner, request);
        }
        if self.waiting_count == 0 {
            return None;
        }
        let shared = &self.slots[..REQUESTS_IN_FLIGHT_MAX];
        let index = shared.iter().position(|slot| matches!(slot.state, SlotState::Free))?;
        let has_share = |owner| ranks <= 1 || self.under_way_of(owner) < REQUESTS_PER_RANK_MAX;
        let after = self.last.map_or(Unbounded, Excluded);
        let mut in_turn = self.waiting.range((after, Unbounded)).chain(&self.waiting);
        let may_go = in_turn.find(|(owner, queue)| !queue.is_empty() && has_share(**owner));
        let owner = *may_go?.0;
        let queue = self.waiting.get_mut(&owner)?;
        let request = queue.pop_front()?;
        self.waiting_count -= 1;
        if queue.is_empty() && queue.capacity() > REQUESTS_IN_FLIGHT_MAX {
            *queue = VecDeque::new();
        }
        self.last = Some(owner);
        self.send(index, owner, request)
    }

    /// A request is under way from now on, in that slot.
    fn send(&mut self, index: usize, owner: Owner, request: R) -> Option<(RequestId, &mut R)> {
        self.sent += 1;
        let slot = self.slots.get_mut(index)?;
        slot.number += 1;
        slot.state = SlotState::UnderWay { owner, order: self.sent, request };
        let id = RequestId::new(index, slot.number);
        match &mut slot.state {
            SlotState::UnderWay { request, .. } => Some((id, request)),
            SlotState::Free | SlotState::Forgotten => None,
        }
    }

    fn under_way_of(&self, wanted: Owner) -> usize {
        let is_of = |slot: &&Slot<R>| matches!(slot.state, SlotState::UnderWay { owner, .. } if owner == wanted);
        self.slots.iter().filter(is_of).count()
    }

    /// An answer came, or the request was not sent after all: its place is free.
    pub fn take(&mut self, id: RequestId) -> Answered<R> {
        let slot = self.slots.get_mut(id.slot()).filter(|slot| slot.number == id.number());
        match slot.map(|slot| core::mem::replace(&mut slot.state, SlotState::Free)) {
            Some(SlotState::UnderWay { request, .. }) => Answered::Request(request),
            Some(SlotState::Forgotten) => Answered::Forgotten,
            Some(SlotState::Free) | None => Answered::Unknown,
        }
    }

    /// Those that are under way, the first one first: to be sent on a new connection. Those that nobody waits for are
    /// dropped, and their places are free.
    pub fn again(&mut self) -> Vec<(RequestId, &R)> {
        for slot in &mut self.slots {
            if matches!(slot.state, SlotState::Forgotten) {
                slot.state = SlotState::Free;
            }
        }
        let under_way = self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.state {
            SlotState::UnderWay { order, request, .. } => Some((*order, RequestId::new(index, slot.number), request)),
            SlotState::Free | SlotState::Forgotten => None,
        });
        let mut under_way: Vec<_> = under_way.collect();
        under_way.sort_unstable_by_key(|(order, ..)| *order);
        under_way.into_iter().map(|(_, id, request)| (id, request)).collect()
    }

    /// Nobody waits for the answers to a rank's requests any more; those that did not go never will. Gives those of
    /// them for which others wait.
    pub fn forget(&mut self, wanted: Owner) -> Vec<R> {
        let mut owed = Vec::new();
        for _ in 0..self.owed.len() {
            match self.owed.pop_front() {
                Some((owner, request)) if owner == wanted => owed.push(request),
                Some(other) => self.owed.push_back(other),
                None => {}
            }
        }
        let gone = self.waiting.remove(&wanted);
        self.waiting_count -= gone.map_or(0, |queue| queue.len());
        for slot in &mut self.slots {
            if matches!(slot.state, SlotState::UnderWay { owner, .. } if owner == wanted) {
                slot.state = SlotState::Forgotten;
            }
        }
        owed
    }

    /// Takes out the requests of which `is_over` says so, waiting or under way.
    pub fn give_up(&mut self, mut is_over: impl FnMut(&R) -> bool) -> Vec<R> {
        let mut given_up = Vec::new();
        for slot in &mut self.slots {
            if matches!(&slot.state, SlotState::UnderWay { request, .. } if is_over(request))
                && let SlotState::UnderWay { request, .. } = core::mem::replace(&mut slot.state, SlotState::Forgotten)
            {
                given_up.push(request);
            }
        }
        for _ in 0..self.owed.len() {
            match self.owed.pop_front() {
                Some((_, request)) if is_over(&request) => given_up.push(request),
                Some(owed) => self.owed.push_back(owed),
                None => {}
            }
        }
        for queue in self.waiting.values_mut() {
            for _ in 0..queue.len() {
                match queue.pop_front() {
                    Some(request) if is_over(&request) => {
                        self.waiting_count -= 1;
                        given_up.push(request);
                    }
                    Some(request) => queue.push_back(request),
                    None => {}
                }
            }
        }
        given_up
    }

    /// All that wait or are under way.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        let under_way = self.slots.iter().filter_map(|slot| match &slot.state {
            SlotState::UnderWay { request, .. } => Some(request),
            SlotState::Free | SlotState::Forgotten => None,
        });
        under_way.chain(self.owed.iter().map(|(_, request)| request)).chain(self.waiting.values().flatten())
    }

    /// Whether answers are still to come that nobody waits for.
    #[must_use]
    pub fn any_forgotten(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.state, SlotState::Forgotten))
    }
}
