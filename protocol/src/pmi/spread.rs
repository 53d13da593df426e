//! The barrier between the nodes of a job, which also brings every node what the others' ranks have put.
//!
//! A barrier is a number of steps ([`Schedule`]). In each a node sends to one other at most what that lacks of what it
//! has gathered so far, and then waits for one other at most; a step in which it does not wait is over at once. After
//! the last it has heard, directly or not, of everybody, so everybody has entered.
//!
//! **Skew.** A node leaves barrier `g` only when all have entered it, so what arrives is about the barrier it is in or
//! enters next (`g`), or about the one after (`g + 1`, from a node that has left `g` already), and no other. Both are
//! kept; there is nothing to keep of later ones.
//!
//! **The algorithm** of a barrier follows from what the one before it brought ([`Fence::choose`]), so a node knows it
//! when it leaves that. What comes of `g + 1` while it is in `g` is checked against the algorithm that it names itself,
//! and all that comes has to name the same. If that is not the right one, nothing of it is ever wanted.
//!
//! **Loss.** A step is kept by its sender and sent again when the connection between them is a new one or the receiver
//! asks. A short one is kept until the barrier after its own is through, which says that all have it; a long one only
//! until the receiver says [`PeerFrameKind::Have`]. Whoever waits asks ([`PeerFrameKind::Ask`]) the node it
//! waits for, which either sends or says that it has not come so far ([`PeerFrameKind::NotYet`]), or that it was not
//! told of the job ([`PeerFrameKind::Absent`]), as launches may come late by as much as a disk takes that does not
//! answer. So a node that does not answer is told from one whose ranks take their time, by the one node that needs to
//! know. How long launches may take is for those to say who have the nodes launch.
//!
//! **Who waits until the end.** A rank that cannot come ends the job of those who wait for it, but not of those who
//! have given up in time, or will. So a step says whether anybody who has a part in it waits without a deadline. If
//! somebody does only later, its node asks the one that it waits for, saying so, and that one asks on, back to whoever
//! is missing. In a dissemination, steps of all others come to a single node that is missing. In a tree or a ring they
//! do not, and it hears of them when it is asked.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::fence::{Basis, Conditions, Fence};
use super::frame::{Header, Keys, PeerError, PeerFrame, PeerFrameKind};
use super::gather::{self, Gathered, Incoming};
use super::outbox::{Out, Outbox, Place};
use super::route::{Hop, Way};
use super::schedule::{Part, Schedule};
use super::space::Put;
use crate::limits::{PMI_ASK_NS, PMI_BYTES_PER_JOB_MAX, PMI_SILENCE_NS, PMI_UNCONFIRMED_BYTES_MAX};

/// One node's part in the barriers of its job.
#[derive(Debug)]
pub(crate) struct Spread {
    keys: Keys,
    me: u32,
    /// What the next barrier's algorithm follows from, and its steps.
    basis: Basis,
    schedule: Schedule,
    /// Barriers that are through, which is the number of the next one.
    completed: u64,
    /// The barrier that this node has entered and not left.
    walk: Option<Walk>,
    /// Steps that have come before they were wanted, or not whole yet, by barrier, its algorithm and step: of two
    /// barriers at most.
    inbox: BTreeMap<Place, Incoming>,
    /// What others are to be told, and is not known to have come.
    outbox: Outbox,
    /// Barriers that others are known to wait in until they come to their end.
    awaited_by_others: u64,
}

/// Where a node is in a barrier.
#[derive(Debug)]
struct Walk {
    /// The step that it waits for.
    step: u32,
    gathered: Gathered,
    /// Somebody waits in it until it comes to its end, here or in what has come.
    is_without_end: bool,
    /// When the node that it waits for was last heard, or first waited for, ns.
    heard_ns: u64,
    /// When to ask that node, ns.
    ask_ns: u64,
}

/// A barrier that all nodes have entered, with all that was put before it.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) generation: u64,
    pub(crate) gathered: Gathered,
}

/// Whether who gets a step of so many frames, of which each but the last has as many bytes, says that he has it.
const fn is_confirmed(parts: u32, body_bytes: usize) -> bool {
    parts > 1 || body_bytes > PMI_UNCONFIRMED_BYTES_MAX
}

