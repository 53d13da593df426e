//! Calls that some of a job's ranks make together: fences of a part of them, and groups.
//!
//! **One node leads.** The node of the lowest member collects what the others' nodes bring when all of their members
//! have come, and tells them when the last has. A node brings its part under a number of its own, again and again
//! until it hears what came of it, and then says thanks; so the leader knows what it may forget, and what comes twice
//! counts once. It asks nodes that it waits for whether they are still there, and they say if a member has left.
//!
//! **A call fails** if a member cannot come. All that can are told, each for the call that it makes: the leader waits
//! for its own members, a node that says that one of its own has left hears so at once, and for one that brings its
//! part only after the call has failed that is noted, as its next part is for the next call. A node that has given up a
//! leader who was silent says so until it hears that the leader knows.
//!
//! **Checkpoints.** Who has written down what it knows does nothing until the ranks run again
//! ([`Collectives::hold`]), which is when all nodes have. What was told and not thanked for is written down, and so are
//! the numbers under which parts were brought: ranks that go on call again, their nodes bring the same parts, and hear
//! what came of those or wait as before.

mod failures;
mod losses;
mod record;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use self::failures::GivenUp;
pub(crate) use self::record::CollectivesRecord;
use super::call::{Call, CallId, Places};
use super::status::Status;
use super::word::{Assembly, Piece, Word, pieces};
use crate::ids::Rank;
use crate::limits::{PMI_ASK_NS, PMI_SILENCE_NS, PMIX_COLLECTIVE_BYTES_MAX, PMIX_COLLECTIVES_MAX};

/// What a piece of memory takes beyond its bytes, about.
const OVERHEAD_BYTES: usize = 128;

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Whether all have come.
    pub(super) status: Status,
    /// Tells it from all others of the job.
    pub(super) serial: u64,
    /// What all nodes' members have brought, node by node.
    pub(super) parts: Box<[u8]>,
}

/// A node's part in the calls of its job.
#[derive(Debug)]
pub(crate) struct Collectives {
    me: u32,
    calls: BTreeMap<CallId, Call>,
    /// Calls that this node leads.
    led: BTreeMap<CallId, Led>,
    /// What came of calls, for ranks here that have not heard of it.
    outcomes: BTreeMap<(CallId, Rank), Outcome>,
    /// What nodes were told and have not thanked for.
    told: BTreeMap<(u32, u64), (CallId, Outcome)>,
    /// Numbers of other nodes that are over: all below the first, and these.
    over: BTreeMap<u32, (u64, BTreeSet<u64>)>,
    /// Calls that have failed before a node had brought its part, and how often: it is told when it does.
    missed: BTreeMap<(CallId, u32), u32>,
    /// Calls that were given up here, by number: the leader is to know.
    given_up: GivenUp,
    /// Under which number this node brings its part of a call, once it does.
    numbers: BTreeMap<CallId, u64>,
    last_number: u64,
    /// Calls that were over here.
    last_serial: u64,
    /// Nodes whose members cannot come any more.
    gone: BTreeSet<u32>,
    words: Vec<(u32, CallId, Word)>,
    /// Ranks here that may find an outcome.
    released: Vec<Rank>,
    is_held: bool,
}

/// A call that this node leads.
#[derive(Debug, Default)]
struct Led {
    parts: BTreeMap<u32, Brought>,
    coming: BTreeMap<u32, (u64, Assembly)>,
    /// When each node that is waited for was last heard of, ns.
    heard_ns: BTreeMap<u32, u64>,
    again_ns: u64,
}

#[derive(Debug)]
struct Brought {
    number: u64,
    status: Status,
    part: Vec<u8>,
}

