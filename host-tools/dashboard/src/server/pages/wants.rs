//! What is asked of a page: which rows of a list, and how a map is coloured.

use coppice_api::node::NodeState;

use crate::map::{Colouring, STATES};

/// See this module. What is empty, as forms have it, is not asked for; what nothing asks for is passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// Nodes in this state.
    pub(super) state: Option<NodeState>,
    /// From this one on: a node's number, or a place in a list.
    pub(super) from: Option<u32>,
    /// Jobs before this one.
    pub(super) before: Option<u64>,
    /// What is about this job.
    pub(super) job: Option<u64>,
    /// And about this node.
    pub(super) node: Option<u32>,
    /// What colours of nodes are by.
    pub(super) by: Colouring,
}

impl Wants {
    /// Nothing, if something of it cannot be.
    pub(super) fn of(query: Option<&str>) -> Option<Self> {
        let mut wants = Self::default();
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                (_, "") => {}
                ("state", state) => {
                    wants.state = Some(STATES.iter().find(|(known, _)| known.as_str() == state)?.0);
                }
                ("from", first) => wants.from = Some(first.parse().ok()?),
                ("before", job) => wants.before = Some(job.parse().ok()?),
                ("job", job) => wants.job = Some(job.parse().ok()?),
                ("node", node) => wants.node = Some(node.parse().ok()?),
                ("by", by) => wants.by = Colouring::ALL.into_iter().find(|known| known.name() == by)?,
                _ => {}
            }
        }
        Some(wants)
    }
}
