//! Waiting for files, which lie on the host's disk.
//!
//! It counts if ranks lose a fifth of their time by it. How many bytes came of a second of waiting says whether it is
//! the disk that is slow or that little is asked for at a time: what takes a way to the host and back costs the same
//! for one byte as for many.

use coppice_api::counted;
use coppice_api::show::{show_bytes, show_ns};

use crate::times::Times;
use crate::words::{its_ranks, percent};
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 200_000;

/// Bytes for each call from which on it is not the calls that are small.
const CALL_BYTES_SMALL: u64 = 4096;

/// Calls that wait for the disk whatever they are about; `read` and `write` are for sockets as well.
const OF_FILES: [&str; 10] = [
    "fsync",
    "fdatasync",
    "sync_file_range",
    "openat",
    "open",
    "newfstatat",
    "pread64",
    "pwrite64",
    "getdents64",
    "unlink",
];

/// Looks for it, and says how much of other waiting comes from it, ns.
pub(crate) fn find(evidence: &Evidence, times: &Times<'_>) -> Option<(Finding, u64)> {
    let held = times.held_up("file");
    if times.part_ppm(held.lost_ns) < LOST_PPM_MIN {
        return None;
    }
    let view = evidence.view();
    let (waited, bytes, calls) = (times.sum("file"), times.sum("bytes-shipped"), times.sum("calls"));
    let per_second = u128::from(bytes) * 1_000_000_000 / u128::from(waited.max(1));
    let per_second = show_bytes(u64::try_from(per_second).unwrap_or(u64::MAX));
    let often = most_often(evidence)
        .map_or_else(String::new, |(name, calls)| format!(", most often in {name} ({})", counted(calls, "call")));
    let text = format!(
        "The disk is slow for what the job does: {} waited for files for {} of their time, {} in all{often}, and \
         read and wrote {} meanwhile, {per_second} for each second of waiting.",
        its_ranks(view.ranks),
        percent(times.share_ppm("file")),
        show_ns(waited),
        show_bytes(bytes),
    );
    let finding = Finding::new(Cause::SlowDisk, held.lost_ns, &text);
    let job = view.job;
    let finding = if bytes / calls.max(1) >= CALL_BYTES_SMALL {
        finding.try_this("Have files that are only read in the nodes' memory", "coppice run --stage FILE …")
    } else if evidence.has_ended() {
        let text = "Read and write more at a time, and wait for the disk less often; which calls there were says";
        finding.try_this(text, format!("coppice job {job} --json"))
    } else {
        let text = "Read and write more at a time, and wait for the disk less often; see which calls there are";
        finding.try_this(text, format!("coppice trace {job}"))
    };
    Some((finding, held.of_others_ns))
}

/// Which call for files was made most often, of a job that has ended.
fn most_often(evidence: &Evidence) -> Option<(&'static str, u64)> {
    let all = evidence.job.rank_reports.iter().flat_map(|rank| &rank.syscalls);
    let calls = |name: &str| {
        let of_it = all.clone().filter(|call| call.name.as_deref() == Some(name));
        of_it.fold(0_u64, |sum, call| sum.saturating_add(call.calls))
    };
    let most = OF_FILES.into_iter().map(|name| (name, calls(name))).max_by_key(|(_, calls)| *calls)?;
    (most.1 > u64::from(evidence.view().ranks) * 10).then_some(most)
}
