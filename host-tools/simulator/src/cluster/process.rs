//! The processes of a node: the kernel's own, with somebody beside them who notes what is to be seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coppice_core::agent::{Processes, Started};
use coppice_core::launch::ProcessTable;
use coppice_core::memory::Retention;
use coppice_core::net::BoxFuture;
use coppice_core::quota::Quota;
use coppice_core::ship::Client;
use coppice_hal::addr::PAGE_BYTES;
use coppice_hal::frames::{FramePool, Usage};
use coppice_hal::region::Region as Device;
use coppice_protocol::broadcast::Broadcast;
use coppice_protocol::control::{Launch, Order, OverlayOrder, RankReport};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::inspect::{Answer, Inspect};
use coppice_protocol::keep::{Keep, KeepOutcome};
use coppice_protocol::overlay::Up;
use coppice_protocol::retain::{RetainedProgram, WalkCounts};
use coppice_protocol::spawn::{Joined, Spawned};
use coppice_protocol::text::ByteString;
use coppice_protocol::trace::Traced;

use super::checkers::{Note, PmixNote, ShareNote, Sharer};
use super::machine::LifeId;
use super::network::Network;
use super::script::{SCRIPT_NUMBERS, Script};
use super::sharing::Sharing;

/// What processes did, whoever wants to know. It is beside the world, as processes are deep inside their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed(Arc<Mutex<Seen>>);

/// See [`Observed`].
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The processes that are there, of each boot.
    pub alive: BTreeMap<(LifeId, JobId, Rank), NodeId>,
    /// All that ever began, of each boot.
    pub begun: BTreeSet<(LifeId, JobId, Rank)>,
    /// What must not be.
    pub violations: Vec<String>,
    /// Processes that began.
    pub launched: u64,
    /// Orders to launch that came to each boot, and the job of the last one.
    pub ordered: BTreeMap<LifeId, (u64, JobId)>,
    /// The boot that runs.
    pub running: Option<LifeId>,
    /// Processes of each program on each boot: how many are there, and the number of the last end of one.
    pub programs: BTreeMap<LifeId, BTreeMap<ProgramId, (u64, u64)>>,
    /// Processes that have ended.
    pub ended: u64,
    /// What ranks did and heard at PMI since somebody looked, by the marks of their scripts.
    pub pmi: Vec<(u64, u32, Note)>,
    /// The same with PMIx, and on which node.
    pub pmix: Vec<(u64, u32, Option<NodeId>, PmixNote)>,
    /// What ranks did to files that they share, where, and what they found.
    pub shared: Vec<(Sharer, Sharing, ShareNote)>,
    /// Bytes that ranks which came to the end of their script had written to their files then.
    pub wrote: BTreeMap<(JobId, Rank), u64>,
    /// Ranks whose processes are gone since somebody looked.
    pub gone: Vec<(JobId, Rank)>,
}

/// Keys of all processes of a boot.
fn all_of(life: LifeId) -> RangeInclusive<(LifeId, JobId, Rank)> {
    (life, JobId(0), Rank(0))..=(life, JobId(u64::MAX), Rank(u32::MAX))
}

impl Observed {
    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A boot is over, and its processes with it.
    pub(super) fn over(&self, life: LifeId) {
        let mut seen = self.lock();
        let Seen { alive, begun, programs, .. } = &mut *seen;
        while let Some(key) = alive.range(all_of(life)).next().map(|(key, _)| *key) {
            alive.remove(&key);
        }
        while let Some(key) = begun.range(all_of(life)).next().copied() {
            begun.remove(&key);
        }
        programs.remove(&life);
        seen.ordered.remove(&life);
    }

    /// A rank of the boot that runs has come to the end of its script, and had written so much to its file.
    pub(super) fn has_written(&self, rank: Rank, bytes: u64) {
        let mut seen = self.lock();
        let job = seen.running.and_then(|life| seen.ordered.get(&life)).map(|(_, job)| *job);
        if let Some(job) = job {
            seen.wrote.insert((job, rank), bytes);
        }
    }

    /// A rank of the boot that runs does something to a file that it shares.
    pub(super) fn shares(&self, rank: u32, sharing: Sharing, note: ShareNote) {
        let mut seen = self.lock();
        let Some(life) = seen.running else { return };
        if let Some(job) = seen.ordered.get(&life).map(|(_, job)| *job) {
            seen.shared.push(((job, rank, Some(life.node)), sharing, note));
        }
    }

    /// What the boot that runs did, and must not do.
    pub(super) fn violate(&self, what: String) {
        let mut seen = self.lock();
        let running = seen.running;
        seen.violations.push(match running {
            Some(life) => format!("node {}: {what}", life.node),
            None => what,
        });
    }
}

