//! What a request promises holds, also while things go wrong: a job that was killed or whose time is over ends soon,
//! counted in time in which the service node works.

use std::collections::BTreeMap;

use coppice_protocol::ids::JobId;

use crate::checkers::Violation;
use crate::cluster::queue::SECOND_NS;

/// How long an end that was ordered takes at most, ns: nodes that do not do it are given up, and those of whom nobody
/// hears are noticed by then, too.
const END_NS_MAX: u64 = 60 * SECOND_NS;

#[derive(Debug)]
struct Promise {
    what: &'static str,
    left_ns: u64,
}

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Promises {
    of_jobs: BTreeMap<JobId, Promise>,
    found: Vec<Violation>,
}

impl Promises {
    /// A job is to end, after so long.
    pub(in crate::cluster) fn ends(&mut self, job: JobId, what: &'static str, in_ns: u64) {
        let left_ns = in_ns.saturating_add(END_NS_MAX);
        let promise = self.of_jobs.entry(job).or_insert(Promise { what, left_ns });
        if left_ns < promise.left_ns {
            *promise = Promise { what, left_ns };
        }
    }

    pub(in crate::cluster) fn kept(&mut self, job: JobId) {
        self.of_jobs.remove(&job);
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
