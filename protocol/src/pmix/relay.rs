//! Notifications on their way to other nodes of the job, and from there.
//!
//! A node numbers what it says, and says with each what its number before was that was for the same node. A receiver
//! takes what follows on what it has, and answers which number it has come to; so it takes everything once and in
//! order. What it has not is said again every [`PMI_ASK_NS`], each time on another way, since nodes between may have no
//! part in the job any longer.
//!
//! **Silence.** A node that has answered nothing for [`PMI_SILENCE_NS`] goes on being told, if more rarely: it may be
//! that it has yet to be launched, and its ranks would wait for ever for those that have ended. But it holds up nobody:
//! what ranks say and only such nodes do not have is dropped when there is no room for more, the oldest first.
//!
//! **Checkpoints.** Who has written down what it knows neither says nor takes anything until the ranks run again
//! ([`Relay::go_on`]), which is when all nodes have: what is in one node's record as said and not in the other's as
//! heard is said again from there.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::call::Places;
use super::notification::Notification;
use crate::ids::Rank;
use crate::limits::{PMI_ASK_NS, PMI_SILENCE_NS, PMIX_EVENTS_UNDER_WAY_MAX, RANKS_PER_NODE_MAX};

/// How often something is said to a node that does not answer.
const TRIES_MAX: u32 = (PMI_SILENCE_NS / PMI_ASK_NS) as u32;

/// Who has been silent for that long is told the first thing alone that it does not have, and so many times as rarely:
/// there may be nobody who takes it.
const PAUSES_WHEN_SILENT: u64 = 4;

/// After so many a job's end on this node does not wait for it.
const TRIES_AWAITED_MAX: u32 = 3;

/// What nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Telling {
    /// Something is to be told to ranks of the receiver's node.
    Tells {
        number: u64,
        /// The number of what was for the same node before it, or 0.
        previous: u64,
        /// How often it was said before: on which way, and the answer comes on.
        tries: u32,
        notification: Notification,
    },
    /// The sender has all up to this number.
    Has { number: u64, tries: u32 },
}

/// See this module.
#[derive(Debug)]
pub(crate) struct Relay {
    me: u32,
    record: RelayRecord,
    /// Nodes that have not answered yet.
    clocks: BTreeMap<u32, Clock>,
    words: Vec<(u32, u32, Telling)>,
    is_held: bool,
}

/// What of it is written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RelayRecord {
    /// What some node does not have, the oldest first.
    under_way: VecDeque<UnderWay>,
    last_number: u64,
    /// The last number for each node.
    said: BTreeMap<u32, u64>,
    /// The last number from each node.
    heard: BTreeMap<u32, u64>,
    /// Nodes that are gone.
    gone: BTreeSet<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct UnderWay {
    number: u64,
    notification: Notification,
    /// Who does not have it, and what number was before it there.
    waiting: BTreeMap<u32, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    again_ns: u64,
    tries: u32,
}

impl RelayRecord {
    /// Whether it is of a job with so many nodes, and within the limits.
    pub(crate) fn is_within_limits(&self, nodes: u32) -> bool {
        let all = self.said.keys().chain(self.heard.keys()).chain(&self.gone);
        let waiting = self.under_way.iter().flat_map(|it| it.waiting.keys());
        all.chain(waiting).all(|node| *node < nodes)
            && self.under_way.len() <= PMIX_EVENTS_UNDER_WAY_MAX + RANKS_PER_NODE_MAX as usize
            && self.under_way.iter().all(|it| it.notification.is_within_limits(nodes, false))
    }
}

impl Relay {
    /// Of node `me`, as it was written down.
    pub(crate) fn new(me: u32, record: RelayRecord) -> Self {
        Self { me, record, clocks: BTreeMap::new(), words: Vec::new(), is_held: false }
    }

    /// What is to be written down. Nothing happens until [`Self::go_on`].
    pub(crate) fn record(&mut self) -> RelayRecord {
        self.is_held = true;
        self.record.clone()
    }

