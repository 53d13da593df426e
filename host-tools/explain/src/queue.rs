//! Waiting for nodes.
//!
//! It counts if a job still waits, or has waited for at least a tenth of the time since it was submitted and long
//! enough to be noticed. Who had the nodes meanwhile is known from the other jobs: each held its nodes from when it
//! was given them to its end. The one that held most, nodes times time, is named first.

use std::cmp::Reverse;

use coppice_api::counted;
use coppice_api::job::{JobState, JobView};
use coppice_api::node::NodeState;
use coppice_api::show::show_ns;

use crate::times::WHOLE_PPM;
use crate::words::{others, percent, program};
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time since it was submitted, millionths.
const LOST_PPM_MIN: u64 = 100_000;

/// A shorter wait is nobody's doing, ns.
const WAITED_NS_MIN: u64 = 50_000_000;

/// A job that held nodes while this one waited.
struct Holder<'a> {
    job: &'a JobView,
    nodes: usize,
    /// How long of that time, ns.
    held_ns: u64,
}

fn holders<'a>(view: &JobView, jobs: impl Iterator<Item = &'a JobView>, now_ns: u64, until_ns: u64) -> Vec<Holder<'a>> {
    let held = |job: &JobView| {
        let begin = job.started_at_ns?.max(view.submitted_at_ns);
        let end = job.ended_at_ns.unwrap_or(now_ns).min(until_ns);
        end.checked_sub(begin).filter(|ns| *ns > 0)
    };
    let others = jobs.filter(|job| job.job != view.job && !job.nodes.is_empty());
    let mut all: Vec<Holder<'_>> =
        others.filter_map(|job| Some(Holder { job, nodes: job.nodes.len(), held_ns: held(job)? })).collect();
    let product = |holder: &Holder<'_>| u128::from(holder.held_ns).saturating_mul(holder.nodes as u128);
    all.sort_by_key(|holder| (Reverse(product(holder)), holder.job.job));
    all
}

/// Looks for it.
pub(crate) fn find(evidence: &Evidence) -> Option<Finding> {
    let view = evidence.view();
    let waits = view.state == JobState::Queued && view.started_at_ns.is_none();
    let until_ns = view.started_at_ns.unwrap_or(evidence.end_ns());
    let waited_ns = until_ns.saturating_sub(view.submitted_at_ns);
    let whole_ns = u128::from(evidence.whole_ns().max(1));
    let ppm = u64::try_from(u128::from(waited_ns) * u128::from(WHOLE_PPM) / whole_ns).unwrap_or(u64::MAX);
    if !waits && (ppm < LOST_PPM_MIN || waited_ns < WAITED_NS_MIN) {
        return None;
    }
    let per_node = view.ranks_per_node.max(1);
    let wanted = counted(view.ranks.div_ceil(per_node), "node");
    let all = holders(view, evidence.jobs.iter(), evidence.now_ns, until_ns);
    let how_long = if waits {
        format!("waits in the queue for {wanted} since {}", show_ns(waited_ns))
    } else {
        format!("waited {} in the queue for {wanted} ({} of its time)", show_ns(waited_ns), percent(ppm))
    };
    let text = match all.split_first() {
        Some((first, rest)) => {
            let more = if rest.is_empty() { String::new() } else { format!(", as did {}", others(rest.len(), "job")) };
            let verb = if waits { "holds" } else { "held" };
            format!(
                "The job {how_long} behind job {} ({}), which {verb} {} of the {} for {} of that{more}.",
                first.job.job,
                program(first.job),
                first.nodes,
                counted(evidence.nodes.len(), "node"),
                show_ns(first.held_ns),
            )
        }
        None => format!("The job {how_long}, and no other job had nodes then; {}.", not_ready(evidence)),
    };
    let finding = Finding::new(Cause::Queue, waited_ns.max(u64::from(waits)), &text);
    Some(match all.first() {
        Some(holder) if waits => {
            finding.try_this("Have that one end, if it is not needed", format!("coppice kill {}", holder.job.job))
        }
        Some(_) => {
            let text = "Say how long jobs run, so that short ones go first where they fit";
            finding.try_this(text, "coppice run --estimate SECONDS …")
        }
        None => finding.try_this("See what the nodes do", "coppice nodes"),
    })
}

/// Why a job waits for nodes, in some words; nothing, if it does not wait.
#[must_use]
pub fn waits_for(view: &JobView, jobs: &[JobView], now_ns: u64) -> Option<String> {
    if view.state != JobState::Queued {
        return None;
    }
    let wanted = counted(view.ranks.div_ceil(view.ranks_per_node.max(1)), "node");
    let all = holders(view, jobs.iter().filter(|job| job.ended_at_ns.is_none()), now_ns, now_ns);
    let held = counted(all.iter().map(|holder| holder.nodes).sum::<usize>(), "node");
    Some(match all.split_first() {
        Some((first, [])) => format!("waits for {wanted}; job {} has {held}", first.job.job),
        Some((first, rest)) => {
            format!("waits for {wanted}; job {} and {} have {held}", first.job.job, others(rest.len(), "job"))
        }
        None => format!("waits for {wanted}"),
    })
}

/// How nodes are now.
fn not_ready(evidence: &Evidence) -> String {
    let ready = evidence.nodes.iter().filter(|node| matches!(node.state, NodeState::Ready | NodeState::Busy)).count();
    format!("{ready} of {} are ready now", counted(evidence.nodes.len(), "node"))
}
