//! The jobs on this pset, with their roots, programs, streams and ranks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use coppice_protocol::control::{Launch, Signal};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::pset::{Member, StartJob};
use coppice_protocol::retain::Retained;
use coppice_protocol::ship::Owner;
use coppice_protocol::text::ByteString;
use rustix::io::Errno;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::descriptors::JobDescriptors;
use crate::files::{Files, Porter, Result, Root};
use crate::input::Input;
use crate::limits::{BLOCKING_THREADS_PER_JOB_MAX, BLOCKING_THREADS_PER_RANK_MAX, CLOSE_TIME_MAX, SIGNALS_KEPT_MAX};
use crate::output::Output;
use crate::program::Program;

/// A job, from its start until the service node has heard of all its ranks.
#[derive(Debug)]
pub(crate) struct Job {
    spec: StartJob,
    program: Program,
    /// Its place among all jobs.
    pub place: Place,
    /// The ranks on this pset.
    ranks: BTreeMap<Rank, Rc<RankState>>,
    /// Its output.
    pub output: RefCell<Output>,
    /// Its input.
    pub input: RefCell<Input>,
    /// A permit for each thread that may wait for its disk.
    pub disk: Arc<Semaphore>,
    /// It was killed.
    pub killed: Cell<bool>,
    signals: RefCell<Signals>,
    /// Barriers that ranks were said to wait in or have left.
    waited: Cell<u64>,
}

/// A job's place among all jobs, which others can have when the job and all its threads are gone.
#[derive(Clone, Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "it is held")] Arc<OwnedSemaphorePermit>);

impl Place {
    /// The place that this permit stands for.
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(permit))
    }
}

/// What a job has when it has been opened.
#[derive(Debug)]
pub(crate) struct OpenedJob {
    /// Its root.
    pub root: Root,
    /// Its program.
    pub program: Program,
    /// The files that it may have open.
    pub descriptors: JobDescriptors,
    /// The threads of its nodes.
    pub porters: BTreeMap<NodeId, Porter>,
    /// Its place.
    pub place: Place,
}

/// The signals that a job was sent.
#[derive(Debug, Default)]
struct Signals {
    /// How many there were.
    count: u32,
    /// The last of them.
    kept: VecDeque<Signal>,
}

/// A rank of a job on this pset.
#[derive(Debug)]
pub(crate) struct RankState {
    owner: Owner,
    node: NodeId,
    use_retained: bool,
    /// Root and open files; freed at the rank's end.
    files: RefCell<Option<Arc<Files>>>,
    /// The thread of its node, which does what may wait for the root's file system.
    porter: Porter,
    /// A permit for each thread that may wait for the disk for it.
    pub disk: Arc<Semaphore>,
    launched: Cell<bool>,
    /// Told when it has ended.
    ended: Notify,
}

impl RankState {
    /// Whose it is.
    #[must_use]
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Where it runs.
    #[must_use]
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Whether its node is believed to hold the program's page table.
    #[must_use]
    pub(crate) fn uses_retained(&self) -> bool {
        self.use_retained
    }

    /// Calls `f` with the rank's files; `None` once it has ended. `f` only looks into tables.
    pub(crate) fn with_files<R>(&self, f: impl FnOnce(&Files) -> R) -> Option<R> {
        self.files.borrow().as_deref().map(f)
    }

