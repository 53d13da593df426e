//! The ranks of a job on this pset, and its nodes. What is asked of a node is looked up or counted: a pset's nodes
//! report about ranks one after the other, and none of that walks all of the job's.

use std::collections::BTreeMap;

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::pset::Member;
use coppice_protocol::ranks::Ranks as RankSet;
use coppice_protocol::ship::Owner;

use super::calls::Turns;

/// A rank.
#[derive(Debug)]
pub(super) struct RankState {
    /// Whose it is.
    pub owner: Owner,
    /// Where it runs.
    pub node: NodeId,
    /// It has ended, or never was.
    has_ended: bool,
    /// Its process exists.
    is_launched: bool,
    /// Its calls that may wait for the disk.
    pub turns: Turns,
}

impl RankState {
    /// It has ended, or never was.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Its process exists from now on. False if that was known, or it has ended.
    pub(super) fn launched(&mut self) -> bool {
        !self.has_ended && !std::mem::replace(&mut self.is_launched, true)
    }
}

/// A node, and what the service node has said of it.
#[derive(Debug)]
struct OnNode {
    member: Member,
    /// Ranks that have not ended.
    live: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    all: BTreeMap<Rank, RankState>,
    nodes: BTreeMap<NodeId, OnNode>,
}

impl Ranks {
    /// Of which nothing has been launched yet. Of a node that is named twice, the last counts.
    pub(super) fn new(job: JobId, members: &[Member]) -> Self {
        let mut ranks = Self::default();
        for member in members {
            for rank in member.ranks() {
                let (owner, node) = (Owner { job, rank }, member.node);
                let state = RankState { owner, node, has_ended: false, is_launched: false, turns: Turns::default() };
                ranks.all.insert(rank, state);
            }
            let live = u32::try_from(member.ranks().count()).unwrap_or(u32::MAX);
            ranks.nodes.insert(member.node, OnNode { member: member.clone(), live });
        }
        ranks
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RankState> {
        self.all.values()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// One of them.
    pub(super) fn get(&self, rank: Rank) -> Option<&RankState> {
        self.all.get(&rank)
    }

    /// One of them.
    pub(super) fn get_mut(&mut self, rank: Rank) -> Option<&mut RankState> {
        self.all.get_mut(&rank)
    }

    /// One has ended, or never was. Where it was, if that is new.
    pub(super) fn end(&mut self, rank: Rank) -> Option<NodeId> {
        let state = self.all.get_mut(&rank).filter(|state| !state.has_ended)?;
        state.has_ended = true;
        let node = state.node;
        if let Some(on) = self.nodes.get_mut(&node) {
            on.live = on.live.saturating_sub(1);
        }
        Some(node)
    }

    /// What the service node has said of a node.
    pub(super) fn on(&self, node: NodeId) -> Option<&Member> {
        self.nodes.get(&node).map(|on| &on.member)
    }

    /// Whether some on a node have not ended.
    pub(super) fn are_live_on(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|on| on.live > 0)
    }

    /// Those on a node that have not ended.
    pub(super) fn live_on(&self, node: NodeId) -> RankSet {
        let ranks = self.on(node).into_iter().flat_map(Member::ranks);
        ranks.filter(|rank| self.get(*rank).is_some_and(|state| state.node == node && !state.has_ended)).collect()
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied()
    }

    /// The nodes of those that have not ended.
    pub(super) fn live_nodes(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|(_, on)| on.live > 0).map(|(node, _)| *node).collect()
    }
}
