//! Jobs whose root and program are being opened. Either may lie on a mount that does not answer, so the I/O node goes
//! on meanwhile: what comes for such a job waits until it is there, and a job that is killed is given up.
//!
//! Each job is opened on a thread of its own, which then starts those that work on the job's files ([`crate::wall`]).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use coppice_protocol::ids::{JobId, NodeId};
use coppice_protocol::pset::{FromPset, Member, StartJob, ToPset};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::descriptors::{Descriptors, JobDescriptors};
use crate::files::Root;
use crate::jobs::{Job, OpenedJob, Place};
use crate::limits::{JOBS_MAX, OPEN_TIME_MAX, OPENINGS_MAX};
use crate::program::Program;
use crate::server::Server;

/// What a job has, or why it cannot be had.
type Opened = Result<OpenedJob, String>;

/// A job to be opened.
#[derive(Debug)]
struct Order {
    spec: StartJob,
    permit: OwnedSemaphorePermit,
    descriptors: JobDescriptors,
    place: Place,
    opened: oneshot::Sender<Opened>,
}

/// A thread that starts the jobs' threads. They could open nothing if the event loop started them.
#[derive(Debug)]
pub(crate) struct Opener {
    orders: Sender<Order>,
}

impl Opener {
    /// Starts it.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        // At most OPENINGS_MAX wait in it: each has a permit.
        let (sender, orders) = channel();
        Builder::new().name("opener".to_owned()).spawn(move || orders.into_iter().for_each(start_thread))?;
        Ok(Self { orders: sender })
    }
}

/// The jobs that are being opened.
#[derive(Debug)]
pub(crate) struct Openings {
    opener: Opener,
    jobs: RefCell<HashMap<JobId, Opening>>,
    /// A permit for each thread that opens something, kept as long as that does, also for a job that was given up.
    threads: Arc<Semaphore>,
    /// A permit for each place that a job can have.
    places: Arc<Semaphore>,
    /// The files that jobs may have open.
    descriptors: Arc<Descriptors>,
}

/// One of them.
#[derive(Debug)]
struct Opening {
    members: Vec<Member>,
    /// What came for it, in order. Input is bounded by its window.
    later: Vec<ToPset>,
}

impl Openings {
    /// None yet.
    pub(crate) fn new(opener: Opener, descriptors: Arc<Descriptors>) -> Self {
        let [threads, places] = [OPENINGS_MAX, JOBS_MAX].map(|count| Arc::new(Semaphore::new(count)));
        Self { opener, jobs: RefCell::default(), threads, places, descriptors }
    }

    fn has(&self, job: JobId) -> bool {
        self.jobs.borrow().contains_key(&job)
    }

    fn take(&self, job: JobId) -> Option<Opening> {
        self.jobs.borrow_mut().remove(&job)
    }
}

