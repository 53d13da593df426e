//! What the service node's records are kept in: the real database, on a disk that is full, fails or is locked by
//! somebody else at times, and that the service node may be using when it dies.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::{fs, io};

use coppice_api::job::{JobDetail, JobView, Submission};
use coppice_api::output::OutputView;
use coppice_api::program::ProgramView;
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::staging::StagedView;
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId};
use coppice_service_node::database::{Database, DatabaseError, FileKey, NodeRow, ProgramRow};
use coppice_service_node::records::{Record, Storage};
use rusqlite::ffi;

use super::listener::Listener;

/// How the disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// As it should be.
    #[default]
    Sound,
    /// Nothing more can be written.
    Full,
    /// Nothing can be read or written.
    Failing,
    /// Another program has the database's lock, and lets others read.
    Locked,
}

impl Health {
    fn error(self) -> DatabaseError {
        let code = match self {
            Self::Sound | Self::Failing => ffi::SQLITE_IOERR,
            Self::Full => ffi::SQLITE_FULL,
            Self::Locked => ffi::SQLITE_BUSY,
        };
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }
}

std::thread_local! {
    /// All databases that runs of this thread have, or had: what is over leaves its own to others, as a schema and
    /// prepared statements take long to make.
    static DATABASES: RefCell<Vec<Arc<Mutex<Database>>>> = const { RefCell::new(Vec::new()) };
}

