//! PMIx, as programs hear it: who gets what, who leaves which fence, who is told of which event, and that nobody waits
//! for ever for one that is gone. What an answer may have in it at all the programs know themselves
//! ([`crate::cluster::pmix`]).
//!
//! | module | what |
//! | --- | --- |
//! | `job` | what the ranks of one job have come to |
//! | `cards` | what a rank must get at least |
//! | `events` | what a rank is told |

mod cards;
mod events;
mod job;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use coppice_api::job::JobView;
use coppice_protocol::ids::{JobId, NodeId};

use self::job::Job;
use super::Troubles;
use crate::checkers::Violation;
use crate::cluster::pmix::{Ask, Reply, Told};
use crate::cluster::queue::SECOND_NS;
use crate::cluster::script::Script;

/// How long a rank waits at most for what has happened, or cannot happen any more, ns: so long a node may be silent,
/// and then the job has to end.
const STUCK_NS_MAX: u64 = 80 * SECOND_NS;
/// The same where nothing goes wrong, ns.
const STUCK_CALM_NS_MAX: u64 = 5 * SECOND_NS;

/// What a rank does or hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Note {
    /// It begins.
    Begins,
    /// The server takes it for who it is.
    Greeted,
    /// It is about to have made this call.
    Asks(Ask),
    /// It is answered.
    Hears(Ask, Reply),
    /// It is told something unasked.
    Told(Told),
    /// It has not heard of all that it should have, and waits no longer.
    GivesUp,
    /// It goes away, as it was told to.
    Loses,
}

pub(in crate::cluster) use Note as PmixNote;

/// See this module.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Pmix {
    /// By the marks of their scripts, those that have not ended.
    jobs: BTreeMap<u64, Job>,
    /// Nothing goes wrong in this run.
    pub is_calm: bool,
    found: Vec<Violation>,
}

impl Pmix {
    pub(in crate::cluster) fn submitted(
        &mut self,
        id: JobId,
        ranks: u32,
        script: &Script,
        has_time: bool,
        now_ns: u64,
    ) {
        if script.course.rounds > 0 {
            let job = Job::new(id, ranks, script, has_time, now_ns);
            self.jobs.insert(script.course.mark, job);
        }
    }

    /// A user ends it.
    pub(in crate::cluster) fn killed(&mut self, id: JobId) {
        self.jobs.values_mut().filter(|job| job.id == id).for_each(|job| job.was_killed = true);
    }

    /// A rank of the job with this mark does or hears something, on this node.
    pub(in crate::cluster) fn note(
        &mut self,
        (mark, rank, node): (u64, u32, Option<NodeId>),
        note: Note,
        troubles: &Troubles,
        now_ns: u64,
    ) {
        let Some(job) = self.jobs.get_mut(&mark) else { return };
        if let Some(node) = node {
            job.is_on(rank, node, now_ns);
        }
        if let Err(what) = job.note(rank, note, (self.is_calm, troubles), now_ns) {
            self.found.push(Violation::new(format!("job {}: rank {rank} of {} {what}", job.id, job.ranks)));
        }
    }

    /// A process is gone.
    pub(in crate::cluster) fn gone(&mut self, id: JobId, rank: u32, now_ns: u64) {
        if let Some(job) = self.jobs.values_mut().find(|job| job.id == id) {
            job.is_gone(rank, now_ns);
        }
    }

    /// The service node has worked for so long. Gives the jobs of which a rank has waited in vain for too long in that
    /// time: whoever looks says if they have not ended, by [`Self::is_stuck`].
    pub(in crate::cluster) fn worked(&mut self, ns: u64, now_ns: u64) -> Vec<JobId> {
        let most_ns = if self.is_calm { STUCK_CALM_NS_MAX } else { STUCK_NS_MAX };
        let mut stuck = Vec::new();
        for job in self.jobs.values_mut() {
            if job.worked(ns) > most_ns {
                stuck.push(job.id);
            }
            if let Some(what) = job.unexplained(now_ns) {
                self.found.push(Violation::new(format!("job {}: {what}", job.id)));
            }
        }
        stuck
    }

    /// It has ended, and nobody watched.
    pub(in crate::cluster) fn is_over(&mut self, id: JobId) {
        self.jobs.retain(|_, job| job.id != id);
    }

    pub(in crate::cluster) fn is_stuck(&mut self, id: JobId, state: &str) {
        let job = self.jobs.values().find(|job| job.id == id);
        let waits = job.map(Job::what_is_stuck).unwrap_or_default();
        self.found.push(Violation::new(format!("ranks of job {id} wait for ever, {waits}: {state}")));
    }

    /// A user heard of its end. Gives how many fences its ranks have left, all together.
    pub(in crate::cluster) fn ended(&mut self, id: JobId, view: &JobView, troubles: &Troubles, now_ns: u64) -> u64 {
        let mark = self.jobs.iter().find(|(_, job)| job.id == id).map(|(mark, _)| *mark);
        let Some(job) = mark.and_then(|mark| self.jobs.remove(&mark)) else { return 0 };
        if let Err(what) = job.ended(view, (self.is_calm, troubles), now_ns) {
            self.found.push(Violation::new(format!("job {id} of {} ranks {what}", job.ranks)));
        }
        job.fences_left()
    }

    pub(in crate::cluster) fn found(&mut self) -> &mut Vec<Violation> {
        &mut self.found
    }
}