impl Spread {
    /// For node `me` of `nodes`.
    pub(crate) fn new(keys: Keys, me: u32, nodes: u32) -> Self {
        let basis = Basis { nodes, conditions: Conditions::default(), last_bytes: None, forced: None };
        Self {
            keys,
            me,
            basis,
            schedule: Schedule::new(basis.choose(), me, nodes),
            completed: 0,
            walk: None,
            inbox: BTreeMap::new(),
            outbox: Outbox::default(),
            awaited_by_others: 0,
        }
    }

    pub(crate) fn signature(&self) -> u64 {
        self.keys.signature
    }

    /// What frames of the job are sealed with.
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The index of this node.
    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    /// Barriers that are through.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// Bytes of all that was put before the last of them.
    pub(crate) fn last_bytes(&self) -> Option<u64> {
        self.basis.last_bytes
    }

    /// So many barriers are through, the last with so many bytes, which this node has not heard of. Not if it has left
    /// or entered any. Others may have said something of the next already.
    pub(crate) fn begin_at(&mut self, completed: u64, last_bytes: Option<u64>) -> bool {
        let is_fresh = self.completed == 0 && self.walk.is_none();
        if is_fresh {
            self.completed = completed;
            self.inbox.retain(|place, _| place.generation >= completed);
            self.basis.last_bytes = last_bytes;
            self.choose();
        }
        is_fresh
    }

    /// The algorithm of the barrier that this node is in or enters next.
    pub(crate) fn fence(&self) -> Fence {
        self.schedule.fence
    }

    /// Barriers are walked by this algorithm, or by the one that takes the least time, from the next one that this node
    /// enters.
    pub(crate) fn force(&mut self, fence: Option<Fence>) {
        self.basis.forced = fence;
        self.choose();
    }

    /// What the nodes walk barriers under.
    pub(crate) fn walk_under(&mut self, conditions: Conditions) {
        self.basis.conditions = conditions;
        self.choose();
    }

    /// A barrier that is entered goes on as it began; the next is chosen when it is left.
    fn choose(&mut self) {
        if self.walk.is_none() {
            self.schedule = self.schedule.of(self.basis.choose());
        }
    }

    /// This node has entered a barrier that is not through.
    pub(crate) fn is_entered(&self) -> bool {
        self.walk.is_some()
    }

    /// Another node is known to wait in a barrier that this one has not entered, and not to give up by itself.
    pub(crate) fn others_wait(&self) -> bool {
        self.walk.is_none() && self.awaited_by_others > self.completed
    }

    /// In the first barrier, which is not through, this node says something to another before it hears from it.
    pub(crate) fn calls_first(&self, peer: u32) -> bool {
        self.completed == 0 && self.schedule.calls(peer)
    }

    /// All that this node has said was heard.
    pub(crate) fn is_settled(&self) -> bool {
        self.outbox.is_settled()
    }

    /// Steps that are kept: others' that are not wanted yet, and this node's that may not have come.
    pub(crate) fn kept_steps(&self) -> usize {
        self.inbox.len() + self.outbox.steps()
    }

