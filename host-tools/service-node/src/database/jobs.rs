//! Jobs, their blocks and their ranks.

use coppice_api::job::{JobDetail, JobState, JobView, RankView, Submission};
use coppice_protocol::ids::{JobId, NodeId, ProgramId};
use rusqlite::{OptionalExtension, Row, params};

use super::{Database, DatabaseError, from_json, from_sql, to_json, to_sql};
use crate::limits::{JOBS_KEPT_MAX, ROWS_BETWEEN_TRIMS};

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// What `run` exits with.
    pub exit_status: u8,
    /// Why, if not by its ranks' own exits.
    pub reason: Option<String>,
}

const COLUMNS: &str = "job, state, name, arguments, lower(hex(program)), root, directory, ranks, submitted_at_ns,
                       started_at_ns, ended_at_ns, exit_status, reason,
                       (SELECT nodes FROM blocks WHERE blocks.job = jobs.job)";

impl Database {
    /// Records a submitted job and gives it its number.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn add_job(&self, job: &Submission, program: ProgramId, at_ns: u64) -> Result<JobId, DatabaseError> {
        let sql = "INSERT INTO jobs
                   (state, name, arguments, program, root, directory, ranks, timeout_ms, submitted_at_ns)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING job";
        let values = params![
            state_name(JobState::Queued),
            job.name,
            to_json(&job.arguments),
            program.0,
            job.root.to_string_lossy(),
            job.directory,
            job.ranks,
            job.timeout_ms.map(to_sql),
            to_sql(at_ns),
        ];
        let id: i64 = self.connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
        let id = from_sql(id);
        if id.is_multiple_of(ROWS_BETWEEN_TRIMS) {
            let sql = "DELETE FROM jobs WHERE job <= ?1 AND state = 'ended'";
            self.connection.execute(sql, [to_sql(id.saturating_sub(JOBS_KEPT_MAX))])?;
        }
        Ok(JobId(id))
    }

    /// Records the block a job was given.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn start_job(&mut self, job: JobId, nodes: &[NodeId], at_ns: u64) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        let sql = "UPDATE jobs SET state = ?2, started_at_ns = ?3 WHERE job = ?1";
        transaction.prepare_cached(sql)?.execute(params![
            to_sql(job.0),
            state_name(JobState::Starting),
            to_sql(at_ns)
        ])?;
        let sql = "INSERT INTO blocks (job, nodes, formed_at_ns) VALUES (?1, ?2, ?3)";
        transaction.prepare_cached(sql)?.execute(params![to_sql(job.0), to_json(&nodes), to_sql(at_ns)])?;
        Ok(transaction.commit()?)
    }

    /// Records that all ranks of a job run.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job_running(&self, job: JobId) -> Result<(), DatabaseError> {
        let sql = "UPDATE jobs SET state = ?2 WHERE job = ?1";
        self.connection.prepare_cached(sql)?.execute(params![to_sql(job.0), state_name(JobState::Running)])?;
        Ok(())
    }

    /// Records what became of ranks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn add_ranks(&mut self, job: JobId, reports: &[RankView]) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        for report in reports {
            let sql = "INSERT OR IGNORE INTO ranks (job, rank, report) VALUES (?1, ?2, ?3)";
            transaction.prepare_cached(sql)?.execute(params![to_sql(job.0), report.rank, to_json(report)])?;
        }
        Ok(transaction.commit()?)
    }

    /// Records the end of a job and gives its block up.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn end_job(&mut self, job: JobId, end: &JobRow, at_ns: u64) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        let sql = "UPDATE jobs SET state = ?2, ended_at_ns = ?3, exit_status = ?4, reason = ?5 WHERE job = ?1";
        transaction.prepare_cached(sql)?.execute(params![
            to_sql(job.0),
            state_name(JobState::Ended),
            to_sql(at_ns),
            end.exit_status,
            end.reason
        ])?;
        let sql = "UPDATE blocks SET released_at_ns = ?2 WHERE job = ?1";
        transaction.prepare_cached(sql)?.execute(params![to_sql(job.0), to_sql(at_ns)])?;
        Ok(transaction.commit()?)
    }

    /// Jobs that had not ended when the service node last did.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn unfinished_jobs(&self) -> Result<Vec<JobId>, DatabaseError> {
        let mut statement = self.connection.prepare("SELECT job FROM jobs WHERE state != 'ended' ORDER BY job")?;
        let rows = statement.query_map([], |row| row.get(0).map(|job| JobId(from_sql(job))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The newest jobs, the newest last.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn jobs(&self, limit: u32) -> Result<Vec<JobView>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs ORDER BY job DESC LIMIT ?1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([limit])?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            jobs.push(view(row)?);
        }
        jobs.reverse();
        Ok(jobs)
    }

    /// One job with what became of its ranks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job(&self, job: JobId) -> Result<Option<JobDetail>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE job = ?1");
        let found = self.connection.prepare_cached(&sql)?.query_row([to_sql(job.0)], |row| Ok(view(row))).optional()?;
        let Some(job_view) = found.transpose()? else { return Ok(None) };
        let mut statement = self.connection.prepare_cached("SELECT report FROM ranks WHERE job = ?1 ORDER BY rank")?;
        let mut rows = statement.query([to_sql(job.0)])?;
        let mut rank_reports = Vec::new();
        while let Some(row) = rows.next()? {
            rank_reports.push(from_json(&row.get::<_, String>(0)?, "rank report")?);
        }
        Ok(Some(JobDetail { job: job_view, rank_reports }))
    }
}

fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Starting => "starting",
        JobState::Running => "running",
        JobState::Ended => "ended",
    }
}

fn view(row: &Row<'_>) -> Result<JobView, DatabaseError> {
    let state = match row.get::<_, String>(1)?.as_str() {
        "queued" => JobState::Queued,
        "starting" => JobState::Starting,
        "running" => JobState::Running,
        "ended" => JobState::Ended,
        _ => return Err(DatabaseError::Damaged("state of a job")),
    };
    let time = |index| row.get::<_, Option<i64>>(index).map(|value| value.map(from_sql));
    let nodes: Option<String> = row.get(13)?;
    Ok(JobView {
        running_at_ns: None,
        estimate_ms: None,
        placement: None,
        retention: None,
        job: from_sql(row.get(0)?),
        state,
        name: row.get(2)?,
        arguments: from_json(&row.get::<_, String>(3)?, "arguments of a job")?,
        program: row.get(4)?,
        root: row.get::<_, String>(5)?.into(),
        directory: row.get(6)?,
        ranks: row.get(7)?,
        nodes: nodes.map_or(Ok(Vec::new()), |nodes| from_json(&nodes, "nodes of a block"))?,
        submitted_at_ns: from_sql(row.get(8)?),
        started_at_ns: time(9)?,
        ended_at_ns: time(10)?,
        exit_status: row.get(11)?,
        reason: row.get(12)?,
    })
}

#[cfg(test)]
mod tests {
    use coppice_api::job::{JobState, RankOutcome, RankView, Submission};
    use coppice_protocol::ids::{NodeId, ProgramId};

    use super::JobRow;
    use crate::database::Database;

    fn submission() -> Submission {
        Submission {
            program: "/bin/x".into(),
            name: "x".into(),
            arguments: vec!["a b".into(), "ü".into()],
            environment: vec![],
            root: "/srv".into(),
            directory: "/".into(),
            ranks: 2,
            input_rank: None,
            timeout_ms: Some(5),
            umask: 0o22,
            estimate_ms: None,
            retain: true,
            nodes: Vec::new(),
        }
    }

    fn rank(rank: u32) -> RankView {
        RankView {
            rank,
            node: rank + 4,
            outcome: RankOutcome::Exited,
            exit: Some(3),
            signal: None,
            reason: None,
            launch_ns: u64::MAX,
            run_ns: 2,
            page_faults: 3,
            instruction_faults: 4,
            pages_fetched: 5,
            pages_peak: 6,
            bytes_read: 7,
            bytes_written: 8,
            syscalls: vec![],
        }
    }

    #[test]
    fn a_job_is_followed_from_queue_to_end() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("db");
        let mut database = Database::open(&file).expect("open");
        let job = database.add_job(&submission(), ProgramId([9; 32]), 10).expect("added");
        assert_eq!(database.job(job).expect("query").expect("there").job.state, JobState::Queued);
        database.start_job(job, &[NodeId(4), NodeId(5)], 20).expect("started");
        database.job_running(job).expect("running");
        assert_eq!(database.unfinished_jobs().expect("query"), [job]);
        database.add_ranks(job, &[rank(1), rank(0)]).expect("ranks");
        // What is said twice is recorded once.
        database.add_ranks(job, &[rank(1)]).expect("ranks");
        let end = JobRow { exit_status: 3, reason: Some("because".into()) };
        database.end_job(job, &end, 30).expect("ended");

        // As another process would find it, the first one having been killed.
        std::mem::forget(database);
        let database = Database::open(&file).expect("open again");
        assert_eq!(database.unfinished_jobs().expect("query"), []);
        let detail = database.job(job).expect("query").expect("there");
        assert_eq!(detail.rank_reports, [rank(0), rank(1)]);
        assert_eq!((detail.job.nodes, detail.job.exit_status), (vec![4, 5], Some(3)));
        assert_eq!(detail.job.arguments, ["a b", "ü"]);
        assert_eq!((detail.job.started_at_ns, detail.job.ended_at_ns), (Some(20), Some(30)));
    }

    #[test]
    fn numbers_are_never_reused_and_the_newest_come_last() {
        let database = Database::in_memory().expect("open");
        let first = database.add_job(&submission(), ProgramId([9; 32]), 10).expect("added");
        database.connection.execute("DELETE FROM jobs", []).expect("deleted");
        let second = database.add_job(&submission(), ProgramId([9; 32]), 10).expect("added");
        assert!(second > first);
        let third = database.add_job(&submission(), ProgramId([9; 32]), 10).expect("added");
        let listed: Vec<u64> = database.jobs(10).expect("jobs").iter().map(|job| job.job).collect();
        assert_eq!(listed, [second.0, third.0]);
        assert_eq!(database.jobs(1).expect("jobs")[0].job, third.0);
    }
}
