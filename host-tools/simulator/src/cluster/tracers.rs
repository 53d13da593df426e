//! Users who trace jobs: they take what ranks do, some of them late, and leave when they like. What they get must be
//! records, whatever breaks on the way, and nobody's job may wait for one that left.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_protocol::ids::{JobId, PsetId, Rank};
use coppice_protocol::trace::Reader;
use coppice_service_node::controller::{Event as HostEvent, Request};
use coppice_service_node::feed::Piece;
use tokio::sync::mpsc::error::TryRecvError;

use super::listener::Listener;
use super::queue::{Event, SECOND_NS};
use super::users::User;
use super::world::World;

/// How often what a user does is to trace a job, and how often he leaves one that he traces.
const TRACES_PER_MILLE: u64 = 40;
const LEAVES_PER_MILLE: u64 = 100;

/// How long one that is slow takes for a piece, ns.
const SLOW_NS: u64 = 5 * SECOND_NS;

/// One of them, by his number.
#[derive(Debug, Default)]
pub(super) struct Tracers {
    begun: u64,
    tracers: BTreeMap<u64, Tracer>,
}

#[derive(Debug)]
struct Tracer {
    job: JobId,
    listener: Arc<Listener>,
    ranks: BTreeMap<Rank, Reader>,
    /// What came and was not taken, bytes.
    under_way: BTreeMap<PsetId, usize>,
}

impl Tracers {
    /// A service node that dies tells nobody anything.
    pub(super) fn forget(&mut self) {
        self.tracers.clear();
    }
}

impl World {
    /// Somebody may trace a job of somebody's, or leave.
    pub(super) fn trace_any(&mut self) {
        if self.random.chance(LEAVES_PER_MILLE)
            && let Some(number) = self.tracers.tracers.keys().next().copied()
        {
            self.stop_tracing(number);
        }
        if !self.random.chance(TRACES_PER_MILLE) {
            return;
        }
        let jobs: Vec<JobId> = self.users.iter().filter_map(User::job).collect();
        let Some(last) = (jobs.len() as u64).checked_sub(1) else { return };
        let Some(job) = jobs.get(self.random.between(0, last) as usize).copied() else { return };
        let rank = self.random.chance(300).then_some(Rank(0));
        if let Some(Ok(receiver)) = self.host.ask(|answer| Request::Trace(job, rank, answer), self.now_ns) {
            self.note("job traced", format_args!("{job}, rank {rank:?}"));
            let listener = Arc::new(Listener::new(receiver));
            self.host.disk.overhear(&listener);
            let tracer = Tracer { job, listener, ranks: BTreeMap::new(), under_way: BTreeMap::new() };
            self.tracers.begun += 1;
            self.tracers.tracers.insert(self.tracers.begun, tracer);
        }
        self.settle_host();
    }

    /// They see what there is for them.
    pub(super) fn look_at_tracers(&mut self) {
        let numbers: Vec<u64> = self.tracers.tracers.keys().copied().collect();
        for number in numbers {
            while let Some(tracer) = self.tracers.tracers.get_mut(&number) {
                let job = tracer.job;
                match tracer.listener.hear() {
                    Ok(Piece::Output { pset, rank, bytes, .. }) => {
                        let records = tracer.ranks.entry(rank).or_default().read(&bytes);
                        *tracer.under_way.entry(pset).or_default() += bytes.len();
                        match records {
                            Ok(records) => self.trace.count("records of traced ranks", records.len() as u64),
                            Err(error) => self.violate(format!("job {job}, rank {rank}: {error}")),
                        }
                        self.checkers.limits.sent(job, pset, bytes.len());
                        let in_ns = self.random.delay(if number.is_multiple_of(2) { SLOW_NS } else { SECOND_NS / 50 });
                        self.plan(in_ns, Event::TraceTaken(number, pset, bytes.len()));
                    }
                    Ok(_) => {}
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => drop(self.tracers.tracers.remove(&number)),
                }
            }
        }
    }

    /// One has taken something, if he is still there.
    pub(super) fn trace_taken(&mut self, number: u64, pset: PsetId, bytes: usize) {
        let Some(tracer) = self.tracers.tracers.get_mut(&number) else { return };
        if let Some(under_way) = tracer.under_way.get_mut(&pset) {
            *under_way = under_way.saturating_sub(bytes);
        }
        let job = tracer.job;
        self.checkers.limits.taken(job, pset, bytes);
        self.host.handle(HostEvent::Request(Request::TraceTaken(job, pset, bytes)), self.now_ns);
        self.settle_host();
    }

    /// One leaves; what was on its way to him counts as taken.
    fn stop_tracing(&mut self, number: u64) {
        let Some(tracer) = self.tracers.tracers.remove(&number) else { return };
        for (pset, bytes) in tracer.under_way {
            self.checkers.limits.taken(tracer.job, pset, bytes);
        }
        self.note("tracer left", format_args!("{}", tracer.job));
        self.host.handle(HostEvent::Request(Request::EndTrace(tracer.job)), self.now_ns);
        self.settle_host();
    }
}
