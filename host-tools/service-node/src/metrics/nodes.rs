//! Each compute node.

use std::fmt;

use coppice_api::node::NodeState;
use coppice_protocol::control::MemoryStatus;

use super::exposition::{Families, Family, Labels, label};
use super::seen::{NODE_STATES, NodeSeen, Seen};

/// What a part of a node's memory is called, and how much that is.
type Part = (&'static str, &'static str, fn(&MemoryStatus) -> u64);

const MEMORY: [Part; 4] = [
    ("node_memory", "Memory that the node can use, when it was last heard of.", |memory| memory.total),
    ("node_memory_kernel", "What the node's kernel keeps for itself.", |memory| memory.kernel),
    ("node_memory_free", "What nobody uses.", |memory| memory.free),
    (
        "node_memory_retained",
        "Of programs and staged files that no job uses; given back when it is wanted.",
        |memory| memory.retained,
    ),
];

pub(super) fn write(seen: &Seen, families: &mut Families<'_>) -> fmt::Result {
    state(&seen.nodes, families)?;
    boots(&seen.nodes, families)?;
    memory(&seen.nodes, families)
}

/// What tells a node from others.
fn labels(node: &NodeSeen) -> Labels<2> {
    [("node", node.node.to_string()), ("pset", node.pset.to_string())]
}

fn state(nodes: &[NodeSeen], families: &mut Families<'_>) -> fmt::Result {
    families.states(
        Family::of("node_state", "What the node is doing."),
        &NODE_STATES.map(NodeState::as_str),
        nodes.iter().map(|node| (labels(node), node.state.as_str())),
    )?;
    families.infos(
        Family::of("node", "The node's kernel, once it was ready."),
        nodes.iter().filter_map(|node| {
            let [number, pset] = labels(node);
            Some([number, pset, ("kernel", label(node.kernel.as_ref()?.as_bytes()))])
        }),
    )?;
    families.gauges(
        Family::of("node_cores", "Cores of the node that run."),
        nodes.iter().filter_map(|node| Some((labels(node), node.cores?))),
    )
}

fn boots(nodes: &[NodeSeen], families: &mut Families<'_>) -> fmt::Result {
    families.gauges(
        Family::seconds("node_boot", "From the kernel's first instruction until it was ready, at its last boot."),
        nodes.iter().filter_map(|node| Some((labels(node), node.boot_ns? as f64 / 1e9))),
    )?;
    families.counters(
        Family::of("node_boots", "Boots of the node in the life of the cluster's database."),
        nodes.iter().map(|node| (labels(node), node.boots)),
    )?;
    families.counters(
        Family::of("node_boot_failures", "Boots of the node that came to nothing since the service node started."),
        nodes.iter().map(|node| (labels(node), node.boots_failed)),
    )
}

fn memory(nodes: &[NodeSeen], families: &mut Families<'_>) -> fmt::Result {
    for (name, help, part) in MEMORY {
        families.gauges(
            Family::bytes(name, help),
            nodes.iter().filter_map(|node| Some((labels(node), part(node.memory.as_ref()?)))),
        )?;
    }
    families.gauges(
        Family::bytes("node_held_programs", "Pages that the node holds of programs that ran on it."),
        nodes.iter().map(|node| (labels(node), node.programs_bytes)),
    )?;
    families.gauges(
        Family::bytes("node_held_files", "Staged files that the node keeps in its memory."),
        nodes.iter().map(|node| (labels(node), node.files_bytes)),
    )
}
