//! Tracing a job that runs already: who does, and which ranks.
//!
//! A tracer gets what the ranks do as a stream beside the job's own. It shares the job's window at the I/O nodes: a
//! tracer that stops reading stops the ranks that it traces when they have something to say, as it would on Linux, and
//! one that goes away lets them go on.

use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_protocol::ship::Stream;
use coppice_protocol::trace::Traced;
use hyper::body::Bytes;

use super::job::Job;
use super::requests::reply;
use super::{Answer, Controller, Now, Refused};
use crate::feed::{Feed, Pieces, Taker};
use crate::plant::Plant;

/// Who traces a job.
#[derive(Debug)]
pub(super) struct Tracer {
    /// What it is told. Its one taker is the owner.
    feed: Feed,
    /// Which ranks.
    traced: Traced,
}

impl Tracer {
    /// One that is awaited: what there is to say waits for it.
    pub(super) fn awaited() -> Self {
        Self { feed: Feed::owned(), traced: Traced::All }
    }

    /// What it is told.
    pub(super) fn into_feed(self) -> Feed {
        self.feed
    }
}

impl Job {
    /// Which of its ranks are traced.
    pub(super) fn traced(&self) -> Traced {
        self.tracer.as_ref().map_or(Traced::None, |tracer| tracer.traced)
    }
}

impl<P: Plant> Controller<P> {
    /// Somebody traces ranks of a job from now on, or one that waits when it runs.
    pub(super) fn trace(&mut self, id: JobId, rank: Option<Rank>, answer: Answer<Pieces>) {
        match self.begin_tracing(id, rank) {
            Ok(pieces) => {
                if answer.send(Ok(pieces)).is_err() {
                    self.end_tracing(id);
                }
            }
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    fn begin_tracing(&mut self, id: JobId, rank: Option<Rank>) -> Result<Pieces, Refused> {
        let Some(job) = self.jobs.get_mut(&id) else {
            // A job that is traced from its beginning may be over before whoever runs it asks for that: all its ranks.
            let left = rank.is_none().then(|| self.unclaimed_traces.take(id)).flatten();
            let left = left.and_then(|mut feed| feed.attach());
            return left.ok_or_else(|| self.why_not_under_way(id));
        };
        let ranks = job.submission.ranks;
        if let Some(rank) = rank.filter(|rank| rank.0 >= ranks) {
            return Err(Refused::missing(format!("job {id} has no rank {rank}; it has {ranks}, counted from 0")));
        }
        // One that was there from the beginning is awaited, or there already.
        let tracer = job.tracer.get_or_insert_with(Tracer::awaited);
        let Some(pieces) = tracer.feed.attach() else {
            return Err(Refused::conflict(&format!("somebody traces job {id} already")));
        };
        let traced = rank.map_or(Traced::All, Traced::Rank);
        tracer.traced = traced;
        self.tell_traced(id, traced);
        Ok(pieces)
    }

    /// A rank did something.
    pub(super) fn rank_traced(&mut self, pset: PsetId, id: JobId, rank: Rank, bytes: &Bytes, now: Now) {
        let tracer = self.jobs.get_mut(&id).and_then(|job| job.tracer.as_mut());
        // Without anybody who takes it nobody wants to know.
        let taken = tracer.map_or(Ok(bytes.len()), |tracer| tracer.feed.output(pset, rank, Stream::Trace, bytes));
        match taken {
            Ok(taken) => self.tell_taken(pset, id, taken),
            Err(error) => self.distrust_pset(pset, &format!("it sent {error}"), now),
        }
    }

    /// The tracer took so much.
    pub(super) fn trace_taken(&mut self, id: JobId, pset: PsetId, bytes: usize) {
        let Some(tracer) = self.jobs.get_mut(&id).and_then(|job| job.tracer.as_mut()) else { return };
        let taken = tracer.feed.taken(Taker::Owner, pset, bytes);
        self.tell_taken(pset, id, taken);
    }

    /// Nobody traces the job any more. What was under way counts as taken.
    pub(super) fn end_tracing(&mut self, id: JobId) {
        let Some(mut tracer) = self.jobs.get_mut(&id).and_then(|job| job.tracer.take()) else { return };
        self.tell_traced(id, Traced::None);
        for (pset, bytes) in tracer.feed.leave(Taker::Owner) {
            self.tell_taken(pset, id, bytes);
        }
    }

    /// Tells the I/O nodes of a job that runs; one that waits is started so.
    fn tell_traced(&mut self, id: JobId, traced: Traced) {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.is_waiting()) else { return };
        for pset in job.ranks.live_psets() {
            self.plant.tell(pset, &ToPset::Trace { job: id, traced });
        }
    }
}