    /// The ranks run again.
    pub(crate) fn go_on(&mut self, places: &dyn Places, now_ns: u64) {
        self.is_held = false;
        self.clocks.clear();
        let waiting: BTreeSet<u32> = self.record.under_way.iter().flat_map(|it| it.waiting.keys().copied()).collect();
        for node in waiting {
            self.start_clock(node, now_ns);
            self.say_again(node, 0, places);
        }
    }

    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let nodes = |it: &UnderWay| it.waiting.len() * size_of::<[u64; 4]>();
        let counts = self.record.said.len() + self.record.heard.len() + self.record.gone.len() + self.clocks.len();
        let under_way = self.record.under_way.iter().map(|it| it.notification.memory_bytes() + nodes(it));
        under_way.sum::<usize>() + counts * size_of::<[u64; 4]>()
    }

    /// Whether there is room for what a rank says.
    pub(crate) fn has_room(&self) -> bool {
        self.record.under_way.len() < PMIX_EVENTS_UNDER_WAY_MAX || self.droppable().is_some()
    }

    /// Whether all nodes that answer have what they were told.
    pub(crate) fn is_settled(&self) -> bool {
        self.clocks.values().all(|clock| clock.tries > TRIES_AWAITED_MAX)
    }

    /// Has it told to ranks of these nodes.
    pub(crate) fn tell(
        &mut self,
        notification: &Notification,
        nodes: impl Iterator<Item = u32>,
        places: &dyn Places,
        now_ns: u64,
    ) {
        let nodes: BTreeSet<u32> = nodes.filter(|node| *node != self.me && !self.record.gone.contains(node)).collect();
        if nodes.is_empty() {
            return;
        }
        if self.record.under_way.len() >= PMIX_EVENTS_UNDER_WAY_MAX && notification.rank_that_ended().is_none() {
            self.drop_one();
        }
        self.record.last_number += 1;
        let number = self.record.last_number;
        let mut waiting = BTreeMap::new();
        for node in nodes {
            waiting.insert(node, self.record.said.insert(node, number).unwrap_or(0));
        }
        let under_way = UnderWay { number, notification: notification.clone(), waiting };
        if !self.is_held {
            for node in under_way.waiting.keys().copied().collect::<Vec<_>>() {
                self.start_clock(node, now_ns);
                if !self.is_silent(node) {
                    self.words.extend(word(&under_way, node, 0, places));
                }
            }
        }
        self.record.under_way.push_back(under_way);
    }

    fn start_clock(&mut self, node: u32, now_ns: u64) {
        self.clocks.entry(node).or_insert(Clock { again_ns: now_ns.saturating_add(PMI_ASK_NS), tries: 0 });
    }

    /// Says to a node what it does not have.
    fn say_again(&mut self, node: u32, tries: u32, places: &dyn Places) {
        self.words.extend(self.record.under_way.iter().filter_map(|it| word(it, node, tries, places)));
    }

    /// What is to be said to which node, and on which way.
    pub(super) fn take_words(&mut self) -> Vec<(u32, u32, Telling)> {
        core::mem::take(&mut self.words)
    }

    /// Takes what another node says; what ranks here are to be told, if it is that.
    pub(super) fn handle(&mut self, from: u32, telling: Telling, now_ns: u64) -> Option<Notification> {
        if self.is_held {
            return None;
        }
        match telling {
            Telling::Has { number, .. } => {
                self.has(from, number, now_ns);
                None
            }
            Telling::Tells { number, previous, tries, notification } => {
                let heard = self.record.heard.entry(from).or_insert(0);
                // What was dropped while this node was silent is between the two.
                let is_next = previous <= *heard && number > *heard;
                if is_next {
                    *heard = number;
                }
                let number = *heard;
                self.words.push((from, tries, Telling::Has { number, tries }));
                is_next.then_some(notification)
            }
        }
    }

    /// A node has all up to this number.
    fn has(&mut self, node: u32, number: u64, now_ns: u64) {
        for it in self.record.under_way.iter_mut().filter(|it| it.number <= number) {
            it.waiting.remove(&node);
        }
        self.record.under_way.retain(|it| !it.waiting.is_empty());
        if !self.record.under_way.iter().any(|it| it.waiting.contains_key(&node)) {
            self.clocks.remove(&node);
        } else if let Some(clock) = self.clocks.get_mut(&node) {
            // It is there. That it was late is no reason to say all of it at once.
            *clock = Clock { again_ns: clock.again_ns.min(now_ns.saturating_add(PMI_ASK_NS)), tries: 0 };
        }
    }

    fn is_silent(&self, node: u32) -> bool {
        self.clocks.get(&node).is_some_and(|clock| clock.tries >= TRIES_MAX)
    }

    /// What ranks have said that only silent nodes do not have: the oldest.
    fn droppable(&self) -> Option<usize> {
        let are_silent = |it: &UnderWay| it.waiting.keys().all(|node| self.is_silent(*node));
        let may_go = |it: &UnderWay| it.notification.rank_that_ended().is_none() && are_silent(it);
        self.record.under_way.iter().position(may_go)
    }

    /// Drops that. What follows on it follows on what was before.
    fn drop_one(&mut self) {
        let Some(place) = self.droppable() else { return };
        let Some(UnderWay { waiting, .. }) = self.record.under_way.remove(place) else { return };
        for (node, previous) in waiting {
            let mut behind = self.record.under_way.iter_mut().skip(place);
            match behind.find_map(|it| it.waiting.get_mut(&node)) {
                Some(next) => *next = previous,
                None => drop(self.record.said.insert(node, previous)),
            }
        }
    }

    /// A node is gone, and is told nothing more.
    pub(crate) fn node_lost(&mut self, node: u32, now_ns: u64) {
        self.record.gone.insert(node);
        self.has(node, u64::MAX, now_ns);
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let first = self.clocks.values().map(|clock| clock.again_ns).min();
        first.filter(|_| !self.is_held)
    }

    /// Says what time it is.
    pub(crate) fn handle_timeout(&mut self, places: &dyn Places, now_ns: u64) {
        if self.is_held {
            return;
        }
        let late = self.clocks.iter().filter(|(_, clock)| clock.again_ns <= now_ns).map(|(node, _)| *node);
        for node in late.collect::<Vec<_>>() {
            let tries = self.clocks.get(&node).map_or(1, |clock| clock.tries.saturating_add(1));
            let is_silent = tries >= TRIES_MAX;
            let pause_ns = if is_silent { PMI_ASK_NS * PAUSES_WHEN_SILENT } else { PMI_ASK_NS };
            self.clocks.insert(node, Clock { again_ns: now_ns.saturating_add(pause_ns), tries });
            if is_silent {
                self.words.extend(self.record.under_way.iter().find_map(|it| word(it, node, tries, places)));
            } else {
                self.say_again(node, tries, places);
            }
        }
    }
}

/// How something is said to a node that does not have it: for the ranks of that node.
fn word(it: &UnderWay, node: u32, tries: u32, places: &dyn Places) -> Option<(u32, u32, Telling)> {
    let (number, previous) = (it.number, *it.waiting.get(&node)?);
    let is_there = |rank: &&Rank| places.node_of(**rank) == Some(node);
    let Notification { source, targets, matter } = it.notification.clone();
    let targets = targets.map(|targets| targets.iter().filter(is_there).copied().collect());
    let notification = Notification { source, targets, matter };
    Some((node, tries, Telling::Tells { number, previous, tries, notification }))
}

impl Telling {
    /// Whether what is in it is within the limits, in a job of so many nodes.
    pub(super) fn is_within_limits(&self, nodes: u32) -> bool {
        match self {
            Self::Tells { number, previous, notification, .. } => {
                previous < number && notification.is_within_limits(nodes, true)
            }
            Self::Has { .. } => true,
        }
    }
}
