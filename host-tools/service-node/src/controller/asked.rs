//! Checkpoints that ranks of a job ask for. They are made as those that are due, one at a time; nodes are told of every
//! one that is made, and when none came of what was asked for.
//!
//! One that is being made counts for those who ask before it is made. Whoever asks later waits until it is done with.

use std::time::Instant;

use coppice_protocol::ids::{JobId, PsetId};
use coppice_protocol::pset::ToPset;

use super::{Controller, Now};
use crate::limits::ASKED_CHECKPOINT_INTERVAL;
use crate::plant::Plant;

/// What ranks of a job have asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// All ranks run, and the job has not come to its end.
    may_begin: bool,
    /// One is to be made, from then on.
    wanted: Option<Instant>,
    /// When the last began that somebody had asked for.
    last: Option<Instant>,
    /// What is being made, if something is.
    making: Option<Making>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Making {
    /// Ranks wait for it.
    is_awaited: bool,
    /// It is made, and the rest of the work for it is not done.
    is_made: bool,
}

impl Asked {
    /// A rank asks for one.
    fn ask(&mut self, now: Instant) {
        match &mut self.making {
            Some(making) if !making.is_made => making.is_awaited = true,
            _ => {
                let soonest = self.last.map_or(now, |last| now.max(last + ASKED_CHECKPOINT_INTERVAL));
                self.wanted.get_or_insert(soonest);
            }
        }
    }

    /// All ranks run.
    pub(super) fn begin(&mut self, now: Instant) {
        self.may_begin = true;
        self.not_before(now);
    }

    /// What is wanted is due from then on: were it due since it was asked for, that would seem late
    /// ([`super::hearing`]).
    fn not_before(&mut self, now: Instant) {
        self.wanted = self.wanted.map(|wanted| wanted.max(now));
    }

    /// When one is due that was asked for.
    pub(super) fn due(&self) -> Option<Instant> {
        self.wanted.filter(|_| self.may_begin)
    }

    /// One begins, for whoever asked.
    pub(super) fn begun(&mut self, now: Instant) {
        let is_awaited = self.wanted.take().is_some();
        if is_awaited {
            self.last = Some(now);
        }
        self.making = Some(Making { is_awaited, is_made: false });
    }

    /// One is made.
    fn made(&mut self) {
        if let Some(making) = &mut self.making {
            making.is_made = true;
        }
    }

    /// None is being made any more. Whether somebody waits who was not told.
    fn tried(&mut self, now: Instant) -> bool {
        self.not_before(now);
        self.making.take().is_some_and(|making| making.is_awaited && !making.is_made)
    }
}

impl<P: Plant> Controller<P> {
    /// A rank asks for a checkpoint of its job.
    pub(super) fn checkpoint_asked(&mut self, pset: PsetId, id: JobId, now: Now) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.ranks.are_in(pset)) else { return };
        if !job.is_being_killed() && job.restart.is_none() {
            job.schedule.asked.ask(now.instant);
        }
    }

    /// Nothing is made of a job any more: ranks that wait are told, if they were not.
    pub(super) fn ask_is_over(&mut self, id: JobId, now: Now) {
        let job = self.jobs.get_mut(&id);
        if job.is_some_and(|job| job.schedule.asked.tried(now.instant)) {
            self.say_checkpoints(id);
        }
    }

    /// A checkpoint of a job is made: its nodes are told.
    pub(super) fn tell_checkpointed(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.schedule.asked.made();
            self.say_checkpoints(id);
        }
    }

    /// Tells the nodes of a job how many checkpoints there are of it.
    fn say_checkpoints(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.is_waiting()) else { return };
        let made = job.checkpoints_made.map_or(0, |made| made.count.into());
        for pset in job.ranks.live_psets() {
            self.plant.tell(pset, &ToPset::Checkpointed { job: id, made });
        }
    }
}