impl Collectives {
    /// For node `me`.
    pub(crate) fn new(me: u32) -> Self {
        Self {
            me,
            calls: BTreeMap::new(),
            led: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            told: BTreeMap::new(),
            over: BTreeMap::new(),
            missed: BTreeMap::new(),
            given_up: GivenUp::default(),
            numbers: BTreeMap::new(),
            last_number: 0,
            last_serial: 0,
            gone: BTreeSet::new(),
            words: Vec::new(),
            released: Vec::new(),
            is_held: false,
        }
    }

    /// What it is was written down: nothing is to happen until [`Self::go_on`].
    pub(crate) fn hold(&mut self) {
        self.is_held = true;
    }

    /// The ranks run again.
    pub(crate) fn go_on(&mut self, places: &dyn Places, now_ns: u64) {
        self.is_held = false;
        // Nobody was listened to meanwhile.
        self.listen_anew(now_ns);
        self.advance(places, now_ns);
    }

    /// That nothing was heard of others says nothing of them; from now on it does.
    fn listen_anew(&mut self, now_ns: u64) {
        self.calls.values_mut().for_each(|call| call.heard_ns = now_ns);
        self.led.values_mut().flat_map(|led| led.heard_ns.values_mut()).for_each(|heard_ns| *heard_ns = now_ns);
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let call = |call: &Call| call.members.len() * size_of::<Rank>() + call.part.len() + call.answer.bytes();
        let led = |led: &Led| {
            let parts = led.parts.values().map(|brought| brought.part.len()).sum::<usize>();
            parts + led.coming.values().map(|(_, coming)| coming.bytes()).sum::<usize>()
        };
        let outcomes = self.outcomes.values().chain(self.told.values().map(|(_, outcome)| outcome));
        let of_nodes = self.told.len() + self.missed.len() + self.given_up.len();
        let things = self.calls.len() + self.led.len() + self.outcomes.len() + of_nodes + self.numbers.len();
        self.calls.values().map(call).sum::<usize>()
            + self.led.values().map(led).sum::<usize>()
            + outcomes.map(|outcome| outcome.parts.len()).sum::<usize>()
            + things * OVERHEAD_BYTES
    }

    /// A rank here makes a call with these members, in order, of which it is one, and brings this. Then see
    /// [`Self::take`].
    ///
    /// # Errors
    /// [`Status::OUT_OF_RESOURCE`]: there are too many, or what is brought is too long. [`Status::BAD_PARAM`]: it makes
    /// the call already, or a member is no rank of the job.
    pub(crate) fn join(
        &mut self,
        (rank, id): (Rank, CallId),
        members: &[Rank],
        part: &[u8],
        places: &dyn Places,
        now_ns: u64,
    ) -> Result<(), Status> {
        if self.outcomes.contains_key(&(id, rank)) {
            // It was made again after a checkpoint, and is over.
            return Ok(());
        }
        if !self.calls.contains_key(&id) {
            if self.calls.len() + self.led.len() >= PMIX_COLLECTIVES_MAX {
                return Err(Status::OUT_OF_RESOURCE);
            }
            let call = Call::new(members, self.me, places, now_ns).ok_or(Status::BAD_PARAM)?;
            self.calls.insert(id, call);
        }
        let Some(call) = self.calls.get_mut(&id) else { return Err(Status::BAD_PARAM) };
        if call.part.len() + part.len() > PMIX_COLLECTIVE_BYTES_MAX / call.nodes.len().max(1) {
            return Err(Status::OUT_OF_RESOURCE);
        }
        if !call.here.contains(&rank) || !call.come.insert(rank) {
            return Err(Status::BAD_PARAM);
        }
        call.part.extend_from_slice(part);
        self.give_up_lost();
        self.advance(places, now_ns);
        Ok(())
    }

    /// A rank does not wait any longer; false if other nodes count on it already.
    pub(crate) fn withdraw(&mut self, rank: Rank, id: CallId) -> bool {
        let is_out = self.numbers.contains_key(&id);
        let Some(call) = self.calls.get_mut(&id).filter(|_| !is_out) else { return false };
        call.come.remove(&rank);
        if call.come.is_empty() {
            self.calls.remove(&id);
        }
        true
    }

