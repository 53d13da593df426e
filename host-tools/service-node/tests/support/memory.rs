//! What compute nodes remember of programs, as working kernels would, for controllers to find out.

use std::collections::BTreeMap;

use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::keep::{KeepOutcome, Kept};
use coppice_protocol::limits::RETAINED_PROGRAMS_MAX;
use coppice_protocol::pset::{Member, StartJob};
use coppice_protocol::retain::{
    Discarded, HeldAs, RankRetention, RetainOutcome, Retained, RetainedProgram, RetentionPolicy, WalkCounts,
};

/// Pages a node holds of a program that ran on it.
pub(crate) const PAGES: u64 = 128;

/// Memory that pages take with their page table, in these tests.
pub(crate) fn bytes(pages: u64) -> u64 {
    (pages + 4) * 4096
}

/// A table of that many pages.
pub(crate) fn table(program: ProgramId, pages: u64) -> RetainedProgram {
    RetainedProgram { program, pages, bytes: bytes(pages), held_as: HeldAs::Table }
}

/// A file that is kept.
pub(crate) fn file(content: ProgramId) -> RetainedProgram {
    RetainedProgram { held_as: HeldAs::File, ..table(content, PAGES) }
}

/// Memory of all nodes.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Pages that a process that ends leaves.
    pub(crate) pages: u64,
    /// What becomes of other programs when one is retained.
    pub(crate) policy: RetentionPolicy,
    held: BTreeMap<NodeId, Vec<RetainedProgram>>,
    /// What runs, and the pages it found.
    running: BTreeMap<(JobId, Rank), (NodeId, ProgramId, u64)>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { pages: PAGES, policy: RetentionPolicy::One, held: BTreeMap::new(), running: BTreeMap::new() }
    }
}

impl Memory {
    /// What a node holds, the program that ran last first.
    pub(crate) fn held(&self, node: NodeId) -> &[RetainedProgram] {
        self.held.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Makes a node hold something nobody was told of.
    pub(crate) fn set(&mut self, node: NodeId, held: Vec<RetainedProgram>) {
        self.held.insert(node, held);
    }

    /// The node is booted.
    pub(crate) fn boot(&mut self, node: NodeId) {
        self.held.remove(&node);
        self.running.retain(|_, (on, ..)| *on != node);
    }

    /// A process starts. Returns the answer to the order to retain that comes before, if it does.
    pub(crate) fn launch(&mut self, start: &StartJob, member: &Member, rank: Rank) -> Option<Retained> {
        let (job, program) = (start.job, start.program);
        let held = self.held.entry(member.node).or_default();
        let mut found = 0;
        let answer = member.use_retained.then(|| {
            let is_it = |one: &RetainedProgram| one.program == program && one.held_as == HeldAs::Table;
            let kept = held.iter().find(|one| is_it(one)).copied();
            let outcome = match kept {
                Some(kept) => {
                    found = kept.pages;
                    let before = held.len();
                    held.retain(|other| {
                        let stays = self.policy == RetentionPolicy::Many || other.held_as == HeldAs::File;
                        stays && !is_it(other)
                    });
                    held.insert(0, kept);
                    let discarded = (before - held.len()) as u64;
                    let dropped = 3;
                    RetainOutcome::Kept(WalkCounts { kept: found, dropped, zeroed: 2, discarded, walk_ns: 1 })
                }
                None => RetainOutcome::Absent,
            };
            Retained { job, program, outcome }
        });
        if answer.is_none() {
            held.retain(|table| table.program != program || table.held_as == HeldAs::File);
        }
        self.running.insert((job, rank), (member.node, program, found));
        answer
    }

    /// A process ends, if there is one.
    pub(crate) fn end(&mut self, job: JobId, rank: Rank, node: NodeId) -> Option<RankRetention> {
        let (on, program, found) = *self.running.get(&(job, rank))?;
        if on != node {
            return None;
        }
        self.running.remove(&(job, rank));
        let held = self.held.entry(node).or_default();
        held.retain(|table| table.program != program || table.held_as == HeldAs::File);
        held.insert(0, table(program, self.pages));
        held.truncate(RETAINED_PROGRAMS_MAX);
        let walk = WalkCounts { kept: self.pages, dropped: 3, zeroed: 2, discarded: 0, walk_ns: 9 };
        Some(RankRetention { found, walk })
    }

    /// A rank is given up by its I/O node: whatever its process does, it leaves nothing.
    pub(crate) fn refused(&mut self, job: JobId, rank: Rank, by: impl Fn(NodeId) -> bool) {
        self.running.retain(|of, (node, ..)| *of != (job, rank) || !by(*node));
    }

    /// A node has a file that it is to keep.
    pub(crate) fn keep(&mut self, node: NodeId, request: u64, content: ProgramId) -> Kept {
        let held = self.held.entry(node).or_default();
        let was_here = held.iter().any(|one| one.program == content && one.held_as == HeldAs::File);
        if !was_here {
            held.push(file(content));
        }
        Kept { request, outcome: KeepOutcome::Whole { was_here }, held: held.clone() }
    }

    /// A node gives tables and files back.
    pub(crate) fn discard(&mut self, node: NodeId, request: u64, program: Option<ProgramId>) -> Discarded {
        let held = self.held.remove(&node).unwrap_or_default();
        let (given_back, still_held): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|table| program.is_none_or(|program| program == table.program));
        self.held.insert(node, still_held.clone());
        Discarded { request, given_back, still_held }
    }
}
