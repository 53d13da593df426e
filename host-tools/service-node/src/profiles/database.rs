//! The database of what overlays have gathered: one SQLite file in WAL mode, which one thread writes and anybody reads.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use coppice_api::overlay::{EpochView, MetricView, TopView};
use coppice_protocol::ids::JobId;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::{ProfileOrder, stacks, totals};
use crate::limits::{PROFILE_EPOCHS_MAX, PROFILE_LOCK_WAIT_MAX};

/// Version of the tables. One of a later Coppice is refused.
const VERSION: i64 = 3;

/// Tables of version 2.
const SCHEMA: &str = include_str!("schema.sql");

/// What makes tables of version 1 those of version 2, …
const FROM_1: &str = "ALTER TABLE epochs ADD COLUMN alike TEXT NOT NULL DEFAULT '[]'";

/// … and those of version 3.
const FROM_2: &str = include_str!("totals.sql");

/// Why something was not recorded or read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// SQLite failed.
    #[error("the database of profiles: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// It is of another version.
    #[error("the database of profiles has version {0}, this coppiced knows {VERSION}; remove it, or use that Coppice")]
    Version(i64),
    /// A row does not hold what it must.
    #[error("damaged {0} in the database of profiles")]
    Damaged(&'static str),
}

/// See this module.
#[derive(Debug)]
pub struct Profiles(pub(super) Connection);

/// SQLite has no larger numbers.
pub(super) fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn read(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}

