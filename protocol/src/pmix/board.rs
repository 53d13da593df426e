//! What ranks of this node are to be told: each has asked for events by their codes, or for all.
//!
//! What has come is kept for a while, told or not, in the order in which it came: a rank that asks for it later is told
//! then, and a rank that does not read is told when it does. Nothing is told to a rank twice. Beyond the limits the
//! oldest is forgotten, whoever may not have heard of it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::notification::Notification;
use super::status::Status;
use crate::ids::Rank;
use crate::limits::{PMIX_EVENTS_KEPT_BYTES_MAX, PMIX_EVENTS_KEPT_MAX, PMIX_EVENTS_KEPT_NS, PMIX_HANDLERS_MAX};
use crate::pmi::NodeRanks;

/// The code of a handler of whatever nobody else handles (`PMIX_MAX_ERR_CONSTANT`).
pub(super) const DEFAULT: i32 = i32::MIN;

/// See this module. It can be written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Board {
    /// What each rank has asked for.
    handlers: BTreeMap<Rank, BTreeSet<i32>>,
    /// The oldest first.
    kept: VecDeque<Kept>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    notification: Notification,
    /// Who is to be told, and has asked for it.
    owed: BTreeSet<Rank>,
    told: BTreeSet<Rank>,
    /// When it came, ns. Who goes on elsewhere counts anew.
    #[serde(skip)]
    since_ns: u64,
}

/// Under which of a notification's codes a rank with these handlers is told of it, if it is.
fn code(notification: &Notification, handlers: &BTreeSet<i32>) -> Option<i32> {
    let codes = notification.codes();
    let asked_for = codes.iter().copied().find(|code| handlers.contains(code));
    let is_default = notification.is_for_defaults() && handlers.contains(&DEFAULT);
    asked_for.or(codes.first().copied().filter(|_| is_default))
}

impl Board {
    /// What it takes of the node's memory, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let codes = self.handlers.values().map(BTreeSet::len).sum::<usize>() * size_of::<usize>();
        codes + self.kept_bytes()
    }

    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.notification.memory_bytes()).sum()
    }

    /// Whether it is of ranks of this node in a job of so many nodes and within the limits, if it was written down.
    pub(crate) fn is_of(&self, here: NodeRanks, nodes: u32) -> bool {
        let are_here = |ranks: &BTreeSet<Rank>| ranks.iter().all(|rank| here.has(*rank));
        self.handlers.iter().all(|(rank, codes)| here.has(*rank) && codes.len() <= PMIX_HANDLERS_MAX)
            && self.kept.len() <= PMIX_EVENTS_KEPT_MAX
            && self.kept_bytes() <= PMIX_EVENTS_KEPT_BYTES_MAX
            && self.kept.iter().all(|kept| {
                are_here(&kept.owed) && are_here(&kept.told) && kept.notification.is_within_limits(nodes, false)
            })
    }

    /// A rank asks for what has these codes.
    ///
    /// # Errors
    /// [`Status::OUT_OF_RESOURCE`]: for more than it may. Then it has asked for nothing.
    pub(crate) fn register(&mut self, rank: Rank, codes: &[i32], now_ns: u64) -> Result<(), Status> {
        let mut handlers = self.handlers.get(&rank).cloned().unwrap_or_default();
        let new: BTreeSet<i32> = codes.iter().copied().collect();
        handlers.extend(&new);
        if handlers.len() > PMIX_HANDLERS_MAX {
            return Err(Status::OUT_OF_RESOURCE);
        }
        self.handlers.insert(rank, handlers);
        self.forget_old(now_ns);
        for kept in self.kept.iter_mut().filter(|kept| kept.notification.is_for(rank) && !kept.told.contains(&rank)) {
            if kept.notification.is_kept() && code(&kept.notification, &new).is_some() {
                kept.owed.insert(rank);
            }
        }
        Ok(())
    }

    /// A rank asks for that no longer.
    pub(crate) fn deregister(&mut self, rank: Rank, codes: &[i32]) {
        if let Some(handlers) = self.handlers.get_mut(&rank) {
            handlers.retain(|code| !codes.contains(code));
        }
    }

    /// A rank is told nothing more.
    pub(crate) fn left(&mut self, rank: Rank) {
        self.handlers.remove(&rank);
        for kept in &mut self.kept {
            kept.owed.remove(&rank);
            kept.told.remove(&rank);
        }
    }

    /// Something has happened. These ranks of the node are to be told.
    pub(crate) fn post(&mut self, notification: Notification, here: NodeRanks, now_ns: u64) -> Vec<Rank> {
        let is_asked_for = |rank: &Rank| {
            let handlers = self.handlers.get(rank);
            notification.is_for(*rank) && handlers.is_some_and(|handlers| code(&notification, handlers).is_some())
        };
        let owed: BTreeSet<Rank> = here.ranks().filter(is_asked_for).collect();
        let ranks = owed.iter().copied().collect();
        if notification.is_kept() || !owed.is_empty() {
            self.kept.push_back(Kept { notification, owed, told: BTreeSet::new(), since_ns: now_ns });
        }
        self.forget_old(now_ns);
        ranks
    }

    /// What a rank is to be told next, and under which code. It is told.
    pub(crate) fn take(&mut self, rank: Rank) -> Option<(i32, Notification)> {
        let handlers = self.handlers.get(&rank)?;
        let mut found = None;
        for kept in self.kept.iter_mut().filter(|kept| kept.owed.contains(&rank)) {
            kept.owed.remove(&rank);
            // It may not want to hear of that any longer.
            if let Some(code) = code(&kept.notification, handlers) {
                kept.told.insert(rank);
                found = Some((code, kept.notification.clone()));
                break;
            }
        }
        self.kept.retain(|kept| kept.notification.is_kept() || !kept.owed.is_empty());
        found
    }

    /// What has been kept for long is for nobody who asks for it later, and the limits are kept.
    fn forget_old(&mut self, now_ns: u64) {
        let is_old = |kept: &Kept| now_ns.saturating_sub(kept.since_ns) > PMIX_EVENTS_KEPT_NS;
        self.kept.retain(|kept| !kept.owed.is_empty() || !is_old(kept));
        let mut bytes = self.kept_bytes();
        while self.kept.len() > PMIX_EVENTS_KEPT_MAX || bytes > PMIX_EVENTS_KEPT_BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else { break };
            bytes -= oldest.notification.memory_bytes();
        }
    }

    /// The ranks run again, elsewhere or here: what is kept counts from now on, and these are to be told.
    pub(crate) fn go_on(&mut self, now_ns: u64) -> Vec<Rank> {
        let mut ranks = BTreeSet::new();
        for kept in &mut self.kept {
            kept.since_ns = now_ns;
            ranks.extend(kept.owed.iter().copied());
        }
        ranks.into_iter().collect()
    }
}
