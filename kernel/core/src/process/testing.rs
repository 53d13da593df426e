//! A process on the host whose system calls tests make, with an I/O node that the tests play.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use coppice_hal::frames::FramePool;
use coppice_hal::user::{Registers, UserThread};
use coppice_protocol::control::{Launch, Order};
use coppice_protocol::ids::{JobId, NodeId, ProgramId, Rank};
use coppice_protocol::program::tree;
use coppice_protocol::session::Channel;
use coppice_protocol::trace::Traced;
use coppice_protocol::world::{self as protocol_world, JobKey};
use spin::Mutex;

use super::clock::ProcessClock;
use super::counts::Counts;
use super::job::JobsOnNode;
use super::signals::Signals;
use super::state::Account;
use super::timers::Timers;
use super::{End, Identity, JobOnNode, NodeFacts, Process, ThreadState};
use crate::abi::INSTRUCTION_BYTES;
use crate::agent::Failures;
use crate::executor;
use crate::files::cache::LeftFiles;
use crate::files::counters::Offered;
use crate::files::locks::Locks;
use crate::files::{Closer, Descriptors, Input, Turns};
use crate::launch;
use crate::memory::{AddressSpace, Backing, Retention};
use crate::net::Network;
use crate::net::testing::{Net, Nowhere, credentials};
use crate::pmi::Pmi;
use crate::process::resources::ResourceLimits;
use crate::quota::{Quota, Store};
use crate::ship::{Client, Ship};
use crate::staging::Staging;
use crate::sync::{self, LockLevel};
use crate::thread::{LIFE_BYTES, Over, Thread};

mod beside;
mod frozen;
pub(crate) mod scripted;
mod served;
mod world;

pub(crate) use self::served::{ECHO_BYTES_MAX, ECHO_PORT};
pub(crate) use self::world::{World, small_program};

use self::served::Echoes;
use self::world::play;

/// Where the process has memory it may read and write, [`MEMORY_BYTES`] of it. Its stack grows down from the end.
pub(crate) const MEMORY: u64 = 0x1000_0000;
pub(crate) const MEMORY_BYTES: u64 = 4 * 1024 * 1024;
/// Where it has a page it may only read.
pub(crate) const READ_ONLY: u64 = 0x2000_0000;

/// The memory of all benches of a test, which no other test has at the time.
pub(crate) fn pool() -> &'static FramePool {
    std::thread_local! {
        static POOL: Lease = Lease(IDLE.lock().pop().unwrap_or_else(|| FramePool::for_host(64 * 1024 * 1024)));
    }
    POOL.with(|lease| lease.0)
}

/// Pools whose tests have ended.
static IDLE: Mutex<Vec<&'static FramePool>> = Mutex::new(Vec::new());

