//! What users of the cluster ask.

use std::path::PathBuf;
use std::sync::Arc;

use coppice_api::cluster::{ClusterState, ClusterView};
use coppice_api::job::{JobDetail, JobView, Submission};
use coppice_api::keep::{KeepOrder, KeepReport};
use coppice_api::link::{LinkOrder, LinksQuery, LinksView};
use coppice_api::node::NodeView;
use coppice_api::overlay::{OverlayOrder, OverlayView};
use coppice_api::program::ProgramView;
use coppice_api::ras::{RasQuery, RasView};
use coppice_api::retain::{ForgetOrder, Forgotten};
use coppice_api::signal::SIGNAL_MAX;
use coppice_api::stream::StagingProgress;
use coppice_protocol::ids::{JobId, NodeId, ProgramId, PsetId, Rank};
use coppice_protocol::inspect::{self, Query};
use coppice_protocol::pset::{Pulled, ToPset};
use coppice_protocol::region::SlotKey;
use coppice_protocol::spawn::Spawn;
use tokio::sync::{Semaphore, oneshot, watch};

use super::{Controller, KeptLog, Now, Objects, Place, Recorded, Restart, Sampled, SpawnRequest, Submitted};
use crate::database::{DatabaseError, FileKey};
use crate::feed::{Pieces, Taker};
use crate::limits::READERS_PER_JOB_MAX;
use crate::metrics::Seen;
use crate::plant::Plant;
use crate::store::Held;

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status that fits.
    pub status: u16,
    /// One line for people.
    pub message: String,
}

impl Refused {
    /// What was asked makes no sense.
    #[must_use]
    pub fn bad(message: String) -> Self {
        Self { status: 400, message }
    }

    /// There is no such thing.
    #[must_use]
    pub fn missing(message: String) -> Self {
        Self { status: 404, message }
    }

    /// It cannot be done as long as the records cannot be written.
    #[must_use]
    pub fn unavailable(why: &str) -> Self {
        Self { status: 503, message: format!("{why}; jobs that run go on, and new ones are taken when that is mended") }
    }

    /// Too much is under way.
    #[must_use]
    pub fn busy(message: &str) -> Self {
        Self { status: 503, message: message.to_owned() }
    }

    /// It cannot be done now.
    #[must_use]
    pub fn conflict(message: &str) -> Self {
        Self { status: 409, message: message.to_owned() }
    }
}

impl From<DatabaseError> for Refused {
    fn from(error: DatabaseError) -> Self {
        if error.may_pass() {
            return Self::unavailable(&format!("the cluster's records cannot be used: {error}"));
        }
        Self { status: 500, message: error.to_string() }
    }
}

/// Where an answer goes. If nobody waits for it any more it is dropped.
pub type Answer<T> = oneshot::Sender<Result<T, Refused>>;

