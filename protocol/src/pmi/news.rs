//! News of deaths on their way to the peers of a node.
//!
//! Whoever hears of a death tells all its peers, of which each tells its own: `⌈log₂ n⌉` hops from the first to the
//! last at most, and on as many ways as a node has peers, so that other dead nodes on the way cut nobody off. A node is
//! told again every [`PMI_WATCH_ASK_NS`] until it says that it knows, or tells the same. Who does not say so for twice
//! [`PMI_WATCH_NS`] is told no more: it is dead itself, or has heard of it from others. Who says that it was not told
//! of the job may be for longer, and is told every [`PMI_WATCH_NS`].

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::limits::{PMI_NEWS_MAX, PMI_WATCH_ASK_NS, PMI_WATCH_NS};

/// A node is dead, and who has found that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Death {
    pub(super) node: u32,
    pub(super) by: u32,
}

/// See this module.
#[derive(Debug, Default)]
pub(super) struct News {
    tellings: BTreeMap<u32, Telling>,
}

/// What a peer is told.
#[derive(Debug)]
struct Telling {
    deaths: BTreeSet<Death>,
    again_ns: u64,
    until_ns: u64,
}

impl News {
    /// A peer is told of a death. False at the limit.
    pub(super) fn tell(&mut self, peer: u32, death: Death, now_ns: u64) -> bool {
        let until_ns = now_ns.saturating_add(2 * PMI_WATCH_NS);
        let telling = self.tellings.entry(peer).or_insert_with(|| {
            let again_ns = now_ns.saturating_add(PMI_WATCH_ASK_NS);
            Telling { deaths: BTreeSet::new(), again_ns, until_ns }
        });
        telling.until_ns = until_ns;
        telling.deaths.len() < PMI_NEWS_MAX && telling.deaths.insert(death)
    }

    /// A peer knows of a death.
    pub(super) fn is_known(&mut self, peer: u32, node: u32) {
        if let Some(telling) = self.tellings.get_mut(&peer) {
            telling.deaths.retain(|death| death.node != node);
            if telling.deaths.is_empty() {
                self.tellings.remove(&peer);
            }
        }
    }

    /// A peer was not told of the job.
    pub(super) fn is_absent(&mut self, peer: u32, now_ns: u64) {
        if let Some(telling) = self.tellings.get_mut(&peer) {
            telling.again_ns = now_ns.saturating_add(PMI_WATCH_NS);
            telling.until_ns = now_ns.saturating_add(2 * PMI_WATCH_NS);
        }
    }

    /// What was said to a peer may be lost.
    pub(super) fn reconnected(&mut self, peer: u32) {
        if let Some(telling) = self.tellings.get_mut(&peer) {
            telling.again_ns = 0;
        }
    }

    /// A peer is told nothing.
    pub(super) fn forget(&mut self, peer: u32) {
        self.tellings.remove(&peer);
    }

    /// Whether a peer is being told something.
    pub(super) fn has(&self, peer: u32) -> bool {
        self.tellings.contains_key(&peer)
    }

    /// What it takes of the node's memory, about, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.tellings.values().map(|telling| telling.deaths.len() * size_of::<[Death; 2]>()).sum()
    }

    /// When something is to be said again, or no more, ns.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.tellings.values().map(|telling| telling.again_ns.min(telling.until_ns)).min()
    }

    /// What is to be said again.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<(u32, Death)> {
        self.tellings.retain(|_, telling| now_ns < telling.until_ns);
        let mut due = Vec::new();
        for (peer, telling) in self.tellings.iter_mut().filter(|(_, telling)| telling.again_ns <= now_ns) {
            telling.again_ns = now_ns.saturating_add(PMI_WATCH_ASK_NS);
            due.extend(telling.deaths.iter().map(|death| (*peer, *death)));
        }
        due
    }
}
