//! Jobs that start. Their root and program may lie on a mount that does not answer, so others go on while they are
//! opened: what comes for such a job waits until it is there, and a job that is killed is given up.

use std::collections::{BTreeMap, BTreeSet};

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::pset::{FromPset, Member, StartJob, ToPset};
use coppice_protocol::ranks::Ranks;

use super::effect::{Effect, PlaceId};
use super::jobs::Job;
use super::timers::Timer;
use super::{Machine, Now};
use crate::clock::ns;
use crate::limits::{JOBS_MAX, OPEN_TIME_MAX, OPENINGS_MAX};

/// What is there of jobs outside.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Each until nothing of it is left outside, also of a job that is forgotten here.
    pub(super) taken: BTreeMap<PlaceId, JobId>,
    /// Those that are being opened, also for a job that was given up.
    opening: BTreeSet<PlaceId>,
    given: u64,
}

impl Places {
    fn take(&mut self, job: JobId) -> PlaceId {
        self.given += 1;
        let place = PlaceId(self.given);
        self.taken.insert(place, job);
        self.opening.insert(place);
        place
    }

    /// How many there are, and how many of them are being opened.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.taken.len(), self.opening.len())
    }
}

impl Machine {
    /// Starts a job: has its root and program opened, and launches its ranks when that is done.
    pub(super) fn start(&mut self, spec: StartJob, now: Now) {
        let id = spec.job;
        if self.jobs.get(id).is_some() {
            tracing::error!(job = %id, "job was started twice");
            return;
        }
        let reason = if self.places.taken.len() >= JOBS_MAX {
            format!(
                "the pset has {JOBS_MAX} jobs, those counted that have ended and whose files are on mounts that do not \
                 answer"
            )
        } else if self.places.opening.len() >= OPENINGS_MAX {
            format!("{OPENINGS_MAX} jobs of the pset wait for root directories that do not answer")
        } else {
            let place = self.places.take(id);
            self.jobs.insert(Job::new(spec.clone(), place));
            self.timers.set(now.ns + ns(OPEN_TIME_MAX), Timer::Opening(place));
            self.effects.push(Effect::Open { place, spec: Box::new(spec) });
            return;
        };
        self.refuse_all(id, spec.members.iter().flat_map(Member::ranks), &reason);
    }

    /// A job's root and program are open, or cannot be opened for that reason.
    pub fn opened(&mut self, place: PlaceId, result: Result<(), String>, now: Now) {
        self.places.opening.remove(&place);
        let job = self.places.taken.get(&place).copied();
        let job = job.and_then(|job| self.jobs.at(job, place));
        let Some((id, Some(later))) = job.map(|job| (job.id(), job.later.take())) else {
            // A job that was given up is none any more.
            return self.effects.push(Effect::Drop(place));
        };
        if let Err(reason) = result {
            return self.give_up(id, &reason);
        }
        // Before anything else can come for it.
        later.into_iter().for_each(|order| self.order_for_job(order, now));
        self.launch_all(id, now);
    }

    /// Nothing is left outside of what was to be opened.
    pub fn left(&mut self, place: PlaceId) {
        self.places.taken.remove(&place);
    }

    pub(super) fn opening_is_late(&mut self, place: PlaceId) {
        let job = self.places.taken.get(&place).copied();
        let Some(job) = job.and_then(|job| self.jobs.at(job, place)).filter(|job| job.later.is_some()) else { return };
        let reason = format!("root {} has not answered for {} s", job.root(), OPEN_TIME_MAX.as_secs());
        let id = job.id();
        self.give_up(id, &reason);
    }

    /// Whether an order for a job waits until the job is open, or has given it up.
    pub(super) fn is_kept_for_later(&mut self, job: JobId, order: &ToPset) -> bool {
        let Some(later) = self.jobs.get_mut(job).and_then(|job| job.later.as_mut()) else { return false };
        match order {
            ToPset::Kill { .. } => self.give_up(job, "it was ended before its root was open"),
            ToPset::Forget { .. } => drop(self.jobs.remove(job)),
            order => later.push(order.clone()),
        }
        true
    }

    /// A job does not start.
    fn give_up(&mut self, id: JobId, reason: &str) {
        if let Some(job) = self.jobs.remove(id) {
            self.refuse_all(id, job.ranks.iter().map(|rank| rank.owner.rank), reason);
        }
    }

    fn refuse_all(&mut self, job: JobId, ranks: impl Iterator<Item = Rank>, reason: &str) {
        let mut ranks = ranks.peekable();
        while ranks.peek().is_some() {
            let mut some = Ranks::default();
            while ranks.next_if(|rank| some.add(*rank)).is_some() {}
            self.outbox.push(FromPset::Refused { job, ranks: some, reason: reason.to_owned() });
        }
    }
}
