//! A cold start: the job is loaded, rather than found in the memory of its nodes.
//!
//! That is the time from when it has nodes until all ranks run – which has the transfer of what is staged –, and what
//! ranks waited for pages of the program while these came (`pages::is_loading`), with the kernel's work for that. It
//! counts from three tenths of the job's time on, but only if at least one rank did not find the program in its node's
//! memory: that another start takes long is not for want of pages. If it took less, it is told of at the end how much
//! of the program came, and of files, if that is worth a word.

use coppice_api::counted;
use coppice_api::job::{JobView, RankCounters};
use coppice_api::overlay::EpochView;
use coppice_api::show::{show_bytes, show_ns};

use crate::pages::{PAGE_BYTES, is_loading};
use crate::times::{Times, WHOLE_PPM, of};
use crate::words::percent;
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time since the job had nodes, millionths.
const LOST_PPM_MIN: u64 = 300_000;

/// A shorter start is of no interest, ns.
const LOST_NS_MIN: u64 = 50_000_000;

/// Fewer pages of the program, and fewer bytes of files, are not worth a word.
const PAGES_MIN: u64 = 256;
/// See [`PAGES_MIN`].
const FILE_BYTES_MIN: u64 = 16 << 20;

/// The kernel works for the pages that come if these are more than the calls, so many times.
const PAGES_PER_CALL: u64 = 4;

/// Looks for it.
pub(crate) fn find(evidence: &Evidence, times: Option<&Times<'_>>) -> Option<Finding> {
    let view = evidence.view();
    let started_ns = view.started_at_ns?;
    let end_ns = evidence.end_ns();
    let before_ns = view.running_at_ns.unwrap_or(end_ns).saturating_sub(started_ns);
    let warm = warm_ranks(view);
    let (paged_ns, fetched_by_epochs) = times.map_or((0, 0), loaded);
    let lost_ns = before_ns.saturating_add(paged_ns);
    let all_ns = end_ns.saturating_sub(started_ns).max(1);
    let ppm = u64::try_from(u128::from(lost_ns) * u128::from(WHOLE_PPM) / u128::from(all_ns)).unwrap_or(u64::MAX);
    if ppm < LOST_PPM_MIN || lost_ns < LOST_NS_MIN || warm >= view.ranks {
        return None;
    }
    if view.running_at_ns.is_none() && !evidence.has_ended() {
        let text =
            format!("It is still being loaded: it has nodes since {}, and not all ranks run.", show_ns(before_ns));
        let finding = Finding::new(Cause::ColdStart, lost_ns, &text);
        return Some(finding.try_this("See what else happens to it", format!("coppice ras --job {}", view.job)));
    }
    let fetched = counted_by_ranks(evidence, |counters| counters.pages_fetched).max(fetched_by_epochs);
    let staged = view.staged.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    let staged = if staged == 0 { String::new() } else { format!(" and {} were staged", show_bytes(staged)) };
    let text = format!(
        "It was a cold start: {} ({} of its time with nodes) went to being loaded, {} before all ranks ran and \
         {} while they waited for pages of the program; {warm} of {} found it in the node's memory, {} ({}) were \
         fetched{staged}.",
        show_ns(lost_ns),
        percent(ppm.min(WHOLE_PPM)),
        show_ns(before_ns),
        show_ns(paged_ns),
        counted(view.ranks, "rank"),
        counted(fetched, "page"),
        show_bytes(fetched.saturating_mul(PAGE_BYTES)),
    );
    let finding = Finding::new(Cause::ColdStart, lost_ns, &text);
    Some(if view.staged.iter().any(|file| file.path.is_some()) {
        finding.try_this("Have nodes keep the files, so that the next job finds them", "coppice stage FILE")
    } else {
        let text =
            "Run it again on the same nodes, which keep its pages, or have the program sent ahead to all at once";
        finding.try_this(text, "coppice run --stage-program …")
    })
}

/// Ranks that found the program in their node's memory, or are believed to as long as that is not known.
fn warm_ranks(view: &JobView) -> u32 {
    let believed = || {
        let placed = view.placement.iter().flat_map(|placement| &placement.nodes).filter(|node| node.pages > 0).count();
        u32::try_from(placed).unwrap_or(u32::MAX).saturating_mul(view.ranks_per_node.max(1)).min(view.ranks)
    };
    view.retention.map_or_else(believed, |retention| retention.warm_ranks)
}

/// What all ranks that have ended counted of something.
fn counted_by_ranks(evidence: &Evidence, of: impl Fn(&RankCounters) -> u64) -> u64 {
    evidence.job.rank_reports.iter().fold(0, |sum, rank| sum.saturating_add(of(&rank.counters)))
}

/// Says what came, of a job that had no cold start.
pub(crate) fn loaded_beside(evidence: &Evidence) -> Option<Finding> {
    let view = evidence.view();
    let pages = counted_by_ranks(evidence, |counters| counters.pages_fetched);
    let bytes = counted_by_ranks(evidence, |counters| counters.bytes_read);
    if pages < PAGES_MIN && bytes < FILE_BYTES_MIN {
        return None;
    }
    let text = format!(
        "Its nodes fetched {} ({}) of the program, which {} of {} found in memory, and its ranks read {}.",
        counted(pages, "page"),
        show_bytes(pages.saturating_mul(PAGE_BYTES)),
        warm_ranks(view),
        counted(view.ranks, "rank"),
        show_bytes(bytes),
    );
    let finding = Finding::new(Cause::Loaded, 0, &text);
    Some(if bytes >= FILE_BYTES_MIN {
        finding.try_this("Have files that all ranks read in the nodes' memory before", "coppice run --stage FILE …")
    } else {
        finding.try_this("Run it again where it ran, or send it ahead to all at once", "coppice run --stage-program …")
    })
}

/// What being loaded took while ranks ran, of the time that passed, ns, and the pages of that.
fn loaded(times: &Times<'_>) -> (u64, u64) {
    let mut thread_ns = 0;
    let mut pages = 0_u64;
    for epoch in times.epochs().iter().filter(|epoch| is_loading(epoch)) {
        let sum = |metric: &str| of(epoch, metric).map_or(0, |metric| metric.sum);
        thread_ns += u128::from(sum("page"));
        thread_ns += if works_for_pages(epoch) { u128::from(sum("kernel")) } else { 0 };
        pages = pages.saturating_add(sum("pages-fetched"));
    }
    (times.lost_ns(times.ppm(thread_ns)), pages)
}

fn works_for_pages(epoch: &EpochView) -> bool {
    let sum = |metric: &str| of(epoch, metric).map_or(0, |metric| metric.sum);
    sum("pages-fetched") >= sum("calls").saturating_mul(PAGES_PER_CALL)
}