    /// What came of a rank's call, if it is over.
    pub(crate) fn take(&mut self, rank: Rank, id: CallId) -> Option<Outcome> {
        self.outcomes.remove(&(id, rank))
    }

    /// Ranks here for which a call is over.
    pub(crate) fn take_released(&mut self) -> Vec<Rank> {
        core::mem::take(&mut self.released)
    }

    /// What is to be said to which node.
    pub(super) fn take_words(&mut self) -> Vec<(u32, CallId, Word)> {
        core::mem::take(&mut self.words)
    }

    /// A rank of this node has left.
    pub(crate) fn left(&mut self, rank: Rank, places: &dyn Places, now_ns: u64) {
        self.outcomes.retain(|(_, of), _| *of != rank);
        self.advance(places, now_ns);
    }

    /// Brings what is complete here, and tells what is complete everywhere.
    pub(crate) fn advance(&mut self, places: &dyn Places, now_ns: u64) {
        if self.is_held {
            return;
        }
        let is_brought = |id: &CallId| self.led.get(id).is_some_and(|led| led.parts.contains_key(&self.me));
        let ready = self.calls.iter().filter(|(id, call)| call.is_ready(places) && !is_brought(id)).map(|(id, _)| *id);
        for id in ready.collect::<Vec<_>>() {
            self.bring(id, places, now_ns);
        }
        let complete: Vec<CallId> = self.led.keys().copied().filter(|id| self.is_complete(*id)).collect();
        for id in complete {
            self.tell(id);
        }
    }

    /// Brings what the members here have, unless that is under way.
    fn bring(&mut self, id: CallId, places: &dyn Places, now_ns: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let is_new = !self.numbers.contains_key(&id);
        let number = *self.numbers.entry(id).or_insert_with(|| {
            self.last_number += 1;
            self.last_number
        });
        let status = call.status(places);
        if call.leader == self.me {
            let led = self.led.entry(id).or_default();
            let part = core::mem::take(&mut call.part);
            led.parts.insert(self.me, Brought { number, status, part });
            for node in call.nodes.iter().filter(|node| **node != self.me) {
                led.heard_ns.entry(*node).or_insert(now_ns);
            }
            led.again_ns = now_ns.saturating_add(PMI_ASK_NS);
        } else if is_new || call.again_ns <= now_ns || call.again_ns == u64::MAX {
            if call.again_ns == u64::MAX {
                call.heard_ns = now_ns;
            }
            call.again_ns = now_ns.saturating_add(PMI_ASK_NS);
            let oldest = self.numbers.values().copied().chain(self.given_up.oldest()).min().unwrap_or(number);
            for piece in pieces(&call.part) {
                let word = Word::Brings { number, oldest, yours: call.leaders.clone(), status, piece };
                self.words.push((call.leader, id, word));
            }
        }
    }

    fn is_complete(&self, id: CallId) -> bool {
        let (Some(led), Some(call)) = (self.led.get(&id), self.calls.get(&id)) else { return false };
        let has_failed = led.parts.values().any(|brought| brought.status != Status::SUCCESS);
        let have_come = has_failed || call.nodes.iter().all(|node| led.parts.contains_key(node));
        // Members here that have come alone would be told of a call that the others here have yet to make.
        have_come && led.parts.contains_key(&self.me)
    }