/// The processes of one boot of a node.
pub(super) struct Watched {
    pub life: LifeId,
    pub observed: Observed,
    pub table: ProcessTable,
    pub frames: &'static FramePool,
    pub retention: Arc<Retention>,
    /// It keeps the pages of one program.
    pub keeps_one: bool,
    /// What the node's kernel keeps for programs.
    pub quota: Arc<Quota>,
    pub network: Network,
    /// Held by each question about a rank that is not answered yet: it has the rank's job.
    pub asked: Arc<()>,
    /// Its region: what the engine still writes for a job is its own.
    pub region: Option<&'static Device>,
}

/// A process that is there.
struct Alive {
    observed: Observed,
    key: (LifeId, JobId, Rank),
    program: ProgramId,
}

impl Alive {
    fn new(observed: Observed, life: LifeId, job: JobId, rank: Rank, program: ProgramId) -> Self {
        let mut seen = observed.lock();
        let Seen { alive, begun, violations, launched, programs, .. } = &mut *seen;
        *launched += 1;
        for ((_, other, other_rank), _) in alive.range(all_of(life)) {
            if *other != job || *other_rank == rank {
                violations.push(format!(
                    "rank {rank} of job {job} begins on node {} beside rank {other_rank} of job {other}",
                    life.node
                ));
            }
        }
        let key = (life, job, rank);
        alive.insert(key, life.node);
        if !begun.insert(key) {
            violations.push(format!("rank {rank} of job {job} begins on node {} again", life.node));
        }
        programs.entry(life).or_default().entry(program).or_default().0 += 1;
        drop(seen);
        Self { observed, key, program }
    }

    /// Whether no other is on its node.
    fn is_last(&self) -> bool {
        let (life, ..) = self.key;
        self.observed.lock().alive.range(all_of(life)).count() == 1
    }

    /// How many ranks of its job began on its node.
    fn have_come(&self) -> usize {
        let (life, job, _) = self.key;
        self.observed.lock().begun.range((life, job, Rank(0))..=(life, job, Rank(u32::MAX))).count()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mut seen = self.observed.lock();
        seen.ended += 1;
        let number = seen.ended;
        seen.alive.remove(&self.key);
        let (life, job, rank) = self.key;
        seen.gone.push((job, rank));
        if let Some((count, last)) = seen.programs.get_mut(&life).and_then(|of| of.get_mut(&self.program)) {
            (*count, *last) = (count.saturating_sub(1), number);
        }
    }
}

/// Nothing of the kernel's memory and no connection with another node is left of a job that is over.
fn nothing_is_left(
    observed: &Observed,
    (quota, retention): (&Quota, &Retention),
    network: &Network,
    life: LifeId,
    job: JobId,
) {
    // But what stays for jobs that come.
    let taken = quota.taken().saturating_sub(retention.charged());
    let connections = network.lock().used_by(life);
    if taken > 0 || connections > 0 {
        observed.violate(format!(
            "{taken} bytes of the kernel's memory and {connections} connections with other nodes are left after the \
             end of job {job}"
        ));
    }
}

/// How many of a job's ranks a node is to run.
fn ranks_here(launch: &Launch, node: NodeId) -> usize {
    let placement = launch.world.placement(launch.size).ok();
    let place = placement.and_then(|all| all.place(all.index_of(node)?));
    place.map_or(0, |place| place.ranks().count())
}

/// Frames that a node's programs may have, all together.
fn for_programs(frames: &FramePool) -> u64 {
    let Usage { total, kernel, .. } = frames.usage();
    u64::from(total.saturating_sub(kernel + frames.reserve_frames()))
}

/// Frames that a node's programs and their page tables have, and those of them that are retained.
pub(super) fn frames_held(frames: &FramePool, retention: &Retention) -> (u64, u64) {
    let Usage { tables, user, pristine, .. } = frames.usage();
    (u64::from(tables) + u64::from(user) + u64::from(pristine), retention.bytes() / PAGE_BYTES as u64)
}

