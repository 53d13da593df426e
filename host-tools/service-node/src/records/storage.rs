//! Where records are kept: what the controller needs of a database, whichever it is.
//!
//! Everything that changes is an effect of its own: a [`Record`] of something that happened, which can wait until it
//! can be written, or one of the few changes that are refused to whoever asked if they cannot be made now. Each is made
//! whole or not at all, and is safe from the end of this process once its call has returned.

use std::fmt::Debug;
use std::path::Path;

use coppice_api::job::{JobDetail, JobView, Submission};
use coppice_api::output::OutputView;
use coppice_api::program::ProgramView;
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::staging::StagedView;
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId};

use super::Record;
use crate::database::{Database, DatabaseError, FileKey, NodeRow, ProgramRow};

/// See this module. Each call fails with [`DatabaseError`].
pub trait Storage: Debug + Send {
    /// Keeps what happened. Once more is no harm, except for RAS events, which are then there twice.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn write(&mut self, record: &Record) -> Result<(), DatabaseError>;

    /// Adds a job that was submitted, and gives it its number.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn add_job(
        &mut self,
        job: &Submission,
        program: ProgramId,
        staged: &[StagedView],
        at_ns: u64,
    ) -> Result<JobId, DatabaseError>;

    /// The number of a node's next boot. None is given twice.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn next_generation(&mut self, node: NodeId) -> Result<Generation, DatabaseError>;

    /// A program in the store is used, and is the file's at `path`.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn use_program(&mut self, row: &ProgramRow, file: FileKey, path: &Path, at_ns: u64) -> Result<(), DatabaseError>;

    /// A file of `path` is to be kept by nodes, whatever is in the store.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn use_file(&mut self, row: &ProgramRow, path: &Path, at_ns: u64) -> Result<(), DatabaseError>;

    /// A program is not in the store any more.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn program_removed(&mut self, id: ProgramId) -> Result<(), DatabaseError>;

    /// Jobs without a recorded end.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn unfinished_jobs(&self) -> Result<Vec<JobId>, DatabaseError>;

    /// Jobs of whose log it is not recorded what is in it.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn jobs_with_open_logs(&self) -> Result<Vec<(JobId, OutputView)>, DatabaseError>;

    /// The newest jobs, the newest last.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn jobs(&self, limit: u32, before: Option<JobId>) -> Result<Vec<JobView>, DatabaseError>;

    /// One job, without what became of its ranks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn job_alone(&self, job: JobId) -> Result<Option<JobView>, DatabaseError>;

    /// One job with what became of its ranks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn job(&self, job: JobId) -> Result<Option<JobDetail>, DatabaseError>;

    /// What is known of a node.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn node(&self, node: NodeId) -> Result<NodeRow, DatabaseError>;

    /// The program of a file that has not changed since it was hashed.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn known_program(&self, file: FileKey) -> Result<Option<ProgramRow>, DatabaseError>;

    /// Pages that a node had or fetched when a program last ran to its end.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn pages_touched(&self, id: ProgramId) -> Result<Option<u64>, DatabaseError>;

    /// Programs in the store, the one that was used least recently first.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn stored_programs(&self) -> Result<Vec<ProgramRow>, DatabaseError>;

    /// Programs whose hash begins so.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn programs_by_hash(&self, digits: &str) -> Result<Vec<ProgramId>, DatabaseError>;

    /// The program that last came from the file of this path.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn program_from(&self, path: &[u8]) -> Result<Option<ProgramId>, DatabaseError>;

    /// Programs as people see them.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn programs(&self) -> Result<Vec<ProgramView>, DatabaseError>;

    /// RAS events that a query asks for.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn ras(&self, query: &RasQuery) -> Result<Vec<RasView>, DatabaseError>;

    /// Nothing more is going to be written: what is there is left in order.
    ///
    /// # Errors
    /// [`DatabaseError`].
    fn finish(&mut self) -> Result<(), DatabaseError>;
}

impl Storage for Database {
    fn write(&mut self, record: &Record) -> Result<(), DatabaseError> {
        record.write(self)
    }
    fn add_job(
        &mut self,
        job: &Submission,
        program: ProgramId,
        staged: &[StagedView],
        at_ns: u64,
    ) -> Result<JobId, DatabaseError> {
        Self::add_job(self, job, program, staged, at_ns)
    }
    fn next_generation(&mut self, node: NodeId) -> Result<Generation, DatabaseError> {
        Self::next_generation(self, node)
    }
    fn use_program(&mut self, row: &ProgramRow, file: FileKey, path: &Path, at_ns: u64) -> Result<(), DatabaseError> {
        Self::use_program(self, row, file, path, at_ns)
    }
    fn use_file(&mut self, row: &ProgramRow, path: &Path, at_ns: u64) -> Result<(), DatabaseError> {
        Self::use_file(self, row, path, at_ns)
    }
    fn program_removed(&mut self, id: ProgramId) -> Result<(), DatabaseError> {
        Self::program_removed(self, id)
    }
    fn unfinished_jobs(&self) -> Result<Vec<JobId>, DatabaseError> {
        Self::unfinished_jobs(self)
    }
    fn jobs_with_open_logs(&self) -> Result<Vec<(JobId, OutputView)>, DatabaseError> {
        Self::jobs_with_open_logs(self)
    }
    fn jobs(&self, limit: u32, before: Option<JobId>) -> Result<Vec<JobView>, DatabaseError> {
        Self::jobs(self, limit, before)
    }
    fn job_alone(&self, job: JobId) -> Result<Option<JobView>, DatabaseError> {
        Self::job_alone(self, job)
    }
    fn job(&self, job: JobId) -> Result<Option<JobDetail>, DatabaseError> {
        Self::job(self, job)
    }
    fn node(&self, node: NodeId) -> Result<NodeRow, DatabaseError> {
        Self::node(self, node)
    }
    fn known_program(&self, file: FileKey) -> Result<Option<ProgramRow>, DatabaseError> {
        Self::known_program(self, file)
    }
    fn pages_touched(&self, id: ProgramId) -> Result<Option<u64>, DatabaseError> {
        Self::pages_touched(self, id)
    }
    fn stored_programs(&self) -> Result<Vec<ProgramRow>, DatabaseError> {
        Self::stored_programs(self)
    }
    fn programs_by_hash(&self, digits: &str) -> Result<Vec<ProgramId>, DatabaseError> {
        Self::programs_by_hash(self, digits)
    }
    fn program_from(&self, path: &[u8]) -> Result<Option<ProgramId>, DatabaseError> {
        Self::program_from(self, path)
    }
    fn programs(&self) -> Result<Vec<ProgramView>, DatabaseError> {
        Self::programs(self)
    }
    fn ras(&self, query: &RasQuery) -> Result<Vec<RasView>, DatabaseError> {
        Self::ras(self, query)
    }
    fn finish(&mut self) -> Result<(), DatabaseError> {
        self.checkpoint()
    }
}
