//! What a process has. What each of its threads has is in [`super::thread_state`].

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use coppice_hal::frames::FramePool;
use coppice_hal::heap::block_bytes;
use coppice_protocol::control::{Launch, Order};
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use coppice_protocol::text::ByteString;
use coppice_protocol::world::World;
use serde::{Deserialize, Serialize};
use spin::Once;

use crate::clock;
use crate::files::cache::LeftFiles;
use crate::files::counters::Offered;
use crate::files::locks::Locks;
use crate::files::{Closer, Descriptors, NoServers, Servers, Turns, components, executable};
use crate::limits::{PROCESS_BYTES, PROCESS_CORE_BYTES, PROCESS_IDS, THREAD_IDS};
use crate::memory::{AddressSpace, Retention};
use crate::net::Network;
use crate::process::clock::ProcessClock;
use crate::process::counts::Counts;
use crate::process::placement;
use crate::process::profile::Profile;
use crate::process::remembered::OfProcess;
use crate::process::resources::ResourceLimits;
use crate::process::sent_to::SentTo;
use crate::process::signals::Signals;
use crate::process::threads::Threads;
use crate::process::timers::Timers;
use crate::process::trace::Trace;
use crate::process::{End, JobOnNode};
use crate::quota::{Charge, Quota};
use crate::region::Region;
use crate::ship::Client;
use crate::staging::{Site, Staging};
use crate::sync::Mutex;

/// What processes are told of the node they run on.
#[derive(Clone)]
pub struct NodeFacts {
    /// Where frames come from.
    pub frames: &'static FramePool,
    /// What the node keeps of programs that ran on it.
    pub retention: Arc<Retention>,
    /// What it keeps of files that jobs have read.
    pub(crate) left: Arc<LeftFiles>,
    /// Memory for what programs make the kernel keep.
    pub quota: Arc<Quota>,
    /// The node's network.
    pub network: Arc<dyn Network>,
    /// What is staged on the node.
    pub staging: Staging,
    /// Its region, if it has one.
    pub region: Option<Arc<Region>>,
    /// Where the kernel answers the process itself.
    pub(crate) servers: Arc<dyn Servers>,
}

impl NodeFacts {
    /// A node of these, whose kernel answers no process itself yet.
    #[must_use]
    pub fn new(
        frames: &'static FramePool,
        (retention, quota): (Arc<Retention>, Arc<Quota>),
        network: Arc<dyn Network>,
        staging: Staging,
        region: Option<Arc<Region>>,
    ) -> Self {
        let left = LeftFiles::new(&retention);
        Self { frames, retention, left, quota, network, staging, region, servers: Arc::new(NoServers) }
    }

    /// What it is to files that are staged on it.
    pub(crate) fn as_site(&self) -> Site<'_> {
        Site { frames: self.frames, retention: &self.retention, quota: &self.quota, staging: &self.staging }
    }
}

/// Who a process is. Does not change in its life.
#[derive(Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) job: JobId,
    pub(crate) rank: Rank,
    /// Ranks in the job.
    pub(crate) size: u32,
    pub(crate) pid: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) program: ProgramId,
    /// Length of the program's file, bytes.
    pub(crate) program_bytes: u64,
    /// Absolute path of the program, as far as its user said.
    pub(crate) executable: ByteString,
    pub(crate) arguments: Vec<ByteString>,
    /// A core file of it is wanted when a signal ends it.
    pub(crate) core_file: bool,
}

impl Identity {
    /// Who a process is that was launched so.
    pub(crate) fn of(launch: &Order) -> Self {
        Self {
            job: launch.job,
            rank: launch.rank,
            size: launch.size,
            pid: Self::pid_of(launch.rank),
            user: launch.user,
            group: launch.group,
            program: launch.program,
            program_bytes: launch.program_bytes,
            executable: match &launch.executable {
                Some(path) => ByteString::clone(path),
                None => executable(&launch.directory, &launch.path).into(),
            },
            arguments: launch.arguments.clone(),
            core_file: launch.core_file,
        }
    }

    /// The process id of a rank.
    pub(crate) fn pid_of(rank: Rank) -> u32 {
        PROCESS_IDS.0.saturating_add(rank.0).min(PROCESS_IDS.1)
    }

    /// What that takes of the heap, bytes.
    pub(crate) fn bytes(launch: &Launch) -> usize {
        let as_called = launch.directory.len() + 1 + launch.path.len();
        block_bytes(launch.executable.as_ref().map_or(as_called, |path| path.len())) + list_bytes(&launch.arguments)
    }

    /// The name that Linux would give the process: that of the program, cut to 15 bytes and a zero.
    pub(crate) fn name(&self) -> [u8; 16] {
        // As it was called, as on Linux: what a link is called is not what it leads to.
        let called = self.arguments.first().unwrap_or(&self.executable);
        let program = components(called).next_back().unwrap_or_default();
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(program.iter().take(15)) {
            *to = *from;
        }
        name
    }

