//! Too few cores for the threads that there are.
//!
//! It counts if threads could have run, and others did, for a quarter of their time, and a node of the job has fewer
//! cores than threads: a thread that has a core for itself is ready for a while, too, whenever the kernel has something
//! to do there.

use coppice_api::counted;
use coppice_api::show::show_ns;

use crate::times::Times;
use crate::words::percent;
use crate::{Cause, Evidence, Finding};

/// What must be lost to it, of the time that passed, millionths.
const LOST_PPM_MIN: u64 = 250_000;

/// Looks for it.
pub(crate) fn find(evidence: &Evidence, times: &Times<'_>) -> Option<Finding> {
    let share = times.share_ppm("ready");
    let lost_ns = times.lost_ns(share);
    if times.part_ppm(lost_ns) < LOST_PPM_MIN {
        return None;
    }
    let view = evidence.view();
    let of_job = evidence.nodes.iter().filter(|node| view.nodes.contains(&node.node));
    let cores = of_job.filter_map(|node| node.cores).min().filter(|cores| *cores > 0)?;
    let ranks = view.ranks_per_node.clamp(1, view.ranks.max(1));
    let threads = u64::from(ranks).saturating_mul(times.threads());
    if threads <= u64::from(cores) {
        return None;
    }
    let text = format!(
        "There are too few cores: {} of {} on a node have {}, and waited for one for {} of their time, {} in all.",
        counted(threads, "thread"),
        counted(ranks, "rank"),
        counted(cores, "core"),
        percent(share),
        show_ns(times.sum("ready")),
    );
    let finding = Finding::new(Cause::TooFewCores, lost_ns, &text);
    let fitting = u32::try_from(u64::from(cores) / times.threads()).unwrap_or(u32::MAX).max(1);
    let nodes = view.ranks.div_ceil(fitting);
    let there = u32::try_from(evidence.nodes.len()).unwrap_or(u32::MAX);
    Some(if nodes <= there && fitting < ranks {
        let command = format!("coppice run -n {} --ranks-per-node {fitting} …", view.ranks);
        finding.try_this(&format!("Have fewer ranks on a node, so that it runs on {}", counted(nodes, "node")), command)
    } else {
        let wanted = threads.min(coppice_api::limits::CORES_MAX.into());
        let command = format!("coppice up --nodes {there} --cores {wanted}");
        finding.try_this("Have nodes with more cores (take the cluster down first)", command)
    })
}
