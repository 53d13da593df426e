//! Where the time went in all, that nothing stands out, that nothing was gathered.

use coppice_api::show::show_ns;

use crate::times::{PHASES, Times};
use crate::words::{its_ranks, percent};
use crate::{Cause, Evidence, Finding};

/// Shares that are named are at least so large, millionths.
const SHARE_PPM_MIN: u64 = 10_000;

/// A phase as a part of a sentence.
fn named(phase: &str) -> &str {
    match phase {
        "user" => "the program",
        "kernel" => "the kernel's work for it",
        "futex" => "waiting for locks and threads",
        "network" => "waiting for the network and each other",
        "file" => "waiting for files",
        "input" => "waiting for input",
        "sleep" => "sleeping",
        "page" => "waiting for pages",
        "ready" => "waiting for a core",
        other => other,
    }
}

fn all_shares(times: &Times<'_>) -> String {
    let mut all: Vec<(u64, &str)> = PHASES.iter().map(|phase| (times.share_ppm(phase), *phase)).collect();
    all.sort_by_key(|(ppm, _)| std::cmp::Reverse(*ppm));
    let shown = all.iter().filter(|(ppm, _)| *ppm >= SHARE_PPM_MIN);
    shown.map(|(ppm, phase)| format!("{} ({})", named(phase), percent(*ppm))).collect::<Vec<_>>().join(", ")
}

/// Says that there is nothing to be said, with the numbers.
pub(crate) fn nothing(evidence: &Evidence, times: Option<&Times<'_>>) -> Finding {
    let view = evidence.view();
    let queued = view.started_at_ns.map_or(0, |at| at.saturating_sub(view.submitted_at_ns));
    let starting = match (view.started_at_ns, view.running_at_ns) {
        (Some(started), Some(running)) => running.saturating_sub(started),
        _ => 0,
    };
    let ran = view.running_at_ns.map_or(0, |at| evidence.end_ns().saturating_sub(at));
    let spent = times.map_or_else(String::new, |times| format!("; its ranks' time went to {}", all_shares(times)));
    let text = format!(
        "Nothing stands out: the job waited {} for nodes, its ranks were started within {}, and ran for {}{spent}.",
        show_ns(queued),
        show_ns(starting),
        show_ns(ran),
    );
    Finding::new(Cause::Nothing, 0, &text)
}

/// Where the time went in all, or how to find out.
pub(crate) fn shares(evidence: &Evidence, times: Option<&Times<'_>>) -> Option<Finding> {
    let view = evidence.view();
    let job = view.job;
    if let Some(times) = times {
        let text = format!("All in all, the time of {} went to {}.", its_ranks(view.ranks), all_shares(times));
        let finding = Finding::new(Cause::Shares, 0, &text);
        return Some(finding.try_this("See all that was gathered", format!("coppice profile {job}")));
    }
    view.started_at_ns?;
    let finding = Finding::new(Cause::NotGathered, 0, "What its ranks did was not gathered, so more cannot be said.");
    Some(if evidence.has_ended() {
        finding.try_this("Have it gathered when it runs again", "coppice run --overlay …")
    } else {
        finding.try_this("Have it gathered from now on", format!("coppice overlay {job} on"))
    })
}
