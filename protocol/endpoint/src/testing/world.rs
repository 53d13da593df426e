//! Two stacks in simulated time: a wire that loses, delays, reorders and doubles frames as a seed says, and a loop that
//! runs the test's tasks when they were woken and drives the stacks when they asked for it, and not otherwise.

use std::boxed::Box;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::vec::Vec;

use coppice_protocol::ids::{JobId, JobNode, MacAddress, NodeId};
use coppice_protocol::world::{JobKey, World as JobNodes};

use super::wire::End;
use crate::{BufferSizes, Config, JobNetwork, Stack};

/// What a wire does to frames.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Frames lost, of 1000.
    pub lost_per_mille: u64,
    /// Frames that take ten times as long as others, and so arrive behind later ones, of 1000.
    pub late_per_mille: u64,
    /// Frames that arrive twice, of 1000.
    pub doubled_per_mille: u64,
    /// Delay of a frame, ns.
    pub latency_ns: u64,
    /// Frames the device takes before it must be polled again; stands for a transmit ring.
    pub ring: usize,
}

/// A wire without faults.
pub const CLEAN: Faults =
    Faults { lost_per_mille: 0, late_per_mille: 0, doubled_per_mille: 0, latency_ns: 20_000, ring: 32 };

/// The left stack's address in the cluster.
pub const LEFT: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 2);
/// The right stack's address in the cluster.
pub const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 1);
/// The left stack's address in the job that is on both.
pub const JOB_LEFT: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 1);
/// The right stack's address in the job.
pub const JOB_RIGHT: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 2);
/// The address of a third node of the job, which is switched off.
pub const JOB_THIRD: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 3);

/// The network of a job with so many of the nodes, left and right first, on one of them.
///
/// # Panics
/// If `own` is none of them.
#[must_use]
pub fn job_network(job: u64, nodes: usize, own: u32) -> JobNetwork {
    let key = JobKey([3; 32]);
    let tag = key.network_tag(JobId(job));
    let world = JobNodes::new(key, 1, [1, 0, 2].into_iter().take(nodes).map(NodeId));
    JobNetwork::new(tag, &world, JobNode(own)).expect("a node of the job")
}

/// Buffers of the size a node has.
pub const SIZES: BufferSizes = BufferSizes { receive: 256 * 1024, transmit: 256 * 1024 };

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Flag>,
}

struct Side {
    stack: Stack<End>,
    end: End,
    work: Arc<Flag>,
    next_ns: Option<u64>,
}

impl Side {
    fn new(address: Ipv4Addr, faults: Faults, seed: u64) -> Self {
        let end = End::loose(faults.ring);
        let config = Config { mac: MacAddress::of(address), address, prefix: 8, seed };
        let stack = Stack::new(end.clone(), config, 0);
        stack.enter_job(job_network(1, 3, u32::from(address == RIGHT)), seed, 0);
        Self { stack, end, work: Arc::new(Flag(AtomicBool::new(true))), next_ns: None }
    }
}

/// The simulated world.
pub struct World {
    /// Simulated time.
    pub now_ns: u64,
    sides: [Side; 2],
    faults: Faults,
    random: u64,
    /// Frames on their way: when, number, to which side.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    /// Frames that were sent so far.
    pub frames: u64,
    /// How often a stack was polled so far.
    pub polls: u64,
    tasks: Vec<Option<Task>>,
    /// Frames that were sent, if they are to be kept.
    kept: Option<Vec<Vec<u8>>>,
}

impl World {
    /// A world at time 0.
    #[must_use]
    pub fn new(faults: Faults, seed: u64) -> Self {
        let sides = [Side::new(LEFT, faults, seed), Side::new(RIGHT, faults, seed)];
        let random = seed.wrapping_mul(2) + 1;
        Self {
            now_ns: 0,
            sides,
            faults,
            random,
            flying: BTreeMap::new(),
            frames: 0,
            polls: 0,
            tasks: Vec::new(),
            kept: None,
        }
    }

    /// The left stack.
    #[must_use]
    pub fn left(&self) -> Stack<End> {
        self.sides[0].stack.clone()
    }

    /// The right stack.
    #[must_use]
    pub fn right(&self) -> Stack<End> {
        self.sides[1].stack.clone()
    }

