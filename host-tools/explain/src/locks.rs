//! Threads that wait for locks of each other.
//!
//! It counts if threads wait in futexes for three tenths of their time, what comes of waiting for a slow rank not
//! included. A futex is what locks, conditions and the joining of threads wait in; which of these it is cannot be seen.

use coppice_api::counted;
use coppice_api::show::show_ns;

use crate::times::Times;
use crate::words::percent;
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 300_000;

/// Looks for it. Of the waiting for others so much has been explained already, ns.
pub(crate) fn find(evidence: &Evidence, times: &Times<'_>, blamed_ns: u64) -> Option<Finding> {
    // Others are waited for in the network first.
    let network_ns = times.lost_ns(times.share_ppm("network"));
    let share = times.share_ppm("futex");
    let lost_ns = times.lost_ns(share).saturating_sub(blamed_ns.saturating_sub(network_ns));
    if times.part_ppm(lost_ns) < LOST_PPM_MIN {
        return None;
    }
    let calls = evidence.job.rank_reports.iter().flat_map(|rank| &rank.syscalls);
    let futexes = calls.filter(|call| call.name.as_deref() == Some("futex"));
    let futexes = futexes.fold(0_u64, |sum, call| sum.saturating_add(call.calls));
    let per_second = u128::from(futexes) * 1_000_000_000 / u128::from(times.elapsed_ns());
    let often = match futexes {
        0 => String::new(),
        _ => format!(", in {} of futex, {per_second} a second", counted(futexes, "call")),
    };
    let text = format!(
        "Threads wait for locks of each other (lock contention): {} of their time went to that, {} in all{often}, with \
         {} a rank; in their program they were for {}.",
        percent(share),
        show_ns(times.sum("futex")),
        counted(times.threads(), "thread"),
        percent(times.share_ppm("user")),
    );
    let finding = Finding::new(Cause::LockContention, lost_ns, &text);
    let advice = "Hold locks for less time; where threads are in their program a flame graph shows";
    Some(finding.try_this(advice, "coppice run --sample 100 …"))
}
