//! The stack: one device, an IPv4 address in each of its networks, many sockets, moved on by [`Stack::poll`].

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;
use core::task::{Poll, Waker};

use coppice_protocol::ids::MacAddress;
use coppice_protocol::world::{NetworkTag, NodeRange};
use smoltcp::phy::Device;
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::Ipv4Cidr;
use spin::Mutex;

use self::listen::{Listener, Place};
use self::net::Net;
use self::table::Key;
use crate::accounts::Lender;
use crate::cell::{Cell, Readiness};
use crate::ethernet::Framed;
use crate::limits::{DEVICE_RETRY_NS, FRAMES_PER_POLL_MAX, TIME_SCALE};
use crate::listener::TcpListener;
use crate::stream::TcpStream;
use crate::{JobNetwork, NetError};

pub(crate) mod again;
pub(crate) mod aside;
mod datagrams;
mod ingest;
mod life;
pub(crate) mod listen;
mod lost;
pub(crate) mod net;
mod node;
pub(crate) mod owner;
pub(crate) mod ports;
mod quiet;
mod scrub;
pub(crate) mod settle;
pub(crate) mod sides;
mod silence;
mod stall;
pub(crate) mod table;
#[cfg(test)]
mod tests;

/// Who a stack is.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its Ethernet address, as [`MacAddress::of`] computes it from `address`.
    pub mac: MacAddress,
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Length of the network's prefix, bits (more than 32 counts as 32).
    pub prefix: u8,
    /// Where its random numbers (sequence numbers, first port) start.
    pub seed: u64,
}

/// What programs' sockets may have of a stack.
#[derive(Clone, Debug)]
pub struct UserConfig {
    /// Memory for their buffers, bytes.
    pub buffer_bytes: usize,
    /// Ports that no program can bind.
    pub reserved_ports: RangeInclusive<u16>,
    /// Zeroes bytes that programs sent or received, in place.
    pub wipe: fn(&mut [u8]),
}

/// Buffers of one connection.
#[derive(Clone, Copy, Debug)]
pub struct BufferSizes {
    /// Received and not yet read, bytes: also the window the peer may fill.
    pub receive: usize,
    /// Written and not yet acknowledged, bytes.
    pub transmit: usize,
}

/// TCP/IP on one device. Clones are handles to the same stack.
pub struct Stack<D: Device> {
    shared: Arc<Shared<D>>,
}

impl<D: Device> Clone for Stack<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<D: Device> {
    state: Mutex<State<D>>,
    work: Mutex<Work>,
}

/// Whether an application gave the stack something to do since the last poll, and who wants to know.
#[derive(Default)]
struct Work {
    queued: bool,
    driver: Option<Waker>,
}

/// What is behind the lock.
struct State<D: Device> {
    device: Framed<D>,
    net: Net,
}

fn stack_time(now_ns: u64) -> Instant {
    Instant::from_micros(i64::try_from(now_ns / 1000 * TIME_SCALE).unwrap_or(i64::MAX))
}

pub(crate) fn stack_duration(ns: u64) -> Duration {
    Duration::from_micros(ns / 1000 * TIME_SCALE)
}

/// The first nanosecond at which the stack's clock shows `instant`.
fn clock_time(instant: Instant) -> u64 {
    u64::try_from(instant.total_micros()).unwrap_or(0).div_ceil(TIME_SCALE) * 1000
}

impl<D: Device> Stack<D> {
    /// A stack on `device`, which must be an Ethernet one. `now_ns` is the time of the clock that [`Self::poll`] will
    /// be called with.
    pub fn new(device: D, config: Config, now_ns: u64) -> Self {
        let network = Ipv4Cidr::new(config.address, config.prefix.min(32));
        let broadcast = network.broadcast().unwrap_or(Ipv4Addr::BROADCAST);
        let mut device = Framed::new(device, config.mac, broadcast);
        let net = Net::new(&config, &mut device, now_ns);
        let (state, work) = (Mutex::new(State { device, net }), Mutex::default());
        Self { shared: Arc::new(Shared { state, work }) }
    }

    /// Says what programs' sockets may have from now on.
    pub fn set_user_config(&self, config: UserConfig) {
        self.with_net(|net| {
            net.accounts.set_budget(config.buffer_bytes);
            net.ports.reserve(config.reserved_ports);
            net.wipe = config.wipe;
        });
    }

