//! What became of a job's time, and why it failed, in sentences made of what was recorded of it.
//!
//! [`explain`] is given all that is known of a job ([`Evidence`]) and looks at it by one rule after the other; each is
//! a module that states its rule and has its thresholds as constants. What a rule finds is a [`Finding`]: the cause,
//! what it cost, a sentence with its numbers, and what to try. Findings are ordered by what they cost; how a job
//! failed comes before that. Nothing is printed here, so that a terminal, a page and a file may say the same; only
//! `gather` asks for anything.
//!
//! | module | what it finds |
//! | --- | --- |
//! | `failure`, `blame`, `memory` | what happened first to a job that failed, what that led to; memory that was short |
//! | `queue`, `start` | waiting for nodes, being loaded |
//! | `uneven` | one slow rank, work that is unevenly spread |
//! | `link`, `disk`, `pages`, `input`, `locks`, `cores` | what ranks waited for |
//! | `rest` | where the time went in all; that nothing stands out; that nothing was gathered |
//!
//! All ranks' time comes from epochs of an overlay ([`times`]); without one there is what the job's record says.

mod blame;
mod cores;
mod disk;
mod failure;
mod finding;
mod gather;
mod input;
mod link;
mod locks;
mod memory;
mod pages;
mod queue;
mod rest;
mod start;
#[cfg(test)]
mod tests;
mod times;
mod uneven;
mod words;

use coppice_api::job::{JobDetail, JobState, JobView};
use coppice_api::link::LinksView;
use coppice_api::node::NodeView;
use coppice_api::overlay::ProfileView;
use coppice_api::ras::RasView;

pub use self::finding::{Advice, Cause, Explanation, Finding};
pub use self::queue::waits_for;
use self::times::Times;

/// All that is known of a job. What is not known is empty.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The job and its ranks.
    pub job: JobDetail,
    /// What its overlay recorded.
    pub profile: ProfileView,
    /// RAS events of the job, and of nodes in its time.
    pub ras: Vec<RasView>,
    /// Other jobs; it itself may be among them.
    pub jobs: Vec<JobView>,
    /// The nodes of the cluster.
    pub nodes: Vec<NodeView>,
    /// What links are like now, and what passed on them.
    pub links: Option<LinksView>,
    /// What time it is, ns since 1970.
    pub now_ns: u64,
}

impl Evidence {
    /// The job.
    fn view(&self) -> &JobView {
        &self.job.job
    }

    /// Whether all of it is over.
    fn has_ended(&self) -> bool {
        self.view().state == JobState::Ended
    }

    /// Its end, or now, ns since 1970.
    fn end_ns(&self) -> u64 {
        self.view().ended_at_ns.unwrap_or(self.now_ns)
    }

    /// From when it was submitted to its end, or to now, ns.
    fn whole_ns(&self) -> u64 {
        self.end_ns().saturating_sub(self.view().submitted_at_ns)
    }

    /// The node that a rank runs on, once it has one.
    fn node_of(&self, rank: u32) -> Option<u32> {
        let at = usize::try_from(rank / self.view().ranks_per_node.max(1)).ok()?;
        self.view().nodes.get(at).copied()
    }
}

/// How much waiting for the network without a reason counts: one that is known comes first if it cost half as much.
const UNEXPLAINED_PARTS: u64 = 2;

/// By what findings are ordered, ns.
fn weight(finding: &Finding) -> u64 {
    match finding.cause {
        Cause::Network => finding.lost_ns / UNEXPLAINED_PARTS,
        _ => finding.lost_ns,
    }
}

/// Says of a job what stands out: how it failed, then what cost it time, the most first. There is always a finding.
#[must_use]
pub fn explain(evidence: &Evidence) -> Explanation {
    let times = Times::of(evidence);
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(queue::find(evidence));
    if let Some(times) = &times {
        // What some ranks' waiting for others comes from is not held against the network and locks, too.
        let uneven = uneven::find(evidence, times);
        let mut blamed_ns = uneven.as_ref().map_or(0, |finding| finding.lost_ns);
        let mut waits = |found: Option<(Finding, u64)>, findings: &mut Vec<Finding>| {
            if let Some((finding, of_others_ns)) = found {
                blamed_ns = blamed_ns.saturating_add(of_others_ns);
                findings.push(finding);
            }
        };
        waits(disk::find(evidence, times), &mut findings);
        waits(pages::find(evidence, times), &mut findings);
        waits(input::find(times), &mut findings);
        findings.extend(link::find(evidence, times, blamed_ns));
        findings.extend(locks::find(evidence, times, blamed_ns));
        findings.extend(cores::find(evidence, times));
        findings.extend(uneven);
    }
    if !findings.iter().any(|finding| matches!(finding.cause, Cause::SlowRank | Cause::Imbalance)) {
        findings.extend(uneven::by_record(evidence));
    }
    findings.extend(start::find(evidence, times.as_ref()));
    findings.sort_by_key(|finding| std::cmp::Reverse(weight(finding)));
    // How it failed comes first, whatever else cost time.
    let failed = failure::find(evidence);
    let has_failed = failed.is_some();
    findings.splice(0..0, failed);
    let is_plain = findings.is_empty();
    if is_plain {
        findings.push(rest::nothing(evidence, times.as_ref()));
    }
    if !has_failed {
        findings.extend(memory::nearly_full(evidence));
    }
    if !findings.iter().any(|finding| finding.cause == Cause::ColdStart) {
        findings.extend(start::loaded_beside(evidence));
    }
    // That nothing stands out has been said with the shares.
    if !is_plain || times.is_none() {
        findings.extend(rest::shares(evidence, times.as_ref()));
    }
    Explanation { job: evidence.view().job, findings }
}
