//! What nodes answer when they are led through a cut, and asked how far they are with keeping what they recorded; and
//! what I/O nodes do with regions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use coppice_protocol::checkpoint::{Listing, ObjectId, Part, PartOf, Saving};
use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::inspect::cut::Step;
use coppice_protocol::inspect::held::NotTold;
use coppice_protocol::inspect::{Answer, Inspect, Question};
use coppice_protocol::pset::{FromPset, Member, Pulled, StartJob, ToPset};
use coppice_protocol::region::SlotKey;

/// All nodes, as far as they are led.
#[derive(Debug)]
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
    /// Nodes that keep it in their regions.
    pub(crate) local: BTreeSet<NodeId>,
    /// What I/O nodes answer when they are to pull; without it, nothing. A test may change it at any time.
    pub(crate) pulls: Arc<Mutex<Option<Result<(), String>>>>,
    /// I/O nodes answer when they are to wipe.
    pub(crate) wipes: bool,
    /// Regions that they cannot wipe, for this reason.
    pub(crate) not_wiped: BTreeMap<NodeId, String>,
    /// What they were to pull, with what is there, for the test to see while that goes on.
    pub(crate) ordered: Arc<Mutex<Vec<Ordered>>>,
    /// How many nodes had kept it when one went on.
    pub(crate) kept_at_resume: Vec<usize>,
    /// What nodes answer to other questions, if they answer.
    pub(crate) told: Option<fn(&Question) -> Option<Answer>>,
    kept: BTreeSet<NodeId>,
    /// What lies in regions.
    regions: BTreeMap<(NodeId, u64), Vec<Part>>,
    /// How often each node was asked how far it is since it began.
    asked: BTreeMap<NodeId, u32>,
}

/// An order to pull.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    pub(crate) request: u64,
    pub(crate) node: NodeId,
    pub(crate) from: SlotKey,
    pub(crate) parts: Vec<Part>,
}

impl Default for Cutting {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            cannot: None,
            cannot_keep: None,
            barriers: BTreeMap::new(),
            is_slow: false,
            local: BTreeSet::new(),
            pulls: Arc::new(Mutex::new(Some(Ok(())))),
            wipes: true,
            not_wiped: BTreeMap::new(),
            ordered: Arc::default(),
            kept_at_resume: Vec::new(),
            told: None,
            kept: BTreeSet::new(),
            regions: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }
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
    /// I/O nodes answer this from now on when they are to pull.
    pub(crate) fn pull(&self, answer: Option<Result<(), String>>) {
        *self.pulls.lock().expect("not poisoned") = answer;
    }

    /// What a node says of its ranks, if it is something that is said here.
    pub(crate) fn answer(&mut self, node: NodeId, inspect: &Inspect, starts: &[&StartJob]) -> Option<Answer> {
        match inspect.query.question {
            Question::Cut(step) => {
                self.steps.push((inspect.job, inspect.query.by, node, step));
                match step {
                    Step::Save(_) => {
                        self.asked.remove(&node);
                        self.kept.remove(&node);
                    }
                    Step::Resume => self.kept_at_resume.push(self.kept.len()),
                    _ => {}
                }
                let cannot = self.cannot == Some((node, step));
                Some(if cannot {
                    Answer::NotTold(NotTold::Late("a thread does not stand".into()))
                } else {
                    Answer::Cut
                })
            }
            Question::Saving => Some(Answer::Saving(self.saving(node, inspect.query.by, starts))),
            _ => self.told.and_then(|told| told(&inspect.query.question)),
        }
    }

    fn saving(&mut self, node: NodeId, by: u64, starts: &[&StartJob]) -> Saving {
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
            let ranks = start.members.iter().filter(|member| member.node == node).flat_map(Member::ranks);
            for rank in ranks {
                let shared = PartOf::Node(rank.0 / start.world.ranks_per_node);
                parts.push(part(PartOf::Rank(rank)));
                if rank.0 % start.world.ranks_per_node == 0 {
                    parts.push(part(shared));
                }
            }
        }
        let barriers = self.barriers.get_mut(&node).and_then(VecDeque::pop_front).unwrap_or(0);
        self.kept.insert(node);
        let saving = Saving { pages: (10, 10), bytes: 40960, barriers, ..Saving::default() };
        if !self.local.contains(&node) {
            return Saving { parts: Some(parts), ..saving };
        }
        // In two slots by turns, as each is wiped when the next is complete.
        let slot = u8::from(self.regions.keys().filter(|(of, _)| *of == node).count() % 2 == 1);
        self.regions.insert((node, by), parts);
        Saving { local: Some(SlotKey { slot, key: by }), ..saving }
    }

    /// What an I/O node says to an order about a region.
    pub(crate) fn region(&mut self, order: &ToPset) -> Vec<FromPset> {
        match order {
            ToPset::Pull { request, node, from } => {
                let (request, parts) = (*request, self.regions.get(&(*node, from.key)).cloned().unwrap_or_default());
                let ordered = Ordered { request, node: *node, from: *from, parts: parts.clone() };
                self.ordered.lock().expect("not poisoned").push(ordered);
                match &*self.pulls.lock().expect("not poisoned") {
                    None => vec![],
                    Some(pulled) => vec![
                        FromPset::Pulling { request, objects: (1, 4) },
                        FromPset::Pulled { request, pulled: pulled.clone().map(|()| Pulled { parts, hash_ns: 0 }) },
                    ],
                }
            }
            ToPset::Wipe { request, node, .. } if self.wipes => {
                vec![FromPset::Wiped { request: *request, failed: self.not_wiped.get(node).cloned() }]
            }
            _ => vec![],
        }
    }
}
