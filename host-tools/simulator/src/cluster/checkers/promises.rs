//! What a request promises holds, also while things go wrong: a job that was killed or whose time is over ends soon,
//! counted in time in which the service node works.

use std::collections::BTreeMap;

use coppice_protocol::ids::JobId;

use crate::checkers::Violation;
use crate::cluster::queue::{MILLISECOND_NS, SECOND_NS};

/// How long an end that was ordered takes at most, ns: nodes that do not do it are given up, and those of whom nobody
/// hears are noticed by then, too.
const END_NS_MAX: u64 = 60 * SECOND_NS;
/// The same where nothing goes wrong: less than what is given to those who do not answer.
const END_CALM_NS_MAX: u64 = 800 * MILLISECOND_NS;

#[derive(Debug)]
struct Promise {
    what: &'static str,
    left_ns: u64,
    /// When it is to end, ns.
    due_ns: u64,
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Promises {
    of_jobs: BTreeMap<JobId, Promise>,
    /// Nothing goes wrong in this run.
    pub is_calm: bool,
    found: Vec<Violation>,
}

impl Promises {
    /// A job is to end after so long, and so much more where things go wrong.
    pub(in crate::cluster) fn ends(
        &mut self,
        job: JobId,
        what: &'static str,
        (in_ns, more_ns): (u64, u64),
        now_ns: u64,
    ) {
        let left_ns = in_ns.saturating_add(more_ns).saturating_add(END_NS_MAX);
        let due_ns = now_ns.saturating_add(in_ns);
        let promise = self.of_jobs.entry(job).or_insert(Promise { what, left_ns, due_ns });
        if left_ns < promise.left_ns {
            *promise = Promise { what, left_ns, due_ns };
        }
    }

    /// A job has ended, whenever that was.
    pub(in crate::cluster) fn kept(&mut self, job: JobId) {
        self.of_jobs.remove(&job);
    }

    /// A user hears that his job has ended.
    pub(in crate::cluster) fn ended(&mut self, job: JobId, now_ns: u64) {
        let Some(Promise { what, due_ns, .. }) = self.of_jobs.remove(&job) else { return };
        let late_ns = now_ns.saturating_sub(due_ns);
        if self.is_calm && late_ns > END_CALM_NS_MAX {
            let late = format!("job {job} {what}, and ended {late_ns} ns later, where nothing went wrong");
            self.found.push(Violation::new(late));
        }
    }

    /// The service node has worked for so long. Gives the jobs that should have ended: whoever looks says whether they
    /// have, by [`Self::kept`] or [`Self::broken`].
    pub(in crate::cluster) fn worked(&mut self, ns: u64) -> Vec<JobId> {
        for promise in self.of_jobs.values_mut() {
            promise.left_ns = promise.left_ns.saturating_sub(ns);
        }
        self.of_jobs.iter().filter(|(_, promise)| promise.left_ns == 0).map(|(job, _)| *job).collect()
    }

    pub(in crate::cluster) fn broken(&mut self, job: JobId, state: &str) {
        let Some(promise) = self.of_jobs.remove(&job) else { return };
        self.found.push(Violation::new(format!("job {job} {}, and long after that: {state}", promise.what)));
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}
