//! Ranks that are said to have started on retained pages were sent none, and the others were; what was forgotten is
//! gone; and what nodes hold is what they are believed to hold. That pages show nothing of an earlier job the programs
//! look at themselves ([`crate::cluster::actor`]).

use std::collections::BTreeMap;

use coppice_api::job::{JobDetail, RankOutcome};
use coppice_api::node::NodeView;
use coppice_api::retain::{PlacementReason, RetainAnswer};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::program::PAGE_BYTES;
use coppice_protocol::retain::RetainedProgram;

use crate::checkers::{Violation, ensure};
use crate::cluster::programs;

/// An order to forget.
#[derive(Debug)]
pub(in crate::cluster) struct Asked {
    /// The program; `None`: all.
    pub program: Option<ProgramId>,
    /// Processes that had ended when it was given.
    pub ended: u64,
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Retention {
    /// Of each job the number of its program, and whether it was to use retained pages.
    jobs: BTreeMap<JobId, (u64, bool)>,
    /// Bytes of program pages that I/O nodes sent each rank.
    sent: BTreeMap<(JobId, Rank), u64>,
    found: Vec<Violation>,
}

impl Retention {
    pub(in crate::cluster) fn submitted(&mut self, job: JobId, program: u64, is_warm: bool) {
        self.jobs.insert(job, (program, is_warm));
    }

    /// An I/O node sent program pages.
    pub(in crate::cluster) fn sent(&mut self, (job, rank, bytes): (JobId, Rank, u64)) {
        *self.sent.entry((job, rank)).or_default() += bytes;
    }

    /// A user was told that a program is forgotten. `ran` says of a program how many processes of it are on the node,
    /// and which end of one was the last: what it retained since is its own.
    pub(in crate::cluster) fn forgotten(
        &mut self,
        node: NodeId,
        asked: &Asked,
        held: &[RetainedProgram],
        ran: impl Fn(ProgramId) -> Option<(u64, u64)>,
    ) {
        for held in held.iter().filter(|held| asked.program.is_none_or(|program| program == held.program)) {
            let is_new = ran(held.program).is_some_and(|(count, last)| count > 0 || last > asked.ended);
            if !is_new {
                let what = format!("node {node} holds {held:?}, which was forgotten");
                self.found.push(Violation::new(what));
            }
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }

    /// Whether what is recorded of retained pages can be. Gives how many ranks started on such pages.
    ///
    /// # Errors
    /// It cannot.
    pub(in crate::cluster) fn recorded(&self, job: JobId, detail: &JobDetail) -> Result<u64, Violation> {
        let Some((program, is_warm)) = self.jobs.get(&job).copied() else { return Ok(0) };
        let program = usize::try_from(program).ok().and_then(|number| programs::all().get(number));
        let Some(program) = program else { return Ok(0) };
        let pages_all = program.bytes().div_ceil(PAGE_BYTES);
        let is_alone = detail.job.ranks_per_node == 1;
        let mut on_nodes = BTreeMap::<u32, (u64, bool)>::new();
        let mut warm = 0;
        for rank in &detail.rank_reports {
            let (found, fetched) = (rank.pages_retained, rank.counters.pages_fetched);
            let number = rank.rank;
            let sent = self.sent.get(&(job, Rank(number))).copied().unwrap_or(0).div_ceil(PAGE_BYTES);
            let has_run = rank.outcome == RankOutcome::Exited;
            warm += u64::from(found > 0);
            let told =
                || format!("job {job}: rank {number} found {found} pages and fetched {fetched}, and was sent {sent}");
            ensure(found <= pages_all && fetched <= sent, told)?;
            // Who finds them beside another may have asked for the first page before that had any.
            ensure(found < pages_all || fetched == 0 && (sent == 0 || !is_alone), told)?;
            ensure(is_warm || found == 0 || !is_alone, || format!("{}, and was to find none", told()))?;
            ensure(rank.pages_kept <= pages_all, || format!("{}, of which it kept {}", told(), rank.pages_kept))?;
            if is_alone && has_run {
                match rank.retain {
                    Some(RetainAnswer::Kept { kept, .. }) => ensure(kept == found, || format!("{} of {kept}", told()))?,
                    Some(RetainAnswer::Absent) => ensure(found == 0, || format!("{}, none there", told()))?,
                    _ => {}
                }
            }
            // What ranks take from each other is counted with who fetched it, who may be lost.
            let (there, have_run) = on_nodes.entry(rank.node).or_insert((0, true));
            (*there, *have_run) = (*there + found + fetched, *have_run && has_run);
        }
        for (node, (there, have_run)) in on_nodes {
            let is_all = have_run && detail.job.reason.is_none();
            ensure(!is_all || there > 0, || format!("job {job} ran on node {node}, where no page of it was"))?;
        }
        for placed in detail.job.placement.iter().flat_map(|placement| &placement.nodes) {
            let is_for_pages = placed.reason == PlacementReason::Retained;
            ensure(!is_for_pages || is_warm && placed.pages > 0, || format!("job {job} has {placed:?} for its pages"))?;
        }
        Ok(warm)
    }

    /// Whether a node holds what it is believed to. `frames`: in use, and retained.
    ///
    /// # Errors
    /// It does not.
    pub(in crate::cluster) fn held(
        &self,
        view: &NodeView,
        held: &[RetainedProgram],
        frames: (u64, u64),
    ) -> Result<(), Violation> {
        let believed: Vec<_> = view.retained.iter().map(|of| (of.program.clone(), of.pages)).collect();
        let held: Vec<_> = held.iter().map(|of| (of.program.to_string(), of.pages)).collect();
        ensure(believed == held, || {
            format!("node {} holds {held:?}, and is believed to hold {believed:?}", view.node)
        })?;
        let (used, retained) = frames;
        ensure(used == retained, || format!("node {}: {used} frames in use, {retained} of them retained", view.node))
    }
}
