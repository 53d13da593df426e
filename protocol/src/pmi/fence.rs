//! By which algorithm the nodes of a job walk a barrier, and which one they take.
//!
//! All nodes have to take the same one, and none can ask another without a barrier. So the choice is a function of
//! what all know alike: how many nodes there are, how many of them share a core of a host, what their links are like,
//! and how many bytes the last barrier brought. It compares what each algorithm would take by a model of a few numbers:
//! what a step takes until it arrives, what a node's processor does for it, and for a byte of it. Where nodes have
//! their cores for themselves, or links are slow, the longest chain of steps decides, where many share one the sum of
//! all that they do. The numbers are such that the order comes out as it was measured, on emulated nodes of which 4
//! and 16 share a core: `cargo xtask bench fences`.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::schedule::depth;
use crate::world::Passage;

/// A step takes this long from node to node while nothing else is to be done, over a link that takes no time, ns.
pub const STEP_NS: u64 = 300_000;

/// A node's processor does this much for a step that it sends or takes, with the word that it has come, ns.
pub const FRAME_NS: u64 = 250_000;

/// And this much for a byte of one, ns.
pub const BYTE_NS: u64 = 50;

/// What a node is taken to put before the first barrier of its job, bytes: an address or two.
pub const FIRST_BYTES_PER_NODE: u64 = 256;

/// An algorithm for a barrier that brings every node what the others have put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fence {
    /// To nodes twice as far in each step: the fewest steps.
    Dissemination,
    /// Up a binomial tree and down again: the fewest frames.
    Tree,
    /// From neighbour to neighbour: the smallest frames, each node's puts in frames of their own.
    Ring,
}

/// What the nodes of a job walk barriers under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How many of them share a core of a host, as emulated ones do.
    pub nodes_per_core: u32,
    /// What it takes to get from one to another.
    pub passage: Passage,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { nodes_per_core: 1, passage: Passage::default() }
    }
}

/// No algorithm is called that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fence is one of dissemination, tree, ring")]
pub struct UnknownFence;

impl Fence {
    /// All of them; of two that take as long the first is taken.
    pub const ALL: [Self; 3] = [Self::Dissemination, Self::Tree, Self::Ring];

    const fn name(self) -> &'static str {
        match self {
            Self::Dissemination => "dissemination",
            Self::Tree => "tree",
            Self::Ring => "ring",
        }
    }

    /// As a frame says it.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Dissemination => 1,
            Self::Tree => 2,
            Self::Ring => 3,
        }
    }

    /// As a frame says it.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fence| fence.code() == code)
    }

    /// The one for the next barrier of a job on so many nodes. `last_bytes` is what all puts of the last barrier had,
    /// `None` before the first.
    #[must_use]
    pub fn choose(nodes: u32, conditions: Conditions, last_bytes: Option<u64>, forced: Option<Self>) -> Self {
        let bytes = last_bytes.unwrap_or(u64::from(nodes).saturating_mul(FIRST_BYTES_PER_NODE));
        let quickest = || Self::ALL.into_iter().min_by_key(|fence| fence.predicted_ns(nodes, conditions, bytes));
        forced.or_else(quickest).unwrap_or(Self::Dissemination)
    }

    /// What a barrier would take by the model of this module, ns.
    #[must_use]
    pub fn predicted_ns(self, nodes: u32, conditions: Conditions, bytes: u64) -> u64 {
        let Conditions { nodes_per_core, passage } = conditions;
        let (step_ns, link_byte_ns) = (STEP_NS + u64::from(passage.latency_ns), u64::from(passage.byte_ns));
        let (n, depth) = (u64::from(nodes.max(1)), u64::from(depth(nodes)));
        // Steps one after the other; frames sent in all; frames and times all bytes that the busiest node sends or
        // takes: in a tree its root sends all to each below it.
        let (steps, sent, frames, times) = match self {
            Self::Dissemination => (depth, n * depth, 2 * depth, 2),
            Self::Tree => (2 * depth, 2 * (n - 1), 2 * depth, depth + 1),
            Self::Ring => (n - 1, n * (n - 1), 2 * (n - 1), 2),
        };
        let byte_ns = bytes.saturating_mul(BYTE_NS);
        // Over a link go those that a node sends, or those that it takes, which are not more.
        let on_link = bytes.saturating_mul(link_byte_ns).saturating_mul(times - 1);
        let chain = steps.saturating_mul(step_ns).saturating_add(frames * FRAME_NS);
        let chain = chain.saturating_add(byte_ns.saturating_mul(times)).saturating_add(on_link);
        // A core does the work of so many nodes, for both ends of each frame. Each node takes all bytes once, so on
        // average it sends them once, whichever way they go.
        let of_node = (sent.saturating_mul(2 * FRAME_NS) / n).saturating_add(byte_ns.saturating_mul(2));
        chain.max(of_node.saturating_mul(nodes_per_core.max(1).into()))
    }
}

