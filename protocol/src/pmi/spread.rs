//! The barrier between the nodes of a job, which also brings every node what the others' ranks have put.
//!
//! It is a dissemination barrier (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988) that
//! carries an allgather (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in
//! multiport message-passing systems", 1997): of `n` nodes, node `i` sends in step `k` to node `i + 2^k` what it has
//! gathered so far, and waits for what `i − 2^k` has gathered. After `⌈log₂ n⌉` steps it has heard, directly or not, of
//! everybody, so everybody has entered. The last step of an `n` that is no power of two sends only what the receiver
//! lacks.
//!
//! **Skew.** A node leaves barrier `g` only when all have entered it, so what arrives is about the barrier it is in or
//! enters next (`g`), or about the one after (`g + 1`, from a node that has left `g` already), and no other. Both are
//! kept; there is nothing to keep of later ones.
//!
//! **Loss.** A step is kept by its sender until the receiver says [`PeerFrameKind::Have`], and sent again when the
//! connection between them is a new one or the receiver asks. Whoever waits asks ([`PeerFrameKind::Ask`]) the node it
//! waits for, which either sends or says that it has not come so far ([`PeerFrameKind::NotYet`]), or that it was not
//! told of the job ([`PeerFrameKind::Absent`]), as launches may come late by as much as a disk takes that does not
//! answer. So a node that does not answer is told from one whose ranks take their time, by the one node that needs to
//! know. How long launches may take is for those to say who have the nodes launch.
//!
//! **Who waits until the end.** A rank that cannot come ends the job of those who wait for it, but not of those who
//! have given up in time, or will. So a step says whether anybody who has a part in it waits without a deadline. If
//! somebody does only later, its node asks the one that it waits for, saying so, and that one asks on, back to whoever
//! is missing.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::frame::{Header, Keys, PeerError, PeerFrame, PeerFrameKind};
use super::gather::{self, Gathered, Incoming};
use super::route::{Hop, Way};
use super::space::Put;
use crate::limits::{PMI_ASK_NS, PMI_SHORT_FRAMES_MAX, PMI_SILENCE_NS};

/// One node's part in the barriers of its job.
#[derive(Debug)]
pub(crate) struct Spread {
    keys: Keys,
    me: u32,
    nodes: u32,
    steps: u32,
    /// Barriers that are through, which is the number of the next one.
    completed: u64,
    /// The barrier that this node has entered and not left.
    walk: Option<Walk>,
    /// Steps that have come before they were wanted, or not whole yet, by barrier and step: of two barriers at most.
    inbox: BTreeMap<(u64, u32), Incoming>,
    /// Steps that their receiver does not have yet as far as this node knows: of two barriers at most.
    outgoing: Vec<Outgoing>,
    /// Frames without a body that are to be sent: to whom, and what.
    short: BTreeSet<(u32, PeerFrameKind, u64, u32)>,
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

/// A step on its way.
#[derive(Debug)]
struct Outgoing {
    to: u32,
    generation: u64,
    step: u32,
    /// Sealed.
    frames: Vec<Vec<u8>>,
    /// How many of them went out on the present connection.
    sent: usize,
}

/// A barrier that all nodes have entered, with all that was put before it.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) generation: u64,
    pub(crate) gathered: Gathered,
}

impl Spread {
    /// For node `me` of `nodes`.
    pub(crate) fn new(keys: Keys, me: u32, nodes: u32) -> Self {
        Self {
            keys,
            me,
            nodes,
            steps: nodes.next_power_of_two().trailing_zeros(),
            completed: 0,
            walk: None,
            inbox: BTreeMap::new(),
            outgoing: Vec::new(),
            short: BTreeSet::new(),
            awaited_by_others: 0,
        }
    }

    pub(crate) fn signature(&self) -> u64 {
        self.keys.signature
    }

    /// The index of this node.
    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    /// Barriers that are through.
    pub(crate) fn completed(&self) -> u64 {
        self.completed
    }

    /// So many barriers are through, which this node has not heard of. Not if it has left or entered any. Others may
    /// have said something of the next already.
    pub(crate) fn begin_at(&mut self, completed: u64) -> bool {
        let is_fresh = self.completed == 0 && self.walk.is_none();
        if is_fresh {
            self.completed = completed;
            self.inbox.retain(|(generation, _), _| *generation >= completed);
        }
        is_fresh
    }

