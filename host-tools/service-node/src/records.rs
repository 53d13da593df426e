//! What happened, on its way into the database.
//!
//! A database that cannot be written for now – its disk is full or fails, another program holds its lock – changes no
//! history: what happens meanwhile waits here in order and is written as soon as that is possible again, and views show
//! it as if it had been. So that it outlives this process too, it is also put into the [`Reserve`], room on the disk
//! that was taken beforehand. New work is refused meanwhile: [`Records::check`].

mod record;
mod reserve;
mod storage;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use coppice_api::job::{JobDetail, JobView};
use coppice_protocol::ids::JobId;
use coppice_protocol::ras::RasEvent;

pub use self::record::{Record, What};
use self::reserve::Reserve;
pub use self::storage::Storage;
use crate::controller::Now;
use crate::database::DatabaseError;
use crate::limits::{RECORDS_RETRY_TIME_MAX, RECORDS_RETRY_TIME_MIN, RECORDS_WAITING_MAX};

/// The records cannot be written for now.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    /// Why, in words that follow "its records cannot be written: ".
    why: String,
    retry_at: Instant,
    retry_after: Duration,
    /// Records that had no place.
    lost: u64,
}

/// It is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// How long it lasted.
    pub lasted: Duration,
    /// Why.
    pub why: String,
    /// Records that were kept meanwhile.
    pub written: usize,
    /// Records that are lost because too many waited, none of them of a job's history.
    pub lost: u64,
}

/// The database, and what waits for it.
#[derive(Debug)]
pub struct Records {
    storage: Box<dyn Storage>,
    reserve: Option<Reserve>,
    /// Oldest first; empty unless there is trouble.
    waiting: VecDeque<Record>,
    trouble: Option<Trouble>,
}

impl Records {
    /// Records that have no room of their own on the disk.
    #[must_use]
    pub fn new(storage: Box<dyn Storage>) -> Self {
        Self { storage, reserve: None, waiting: VecDeque::new(), trouble: None }
    }

    /// Records with a reserve at `path`. What an earlier service node left there is written now.
    ///
    /// # Errors
    /// [`DatabaseError`], also if there is no room for the reserve.
    pub fn with_reserve(mut storage: Box<dyn Storage>, path: &Path) -> Result<Self, DatabaseError> {
        let (mut reserve, left) = Reserve::open(path)?;
        for record in &left {
            match storage.write(record) {
                Err(error) if error.may_pass() => return Err(error),
                // It may have been there already.
                Err(error) => tracing::warn!(%error, ?record, "could not record"),
                Ok(()) => {}
            }
        }
        reserve.clear()?;
        if !left.is_empty() {
            tracing::info!(records = left.len(), "wrote what an earlier service node could not");
        }
        Ok(Self { reserve: Some(reserve), ..Self::new(storage) })
    }

    /// Leaves an event to whoever opens these records next, from a service node that cannot go on: its log may be on
    /// a disk that is full. If it lives after all, what it puts into the reserve later may take the event's place.
    ///
    /// # Errors
    /// Of the reserve at `path`.
    pub fn leave(path: &Path, event: RasEvent, realtime_ns: u64) -> io::Result<()> {
        let (mut reserve, _) = Reserve::open(path)?;
        reserve.add(&Record { at_ns: realtime_ns, what: What::Ras(None, event) })
    }

    /// The database, for questions, except for those about jobs.
    #[must_use]
    pub fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// The database, for what is to fail if it cannot be done now.
    pub fn storage_mut(&mut self) -> &mut dyn Storage {
        &mut *self.storage
    }

    /// Gives the database back, to be closed last, after one more attempt.
    #[must_use]
    pub fn into_storage(mut self, now: Now) -> Box<dyn Storage> {
        self.retry(now);
        if let Some(Trouble { why, .. }) = &self.trouble {
            tracing::error!(records = self.waiting.len(), why, "not in the database yet; the next `up` writes them");
        }
        self.storage
    }

    /// Takes something that happened.
    pub fn add(&mut self, what: What, now: Now) {
        let record = Record { at_ns: now.realtime_ns, what };
        if self.trouble.is_some() {
            return self.wait(record);
        }
        match self.storage.write(&record) {
            Ok(()) => {}
            Err(error) if error.may_pass() => {
                let why = error.to_string();
                tracing::error!(why, "records wait");
                let (retry_at, retry_after) = (now.instant + RECORDS_RETRY_TIME_MIN, RECORDS_RETRY_TIME_MIN);
                self.trouble = Some(Trouble { since: now.instant, why, retry_at, retry_after, lost: 0 });
                self.wait(record);
            }
            Err(error) => tracing::error!(%error, ?record, "could not record"),
        }
    }

