//! A rank of a job on this pset.

use coppice_protocol::checkpoint::Restore;
use coppice_protocol::ids::NodeId;
use coppice_protocol::pset::Member;
use coppice_protocol::ship::Owner;

use super::calls::Turns;

/// See this module.
#[derive(Debug)]
pub(super) struct RankState {
    /// Whose it is.
    pub owner: Owner,
    /// Where it runs.
    pub node: NodeId,
    /// Whether its node is believed to hold the program's page table.
    pub use_retained: bool,
    /// What it is made from, if it does not begin.
    pub restore: Option<Restore>,
    /// It has ended, or never was.
    pub has_ended: bool,
    /// Its process exists.
    pub is_launched: bool,
    /// Its calls that may wait for the disk.
    pub turns: Turns,
}

impl RankState {
    /// One of which nothing has been launched yet.
    pub(super) fn new(owner: Owner, member: &Member) -> Self {
        let Member { node, use_retained, restore, .. } = *member;
        Self { owner, node, use_retained, restore, has_ended: false, is_launched: false, turns: Turns::default() }
    }
}
