//! Jobs that go on from a checkpoint: what they are submitted with, what their ranks are made from, and who waits until
//! all of these are there.

use coppice_api::job::Submission;
use coppice_protocol::checkpoint::ObjectId;
use coppice_protocol::control::NodeRestore;
use coppice_protocol::ids::{JobId, ProgramId, Rank};

use super::job::Job;
use super::requests::{Answer, Refused, reply};
use super::{Controller, Newest, Now, Place};
use crate::database::{FileKey, ProgramRow};
use crate::plant::Plant;
use crate::store::Held;

/// What a job was submitted with, for it to be submitted once more.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// It is in one network with others that ranks have started.
    pub has_family: bool,
    /// As it was asked for.
    pub submission: Submission,
    /// Its program.
    pub program: ProgramRow,
    /// What the files had in them that it has staged, in the submission's order.
    pub staged: Vec<ProgramId>,
    /// Its newest checkpoint, if one was made while it runs.
    pub newest: Option<Newest>,
}

/// What the ranks of a job are made from instead of their program's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoring {
    /// Who leads its nodes through the rest of the cut.
    pub by: u64,
    /// Files that have grown since the checkpoint stay as they are.
    pub keep_files: bool,
    /// The part of each rank, in order.
    pub ranks: Vec<ObjectId>,
    /// The part of each node of the job, in order of the ranks.
    pub nodes: Vec<ObjectId>,
}

impl Restoring {
    /// What the ranks of a node of the job are made from.
    pub(super) fn of_node(&self, index: usize, first: Rank, count: u32) -> Option<NodeRestore> {
        let first = first.0 as usize;
        let ranks = self.ranks.get(first..first.checked_add(count as usize)?)?.to_vec();
        Some(NodeRestore { node: *self.nodes.get(index)?, ranks, by: self.by, keep_files: self.keep_files })
    }
}

/// A job to be taken that goes on from a checkpoint.
#[derive(Debug)]
pub struct Restart {
    /// What is to run.
    pub submission: Submission,
    /// Its program.
    pub program: Held,
    /// The file that is in, if that is known.
    pub file: Option<FileKey>,
    /// The files that it has staged.
    pub staged: Vec<Held>,
    /// What its ranks are made from.
    pub restore: Restoring,
    /// The job that lost a node and goes on as this one.
    pub continues: Option<JobId>,
}

impl<P: Plant> Controller<P> {
    /// Takes a job that goes on from a checkpoint.
    pub(super) fn restart(&mut self, restart: Restart, now: Now) -> Result<JobId, Refused> {
        let Restart { submission, program, file, staged, restore, continues } = restart;
        if let Some(old) = continues {
            self.check_continued(old)?;
        }
        let checkpoint = submission.restarted_from;
        self.records.check().map_err(|why| Refused::unavailable(&why))?;
        Self::check_restoring(&submission, &restore)?;
        if let Some(file) = file {
            self.keep_program(&program, file, &submission, now)?;
        }
        let id = self.submit(submission, program, staged, now)?;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.restore = Some(restore);
        }
        if let (Some(old), Some(checkpoint)) = (continues, checkpoint) {
            self.continued(old, id, checkpoint, now);
        }
        Ok(id)
    }

    /// Whether there is a part for each rank and node.
    fn check_restoring(job: &Submission, restore: &Restoring) -> Result<(), Refused> {
        let wanted = (job.ranks as usize, job.nodes_wanted() as usize);
        if (restore.ranks.len(), restore.nodes.len()) != wanted {
            return Err(Refused::bad(
                "the checkpoint does not have a part of each rank and node of the job".to_owned(),
            ));
        }
        Ok(())
    }

    /// What a job that is under way was submitted with.
    pub(super) fn submitted(&self, id: JobId) -> Result<Submitted, Refused> {
        let Some(job) = self.jobs.get(&id) else { return Err(self.why_not_under_way(id)) };
        Ok(Submitted {
            has_family: self.has_family(id),
            submission: job.submission.clone(),
            program: *job.program,
            staged: job.staged.iter().map(|held| held.id).collect(),
            newest: job.newest.clone(),
        })
    }

    /// The stored copy of a program, if there is one.
    pub(super) fn stored(&self, program: ProgramId) -> Result<Option<Held>, Refused> {
        let stored = self.records.storage().stored_programs()?;
        Ok(stored.into_iter().find(|row| row.id == program).map(|row| self.store.hold(row)))
    }

    /// Somebody waits until all ranks of a job run, and wants one of each node then.
    pub(super) fn when_running(&mut self, id: JobId, answer: Answer<Vec<Place>>) {
        match self.jobs.get_mut(&id) {
            Some(job) if !job.is_running() => job.awaits_running(answer),
            _ => reply(answer, self.one_rank_of_each_node(id)),
        }
    }

    /// All ranks of a job run: those who wait for that are told.
    pub(super) fn tell_running(&mut self, id: JobId) {
        let waiting = self.jobs.get_mut(&id).map(Job::take_awaiting_running).unwrap_or_default();
        for answer in waiting {
            reply(answer, self.one_rank_of_each_node(id));
        }
    }
}

/// A job has ended before all of its ranks ran.
pub(super) fn never_ran(job: &mut Job) {
    for answer in job.take_awaiting_running() {
        reply(answer, Err(Refused::conflict(&format!("job {} has ended already", job.id))));
    }
}
