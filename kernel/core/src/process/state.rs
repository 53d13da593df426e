//! What a process has, and what each of its threads has.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use coppice_hal::frames::FramePool;
use coppice_protocol::control::Launch;
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use spin::Mutex;

use crate::clock;
use crate::files::{Closer, Descriptors, absolute};
use crate::memory::{AddressSpace, Retention};
use crate::net::Network;
use crate::process::JobOnNode;
use crate::process::signals::Signals;
use crate::quota::Quota;
use crate::ship::Client;
use crate::syscall::abi::signal::AlternateStack;

/// What processes are told of the node they run on.
#[derive(Clone)]
pub struct NodeFacts {
    /// Where frames come from.
    pub frames: &'static FramePool,
    /// What the node keeps of programs that ran on it.
    pub retention: Arc<Retention>,
    /// Memory for what programs make the kernel keep.
    pub quota: Arc<Quota>,
    /// The node's network.
    pub network: Arc<dyn Network>,
    /// The node's name, as uname(2) has it.
    pub name: Arc<str>,
}

/// Process id of rank 0. Those of the ranks of a job differ, so that names made from them do.
const PROCESS_ID_FIRST: u32 = 1000;

/// Highest process id, as on Linux.
const PROCESS_ID_MAX: u32 = 4_194_303;

/// Who a process is. Does not change in its life.
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
    pub(crate) executable: String,
    pub(crate) arguments: Vec<String>,
}

impl Identity {
    /// Who a process is that was launched so.
    pub(crate) fn of(launch: &Launch) -> Self {
        Self {
            job: launch.job,
            rank: launch.rank,
            size: launch.size,
            pid: PROCESS_ID_FIRST.saturating_add(launch.rank.0).min(PROCESS_ID_MAX),
            user: launch.user,
            group: launch.group,
            program: launch.program,
            program_bytes: launch.program_bytes,
            executable: absolute(&launch.directory, &launch.path),
            arguments: launch.arguments.clone(),
        }
    }

    /// The name that Linux would give the process: that of the program, cut to 15 bytes and a zero.
    pub(crate) fn name(&self) -> [u8; 16] {
        let program = self.executable.rsplit('/').next().unwrap_or_default().as_bytes();
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(program.iter().take(15)) {
            *to = *from;
        }
        name
    }

    /// Process id of the parent: whatever launches jobs.
    pub(crate) const PARENT: u32 = 1;
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
    /// Name of its first thread, up to 15 bytes and zeros.
    pub(crate) name: Mutex<[u8; 16]>,
    /// The working directory: absolute, no links in it.
    pub(crate) directory: Mutex<String>,
    pub(crate) umask: AtomicU32,
    pub(crate) signals: Mutex<Signals>,
    pub(crate) account: Account,
}

/// What a process has used, as far as its parts do not count it themselves.
pub(crate) struct Account {
    /// First instruction, ns of the monotonic clock.
    pub(crate) started_ns: AtomicU64,
    /// Time it has waited since, ns.
    pub(crate) waited_ns: AtomicU64,
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
            started_ns: AtomicU64::new(clock::monotonic_ns()),
            waited_ns: AtomicU64::new(0),
            major_faults: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        }
    }

    /// Time since the first instruction, ns.
    pub(crate) fn run_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_sub(self.started_ns.load(Ordering::Relaxed))
    }

    /// Time on the processor, ns: since the start, but for the time it waited.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.run_ns().saturating_sub(self.waited_ns.load(Ordering::Relaxed))
    }
}

/// What a thread has besides its registers.
pub(crate) struct ThreadState {
    pub(crate) tid: u32,
    /// Where its end is to be announced (set_tid_address(2)). With one thread there is nobody to be told.
    pub(crate) clear_tid: AtomicU64,
    /// Blocked signals, a bit each.
    pub(crate) blocked: AtomicU64,
    pub(crate) alternate_stack: Mutex<AlternateStack>,
    /// Number of the call it waits in, or [`NO_CALL`].
    call: AtomicU64,
    /// How far that call is, bytes, if it is one that is done in parts.
    pub(crate) completed: AtomicU64,
}

/// No system call has this number.
const NO_CALL: u64 = u64::MAX;

impl ThreadState {
    /// The first thread of a process.
    pub(crate) fn first(identity: &Identity) -> Self {
        Self {
            tid: identity.pid,
            clear_tid: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            alternate_stack: Mutex::new(AlternateStack::NONE),
            call: AtomicU64::new(NO_CALL),
            completed: AtomicU64::new(0),
        }
    }

    /// It starts to make a call that may wait.
    pub(crate) fn begin_call(&self, number: u64) {
        self.call.store(number, Ordering::Relaxed);
        self.completed.store(0, Ordering::Relaxed);
    }

    /// The call is done.
    pub(crate) fn end_call(&self) {
        self.call.store(NO_CALL, Ordering::Relaxed);
    }

    /// The call it waits in.
    pub(crate) fn in_call(&self) -> Option<u64> {
        Some(self.call.load(Ordering::Relaxed)).filter(|number| *number != NO_CALL)
    }
}