    /// This node has entered a barrier that is not through.
    pub(crate) fn is_entered(&self) -> bool {
        self.walk.is_some()
    }

    /// Another node is known to wait in a barrier that this one has not entered, and not to give up by itself.
    pub(crate) fn others_wait(&self) -> bool {
        self.walk.is_none() && self.awaited_by_others > self.completed
    }

    /// All that this node has said was heard.
    pub(crate) fn is_settled(&self) -> bool {
        self.outgoing.is_empty() && self.short.is_empty()
    }

    /// Steps that are kept: others' that are not wanted yet, and this node's that may not have come.
    pub(crate) fn kept_steps(&self) -> usize {
        self.inbox.len() + self.outgoing.len()
    }

    /// What is kept of barriers takes so much of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let gathered = self.walk.iter().flat_map(|walk| walk.gathered.values()).flatten().map(Put::memory_bytes);
        let sent = self.outgoing.iter().flat_map(|outgoing| &outgoing.frames).map(Vec::len);
        self.inbox.values().map(Incoming::memory_bytes).chain(gathered).chain(sent).sum()
    }

    /// The nodes that this one talks to.
    pub(crate) fn peers(&self) -> BTreeSet<u32> {
        (0..self.steps).flat_map(|step| [self.successor(step), self.predecessor(step)]).collect()
    }

    /// The receiver of a step.
    fn successor(&self, step: u32) -> u32 {
        ((u64::from(self.me) + (1 << step)) % u64::from(self.nodes)) as u32
    }

    /// The sender of a step.
    fn predecessor(&self, step: u32) -> u32 {
        let nodes = u64::from(self.nodes);
        ((u64::from(self.me) + nodes - (1 << step) % nodes) % nodes) as u32
    }

    /// How many nodes' puts a step carries: its sender's, and of as many of those before the sender as the receiver
    /// lacks.
    fn carried(&self, step: u32) -> u32 {
        let gathered = 1_u64 << step;
        gathered.min(u64::from(self.nodes).saturating_sub(gathered)) as u32
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
            let (step, generation) = (walk.step, self.completed);
            self.say(self.predecessor(step), PeerFrameKind::Ask, generation, step);
        }
    }

    /// Goes on as far as what has come allows, maybe out of the barrier.
    ///
    /// # Errors
    /// [`PeerError::OutOfMemory`].
    pub(crate) fn advance(&mut self, now_ns: u64) -> Result<Option<Completed>, PeerError> {
        loop {
            let Some(walk) = &mut self.walk else { return Ok(None) };
            let place = (self.completed, walk.step);
            if self.inbox.get(&place).is_some_and(Incoming::is_whole)
                && let Some(incoming) = self.inbox.remove(&place)
            {
                incoming.merge_into(&mut walk.gathered);
                walk.step += 1;
                walk.heard_ns = now_ns;
                walk.ask_ns = now_ns.saturating_add(PMI_ASK_NS);
                self.send_step()?;
            } else if walk.step < self.steps {
                return Ok(None);
            } else {
                return Ok(self.leave());
            }
        }
    }

    fn leave(&mut self) -> Option<Completed> {
        let walk = self.walk.take()?;
        let generation = self.completed;
        self.completed += 1;
        // Everybody has entered this barrier, so everybody has left the one before and needs nothing of it.
        self.outgoing.retain(|outgoing| outgoing.generation >= generation);
        Some(Completed { generation, gathered: walk.gathered })
    }

    /// Queues the step that the node has come to, if that is one.
    fn send_step(&mut self) -> Result<(), PeerError> {
        let Some(walk) = self.walk.as_ref().filter(|walk| walk.step < self.steps) else { return Ok(()) };
        let (step, without_end, generation, nodes) = (walk.step, walk.is_without_end, self.completed, self.nodes);
        let to = self.successor(step);
        // In 64 bits: no sum of two indices is too large.
        let origins = (0..self.carried(step))
            .map(|distance| ((u64::from(self.me) + u64::from(nodes - distance)) % u64::from(nodes)) as u32);
        let bodies = gather::bodies(&walk.gathered, origins)?;
        let parts = bodies.len() as u32;
        let (kind, from) = (PeerFrameKind::Step, self.me);
        let header = |part| Header { kind, generation, step, from, to, part, parts, without_end };
        let frames = (0..).zip(&bodies).map(|(part, body)| self.keys.seal(&header(part), body)).collect();
        self.outgoing.push(Outgoing { to, generation, step, frames, sent: 0 });
        Ok(())
    }

    /// What a frame is, if it is for this node and from the one that has this part in its step.
    ///
    /// # Errors
    /// [`PeerError`].
    pub(crate) fn verify(&self, frame: &PeerFrame) -> Result<Header, PeerError> {
        self.keys.verify(frame)?;
        let header @ Header { kind, generation, step, from, to, .. } = frame.header();
        if to != self.me || step >= self.steps {
            return Err(PeerError::Nonsense("not for this node"));
        }
        let expected = match kind {
            PeerFrameKind::Step | PeerFrameKind::NotYet => self.predecessor(step),
            PeerFrameKind::Letter | PeerFrameKind::Parcel => match Way::of_code(generation) {
                Some(Way::Onward) => self.predecessor(step),
                Some(Way::Back) => self.successor(step),
                None => return Err(PeerError::Nonsense("goes no way that there is")),
            },
            PeerFrameKind::Have | PeerFrameKind::Ask => self.successor(step),
            // Who is asked about a step is its sender, who is told one its receiver: both may be unknown with the job.
            PeerFrameKind::Absent if from == self.successor(step) => from,
            PeerFrameKind::Absent => self.predecessor(step),
        };
        if from != expected {
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
        self.keys.seal(&Header { kind, generation, step, from, to, part: 0, parts: 1, without_end: false }, body)
    }

    /// Takes a frame of another node about a barrier. Then see [`Self::advance`].
    ///
    /// # Errors
    /// [`PeerError`]: nothing of it was taken, and the connection it came on is of no more use.
    pub(crate) fn handle_frame(&mut self, frame: &PeerFrame, now_ns: u64) -> Result<(), PeerError> {
        let header @ Header { kind, generation, step, from, without_end, .. } = self.verify(frame)?;
        // Others come to the barrier after this node's next one only when this node has entered the next one.
        if generation > self.completed + u64::from(self.walk.is_some()) {
            return Err(PeerError::Nonsense("from a barrier that nobody can be in"));
        }
        if self.is_word_of_awaited(header)
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
        match kind {
            PeerFrameKind::Step => self.take_step(header, frame.body())?,
            PeerFrameKind::Have => {
                self.outgoing.retain(|it| (it.to, it.generation, it.step) != (from, generation, step))
            }
            PeerFrameKind::Ask => self.answer(from, generation, step),
            PeerFrameKind::NotYet | PeerFrameKind::Absent | PeerFrameKind::Letter | PeerFrameKind::Parcel => {}
        }
        Ok(())
    }

    /// Whether a frame shows that the node that this one waits for is there.
    fn is_word_of_awaited(&self, Header { kind, generation, step, from, .. }: Header) -> bool {
        self.walk.as_ref().is_some_and(|walk| match kind {
            PeerFrameKind::Step | PeerFrameKind::NotYet => (generation, step) == (self.completed, walk.step),
            PeerFrameKind::Absent => from == self.predecessor(walk.step),
            PeerFrameKind::Have | PeerFrameKind::Ask | PeerFrameKind::Letter | PeerFrameKind::Parcel => false,
        })
    }

    fn take_step(&mut self, header: Header, body: &[u8]) -> Result<(), PeerError> {
        let Header { generation, step, from, part, parts, .. } = header;
        let is_behind = generation < self.completed
            || generation == self.completed && self.walk.as_ref().is_some_and(|walk| walk.step > step);
        if !is_behind {
            let (nodes, carried) = (self.nodes, self.carried(step));
            let may = |origin: u32| origin < nodes && (from + nodes - origin) % nodes < carried;
            let incoming = match self.inbox.entry((generation, step)) {
                Entry::Vacant(vacant) => vacant.insert(Incoming::new(parts)?),
                Entry::Occupied(occupied) => occupied.into_mut(),
            };
            incoming.take(part, parts, body, may)?;
            let is_whole = incoming.is_whole();
            if !is_whole {
                return Ok(());
            }
        }
        self.say(from, PeerFrameKind::Have, generation, step);
        Ok(())
    }

    /// Answers a node that waits for a step.
    fn answer(&mut self, to: u32, generation: u64, step: u32) {
        let wanted = self.outgoing.iter_mut().find(|it| (it.to, it.generation, it.step) == (to, generation, step));
        if let Some(outgoing) = wanted {
            // What is going out now need not start again.
            if outgoing.sent == outgoing.frames.len() {
                outgoing.sent = 0;
            }
            return;
        }
        let has_come = generation < self.completed
            || generation == self.completed && self.walk.as_ref().is_some_and(|walk| walk.step >= step);
        // Otherwise the asker has said in the meantime that it has the step.
        if !has_come {
            self.say(to, PeerFrameKind::NotYet, generation, step);
        }
    }

    /// Queues a frame without a body. At the limit it is lost, as any frame may be.
    fn say(&mut self, to: u32, kind: PeerFrameKind, generation: u64, step: u32) {
        if self.short.len() < PMI_SHORT_FRAMES_MAX {
            self.short.insert((to, kind, generation, step));
        }
    }

    /// Whether there is something for a node.
    pub(crate) fn has_output(&self, peer: u32) -> bool {
        self.first_short(peer).is_some()
            || self.outgoing.iter().any(|outgoing| outgoing.to == peer && outgoing.sent < outgoing.frames.len())
    }

    fn first_short(&self, peer: u32) -> Option<(u32, PeerFrameKind, u64, u32)> {
        let first = self.short.range((peer, PeerFrameKind::Step, 0, 0)..).next();
        first.copied().filter(|(to, ..)| *to == peer)
    }

    /// The next frame for a node.
    pub(crate) fn poll_transmit(&mut self, peer: u32) -> Option<Vec<u8>> {
        if let Some(short @ (to, kind, generation, step)) = self.first_short(peer) {
            self.short.remove(&short);
            let is_without_end = self.walk.as_ref().is_some_and(|walk| walk.is_without_end);
            let without_end = kind == PeerFrameKind::Ask && generation == self.completed && is_without_end;
            let header = Header { kind, generation, step, from: self.me, to, part: 0, parts: 1, without_end };
            return Some(self.keys.seal(&header, &[]));
        }
        let mut waiting = self.outgoing.iter_mut().filter(|outgoing| outgoing.to == peer);
        let outgoing = waiting.find(|outgoing| outgoing.sent < outgoing.frames.len())?;
        let frame = outgoing.frames.get(outgoing.sent).cloned();
        outgoing.sent += 1;
        frame
    }

    /// What was sent to a node, and is not known to have come, may be lost: it is sent again.
    pub(crate) fn reconnected(&mut self, peer: u32) {
        for outgoing in self.outgoing.iter_mut().filter(|outgoing| outgoing.to == peer) {
            outgoing.sent = 0;
        }
    }

    /// A node is gone: it has to be told nothing, and no barrier comes to its end.
    pub(crate) fn node_lost(&mut self, node: u32) {
        self.outgoing.retain(|outgoing| outgoing.to != node);
        self.short.retain(|(to, ..)| *to != node);
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        self.walk.as_ref().map(|walk| walk.ask_ns.min(walk.heard_ns.saturating_add(PMI_SILENCE_NS)))
    }

    /// Says what time it is. `Some`: the node that this one waits for has not answered for too long.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> Option<u32> {
        let walk = self.walk.as_mut()?;
        let step = walk.step;
        let is_silent = now_ns >= walk.heard_ns.saturating_add(PMI_SILENCE_NS);
        let asks = now_ns >= walk.ask_ns;
        if asks {
            walk.ask_ns = now_ns.saturating_add(PMI_ASK_NS);
        }
        let from = self.predecessor(step);
        if is_silent {
            return Some(from);
        }
        if asks {
            self.say(from, PeerFrameKind::Ask, self.completed, step);
        }
        None
    }
}
