//! The ranks of one job, and what is asked of all of them together.
//!
//! A job may have tens of thousands of ranks, and each reports several times. So what a report makes of the whole –
//! whether all run, whether all have ended, which psets still have some – is counted as they report; only what is done
//! once in a job's life walks them.

use std::collections::BTreeMap;
use std::ops::Range;

use coppice_api::job::{RankOutcome, RankView};
use coppice_api::retain::RetainAnswer;
use coppice_protocol::ids::{NodeId, PsetId, Rank};

use super::walks::walked;

/// One rank of a job that has nodes.
#[derive(Debug)]
pub(super) struct RankState {
    pub(super) node: NodeId,
    pub(super) pset: PsetId,
    /// The node is believed to hold pages of the program, and is told to keep them for the launch.
    pub(super) use_retained: bool,
    /// What the node answered to that, of the first of its ranks.
    pub(super) retain: Option<RetainAnswer>,
    launched: bool,
    end: Option<RankEnd>,
}

/// What its job has to know of a rank that has ended. All else is recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankEnd {
    pub(super) outcome: RankOutcome,
    pub(super) exit: Option<u8>,
    pub(super) signal: Option<u8>,
    /// The job was being killed by then, and it did not end by a signal that somebody asked for, so that it is a
    /// consequence of that, however it ended: a rank may have written to one that was killed just before it.
    pub(super) was_being_killed: bool,
    pub(super) pages_retained: u64,
    pub(super) pages_fetched: u64,
}

impl RankEnd {
    fn of(report: &RankView, was_being_killed: bool) -> Self {
        Self {
            was_being_killed,
            outcome: report.outcome,
            exit: report.exit,
            signal: report.signal,
            pages_retained: report.pages_retained,
            pages_fetched: report.counters.pages_fetched,
        }
    }
}

impl RankState {
    /// It was launched and has not ended.
    pub(super) fn runs(&self) -> bool {
        self.launched && !self.has_ended()
    }

    pub(super) fn new(node: NodeId, pset: PsetId, use_retained: bool) -> Self {
        Self { node, pset, use_retained, retain: None, launched: false, end: None }
    }

    /// What became of it, once it has ended.
    pub(super) fn end(&self) -> Option<&RankEnd> {
        self.end.as_ref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }
}

/// All ranks of a job, in order; none while it is queued.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    all: Vec<RankState>,
    /// The ranks of each node: they follow each other.
    nodes: BTreeMap<NodeId, OnNode>,
    /// Ranks of each pset that have not ended.
    live: BTreeMap<PsetId, u32>,
    /// Ranks that have not ended.
    live_count: usize,
    /// Ranks of which no launch was reported.
    unlaunched: usize,
    /// Signals that ended ranks, each with the first of them.
    signals: BTreeMap<u8, Rank>,
    /// Why a rank was lost, the first of those that were.
    lost: Option<(Rank, Option<String>)>,
}

/// The ranks of a node.
#[derive(Debug)]
struct OnNode {
    ranks: Range<u32>,
    /// Those that have not ended.
    live: u32,
}

impl Ranks {
    /// Ranks none of which has begun.
    pub(super) fn new(all: Vec<RankState>) -> Self {
        let (mut nodes, mut live) = (BTreeMap::<NodeId, OnNode>::new(), BTreeMap::new());
        for (state, number) in all.iter().zip(0..) {
            let on = nodes.entry(state.node).or_insert(OnNode { ranks: number..number, live: 0 });
            on.ranks.end = number + 1;
            on.live += 1;
            *live.entry(state.pset).or_default() += 1;
        }
        let count = all.len();
        Self { all, nodes, live, live_count: count, unlaunched: count, signals: BTreeMap::new(), lost: None }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, rank: Rank) -> Option<&RankState> {
        self.all.get(rank.0 as usize)
    }

    /// A rank's launch was reported. Returns whether that is something new.
    pub(super) fn launched(&mut self, rank: Rank) -> bool {
        let Some(state) = self.all.get_mut(rank.0 as usize).filter(|state| !state.launched) else { return false };
        state.launched = true;
        self.unlaunched -= 1;
        true
    }

