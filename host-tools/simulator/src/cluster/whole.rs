//! One job on a whole cluster, however large: it comes up, a job runs on all of its nodes, one of them dies, and the
//! job ends with the reason.

use coppice_api::job::Submission;
use coppice_protocol::ids::{JobId, NodeId};

use super::script::Script;
use super::world::World;
use crate::checkers::Violation;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The cluster comes up.
    #[default]
    Up,
    /// The job is on its way to all nodes.
    Launch(JobId),
    /// It runs on all of them, and one is dead.
    Loss(JobId, NodeId),
    /// It has ended.
    Over,
}

/// Pause of each rank before its one line, ns: they all run when the node dies.
const PAUSE_NS: u64 = 600_000_000_000;

impl World {
    /// What is next, if the last thing has happened.
    pub(super) fn go_on_with_the_whole(&mut self) {
        let nodes = self.options.nodes;
        match self.whole {
            Stage::Up => {
                if !self.is_up() {
                    return;
                }
                let script = Script { lines: 1, pause_ns: PAUSE_NS, ..Script::default() };
                let all = Submission { ranks: nodes, ranks_per_node: 1, timeout_ms: None, ..script.submission(false) };
                let Some(copied) = self.copy_of(script.program) else { return };
                if let Some(job) = self.submit(0, all, script, copied) {
                    self.whole = Stage::Launch(job);
                }
            }
            Stage::Launch(job) if self.observed.lock().alive.len() == nodes as usize => {
                let node = NodeId(nodes / 2);
                self.note("one of all nodes killed", format_args!("{node}"));
                self.whole = Stage::Loss(job, node);
                self.machine_ends(node, "killed");
            }
            Stage::Loss(job, node) => {
                let Some(view) = self.checkers.jobs.end_of(job) else { return };
                if view.reason.as_ref().is_none_or(|reason| !reason.contains(&format!("node {node} was lost"))) {
                    self.violations.push(Violation::new(format!("node {node} died, and the job ended: {view:?}")));
                }
                self.whole = Stage::Over;
            }
            Stage::Launch(_) | Stage::Over => {}
        }
    }
}
