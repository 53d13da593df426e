//! When nodes were in such trouble that others may not have heard of them: who was well is to blame for nothing.

use std::collections::BTreeMap;

use coppice_protocol::ids::NodeId;
use coppice_protocol::limits::PMI_WATCH_NS;

use crate::cluster::queue::SECOND_NS;

/// How long after a node was in trouble a job may end because it was silent, ns: others wait for it, the service node
/// is told, and then all ranks have to end.
const AFTERMATH_NS: u64 = 80 * SECOND_NS;

/// How long a node was in trouble at least that others took for dead, ns. They have heard nothing of it for twice
/// [`PMI_WATCH_NS`], but of that it had nothing to say for the first half; and it has to be called again after it.
const MISSED_NS_MIN: u64 = PMI_WATCH_NS / 2;

/// Troubles so close to each other are one, ns: connections take their time to be there again.
const BETWEEN_NS_MAX: u64 = 3 * SECOND_NS;

/// Since when and until when, ns.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    since_ns: u64,
    until_ns: u64,
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Troubles {
    /// Until when each node was, ns.
    until_ns: BTreeMap<NodeId, u64>,
    /// All of them, the oldest first.
    stretches: BTreeMap<NodeId, Vec<Stretch>>,
    /// When each node had no memory last for what programs have its kernel keep, ns.
    short_ns: BTreeMap<NodeId, u64>,
}

impl Troubles {
    /// A node has no memory for more that programs have its kernel keep.
    pub(in crate::cluster) fn is_short(&mut self, node: NodeId, now_ns: u64) {
        self.short_ns.insert(node, now_ns);
    }

    /// Whether that was so since then.
    pub(in crate::cluster) fn was_short(&self, node: NodeId, since_ns: u64) -> bool {
        self.short_ns.get(&node).is_some_and(|short_ns| *short_ns >= since_ns)
    }

    /// Others may not hear of a node until then: it is not there, or cut off. One that was not told of the job, as its
    /// I/O node's disk does not answer, is there and says so.
    pub(in crate::cluster) fn strike(&mut self, node: NodeId, now_ns: u64, until_ns: u64) {
        let stretches = self.stretches.entry(node).or_default();
        match stretches.last_mut() {
            Some(last) if now_ns <= last.until_ns.saturating_add(BETWEEN_NS_MAX) => {
                last.until_ns = until_ns.max(last.until_ns);
            }
            _ => stretches.push(Stretch { since_ns: now_ns, until_ns }),
        }
        let known_ns = self.until_ns.entry(node).or_default();
        *known_ns = until_ns.max(*known_ns);
    }

    /// Whether a node was in trouble since then.
    pub(in crate::cluster) fn was(&self, node: NodeId, since_ns: u64) -> bool {
        self.until_ns.get(&node).is_some_and(|until_ns| *until_ns >= since_ns)
    }

    /// Whether others may have taken a node for dead between then and now, whether it was or not.
    pub(in crate::cluster) fn was_missed(&self, node: NodeId, since_ns: u64, now_ns: u64) -> bool {
        let is_missed = |stretch: &Stretch| {
            let until_ns = stretch.until_ns.min(now_ns);
            until_ns >= since_ns && until_ns.saturating_sub(stretch.since_ns) >= MISSED_NS_MIN
        };
        self.stretches.get(&node).is_some_and(|stretches| stretches.iter().any(is_missed))
    }

    /// Whether a job's reason to end is that a node did not answer another, and nothing was the matter with both.
    pub(in crate::cluster) fn is_no_reason(&self, reason: &str, now_ns: u64) -> bool {
        let Some((silent, other)) = reason.split_once(" did not answer node ") else { return false };
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).map(NodeId);
        let nodes = [number(silent.rsplit(' ').next()), number(other.split(' ').next())];
        !nodes.into_iter().flatten().any(|node| self.was(node, now_ns.saturating_sub(AFTERMATH_NS)))
    }
}