    /// What is kept of barriers takes so much of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let gathered = self.walk.iter().flat_map(|walk| walk.gathered.values()).flatten().map(Put::memory_bytes);
        let of_steps: usize = self.inbox.values().map(Incoming::memory_bytes).chain(gathered).sum();
        of_steps + self.outbox.memory_bytes()
    }

    /// The nodes that this one talks to: barriers of all algorithms go no other ways.
    pub(crate) fn peers(&self) -> BTreeSet<u32> {
        let hops = self.hops();
        (0..hops.steps()).flat_map(|step| [hops.sends(step), hops.receives(step)]).flatten().map(|it| it.peer).collect()
    }

    /// The steps that say which ways letters and parcels go.
    fn hops(&self) -> Schedule {
        self.schedule.of(Fence::Dissemination)
    }

    /// A step of the barrier that this node is in or enters next.
    fn place(&self, step: u32) -> Place {
        Place { generation: self.completed, fence: self.schedule.fence, step }
    }

    /// Where this node waits now, and for whom.
    fn awaited(&self) -> Option<(Place, Part)> {
        let step = self.walk.as_ref()?.step;
        Some((self.place(step), self.schedule.receives(step)?))
    }

    /// All ranks of this node have entered the next barrier; this is what they have put, and whether one of them waits
    /// until it comes to its end. Then see [`Self::advance`].
    ///
    /// # Errors
    /// [`PeerError::OutOfMemory`].
    pub(crate) fn enter(&mut self, puts: Vec<Put>, is_without_end: bool, now_ns: u64) -> Result<(), PeerError> {
        debug_assert!(self.walk.is_none(), "a node enters a barrier once");
        let gathered = Gathered::from([(self.me, puts)]);
        let ask_ns = now_ns.saturating_add(PMI_ASK_NS);
        let is_without_end = is_without_end || self.awaited_by_others > self.completed;
        self.walk = Some(Walk { step: 0, gathered, is_without_end, heard_ns: now_ns, ask_ns });
        self.send_step()
    }

    /// Somebody waits in the barrier that this node has entered until it comes to its end, which was not so before. Who
    /// is waited for hears of it at once, as others ask on.
    pub(crate) fn wait_without_end(&mut self) {
        if let Some(walk) = &mut self.walk
            && !walk.is_without_end
        {
            walk.is_without_end = true;
            if let Some((place, Part { peer, .. })) = self.awaited() {
                self.say(peer, PeerFrameKind::Ask, place);
            }
        }
    }

    /// Goes on as far as what has come allows, maybe out of the barrier.
    ///
    /// # Errors
    /// [`PeerError::OutOfMemory`].
    pub(crate) fn advance(&mut self, now_ns: u64) -> Result<Option<Completed>, PeerError> {
        loop {
            let Some(step) = self.walk.as_ref().map(|walk| walk.step) else { return Ok(None) };
            if step >= self.schedule.steps() {
                return Ok(self.leave());
            }
            let place = self.place(step);
            let is_awaited = self.schedule.receives(step).is_some();
            if is_awaited && !self.inbox.get(&place).is_some_and(Incoming::is_whole) {
                return Ok(None);
            }
            let Some(walk) = &mut self.walk else { return Ok(None) };
            if let Some(incoming) = self.inbox.remove(&place) {
                incoming.merge_into(&mut walk.gathered);
            }
            walk.step += 1;
            walk.heard_ns = now_ns;
            walk.ask_ns = now_ns.saturating_add(PMI_ASK_NS);
            self.send_step()?;
        }
    }

    fn leave(&mut self) -> Option<Completed> {
        let walk = self.walk.take()?;
        let generation = self.completed;
        self.completed += 1;
        // Everybody has entered this barrier, so everybody has left the one before and needs nothing of it.
        self.outbox.forget_before(generation);
        // What is left names another algorithm than the barrier had.
        self.inbox.retain(|place, _| place.generation > generation);
        let bytes: usize = walk.gathered.values().flatten().map(Put::bytes).sum();
        self.basis.last_bytes = Some(bytes.min(PMI_BYTES_PER_JOB_MAX) as u64);
        self.choose();
        Some(Completed { generation, gathered: walk.gathered })
    }

    /// Queues what the node sends in the step that it has come to, if it is to send something there.
    fn send_step(&mut self) -> Result<(), PeerError> {
        let Some(walk) = &self.walk else { return Ok(()) };
        let (step, without_end) = (walk.step, walk.is_without_end);
        let Some(Part { peer: to, origins }) = self.schedule.sends(step) else { return Ok(()) };
        let place = self.place(step);
        let bodies = gather::bodies(&walk.gathered, origins.iter())?;
        let parts = bodies.len() as u32;
        let header = |part| Header { part, parts, without_end, ..place.header(PeerFrameKind::Step, self.me, to) };
        let frames = (0..).zip(&bodies).map(|(part, body)| self.keys.seal(&header(part), body)).collect();
        let is_confirmed = is_confirmed(parts, bodies.first().map_or(0, Vec::len));
        self.outbox.send(to, place, frames, is_confirmed);
        Ok(())
    }

    /// What a frame is, if it is for this node and from the one that has this part in its step.
    ///
    /// # Errors
    /// [`PeerError`].
    pub(crate) fn verify(&self, frame: &PeerFrame) -> Result<Header, PeerError> {
        self.keys.verify(frame)?;
        let header @ Header { kind, generation, step, from, to, .. } = frame.header();
        if to != self.me {
            return Err(PeerError::Nonsense("not for this node"));
        }
        let schedule = self.schedule.of(header.fence.unwrap_or(Fence::Dissemination));
        let expected = match kind {
            PeerFrameKind::Step | PeerFrameKind::NotYet => schedule.receives(step),
            PeerFrameKind::Have | PeerFrameKind::Ask => schedule.sends(step),
            PeerFrameKind::Letter | PeerFrameKind::Parcel => match Way::of_code(generation) {
                Some(Way::Onward) => schedule.receives(step),
                Some(Way::Back) => schedule.sends(step),
                None => return Err(PeerError::Nonsense("goes no way that there is")),
            },
            // Whatever it was told, or says of who is there: it is about no step.
            _ if self.peers().contains(&from) => return Ok(header),
            _ => None,
        };
        if expected.is_none_or(|part| part.peer != from) {
            return Err(PeerError::Nonsense("from a node that has no part in this step"));
        }
        Ok(header)
    }

    /// The same of a letter or a parcel: which way it goes.
    ///
    /// # Errors
    /// [`PeerError`].
    pub(crate) fn verify_hop(&self, frame: &PeerFrame) -> Result<Way, PeerError> {
        let Header { generation, .. } = self.verify(frame)?;
        Way::of_code(generation).ok_or(PeerError::Nonsense("goes no way that there is"))
    }

    /// The frame that carries a letter or a parcel on.
    pub(crate) fn seal(&self, kind: PeerFrameKind, hop: Hop, body: &[u8]) -> Vec<u8> {
        let Hop { peer: to, step, way } = hop;
        let (generation, from) = (way.code(), self.me);
        let header = Header { kind, generation, step, fence: None, from, to, part: 0, parts: 1, without_end: false };
        self.keys.seal(&header, body)
    }

    /// Takes a frame of another node about a barrier. Then see [`Self::advance`].
    ///
    /// # Errors
    /// [`PeerError`]: nothing of it was taken, and the connection it came on is of no more use.
    pub(crate) fn handle_frame(&mut self, frame: &PeerFrame, now_ns: u64) -> Result<(), PeerError> {
        let header @ Header { kind, generation, step, from, without_end, .. } = self.verify(frame)?;
        // Others come to the barrier after this node's next one only when this node has entered the next one.
        let latest = self.completed + u64::from(self.walk.is_some());
        if header.fence.is_some() && generation > latest {
            return Err(PeerError::Nonsense("from a barrier that nobody can be in"));
        }
        let place = header.fence.map(|fence| Place { generation, fence, step });
        if place.is_some_and(|place| self.is_of_other_fence(place)) {
            return Err(PeerError::Nonsense("of a barrier that is walked by another algorithm"));
        }
        if self.is_word_of_awaited(kind, from, place)
            && let Some(walk) = &mut self.walk
        {
            walk.heard_ns = now_ns;
        }
        if without_end {
            self.awaited_by_others = self.awaited_by_others.max(generation + 1);
            if generation == self.completed {
                self.wait_without_end();
            }
        }
        let Some(place) = place else { return Ok(()) };
        match kind {
            PeerFrameKind::Step => self.take_step(header, place, frame.body())?,
            PeerFrameKind::Have => self.outbox.has_come(from, place),
            PeerFrameKind::Ask => self.answer(from, place),
            _ => {}
        }
        Ok(())
    }

    /// Whether a step is of another algorithm than its barrier, or than others have said that it has.
    fn is_of_other_fence(&self, place: Place) -> bool {
        let Place { generation, fence, .. } = place;
        let named = || self.inbox.range(Place::first_of(generation)..).next().map(|(of_next, _)| of_next.fence);
        let known = match generation.cmp(&self.completed) {
            Ordering::Less => None,
            Ordering::Equal => Some(self.schedule.fence),
            Ordering::Greater => named(),
        };
        known.is_some_and(|known| known != fence)
    }

    /// Whether a frame shows that the node that this one waits for is there.
    fn is_word_of_awaited(&self, kind: PeerFrameKind, from: u32, place: Option<Place>) -> bool {
        self.awaited().is_some_and(|(awaited, Part { peer, .. })| match kind {
            PeerFrameKind::Step | PeerFrameKind::NotYet => place == Some(awaited),
            PeerFrameKind::Absent => from == peer,
            _ => false,
        })
    }

    /// This node has come to a step in which it sends, or receives: then it is over for it if it is beyond.
    fn has_come_to(&self, Place { generation, step, .. }: Place) -> bool {
        generation < self.completed
            || generation == self.completed && self.walk.as_ref().is_some_and(|walk| walk.step >= step)
    }

    fn take_step(&mut self, header: Header, place: Place, body: &[u8]) -> Result<(), PeerError> {
        let Header { from, part, parts, .. } = header;
        let Place { fence, step, .. } = place;
        if !self.has_come_to(Place { step: step + 1, ..place }) {
            let Some(Part { origins, .. }) = self.schedule.of(fence).receives(step) else { return Ok(()) };
            let incoming = match self.inbox.entry(place) {
                Entry::Vacant(vacant) => vacant.insert(Incoming::new(parts)?),
                Entry::Occupied(occupied) => occupied.into_mut(),
            };
            incoming.take(part, parts, body, |origin| origins.has(origin))?;
            if !incoming.is_whole() {
                return Ok(());
            }
        }
        if is_confirmed(parts, body.len()) {
            self.say(from, PeerFrameKind::Have, place);
        }
        Ok(())
    }

    /// Answers a node that waits for a step.
    fn answer(&mut self, to: u32, place: Place) {
        // If it has come there and is not here, the asker has said in the meantime that it has the step.
        if !self.outbox.send_again(to, place) && !self.has_come_to(place) {
            self.say(to, PeerFrameKind::NotYet, place);
        }
    }

    fn say(&mut self, to: u32, kind: PeerFrameKind, place: Place) {
        self.outbox.say(to, kind, place, self.schedule.of(place.fence).steps());
    }

    /// Whether there is something for a node.
    pub(crate) fn has_output(&self, peer: u32) -> bool {
        self.outbox.has_output(peer)
    }

    /// The next frame for a node.
    pub(crate) fn poll_transmit(&mut self, peer: u32) -> Option<Vec<u8>> {
        let (kind, place) = match self.outbox.poll_transmit(peer)? {
            Out::Sealed(frame) => return Some(frame),
            Out::Short(kind, place) => (kind, place),
        };
        let is_without_end = self.walk.as_ref().is_some_and(|walk| walk.is_without_end);
        let without_end = kind == PeerFrameKind::Ask && place.generation == self.completed && is_without_end;
        Some(self.keys.seal(&Header { without_end, ..place.header(kind, self.me, peer) }, &[]))
    }

    /// What was sent to a node, and is not known to have come, may be lost: it is sent again.
    pub(crate) fn reconnected(&mut self, peer: u32) {
        self.outbox.reconnected(peer);
    }

    /// A node is gone: it has to be told nothing, and no barrier comes to its end.
    pub(crate) fn node_lost(&mut self, node: u32) {
        self.outbox.node_lost(node);
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        self.walk.as_ref().map(|walk| walk.ask_ns.min(walk.heard_ns.saturating_add(PMI_SILENCE_NS)))
    }

    /// Says what time it is. `Some`: the node that this one waits for has not answered for too long.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> Option<u32> {
        let (place, Part { peer, .. }) = self.awaited()?;
        let walk = self.walk.as_mut()?;
        if now_ns >= walk.heard_ns.saturating_add(PMI_SILENCE_NS) {
            return Some(peer);
        }
        if now_ns >= walk.ask_ns {
            walk.ask_ns = now_ns.saturating_add(PMI_ASK_NS);
            self.say(peer, PeerFrameKind::Ask, place);
        }
        None
    }
}