/// What all nodes know alike when a barrier is through ([`Fence::choose`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    pub(super) nodes: u32,
    pub(super) conditions: Conditions,
    pub(super) last_bytes: Option<u64>,
    pub(super) forced: Option<Fence>,
}

impl Basis {
    pub(super) fn choose(self) -> Fence {
        Fence::choose(self.nodes, self.conditions, self.last_bytes, self.forced)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fence {
    type Err = UnknownFence;

    fn from_str(name: &str) -> Result<Self, UnknownFence> {
        Self::ALL.into_iter().find(|fence| fence.name() == name).ok_or(UnknownFence)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{Conditions, Fence, UnknownFence};
    use crate::world::Passage;

    fn sharing(nodes_per_core: u32) -> Conditions {
        Conditions { nodes_per_core, ..Conditions::default() }
    }

    #[test]
    fn names_are_read_as_they_are_said() {
        for fence in Fence::ALL {
            assert_eq!(fence.to_string().parse(), Ok(fence));
            assert_eq!(Fence::of_code(fence.code()), Some(fence));
        }
        assert_eq!("star".parse::<Fence>(), Err(UnknownFence));
        assert_eq!((Fence::of_code(0), Fence::of_code(4)), (None, None));
    }

    #[test]
    fn what_is_forced_is_chosen() {
        for fence in Fence::ALL {
            assert_eq!(Fence::choose(100, sharing(1), Some(1), Some(fence)), fence);
        }
    }

    /// The fewest steps win where nodes have cores of their own, the fewest frames where all
    /// share one.
    #[test]
    fn the_longest_chain_decides_or_the_sum() {
        for nodes in [33, 1000, 16_384, u32::MAX] {
            assert_eq!(Fence::choose(nodes, sharing(1), Some(0), None), Fence::Dissemination, "{nodes}");
            assert_eq!(Fence::choose(nodes, sharing(nodes), Some(0), None), Fence::Tree, "{nodes}");
        }
        for (nodes, last_bytes) in [(0, None), (1, None), (2, Some(u64::MAX)), (u32::MAX, Some(u64::MAX))] {
            assert_ne!(Fence::choose(nodes, sharing(u32::MAX), last_bytes, None), Fence::Ring);
        }
    }

    /// Over links on which each step waits the fewest win again, though all nodes share a core; over those on which
    /// each byte does, whatever sends it the least often.
    #[test]
    fn slow_links_have_the_chain_decide() {
        let over = |latency_ns, byte_ns| Conditions { passage: Passage { latency_ns, byte_ns }, ..sharing(8) };
        assert_eq!(Fence::choose(8, over(0, 0), Some(0), None), Fence::Tree);
        assert_eq!(Fence::choose(8, over(20_000_000, 0), Some(0), None), Fence::Dissemination);
        let of_bytes = |bytes| Fence::choose(64, over(0, 8_000), Some(bytes), None);
        assert_eq!((of_bytes(0), of_bytes(64_000)), (Fence::Tree, Fence::Dissemination));
        for fence in Fence::ALL {
            let slowest = fence.predicted_ns(u32::MAX, over(u32::MAX, u32::MAX), u64::MAX);
            assert_eq!(slowest, u64::MAX, "nothing overflows");
        }
    }
}