impl Profiles {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn open(path: &Path) -> Result<Self, ProfileError> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(PROFILE_LOCK_WAIT_MAX)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        bring_up_to_date(&mut connection)?;
        Ok(Self(connection))
    }

    /// Opens the file to read it. Nothing, if there is none.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn read(path: &Path) -> Result<Option<Self>, ProfileError> {
        if !path.exists() {
            return Ok(None);
        }
        // Not read-only, which a WAL cannot be opened as when its index is not there; nothing is written.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PROFILE_LOCK_WAIT_MAX)?;
        // It is being made.
        if version_of(&connection)? == 0 {
            return Ok(None);
        }
        bring_up_to_date(&mut connection)?;
        Ok(Some(Self(connection)))
    }

    /// Records all of this, or nothing.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn add(&mut self, orders: &[ProfileOrder]) -> Result<(), ProfileError> {
        let transaction = self.0.transaction()?;
        for order in orders {
            match order {
                ProfileOrder::Epoch(job, epoch) => {
                    add_epoch(&transaction, *job, epoch)?;
                    totals::add(&transaction, *job, epoch)?;
                    thin_out(&transaction, *job)?;
                }
                ProfileOrder::Sampling { job, generation, hz } => {
                    stacks::set_rate(&transaction, *job, *generation, *hz)?;
                }
                ProfileOrder::Stacks { job, generation, stacks } => {
                    stacks::add(&transaction, *job, *generation, stacks)?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Forgets epochs that ended before that, and what jobs were sampled at that have no others.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn forget_before(&self, time: SystemTime) -> Result<(), ProfileError> {
        let before_ns = time.duration_since(UNIX_EPOCH).map_or(0, |since| clamped(since.as_nanos() as u64));
        stacks::forget_before(&self.0, before_ns)?;
        for table in OF_EPOCHS {
            self.0.execute(
                &format!(
                    "DELETE FROM {table} WHERE (job, generation, epoch) IN
                         (SELECT job, generation, epoch FROM epochs WHERE end_ns < ?1)"
                ),
                [before_ns],
            )?;
        }
        self.0.execute("DELETE FROM epochs WHERE end_ns < ?1", [before_ns])?;
        Ok(())
    }

    /// The newest epochs that were recorded of a job, at most so many, in order.
    ///
    /// # Errors
    /// [`ProfileError`].
    pub fn of_job(&self, job: JobId, limit: u32) -> Result<Vec<EpochView>, ProfileError> {
        let mut statement =
            self.0.prepare("SELECT * FROM epochs WHERE job = ?1 ORDER BY generation DESC, epoch DESC LIMIT ?2")?;
        let rows = statement
            .query_map(params![clamped(job.0), limit], |row| {
                let view = EpochView {
                    generation: row.get("generation")?,
                    epoch: read(row, "epoch")?,
                    period_ns: read(row, "period_ns")?,
                    end_ns: read(row, "end_ns")?,
                    came_ns: read(row, "came_ns")?,
                    ranks: read(row, "ranks")?,
                    of: row.get("of")?,
                    missing: row.get("missing")?,
                    metrics: Vec::new(),
                    alike: Vec::new(),
                    counters: Vec::new(),
                    counters_dropped: read(row, "counters_dropped")?,
                    node_count: read(row, "node_count")?,
                    nodes: Vec::new(),
                    totals: Vec::new(),
                };
                Ok((view, row.get::<_, String>("alike")?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let mut epochs = Vec::new();
        for (view, alike) in rows.into_iter().rev() {
            let alike = serde_json::from_str(&alike).map_err(|_| ProfileError::Damaged("ranks"))?;
            epochs.push(EpochView { alike, ..view });
        }
        let mut statement = self.0.prepare(
            "SELECT * FROM metrics WHERE job = ?1 AND generation = ?2 AND epoch = ?3 ORDER BY of_what, metric",
        )?;
        for view in &mut epochs {
            let key = params![clamped(job.0), view.generation, clamped(view.epoch)];
            let metrics = statement
                .query_map(key, |row| Ok((metric(row)?, row.get::<_, String>("top")?, row.get("of_what")?)))?;
            for row in metrics {
                let (metric, top, of_what): (MetricView, String, String) = row?;
                let top: Vec<TopView> = serde_json::from_str(&top).map_err(|_| ProfileError::Damaged("ranks"))?;
                let of = OF_WHAT.into_iter().find(|of| of.name() == of_what).ok_or(ProfileError::Damaged("metrics"))?;
                of.metrics_mut(view).push(MetricView { top, ..metric });
            }
        }
        Ok(epochs)
    }
}

/// Tables with rows that go with their epoch.
const OF_EPOCHS: [&str; 2] = ["metrics", "totals"];

fn version_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Makes the tables what they are to be. Somebody else may do so at the same time.
fn bring_up_to_date(connection: &mut Connection) -> Result<(), ProfileError> {
    if version_of(connection)? == VERSION {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let steps: &[&str] = match version_of(&transaction)? {
        0 => &[SCHEMA, FROM_2],
        1 => &[FROM_1, FROM_2],
        2 => &[FROM_2],
        VERSION => return Ok(()),
        other => return Err(ProfileError::Version(other)),
    };
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// What a metric is told of.
#[derive(Clone, Copy)]
enum OfWhat {
    Counter,
    Node,
    Rank,
}

const OF_WHAT: [OfWhat; 3] = [OfWhat::Counter, OfWhat::Node, OfWhat::Rank];

impl OfWhat {
    /// As the table has it.
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Node => "node",
            Self::Rank => "rank",
        }
    }

    fn metrics(self, view: &EpochView) -> &[MetricView] {
        match self {
            Self::Counter => &view.counters,
            Self::Node => &view.nodes,
            Self::Rank => &view.metrics,
        }
    }

    fn metrics_mut(self, view: &mut EpochView) -> &mut Vec<MetricView> {
        match self {
            Self::Counter => &mut view.counters,
            Self::Node => &mut view.nodes,
            Self::Rank => &mut view.metrics,
        }
    }
}

fn metric(row: &Row<'_>) -> rusqlite::Result<MetricView> {
    Ok(MetricView {
        metric: row.get("metric")?,
        unit: row.get("unit")?,
        count: read(row, "count")?,
        sum: read(row, "sum")?,
        least: read(row, "least")?,
        least_rank: row.get("least_rank")?,
        mean: read(row, "mean")?,
        deviation: read(row, "deviation")?,
        p50: read(row, "p50")?,
        p90: read(row, "p90")?,
        p99: read(row, "p99")?,
        top: Vec::new(),
        histogram: Vec::new(),
    })
}

fn add_epoch(transaction: &Transaction<'_>, job: JobId, view: &EpochView) -> Result<(), ProfileError> {
    let (job, epoch) = (clamped(job.0), clamped(view.epoch));
    let alike = serde_json::to_string(&view.alike).map_err(|_| ProfileError::Damaged("ranks"))?;
    transaction
        .prepare_cached("INSERT OR REPLACE INTO epochs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?
        .execute(params![
            job,
            view.generation,
            epoch,
            clamped(view.period_ns),
            clamped(view.end_ns),
            clamped(view.came_ns),
            clamped(view.ranks),
            view.of,
            view.missing,
            clamped(view.counters_dropped),
            clamped(view.node_count),
            alike
        ])?;
    let mut statement = transaction.prepare_cached(
        "INSERT OR REPLACE INTO metrics VALUES
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    for (of, metric) in OF_WHAT.into_iter().flat_map(|of| of.metrics(view).iter().map(move |metric| (of, metric))) {
        let top = serde_json::to_string(&metric.top).map_err(|_| ProfileError::Damaged("ranks"))?;
        statement.execute(params![
            job,
            view.generation,
            epoch,
            of.name(),
            metric.metric,
            metric.unit,
            clamped(metric.count),
            clamped(metric.sum),
            clamped(metric.least),
            metric.least_rank,
            clamped(metric.mean),
            clamped(metric.deviation),
            clamped(metric.p50),
            clamped(metric.p90),
            clamped(metric.p99),
            top
        ])?;
    }
    Ok(())
}

/// If a job has too many epochs every second one of the older half goes.
fn thin_out(transaction: &Transaction<'_>, job: JobId) -> Result<(), ProfileError> {
    let job = clamped(job.0);
    let count: i64 =
        transaction.prepare_cached("SELECT count(*) FROM epochs WHERE job = ?1")?.query_row([job], |row| row.get(0))?;
    if count <= PROFILE_EPOCHS_MAX {
        return Ok(());
    }
    let middle: Option<(u32, i64)> = transaction
        .query_row(
            "SELECT generation, epoch FROM epochs WHERE job = ?1 ORDER BY generation, epoch LIMIT 1 OFFSET ?2",
            params![job, count / 2],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((generation, epoch)) = middle else { return Ok(()) };
    let gone = "SELECT generation, epoch FROM
                    (SELECT generation, epoch, row_number() OVER (ORDER BY generation, epoch) AS place
                     FROM epochs WHERE job = ?1 AND (generation, epoch) < (?2, ?3))
                WHERE place % 2 = 0";
    for table in OF_EPOCHS.into_iter().chain(["epochs"]) {
        transaction.execute(
            &format!("DELETE FROM {table} WHERE job = ?1 AND (generation, epoch) IN ({gone})"),
            params![job, generation, epoch],
        )?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use coppice_api::overlay::{AlikeView, EpochView, MetricView, TopView};
    use coppice_protocol::ids::{JobId, Rank};

    use super::{ProfileError, ProfileOrder, Profiles};
    use crate::limits::PROFILE_EPOCHS_MAX;

    pub(in crate::profiles) fn opened() -> (tempfile::TempDir, Profiles) {
        let directory = tempfile::tempdir().expect("directory");
        let profiles = Profiles::open(&directory.path().join("profiles.db")).expect("new");
        (directory, profiles)
    }

    pub(in crate::profiles) fn epoch(epoch: u64) -> EpochView {
        let metric = |name: &str| MetricView {
            metric: name.into(),
            unit: "ns".into(),
            count: 4,
            sum: 10 + epoch,
            least: 1,
            least_rank: 3,
            mean: 2,
            deviation: 1,
            p50: 2,
            p90: 4,
            p99: 5,
            top: vec![TopView { rank: 7, value: 5 }, TopView { rank: 1, value: 4 }],
            histogram: Vec::new(),
        };
        EpochView {
            generation: 1,
            epoch,
            period_ns: 1_000_000_000,
            end_ns: (epoch + 1) * 1_000_000_000,
            came_ns: (epoch + 1) * 1_000_000_000 + 7_000_000,
            ranks: 4,
            of: 5,
            missing: "2".into(),
            metrics: vec![metric("kernel"), metric("user")],
            alike: vec![AlikeView { metric: "user".into(), sixteenths: 12, count: 3, ranks: vec![0, 1, 3] }],
            counters: vec![metric("counter:kernel")],
            counters_dropped: 2,
            node_count: 3,
            // Whatever they are called, they are nodes'.
            nodes: vec![metric("idle"), metric("user")],
            totals: Vec::new(),
        }
    }

    fn orders(job: u64, epochs: impl IntoIterator<Item = u64>) -> Vec<ProfileOrder> {
        epochs.into_iter().map(|number| ProfileOrder::Epoch(JobId(job), Box::new(epoch(number)))).collect()
    }

    #[test]
    fn what_was_recorded_is_read_again() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("profiles.db");
        assert!(Profiles::read(&path).expect("no file").is_none());
        let mut profiles = Profiles::open(&path).expect("new");
        profiles.add(&orders(1, [5, 6, 7])).expect("room");
        profiles.add(&orders(2, [6])).expect("room");
        let late = EpochView { ranks: 5, missing: String::new(), ..epoch(6) };
        profiles.add(&[ProfileOrder::Epoch(JobId(1), Box::new(late.clone()))]).expect("room");
        let again = Profiles::read(&path).expect("readable").expect("there");
        assert_eq!(again.of_job(JobId(1), 100).expect("readable"), [epoch(5), late.clone(), epoch(7)]);
        assert_eq!(again.of_job(JobId(1), 2).expect("readable"), [late, epoch(7)], "the newest");
        assert_eq!(again.of_job(JobId(3), 100).expect("readable"), []);
        profiles.forget_before(UNIX_EPOCH + Duration::from_secs(8)).expect("possible");
        assert_eq!(again.of_job(JobId(1), 100).expect("readable"), [epoch(7)]);
        assert_eq!(again.of_job(JobId(2), 100).expect("readable"), []);
    }

    #[test]
    fn of_a_long_job_what_is_older_is_thinned_out() {
        let (_directory, mut profiles) = opened();
        let last = 3 * PROFILE_EPOCHS_MAX as u64;
        for first in (0..=last).step_by(100) {
            profiles.add(&orders(1, first..(first + 100).min(last + 1))).expect("room");
        }
        let kept = profiles.of_job(JobId(1), u32::MAX).expect("readable");
        assert!(kept.len() as i64 <= PROFILE_EPOCHS_MAX, "{}", kept.len());
        assert!(kept.len() as i64 > PROFILE_EPOCHS_MAX / 2);
        let numbers: Vec<u64> = kept.iter().map(|epoch| epoch.epoch).collect();
        assert_eq!((numbers[0], numbers.last()), (0, Some(&last)));
        let gaps: Vec<u64> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.first() > gaps.last(), "the oldest have the largest gaps");
        assert_eq!(gaps.last(), Some(&1));
        assert!(kept.iter().all(|epoch| epoch.metrics.len() == 2 && epoch.nodes.len() == 2));
        let rows: i64 = profiles.0.query_row("SELECT count(*) FROM metrics", [], |row| row.get(0)).expect("a count");
        assert_eq!(rows, 5 * kept.len() as i64, "nothing is left of others");
    }

    #[test]
    fn a_file_of_an_earlier_version_is_brought_up_to_date() {
        let to_2 = "DROP TABLE totals; PRAGMA user_version = 2";
        let to_1 = "DROP TABLE totals; ALTER TABLE epochs DROP COLUMN alike; PRAGMA user_version = 1";
        for (back, before) in [(to_2, epoch(5)), (to_1, EpochView { alike: Vec::new(), ..epoch(5) })] {
            let directory = tempfile::tempdir().expect("directory");
            let path = directory.path().join("profiles.db");
            Profiles::open(&path).expect("new").add(&orders(1, [5])).expect("room");
            rusqlite::Connection::open(&path).expect("there").execute_batch(back).expect("possible");
            let again = Profiles::read(&path).expect("readable").expect("there");
            assert_eq!(again.of_job(JobId(1), 100).expect("readable"), [before]);
            assert_eq!(again.of_rank(JobId(1), Rank(0), 100).expect("readable"), []);
            Profiles::open(&path).expect("of this version now").add(&orders(1, [6])).expect("room");
            assert_eq!(again.of_job(JobId(1), 1).expect("readable"), [epoch(6)]);
        }
    }

    #[test]
    fn a_file_of_another_version_is_refused() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("profiles.db");
        drop(Profiles::open(&path).expect("new"));
        let connection = rusqlite::Connection::open(&path).expect("there");
        connection.pragma_update(None, "user_version", 9).expect("possible");
        assert!(matches!(Profiles::open(&path), Err(ProfileError::Version(9))));
        assert!(matches!(Profiles::read(&path), Err(ProfileError::Version(9))));
    }
}