    /// Calls `f` with the rank's files where it may wait for them; `ESRCH` once it has ended.
    pub(crate) async fn on_its_thread<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Files) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let files = self.files.borrow().clone().ok_or(Errno::SRCH)?;
        self.unless_ended(self.porter.ask(move || f(&files))).await
    }

    /// What `call` gives; `EIO` as soon as the rank has ended, whom nothing is owed any more. What is done on a thread
    /// goes on there, but keeps none of its node's places: a mount that never answers is not to keep the node from
    /// others.
    pub(crate) async fn unless_ended<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = self.ended.notified();
        if self.has_ended() {
            return Err(Errno::IO);
        }
        tokio::select! {
            result = call => result,
            () = ended => Err(Errno::IO),
        }
    }

    /// The rank has ended, or never was: frees its files. False if it had ended before.
    pub(crate) fn end(&self) -> bool {
        let files = self.files.take();
        let ends = files.is_some();
        // Closing them may wait, too.
        self.porter.leave(move || drop(files));
        self.ended.notify_waiters();
        ends
    }

    /// Waits until the files of a rank that has ended are closed, so that whoever hears of its end finds their room
    /// free; not for long, as a mount may not answer.
    pub(crate) async fn closed(&self) {
        let _late = tokio::time::timeout(CLOSE_TIME_MAX, self.porter.ask(|| Ok(()))).await;
    }

    /// Has it ended?
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        self.files.borrow().is_none()
    }

    /// Its process exists. False if that was known.
    pub(crate) fn set_launched(&self) -> bool {
        !self.launched.replace(true)
    }
}

impl Job {
    /// A job of which nothing has been launched yet.
    #[must_use]
    pub(crate) fn new(spec: StartJob, opened: OpenedJob) -> Self {
        let OpenedJob { root, program, descriptors, porters, place } = opened;
        let (root, descriptors) = (Arc::new(root), Arc::new(descriptors));
        let ranks = spec.members.iter().filter_map(|&Member { rank, node, use_retained }| {
            let state = RankState {
                owner: Owner { job: spec.job, rank },
                node,
                use_retained,
                files: RefCell::new(Some(Arc::new(Files::new(Arc::clone(&root), Arc::clone(&descriptors))))),
                porter: porters.get(&node)?.clone(),
                disk: Arc::new(Semaphore::new(BLOCKING_THREADS_PER_RANK_MAX)),
                launched: Cell::new(false),
                ended: Notify::new(),
            };
            Some((rank, Rc::new(state)))
        });
        Self {
            ranks: ranks.collect(),
            spec,
            program,
            place,
            output: RefCell::default(),
            input: RefCell::default(),
            disk: Arc::new(Semaphore::new(BLOCKING_THREADS_PER_JOB_MAX)),
            killed: Cell::new(false),
            signals: RefCell::default(),
            waited: Cell::new(0),
        }
    }

    /// Its number.
    #[must_use]
    pub(crate) fn id(&self) -> JobId {
        self.spec.job
    }

    /// The program's pages.
    #[must_use]
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// The rank that reads the job's standard input, if it is on this pset.
    #[must_use]
    pub(crate) fn input_rank(&self) -> Option<&Rc<RankState>> {
        self.spec.input_rank.and_then(|rank| self.rank(rank))
    }

    /// Does that rank read the job's standard input?
    #[must_use]
    pub(crate) fn reads_input(&self, rank: Rank) -> bool {
        self.spec.input_rank == Some(rank)
    }