/// Something asked of the controller.
#[derive(Debug)]
pub enum Request {
    /// The cluster's view, now and whenever it changes.
    Watch(Answer<watch::Receiver<ClusterView>>),
    /// End everything.
    Down,
    /// What there is now, for metrics.
    Metrics(Answer<Box<Seen>>),
    /// The nodes.
    Nodes(Answer<Vec<NodeView>>),
    /// Boot a node anew.
    Reboot(NodeId, Answer<()>),
    /// Links, and what passed on them.
    Links(LinksQuery, Answer<LinksView>),
    /// Change links.
    ChangeLinks(LinkOrder, Answer<LinksView>),
    /// The newest jobs, or the newest of those before one.
    Jobs(u32, Option<JobId>, Answer<Vec<JobView>>),
    /// One job.
    Job(JobId, Answer<JobDetail>),
    /// RAS events.
    Ras(RasQuery, Answer<Vec<RasView>>),
    /// Programs.
    Programs(Answer<Vec<ProgramView>>),
    /// The program that an unchanged file is known to hold.
    KnownProgram(FileKey, Answer<Option<Held>>),
    /// The stored copy of the program in this file was not what it should be, and is removed.
    ProgramAltered(Held, PathBuf),
    /// Take a job with its program, the file that is in, and the files that it has staged.
    Submit(Box<Submission>, Held, FileKey, Vec<Held>, Answer<JobId>),
    /// Take a job that goes on from a checkpoint.
    Restart(Box<Restart>, Answer<JobId>),
    /// Take a job that a rank wants.
    Spawn(Box<SpawnRequest>, Answer<JobId>),
    /// Nothing comes of what a rank wants, for this reason.
    NotSpawned(Box<Spawn>, String),
    /// What a job that is under way was submitted with.
    Submitted(JobId, Answer<Submitted>),
    /// The stored copy of a program, if there is one.
    Stored(ProgramId, Answer<Option<Held>>),
    /// Take a job's stream as whoever runs it, once.
    Attach(JobId, Answer<Pieces>),
    /// Take what comes of a job's stream from now on, too.
    Join(JobId, Answer<(Taker, Pieces)>),
    /// Whoever had a job's stream is gone.
    Left(JobId, Taker),
    /// Whoever has a job's stream took that many bytes of output of an I/O node.
    Taken(JobId, Taker, PsetId, usize),
    /// What is kept of a job's output.
    Log(JobId, Answer<KeptLog>),
    /// Wait until a job has ended.
    Wait(JobId, Answer<JobView>),
    /// Trace a rank of a job, or all, from now on, if nobody does.
    Trace(JobId, Option<Rank>, Answer<Pieces>),
    /// Ask something about a rank.
    Inspect(JobId, Rank, Query, Answer<inspect::Answer>),
    /// One rank of a job for each of its nodes.
    NodesOf(JobId, Answer<Vec<Place>>),
    /// The same when all of its ranks run.
    Running(JobId, Answer<Vec<Place>>),
    /// Pull what a node's region has of a checkpoint into the storage, and say how far that is.
    Pull(NodeId, SlotKey, watch::Sender<Objects>, Answer<Pulled>),
    /// Wipe what a node's region has, of a job or of all, but for this.
    Wipe(NodeId, Option<JobId>, Option<SlotKey>, Answer<()>),
    /// The tracer of a job took that many bytes that came from an I/O node.
    TraceTaken(JobId, PsetId, usize),
    /// The tracer of a job is gone.
    EndTrace(JobId),
    /// Open a job's standard input, once: a semaphore with a permit per byte that may be sent.
    OpenInput(JobId, Answer<Arc<Semaphore>>),
    /// Standard input; empty: its end.
    Input(JobId, Vec<u8>),
    /// Have nodes give retained pages and kept files back, and wait for them.
    Forget(ForgetOrder, Answer<Forgotten>),
    /// Have nodes keep a file, say how far it is, and wait for them. The number is whoever's gives the order, and no
    /// other's.
    Keep(u64, KeepOrder, Held, watch::Sender<StagingProgress>, Answer<KeepReport>),
    /// Nobody waits for that order any more.
    EndKeep(u64),
    /// Begin or end a job's overlay.
    Overlay(JobId, OverlayOrder, Answer<OverlayView>),
    /// How a job's overlay is.
    ShowOverlay(JobId, Answer<OverlayView>),
    /// Where it is recorded what the overlay of a job has gathered that there is or was, and when it is.
    Profiles(JobId, Answer<Recorded>),
    /// What there is of a job whose ranks are or were sampled.
    Sampled(JobId, Answer<Box<Sampled>>),
    /// Send a job a signal; `SIGKILL` ends it.
    Kill(JobId, u8, Answer<()>),
}

