//! What users are told of their jobs is true, whole, and what is recorded; output comes once and in order; and nothing
//! of a job is left on a node that works when its end is told.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::job::{JobDetail, JobState, JobView, RankOutcome};
use coppice_api::output::OutputCut;
use coppice_protocol::ids::JobId;

use crate::checkers::{Violation, ensure};
use crate::cluster::disk::NO_PROGRAM;
use crate::cluster::machine::LifeId;
use crate::cluster::script::Script;

/// How far a recorded time may be from the one that has passed, ns.
const CLOCK_NS_MAX: u64 = 1_000_000;
/// What the reasons have in them for which jobs end where nothing goes wrong: their users', or that they want more
/// memory than there is.
const OWN_REASONS: [&str; 5] = ["on request", "--timeout", "went away", "memory", "signal 9"];

/// A job as its user sees it.
#[derive(Debug)]
struct Job {
    script: Script,
    ranks: u32,
    /// It is nobody's: its output is that which is to be kept.
    is_detached: bool,
    /// When it was taken, ns.
    submitted_ns: u64,
    /// Of each rank the lines that have come, and how many bytes of the next.
    lines: BTreeMap<u32, (u64, usize)>,
    /// Bytes of all output.
    bytes: u64,
    ended: Option<JobView>,
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Jobs {
    table: BTreeMap<JobId, Job>,
    /// Nothing goes wrong in this run.
    pub is_calm: bool,
    found: Vec<Violation>,
}

impl Jobs {
    pub(in crate::cluster) fn submitted(
        &mut self,
        id: JobId,
        ranks: u32,
        is_detached: bool,
        script: Script,
        now_ns: u64,
    ) {
        let job =
            Job { script, ranks, is_detached, submitted_ns: now_ns, lines: BTreeMap::new(), bytes: 0, ended: None };
        if self.table.insert(id, job).is_some() {
            self.found.push(Violation::new(format!("two jobs have the number {id}")));
        }
    }

    pub(in crate::cluster) fn is_detached(&self, id: JobId) -> bool {
        self.table.get(&id).is_some_and(|job| job.is_detached)
    }

    pub(in crate::cluster) fn output(&mut self, id: JobId, rank: u32, bytes: &[u8]) {
        let Some(job) = self.table.get_mut(&id) else { return };
        job.bytes += bytes.len() as u64;
        let (number, begun) = job.lines.entry(rank).or_default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let line = job.script.line(rank, *number);
            let (came, later) = rest.split_at(rest.len().min(line.len() - *begun));
            if came != &line[*begun..*begun + came.len()] {
                let came = String::from_utf8_lossy(came.get(..came.len().min(40)).unwrap_or_default()).into_owned();
                let at = format!("byte {begun} of line {number} of rank {rank}");
                let what = format!("job {id}: where {at} should come, there came {came:?}");
                return self.found.push(Violation::new(what));
            }
            *begun += came.len();
            if *begun == line.len() {
                (*number, *begun) = (*number + 1, 0);
            }
            rest = later;
        }
    }

    /// A user heard that the job ended. `alive`: boots on which processes of it are; `lives`: those that are there.
    pub(in crate::cluster) fn ended(
        &mut self,
        id: JobId,
        view: &JobView,
        alive: BTreeSet<LifeId>,
        lives: &BTreeSet<LifeId>,
        now_ns: u64,
    ) {
        let left: Vec<_> = alive.intersection(lives).collect();
        // The processes of a lost node are gone when it is, which may be a moment later.
        if !left.is_empty() && view.reason.is_none() {
            self.found.push(Violation::new(format!("job {id} has ended ({view:?}), and is still there on {left:?}")));
        }
        let Some(job) = self.table.get_mut(&id) else { return };
        // Whoever set the host's clock meanwhile.
        let lasted_ns = view.ended_at_ns.and_then(|ended_ns| ended_ns.checked_sub(view.submitted_at_ns));
        let passed_ns = now_ns - job.submitted_ns;
        if lasted_ns.is_none_or(|lasted_ns| lasted_ns.abs_diff(passed_ns) > CLOCK_NS_MAX) {
            self.found
                .push(Violation::new(format!("job {id} ended after {passed_ns} ns, and is recorded as {view:?}")));
        }
        let is_own = |reason: &&String| OWN_REASONS.iter().any(|own| reason.contains(own));
        let are_to_stay = job.script.talk.deserter == 0 && (job.script.course.loser == 0 || job.script.course.outlives);
        let reason = view.reason.as_ref().filter(|reason| !is_own(reason) && are_to_stay);
        if let Some(reason) = reason.filter(|_| self.is_calm) {
            self.found.push(Violation::new(format!("job {id} ended, where nothing went wrong, because {reason}")));
        }
        if job.ended.replace(view.clone()).is_some() {
            self.found.push(Violation::new(format!("job {id} has ended twice")));
        }
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }

    /// What the user of a job heard of its end.
    pub(in crate::cluster) fn end_of(&self, id: JobId) -> Option<&JobView> {
        self.table.get(&id)?.ended.as_ref()
    }

    /// All that there were.
    pub(in crate::cluster) fn all(&self) -> Vec<JobId> {
        self.table.keys().copied().collect()
    }

    /// Whether what is recorded is what the user was told. Gives of how many ranks all output must have come.
    ///
    /// # Errors
    /// It is not.
    pub(in crate::cluster) fn recorded(&self, id: JobId, detail: &JobDetail) -> Result<u64, Violation> {
        let Some(job) = self.table.get(&id) else { return Ok(0) };
        let mut held = 0;
        let recorded = &detail.job;
        ensure(recorded.state == JobState::Ended, || format!("job {id} never ended: {recorded:?}"))?;
        let lacks_program = recorded.reason.as_ref().is_some_and(|reason| reason.contains(NO_PROGRAM));
        ensure(!lacks_program, || format!("job {id} was taken, and ended for want of its program: {recorded:?}"))?;
        let times = [recorded.started_at_ns, recorded.running_at_ns, recorded.ended_at_ns];
        let times: Vec<u64> = [recorded.submitted_at_ns].into_iter().chain(times.into_iter().flatten()).collect();
        ensure(times.is_sorted(), || format!("job {id} has times that are not in order: {recorded:?}"))?;
        if job.is_detached {
            let is_owned = recorded.reason.as_ref().is_some_and(|reason| reason.contains("went away"));
            ensure(!is_owned && recorded.detached, || {
                format!("job {id} is nobody's, and ended with him: {recorded:?}")
            })?;
            let Some(output) = recorded.output else {
                return Err(Violation::new(format!("nothing is said of the output of job {id}: {recorded:?}")));
            };
            // Of what a service node left that died, it is not known how much there was.
            let is_all = output.bytes.map(|bytes| bytes + output.dropped) == Some(job.bytes);
            ensure(is_all || output.cut == Some(OutputCut::ServiceNode), || {
                format!("job {id} wrote {} bytes, and of them are kept {output:?}", job.bytes)
            })?;
        }
        if let Some(told) = &job.ended {
            // What is kept of its output is known a little later.
            let told = &JobView { output: recorded.output, ..told.clone() };
            ensure(told == recorded, || format!("job {id}: the user heard {told:?}, recorded is {recorded:?}"))?;
            for rank in &detail.rank_reports {
                let came = job.lines.get(&rank.rank).map_or(0, |(lines, _)| *lines);
                let is_whole = rank.exit == Some(job.script.status);
                held += u64::from(is_whole);
                let all = job.script.lines_of(rank.rank);
                ensure(!is_whole || came == all, || {
                    format!("job {id}: rank {} has ended well, and {came} of its {all} lines came", rank.rank)
                })?;
            }
            if recorded.reason.is_none() {
                let lost = detail.rank_reports.iter().find(|rank| rank.outcome == RankOutcome::Lost);
                ensure(lost.is_none(), || format!("job {id} has no reason for its end, and lost {lost:?}"))?;
                let have_run = detail.rank_reports.iter().all(|rank| rank.outcome == RankOutcome::Exited);
                ensure(!have_run || recorded.running_at_ns.is_some(), || {
                    format!("job {id} ended well, and never ran: {recorded:?}")
                })?;
                let reports = detail.rank_reports.len();
                ensure(reports == job.ranks as usize, || {
                    format!("job {id}: {reports} of {} ranks reported", job.ranks)
                })?;
            }
        }
        Ok(held)
    }
}
