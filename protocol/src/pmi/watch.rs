//! Which nodes of a job are there: each is watched by another ([`super::circle`]), which tells all others when it is
//! dead.
//!
//! **Signs of life.** A node says every [`PMI_WATCH_NS`] to whoever watches it that it is there ([`Word::Here`]).
//! Whatever else comes from it counts as much, and so does that it was not told of the job, or has forgotten it. Of
//! whom nothing was heard for one interval and an eighth is asked ([`Word::AreYouThere`]), again and again; the kernel
//! of a node answers at once, whatever its ranks do. Who is silent for two intervals, of which it was asked during most
//! of the last one, is dead. So an observer that was itself held up for long takes nobody for dead whom it
//! has not asked.
//!
//! **News** of a death go from peer to peer ([`super::news`]).
//!
//! **Deaths that come together.** Who hears of a death looks at all its peers, to whom it tells it anyhow: it watches
//! each until it has heard from it. So all of those that were dead when one is found are found two intervals later, as
//! long as one of their peers lives; without that it would be one after the other. A look follows the one before it
//! after an interval at the earliest, whatever is heard meanwhile. Who has no peers left can hear from nobody, and
//! takes all for dead.
//!
//! **False alarms.** A node that was cut off for that long is dead to others. It does nothing about that itself, even
//! if it is told; who ends it, and who is right, is for those to say who have nodes run jobs. It is answered as before,
//! so that it takes nobody for dead in turn, and what it says of others is not believed.
//!
//! **The end.** When its job has failed, a node watches nobody and says by itself only what it has to tell of deaths.
//! When its ranks are being ended it does not do that either. It always answers who asks.
//!
//! Nothing of this is written down for a checkpoint: it begins anew with the server.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::circle::{Circle, Gone};
use super::news::{Death, News};
use crate::limits::{PMI_NEWS_MAX, PMI_WATCH_ASK_NS, PMI_WATCH_NS};

/// How long nothing is heard of a node before it is asked, ns.
const LATE_NS: u64 = PMI_WATCH_NS + PMI_WATCH_NS / 8;

/// How long nothing is heard of one that is dead, ns.
const DEAD_NS: u64 = 2 * PMI_WATCH_NS;

/// What nodes say to each other of who is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// I am.
    Here,
    /// Are you?
    AreYouThere,
    /// This one is not.
    Gone(Death),
    /// I know.
    Noted(Death),
}

/// How much a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It answers.
    Stopped,
    /// It tells of deaths.
    Retired,
    /// It watches as soon as it knows what time it is.
    New,
    /// It watches.
    Watching,
}

/// See this module.
#[derive(Debug)]
pub(super) struct Watch {
    circle: Circle,
    stage: Stage,
    gone: Gone,
    /// Those that this node has to watch.
    watched: BTreeSet<u32>,
    /// Nodes that are watched, or looked at until they are heard.
    sights: BTreeMap<u32, Sight>,
    news: News,
    /// When to say the next time that this node is there, ns.
    here_ns: u64,
    /// When it looked at all its peers, ns.
    looked_ns: Option<u64>,
    /// When it is to look at them again, ns.
    look_ns: Option<u64>,
    /// What is to be said to whom.
    words: BTreeMap<u32, BTreeSet<Word>>,
    /// Deaths that nothing was done about yet.
    found: Vec<Death>,
}

/// A node that is watched.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// When it was heard, or began to be watched, ns.
    heard_ns: u64,
    /// Since when it has not answered, ns.
    asked_ns: Option<u64>,
    /// When to ask it, ns.
    ask_ns: u64,
}

impl Sight {
    /// One that was heard.
    fn of_heard(now_ns: u64) -> Self {
        Self { heard_ns: now_ns, asked_ns: None, ask_ns: now_ns.saturating_add(LATE_NS) }
    }

    /// One that is being asked.
    fn of_asked(now_ns: u64) -> Self {
        Self { heard_ns: now_ns, asked_ns: Some(now_ns), ask_ns: now_ns.saturating_add(PMI_WATCH_ASK_NS) }
    }

    /// When it counts as dead, if it is not heard, ns.
    fn dead_ns(self) -> Option<u64> {
        let asked_ns = self.asked_ns?;
        Some(self.heard_ns.saturating_add(DEAD_NS).max(asked_ns.saturating_add(DEAD_NS - LATE_NS)))
    }
}