    /// Tells all nodes of a call what came of it.
    fn tell(&mut self, id: CallId) {
        let (Some(led), Some(call)) = (self.led.remove(&id), self.calls.remove(&id)) else { return };
        let failed = led.parts.values().map(|brought| brought.status).find(|status| *status != Status::SUCCESS);
        let status = failed.unwrap_or(Status::SUCCESS);
        let parts: Vec<u8> = if status == Status::SUCCESS {
            led.parts.values().flat_map(|brought| brought.part.iter().copied()).collect()
        } else {
            Vec::new()
        };
        // What another node counts has another upper half.
        self.last_serial += 1;
        let serial = u64::from(self.me) << 32 | self.last_serial;
        let outcome = Outcome { status, serial, parts: parts.into() };
        let late = call.nodes.iter().filter(|node| status != Status::SUCCESS && !led.parts.contains_key(node));
        late.for_each(|node| self.misses(id, *node));
        for (node, brought) in led.parts {
            if node == self.me {
                self.numbers.remove(&id);
                self.release(id, &call, &outcome);
            } else if brought.number > 0 {
                self.told.insert((node, brought.number), (id, outcome.clone()));
                self.over.entry(node).or_default().1.insert(brought.number);
                self.repeat(node, brought.number);
            }
        }
    }

    /// Tells a node what came of what it has brought.
    fn repeat(&mut self, node: u32, number: u64) {
        let Some((id, outcome)) = self.told.get(&(node, number)) else { return };
        for piece in pieces(&outcome.parts) {
            let Outcome { status, serial, .. } = *outcome;
            self.words.push((node, *id, Word::Tells { number, status, serial, piece }));
        }
    }

    fn release(&mut self, id: CallId, call: &Call, outcome: &Outcome) {
        for rank in &call.come {
            self.outcomes.insert((id, *rank), outcome.clone());
            self.released.push(*rank);
        }
    }

    /// Takes what another node says.
    pub(super) fn handle(&mut self, from: u32, id: CallId, word: Word, places: &dyn Places, now_ns: u64) {
        // What was on its way when its node was lost is too late.
        if self.is_held || self.gone.contains(&from) {
            return;
        }
        match word {
            Word::Brings { number, oldest, .. } if self.is_over(from, number, oldest) => {}
            Word::Brings { number, .. } if self.has_missed(id, from) => self.refuse(from, id, number),
            Word::Brings { number, status, .. } if status != Status::SUCCESS => {
                self.hear_part(from, id, 0, status, Piece { place: 0, count: 1, bytes: Box::default() }, now_ns);
                self.refuse(from, id, number);
            }
            Word::Brings { number, yours, status, piece, .. } => {
                self.hear_part(from, id, number, status, piece, now_ns);
                let is_hopeless = yours.iter().any(|member| places.has_left(*member));
                if is_hopeless && !self.calls.contains_key(&id) {
                    self.give_up(from, id, number);
                } else if self.led.get(&id).is_some_and(|led| led.parts.contains_key(&from)) {
                    self.words.push((from, id, Word::Waits { number }));
                }
            }
            Word::Waits { number } => {
                if let Some(call) = self.calls.get_mut(&id).filter(|_| self.numbers.get(&id) == Some(&number)) {
                    call.heard_ns = now_ns;
                }
            }
            Word::Tells { number, status, serial, piece } => {
                self.hear_outcome(from, id, number, (status, serial), piece);
            }
            Word::Thanks { number } => drop(self.told.remove(&(from, number))),
            Word::Misses { members } => {
                let word = if members.iter().any(|member| places.has_left(*member)) {
                    self.last_number += 1;
                    let (number, oldest) = (self.last_number, 0);
                    let piece = Piece { place: 0, count: 1, bytes: Box::default() };
                    Word::Brings { number, oldest, yours: Vec::new(), status: Status::UNREACHABLE, piece }
                } else {
                    Word::MayCome
                };
                self.words.push((from, id, word));
            }
            Word::MayCome => {
                if let Some(heard_ns) = self.led.get_mut(&id).and_then(|led| led.heard_ns.get_mut(&from)) {
                    *heard_ns = now_ns;
                }
            }
        }
        self.advance(places, now_ns);
    }

