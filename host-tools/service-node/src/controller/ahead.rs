//! Whether a job's program is sent to its nodes ahead of the launch: what is known for that, and what it came to.

use std::collections::BTreeSet;

use coppice_api::ahead::AheadDecision;
use coppice_api::job::RankOutcome;
use coppice_api::retain::{PlacedNode, Placement, RetainAnswer};
use coppice_api::staging::ProgramStaging;
use coppice_protocol::ids::{NodeId, PsetId};
use coppice_protocol::limits::{STAGED_FILES_MAX, TRANSFERS_PER_PSET_MAX};

use coppice_protocol::staging::Staging;

use super::Controller;
use super::job::Job;
use super::ranks::RankState;
use super::staging::{self, Bandwidth};
use crate::plant::Plant;
use crate::scheduler::ahead::{self, Launch, not_staged};

impl<P: Plant> Controller<P> {
    /// Decides it for a job that gets these nodes.
    pub(super) fn decide_ahead(&self, job: &Job, placement: &Placement) -> AheadDecision {
        let retain = job.submission.retain;
        let of = |placed: &PlacedNode| {
            let pset = self.nodes.get(NodeId(placed.node)).map_or(PsetId(0), |node| node.pset);
            (pset, if retain { placed.pages } else { 0 })
        };
        let held: Vec<(PsetId, u64)> = placement.nodes.iter().map(of).collect();
        if held.iter().all(|(_, pages)| *pages > 0) {
            return not_staged("all nodes hold pages of the program");
        }
        match job.submission.stage_program {
            ProgramStaging::Always => {
                AheadDecision { staged: true, summary: "staged: as asked".to_owned(), reckoned: None }
            }
            ProgramStaging::Never => not_staged("as asked"),
            ProgramStaging::IfFaster => self.reckon_ahead(job, placement, &held),
        }
    }

    fn reckon_ahead(&self, job: &Job, placement: &Placement, held_pages: &[(PsetId, u64)]) -> AheadDecision {
        let home = placement.nodes.first().and_then(|placed| self.nodes.get(NodeId(placed.node)));
        let nodes = || placement.nodes.iter().map(|placed| NodeId(placed.node));
        let Some(home) = home.map(|home| home.pset) else { return not_staged("it has no nodes") };
        let links = || self.links.to(nodes(), home, staging::scheme(&job.submission));
        let link = Bandwidth::of(links());
        let staging = staging::with_program(job, (home, self.links.psets()), links());
        let plan = staging.as_ref().map(|staging| staging.check(0, job.submission.nodes_wanted()));
        let Some(Ok(plan)) = plan else { return not_staged("it cannot be sent to so many nodes") };
        let decision = ahead::decide(&Launch {
            program_bytes: job.program.bytes,
            held_pages,
            pages_touched: self.pages_touched(job),
            link_bytes_per_second: link.is_stated.then_some(link.bytes_per_second),
            latency_ns: plan.link.latency_ns.into(),
            piece_ns: plan.piece_ns(),
            scheme: job.submission.scheme,
        });
        let hindrance = staging.filter(|_| decision.staged).and_then(|staging| self.hindrance(job, &staging, nodes()));
        match hindrance {
            Some(why) => AheadDecision { reckoned: decision.reckoned, ..not_staged(why) },
            None => decision,
        }
    }

    /// Why the program is not to be staged although that were faster: nobody asked for that, so nothing may be refused
    /// for it, to this job or to another.
    fn hindrance(&self, job: &Job, staging: &Staging, nodes: impl Iterator<Item = NodeId>) -> Option<&'static str> {
        if job.staged.len() >= STAGED_FILES_MAX {
            return Some("the job has as many files staged as it can");
        }
        let on_a_node = u64::from(job.submission.ranks.min(job.submission.ranks_per_node));
        let files = job.staged.iter().fold(job.program.bytes, |sum, file| sum.saturating_add(file.bytes));
        let wanted = job.program.memory_bytes.saturating_mul(on_a_node).saturating_add(files);
        if wanted > self.smallest_free() / 8 * 7 {
            return Some("nodes have little memory for it");
        }
        let psets: BTreeSet<PsetId> = nodes.filter_map(|node| staging.psets.pset_of(node)).collect();
        let at = |pset: PsetId| self.jobs.values().map(|other| other.transfers.at(pset)).fold(0, usize::saturating_add);
        let most = psets.into_iter().map(at).max().unwrap_or(0);
        (most >= TRANSFERS_PER_PSET_MAX / 2).then_some("many other files are being staged")
    }

    /// Pages that a node had or fetched when the program last ran, as far as is recorded.
    fn pages_touched(&self, job: &Job) -> Option<u64> {
        let found = self.records.storage().pages_touched(job.program.id);
        found.inspect_err(|error| tracing::warn!(%error, "cannot look up what a program touched")).ok().flatten()
    }
}

impl Job {
    /// Whether its program is sent to its nodes ahead of the launch.
    pub(super) fn is_sent_ahead(&self) -> bool {
        self.ahead.as_ref().is_some_and(|decision| decision.staged)
    }

    /// Pages of its program that the node which touched most had or fetched. `None` if not all of its ranks came to
    /// their own end: others may have touched more if they had.
    pub(super) fn pages_touched(&self) -> Option<u64> {
        let of_node = |ranks: &[RankState]| {
            let mut pages = 0_u64;
            for state in ranks {
                let end = state.end().filter(|end| end.outcome == RankOutcome::Exited)?;
                pages = pages.saturating_add(end.pages_fetched);
                // What the others find is what the first had or those before them fetched.
                if matches!(state.retain, Some(RetainAnswer::Kept { .. })) {
                    pages = pages.saturating_add(end.pages_retained);
                }
            }
            Some(pages)
        };
        let mut most = None;
        for (_, ranks) in self.ranks.by_node() {
            most = most.max(Some(of_node(ranks)?));
        }
        most
    }
}
