//! What nodes answer when they are led through a cut, and asked how far they are with keeping what they recorded.

use std::collections::{BTreeMap, VecDeque};

use coppice_protocol::checkpoint::{Listing, ObjectId, Part, PartOf, Saving};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::held::NotTold;
use coppice_protocol::inspect::{Answer, Inspect, Question};
use coppice_protocol::pset::StartJob;

/// All nodes, as far as they are led.
#[derive(Debug, Default)]
pub(crate) struct Cutting {
    /// Steps that nodes were asked for, with who leads.
    pub(crate) steps: Vec<(JobId, u64, NodeId, Step)>,
    /// A step that a node cannot do.
    pub(crate) cannot: Option<(NodeId, Step)>,
    /// A node cannot keep what it recorded, for this reason.
    pub(crate) cannot_keep: Option<(NodeId, String)>,
    /// Barriers that a node has left at each of the next cuts; 0 when there is nothing more.
    pub(crate) barriers: BTreeMap<NodeId, VecDeque<u64>>,
    /// Nodes are never done with keeping it.
    pub(crate) is_slow: bool,
    /// How often each node was asked how far it is since it began.
    asked: BTreeMap<NodeId, u32>,
}

/// The list of what a part has.
pub(crate) fn listing(of: PartOf) -> Listing {
    let number = match of {
        PartOf::Rank(rank) => 2 * rank.0,
        PartOf::Node(node) => 2 * node + 1,
    };
    Listing { record_bytes: 4, objects: vec![ObjectId::of(&number.to_le_bytes())], next: None }
}

/// A part whose object is that list.
pub(crate) fn part(of: PartOf) -> Part {
    Part { of, object: ObjectId::of(&listing(of).bytes().expect("short")) }
}

impl Cutting {
    /// What a node says of its ranks, if it is something that is said here.
    pub(crate) fn answer(&mut self, node: NodeId, inspect: &Inspect, starts: &[&StartJob]) -> Option<Answer> {
        match inspect.query.question {
            Question::Cut(step) => {
                self.steps.push((inspect.job, inspect.query.by, node, step));
                if matches!(step, Step::Save(_)) {
                    self.asked.remove(&node);
                }
                let cannot = self.cannot == Some((node, step));
                Some(if cannot {
                    Answer::NotTold(NotTold::Late("a thread does not stand".into()))
                } else {
                    Answer::Cut
                })
            }
            Question::Saving => Some(Answer::Saving(self.saving(node, starts))),
            _ => None,
        }
    }

    fn saving(&mut self, node: NodeId, starts: &[&StartJob]) -> Saving {
        if let Some((_, why)) = self.cannot_keep.as_ref().filter(|(of, _)| *of == node) {
            return Saving { failed: Some(why.clone()), ..Saving::default() };
        }
        let asked = self.asked.entry(node).or_default();
        *asked += 1;
        if *asked == 1 || self.is_slow {
            return Saving { pages: (1, 10), bytes: 4096, ..Saving::default() };
        }
        let mut parts = Vec::new();
        for start in starts {
            let ranks = start.members.iter().filter(|member| member.node == node).map(|member| member.rank);
            for rank in ranks {
                let shared = PartOf::Node(rank.0 / start.world.ranks_per_node);
                parts.push(part(PartOf::Rank(rank)));
                if rank.0 % start.world.ranks_per_node == 0 {
                    parts.push(part(shared));
                }
            }
        }
        let barriers = self.barriers.get_mut(&node).and_then(VecDeque::pop_front).unwrap_or(0);
        Saving { pages: (10, 10), bytes: 40960, barriers, parts: Some(parts), local: None, failed: None }
    }
}