    /// A rank has ended. Only its first report counts; returns whether this is it.
    pub(super) fn ended(&mut self, rank: Rank, report: &RankView, was_being_killed: bool) -> bool {
        let Some(state) = self.all.get_mut(rank.0 as usize).filter(|state| !state.has_ended()) else { return false };
        if let Some(signal) = report.signal {
            let first = self.signals.entry(signal).or_insert(rank);
            *first = rank.min(*first);
        }
        if report.outcome == RankOutcome::Lost && self.lost.as_ref().is_none_or(|(first, _)| rank < *first) {
            self.lost = Some((rank, report.reason.clone()));
        }
        if let Some(live) = self.live.get_mut(&state.pset) {
            *live -= 1;
        }
        if let Some(on) = self.nodes.get_mut(&state.node) {
            on.live -= 1;
        }
        self.live_count -= 1;
        state.end = Some(RankEnd::of(report, was_being_killed));
        true
    }

    /// Whether every rank has ended.
    pub(super) fn have_ended(&self) -> bool {
        self.live_count == 0
    }

    /// Whether every rank was started.
    pub(super) fn were_launched(&self) -> bool {
        self.unlaunched == 0
    }

    /// The first rank of which no launch was reported, nor an end, and its node.
    pub(super) fn first_unlaunched(&self) -> Option<(Rank, NodeId)> {
        let (rank, state) = self.live().find(|(_, state)| !state.launched)?;
        Some((rank, state.node))
    }

    /// Signals that ended ranks, each with the first of them.
    pub(super) fn signals(&self) -> impl Iterator<Item = (u8, Rank)> {
        self.signals.iter().map(|(signal, rank)| (*signal, *rank))
    }

    /// The ranks on a node.
    pub(super) fn on(&self, node: NodeId) -> impl Iterator<Item = Rank> + use<> {
        self.nodes.get(&node).map(|on| on.ranks.clone()).unwrap_or_default().map(Rank)
    }

    /// Those on a node that have not ended.
    pub(super) fn live_on(&self, node: NodeId) -> impl Iterator<Item = Rank> {
        self.on(node).filter(|rank| self.get(*rank).is_some_and(|state| !state.has_ended()))
    }

    /// Whether there are such.
    pub(super) fn are_live_on(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|on| on.live > 0)
    }

    /// The nodes of those that have not ended.
    pub(super) fn live_nodes(&self) -> impl Iterator<Item = NodeId> {
        walked(self.nodes.iter().filter(|(_, on)| on.live > 0).map(|(node, _)| *node))
    }

    /// Why the first rank that was lost was, if one was.
    pub(super) fn first_lost(&self) -> Option<&str> {
        self.lost.as_ref().and_then(|(_, reason)| reason.as_deref())
    }

    /// The first rank on a node, which has what is the node's as a whole.
    pub(super) fn first_on(&mut self, node: NodeId) -> Option<&mut RankState> {
        let first = self.nodes.get(&node)?.ranks.start;
        self.all.get_mut(first as usize)
    }

    /// Whether it has ranks, ended or not, on a node and that is of this pset.
    pub(super) fn are_on(&self, node: NodeId, pset: PsetId) -> bool {
        let first = self.on(node).next().and_then(|rank| self.get(rank));
        first.is_some_and(|state| state.pset == pset)
    }

    /// Every pset the job is on.
    pub(super) fn psets(&self) -> impl Iterator<Item = PsetId> {
        self.live.keys().copied()
    }

    /// Psets that still have ranks of the job.
    pub(super) fn live_psets(&self) -> impl Iterator<Item = PsetId> {
        self.live.iter().filter(|(_, live)| **live > 0).map(|(pset, _)| *pset)
    }

    /// Whether the job is on a pset.
    pub(super) fn are_in(&self, pset: PsetId) -> bool {
        self.live.contains_key(&pset)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Rank, &RankState)> {
        walked(self.all.iter().zip(0..).map(|(state, number)| (Rank(number), state)))
    }

    /// Those that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = (Rank, &RankState)> {
        self.iter().filter(|(_, state)| !state.has_ended())
    }

    /// What became of those that have ended.
    pub(super) fn ends(&self) -> impl Iterator<Item = &RankEnd> {
        self.iter().filter_map(|(_, state)| state.end())
    }

    /// The job's nodes in the order of the ranks, each with its ranks.
    pub(super) fn by_node(&self) -> impl Iterator<Item = (NodeId, &[RankState])> {
        let groups = self.all.chunk_by(|one, other| one.node == other.node);
        walked(groups.filter_map(|ranks| Some((ranks.first()?.node, ranks))))
    }
}