    /// Has `lender` asked for the memory of programs' sockets before it is taken, and told when it is given back. It
    /// must not call into the stack. To be called once.
    pub fn borrow_from(&self, lender: Arc<dyn Lender>) {
        self.with_net(|net| net.accounts.borrow_from(lender));
    }

    /// This node's address in the cluster.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.with_net(|net| net.address())
    }

    /// This node's address in the job that is here.
    #[must_use]
    pub fn job_address(&self) -> Option<Ipv4Addr> {
        self.with_net(|net| net.job_address())
    }

    /// Largest IP packet in the network of the job that is here, bytes.
    #[must_use]
    pub fn job_mtu(&self) -> Option<usize> {
        self.with_net(|net| net.sides.job.as_ref().map(|job| job.side.mtu))
    }

    /// Whether this is the job that is here.
    #[must_use]
    pub fn is_in_job(&self, tag: NetworkTag) -> bool {
        self.with_net(|net| net.sides.job.as_ref().is_some_and(|job| job.network.tag() == tag))
    }

    /// Programs' sockets are in this job's network from now on, until [`Self::leave_job`]; one that is there before is
    /// left. Its random numbers start at `seed`. `now_ns` as for [`Self::poll`].
    pub fn enter_job(&self, job: JobNetwork, seed: u64, now_ns: u64) {
        let mut state = self.shared.state.lock();
        let State { device, net } = &mut *state;
        let left = net.leave_job(device);
        net.sides.enter(job, seed, device, now_ns);
        drop(state);
        drop(left);
    }

    /// Nodes have come to the network of this job: the first of them has the number `first` in it. `kept` is kept with
    /// the network. How many nodes it has then, of which all are known here: as many as before if these are there
    /// already, are not the next, or there is no memory. `None`: the job is not here.
    pub fn join_job(
        &self,
        tag: NetworkTag,
        first: u32,
        nodes: &[NodeRange],
        kept: Box<dyn Send + Sync>,
    ) -> Option<u32> {
        let mut state = self.shared.state.lock();
        let State { device, net } = &mut *state;
        net.sides.join(tag, (first, nodes), kept, device)
    }

    /// How many nodes the network of the job that is here has.
    #[must_use]
    pub fn job_nodes(&self) -> Option<u32> {
        self.with_net(|net| net.sides.job.as_ref().map(|job| job.network.count()))
    }

    /// Programs' sockets reach nobody any more but sockets of this node: what comes for the job is for nobody, and what
    /// has not gone does not go.
    pub fn leave_job(&self) {
        let mut state = self.shared.state.lock();
        let State { device, net } = &mut *state;
        let left = net.leave_job(device);
        drop(state);
        drop(left);
    }

    /// Sockets of programs: open ones, connections that wait to be accepted, and closed ones whose bytes are still on
    /// their way.
    #[must_use]
    pub fn user_sockets(&self) -> usize {
        self.with_net(|net| net.accounts.sockets())
    }

    /// Takes frames from the device, moves connections on, and sends what there is to send. Returns when it wants
    /// to be called again, in ns of the same clock; `None`: not before a frame arrives or work is queued.
    pub fn poll(&self, now_ns: u64) -> Option<u64> {
        self.shared.work.lock().queued = false;
        self.shared.state.lock().poll(now_ns)
    }

    /// Sends what applications have queued, without waiting for the driver's turn; frames that came stay where they
    /// are. For whoever gives the processor to something else for long, as a kernel does that returns to a program.
    pub fn push(&self, now_ns: u64) {
        if !self.shared.state.lock().push(now_ns) {
            self.kick();
        }
    }

    /// Calls `f` with the device.
    pub fn with_device<R>(&self, f: impl FnOnce(&mut D) -> R) -> R {
        f(&mut self.shared.state.lock().device.device)
    }

    /// Wakes `driver` once an application has queued work since the last [`Self::poll`], which may be at once.
    pub fn on_work(&self, driver: &Waker) {
        let mut work = self.shared.work.lock();
        if work.queued {
            driver.wake_by_ref();
        } else if !work.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            work.driver = Some(driver.clone());
        }
    }

    /// Tells the driver that there is something to send.
    pub(crate) fn kick(&self) {
        let mut work = self.shared.work.lock();
        work.queued = true;
        if let Some(driver) = work.driver.take() {
            driver.wake();
        }
    }

    pub(crate) fn with_net<R>(&self, f: impl FnOnce(&mut Net) -> R) -> R {
        f(&mut self.shared.state.lock().net)
    }

    /// Calls `f` with a socket, if it is still there.
    pub(crate) fn with_socket<R>(&self, key: Key, f: impl FnOnce(&mut tcp::Socket<'static>) -> R) -> Option<R> {
        self.with_net(|net| net.table.get_mut(key).map(|entry| f(entry.socket_mut())))
    }

    /// Has a socket asked for what it has to send.
    pub(crate) fn kick_socket(&self, key: Key) {
        self.with_net(|net| net.table.enqueue(key));
        self.kick();
    }

    /// Connects to `address`:`port`. Waits without limit for a peer that does not answer; dropping the future gives up.
    ///
    /// # Errors
    /// [`NetError::Refused`] if nobody listens there, [`NetError::Address`] if nobody ever could, and
    /// [`NetError::TooManySockets`].
    pub async fn connect(&self, address: Ipv4Addr, port: u16, sizes: BufferSizes) -> Result<TcpStream<D>, NetError> {
        let key = self.with_net(|net| net.connect(address, port, sizes))?;
        // From here on the stream owns the socket: dropped while waiting, it aborts.
        let stream = TcpStream::new(self.clone(), key, (address, port));
        self.kick();
        let outcome = poll_fn(|context| {
            let outcome = self.with_socket(key, |socket| match socket.state() {
                TcpState::SynSent | TcpState::SynReceived => {
                    socket.register_recv_waker(context.waker());
                    Poll::Pending
                }
                TcpState::Closed => Poll::Ready(Err(NetError::Refused)),
                _ => Poll::Ready(Ok(())),
            });
            outcome.unwrap_or(Poll::Ready(Err(NetError::Refused)))
        })
        .await;
        outcome.map(|()| stream)
    }

    /// Listens on `port`. At most `backlog` connections may be waiting to be accepted; further ones are refused. One
    /// for which there is no socket is not answered.
    ///
    /// # Errors
    /// [`NetError::PortInUse`], and [`NetError::Address`] for port 0.
    pub fn listen(&self, port: u16, backlog: usize, sizes: BufferSizes) -> Result<TcpListener<D>, NetError> {
        let place = Place { port, address: Ipv4Addr::UNSPECIFIED };
        let cell = Arc::new(Cell::new(Readiness::NONE));
        let listener = Listener::new(Some(sizes), backlog.max(1), Arc::clone(&cell));
        let claim = self.with_net(|net| net.listen(place, listener))?;
        Ok(TcpListener::new(self.clone(), place, claim, cell))
    }
}

