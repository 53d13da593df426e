//! What a node has of a job for as long as any of its ranks is there: what its ranks on this node share.
//!
//! It is there from the launch of the job's first rank on the node to the end of the last: each rank holds a reference
//! from its launch to its report. What it holds is gone before the last rank's end is reported.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coppice_endpoint::JobNetwork;
use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::FramePool;
use coppice_hal::heap::block_bytes;
use coppice_protocol::control::{Dying, Launch};
use coppice_protocol::ids::{JobId, JobNode, ProgramId, Rank};
use coppice_protocol::program::ProgramImage;
use coppice_protocol::spawn::Joined;
use coppice_protocol::trace::Traced;
use coppice_protocol::world::{Kin, NodeRange, World};

use crate::checkpoint;
use crate::errno::Errno;
use crate::executor::WaitQueue;
use crate::files::asks::Asks;
use crate::files::buffer;
use crate::files::cache::{FileCache, Leaves, LeftFiles};
use crate::files::shared::SharedFiles;
use crate::memory::limits::READ_AHEAD_PAGES;
use crate::net::{self, Network};
use crate::process::Process;
use crate::process::cut::Cut;
use crate::process::futexes::Futexes;
use crate::process::last_look::LastLook;
use crate::quota::{Charge, Quota, shared_bytes};
use crate::ship::{Client, ProgramFile};
use crate::staging::{OfJob, Tenant};
use crate::sync::{LockLevel, Mutex};

/// A job as far as it is on this node.
pub(crate) struct JobOnNode {
    /// Which job.
    pub(crate) id: JobId,
    /// Where its ranks are.
    pub(crate) world: World,
    /// Which of its nodes this is.
    pub(crate) node: JobNode,
    /// Where it is found.
    jobs: Weak<JobsOnNode>,
    /// What its ranks here know of files at the I/O node.
    pub(crate) cache: Arc<FileCache>,
    /// Its `/dev/shm`.
    pub(crate) shared: SharedFiles,
    /// What it has staged.
    pub(crate) staging: OfJob,
    /// What it was, while that is being kept, and how far that is.
    pub(crate) saving: Arc<checkpoint::OfJob>,
    /// What its ranks here share, while they are made from a checkpoint.
    pub(crate) restoring: checkpoint::OfNode,
    /// Checkpoints of it that its ranks here ask for, and those that were made.
    pub(crate) asks: Arc<Asks>,
    /// Its threads that sleep at words of memory.
    pub(crate) futexes: Futexes,
    /// All of its ranks become data, here and elsewhere.
    pub(crate) cut: Arc<Cut>,
    /// A rank of it was launched.
    begun: AtomicBool,
    /// A rank here has mapped a file of the I/O node.
    pub(super) maps_files: AtomicBool,
    /// Which of its ranks are traced, if that was said since it began here.
    traced: Mutex<Option<Traced>>,
    /// Who is told of ranks that are about to be ended.
    told: Mutex<Option<ToldOfDying>>,
    /// Who looks at ranks once more when they have ended.
    pub(super) last_look: LastLook,
    /// Its ranks that run here.
    processes: Mutex<Vec<Weak<Process>>>,
    /// Runs of files that a thread fetches: of which file, and which, in units of [`READ_AHEAD_PAGES`]; with who waits
    /// for each.
    fetched: Mutex<BTreeMap<(usize, u64), Arc<UnderWay>>>,
    /// Nodes that came to its network before the node was in that, with what they are charged.
    came: Mutex<Vec<(Joined, Charge)>>,
    /// What it is charged with.
    _charge: Charge,
}

/// What is told of ranks that are about to be ended.
type ToldOfDying = Arc<dyn Fn(Dying) + Send + Sync>;

/// What that takes: what is called, and what it says it with.
const TOLD_BYTES: usize = shared_bytes::<[usize; 2]>() + shared_bytes::<usize>();

/// A fetch that a thread makes, for those who want the same.
#[derive(Default)]
struct UnderWay {
    over: AtomicBool,
    waiters: WaitQueue,
}

impl UnderWay {
    /// Waits until it is over.
    async fn over(&self) {
        self.waiters.wait_until(|| self.over.load(Ordering::Acquire).then_some(())).await;
    }
}

/// The jobs that have ranks on this node.
pub(crate) struct JobsOnNode(Mutex<BTreeMap<JobId, Weak<JobOnNode>>>);

impl Default for JobsOnNode {
    fn default() -> Self {
        Self(Mutex::new(LockLevel::Jobs, BTreeMap::new()))
    }
}