/// An empty database: one of a run that is over, or a new one.
fn empty_database() -> Result<Arc<Mutex<Database>>, DatabaseError> {
    DATABASES.with_borrow_mut(|all| {
        let is_free = |database: &&Arc<Mutex<Database>>| Arc::strong_count(database) == 1;
        if let Some(free) = all.iter().find(is_free) {
            lock(free).empty()?;
            return Ok(Arc::clone(free));
        }
        let made = Arc::new(Mutex::new(Database::in_memory()?));
        all.push(Arc::clone(&made));
        Ok(made)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Inner {
    database: Arc<Mutex<Database>>,
    health: Health,
    /// Changes and orders that the service node still gets done before it dies.
    steps_left: Option<u64>,
    /// It is dead: nothing that it does from now on is seen by anybody.
    is_dead: bool,
    /// Changes that were refused.
    refused: u64,
    /// Its reserve, and what that held when it died.
    reserve: (PathBuf, Option<Vec<u8>>),
    /// Users who hear what is said before a death, and nothing after it.
    listeners: Vec<Weak<Listener>>,
}

/// The disk, and with it the life of who uses it. It outlives service nodes.
#[derive(Clone, Debug)]
pub(super) struct HostDisk(Arc<Mutex<Inner>>);

impl HostDisk {
    /// One with an empty database, beside a reserve.
    pub(super) fn new(reserve: PathBuf) -> Result<Self, DatabaseError> {
        let database = empty_database()?;
        let (health, steps_left, is_dead, refused) = (Health::Sound, None, false, 0);
        let (reserve, listeners) = ((reserve, None), Vec::new());
        let inner = Inner { database, health, steps_left, is_dead, refused, reserve, listeners };
        Ok(Self(Arc::new(Mutex::new(inner))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    pub(super) fn set_health(&self, health: Health) {
        self.lock().health = health;
    }

    /// Whether nothing is the matter with it.
    pub(super) fn is_well(&self) -> bool {
        let inner = self.lock();
        inner.health == Health::Sound && !inner.is_dead
    }

    /// Changes that were refused up to now.
    pub(super) fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// Has the service node die after so many steps.
    pub(super) fn die_after(&self, steps: u64) {
        self.lock().steps_left = Some(steps);
    }

    /// Whether it has died at a step.
    pub(super) fn is_dead(&self) -> bool {
        self.lock().is_dead
    }

    /// It is over, and another service node may be started.
    pub(super) fn revive(&self) -> io::Result<()> {
        let mut inner = self.lock();
        (inner.steps_left, inner.is_dead) = (None, false);
        // What it did after its death it did not do.
        match inner.reserve.1.take() {
            Some(bytes) => fs::write(&inner.reserve.0, bytes),
            None => Ok(()),
        }
    }

    /// A job whose end is not recorded.
    pub(super) fn unfinished_job(&self) -> Option<JobId> {
        self.look(Database::unfinished_jobs).ok()?.first().copied()
    }

    /// A job of whose log it is not recorded what is in it.
    pub(super) fn open_log(&self) -> Option<JobId> {
        self.look(Database::jobs_with_open_logs).ok()?.first().map(|(job, _)| *job)
    }

    /// Somebody listens to what the service node says.
    pub(super) fn overhear(&self, listener: &Arc<Listener>) {
        let listeners = &mut self.lock().listeners;
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    /// Takes a step. None if whoever does it is dead.
    pub(super) fn step(&self) -> Option<()> {
        let mut inner = self.lock();
        if let Some(left) = &mut inner.steps_left {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None if inner.is_dead => {}
                None => {
                    inner.is_dead = true;
                    inner.reserve.1 = fs::read(&inner.reserve.0).ok();
                    inner.listeners.drain(..).filter_map(|listener| listener.upgrade()).for_each(|it| it.dead());
                }
            }
        }
        (!inner.is_dead).then_some(())
    }

    fn change<T>(&self, f: impl FnOnce(&mut Database) -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        let is_alive = self.step().is_some();
        let mut inner = self.lock();
        if !is_alive || inner.health != Health::Sound {
            inner.refused += 1;
            return Err(inner.health.error());
        }
        f(&mut lock(&inner.database))
    }

    fn look<T>(&self, f: impl FnOnce(&Database) -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        let inner = self.lock();
        if inner.is_dead || inner.health == Health::Failing {
            return Err(inner.health.error());
        }
        f(&lock(&inner.database))
    }
}

impl Storage for HostDisk {
    fn write(&mut self, record: &Record) -> Result<(), DatabaseError> {
        self.change(|database| Storage::write(database, record))
    }
    fn add_job(
        &mut self,
        job: &Submission,
        program: ProgramId,
        staged: &[StagedView],
        at_ns: u64,
    ) -> Result<JobId, DatabaseError> {
        self.change(|database| database.add_job(job, program, staged, at_ns))
    }
    fn next_generation(&mut self, node: NodeId) -> Result<Generation, DatabaseError> {
        self.change(|database| database.next_generation(node))
    }
    fn use_program(&mut self, row: &ProgramRow, file: FileKey, path: &Path, at_ns: u64) -> Result<(), DatabaseError> {
        self.change(|database| database.use_program(row, file, path, at_ns))
    }
    fn use_file(&mut self, row: &ProgramRow, path: &Path, at_ns: u64) -> Result<(), DatabaseError> {
        self.change(|database| database.use_file(row, path, at_ns))
    }
    fn program_removed(&mut self, id: ProgramId) -> Result<(), DatabaseError> {
        self.change(|database| database.program_removed(id))
    }
    fn unfinished_jobs(&self) -> Result<Vec<JobId>, DatabaseError> {
        self.look(Database::unfinished_jobs)
    }
    fn jobs_with_open_logs(&self) -> Result<Vec<(JobId, OutputView)>, DatabaseError> {
        self.look(Database::jobs_with_open_logs)
    }
    fn jobs(&self, limit: u32, before: Option<JobId>) -> Result<Vec<JobView>, DatabaseError> {
        self.look(|database| database.jobs(limit, before))
    }
    fn job_alone(&self, job: JobId) -> Result<Option<JobView>, DatabaseError> {
        self.look(|database| database.job_alone(job))
    }
    fn job(&self, job: JobId) -> Result<Option<JobDetail>, DatabaseError> {
        self.look(|database| database.job(job))
    }
    fn node(&self, node: NodeId) -> Result<NodeRow, DatabaseError> {
        self.look(|database| database.node(node))
    }
    fn known_program(&self, file: FileKey) -> Result<Option<ProgramRow>, DatabaseError> {
        self.look(|database| database.known_program(file))
    }
    fn pages_touched(&self, id: ProgramId) -> Result<Option<u64>, DatabaseError> {
        self.look(|database| database.pages_touched(id))
    }
    fn stored_programs(&self) -> Result<Vec<ProgramRow>, DatabaseError> {
        self.look(Database::stored_programs)
    }
    fn programs_by_hash(&self, digits: &str) -> Result<Vec<ProgramId>, DatabaseError> {
        self.look(|database| database.programs_by_hash(digits))
    }
    fn program_from(&self, path: &[u8]) -> Result<Option<ProgramId>, DatabaseError> {
        self.look(|database| database.program_from(path))
    }
    fn programs(&self) -> Result<Vec<ProgramView>, DatabaseError> {
        self.look(Database::programs)
    }
    fn ras(&self, query: &RasQuery) -> Result<Vec<RasView>, DatabaseError> {
        self.look(|database| database.ras(query))
    }
    fn finish(&mut self) -> Result<(), DatabaseError> {
        self.change(|database| database.finish())
    }
}
