//! Tracing a job that runs already: who does, and which ranks.
//!
//! A tracer gets what the ranks do as a stream beside the job's own. It shares the job's window at the I/O nodes: a
//! tracer that stops reading stops the ranks that it traces when they have something to say, as it would on Linux, and
//! one that goes away lets them go on.

use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_protocol::ship::Stream;
use coppice_protocol::trace::Traced;
use tokio::sync::mpsc;

use super::job::Job;
use super::requests::reply;
use super::{Answer, Controller, Refused};
use crate::feed::{Feed, Piece};
use crate::plant::Plant;

/// Who traces a job.
#[derive(Debug)]
pub(super) struct Tracer {
    /// What it is told.
    feed: Feed,
    /// Which ranks.
    traced: Traced,
}

impl Job {
    /// Where this stream of its ranks goes.
    pub(super) fn feed_of(&mut self, stream: Stream) -> Option<&mut Feed> {
        match stream {
            Stream::Output | Stream::Error => Some(&mut self.feed),
            Stream::Trace if self.submission.traced => Some(&mut self.feed),
            Stream::Trace => self.tracer.as_mut().map(|tracer| &mut tracer.feed),
        }
    }

    /// Which of its ranks are traced.
    pub(super) fn traced(&self) -> Traced {
        match &self.tracer {
            _ if self.submission.traced => Traced::All,
            Some(tracer) => tracer.traced,
            None => Traced::None,
        }
    }
}

impl<P: Plant> Controller<P> {
    /// Somebody traces ranks of a job from now on, or one that waits when it runs.
    pub(super) fn trace(&mut self, id: JobId, rank: Option<Rank>, answer: Answer<mpsc::UnboundedReceiver<Piece>>) {
        match self.begin_tracing(id, rank) {
            Ok(pieces) => {
                if answer.send(Ok(pieces)).is_err() {
                    self.end_tracing(id);
                }
            }
            Err(refused) => reply(answer, Err(refused)),
        }
    }

    fn begin_tracing(&mut self, id: JobId, rank: Option<Rank>) -> Result<mpsc::UnboundedReceiver<Piece>, Refused> {
        let Some(job) = self.jobs.get_mut(&id) else { return Err(self.none_to_work_on(id)) };
        if job.submission.traced || job.tracer.is_some() {
            return Err(Refused::conflict(&format!("somebody traces job {id} already")));
        }
        if let Some(rank) = rank.filter(|rank| rank.0 >= job.submission.ranks) {
            let ranks = job.submission.ranks;
            return Err(Refused::missing(format!("job {id} has no rank {rank}; it has {ranks}, counted from 0")));
        }
        let mut feed = Feed::default();
        let pieces = feed.attach().ok_or_else(|| Refused::conflict("nobody can take what there is to say"))?;
        let traced = rank.map_or(Traced::All, Traced::Rank);
        job.tracer = Some(Tracer { feed, traced });
        self.tell_traced(id, traced);
        Ok(pieces)
    }

    /// The tracer took so much.
    pub(super) fn trace_taken(&mut self, id: JobId, pset: PsetId, bytes: usize) {
        let Some(tracer) = self.jobs.get_mut(&id).and_then(|job| job.tracer.as_mut()) else { return };
        tracer.feed.taken(pset, bytes);
        self.tell_taken(pset, id, bytes);
    }

    /// Nobody traces the job any more. What was under way counts as taken.
    pub(super) fn end_tracing(&mut self, id: JobId) {
        let Some(tracer) = self.jobs.get_mut(&id).and_then(|job| job.tracer.take()) else { return };
        self.tell_traced(id, Traced::None);
        for (pset, bytes) in tracer.feed.under_way() {
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