    /// Keeps a record for later. Beyond [`RECORDS_WAITING_MAX`] only what is of a job's history.
    fn wait(&mut self, record: Record) {
        if self.waiting.len() >= RECORDS_WAITING_MAX && record.job().is_none() {
            if let Some(trouble) = &mut self.trouble {
                trouble.lost += 1;
            }
            return;
        }
        if let Some(reserve) = &mut self.reserve
            && let Err(error) = reserve.add(&record)
        {
            tracing::error!(%error, ?record, "is kept in memory alone");
        }
        self.waiting.push_back(record);
    }

    /// Whether new work can be recorded.
    ///
    /// # Errors
    /// One line that says why not.
    pub fn check(&self) -> Result<(), String> {
        match &self.trouble {
            None => Ok(()),
            Some(trouble) => Err(format!("the cluster's records cannot be written: {}", trouble.why)),
        }
    }

    /// Records that wait until it is.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How long it has not been possible.
    #[must_use]
    pub fn trouble(&self, now: Now) -> Duration {
        self.trouble.as_ref().map_or(Duration::ZERO, |trouble| now.instant.saturating_duration_since(trouble.since))
    }

    /// When to call [`Self::retry`] at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.trouble.as_ref().map(|trouble| trouble.retry_at)
    }

    /// Tries again if it is time. Says so if nothing waits any more.
    pub fn advance(&mut self, now: Now) -> Option<Recovered> {
        if self.deadline()? > now.instant { None } else { self.retry(now) }
    }

    fn retry(&mut self, now: Now) -> Option<Recovered> {
        self.trouble.as_ref()?;
        let mut written = 0;
        let failure = loop {
            let Some(record) = self.waiting.front() else { break None };
            match self.storage.write(record) {
                Err(error) if error.may_pass() => break Some(error),
                Err(error) => tracing::error!(%error, ?record, "could not record"),
                Ok(()) => written += 1,
            }
            self.waiting.pop_front();
        };
        if let Some(trouble) = self.trouble.as_mut().filter(|_| failure.is_some()) {
            trouble.why = failure.map_or_else(String::new, |error| error.to_string());
            trouble.retry_after = (trouble.retry_after * 2).min(RECORDS_RETRY_TIME_MAX);
            trouble.retry_at = now.instant + trouble.retry_after;
            return None;
        }
        let trouble = self.trouble.take()?;
        if let Some(Err(error)) = self.reserve.as_mut().map(Reserve::clear) {
            tracing::error!(%error, "the reserve keeps what is in the database now");
        }
        let lasted = now.instant.saturating_duration_since(trouble.since);
        Some(Recovered { lasted, why: trouble.why, written, lost: trouble.lost })
    }

    /// One job with what became of its ranks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job(&self, job: JobId) -> Result<Option<JobDetail>, DatabaseError> {
        let mut found = self.storage.job(job)?;
        if let Some(detail) = &mut found {
            let of_it = self.waiting.iter().filter(|record| record.job() == Some(job));
            of_it.for_each(|record| record.show(detail));
            detail.rank_reports.sort_by_key(|report| report.rank);
        }
        Ok(found)
    }

    /// One job, without what became of its ranks, of which there may be many.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job_alone(&self, job: JobId) -> Result<Option<JobView>, DatabaseError> {
        let Some(view) = self.storage.job_alone(job)? else { return Ok(None) };
        let mut detail = JobDetail { job: view, rank_reports: Vec::new() };
        let of_it = self.waiting.iter().filter(|record| record.job() == Some(job));
        of_it.filter(|record| !matches!(record.what, What::Ranks(..))).for_each(|record| record.show(&mut detail));
        Ok(Some(detail.job))
    }

    /// The newest jobs, or the newest of those before one, the newest last.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn jobs(&self, limit: u32, before: Option<JobId>) -> Result<Vec<JobView>, DatabaseError> {
        let jobs = self.storage.jobs(limit, before)?.into_iter();
        let mut jobs: Vec<JobDetail> = jobs.map(|job| JobDetail { job, rank_reports: Vec::new() }).collect();
        // They come in order, and there may be many of both.
        for (record, of) in self.waiting.iter().filter_map(|record| Some((record, record.job()?))) {
            let found = jobs.binary_search_by_key(&of.0, |detail| detail.job.job);
            let is_of_ranks = matches!(record.what, What::Ranks(..));
            if let Some(detail) = found.ok().filter(|_| !is_of_ranks).and_then(|at| jobs.get_mut(at)) {
                record.show(detail);
            }
        }
        Ok(jobs.into_iter().map(|detail| detail.job).collect())
    }
}
