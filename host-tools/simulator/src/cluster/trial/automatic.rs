//! A job whose checkpoints are made and deleted by themselves, and that goes on by itself when it has lost a node.

use coppice_api::checkpoint::CheckpointPolicy;
use coppice_api::job::{JobDetail, JobState};
use coppice_protocol::ids::JobId;
use coppice_service_node::controller::Request;

use super::super::queue::MILLISECOND_NS;
use super::super::world::World;
use super::Victim;
use super::stages::{STATUS, Stage};

/// From the beginning of one checkpoint to the next, ms: as long is it in which somebody may die.
const EVERY_MS: u64 = 80;
/// How many stay.
const KEPT: u32 = 1;
/// How many lines apart ranks are at most that print as often as each other.
const APART_MAX: u64 = 1;

/// How the job has its checkpoints.
pub(super) const POLICY: CheckpointPolicy =
    CheckpointPolicy { every_ms: EVERY_MS, keep: KEPT, max_restarts: 1, node_mtbf_ms: None };

impl World {
    /// One more step between a checkpoint and the next.
    pub(super) fn count_automatic_step(&mut self, job: JobId) {
        if self.strikes() || self.now_ns - self.trials.since_ns > EVERY_MS * MILLISECOND_NS {
            self.begin_stage(Stage::Follows(job));
        }
    }

    /// Whether the job is over, or goes on as another, which is followed then.
    pub(super) fn follow(&mut self, job: JobId) {
        let detail = self.host.ask(|answer| Request::Job(job, answer), self.now_ns);
        let Some(Ok(JobDetail { job: view, .. })) = detail else { return };
        if view.state != JobState::Ended || !self.is_up() {
            return;
        }
        let victim = self.options.trial.and_then(|trial| trial.strike).map(|(_, victim)| victim);
        match view.continued_as {
            Some(next) if self.trials.has_struck && job == self.trials.first => {
                self.trials.outcome().from = next.checkpoint.number;
                self.begin_stage(Stage::Follows(JobId(next.job)));
            }
            None if (view.exit_status, &view.reason) == (Some(STATUS), &None) => {
                self.look_at_the_end(job);
                self.look_at_ranks(job);
                self.begin_stage(Stage::Over);
            }
            // There is nobody who would have it go on.
            None if victim == Some(Victim::ServiceNode) => self.begin_stage(Stage::Over),
            _ => self.is_wrong(format!("job {job} ended so: {view:?}")),
        }
    }

    /// The ranks of a job that went on did so from about the same line.
    fn look_at_ranks(&mut self, job: JobId) {
        let firsts = || self.trials.lines.iter().filter(|((of, _), _)| *of == job);
        let firsts = || firsts().filter_map(|(_, printed)| printed.first());
        let (least, most) = (firsts().min().copied(), firsts().max().copied());
        if let (Some(least), Some(most)) = (least, most)
            && most - least > APART_MAX
        {
            self.is_wrong(format!("ranks of job {job} went on from line {least}, and from line {most}"));
        }
    }
}
