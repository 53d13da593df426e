//! What comes from below, epoch by epoch: parts of those below are brought together until all have come, or until some
//! have waited long enough for the others.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::message::{Child, Source};
use super::part::{NotMerged, Part};
use crate::ids::Rank;
use crate::limits::{OVERLAY_AHEAD_EPOCHS_MAX, OVERLAY_GRACE_NS, OVERLAY_OPEN_EPOCHS_MAX, OVERLAY_STRANGERS_MAX};
use crate::ranks::Ranks;

/// See this module.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Who is below, and of whom it may say something.
    children: BTreeMap<Source, Ranks>,
    open: BTreeMap<u64, Open>,
    /// Epochs before that are closed.
    next: u64,
    /// The last epoch of which each of those below has said something.
    latest: BTreeMap<Source, u64>,
    /// How long an epoch waits for those that are late, from its first part on, ns.
    grace_ns: u64,
    /// What came together.
    closed: VecDeque<Part>,
    /// Parts of those that are not below, or of ranks that are not theirs: whoever knows that they are may say so
    /// later.
    strangers: VecDeque<(Source, bool, Part)>,
    /// How many messages about stacks have come from those below.
    stacks_said: BTreeMap<Source, u64>,
    /// Parts that were not taken, or were said before, and stacks.
    pub(super) refused: u64,
}

/// An epoch for which somebody has come, but not all.
#[derive(Debug)]
struct Open {
    part: Part,
    came: BTreeSet<Source>,
    since_ns: u64,
}

/// What becomes of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in what comes together, or is refused.
    Here,
    /// It goes on its own: its epoch is closed, or it was to stay apart.
    Apart(Part),
}

impl Gathering {
    /// From these, where so many are between here and the back ends, this one included.
    pub(super) fn new(children: impl IntoIterator<Item = Child>, height: u32) -> Self {
        Self {
            children: children.into_iter().map(|child| (child.source, child.ranks)).collect(),
            open: BTreeMap::new(),
            next: 0,
            latest: BTreeMap::new(),
            grace_ns: OVERLAY_GRACE_NS.saturating_mul(height.max(1).into()),
            closed: VecDeque::new(),
            strangers: VecDeque::new(),
            stacks_said: BTreeMap::new(),
            refused: 0,
        }
    }

    /// A part comes from one below.
    pub(super) fn take(&mut self, source: Source, is_apart: bool, part: Part, now_ns: u64) -> Taken {
        let is_own = match source {
            // Of nodes it says something of its own.
            Source::BackEnds(node) => Ranks::from(Rank(node.0)).has_all(part.nodes()),
            Source::Process(_) => true,
        };
        let is_theirs = is_own && self.children.get(&source).is_some_and(|ranks| ranks.has_all(part.ranks()));
        if !is_theirs {
            if self.strangers.len() >= OVERLAY_STRANGERS_MAX {
                self.strangers.pop_front();
                self.refused += 1;
            }
            self.strangers.push_back((source, is_apart, part));
            return Taken::Here;
        }
        if is_apart || part.epoch() < self.next {
            return Taken::Apart(part);
        }
        let epoch = part.epoch();
        self.latest.insert(source, epoch);
        if self.is_far_ahead(source, epoch) {
            self.refused += 1;
            return Taken::Here;
        }
        let none = || Open { part: Part::none(epoch), came: BTreeSet::new(), since_ns: now_ns };
        let open = self.open.entry(epoch).or_insert_with(none);
        match open.part.merge(&part) {
            Ok(()) => {}
            Err(NotMerged::Scattered) => return Taken::Apart(part),
            Err(NotMerged::Again | NotMerged::Overlaps | NotMerged::OtherEpoch) => {
                self.refused += 1;
                return Taken::Here;
            }
        }
        open.came.insert(source);
        self.close_whole();
        // Somebody whose clock runs ahead must not have all others be late: the first epochs go, with who is in them.
        while self.open.len() > OVERLAY_OPEN_EPOCHS_MAX
            && let Some(first) = self.open.keys().next().copied()
        {
            self.close_to(first);
        }
        Taken::Here
    }