    /// A node brings a piece of its part; under number 0 one that is to hear no more of it.
    fn hear_part(&mut self, from: u32, id: CallId, number: u64, status: Status, piece: Piece, now_ns: u64) {
        if self.led.len() + self.calls.len() > 2 * PMIX_COLLECTIVES_MAX {
            return;
        }
        let led = self.led.entry(id).or_default();
        led.heard_ns.insert(from, now_ns);
        let room = PMIX_COLLECTIVE_BYTES_MAX;
        let coming = led.coming.entry(from).or_insert_with(|| (number, Assembly::default()));
        if coming.0 != number {
            *coming = (number, Assembly::default());
        }
        if let Some(part) = coming.1.take(piece).filter(|part| part.len() <= room) {
            led.coming.remove(&from);
            led.parts.entry(from).or_insert(Brought { number, status, part });
        }
    }

    /// The leader tells a piece of what came of a call.
    fn hear_outcome(&mut self, from: u32, id: CallId, number: u64, what: (Status, u64), piece: Piece) {
        self.given_up.is_known(number);
        let is_awaited = self.numbers.get(&id) == Some(&number);
        let Some(call) = self.calls.get_mut(&id).filter(|call| is_awaited && call.leader == from) else {
            // It was heard before, and the thanks were lost.
            if !is_awaited {
                self.words.push((from, id, Word::Thanks { number }));
            }
            return;
        };
        let Some(parts) = call.answer.take(piece) else { return };
        if let Some(call) = self.calls.remove(&id) {
            self.numbers.remove(&id);
            let (status, serial) = what;
            self.release(id, &call, &Outcome { status, serial, parts: parts.into() });
            self.words.push((from, id, Word::Thanks { number }));
        }
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        if self.is_held {
            return None;
        }
        let brought = self.calls.iter().filter(|(id, call)| call.leader != self.me && self.numbers.contains_key(id));
        let led = self.led.iter().filter(|(id, _)| self.calls.contains_key(id)).map(|(_, led)| led.again_ns);
        let given_up = self.given_up.poll_timeout();
        brought.map(|(_, call)| call.again_ns).chain(led.filter(|at_ns| *at_ns > 0)).chain(given_up).min()
    }

    /// Says what time it is.
    pub(crate) fn handle_timeout(&mut self, places: &dyn Places, now_ns: u64) {
        if self.is_held {
            return;
        }
        let silent_ns = |heard_ns: u64| now_ns.saturating_sub(heard_ns) >= PMI_SILENCE_NS;
        let brought: Vec<CallId> = self.numbers.keys().copied().collect();
        for id in brought {
            let Some(call) = self.calls.get(&id).filter(|call| call.leader != self.me) else { continue };
            if silent_ns(call.heard_ns) {
                self.give_up_leader(id, now_ns);
            } else if call.again_ns <= now_ns {
                self.bring(id, places, now_ns);
            }
        }
        self.words.extend(self.given_up.handle_timeout(now_ns));
        let (mut asks, mut silent) = (Vec::new(), Vec::new());
        for (id, led) in self.led.iter_mut().filter(|(_, led)| led.again_ns > 0 && led.again_ns <= now_ns) {
            led.again_ns = now_ns.saturating_add(PMI_ASK_NS);
            let Some(call) = self.calls.get(id) else { continue };
            for node in call.nodes.iter().filter(|node| !led.parts.contains_key(node)) {
                if led.heard_ns.get(node).is_some_and(|heard_ns| silent_ns(*heard_ns)) {
                    let lost = Brought { number: 0, status: Status::UNREACHABLE, part: Vec::new() };
                    led.parts.insert(*node, lost);
                    silent.push((*id, *node));
                    break;
                }
                let members = call.members.iter().copied().filter(|rank| places.node_of(*rank) == Some(*node));
                asks.push((*node, *id, Word::Misses { members: members.collect() }));
            }
        }
        self.words.extend(asks);
        silent.into_iter().for_each(|(id, node)| self.misses(id, node));
        self.advance(places, now_ns);
    }
}
