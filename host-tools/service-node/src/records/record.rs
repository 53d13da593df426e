//! One thing that happened, as it goes into the database, now or later.

use coppice_api::ahead::AheadDecision;
use coppice_api::checkpoint::CheckpointsMade;
use coppice_api::job::{JobDetail, JobState, RankView};
use coppice_api::output::OutputView;
use coppice_api::retain::{LastProgram, Placement};
use coppice_api::transfer::TransferView;
use coppice_protocol::control::NodeStatus;
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId};
use coppice_protocol::ras::RasEvent;
use serde::{Deserialize, Serialize};

use crate::database::{Database, DatabaseError, HeldBy, JobRow, StartRow};

/// What happened, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Ns since 1970.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A RAS event, of a node or of none.
    Ras(Option<NodeId>, RasEvent),
    /// A node got ready and said this of itself.
    NodeReady(NodeId, NodeStatus),
    /// What nodes, each in this boot, hold: of those of which it came together.
    Retained(Vec<HeldBy>),
    /// A node's machine is gone.
    NodeGone(NodeId),
    /// A job was given its nodes.
    Started {
        /// The job.
        job: JobId,
        /// Its nodes in order of the ranks, each with its boot.
        nodes: Vec<(NodeId, Generation)>,
        /// How it got them.
        placement: Placement,
        /// Whether its program is sent there ahead of the launch.
        #[serde(default)]
        ahead: Option<AheadDecision>,
        /// Its program.
        program: ProgramId,
        /// The same as the last program of the nodes.
        run: LastProgram,
    },
    /// All ranks of a job run.
    Running(JobId),
    /// Checkpoints that were made of a job.
    Checkpoints(JobId, CheckpointsMade),
    /// What is known of a job's transfers.
    Transfers(JobId, Vec<TransferView>),
    /// What is kept of a job's output.
    Output(JobId, OutputView),
    /// What was kept of a job's output is not any more.
    OutputGivenBack(JobId),
    /// Ranks of a job ended.
    Ranks(JobId, Vec<RankView>),
    /// A job ended.
    Ended(JobId, JobRow),
}

impl Record {
    /// Puts it into the database. Once more is no harm, except for RAS events, which are then there twice.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(super) fn write(&self, database: &mut Database) -> Result<(), DatabaseError> {
        let at_ns = self.at_ns;
        match &self.what {
            What::Ras(node, event) => database.add_ras(*node, event, at_ns),
            What::NodeReady(node, status) => database.node_ready(*node, status, at_ns),
            What::Retained(nodes) => database.set_retained(nodes, at_ns),
            What::NodeGone(node) => database.void_node_state(*node),
            What::Started { job, nodes, placement, ahead, program, run } => {
                let ahead = ahead.as_ref();
                database.start_job(*job, &StartRow { nodes, placement, ahead, program: *program, run }, at_ns)
            }
            What::Running(job) => database.job_running(*job, at_ns),
            What::Checkpoints(job, made) => database.set_checkpoints_made(*job, made),
            What::Transfers(job, transfers) => database.set_transfers(*job, transfers),
            What::Output(job, output) => database.set_output(*job, output),
            What::OutputGivenBack(job) => database.output_given_back(*job),
            What::Ranks(job, reports) => database.add_ranks(*job, reports),
            What::Ended(job, end) => database.end_job(*job, end, at_ns),
        }
    }

    /// The job whose history it is of, if it is of one. That is kept whatever it costs; the number of jobs bounds it.
    pub(super) const fn job(&self) -> Option<JobId> {
        match self.what {
            What::Started { job, .. }
            | What::Running(job)
            | What::Checkpoints(job, _)
            | What::Transfers(job, _)
            | What::Output(job, _)
            | What::OutputGivenBack(job)
            | What::Ranks(job, _)
            | What::Ended(job, _) => Some(job),
            What::Ras(..) | What::NodeReady(..) | What::Retained(_) | What::NodeGone(_) => None,
        }
    }

    /// Shows its job as if this were in the database; reports of ranks come behind those that are there.
    pub(super) fn show(&self, detail: &mut JobDetail) {
        let JobDetail { job: view, rank_reports } = detail;
        match &self.what {
            What::Started { nodes, placement, ahead, .. } => {
                view.ahead.clone_from(ahead);
                view.state = JobState::Starting;
                view.started_at_ns = Some(self.at_ns);
                view.nodes = nodes.iter().map(|(node, _)| node.0).collect();
                view.placement = Some(placement.clone());
            }
            What::Running(_) => {
                view.state = JobState::Running;
                view.running_at_ns = Some(self.at_ns);
            }
            What::Checkpoints(_, made) => view.checkpoints_made = Some(*made),
            What::Transfers(_, transfers) => view.transfers.clone_from(transfers),
            What::Output(_, output) => view.output = Some(*output),
            What::OutputGivenBack(_) => {
                if let Some(output) = &mut view.output {
                    output.given_back = true;
                }
            }
            What::Ranks(_, reports) => rank_reports.extend(reports.iter().cloned()),
            What::Ended(_, end) => {
                view.state = JobState::Ended;
                view.ended_at_ns = Some(self.at_ns);
                view.exit_status = Some(end.exit_status);
                view.reason.clone_from(&end.reason);
                view.retention = end.retention;
                view.continued_as = end.continued_as;
            }
            What::Ras(..) | What::NodeReady(..) | What::Retained(_) | What::NodeGone(_) => {}
        }
    }
}
