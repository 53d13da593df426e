//! Jobs, their blocks and their ranks.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use coppice_api::ahead::AheadDecision;
use coppice_api::checkpoint::{CheckpointsMade, Continuation};
use coppice_api::job::{JobDetail, JobState, JobView, Submission};
use coppice_api::output::OutputView;
use coppice_api::retain::{LastProgram, Placement, RetentionSummary};
use coppice_api::staging::StagedView;
use coppice_api::transfer::TransferView;
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId};
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::bytes::{Bytes, Read};
use super::node_state::record_run;
use super::{Database, DatabaseError, from_json, from_sql, to_json, to_sql};
use crate::limits::{ENDED_JOBS_KEPT_MAX, ROWS_BETWEEN_TRIMS};

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// What `run` exits with.
    pub exit_status: u8,
    /// Why, if not by its ranks' own exits.
    pub reason: Option<String>,
    /// What retained page tables saved it, if it had nodes.
    pub retention: Option<RetentionSummary>,
    /// Pages of its program that a node had or fetched, if all ranks came to their own end.
    #[serde(default)]
    pub pages_touched: Option<u64>,
    /// How it goes on, if it has lost a node and was restarted.
    #[serde(default)]
    pub continued_as: Option<Continuation>,
}

/// How a job started.
#[derive(Clone, Copy, Debug)]
pub struct StartRow<'a> {
    /// Its nodes in order of the ranks, each with its boot.
    pub nodes: &'a [(NodeId, Generation)],
    /// How it got them.
    pub placement: &'a Placement,
    /// Whether its program is sent there ahead of the launch.
    pub ahead: Option<&'a AheadDecision>,
    /// Its program.
    pub program: ProgramId,
    /// The same as the last program of the nodes.
    pub run: &'a LastProgram,
}

const COLUMNS: &str =
    "job, state, name, arguments, lower(hex(program)) AS program, root, directory, ranks, submitted_at_ns,
                       started_at_ns, ended_at_ns, exit_status, reason, running_at_ns, estimate_ms, placement,
                       retention, ranks_per_node, staged, transfers, ahead, detached, output, restarted_from,
                       checkpoint_policy, checkpoints_made, continued_as, spawned_by,
                       (SELECT nodes FROM blocks WHERE blocks.job = jobs.job) AS nodes";

