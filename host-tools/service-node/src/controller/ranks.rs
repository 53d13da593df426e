//! The ranks of one job, and what is asked of all of them together.
//!
//! A job may have tens of thousands of ranks, and each reports several times. So what a report makes of the whole –
//! whether all run, whether all have ended, which psets still have some – is counted as they report; only what is done
//! once in a job's life walks them.

use std::collections::BTreeMap;
use std::ops::Range;

use coppice_api::job::RankView;
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
    report: Option<RankView>,
}

impl RankState {
    /// It was launched and has not ended.
    pub(super) fn runs(&self) -> bool {
        self.launched && !self.has_ended()
    }

    pub(super) fn new(node: NodeId, pset: PsetId, use_retained: bool) -> Self {
        Self { node, pset, use_retained, retain: None, launched: false, report: None }
    }

    /// What became of it, once it has ended.
    pub(super) fn report(&self) -> Option<&RankView> {
        self.report.as_ref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.report.is_some()
    }
}

/// All ranks of a job, in order; none while it is queued.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    all: Vec<RankState>,
    /// The ranks of each node: they follow each other.
    nodes: BTreeMap<NodeId, Range<u32>>,
    /// Ranks of each pset that have not ended.
    live: BTreeMap<PsetId, u32>,
    /// Ranks that have not ended.
    live_count: usize,
    /// Ranks of which no launch was reported.
    unlaunched: usize,
    /// Signals that ended ranks, each with the first of them.
    signals: BTreeMap<u8, Rank>,
}

impl Ranks {
    /// Ranks none of which has begun.
    pub(super) fn new(all: Vec<RankState>) -> Self {
        let (mut nodes, mut live) = (BTreeMap::<NodeId, Range<u32>>::new(), BTreeMap::new());
        for (state, number) in all.iter().zip(0..) {
            nodes.entry(state.node).or_insert(number..number).end = number + 1;
            *live.entry(state.pset).or_default() += 1;
        }
        let count = all.len();
        Self { all, nodes, live, live_count: count, unlaunched: count, signals: BTreeMap::new() }
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
    pub(super) fn ended(&mut self, rank: Rank, report: RankView) -> bool {
        let Some(state) = self.all.get_mut(rank.0 as usize).filter(|state| !state.has_ended()) else { return false };
        if let Some(signal) = report.signal {
            let first = self.signals.entry(signal).or_insert(rank);
            *first = rank.min(*first);
        }
        if let Some(live) = self.live.get_mut(&state.pset) {
            *live -= 1;
        }
        self.live_count -= 1;
        state.report = Some(report);
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

    /// Signals that ended ranks, each with the first of them.
    pub(super) fn signals(&self) -> impl Iterator<Item = (u8, Rank)> {
        self.signals.iter().map(|(signal, rank)| (*signal, *rank))
    }

    /// The ranks on a node.
    pub(super) fn on(&self, node: NodeId) -> impl Iterator<Item = Rank> + use<> {
        self.nodes.get(&node).cloned().unwrap_or_default().map(Rank)
    }

    /// Those on a node that have not ended.
    pub(super) fn live_on(&self, node: NodeId) -> impl Iterator<Item = Rank> {
        self.on(node).filter(|rank| self.get(*rank).is_some_and(|state| !state.has_ended()))
    }

    /// The first rank on a node, which has what is the node's as a whole.
    pub(super) fn first_on(&mut self, node: NodeId) -> Option<&mut RankState> {
        let first = self.nodes.get(&node)?.start;
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
    pub(super) fn reports(&self) -> impl Iterator<Item = &RankView> {
        self.iter().filter_map(|(_, state)| state.report())
    }

    /// The job's nodes in the order of the ranks, each with its ranks.
    pub(super) fn by_node(&self) -> impl Iterator<Item = (NodeId, &[RankState])> {
        let groups = self.all.chunk_by(|one, other| one.node == other.node);
        walked(groups.filter_map(|ranks| Some((ranks.first()?.node, ranks))))
    }
}