    /// Its threads, none yet, whose futures take `life_bytes` each. The ids of a node's threads differ, because robust
    /// locks in memory that ranks share hold them.
    pub(crate) fn threads(&self, world: &World, life_bytes: usize) -> Threads {
        let local = self.rank.0 % world.ranks_per_node.max(1);
        let others = PROCESS_IDS.0.saturating_add(self.size).saturating_add(local * THREAD_IDS);
        Threads::new(self.pid, others, life_bytes)
    }

    /// The cores of the process on a node that has `cores`, a bit each.
    pub(crate) fn cores(&self, world: &World, cores: usize) -> u64 {
        let ranks = world.ranks_per_node.clamp(1, self.size.max(1));
        placement::mask(&placement::cores_of(self.rank.0 % ranks, ranks, cores))
    }

    /// Process id of the parent: whatever launches jobs.
    pub(crate) const PARENT: u32 = 1;
}

/// What strings take of the heap, bytes.
pub(crate) fn list_bytes(strings: &[ByteString]) -> usize {
    block_bytes(size_of_val(strings)) + strings.iter().map(|text| block_bytes(text.len())).sum::<usize>()
}

/// A process. Its parts are behind locks of their own, none of which is held while anything waits.
pub(crate) struct Process {
    pub(crate) identity: Identity,
    /// What it shares with the job's other ranks on the node.
    pub(crate) job: Arc<JobOnNode>,
    pub(crate) node: NodeFacts,
    pub(crate) client: Client,
    pub(crate) space: Mutex<AddressSpace>,
    pub(crate) files: Mutex<Descriptors>,
    pub(crate) closer: Closer,
    /// The working directory: absolute, no links in it.
    pub(crate) directory: Mutex<ByteString>,
    pub(crate) umask: AtomicU32,
    pub(crate) limits: ResourceLimits,
    /// The locks of files that it has.
    pub(crate) locks: Arc<Locks>,
    pub(crate) signals: Mutex<Signals>,
    pub(crate) clock: ProcessClock,
    pub(crate) timers: Timers,
    pub(crate) account: Account,
    pub(crate) counts: Counts,
    /// Counters that it offers to an overlay.
    pub(crate) offered: Arc<Offered>,
    /// Its node's address in the job's network, once somebody has asked for it.
    pub(crate) own_address: Once<Ipv4Addr>,
    /// What it does, if it is traced.
    pub(crate) trace: Trace,
    /// What it sends to which nodes, if somebody wants to know.
    pub(crate) sent_to: SentTo,
    /// Where it is in its program, if somebody wants to know.
    pub(crate) profile: Profile,
    pub(crate) remembered: OfProcess,
    /// Who reads a page for which nothing could be charged: among what each process is charged with is one.
    pub(crate) own_page: Turns,
    /// Its threads. Whoever waits for their end holds them longer than the process.
    pub(crate) threads: Arc<Threads>,
    /// Its cores, a bit each.
    pub(crate) cores: u64,
    /// What it is charged with apart from what it grows to.
    pub(crate) charge: Charge,
}

impl Process {
    /// What a process with so many cores is charged with before there is anything of it, bytes.
    pub(crate) fn bytes(cores: u64) -> usize {
        PROCESS_BYTES + cores.count_ones() as usize * PROCESS_CORE_BYTES
    }
}

impl Process {
    /// Ends it; see [`Threads::end`].
    pub(crate) fn end(&self, end: End) {
        self.threads.end(end);
    }

    /// Name of its first thread, up to 15 bytes and zeros.
    pub(crate) fn name(&self) -> [u8; 16] {
        self.threads.find(self.identity.pid).map_or_else(|| self.identity.name(), |thread| *thread.name.lock())
    }
}

/// What a process has used, as far as its parts do not count it themselves.
pub(crate) struct Account {
    /// First instruction, ns of the monotonic clock.
    started_ns: u64,
    /// Faults that waited for pages.
    pub(crate) major_faults: AtomicU64,
    /// Bytes read by shipped calls.
    pub(crate) bytes_read: AtomicU64,
    /// Bytes written by shipped calls.
    pub(crate) bytes_written: AtomicU64,
}

impl Account {
    /// Nothing used yet; the process starts now.
    pub(crate) fn new() -> Self {
        Self {
            started_ns: clock::monotonic_ns(),
            major_faults: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        }
    }

    /// Of a process that was started then and has used so much.
    pub(crate) fn again(started_ns: u64, [faults, read, written]: [u64; 3]) -> Self {
        let (major_faults, bytes_read, bytes_written) = (faults.into(), read.into(), written.into());
        Self { started_ns, major_faults, bytes_read, bytes_written }
    }

    /// Faults that waited, bytes read and bytes written.
    pub(crate) fn used(&self) -> [u64; 3] {
        [&self.major_faults, &self.bytes_read, &self.bytes_written].map(|count| count.load(Ordering::Relaxed))
    }

    /// First instruction, ns of the monotonic clock.
    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Time since the first instruction, ns.
    pub(crate) fn run_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_sub(self.started_ns)
    }
}
