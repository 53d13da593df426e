//! What nodes hold of programs, and which files they keep: learnt from their answers and reports, recorded, shown.
//!
//! A rank's report says all that its node holds; it is the last word until the next one. An answer to an order to
//! retain, to discard or to keep a file says it in between. Whatever ends a node's machine ends all of it.

use std::collections::BTreeMap;

use coppice_api::program::ProgramView;
use coppice_api::retain::RetainAnswer;
use coppice_protocol::ids::{NodeId, ProgramId, PsetId};
use coppice_protocol::retain::{HeldAs, RetainOutcome, Retained, RetainedProgram};

use super::holdings::Holdings;
use super::ranks::RankState;
use super::{Controller, Now};
use crate::database::{DatabaseError, HeldBy};
use crate::plant::Plant;
use crate::records::What;

impl<P: Plant> Controller<P> {
    /// A node's answer to the order to retain that came before its ranks' launches. Counted once for each
    /// node: launches that are repeated bring the same answer again.
    pub(super) fn node_retained(&mut self, pset: PsetId, node: NodeId, answer: Retained, now: Now) {
        let unexpected =
            || tracing::debug!(pset = pset.0, node = node.0, ?answer, "retained, but not asked to, or no more");
        let Some(job) = self.jobs.get_mut(&answer.job).filter(|job| job.program.id == answer.program) else {
            return unexpected();
        };
        let state = job.ranks.first_on(node);
        let is_asked = |state: &&mut RankState| {
            state.pset == pset && state.use_retained && state.retain.is_none() && !state.has_ended()
        };
        let Some(state) = state.filter(is_asked) else { return unexpected() };
        state.retain = Some(view(answer.outcome));
        match answer.outcome {
            RetainOutcome::Kept(counts) => {
                let policy = self.config.retention;
                self.change_held(node, now, |holdings| holdings.keep(policy, answer.program, counts.kept));
            }
            RetainOutcome::Absent => self.drop_held(node, answer.program, now),
            RetainOutcome::Busy(_) | RetainOutcome::OtherBoot(_) => {}
        }
    }

    /// A node has said all that it holds.
    pub(super) fn set_held(&mut self, node: NodeId, held: &[RetainedProgram], now: Now) {
        self.change_held(node, now, |holdings| holdings.set_held(held));
    }

    /// A node holds nothing of a program.
    pub(super) fn drop_held(&mut self, node: NodeId, program: ProgramId, now: Now) {
        self.change_held(node, now, |holdings| holdings.drop_program(program));
    }

    /// Nodes have said all that they hold.
    pub(super) fn set_all_held(&mut self, said: Vec<(NodeId, Vec<RetainedProgram>)>, now: Now) {
        let mut changed = Vec::new();
        for (node, held) in said {
            changed.extend(self.changed_held(node, |holdings| holdings.set_held(&held)));
        }
        self.record_held(changed, now);
    }

    /// Nodes hold nothing of a program.
    pub(super) fn all_drop_held(&mut self, nodes: &[NodeId], program: ProgramId, now: Now) {
        let mut changed = Vec::new();
        for node in nodes {
            changed.extend(self.changed_held(*node, |holdings| holdings.drop_program(program)));
        }
        self.record_held(changed, now);
    }

    fn change_held(&mut self, id: NodeId, now: Now, change: impl FnOnce(&mut Holdings) -> bool) {
        let changed = self.changed_held(id, change);
        self.record_held(changed.into_iter().collect(), now);
    }

    /// What a node holds then, if that is something new.
    fn changed_held(&mut self, id: NodeId, change: impl FnOnce(&mut Holdings) -> bool) -> Option<HeldBy> {
        let node = self.nodes.get_mut(id)?;
        change(&mut node.holdings).then(|| (id, node.generation, node.holdings.held().to_vec()))
    }

    fn record_held(&mut self, changed: Vec<HeldBy>, now: Now) {
        if !changed.is_empty() {
            self.records.add(What::Retained(changed), now);
        }
    }

    /// A node's machine is gone, and what it held with it.
    pub(super) fn void_holdings(&mut self, id: NodeId, now: Now) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.holdings = Holdings::default();
        self.records.add(What::NodeGone(id), now);
        self.owes_no_more(id, now);
        self.keeps_no_more(id, now);
    }

    /// The programs with what nodes hold of them, and the files that nodes keep.
    pub(super) fn programs(&self) -> Result<Vec<ProgramView>, DatabaseError> {
        let mut holders: BTreeMap<String, Vec<(NodeId, RetainedProgram)>> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.is_up()) {
            for held in node.holdings.held() {
                holders.entry(held.program.to_string()).or_default().push((node.id, *held));
            }
        }
        let mut programs = self.records.storage().programs()?;
        for program in &mut programs {
            for (node, held) in holders.remove(&program.hash).unwrap_or_default() {
                match held.held_as {
                    HeldAs::Table => {
                        program.nodes.push(node.0);
                        program.retained_pages = program.retained_pages.saturating_add(held.pages);
                        program.retained_bytes = program.retained_bytes.saturating_add(held.bytes);
                    }
                    HeldAs::Read => {
                        program.read_pages = program.read_pages.saturating_add(held.pages);
                        program.read_bytes = program.read_bytes.saturating_add(held.bytes);
                    }
                    HeldAs::File => {
                        program.kept_nodes.push(node.0);
                        program.kept_bytes = program.kept_bytes.saturating_add(held.bytes);
                    }
                }
            }
        }
        // What never ran is worth a line as long as somebody keeps it.
        programs.retain(|program| program.memory_bytes > 0 || !program.kept_nodes.is_empty());
        Ok(programs)
    }
}

fn view(outcome: RetainOutcome) -> RetainAnswer {
    match outcome {
        RetainOutcome::Kept(counts) => RetainAnswer::Kept {
            kept: counts.kept,
            dropped: counts.dropped,
            zeroed: counts.zeroed,
            discarded: counts.discarded,
        },
        RetainOutcome::Absent => RetainAnswer::Absent,
        RetainOutcome::Busy(job) => RetainAnswer::Busy { job: job.0 },
        RetainOutcome::OtherBoot(generation) => RetainAnswer::OtherBoot { generation: generation.0 },
    }
}