impl JobsOnNode {
    /// The job of a rank that is launched: what the ranks before it share, or a new one, which is charged to `quota`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        order: &Launch,
        memory: (&'static FramePool, &Arc<LeftFiles>),
        quota: &Arc<Quota>,
    ) -> Result<Arc<JobOnNode>, Errno> {
        if let Some(job) = self.find(order.job) {
            return Ok(job);
        }
        let charge = quota.charge(JobOnNode::bytes(order))?;
        let job = Arc::new(JobOnNode::new(order, Arc::downgrade(self), memory, (quota, charge))?);
        let other = {
            let mut jobs = self.0.lock();
            let other = jobs.get(&order.job).and_then(Weak::upgrade);
            if other.is_none() {
                jobs.insert(order.job, Arc::downgrade(&job));
            }
            other
        };
        Ok(other.unwrap_or(job))
    }

    /// The job with this id.
    pub(crate) fn find(&self, id: JobId) -> Option<Arc<JobOnNode>> {
        self.0.lock().get(&id).and_then(Weak::upgrade)
    }

    /// How many there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.lock().len()
    }
}

impl JobOnNode {
    /// What the job of a rank takes of the heap before any rank has done anything, bytes.
    fn bytes(order: &Launch) -> usize {
        let told = if order.core_file { TOLD_BYTES } else { 0 };
        shared_bytes::<Self>()
            + shared_bytes::<Cut>()
            + shared_bytes::<FileCache>()
            + shared_bytes::<AtomicU64>()
            + shared_bytes::<checkpoint::OfJob>()
            + shared_bytes::<Asks>()
            + Asks::BYTES
            + Futexes::BYTES
            + block_bytes(order.world.network().count() * size_of::<NodeRange>())
            + told
    }

    /// # Errors
    /// `ENOMEM`.
    fn new(
        order: &Launch,
        jobs: Weak<JobsOnNode>,
        (frames, left): (&'static FramePool, &Arc<LeftFiles>),
        (quota, charge): (&Arc<Quota>, Charge),
    ) -> Result<Self, Errno> {
        let copy = |ranges: &[NodeRange]| {
            let mut nodes = Vec::new();
            nodes.try_reserve_exact(ranges.len()).map_err(|_| Errno::ENOMEM)?;
            nodes.extend_from_slice(ranges);
            Ok(nodes)
        };
        let World { key, ranks_per_node, nodes, kin, startup, nodes_per_core, passage } = &order.world;
        let kin = kin.as_ref().map(|kin| Ok(Box::new(Kin { tag: kin.tag, before: copy(&kin.before)? }))).transpose()?;
        let retention = left.retention();
        let leaves = order.keeps_files.then(|| Leaves { files: Arc::clone(left), program: order.program });
        Ok(Self {
            id: order.job,
            world: World {
                key: key.clone(),
                ranks_per_node: *ranks_per_node,
                nodes: copy(nodes)?,
                kin,
                startup: *startup,
                nodes_per_core: *nodes_per_core,
                passage: *passage,
            },
            node: order.world.node_of(order.first),
            jobs,
            cache: FileCache::new(frames, retention, quota, leaves),
            shared: SharedFiles::new(frames.total_frames()),
            staging: OfJob::default(),
            saving: Arc::default(),
            restoring: checkpoint::OfNode::default(),
            asks: Arc::new(Asks::new(quota)),
            futexes: Futexes::default(),
            cut: Arc::new(Cut::none()),
            begun: AtomicBool::new(false),
            maps_files: AtomicBool::new(false),
            traced: Mutex::new(LockLevel::Fact, None),
            told: Mutex::new(LockLevel::Fact, None),
            last_look: LastLook::none(),
            came: Mutex::new(LockLevel::Job, Vec::new()),
            processes: Mutex::new(LockLevel::Job, Vec::new()),
            fetched: Mutex::new(LockLevel::Job, BTreeMap::new()),
            _charge: charge,
        })
    }

    /// Nodes have come to its network. How many there are now that are known here.
    pub(crate) fn nodes_came(&self, joined: Joined, network: &dyn Network, quota: &Arc<Quota>) -> u32 {
        if let Some(known) = net::job::join(self.world.network_tag(self.id), &joined, network, quota) {
            return known;
        }
        // It is not in its network yet, as what another job has left is being wiped.
        let bytes = JobNetwork::memory_bytes(joined.nodes.len()) + size_of::<(Joined, Charge)>();
        let Ok(charge) = quota.charge(bytes) else { return 0 };
        let mut came = self.came.lock();
        if came.try_reserve(1).is_err() {
            return 0;
        }
        let count = joined.count();
        came.push((joined, charge));
        count
    }

    /// It is in its network, to which those have come that came before that.
    pub(crate) fn is_in_network(&self, network: &dyn Network, quota: &Arc<Quota>) {
        let tag = self.world.network_tag(self.id);
        let came = core::mem::take(&mut *self.came.lock());
        for (joined, charge) in came {
            // For what they take there.
            drop(charge);
            if net::job::join(tag, &joined, network, quota).is_none_or(|known| known < joined.count()) {
                log::error!("job {}: no memory for nodes that came to its network", self.id);
            }
        }
    }

    /// What it is to files that are staged for it.
    pub(crate) fn as_tenant(&self) -> Tenant<'_> {
        Tenant { world: &self.world, node: self.node, shared: &self.shared }
    }