    /// The ranks on this pset.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = &Rc<RankState>> {
        self.ranks.values()
    }

    /// The nodes of those that have not ended.
    #[must_use]
    pub(crate) fn live_nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.ranks().filter(|rank| !rank.has_ended()).map(|rank| rank.node()).collect();
        nodes.dedup();
        nodes
    }

    /// One of them.
    #[must_use]
    pub(crate) fn rank(&self, rank: Rank) -> Option<&Rc<RankState>> {
        self.ranks.get(&rank)
    }

    /// Whether it was not said before that ranks wait in this barrier or a later one.
    pub(crate) fn is_new_wait(&self, barrier: u64) -> bool {
        let is_new = barrier >= self.waited.get();
        self.waited.set(self.waited.get().max(barrier.saturating_add(1)));
        is_new
    }

    /// Numbers a signal that it is sent. At [`SIGNALS_KEPT_MAX`] the oldest is forgotten.
    pub(crate) fn add_signal(&self, signal: u8) -> Signal {
        let mut signals = self.signals.borrow_mut();
        signals.count = signals.count.saturating_add(1);
        let signal = Signal { job: self.id(), sequence: signals.count, signal };
        if signals.kept.len() >= SIGNALS_KEPT_MAX {
            signals.kept.pop_front();
        }
        signals.kept.push_back(signal);
        signal
    }

    /// The signals that it was sent, as far as they are remembered.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        self.signals.borrow().kept.iter().copied().collect()
    }

    /// The program's hash.
    #[must_use]
    pub(crate) fn program_id(&self) -> ProgramId {
        self.spec.program
    }

    /// What a rank's node needs to launch it.
    #[must_use]
    pub(crate) fn launch(&self, rank: &RankState) -> Launch {
        let spec = &self.spec;
        let number = rank.owner().rank;
        Launch {
            job: spec.job,
            rank: number,
            size: spec.size,
            program: spec.program,
            program_bytes: spec.program_bytes,
            path: spec.path.clone(),
            arguments: spec.arguments.clone(),
            environment: self.environment(number),
            directory: spec.directory.clone(),
            user: spec.user,
            group: spec.group,
            umask: spec.umask,
            use_retained: rank.uses_retained(),
            world: spec.world.clone(),
        }
    }
}

impl Job {
    /// The job's environment, and who this rank is. What the user set wins.
    fn environment(&self, rank: Rank) -> Vec<ByteString> {
        let spec = &self.spec;
        let own = [
            ("COPPICE_JOB", spec.job.to_string()),
            ("COPPICE_RANK", rank.to_string()),
            ("COPPICE_SIZE", spec.size.to_string()),
        ];
        let mut environment = spec.environment.clone();
        for (name, value) in own {
            let is_set =
                |pair: &ByteString| pair.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
            if !environment.iter().any(is_set) {
                environment.push(format!("{name}={value}").into());
            }
        }
        environment
    }
}

/// All jobs on this pset.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    table: HashMap<JobId, Rc<Job>>,
}

impl Jobs {
    /// Adds one.
    pub(crate) fn insert(&mut self, job: Rc<Job>) {
        self.table.insert(job.id(), job);
    }

    /// One of them.
    #[must_use]
    pub(crate) fn get(&self, job: JobId) -> Option<Rc<Job>> {
        self.table.get(&job).cloned()
    }

    /// Forgets one: whatever of it still waits ends.
    pub(crate) fn remove(&mut self, job: JobId) -> Option<Rc<Job>> {
        self.table.remove(&job)
    }

    /// The ranks on `node` that have not ended, with their jobs.
    #[must_use]
    pub(crate) fn on_node(&self, node: NodeId) -> Vec<(Rc<Job>, Rc<RankState>)> {
        let ranks = self.table.values().flat_map(|job| job.ranks().map(move |rank| (job, rank)));
        let there = ranks.filter(|(_, rank)| rank.node() == node && !rank.has_ended());
        there.map(|(job, rank)| (Rc::clone(job), Rc::clone(rank))).collect()
    }

    /// Was `node` told to retain what that answer is about?
    #[must_use]
    pub(crate) fn was_told_to_retain(&self, node: NodeId, answer: &Retained) -> bool {
        let job = self.table.get(&answer.job).filter(|job| job.program_id() == answer.program);
        job.is_some_and(|job| job.ranks().any(|rank| rank.node() == node && rank.uses_retained()))
    }

    /// A rank by its owner, if it runs on `node`: no node speaks for another's ranks.
    #[must_use]
    pub(crate) fn rank_on(&self, node: NodeId, owner: Owner) -> Option<(Rc<Job>, Rc<RankState>)> {
        let job = self.table.get(&owner.job)?;
        let rank = job.rank(owner.rank).filter(|rank| rank.node() == node)?;
        Some((Rc::clone(job), Rc::clone(rank)))
    }
}