impl<P: Plant> Controller<P> {
    pub(super) fn request(&mut self, request: Request, now: Now) {
        match request {
            Request::Watch(answer) => reply(answer, Ok(self.view.subscribe())),
            Request::Down => self.shut_down(now),
            Request::Metrics(answer) => reply(answer, Ok(Box::new(self.seen(now)))),
            Request::Nodes(answer) => {
                let views = self.nodes.iter().map(|node| node.view(&self.config)).collect();
                reply(answer, Ok(views));
            }
            Request::Reboot(node, answer) => {
                let result = self.check_node(node);
                if result.is_ok() {
                    self.reboot_node(node, now);
                }
                reply(answer, result);
            }
            Request::Links(query, answer) => self.show_links(query, answer, now),
            Request::ChangeLinks(order, answer) => self.change_links(order, answer, now),
            Request::Jobs(limit, before, answer) => {
                reply(answer, self.records.jobs(limit, before).map_err(Refused::from));
            }
            Request::Job(job, answer) => {
                let found = self.records.job(job).map_err(Refused::from);
                reply(answer, found.and_then(|found| found.ok_or_else(|| no_job(job))));
            }
            Request::Ras(query, answer) => reply(answer, self.records.storage().ras(&query).map_err(Refused::from)),
            Request::Programs(answer) => reply(answer, self.programs().map_err(Refused::from)),
            Request::Forget(order, answer) => self.forget(&order, answer, now),
            Request::Keep(request, order, file, progress, answer) => {
                self.keep(request, &order, file, (progress, answer), now);
            }
            Request::EndKeep(request) => self.end_keep(request),
            Request::KnownProgram(file, answer) => {
                let known = self.records.storage().known_program(file).map_err(Refused::from);
                reply(answer, known.map(|known| known.map(|program| self.store.hold(program))));
            }
            Request::ProgramAltered(program, path) => self.program_altered(program.id, &path, now),
            Request::Submit(job, program, file, staged, answer) => {
                let recordable = self.records.check().map_err(|why| Refused::unavailable(&why));
                let kept = recordable.and_then(|()| self.keep_program(&program, file, &job, now));
                let result = kept.and_then(|()| self.submit(*job, program, staged, now));
                reply(answer, result);
            }
            Request::Spawn(request, answer) => self.spawn(request, answer, now),
            Request::NotSpawned(spawn, reason) => self.not_spawned(&spawn, reason),
            Request::Restart(restart, answer) => reply(answer, self.restart(*restart, now)),
            Request::Submitted(job, answer) => reply(answer, self.submitted(job)),
            Request::Stored(program, answer) => reply(answer, self.stored(program)),
            Request::Attach(job, answer) => self.attach(job, answer, now),
            Request::Join(job, answer) => self.join(job, answer, now),
            Request::Left(job, taker) => self.taker_left(job, taker, now),
            Request::Taken(job, taker, pset, bytes) => self.output_taken(job, taker, pset, bytes),
            Request::Log(job, answer) => reply(answer, self.kept_log(job)),
            Request::Wait(job, answer) => self.wait(job, answer),
            Request::Trace(job, rank, answer) => self.trace(job, rank, answer),
            Request::Inspect(job, rank, query, answer) => self.inspect(job, rank, query, answer, now),
            Request::NodesOf(job, answer) => reply(answer, self.one_rank_of_each_node(job)),
            Request::Running(job, answer) => self.when_running(job, answer),
            Request::Pull(node, from, progress, answer) => self.pull((node, from), progress, answer, now),
            Request::Wipe(node, job, but, answer) => self.wipe(node, (job, but), answer, now),
            Request::TraceTaken(job, pset, bytes) => self.trace_taken(job, pset, bytes),
            Request::EndTrace(job) => self.end_tracing(job),
            Request::OpenInput(job, answer) => reply(answer, self.open_input(job)),
            Request::Input(job, bytes) => self.input(job, bytes),
            Request::Overlay(job, order, answer) => self.order_overlay(job, order, answer, now),
            Request::ShowOverlay(job, answer) => reply(answer, self.overlay_view(job)),
            Request::Profiles(job, answer) => reply(answer, self.profiles_of(job)),
            Request::Sampled(job, answer) => reply(answer, self.sampled(job).map(Box::new)),
            Request::Kill(job, signal, answer) => reply(answer, self.kill_on_request(job, signal, now)),
        }
    }

