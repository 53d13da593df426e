//! A process as data: everything that it is, but for what lies on the node outside of it, which stays there meanwhile
//! ([`Surroundings`]): its pages, its handles at the I/O node, its connections, memory that other ranks show, and what
//! the node and the job are to it.
//!
//! It is written down when its threads are held ([`super::hold`]) and were then taken down. What is read again is as
//! little trusted as a message: a record that no process can have is refused.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::control::Order;
use coppice_protocol::limits::OVERLAY_COUNTERS_MAX;
use coppice_protocol::overlay::CounterName;
use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use spin::Once;

use super::activity::Activity;
use super::clock::ProcessClock;
use super::counts::Counts;
use super::remembered::OfProcess;
use super::resources::{Limit, ResourceLimits};
use super::sent_to::SentTo;
use super::signals::SignalsRecord;
use super::threads::Threads;
use super::threads::record::{MadeThread, ThreadsRecord};
use super::timers::record::TimersRecord;
use super::trace::Trace;
use super::{Account, Identity, JobOnNode, NodeFacts, Process, ThreadState};
use crate::checkpoint::Outer;
use crate::errno::Errno;
use crate::executor;
use crate::files::counters::Offered;
use crate::files::locks::Locks;
use crate::files::record::{BadFiles, Catalogue, FilesRecord, Making, NotMade, Outside};
use crate::files::{Closer, Input, Object, OpenFile, Turns};
use crate::memory::{FileSource, Pages, SpaceRecord};
use crate::quota::Quota;
use crate::ship::Client;
use crate::sync::{LockLevel, Mutex};

/// What a record begins with: another kernel may write others.
const VERSION: u32 = 4;

/// See this module.
#[derive(Serialize, Deserialize)]
struct ProcessRecord {
    version: u32,
    identity: Identity,
    /// What its clock shows, ns.
    now_ns: u64,
    started_ns: u64,
    used: [u64; 3],
    cores: u64,
    directory: ByteString,
    umask: u32,
    limits: Vec<(u64, u64)>,
    remembered: [u32; OfProcess::FIELDS],
    signals: SignalsRecord,
    timers: TimersRecord,
    /// Counters that it offers.
    offered: Vec<(CounterName, u64)>,
    files: FilesRecord,
    space: SpaceRecord,
    threads: ThreadsRecord,
}

/// What stays on the node of a process that is data.
pub(crate) struct Surroundings {
    job: Arc<JobOnNode>,
    node: NodeFacts,
    client: Client,
    closer: Closer,
    counts: Counts,
    activity: Activity,
    trace: Trace,
    sent_to: SentTo,
    pages: Pages,
    pub(crate) outside: Vec<Outside>,
    charge: crate::quota::Charge,
}

impl Surroundings {
    /// Those on a node that it has not been on, with what it has outside of itself made there already.
    pub(crate) fn elsewhere(
        (job, node, client, closer): (Arc<JobOnNode>, NodeFacts, Client, Closer),
        pages: Pages,
        outside: Vec<Outside>,
        charge: crate::quota::Charge,
    ) -> Self {
        let (counts, activity, trace, sent_to) = (Counts::default(), Activity::none(), Trace::new(), SentTo::none());
        Self { job, node, client, closer, counts, activity, trace, sent_to, pages, outside, charge }
    }

    /// All of that, for a checkpoint.
    pub(crate) fn outer(&mut self) -> Outer<'_> {
        let (quota, region) = (&self.node.quota, &self.node.region);
        Outer { client: &self.client, quota, region, outside: &self.outside, pages: &mut self.pages }
    }
}

/// Why a process could not be made data, or be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotFrozen {
    /// Somebody uses it.
    #[error("somebody still uses it")]
    Used,
    /// A thread was not held.
    #[error("a thread was not held")]
    NotHeld,
    /// The record cannot be read.
    #[error("its record is damaged")]
    Damaged,
    /// There is no memory for it.
    #[error("there is no memory for it: {0}")]
    Errno(Errno),
}