    /// Adds a task; [`World::run`] runs it.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        self.tasks.push(Some(Task { future: Box::pin(future), woken }));
    }

    /// Runs until all tasks are done, one that is added for this among them, and gives what that comes to.
    ///
    /// # Panics
    /// If that takes longer than `for_ns`.
    pub fn finish<R: 'static>(&mut self, future: impl Future<Output = R> + 'static, for_ns: u64) -> R {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.spawn(async move {
            let value = future.await;
            *slot.borrow_mut() = Some(value);
        });
        self.run(self.now_ns + for_ns);
        result.take().expect("all tasks are done")
    }

    fn dice(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// Runs until all tasks are done.
    ///
    /// # Panics
    /// If simulated time passes `limit_ns` before.
    pub fn run(&mut self, limit_ns: u64) {
        while self.tasks.iter().any(Option::is_some) {
            self.step();
            assert!(self.now_ns < limit_ns, "tasks are not done after {} s", self.now_ns / 1_000_000_000);
        }
    }

    /// Lets time pass without tasks.
    pub fn idle(&mut self, duration_ns: u64) {
        let end_ns = self.now_ns + duration_ns;
        while self.now_ns < end_ns && (self.poll_tasks() || self.poll_stacks() || self.advance(end_ns)) {}
        self.now_ns = end_ns;
    }

    fn step(&mut self) {
        let moved = self.poll_tasks() | self.poll_stacks();
        assert!(moved || self.advance(u64::MAX), "nothing can happen any more");
    }

    fn poll_tasks(&mut self) -> bool {
        let mut moved = false;
        for slot in &mut self.tasks {
            let Some(task) = slot else { continue };
            if task.woken.0.swap(false, Ordering::Relaxed) {
                moved = true;
                let waker = Waker::from(Arc::clone(&task.woken));
                if task.future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
                    *slot = None;
                }
            }
        }
        moved
    }

    fn poll_stacks(&mut self) -> bool {
        let mut moved = false;
        for index in 0..2 {
            let side = &mut self.sides[index];
            let due = side.next_ns.is_some_and(|next_ns| next_ns <= self.now_ns);
            let has_frames = side.end.has_frames();
            if due || has_frames || side.work.0.swap(false, Ordering::Relaxed) {
                moved = true;
                self.polls += 1;
                side.next_ns = side.stack.poll(self.now_ns);
                side.stack.on_work(&Waker::from(Arc::clone(&side.work)));
                let sent = side.end.take_sent();
                sent.into_iter().for_each(|frame| self.put_on_wire(1 - index, frame));
            }
        }
        moved
    }

    fn put_on_wire(&mut self, to: usize, frame: Vec<u8>) {
        self.frames += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(frame.clone());
        }
        let (lost, late, doubled) = (self.dice() % 1000, self.dice() % 1000, self.dice() % 1000);
        if lost < self.faults.lost_per_mille {
            return;
        }
        let factor = if late < self.faults.late_per_mille { 10 } else { 1 };
        let at_ns = self.now_ns + self.faults.latency_ns * factor;
        if doubled < self.faults.doubled_per_mille {
            let again_ns = at_ns + self.faults.latency_ns * (self.dice() % 8);
            self.flying.insert((again_ns, 2 * self.frames + 1), (to, frame.clone()));
        }
        self.flying.insert((at_ns, 2 * self.frames), (to, frame));
    }

    /// Goes to the next event, at most to `limit_ns`. False: there is none.
    fn advance(&mut self, limit_ns: u64) -> bool {
        let timers = self.sides.iter().filter_map(|side| side.next_ns).min();
        let frame = self.flying.first_key_value().map(|(key, _)| key.0);
        let Some(next_ns) = timers.into_iter().chain(frame).min() else { return false };
        if next_ns > limit_ns {
            return false;
        }
        self.now_ns = self.now_ns.max(next_ns);
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now_ns {
                break;
            }
            let (to, frame) = entry.remove();
            self.sides[to].end.put(frame);
        }
        true
    }
}

impl World {
    /// From now on so many of 1000 frames are lost.
    pub fn lose(&mut self, per_mille: u64) {
        self.faults.lost_per_mille = per_mille;
    }

    /// Frames that are sent from now on are kept.
    pub fn keep_frames(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Frames that were sent since they are kept, or since the last call.
    pub fn take_frames(&mut self) -> Vec<Vec<u8>> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Has the right side receive a frame.
    pub fn put_right(&mut self, frame: Vec<u8>) {
        self.sides[1].end.put(frame);
    }

    /// Both sides are others from now on, which know nothing of the old ones' connections, and nothing is on the wire.
    pub fn restart(&mut self) {
        self.flying.clear();
        self.sides = [Side::new(LEFT, self.faults, 98), Side::new(RIGHT, self.faults, 99)];
    }

    /// The right side is another one from now on, which knows nothing of the old one's connections.
    pub fn restart_right(&mut self) {
        self.sides[1] = Side::new(RIGHT, self.faults, 99);
    }
}
