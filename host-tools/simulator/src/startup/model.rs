//! The barrier that brings every node all cards, by what its steps carry: in step *k* each of *n* nodes sends what it
//! has gathered from 2^*k* nodes, and the last one what is left. All nodes do the same at the same time, so one of them
//! says how long it takes.

use super::{Options, Started};
use crate::startup::Costs;
use coppice_protocol::limits::PMI_FRAME_BODY_BYTES_MAX;

/// How long that barrier takes when all come at once, and how many frames and bytes each node sends in it: nodes, and
/// bytes of a node's cards.
#[must_use]
pub fn full_fence(nodes: u32, bytes: u64, costs: &Costs) -> (u64, u64, u64) {
    let (mut ns, mut frames, mut sent) = (0, 0, 0);
    let mut gathered = 1_u64;
    while gathered < u64::from(nodes) {
        let carried = gathered.min(u64::from(nodes) - gathered) * bytes;
        let parts = carried.div_ceil(PMI_FRAME_BODY_BYTES_MAX as u64).max(1);
        // Every frame is acknowledged by one without a body. What goes out and what comes in is work of one core.
        let work = 2 * (parts + 1) * costs.frame_ns + 2 * costs.for_bytes_ns(carried);
        ns += costs.latency_ns + work.max(costs.on_link_ns(carried));
        (frames, sent) = (frames + parts + 1, sent + carried);
        gathered *= 2;
    }
    (ns, frames, sent)
}

/// From running ranks to the end.
pub(super) fn go_on(options: &Options, started: &mut Started) {
    let costs = &options.costs;
    let turns = u64::from(options.ranks_per_node.div_ceil(costs.cores.max(1)));
    let lines = |lines: u64| lines * u64::from(options.ranks_per_node) * costs.line_ns;
    let bytes = u64::from(options.ranks_per_node) * costs.card_bytes;
    let (full_ns, frames, sent) = full_fence(options.nodes, bytes, costs);
    let (empty_ns, more_frames, _) = full_fence(options.nodes, 0, costs);
    started.put_ns = started.running_ns + turns * costs.before_put_ns + lines(3);
    started.met_ns = started.put_ns + full_ns;
    started.past_init_ns = started.met_ns + turns * costs.between_ns + lines(1) + empty_ns;
    started.card_ns = started.past_init_ns + lines(1);
    started.frames = (frames + more_frames) * u64::from(options.nodes);
    started.node_bytes = sent;
    // Each key and value once, in two places of trees.
    started.memory_bytes = u64::from(options.ranks()) * (costs.card_bytes + 4 * 48);
}