impl From<Errno> for NotFrozen {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<postcard::Error> for NotFrozen {
    fn from(_: postcard::Error) -> Self {
        Self::Damaged
    }
}

impl From<NotMade> for NotFrozen {
    fn from(error: NotMade) -> Self {
        match error {
            NotMade::Bad(BadFiles) => Self::Damaged,
            NotMade::Errno(errno) => Self::Errno(errno),
        }
    }
}

/// How many bytes the record of a process takes at most while it is written, for what it makes the kernel keep.
pub(crate) fn room(process: &Process) -> usize {
    const EACH_BYTES: usize = 512;
    let catalogue = catalogue(process);
    let things = catalogue.len() + process.threads.count() * 8;
    let areas = process.space.lock().mapped().count();
    // Once as values, once as bytes, and once more while those grow.
    4 * (catalogue.bytes() + (things + 16) * EACH_BYTES + (areas + OVERLAY_COUNTERS_MAX) * 64)
}

/// What it has open, and what its calls are about.
fn catalogue(process: &Process) -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.add(&process.files.lock());
    for thread in process.threads.all() {
        thread.call_files().each(|file| {
            catalogue.number(file);
        });
    }
    catalogue
}

/// How many bytes the records of what carries its sockets' bytes take at most, while they are written and read.
pub(crate) fn transports_room(process: &Process) -> usize {
    let catalogue = catalogue(process);
    // As in `room`.
    4 * catalogue.transport_bytes()
}

/// Has nothing begin to use a process whose threads are no more: its timers pause, and its job does not know it.
pub(crate) fn withdraw(process: &Arc<Process>) {
    process.timers.pause();
    process.job.leave(process);
}

/// Makes a process data that was withdrawn; these were its threads, which were held and taken down.
///
/// # Errors
/// [`NotFrozen`]: then it is gone.
pub(crate) fn freeze(process: Process, threads: &[Arc<ThreadState>]) -> Result<(Vec<u8>, Surroundings), NotFrozen> {
    let Process { identity, job, node, client, space, files, closer, .. } = process;
    let clock = process.clock;
    let mut catalogue = Catalogue::default();
    let files = files.into_inner();
    catalogue.add(&files);
    let threads = process.threads.record(threads, &job.futexes, |file| catalogue.number(file));
    let threads = threads.ok_or(NotFrozen::NotHeld)?;
    let (space, pages) = space.into_inner().into_record(|file| number(&mut catalogue, file));
    let files_record = catalogue.record(&files, &process.locks, &|node_ns| clock.of_node(node_ns));
    drop(files);
    let account = &process.account;
    let record = ProcessRecord {
        version: VERSION,
        identity,
        now_ns: clock.now_ns(),
        started_ns: clock.of_node(account.started_ns()),
        used: account.used(),
        cores: process.cores,
        directory: process.directory.into_inner(),
        umask: process.umask.into_inner(),
        limits: process.limits.all().into_iter().map(|limit| (limit.soft, limit.hard)).collect(),
        remembered: process.remembered.values(),
        signals: process.signals.into_inner().record(),
        timers: process.timers.record(),
        offered: process.offered.all(),
        files: files_record,
        space,
        threads,
    };
    let bytes = postcard::to_allocvec(&record)?;
    let outside = catalogue.take_apart().ok_or(NotFrozen::Used)?;
    let activity = process.threads.activity();
    let (counts, trace, sent_to, charge) = (process.counts, process.trace, process.sent_to, process.charge);
    Ok((bytes, Surroundings { job, node, client, closer, counts, activity, trace, sent_to, pages, outside, charge }))
}

/// The number of a file that memory shows, which is an open file.
fn number(catalogue: &mut Catalogue, file: Arc<dyn FileSource>) -> u32 {
    let file: Arc<dyn core::any::Any + Send + Sync> = file;
    file.downcast::<OpenFile>().map_or(u32::MAX, |file| catalogue.number(&file))
}

/// Makes a process again whose threads do not run yet. `life_bytes` is what one of their futures takes.
///
/// # Errors
/// [`NotFrozen`].
pub(crate) fn thaw(
    bytes: &[u8],
    around: Surroundings,
    threads: impl FnOnce(&Identity) -> Threads,
) -> Result<(Arc<Process>, Vec<MadeThread>), NotFrozen> {
    make(read(bytes)?, around, threads)
}