impl Processes for Watched {
    fn launch(&self, launch: Order, client: Client, started: Started) -> BoxFuture<'static, RankReport> {
        let (observed, life) = (self.observed.clone(), self.life);
        let (frames, retention) = (self.frames, Arc::clone(&self.retention));
        let (quota, network, asked) = (Arc::clone(&self.quota), self.network.clone(), Arc::downgrade(&self.asked));
        let region = self.region;
        let (job, rank, program) = (launch.job, launch.rank, launch.program);
        let (pages, ranks, nodes) = (pages_of_job(&launch), ranks_here(&launch, life.node), launch.world.node_count());
        let mut seen = observed.lock();
        let (orders, last) = seen.ordered.entry(life).or_insert((0, job));
        (*orders, *last) = (*orders + 1, job);
        drop(seen);
        let process = self.table.launch(launch, client, started);
        Box::pin(async move {
            let alive = Alive::new(observed.clone(), life, job, rank, program);
            let report = process.await;
            let (held, retained) = frames_held(frames, &retention);
            let engine_rests = region.is_none_or(|region| region.under_way() == 0);
            if alive.is_last() && held != retained && engine_rests {
                let what =
                    format!("{held} frames are held after the end of job {job}, of which {retained} are retained");
                observed.violate(what);
            }
            // PMI keeps a job's state for ranks that are still to come here, or that run elsewhere.
            if nodes == 1 && alive.is_last() && alive.have_come() == ranks && asked.strong_count() <= 1 {
                nothing_is_left(&observed, (&quota, &retention), &network, life, job);
            }
            let is_out = report.reason.as_ref().is_some_and(|reason| reason.contains("memory"));
            if is_out && pages <= for_programs(frames) {
                let reason = report.reason.clone().unwrap_or_default();
                observed.violate(format!("rank {rank} of job {job}, which takes {pages} pages here: {reason}"));
            }
            drop(alive);
            report
        })
    }

    fn retain(&self, program: ProgramId) -> Option<WalkCounts> {
        let counts = self.table.retain(program);
        let held = self.table.held();
        let is_first = held.first().is_some_and(|held| held.program == program);
        if counts.is_some() && (!is_first || self.keeps_one && held.len() > 1) {
            self.observed.violate(format!("told to retain {program}, it holds {held:?}"));
        }
        counts
    }

    fn discard(&self, program: Option<ProgramId>) -> Vec<RetainedProgram> {
        self.table.discard(program)
    }

    fn keep(&self, order: Keep, tell: Box<dyn FnOnce(KeepOutcome) + Send>) -> BoxFuture<'static, ()> {
        self.table.keep(order, tell)
    }

    fn freed(&self) -> BoxFuture<'static, ()> {
        self.table.freed()
    }

    fn held(&self) -> Vec<RetainedProgram> {
        self.table.held()
    }

    fn kill(&self, job: JobId, signal: u8) {
        self.table.kill(job, signal);
    }

    fn broadcast(&self, order: Broadcast) {
        self.table.broadcast(order);
    }

    fn trace(&self, job: JobId, traced: Traced) {
        self.table.trace(job, traced);
    }

    fn checkpointed(&self, job: JobId, made: u64) {
        self.table.checkpointed(job, made);
    }

    fn node_lost(&self, job: JobId, node: NodeId, ranks: &[Rank]) {
        self.table.node_lost(job, node, ranks);
    }

    fn joined(&self, joined: Joined) -> u32 {
        self.table.joined(joined)
    }

    fn spawned(&self, spawned: Spawned) {
        self.table.spawned(spawned);
    }

    fn overlay(&self, order: OverlayOrder, say: Arc<dyn Fn(Up) + Send + Sync>) {
        self.table.overlay(order, say);
    }

    fn forget(&self, job: JobId) -> BoxFuture<'static, ()> {
        let (observed, life, asked) = (self.observed.clone(), self.life, Arc::downgrade(&self.asked));
        let (quota, network) = (Arc::clone(&self.quota), self.network.clone());
        let retention = Arc::clone(&self.retention);
        let ordered = move |observed: &Observed| observed.lock().ordered.get(&life).copied();
        let before = ordered(&self.observed);
        let going = self.table.forget(job);
        Box::pin(async move {
            going.await;
            let is_idle = observed.lock().alive.range(all_of(life)).next().is_none();
            // A job that goes on without a node ends after that has booted again and runs others, of which it keeps
            // something for their ranks elsewhere.
            let is_last = before.is_none_or(|(_, last)| last == job);
            if is_idle && is_last && ordered(&observed) == before && asked.strong_count() <= 1 {
                nothing_is_left(&observed, (&quota, &retention), &network, life, job);
            }
        })
    }

    fn inspect(&self, inspect: Inspect) -> BoxFuture<'static, Answer> {
        let (answer, asked) = (self.table.inspect(inspect), Arc::clone(&self.asked));
        Box::pin(async move {
            let answer = answer.await;
            drop(asked);
            answer
        })
    }
}

/// Pages that the ranks of a job may come to have on a node, all together.
fn pages_of_job(launch: &Launch) -> u64 {
    let number = |text: &ByteString| text.to_str().and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut numbers = [0; SCRIPT_NUMBERS];
    numbers.iter_mut().zip(launch.arguments.iter().skip(1)).for_each(|(slot, text)| *slot = number(text));
    let of_file = launch.program_bytes.div_ceil(PAGE_BYTES as u64);
    Script::of(numbers).pages(of_file) * u64::from(launch.world.ranks_per_node)
}