impl Watch {
    /// Of node `me` among `nodes`.
    pub(super) fn new(me: u32, nodes: u32) -> Self {
        Self {
            circle: Circle::new(me, nodes),
            stage: if nodes > 1 { Stage::New } else { Stage::Stopped },
            gone: Gone::new(),
            watched: BTreeSet::new(),
            sights: BTreeMap::new(),
            news: News::default(),
            here_ns: 0,
            looked_ns: None,
            look_ns: None,
            words: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    /// The job has failed.
    pub(super) fn retire(&mut self) {
        self.stage = self.stage.min(Stage::Retired);
        self.sights.clear();
        self.look_ns = None;
    }

    /// Nobody is watched any more, and nothing is said unasked.
    pub(super) fn stop(&mut self) {
        self.retire();
        self.stage = Stage::Stopped;
        self.news = News::default();
        self.words.clear();
    }

    /// Whether a node is known to be gone.
    pub(super) fn is_gone(&self, node: u32) -> bool {
        self.gone.contains_key(&node)
    }

    /// All that are.
    pub(super) fn gone(&self) -> Vec<u32> {
        self.gone.keys().copied().collect()
    }

    /// What it takes of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let words: usize = self.words.values().map(BTreeSet::len).sum();
        let of_peers = self.sights.len() * size_of::<[Sight; 2]>() + words * size_of::<[Word; 2]>();
        of_peers + self.news.memory_bytes() + self.gone.len() * size_of::<[u64; 2]>()
    }

    /// Something has come from a node: that it was not told of the job, or something else.
    pub(super) fn hear(&mut self, from: u32, is_absent: bool, now_ns: u64) {
        if is_absent {
            self.news.is_absent(from, now_ns);
        }
        if self.sights.contains_key(&from) {
            if self.watched.contains(&from) {
                self.sights.insert(from, Sight::of_heard(now_ns));
            } else {
                self.sights.remove(&from);
            }
        }
    }

    /// What a node says. Then see [`Self::take_found`].
    pub(super) fn take(&mut self, from: u32, word: Word, now_ns: u64) {
        match word {
            Word::Here => {}
            Word::AreYouThere => self.say(from, Word::Here),
            Word::Noted(Death { node, .. }) => self.news.is_known(from, node),
            Word::Gone(death) => {
                self.say(from, Word::Noted(death));
                let is_believed = !self.is_gone(from) && death.node != self.circle.me();
                if is_believed && self.stage > Stage::Stopped && !self.is_gone(death.node) {
                    self.learn(death, now_ns);
                }
                self.news.is_known(from, death.node);
                self.unsay(from, Word::Gone(death));
            }
        }
    }

    /// A node is gone, of which all others are told without this one.
    pub(super) fn is_told(&mut self, node: u32, now_ns: u64) {
        if !self.is_gone(node) {
            self.lose(Death { node, by: self.circle.me() });
            self.watch_others(now_ns);
        }
    }

    /// A node is dead, and nobody here knew.
    fn learn(&mut self, death: Death, now_ns: u64) {
        self.lose(death);
        self.found.push(death);
        let peers = self.circle.peers(&self.gone);
        for peer in &peers {
            if self.news.tell(*peer, death, now_ns) {
                self.say(*peer, Word::Gone(death));
            }
        }
        if peers.is_empty() {
            let me = self.circle.me();
            let others = (0..self.circle.nodes()).filter(|node| *node != me && !self.gone.contains_key(node));
            for node in others.collect::<Vec<_>>() {
                self.lose(Death { node, by: me });
                self.found.push(Death { node, by: me });
            }
        }
        self.watch_others(now_ns);
        if self.stage == Stage::Watching {
            match self.looked_ns.map(|looked_ns| looked_ns.saturating_add(PMI_WATCH_NS)) {
                Some(next_ns) if now_ns < next_ns => self.look_ns = Some(next_ns),
                _ => self.look(now_ns),
            }
        }
    }

    fn lose(&mut self, Death { node, by }: Death) {
        self.gone.insert(node, by);
        self.sights.remove(&node);
        self.words.remove(&node);
        self.news.forget(node);
    }

    /// Begins to watch whoever has to be watched now and was not.
    fn watch_others(&mut self, now_ns: u64) {
        if self.stage == Stage::Watching {
            self.watched = self.circle.watched(&self.gone);
            for node in &self.watched {
                self.sights.entry(*node).or_insert_with(|| Sight::of_heard(now_ns));
            }
        }
    }

    /// Wants to hear from all peers once.
    fn look(&mut self, now_ns: u64) {
        (self.looked_ns, self.look_ns) = (Some(now_ns), None);
        for peer in self.circle.peers(&self.gone) {
            // Who is told something answers that.
            if !self.news.has(peer) {
                self.say(peer, Word::AreYouThere);
            }
            let sight = self.sights.entry(peer).or_insert_with(|| Sight::of_asked(now_ns));
            sight.asked_ns.get_or_insert(now_ns);
        }
    }

    fn say(&mut self, to: u32, word: Word) {
        let words = self.words.entry(to).or_default();
        // Beside news and that they are known there are two words.
        if words.len() < 2 * PMI_NEWS_MAX + 2 {
            words.insert(word);
        }
    }

    fn unsay(&mut self, to: u32, word: Word) {
        if let Some(words) = self.words.get_mut(&to) {
            words.remove(&word);
        }
    }

    /// Deaths that were found.
    pub(super) fn take_found(&mut self) -> Vec<Death> {
        core::mem::take(&mut self.found)
    }

    /// Whether there is a word for a node.
    pub(super) fn has_output(&self, peer: u32) -> bool {
        self.words.get(&peer).is_some_and(|words| !words.is_empty())
    }

    /// The next word for a node.
    pub(super) fn poll_transmit(&mut self, peer: u32) -> Option<Word> {
        let words = self.words.get_mut(&peer)?;
        let word = words.pop_first();
        if words.is_empty() {
            self.words.remove(&peer);
        }
        word
    }

    /// What was said to a node may be lost. Who was asked is asked again soon; who has asked asks again himself.
    pub(super) fn reconnected(&mut self, peer: u32) {
        self.news.reconnected(peer);
        if self.is_gone(peer) {
            self.words.remove(&peer);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let of_news = self.news.poll_timeout();
        match self.stage {
            Stage::Stopped => None,
            Stage::Retired => of_news,
            Stage::New => Some(0),
            Stage::Watching => {
                let of_sights = self.sights.values().flat_map(|sight| [Some(sight.ask_ns), sight.dead_ns()]);
                of_sights.chain([Some(self.here_ns), self.look_ns, of_news]).flatten().min()
            }
        }
    }

    /// Says what time it is. Then see [`Self::take_found`].
    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        if self.stage == Stage::New {
            self.stage = Stage::Watching;
            self.here_ns = now_ns.saturating_add(PMI_WATCH_NS);
            self.watch_others(now_ns);
        }
        if self.stage == Stage::Watching {
            self.go_on(now_ns);
        }
        if self.stage > Stage::Stopped {
            for (peer, death) in self.news.due(now_ns) {
                self.say(peer, Word::Gone(death));
            }
        }
    }

    fn go_on(&mut self, now_ns: u64) {
        if now_ns >= self.here_ns {
            self.here_ns = now_ns.saturating_add(PMI_WATCH_NS);
            for observer in self.circle.observers(&self.gone) {
                self.say(observer, Word::Here);
            }
        }
        if self.look_ns.is_some_and(|look_ns| look_ns <= now_ns) {
            self.look(now_ns);
        }
        let mut late = Vec::new();
        for (node, sight) in &mut self.sights {
            if sight.ask_ns <= now_ns {
                sight.ask_ns = now_ns.saturating_add(PMI_WATCH_ASK_NS);
                sight.asked_ns.get_or_insert(now_ns);
                late.push(*node);
            }
        }
        late.into_iter().for_each(|node| self.say(node, Word::AreYouThere));
        let is_dead = |sight: &Sight| sight.dead_ns().is_some_and(|dead_ns| dead_ns <= now_ns);
        let dead: Vec<u32> = self.sights.iter().filter(|(_, sight)| is_dead(sight)).map(|(node, _)| *node).collect();
        for node in dead {
            if !self.is_gone(node) {
                self.learn(Death { node, by: self.circle.me() }, now_ns);
            }
        }
    }
}
