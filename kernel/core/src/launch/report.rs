//! What a process leaves: its report.

use core::sync::atomic::Ordering;

use coppice_protocol::control::{RankCounters, RankReport};
use coppice_protocol::ids::{JobId, Rank};

use crate::process::{End, Process};
use crate::ras;
use coppice_protocol::limits::RAS_TEXT_BYTES_MAX;

/// The report of a process that ended after it ran for `run_ns`; without what is retained of it and what PMI
/// knows.
pub(super) fn of(process: &Process, end: End, launch_ns: u64, run_ns: u64) -> RankReport {
    let memory = process.space.lock().stats();
    let mut reason = end.reason;
    if let Some(reason) = &mut reason {
        ras::cut(reason, RAS_TEXT_BYTES_MAX);
    }
    let files = process.client.tally().counted();
    let counters = RankCounters {
        launch_ns,
        run_ns,
        page_faults: memory.faults,
        instruction_faults: memory.instruction_faults,
        pages_fetched: memory.pages_fetched,
        pages_peak: memory.pages_peak,
        bytes_written: process.account.bytes_written.load(Ordering::Relaxed),
        bytes_read: process.account.bytes_read.load(Ordering::Relaxed),
        lookups: files.lookups,
        files_opened: files.files_opened,
        file_pages_fetched: files.file_pages_fetched,
        file_pages_found: files.file_pages_found,
    };
    let ended = RankReport::ended(process.identity.job, process.identity.rank, end.exit);
    RankReport { reason, counters, syscalls: process.counts.report(), ..ended }
}

/// The report of a process that never ran.
pub(super) fn of_nothing(job: JobId, rank: Rank, end: End) -> RankReport {
    RankReport { reason: end.reason, ..RankReport::ended(job, rank, end.exit) }
}