    fn check_node(&self, node: NodeId) -> Result<(), Refused> {
        if self.state == ClusterState::Stopping {
            return Err(Refused::conflict("the cluster is going down"));
        }
        match self.nodes.get(node) {
            Some(_) => Ok(()),
            None => Err(Refused::missing(format!(
                "there is no node {node}; the cluster has {} nodes, counted from 0",
                self.nodes.len()
            ))),
        }
    }

    fn attach(&mut self, id: JobId, answer: Answer<Pieces>, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else {
            let feed = self.unclaimed.take(id).and_then(|mut feed| feed.attach());
            return reply(answer, feed.ok_or_else(|| no_job(id)));
        };
        let Some(feed) = job.feed.attach() else {
            let refused = match job.submission.detached {
                true => format!("job {id} is detached and nobody's; see `coppice attach {id}`"),
                false => format!("somebody has the output of job {id} already"),
            };
            return reply(answer, Err(Refused::conflict(&refused)));
        };
        job.attached();
        if answer.send(Ok(feed)).is_err() {
            self.taker_left(id, Taker::Owner, now);
        }
    }

    fn join(&mut self, id: JobId, answer: Answer<(Taker, Pieces)>, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else { return reply(answer, Err(self.why_not_under_way(id))) };
        let Some((taker, pieces)) = job.feed.join() else {
            let refused = format!("{READERS_PER_JOB_MAX} are attached to job {id} already; see `coppice logs -f {id}`");
            return reply(answer, Err(Refused::conflict(&refused)));
        };
        if answer.send(Ok((taker, pieces))).is_err() {
            self.taker_left(id, taker, now);
        }
    }

    fn wait(&mut self, id: JobId, answer: Answer<JobView>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            return job.wait(answer);
        }
        let found = self.records.job_alone(id).map_err(Refused::from);
        reply(answer, found.and_then(|found| found.ok_or_else(|| no_job(id))));
    }

    /// Why nothing can be done to a job that is not under way.
    pub(super) fn why_not_under_way(&self, id: JobId) -> Refused {
        match self.records.job_alone(id) {
            Ok(Some(_)) => Refused::conflict(&format!("job {id} has ended already")),
            Ok(None) => no_job(id),
            Err(error) => error.into(),
        }
    }

    fn open_input(&mut self, id: JobId) -> Result<Arc<Semaphore>, Refused> {
        let job = self.jobs.get_mut(&id).ok_or_else(|| no_job(id))?;
        if job.submission.input_rank.is_none() {
            return Err(Refused::conflict(&format!("job {id} has no rank that reads standard input")));
        }
        if std::mem::replace(&mut job.input_opened, true) {
            return Err(Refused::conflict(&format!("somebody sends the input of job {id} already")));
        }
        Ok(Arc::clone(&job.input))
    }

    fn input(&mut self, id: JobId, bytes: Vec<u8>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.input_under_way += bytes.len();
        if job.is_waiting() {
            // Kept until there is an I/O node to send it to; at most the window's size.
            return job.early_input.push(bytes);
        }
        let rank = job.submission.input_rank.map(Rank);
        if let Some(pset) = rank.and_then(|rank| job.ranks.get(rank)).map(|state| state.pset) {
            self.plant.tell(pset, &ToPset::Input { job: id, bytes });
        }
    }

    fn kill_on_request(&mut self, id: JobId, signal: u8, now: Now) -> Result<(), Refused> {
        if !(1..=SIGNAL_MAX).contains(&signal) {
            return Err(Refused::bad(format!("{signal} is not a signal; use 1 to {SIGNAL_MAX}")));
        }
        if !self.jobs.contains_key(&id) {
            return Err(self.why_not_under_way(id));
        }
        self.signal_job(id, signal, now)
    }
}

pub(super) fn reply<T>(answer: Answer<T>, result: Result<T, Refused>) {
    // Whoever asked may be gone; then nobody wants the answer.
    let _ = answer.send(result);
}

pub(super) fn no_job(job: JobId) -> Refused {
    Refused::missing(format!("there is no job {job}; see `coppice jobs`"))
}