impl<D: Device> State<D> {
    fn poll(&mut self, now_ns: u64) -> Option<u64> {
        let now = stack_time(now_ns);
        let Self { device, net } = self;
        device.exhausted = false;
        net.sides.cluster.interface.poll_maintenance(now);
        let mut taken = 0;
        while taken < FRAMES_PER_POLL_MAX
            && device.take(now, |realm, packet, transmit| net.take(now, realm, packet, transmit))
        {
            taken += 1;
        }
        net.table.ring(now);
        let left = net.send(now, device, FRAMES_PER_POLL_MAX);
        if taken == FRAMES_PER_POLL_MAX || left == 0 {
            return Some(now_ns);
        }
        // Who is still in the queue waits for room in the device.
        let retry_ns = (!net.table.is_idle() || !net.datagrams.is_idle() || !net.own_datagrams.is_idle())
            .then_some(now_ns + DEVICE_RETRY_NS);
        let timer_ns = net.table.first_timer().map(clock_time);
        retry_ns.into_iter().chain(timer_ns).min()
    }

    /// False: there may be more.
    fn push(&mut self, now_ns: u64) -> bool {
        self.device.exhausted = false;
        self.net.send(stack_time(now_ns), &mut self.device, FRAMES_PER_POLL_MAX) > 0
    }
}