impl Server {
    /// Starts a job: opens its root and program, and launches its ranks when that is done.
    pub(crate) async fn start(self: &Rc<Self>, spec: StartJob) {
        let id = spec.job;
        if self.jobs.borrow().get(id).is_some() || self.openings.has(id) {
            tracing::error!(job = %id, "job was started twice");
            return;
        }
        let Ok(place) = Arc::clone(&self.openings.places).try_acquire_owned() else {
            let reason = format!(
                "the pset has {JOBS_MAX} jobs, those counted that have ended and whose files are on mounts that do not \
                 answer"
            );
            return self.refuse_all(id, spec.members, &reason).await;
        };
        let Ok(permit) = Arc::clone(&self.openings.threads).try_acquire_owned() else {
            let reason = format!("{OPENINGS_MAX} jobs of the pset wait for root directories that do not answer");
            return self.refuse_all(id, spec.members, &reason).await;
        };
        let descriptors = match self.openings.descriptors.for_job(spec.members.len()) {
            Ok(descriptors) => descriptors,
            Err(reason) => return self.refuse_all(id, spec.members, &reason).await,
        };
        let opening = Opening { members: spec.members.clone(), later: Vec::new() };
        self.openings.jobs.borrow_mut().insert(id, opening);
        let (sender, opened) = oneshot::channel();
        // An order that nobody takes is dropped, which is heard below.
        let order = Order { spec: spec.clone(), permit, descriptors, place: Place::new(place), opened: sender };
        drop(self.openings.opener.orders.send(order));
        let server = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let opened = match tokio::time::timeout(OPEN_TIME_MAX, opened).await {
                Ok(Ok(opened)) => opened,
                Ok(Err(_)) => Err("cannot start a thread that opens its root".to_owned()),
                Err(_) => Err(format!("root {} has not answered for {} s", spec.root, OPEN_TIME_MAX.as_secs())),
            };
            server.opened(spec, opened).await;
        });
    }

    /// A job's root and program are open, or cannot be opened.
    async fn opened(&self, spec: StartJob, opened: Opened) {
        // A job that was given up is none any more.
        let Some(Opening { members, later }) = self.openings.take(spec.job) else { return };
        let job = match opened {
            Ok(opened) => Rc::new(Job::new(spec, opened)),
            Err(reason) => return self.refuse_all(spec.job, members, &reason).await,
        };
        self.jobs.borrow_mut().insert(Rc::clone(&job));
        // Before anything else can come for it.
        later.into_iter().for_each(|command| self.execute_for_job(command));
        self.launch_all(&job).await;
    }

    /// Takes a command for a job that is being opened; gives any other back.
    pub(crate) async fn keep_for_later(&self, command: ToPset) -> Option<ToPset> {
        let job = match command {
            ToPset::Kill { job }
            | ToPset::Forget { job }
            | ToPset::Signal { job, .. }
            | ToPset::Input { job, .. }
            | ToPset::OutputTaken { job, .. } => job,
            other => return Some(other),
        };
        if !self.openings.has(job) {
            return Some(command);
        }
        match command {
            ToPset::Kill { .. } => {
                if let Some(given_up) = self.openings.take(job) {
                    self.refuse_all(job, given_up.members, "it was ended before its root was open").await;
                }
            }
            ToPset::Forget { .. } => drop(self.openings.take(job)),
            command => {
                if let Some(opening) = self.openings.jobs.borrow_mut().get_mut(&job) {
                    opening.later.push(command);
                }
            }
        }
        None
    }

    async fn refuse_all(&self, job: JobId, members: Vec<Member>, reason: &str) {
        for Member { rank, .. } in members {
            self.outbox.send(FromPset::Refused { job, rank, reason: reason.to_owned() }).await;
        }
    }
}

/// Starts a job's thread. Without one, the order's end is heard.
fn start_thread(order: Order) {
    let started = Builder::new().name(format!("job {}", order.spec.job)).spawn(move || work_for_job(order));
    if let Err(error) = started {
        tracing::warn!(%error, "cannot start a thread for a job");
    }
}

/// A job's first thread: opens its root and program, and then starts the threads of its nodes, in the root alone.
fn work_for_job(Order { spec, permit, descriptors, place, opened }: Order) {
    let (result, duty) = match open(&spec) {
        Ok((root, program)) => {
            let (root, duty) = root.guard(Some(place.clone()));
            let nodes: BTreeSet<NodeId> = spec.members.iter().map(|member| member.node).collect();
            let thread = |node: NodeId| {
                let name = format!("job {} node {node}", spec.job);
                Some((node, root.porter()?.another(name, Some(place.clone()))))
            };
            let porters = nodes.into_iter().filter_map(thread).collect();
            (Ok(OpenedJob { root, program, descriptors, porters, place }), Some(duty))
        }
        Err(reason) => (Err(reason), None),
    };
    drop(permit);
    // Nobody waits for a job that was given up: its root goes, and with it what there is to do.
    drop(opened.send(result));
    if let Some(duty) = duty {
        duty.serve();
    }
}

/// Opens a job's root and program.
fn open(spec: &StartJob) -> Result<(Root, Program), String> {
    let StartJob { root, program_file: file, .. } = spec;
    let opened =
        Root::open(OsStr::from_bytes(root)).map_err(|error| format!("cannot use {root} as root directory: {error}"))?;
    let program = Program::open(file, spec.program, spec.program_bytes)
        .map_err(|error| format!("cannot read program {file}: {error}"))?;
    Ok((opened, program))
}