    /// Whether nobody has asked this before: the rank that does is the first of the job here.
    pub(crate) fn is_first(&self) -> bool {
        !self.begun.swap(true, Ordering::Relaxed)
    }

    /// A rank has its memory.
    pub(crate) fn join(&self, process: &Arc<Process>) {
        self.processes.lock().push(Arc::downgrade(process));
    }

    /// This is to be told of ranks that are about to be ended, if nobody is yet.
    pub(crate) fn say_who_dies(&self, told: impl Fn(Dying) + Send + Sync + 'static) {
        let told: ToldOfDying = Arc::new(told);
        self.told.lock().get_or_insert(told);
    }

    /// One of its ranks is about to be ended.
    pub(super) fn dies(&self, rank: Rank, signal: u8) {
        let told = self.told.lock().clone();
        if let Some(told) = told {
            told(Dying { job: self.id, rank, signal });
        }
    }

    /// These of its ranks are traced from now on.
    pub(crate) fn trace(&self, traced: Traced) {
        *self.traced.lock() = Some(traced);
        for process in self.processes() {
            process.follow_tracer(traced.has(process.identity.rank));
        }
    }

    /// Whether a rank that was launched with `traced` is to be traced now.
    pub(crate) fn is_traced(&self, rank: Rank, traced: bool) -> bool {
        self.traced.lock().map_or(traced, |now| now.has(rank))
    }

    /// A rank has no memory any more.
    pub(crate) fn leave(&self, process: &Process) {
        self.processes.lock().retain(|known| !ptr::eq(known.as_ptr(), process));
    }

    /// Whether this is the only rank here that is known, or was and is not forgotten.
    #[cfg(test)]
    pub(crate) fn knows_only(&self, process: &Arc<Process>) -> bool {
        matches!(self.processes.lock().as_slice(), [known] if ptr::eq(known.as_ptr(), Arc::as_ptr(process)))
    }

    /// The ranks that run here.
    pub(crate) fn processes(&self) -> Vec<Arc<Process>> {
        self.processes.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The layout of the program, if a rank that runs here has it.
    pub(crate) fn layout(&self, program: ProgramId) -> Option<ProgramImage> {
        self.processes().iter().find_map(|process| process.space.lock().layout_of(program).cloned())
    }

    /// Pages of its program: from where it is staged, or from the I/O node.
    ///
    /// # Errors
    /// As [`Client::program_pages`].
    pub(crate) async fn program_pages(
        &self,
        client: &Client,
        file: ProgramFile,
        first: u32,
        count: u16,
    ) -> Result<Vec<u8>, Errno> {
        let Some(staged) = self.staging.program() else { return client.program_pages(file, first, count).await };
        let offset = u64::from(first) * PAGE_BYTES as u64;
        let length = (u64::from(count) * PAGE_BYTES as u64).min(staged.length().saturating_sub(offset));
        // At most PAGES_PER_REQUEST_MAX pages.
        let mut bytes = buffer(length as usize)?;
        staged.read(offset, &mut bytes);
        Ok(bytes)
    }

    /// Waits until no other thread fetches the run of a file that `first_page` is in. The program's file is 0, others
    /// are what tells them apart while they are open.
    pub(super) async fn turn_to_fetch(&self, file: usize, first_page: u64) -> Turn<'_> {
        let run = (file, first_page / READ_AHEAD_PAGES);
        loop {
            let other = match self.fetched.lock().entry(run) {
                Entry::Vacant(place) => {
                    place.insert(Arc::default());
                    return Turn { job: self, run };
                }
                Entry::Occupied(other) => Arc::clone(other.get()),
            };
            other.over().await;
        }
    }
}

/// A thread's turn to fetch a run of a file, until this is dropped.
pub(super) struct Turn<'a> {
    job: &'a JobOnNode,
    run: (usize, u64),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let over = self.job.fetched.lock().remove(&self.run);
        if let Some(over) = over {
            over.over.store(true, Ordering::Release);
            over.waiters.wake_all();
        }
    }
}

impl Drop for JobOnNode {
    fn drop(&mut self) {
        let Some(jobs) = self.jobs.upgrade() else { return };
        let mut jobs = jobs.0.lock();
        // The job may have come back meanwhile.
        if jobs.get(&self.id).is_some_and(|job| job.strong_count() == 0) {
            jobs.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests;