impl Process {
    /// Nothing of it has run since its clock showed this, ns: that goes on from there, and so do its timers.
    ///
    /// # Errors
    /// There is no task for them.
    pub(crate) fn has_stood_since(&self, then_ns: u64) -> Result<(), Errno> {
        self.timers.pause();
        let mut files: Vec<Arc<OpenFile>> = {
            let files = self.files.lock();
            let file = |number: usize| Some(Arc::clone(&files.descriptor(number as i32).ok()?.file));
            files.numbers().filter_map(file).collect()
        };
        // Some have several numbers.
        files.sort_unstable_by_key(|file| file.id);
        files.dedup_by_key(|file| file.id);
        let stood_ns = self.clock.now_ns().saturating_sub(then_ns);
        self.clock.set(then_ns);
        for file in files {
            if let Object::Timer(timer) = &file.object {
                timer.put_off(stood_ns);
            }
        }
        self.timers.go_on(self)
    }
}

/// Makes a process again on a node that it has not been on, as the rank of a job that is launched there.
///
/// # Errors
/// [`NotFrozen`]. Also if it is another rank's.
pub(crate) fn thaw_elsewhere(
    bytes: &[u8],
    around: Surroundings,
    order: &Order,
    life_bytes: usize,
) -> Result<(Arc<Process>, Vec<MadeThread>), NotFrozen> {
    let mut record = read(bytes)?;
    let identity = &mut record.identity;
    if (identity.rank, identity.size, identity.program) != (order.rank, order.size, order.program) {
        return Err(NotFrozen::Damaged);
    }
    identity.job = order.job;
    identity.core_file = order.core_file;
    // There may be fewer cores here.
    record.cores = identity.cores(&order.world, executor::cores());
    record.threads.keep_to(record.cores);
    make(record, around, |identity| identity.threads(&order.world, life_bytes))
}

fn read(bytes: &[u8]) -> Result<ProcessRecord, NotFrozen> {
    let record: ProcessRecord = postcard::from_bytes(bytes)?;
    if record.version == VERSION { Ok(record) } else { Err(NotFrozen::Damaged) }
}

fn make(
    record: ProcessRecord,
    around: Surroundings,
    threads: impl FnOnce(&Identity) -> Threads,
) -> Result<(Arc<Process>, Vec<MadeThread>), NotFrozen> {
    let Surroundings { job, node, client, closer, counts, activity, trace, sent_to, pages, outside, charge } = around;
    let quota: &Arc<Quota> = &node.quota;
    let clock = ProcessClock::new();
    clock.set(record.now_ns);
    let mut signals = record.signals.make(quota)?;
    let locks = Locks::new(quota);
    let input = Arc::new(Input::new(client.clone(), quota));
    let offered = Offered::again(record.offered, quota)?;
    let made = {
        let signals = core::cell::RefCell::new(&mut signals);
        let making = Making {
            quota,
            network: &node.network,
            input: &input,
            locks: &locks,
            asks: &job.asks,
            offered: &offered,
            board: &|| signals.borrow_mut().board(quota),
            on_node: &|own_ns| clock.on_node(own_ns),
        };
        record.files.make(&making, outside)?
    };
    let file = |number: u32| made.files.get(number as usize).map(|file| Arc::clone(file) as Arc<dyn FileSource>);
    let space = record.space.make(pages, file, quota)?;
    let limits = ResourceLimits::of(record.limits.into_iter().map(|(soft, hard)| Limit { soft, hard }));
    let threads = Arc::new(threads(&record.identity));
    threads.go_on_from(activity);
    let made_threads = threads.make(record.threads, &made.files, &job.futexes, quota)?;
    let account = Account::again(clock.on_node(record.started_ns), record.used);
    let process = Arc::new(Process {
        timers: record.timers.make(quota)?,
        limits: limits.ok_or(NotFrozen::Damaged)?,
        threads,
        signals: Mutex::new(LockLevel::Signals, signals),
        clock,
        locks,
        cores: record.cores,
        identity: record.identity,
        job,
        node,
        closer,
        files: Mutex::new(LockLevel::Descriptors, made.descriptors),
        client,
        space: Mutex::new(LockLevel::Space, space),
        directory: Mutex::new(LockLevel::Fact, record.directory),
        umask: record.umask.into(),
        account,
        offered,
        remembered: OfProcess::of(record.remembered),
        own_page: Turns::new(),
        charge,
        counts,
        own_address: Once::new(),
        profile: crate::process::profile::Profile::none(),
        trace,
        sent_to,
    });
    process.job.join(&process);
    process.timers.go_on(&process)?;
    Ok((process, made_threads))
}