impl Database {
    /// Records a submitted job and gives it its number.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn add_job(
        &self,
        job: &Submission,
        program: ProgramId,
        staged: &[StagedView],
        at_ns: u64,
    ) -> Result<JobId, DatabaseError> {
        let sql = "INSERT INTO jobs
                   (state, name, arguments, program, root, directory, ranks, timeout_ms, submitted_at_ns, estimate_ms,
                    ranks_per_node, staged, detached, output, restarted_from, checkpoint_policy,
                    spawned_by)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) RETURNING job";
        let values = params![
            JobState::Queued.as_str(),
            Bytes(&job.name),
            to_json(&job.arguments),
            program.0,
            Bytes::of_path(&job.root),
            Bytes(&job.directory),
            job.ranks,
            job.timeout_ms.map(to_sql),
            to_sql(at_ns),
            job.estimate_ms.map(to_sql),
            job.ranks_per_node,
            to_json(staged),
            job.detached,
            job.keep_output.map(|limit| to_json(&OutputView::limited(limit))),
            job.restarted_from.map(|checkpoint| checkpoint.to_string()),
            job.checkpoint_policy.as_ref().map(to_json),
            job.spawned_by.as_ref().map(to_json),
        ];
        // A statement that gives a row commits after that, and if it cannot then nobody hears of it.
        let transaction = self.connection.unchecked_transaction()?;
        let id: i64 = transaction.prepare_cached(sql)?.query_row(values, |row| row.get("job"))?;
        let id = from_sql(id);
        if id.is_multiple_of(ROWS_BETWEEN_TRIMS) {
            let sql = "DELETE FROM jobs WHERE job <= ?1 AND state = 'ended'";
            transaction.execute(sql, [to_sql(id.saturating_sub(ENDED_JOBS_KEPT_MAX))])?;
        }
        transaction.commit()?;
        Ok(JobId(id))
    }

    /// Records the block a job was given and why, and that its nodes run its program.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn start_job(&mut self, job: JobId, start: &StartRow<'_>, at_ns: u64) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        let sql = "UPDATE jobs SET state = ?2, started_at_ns = ?3, placement = ?4, ahead = ?5 WHERE job = ?1";
        transaction.prepare_cached(sql)?.execute(params![
            to_sql(job.0),
            JobState::Starting.as_str(),
            to_sql(at_ns),
            to_json(start.placement),
            start.ahead.map(to_json)
        ])?;
        let nodes: Vec<NodeId> = start.nodes.iter().map(|(node, _)| *node).collect();
        let sql = "INSERT INTO blocks (job, nodes, formed_at_ns) VALUES (?1, ?2, ?3)";
        transaction.prepare_cached(sql)?.execute(params![to_sql(job.0), to_json(&nodes), to_sql(at_ns)])?;
        record_run(&transaction, start.nodes, start.run, start.program)?;
        Ok(transaction.commit()?)
    }

    /// Records that all ranks of a job run.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job_running(&self, job: JobId, at_ns: u64) -> Result<(), DatabaseError> {
        let sql = "UPDATE jobs SET state = ?2, running_at_ns = ?3 WHERE job = ?1";
        let values = params![to_sql(job.0), JobState::Running.as_str(), to_sql(at_ns)];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Records what is known of a job's transfers, instead of what was before.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn set_transfers(&self, job: JobId, transfers: &[TransferView]) -> Result<(), DatabaseError> {
        let sql = "UPDATE jobs SET transfers = ?2 WHERE job = ?1";
        self.connection.prepare_cached(sql)?.execute(params![to_sql(job.0), to_json(transfers)])?;
        Ok(())
    }

    /// Records what is kept of a job's output.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn set_output(&self, job: JobId, output: &OutputView) -> Result<(), DatabaseError> {
        let sql = "UPDATE jobs SET output = ?2 WHERE job = ?1";
        self.connection.prepare_cached(sql)?.execute(params![to_sql(job.0), to_json(output)])?;
        Ok(())
    }

    /// Records which checkpoints were made of a job.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn set_checkpoints_made(&self, job: JobId, made: &CheckpointsMade) -> Result<(), DatabaseError> {
        let sql = "UPDATE jobs SET checkpoints_made = ?2 WHERE job = ?1";
        self.connection.prepare_cached(sql)?.execute(params![to_sql(job.0), to_json(made)])?;
        Ok(())
    }

    /// Records that what was kept of a job's output is not any more.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn output_given_back(&self, job: JobId) -> Result<(), DatabaseError> {
        let sql = "UPDATE jobs SET output = json_set(output, '$.given_back', json('true')) WHERE job = ?1";
        self.connection.prepare_cached(sql)?.execute([to_sql(job.0)])?;
        Ok(())
    }

    /// Records the end of a job and gives its block up. Not before its beginning, whoever set the host's clock back:
    /// the service node that records it may be another than the one that started it.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn end_job(&mut self, job: JobId, end: &JobRow, at_ns: u64) -> Result<(), DatabaseError> {
        let transaction = self.connection.transaction()?;
        let sql = "UPDATE jobs SET state = ?2, exit_status = ?4, reason = ?5, retention = ?6, continued_as = ?7,
                       ended_at_ns = MAX(?3, submitted_at_ns, IFNULL(started_at_ns, 0), IFNULL(running_at_ns, 0))
                   WHERE job = ?1";
        transaction.prepare_cached(sql)?.execute(params![
            to_sql(job.0),
            JobState::Ended.as_str(),
            to_sql(at_ns),
            end.exit_status,
            end.reason,
            end.retention.as_ref().map(to_json),
            end.continued_as.as_ref().map(to_json)
        ])?;
        if let Some(pages) = end.pages_touched {
            let sql = "UPDATE programs SET pages_touched = ?2 WHERE hash = (SELECT program FROM jobs WHERE job = ?1)";
            transaction.prepare_cached(sql)?.execute(params![to_sql(job.0), to_sql(pages)])?;
        }
        let sql = "UPDATE blocks SET released_at_ns = MAX(?2, formed_at_ns) WHERE job = ?1";
        transaction.prepare_cached(sql)?.execute(params![to_sql(job.0), to_sql(at_ns)])?;
        Ok(transaction.commit()?)
    }

    /// Jobs that had not ended when the service node last did.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn unfinished_jobs(&self) -> Result<Vec<JobId>, DatabaseError> {
        let mut statement =
            self.connection.prepare_cached("SELECT job FROM jobs WHERE state != 'ended' ORDER BY job")?;
        let rows = statement.query_map([], |row| row.get("job").map(|job| JobId(from_sql(job))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Jobs whose output was to be kept, and of which it is not recorded how much of it is.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn jobs_with_open_logs(&self) -> Result<Vec<(JobId, OutputView)>, DatabaseError> {
        let sql = "SELECT job, output FROM jobs WHERE output IS NOT NULL AND json_extract(output, '$.bytes') IS NULL
                   ORDER BY job";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let output = from_json(&row.get::<_, String>("output")?, "kept output of a job")?;
            found.push((JobId(from_sql(row.get("job")?)), output));
        }
        Ok(found)
    }

    /// The newest jobs, or the newest of those before one, the newest last.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn jobs(&self, limit: u32, before: Option<JobId>) -> Result<Vec<JobView>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE job < ?2 ORDER BY job DESC LIMIT ?1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        // No number of a job is as large as that.
        let before = before.and_then(|job| i64::try_from(job.0).ok()).unwrap_or(i64::MAX);
        let mut rows = statement.query((limit, before))?;
        let mut jobs = Vec::new();
        while let Some(row) = rows.next()? {
            jobs.push(view(row)?);
        }
        jobs.reverse();
        Ok(jobs)
    }

    /// One job.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job_alone(&self, job: JobId) -> Result<Option<JobView>, DatabaseError> {
        let sql = format!("SELECT {COLUMNS} FROM jobs WHERE job = ?1");
        let found = self.connection.prepare_cached(&sql)?.query_row([to_sql(job.0)], |row| Ok(view(row))).optional()?;
        found.transpose()
    }

    /// One job with what became of its ranks.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn job(&self, job: JobId) -> Result<Option<JobDetail>, DatabaseError> {
        let Some(view) = self.job_alone(job)? else { return Ok(None) };
        Ok(Some(JobDetail { job: view, rank_reports: self.ranks(job)? }))
    }
}

