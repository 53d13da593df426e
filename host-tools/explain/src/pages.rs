//! Page storms: ranks that wait for pages again and again.
//!
//! It counts if ranks lose a fifth of their time by it. Pages of the program come once, from the I/O node, and are
//! kept; as long as an epoch has at least half as many of these as it has faults, it is the program that is being
//! loaded, which is what `start` tells of. What remains are pages of files that are mapped, which come again whenever
//! they are mapped again or memory was short.

use coppice_api::counted;
use coppice_api::overlay::EpochView;
use coppice_api::show::{show_bytes, show_ns};

use crate::times::{Times, WHOLE_PPM, of};
use crate::words::{its_ranks, percent};
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 200_000;

/// Length of a page, bytes.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Whether pages that are waited for in an epoch are those of a program that is being loaded.
pub(crate) fn is_loading(epoch: &EpochView) -> bool {
    let sum = |metric: &str| of(epoch, metric).map_or(0, |metric| metric.sum);
    let fetched = sum("pages-fetched");
    fetched > 0 && fetched >= sum("faults") / 2
}

/// Looks for it, and says how much of other waiting comes from it, ns.
pub(crate) fn find(evidence: &Evidence, times: &Times<'_>) -> Option<(Finding, u64)> {
    let held = times.held_up("page");
    let waited_of = |is_wanted: fn(&EpochView) -> bool| -> u128 {
        let wanted = times.epochs().iter().filter(|epoch| is_wanted(epoch));
        wanted.filter_map(|epoch| of(epoch, "page")).map(|page| u128::from(page.sum)).sum()
    };
    let (loading, again) = (waited_of(is_loading), waited_of(|epoch| !is_loading(epoch)));
    let again_ppm = again * u128::from(WHOLE_PPM) / (loading + again).max(1);
    let part = |ns: u64| u64::try_from(u128::from(ns) * again_ppm / u128::from(WHOLE_PPM)).unwrap_or(u64::MAX);
    let lost_ns = part(held.lost_ns);
    if times.part_ppm(lost_ns) < LOST_PPM_MIN {
        return None;
    }
    let (faults, fetched) = (times.sum("faults"), times.sum("pages-fetched"));
    let text = format!(
        "A storm of page faults holds the job up: {} waited for pages for {} of their time, {} in all, in {}; {} ({}) \
         of the program came from the I/O node, the rest are pages of files that are mapped.",
        its_ranks(evidence.view().ranks),
        percent(times.share_ppm("page")),
        show_ns(times.sum("page")),
        counted(faults, "fault"),
        counted(fetched, "page"),
        show_bytes(fetched.saturating_mul(PAGE_BYTES)),
    );
    let finding = Finding::new(Cause::PageStorm, lost_ns, &text);
    let advice = "Have the files that are mapped in the nodes' memory, or map them once";
    Some((finding.try_this(advice, "coppice run --stage FILE …"), part(held.of_others_ns)))
}
