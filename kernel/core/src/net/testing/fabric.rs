//! Any number of stacks on one switch, whose links lose and delay frames and can be cut.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_endpoint::{Config, Stack};
use coppice_protocol::ids::MacAddress;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, TxToken};
use smoltcp::time::Instant;
use spin::Mutex;

use super::{Queue, Received};
use crate::executor::{self, Notify};
use crate::net::{Card, drive};

/// What the switch does to frames.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Frames lost, of 1000.
    pub(crate) lost_per_mille: u64,
    /// Delay of a frame, ns.
    pub(crate) latency_ns: u64,
}

/// The switch. Clones are the same.
#[derive(Clone)]
pub(crate) struct Fabric {
    shared: Arc<Shared>,
}

struct Shared {
    faults: Faults,
    state: Mutex<State>,
    sent: Notify,
}

#[derive(Default)]
struct State {
    stations: BTreeMap<[u8; 6], Arc<Queue>>,
    cut: BTreeSet<[u8; 6]>,
    /// Frames on their way: when they arrive, and where.
    flying: VecDeque<(u64, [u8; 6], Vec<u8>)>,
    random: u64,
    frames: u64,
}

impl Fabric {
    pub(crate) fn new(faults: Faults) -> Self {
        let state = State { random: 0x9e37_79b9_7f4a_7c15, ..State::default() };
        let shared = Arc::new(Shared { faults, state: Mutex::new(state), sent: Notify::new() });
        let fabric = Self { shared };
        let delivering = fabric.clone();
        assert!(executor::spawn(async move { delivering.deliver().await }).is_ok());
        fabric
    }

    /// A stack with this address.
    pub(crate) fn stack(&self, address: Ipv4Addr) -> Stack<Station> {
        let mac = MacAddress::of(address);
        let received = Arc::<Queue>::default();
        self.shared.state.lock().stations.insert(mac.0, Arc::clone(&received));
        let station = Station { fabric: self.clone(), mac: mac.0, received: Arc::clone(&received) };
        let config = Config { mac, address, prefix: 8, seed: u64::from(address.to_bits()) };
        let stack = Stack::new(station, config, executor::now_ns());
        let driven = stack.clone();
        let driver = executor::spawn(drive(driven, move || {
            let received = Arc::clone(&received);
            async move { received.arrived.notified().await }
        }));
        assert!(driver.is_ok());
        stack
    }

    /// No frame reaches that station any more or comes from it.
    pub(crate) fn cut(&self, address: Ipv4Addr) {
        self.shared.state.lock().cut.insert(MacAddress::of(address).0);
    }

    /// They do again.
    pub(crate) fn mend(&self, address: Ipv4Addr) {
        self.shared.state.lock().cut.remove(&MacAddress::of(address).0);
    }

    /// Frames that were sent so far.
    pub(crate) fn frames(&self) -> u64 {
        self.shared.state.lock().frames
    }

    fn send(&self, from: [u8; 6], frame: Vec<u8>) {
        let mut to = [0; 6];
        to.copy_from_slice(&frame[..6]);
        let mut state = self.shared.state.lock();
        state.frames += 1;
        // xorshift64
        state.random ^= state.random << 13;
        state.random ^= state.random >> 7;
        state.random ^= state.random << 17;
        let is_lost = state.random % 1000 < self.shared.faults.lost_per_mille;
        if !is_lost && !state.cut.contains(&from) && !state.cut.contains(&to) {
            let at_ns = executor::now_ns() + self.shared.faults.latency_ns;
            state.flying.push_back((at_ns, to, frame));
            drop(state);
            self.shared.sent.notify();
        }
    }

    async fn deliver(&self) {
        loop {
            let first_ns = self.shared.state.lock().flying.front().map(|(at_ns, ..)| *at_ns);
            match first_ns {
                None => self.shared.sent.notified().await,
                Some(at_ns) => {
                    executor::sleep_until(at_ns).await;
                    let mut state = self.shared.state.lock();
                    if let Some((_, to, frame)) = state.flying.pop_front()
                        && let Some(station) = state.stations.get(&to)
                    {
                        station.frames.lock().push_back(frame);
                        station.arrived.notify();
                    }
                }
            }
        }
    }
}

/// A network card at the switch.
#[derive(Clone)]
pub(crate) struct Station {
    fabric: Fabric,
    mac: [u8; 6],
    received: Arc<Queue>,
}

impl Card for Station {
    fn scrub(&mut self, _force: bool) -> bool {
        true
    }

    fn keep(&mut self) {}
}

impl Device for Station {
    type RxToken<'a> = Received;
    type TxToken<'a> = Self;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 9014;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received, Self)> {
        let frame = self.received.frames.lock().pop_front()?;
        Some((Received(frame), self.clone()))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self> {
        Some(self.clone())
    }
}

impl TxToken for Station {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        self.fabric.send(self.mac, frame);
        result
    }
}