    /// Whether what was gathered, and most of the others, are far from there yet: the clock of whoever says so is
    /// wrong, and if he were heard all others would be late. Others that are silent hold nobody up: epochs are closed
    /// without them.
    fn is_far_ahead(&self, source: Source, epoch: u64) -> bool {
        if epoch <= self.next.saturating_add(OVERLAY_AHEAD_EPOCHS_MAX) {
            return false;
        }
        let others = self.latest.iter().filter(|(other, _)| **other != source && self.children.contains_key(other));
        let (all, behind) = others.fold((0, 0), |(all, behind), (_, latest)| {
            (all + 1, behind + u32::from(latest.saturating_add(OVERLAY_AHEAD_EPOCHS_MAX) < epoch))
        });
        behind * 2 > all
    }

    /// Stacks come, as the message of this number of who says so. Whether they count: he is below, and they are new.
    pub(super) fn hears_stacks(&mut self, source: Source, number: u64) -> bool {
        let last = self.stacks_said.get(&source).copied().unwrap_or_default();
        let counts = number > last && self.children.contains_key(&source);
        if counts {
            self.stacks_said.insert(source, number);
        } else {
            self.refused += 1;
        }
        counts
    }

    /// Others are below. What goes on its own of what they have said already.
    pub(super) fn change(
        &mut self,
        without: Option<Source>,
        with: impl IntoIterator<Item = Child>,
        now_ns: u64,
    ) -> Vec<Part> {
        if let Some(source) = without {
            self.children.remove(&source);
            self.stacks_said.remove(&source);
            self.latest.remove(&source);
        }
        for Child { source, ranks } in with {
            // Back ends that come in parts are the same source.
            let own = self.children.entry(source).or_default();
            if !own.join(&ranks) {
                *own = ranks;
            }
        }
        let early = core::mem::take(&mut self.strangers);
        let taken = early.into_iter().map(|(source, is_apart, part)| self.take(source, is_apart, part, now_ns));
        let apart = taken.filter_map(|taken| if let Taken::Apart(part) = taken { Some(part) } else { None }).collect();
        self.close_whole();
        apart
    }

    /// Epochs before that are closed.
    pub(super) const fn closed_to(&self) -> u64 {
        self.next
    }

    /// Closes what all have come to.
    fn close_whole(&mut self) {
        let all = &self.children;
        let is_whole = |open: &Open| all.keys().all(|child| open.came.contains(child));
        let last = self.open.iter().rev().find(|(_, open)| is_whole(open)).map(|(epoch, _)| *epoch);
        last.inspect(|last| self.close_to(*last));
    }

    /// Closes an epoch, and those before it: what comes from one below comes in order.
    fn close_to(&mut self, last: u64) {
        let later = self.open.split_off(&last.saturating_add(1));
        let closed = core::mem::replace(&mut self.open, later);
        self.closed.extend(closed.into_values().map(|open| open.part));
        self.next = last.saturating_add(1);
    }

    /// Nothing else will come.
    pub(super) fn close_all(&mut self) {
        let last = self.open.keys().next_back().copied();
        last.inspect(|last| self.close_to(*last));
    }

    /// The next that has come together.
    pub(super) fn poll(&mut self) -> Option<Part> {
        self.closed.pop_front()
    }

    /// When [`Self::handle_timeout`] wants to be called, ns.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        self.open.values().map(|open| open.since_ns.saturating_add(self.grace_ns)).min()
    }

    /// Says what time it is.
    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        let is_late = |open: &Open| open.since_ns.saturating_add(self.grace_ns) <= now_ns;
        let last = self.open.iter().rev().find(|(_, open)| is_late(open)).map(|(epoch, _)| *epoch);
        last.inspect(|last| self.close_to(*last));
    }
}