/// A pool, as long as the thread of a test is there.
struct Lease(&'static FramePool);

impl Drop for Lease {
    fn drop(&mut self) {
        IDLE.lock().push(self.0);
    }
}

pub(crate) fn node_facts(frames: &'static FramePool, network: Arc<dyn Network>) -> NodeFacts {
    let retention = Arc::<Retention>::default();
    let quota = Arc::new(Quota::new(Store::new(frames, retention.clone())));
    let staging = Staging::new(Arc::new(Nowhere), Arc::clone(&quota), &retention);
    let servers = Arc::new(Echoes(Arc::clone(&quota)));
    let left = LeftFiles::new(&retention);
    NodeFacts { frames, retention, left, quota, network, staging, region: None, servers }
}

/// A process and its I/O node.
pub(crate) struct Bench {
    pub(crate) process: Arc<Process>,
    pub(crate) state: Arc<ThreadState>,
    /// What the handlers that ran found in their registers. They did nothing but return.
    pub(crate) handled: Arc<Mutex<Vec<Registers>>>,
    pub(crate) world: Arc<Mutex<World>>,
    ship: Ship,
    _net: Arc<Net>,
}

fn program_id(file: &[u8]) -> ProgramId {
    ProgramId(tree::of(file).first().copied().unwrap_or_default())
}

/// A launch message of one rank of several, or of one.
pub(crate) fn order(size: u32) -> Launch {
    Launch {
        job: JobId(7),
        first: Rank(2),
        count: 1,
        size,
        program: program_id(&small_program()),
        program_bytes: 4096,
        path: "bin/test".into(),
        arguments: vec!["test".into(), "one".into()],
        environment: Vec::new(),
        directory: "/work".into(),
        user: 1,
        group: 2,
        executable: None,
        umask: 0o22,
        use_retained: false,
        keeps_files: false,
        has_manifest: false,
        world: protocol_world::World::new(JobKey([9; 32]), 1, (0..size).map(NodeId)),
        staging: None,
        traced: Traced::None,
        core_file: false,
        restore: None,
        outlives_ranks: false,
        universe: size,
        origin: None,
    }
}

/// Launches a process from this file, with the I/O node in whatever state `prepare` leaves it, and ends it by `signal`
/// after a while, if it is still there then. Processes cannot run on the host, so it is to end before.
pub(crate) fn launch(
    order: Launch,
    prepare: impl FnOnce(&mut World),
    signal: u8,
) -> coppice_protocol::control::RankReport {
    let bench = Bench::new(&[("/work/a", b"")]);
    prepare(&mut bench.world.lock());
    let file = bench.world.lock().program.clone();
    let order = Launch { program: program_id(&file), program_bytes: file.len() as u64, ..order };
    let (client, node) = (bench.process.client.clone(), bench.process.node.clone());
    let job = Arc::clone(&bench.process.job);
    let world = protocol_world::World::new(JobKey([9; 32]), 1, (0..=order.first.0).map(NodeId));
    let order = Order::from(Launch { size: order.first.0 + 1, world, ..order });
    let pmi = Pmi::new(NodeId(order.rank.0), Arc::new(Nowhere), Arc::clone(&node.quota));
    let seat = pmi.join(&order, Failures::new(|failure| panic!("{failure:?}"))).expect("a place");
    let switch = launch::KillSwitch::new();
    let killer = switch.clone();
    let launched = async move {
        let killing = executor::spawn(async move {
            executor::sleep(1_000_000_000).await;
            killer.kill(signal);
            killer.kill(99);
        });
        assert!(killing.is_ok());
        launch::launch(order, client, job, node, seat, switch, || panic!("it cannot be started")).await
    };
    executor::run_to_end(launched).expect("it is killed at the latest")
}

/// A thread that can be made to make calls.
pub(crate) fn idle(process: &Arc<Process>, state: &Arc<ThreadState>) -> Thread {
    Thread::new(0, Arc::clone(process), Arc::clone(state), UserThread::new(0x1000, MEMORY + MEMORY_BYTES))
}

/// Holds a process again and again for as long as this is there, if the tests are to be run so: nothing may come of it.
struct Disturbance(Arc<AtomicBool>);

impl Disturbance {
    /// How long a hold takes at most, ns.
    const LONGEST_NS: u64 = 1_000_000;

    fn begin(process: &Arc<Process>) -> Self {
        const EVERY_NS: u64 = 7_300_000;
        let over = Arc::new(AtomicBool::new(std::env::var_os("COPPICE_HOLD_CALLS").is_none()));
        let (process, is_over) = (Arc::downgrade(process), Arc::clone(&over));
        if !over.load(Ordering::Relaxed) {
            let disturbing = async move {
                while !is_over.load(Ordering::Relaxed)
                    && let Some(process) = process.upgrade()
                {
                    let held = process.hold();
                    drop(process);
                    // Threads that nobody runs are not held, ever.
                    let _ = held.settled(executor::now_ns() + Self::LONGEST_NS).await;
                    drop(held);
                    executor::sleep(EVERY_NS).await;
                }
            };
            assert!(executor::spawn(disturbing).is_ok());
        }
        Self(over)
    }

    /// Comes to an end.
    async fn over(self) {
        drop(self);
        executor::sleep(2 * Self::LONGEST_NS).await;
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The end of the process that this means.
fn end_of(over: Over) -> End {
    match over {
        Over::Process(end) => end,
        Over::Thread(status) => End::status(status),
        Over::Move(core) => panic!("it was to go to core {core}"),
    }
}

/// A rank that runs, with some memory.
fn process(order: &Order, client: Client, job: Arc<JobOnNode>, node: NodeFacts) -> Arc<Process> {
    const RW: u64 = 3;
    const FIXED: u64 = 0x32;
    let mut space = AddressSpace::new(node.frames, Arc::clone(&node.retention)).expect("memory");
    space.map(MEMORY, MEMORY_BYTES, RW, FIXED, Backing::Zero).expect("room");
    space.map(READ_ONLY, 4096, 1, FIXED, Backing::Zero).expect("room");
    let identity = Identity::of(order);
    let charge = node.quota.charge(Process::bytes(1)).expect("memory");
    let files = Descriptors::standard(Input::new(client.clone(), &node.quota), &node.quota);
    let closer = Closer::new(client.clone(), Arc::clone(&job.cache));
    let process = Arc::new(Process {
        threads: Arc::new(identity.threads(&order.world, LIFE_BYTES)),
        signals: sync::Mutex::new(LockLevel::Signals, Signals::charged(identity.pid, &node.quota)),
        clock: ProcessClock::new(),
        timers: Timers::new(),
        locks: Locks::new(&node.quota),
        cores: 1,
        counts: Counts::default(),
        offered: Offered::none(&node.quota),
        own_address: spin::Once::new(),
        profile: crate::process::profile::Profile::none(),
        trace: crate::process::trace::Trace::new(),
        sent_to: crate::process::sent_to::SentTo::none(),
        identity,
        job,
        node,
        closer,
        files: sync::Mutex::new(LockLevel::Descriptors, files),
        client,
        space: sync::Mutex::new(LockLevel::Space, space),
        directory: sync::Mutex::new(LockLevel::Fact, order.directory.clone()),
        umask: AtomicU32::new(order.umask),
        limits: ResourceLimits::new(),
        account: Account::new(),
        remembered: Default::default(),
        own_page: Turns::new(),
        charge,
    });
    process.job.join(&process);
    process
}

impl Bench {
    /// The only rank of a job, with these files at the I/O node.
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        Self::with_size(1, files)
    }

    /// One rank of `size`.
    pub(crate) fn with_size(size: u32, files: &[(&str, &[u8])]) -> Self {
        Self::with_memory(pool(), size, files)
    }

    /// The same on a node with this memory.
    pub(crate) fn with_memory(frames: &'static FramePool, size: u32, files: &[(&str, &[u8])]) -> Self {
        Self::with_order(frames, order(size), files)
    }

    /// One rank that was launched so.
    pub(crate) fn with_order(frames: &'static FramePool, order: Launch, files: &[(&str, &[u8])]) -> Self {
        let net = Net::new();
        let world = World {
            files: files.iter().map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.to_vec())).collect(),
            program: small_program(),
            ..World::default()
        };
        let world = Arc::new(Mutex::new(world));
        let ship = Ship::new();
        let shipping = ship.clone();
        let order = Order::from(order);
        let client = ship.client(order.job, order.rank);
        let dial = net.dial();
        assert!(executor::spawn(play(net.listen(Channel::Ship), Arc::clone(&world))).is_ok());
        assert!(executor::spawn(async move { shipping.keep_connected(dial, credentials()).await }).is_ok());
        let jobs = Arc::new(JobsOnNode::default());
        let node = node_facts(frames, Arc::new(net.dial.stack.clone()));
        let process =
            process(&order, client, jobs.enter(&order, (frames, &node.left), &node.quota).expect("memory"), node);
        let state = process.threads.add(process.identity.name(), process.cores, &process.node.quota).expect("room");
        Self { process, state, handled: Arc::default(), world, ship, _net: Arc::new(net) }
    }

    /// Another rank of the job, on the same node, with this network if it is to be another.
    pub(crate) fn sibling(&self, network: Option<Arc<dyn Network>>) -> Self {
        let Identity { size, rank, .. } = self.process.identity;
        let order = Order::from(Launch { first: Rank(rank.0 + 1), ..order(size) });
        let mut node = self.process.node.clone();
        node.network = network.unwrap_or(node.network);
        let client = self.ship.client(order.job, order.rank);
        let process = process(&order, client, Arc::clone(&self.process.job), node);
        let state = process.threads.add(process.identity.name(), process.cores, &process.node.quota).expect("room");
        Self {
            process,
            state,
            handled: Arc::default(),
            world: Arc::clone(&self.world),
            ship: self.ship.clone(),
            _net: Arc::clone(&self._net),
        }
    }

    /// Makes a call to its end: what the program would find in `rax`, or how the process ended.
    pub(crate) fn try_call(&self, number: u32, arguments: &[u64]) -> Result<i64, End> {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let handled = Arc::clone(&self.handled);
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let made = executor::run_to_end(async move {
            let mut thread = idle(&process, &state);
            let _disturbance = Disturbance::begin(&process);
            thread.make(number.into(), all, &handled).await.map_err(end_of)
        });
        made.expect("waits for something that comes").map(u64::cast_signed)
    }

    /// As [`Self::try_call`], but for a while only: `None` if the call still waits then.
    pub(crate) fn attempt(&self, number: u32, arguments: &[u64; 6]) -> Option<Result<i64, End>> {
        let (process, state, all) = (Arc::clone(&self.process), Arc::clone(&self.state), *arguments);
        let handled = Arc::clone(&self.handled);
        let made = executor::run_to_end(async move {
            let mut thread = idle(&process, &state);
            let _disturbance = Disturbance::begin(&process);
            let made = executor::timeout(100_000_000_000, thread.make(number.into(), all, &handled)).await.ok();
            made.map(|made| made.map_err(end_of))
        });
        made.expect("a time limit").map(|result| result.map(u64::cast_signed))
    }

    /// As [`Self::try_call`], of a call that does not end the process.
    pub(crate) fn call(&self, number: u32, arguments: &[u64]) -> i64 {
        self.try_call(number, arguments).expect("the process goes on")
    }

    /// Makes a call that is dropped while it waits, after a while. Gives what the thread's registers then say of it
    /// (its number, and whether they are behind the instruction), and how far it says it was.
    pub(crate) fn drop_call(&self, number: u32, arguments: &[u64]) -> (u64, bool, u64) {
        let (process, state) = (Arc::clone(&self.process), Arc::clone(&self.state));
        let handled = Arc::clone(&self.handled);
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let dropped = executor::run_to_end(async move {
            let mut thread = idle(&process, &state);
            let made = executor::timeout(5_000_000_000, thread.make(number.into(), all, &handled)).await;
            assert!(made.is_err(), "it was to wait");
            let (rax, rip) = thread.position();
            assert_eq!(state.in_call(), Some(number.into()));
            (rax, rip == 0x1000 + INSTRUCTION_BYTES, state.pending().done)
        });
        dropped.expect("the time limit")
    }

    /// Puts bytes into the process's memory, `offset` behind its start. Gives their address.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) -> u64 {
        assert!(self.process.space.lock().write_bytes(MEMORY + offset, bytes).is_ok());
        MEMORY + offset
    }

    /// Puts a path or other string, with its zero.
    pub(crate) fn text(&self, offset: u64, text: impl AsRef<[u8]>) -> u64 {
        self.put(offset, &[text.as_ref(), &[0]].concat())
    }

    /// Bytes of the process's memory.
    pub(crate) fn get(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        assert!(self.process.space.lock().read_bytes(MEMORY + offset, &mut bytes).is_ok());
        bytes
    }

    /// Opens a file; its descriptor or −errno.
    pub(crate) fn open(&self, path: impl AsRef<[u8]>, flags: u32) -> i64 {
        let path = self.text(0, path);
        self.call(coppice_protocol::syscalls::OPEN, &[path, flags.into(), 0o666])
    }

    /// Lets everything that is under way come to its end.
    pub(crate) fn rest(&self) {
        let process = Arc::clone(&self.process);
        let resting = executor::run_to_end(async move {
            let disturbance = Disturbance::begin(&process);
            executor::sleep(1_000_000_000 - 2 * Disturbance::LONGEST_NS).await;
            disturbance.over().await;
        });
        assert!(resting.is_ok());
    }

    /// The file at the I/O node.
    pub(crate) fn file(&self, path: impl AsRef<[u8]>) -> Vec<u8> {
        self.world.lock().files.get(path.as_ref()).cloned().unwrap_or_default()
    }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + index / 257) as u8).collect()
}
