//! What became of ranks, as it lies in the database: a job may have a million, so their reports are short, and those
//! that come together are one row. They become what people see when somebody asks.

use coppice_api::job::{RankOutcome, RankView, SyscallView};
use coppice_api::retain::RetainAnswer;
use coppice_protocol::control::RankCounters;
use coppice_protocol::ids::JobId;
use coppice_protocol::syscalls;
use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::{Database, DatabaseError, from_json, to_sql};

/// How reports are written: in postcard, as [`Report`] says. Another number is another way.
const WRITTEN_AS: u8 = 2;

/// The way before, with fewer counters.
const WRITTEN_BEFORE: u8 = 1;

/// Counters of a rank, and how many there were before.
const COUNTERS: usize = 12;
const COUNTERS_BEFORE: usize = 8;

/// What became of a rank, with so many counters.
#[derive(Serialize, Deserialize)]
#[serde(bound(serialize = "[u64; N]: Serialize", deserialize = "[u64; N]: Deserialize<'de>"))]
struct Report<const N: usize> {
    rank: u32,
    node: u32,
    outcome: u8,
    exit: Option<u8>,
    signal: Option<u8>,
    reason: Option<String>,
    /// In the order of [`counters`].
    counters: [u64; N],
    retain: Option<Retain>,
    /// Found, kept, dropped, zeroed, and ns that took.
    pages: [u64; 5],
    /// Number, how often it was made, how often it was unknown.
    syscalls: Vec<(i32, u64, u64)>,
}

/// What a node answered when it was told to retain.
#[derive(Serialize, Deserialize)]
enum Retain {
    Kept([u64; 4]),
    Absent,
    Busy(u64),
    OtherBoot(u32),
}

fn counters(of: &RankCounters) -> [u64; COUNTERS] {
    [
        of.launch_ns,
        of.run_ns,
        of.page_faults,
        of.instruction_faults,
        of.pages_fetched,
        of.pages_peak,
        of.bytes_written,
        of.bytes_read,
        of.lookups,
        of.files_opened,
        of.file_pages_fetched,
        of.file_pages_found,
    ]
}

impl Report<COUNTERS> {
    fn of(view: &RankView) -> Self {
        let retain = view.retain.map(|answer| match answer {
            RetainAnswer::Kept { kept, dropped, zeroed, discarded } => Retain::Kept([kept, dropped, zeroed, discarded]),
            RetainAnswer::Absent => Retain::Absent,
            RetainAnswer::Busy { job } => Retain::Busy(job),
            RetainAnswer::OtherBoot { generation } => Retain::OtherBoot(generation),
        });
        Self {
            rank: view.rank,
            node: view.node,
            outcome: match view.outcome {
                RankOutcome::Exited => 0,
                RankOutcome::Signalled => 1,
                RankOutcome::NotStarted => 2,
                RankOutcome::Lost => 3,
            },
            exit: view.exit,
            signal: view.signal,
            reason: view.reason.clone(),
            counters: counters(&view.counters),
            retain,
            pages: [view.pages_retained, view.pages_kept, view.pages_dropped, view.pages_zeroed, view.walk_ns],
            syscalls: view.syscalls.iter().map(|call| (call.number, call.calls, call.unknown)).collect(),
        }
    }
}

impl<const N: usize> Report<N> {
    fn view(self) -> Option<RankView> {
        let mut counters = self.counters.into_iter();
        let mut next = || counters.next().unwrap_or(0);
        // In the order of [`counters`].
        let counters = RankCounters {
            launch_ns: next(),
            run_ns: next(),
            page_faults: next(),
            instruction_faults: next(),
            pages_fetched: next(),
            pages_peak: next(),
            bytes_written: next(),
            bytes_read: next(),
            lookups: next(),
            files_opened: next(),
            file_pages_fetched: next(),
            file_pages_found: next(),
        };
        let [pages_retained, pages_kept, pages_dropped, pages_zeroed, walk_ns] = self.pages;
        let call = |(number, calls, unknown)| {
            let name = syscalls::name(number).map(str::to_owned);
            SyscallView { number, name, calls, unknown }
        };
        Some(RankView {
            rank: self.rank,
            node: self.node,
            outcome: match self.outcome {
                0 => RankOutcome::Exited,
                1 => RankOutcome::Signalled,
                2 => RankOutcome::NotStarted,
                3 => RankOutcome::Lost,
                _ => return None,
            },
            exit: self.exit,
            signal: self.signal,
            reason: self.reason,
            counters,
            retain: self.retain.map(|answer| match answer {
                Retain::Kept([kept, dropped, zeroed, discarded]) => {
                    RetainAnswer::Kept { kept, dropped, zeroed, discarded }
                }
                Retain::Absent => RetainAnswer::Absent,
                Retain::Busy(job) => RetainAnswer::Busy { job },
                Retain::OtherBoot(generation) => RetainAnswer::OtherBoot { generation },
            }),
            pages_retained,
            pages_kept,
            pages_dropped,
            pages_zeroed,
            walk_ns,
            syscalls: self.syscalls.into_iter().map(call).collect(),
        })
    }
}

