//! Two stacks on one wire, in simulated time: a wire that loses, delays and reorders frames as a seed says, and a loop
//! that runs the test's tasks and drives the stacks only when they asked for it.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use coppice_endpoint::{BufferSizes, Config, Stack};
use coppice_protocol::ids::MacAddress;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use spin::Mutex;

/// What a wire does to frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// Frames lost, of 1000.
    pub(crate) lost_per_mille: u64,
    /// Frames that take ten times as long as others, and so arrive behind later ones, of 1000.
    pub(crate) late_per_mille: u64,
    /// Delay of a frame, ns.
    pub(crate) latency_ns: u64,
    /// Frames the device takes before it must be polled again; stands for a transmit ring.
    pub(crate) ring: usize,
}

/// A wire without faults.
pub(crate) const CLEAN: Faults = Faults { lost_per_mille: 0, late_per_mille: 0, latency_ns: 20_000, ring: 32 };

pub(crate) const LEFT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 1);

/// Buffers of the size a node has.
pub(crate) const SIZES: BufferSizes = BufferSizes { receive: 256 * 1024, transmit: 256 * 1024 };

#[derive(Default)]
struct Port {
    sent: VecDeque<Vec<u8>>,
    received: VecDeque<Vec<u8>>,
    ring: usize,
}

/// One end of the wire.
#[derive(Clone)]
pub(crate) struct End(Arc<Mutex<Port>>);

impl Device for End {
    type RxToken<'a> = Frame;
    type TxToken<'a> = Self;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 9014;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Frame, Self)> {
        let frame = self.0.lock().received.pop_front()?;
        Some((Frame(frame), self.clone()))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self> {
        let port = self.0.lock();
        (port.sent.len() < port.ring).then(|| self.clone())
    }
}

pub(crate) struct Frame(Vec<u8>);

impl RxToken for Frame {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for End {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.0.lock().sent.push_back(frame);
        result
    }
}

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
    port: Arc<Mutex<Port>>,
    work: Arc<Flag>,
    next_ns: Option<u64>,
}

impl Side {
    fn new(address: Ipv4Addr, faults: Faults, seed: u64) -> Self {
        let port = Arc::new(Mutex::new(Port { ring: faults.ring, ..Port::default() }));
        let config = Config { mac: MacAddress::of(address), address, prefix: 8, seed };
        let stack = Stack::new(End(Arc::clone(&port)), config, 0);
        Self { stack, port, work: Arc::new(Flag(AtomicBool::new(true))), next_ns: None }
    }
}

/// The simulated world.
pub(crate) struct World {
    pub(crate) now_ns: u64,
    sides: [Side; 2],
    faults: Faults,
    random: u64,
    /// Frames on their way: when, number, to which side.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    pub(crate) frames: u64,
    pub(crate) polls: u64,
    tasks: Vec<Option<Task>>,
}

impl World {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let sides = [Side::new(LEFT, faults, seed), Side::new(RIGHT, faults, seed)];
        let random = seed.wrapping_mul(2) + 1;
        Self { now_ns: 0, sides, faults, random, flying: BTreeMap::new(), frames: 0, polls: 0, tasks: Vec::new() }
    }

    pub(crate) fn left(&self) -> Stack<End> {
        self.sides[0].stack.clone()
    }

    pub(crate) fn right(&self) -> Stack<End> {
        self.sides[1].stack.clone()
    }

    /// Adds a task; [`World::run`] runs it.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        self.tasks.push(Some(Task { future: Box::pin(future), woken }));
    }

    fn dice(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    /// Runs until all tasks are done. Panics if simulated time passes `limit_ns` before.
    pub(crate) fn run(&mut self, limit_ns: u64) {
        while self.tasks.iter().any(Option::is_some) {
            self.step();
            assert!(self.now_ns < limit_ns, "tasks are not done after {} s", self.now_ns / 1_000_000_000);
        }
    }

    /// Lets time pass without tasks.
    pub(crate) fn idle(&mut self, duration_ns: u64) {
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
            let has_frames = !side.port.lock().received.is_empty();
            if due || has_frames || side.work.0.swap(false, Ordering::Relaxed) {
                moved = true;
                self.polls += 1;
                side.next_ns = side.stack.poll(self.now_ns);
                side.stack.on_work(&Waker::from(Arc::clone(&side.work)));
                let sent: Vec<_> = side.port.lock().sent.drain(..).collect();
                sent.into_iter().for_each(|frame| self.put_on_wire(1 - index, frame));
            }
        }
        moved
    }

    fn put_on_wire(&mut self, to: usize, frame: Vec<u8>) {
        self.frames += 1;
        let (lost, late) = (self.dice() % 1000, self.dice() % 1000);
        if lost < self.faults.lost_per_mille {
            return;
        }
        let factor = if late < self.faults.late_per_mille { 10 } else { 1 };
        let at_ns = self.now_ns + self.faults.latency_ns * factor;
        self.flying.insert((at_ns, self.frames), (to, frame));
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
            self.sides[to].port.lock().received.push_back(frame);
        }
        true
    }
}

impl World {
    /// From now on so many of 1000 frames are lost.
    pub(crate) fn lose(&mut self, per_mille: u64) {
        self.faults.lost_per_mille = per_mille;
    }

    /// The right side is another one from now on, which knows nothing of the old one's connections.
    pub(crate) fn restart_right(&mut self) {
        self.sides[1] = Side::new(RIGHT, self.faults, 99);
    }
}
