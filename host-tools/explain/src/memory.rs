//! Memory that is short.
//!
//! A node that has none left for a program ends its ranks, and says so: that is a failure. A job that got through, but
//! had nearly all of what its nodes have, is told of at the end.

use std::collections::BTreeMap;

use coppice_api::limits::NODE_MEMORY_BYTES_MAX;
use coppice_api::node::{MemoryView, NodeView};
use coppice_api::show::show_bytes;

use crate::pages::PAGE_BYTES;
use crate::times::WHOLE_PPM;
use crate::words::percent;
use crate::{Cause, Evidence, Finding};

/// Memory is nearly full from this part of what programs can have on, millionths.
const FULL_PPM: u64 = 900_000;

/// What programs can have of a node's memory, bytes.
pub(crate) fn for_programs(memory: &MemoryView) -> u64 {
    memory.total_bytes.saturating_sub(memory.kernel_bytes)
}

/// What all ranks had of each node at most, bytes, taken together as if at the same time.
fn peak_bytes(evidence: &Evidence) -> BTreeMap<u32, u64> {
    let mut peaks = BTreeMap::<u32, u64>::new();
    for rank in &evidence.job.rank_reports {
        let peak = peaks.entry(rank.node).or_default();
        *peak = peak.saturating_add(rank.counters.pages_peak.saturating_mul(PAGE_BYTES));
    }
    peaks
}

/// What a node has for programs, bytes, if that is known.
pub(crate) fn of_node(evidence: &Evidence, node: u32) -> Option<u64> {
    let found = evidence.nodes.iter().find(|found| found.node == node)?;
    found.memory.as_ref().map(for_programs)
}

/// The command that gives nodes twice the memory that they have.
pub(crate) fn more(evidence: &Evidence) -> String {
    let total = evidence.nodes.iter().filter_map(|node| node.memory).map(|memory| memory.total_bytes).max();
    // What a machine has is a little less than what was asked for.
    let mib = total.unwrap_or(0).div_ceil(1 << 20).next_power_of_two().saturating_mul(2);
    format!("coppice up --nodes {} --memory {}M", evidence.nodes.len(), mib.clamp(64, NODE_MEMORY_BYTES_MAX >> 20))
}

/// Looks for a node whose memory was nearly full.
pub(crate) fn nearly_full(evidence: &Evidence) -> Option<Finding> {
    let peaks = peak_bytes(evidence);
    let full = |node: &NodeView| {
        let (peak, all) = (*peaks.get(&node.node)?, node.memory.as_ref().map(for_programs).filter(|all| *all > 0)?);
        let ppm = u64::try_from(u128::from(peak) * u128::from(WHOLE_PPM) / u128::from(all)).unwrap_or(u64::MAX);
        (ppm >= FULL_PPM).then_some((ppm, node.node, peak, all))
    };
    let (ppm, node, peak, all) = evidence.nodes.iter().filter_map(full).max_by_key(|(ppm, ..)| *ppm)?;
    let text = format!(
        "Memory is nearly short: the ranks on node {node} had {} of the {} that it has for programs ({}).",
        show_bytes(peak),
        show_bytes(all),
        percent(ppm.min(WHOLE_PPM)),
    );
    let finding = Finding::new(Cause::MemoryShort, 0, &text);
    Some(finding.try_this("Have nodes with more memory (take the cluster down first)", more(evidence)))
}