fn write(views: &[RankView]) -> Vec<u8> {
    let reports: Vec<_> = views.iter().map(Report::of).collect();
    // Numbers and texts: that cannot fail.
    postcard::to_extend(&reports, vec![WRITTEN_AS]).unwrap_or_default()
}

fn read(bytes: &[u8]) -> Result<Vec<RankView>, DatabaseError> {
    const DAMAGED: DatabaseError = DatabaseError::Damaged("rank reports");
    match bytes.split_first() {
        Some((&WRITTEN_AS, reports)) => views::<COUNTERS>(reports),
        Some((&WRITTEN_BEFORE, reports)) => views::<COUNTERS_BEFORE>(reports),
        _ => None,
    }
    .ok_or(DAMAGED)
}

fn views<const N: usize>(reports: &[u8]) -> Option<Vec<RankView>>
where
    [u64; N]: for<'de> Deserialize<'de>,
{
    let reports: Vec<Report<N>> = postcard::from_bytes(reports).ok()?;
    reports.into_iter().map(Report::view).collect()
}

impl Database {
    /// Records what became of ranks: the same ones together if once more.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn add_ranks(&mut self, job: JobId, reports: &[RankView]) -> Result<(), DatabaseError> {
        let Some(first) = reports.first() else { return Ok(()) };
        let sql = "INSERT OR IGNORE INTO rank_reports (job, first, reports) VALUES (?1, ?2, ?3)";
        self.connection.prepare_cached(sql)?.execute(params![to_sql(job.0), first.rank, write(reports)])?;
        Ok(())
    }

    /// What is recorded of the ranks of a job, in their order.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(super) fn ranks(&self, job: JobId) -> Result<Vec<RankView>, DatabaseError> {
        let mut found: Vec<RankView> = Vec::new();
        let mut statement = self.connection.prepare_cached("SELECT report FROM ranks WHERE job = ?1")?;
        let mut rows = statement.query([to_sql(job.0)])?;
        while let Some(row) = rows.next()? {
            found.push(from_json(&row.get::<_, String>("report")?, "rank report")?);
        }
        let mut statement = self.connection.prepare_cached("SELECT reports FROM rank_reports WHERE job = ?1")?;
        let mut rows = statement.query([to_sql(job.0)])?;
        while let Some(row) = rows.next()? {
            found.extend(read(row.get_ref("reports")?.as_blob().map_err(rusqlite::Error::from)?)?);
        }
        found.sort_by_key(|report| report.rank);
        found.dedup_by_key(|report| report.rank);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::job::{RankOutcome, RankView, SyscallView};
    use coppice_api::retain::RetainAnswer;

    use super::{DatabaseError, read, write};

    fn views() -> Vec<RankView> {
        let outcomes = [RankOutcome::Exited, RankOutcome::Signalled, RankOutcome::NotStarted, RankOutcome::Lost];
        let answers = [
            RetainAnswer::Kept { kept: 1, dropped: 2, zeroed: 3, discarded: u64::MAX },
            RetainAnswer::Absent,
            RetainAnswer::Busy { job: 8 },
            RetainAnswer::OtherBoot { generation: 9 },
        ];
        let of = |(number, (outcome, answer)): (u32, _)| {
            let mut view = RankView::ended(number, 70 + number, outcome, Some(format!("why {number}")));
            (view.retain, view.exit, view.signal) = (Some(answer), Some(4), Some(9));
            view.counters.launch_ns = 1;
            view.counters.bytes_read = u64::MAX;
            (view.pages_retained, view.pages_kept, view.walk_ns) = (5, 6, 7);
            let call = |number, name: Option<&str>| SyscallView {
                number,
                name: name.map(str::to_owned),
                calls: 3,
                unknown: 2,
            };
            view.syscalls = vec![call(1, Some("write")), call(-1, None), call(9999, None)];
            view
        };
        let all = (0..).zip(outcomes.into_iter().zip(answers)).map(of);
        all.chain([RankView::ended(9, 3, RankOutcome::Exited, None)]).collect()
    }

    #[test]
    fn reports_are_read_as_they_were_written() {
        assert_eq!(read(&write(&views())).expect("sound"), views());
        assert!(write(&views()[4..]).len() < 64, "{}", write(&views()[4..]).len());
    }

    #[test]
    fn what_is_damaged_or_written_otherwise_is_said_to_be() {
        let sound = write(&views());
        for damaged in [&[][..], &[2], &[&[3], &sound[1..]].concat(), &sound[..sound.len() - 1]] {
            assert!(matches!(read(damaged), Err(DatabaseError::Damaged("rank reports"))));
        }
    }
}