fn view(row: &Row<'_>) -> Result<JobView, DatabaseError> {
    let state = match row.get::<_, String>("state")?.as_str() {
        "queued" => JobState::Queued,
        "starting" => JobState::Starting,
        "running" => JobState::Running,
        "ended" => JobState::Ended,
        _ => return Err(DatabaseError::Damaged("state of a job")),
    };
    let number = |column| row.get::<_, Option<i64>>(column).map(|value| value.map(from_sql));
    let nodes: Option<String> = row.get("nodes")?;
    let (placement, retention): (Option<String>, Option<String>) = (row.get("placement")?, row.get("retention")?);
    let (ahead, output): (Option<String>, Option<String>) = (row.get("ahead")?, row.get("output")?);
    let (restarted_from, spawned): (Option<String>, Option<String>) =
        (row.get("restarted_from")?, row.get("spawned_by")?);
    let policy: Option<String> = row.get("checkpoint_policy")?;
    let (made, continued): (Option<String>, Option<String>) = (row.get("checkpoints_made")?, row.get("continued_as")?);
    let checkpoint = |text: String| text.parse().map_err(|_| DatabaseError::Damaged("checkpoint of a job"));
    Ok(JobView {
        job: from_sql(row.get("job")?),
        state,
        name: row.get::<_, Read>("name")?.0,
        arguments: from_json(&row.get::<_, String>("arguments")?, "arguments of a job")?,
        program: row.get("program")?,
        root: OsString::from_vec(row.get::<_, Read>("root")?.0.into_bytes()).into(),
        directory: row.get::<_, Read>("directory")?.0,
        ranks: row.get("ranks")?,
        ranks_per_node: row.get("ranks_per_node")?,
        nodes: nodes.map_or(Ok(Vec::new()), |nodes| from_json(&nodes, "nodes of a block"))?,
        staged: from_json(&row.get::<_, String>("staged")?, "staged files of a job")?,
        transfers: from_json(&row.get::<_, String>("transfers")?, "transfers of a job")?,
        submitted_at_ns: from_sql(row.get("submitted_at_ns")?),
        started_at_ns: number("started_at_ns")?,
        running_at_ns: number("running_at_ns")?,
        ended_at_ns: number("ended_at_ns")?,
        estimate_ms: number("estimate_ms")?,
        placement: placement.map(|text| from_json(&text, "placement of a job")).transpose()?,
        ahead: ahead.map(|text| from_json(&text, "decision of a job")).transpose()?,
        retention: retention.map(|text| from_json(&text, "retention of a job")).transpose()?,
        exit_status: row.get("exit_status")?,
        reason: row.get("reason")?,
        detached: row.get("detached")?,
        output: output.map(|text| from_json(&text, "kept output of a job")).transpose()?,
        restarted_from: restarted_from.map(checkpoint).transpose()?,
        spawned_by: spawned.map(|text| from_json(&text, "origin of a job")).transpose()?,
        checkpoint_policy: policy.map(|text| from_json(&text, "checkpoint policy of a job")).transpose()?,
        checkpoints_made: made.map(|text| from_json(&text, "checkpoints of a job")).transpose()?,
        continued_as: continued.map(|text| from_json(&text, "continuation of a job")).transpose()?,
    })
}
