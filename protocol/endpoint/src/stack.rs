//! The stack: one device, one IPv4 address, many TCP sockets, moved on by [`Stack::poll`].

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::net::Ipv4Addr;
use core::task::{Poll, Waker};

use coppice_protocol::ids::MacAddress;
use smoltcp::iface::{self, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::Device;
use smoltcp::socket::Socket;
use smoltcp::socket::tcp::{self, State as TcpState};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Cidr};
use spin::Mutex;

use crate::NetError;
use crate::ethernet::Framed;
use crate::limits::{
    ACKNOWLEDGE_DELAY_NS, CLOSING_MAX, DEVICE_RETRY_NS, FRAMES_PER_POLL_MAX, SOCKETS_MAX, TIME_SCALE,
    UNACKNOWLEDGED_NS_MAX,
};
use crate::listener::TcpListener;
use crate::stream::TcpStream;

mod scrub;
#[cfg(test)]
mod tests;

/// First of the ports that outgoing connections use.
const EPHEMERAL_FIRST: u16 = 49_152;
/// How many of them there are.
const EPHEMERAL_COUNT: u16 = 16_384;

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

pub(crate) struct State<D: Device> {
    pub(crate) interface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    device: Framed<D>,
    /// Sockets whose streams are gone, oldest first; removed when the peer has closed too.
    closing: Vec<SocketHandle>,
    next_port: u16,
    socket_count: usize,
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
        let mut interface_config = iface::Config::new(HardwareAddress::Ip);
        interface_config.random_seed = config.seed;
        let mut interface = Interface::new(interface_config, &mut device, stack_time(now_ns));
        interface.update_ip_addrs(|addresses| {
            // The list is empty and holds at least one.
            let _ = addresses.push(IpCidr::Ipv4(network));
        });
        let next_port = EPHEMERAL_FIRST + (config.seed >> 16) as u16 % EPHEMERAL_COUNT;
        let sockets = SocketSet::new(Vec::new());
        let state = State { interface, sockets, device, closing: Vec::new(), next_port, socket_count: 0 };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), work: Mutex::new(Work::default()) }) }
    }

    /// Takes frames from the device, moves every connection on, and sends what there is to send. Returns when it wants
    /// to be called again, in ns of the same clock; `None`: not before a frame arrives or work is queued.
    pub fn poll(&self, now_ns: u64) -> Option<u64> {
        self.shared.work.lock().queued = false;
        self.shared.state.lock().poll(now_ns)
    }

    /// Calls `f` with the device.
    pub fn with_device<R>(&self, f: impl FnOnce(&mut D) -> R) -> R {
        f(&mut self.shared.state.lock().device.device)
    }

    /// Like [`Self::with_device`], but gives up when the stack is in use: for a dying kernel's last words.
    pub fn try_poll(&self, now_ns: u64) -> Option<()> {
        self.shared.state.try_lock()?.poll(now_ns);
        Some(())
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

    pub(crate) fn with_state<R>(&self, f: impl FnOnce(&mut State<D>) -> R) -> R {
        f(&mut self.shared.state.lock())
    }

    pub(crate) fn with_socket<R>(&self, handle: SocketHandle, f: impl FnOnce(&mut tcp::Socket<'static>) -> R) -> R {
        f(self.shared.state.lock().sockets.get_mut(handle))
    }

    /// Connects to `address`:`port`. Waits without limit for a peer that does not answer; dropping the future gives up.
    ///
    /// # Errors
    /// [`NetError::Refused`] if nobody listens there, [`NetError::Address`] if nobody ever could, and
    /// [`NetError::TooManySockets`].
    pub async fn connect(&self, address: Ipv4Addr, port: u16, sizes: BufferSizes) -> Result<TcpStream<D>, NetError> {
        let handle = self.with_state(|state| state.start_connecting(address, port, sizes))?;
        // From here on the stream owns the socket: dropped while waiting, it aborts.
        let stream = TcpStream::new(self.clone(), handle, (address, port));
        self.kick();
        let outcome = poll_fn(|context| {
            self.with_socket(handle, |socket| match socket.state() {
                TcpState::SynSent | TcpState::SynReceived => {
                    socket.register_recv_waker(context.waker());
                    Poll::Pending
                }
                TcpState::Closed => Poll::Ready(Err(NetError::Refused)),
                _ => Poll::Ready(Ok(())),
            })
        })
        .await;
        outcome.map(|()| stream)
    }

    /// Listens on `port`. At most `backlog` connections may be waiting to be accepted; further ones are refused.
    ///
    /// # Errors
    /// [`NetError::PortInUse`], [`NetError::Address`] for port 0 and [`NetError::TooManySockets`].
    pub fn listen(&self, port: u16, backlog: usize, sizes: BufferSizes) -> Result<TcpListener<D>, NetError> {
        let handles = self.with_state(|state| state.start_listening(port, backlog.max(1), sizes))?;
        Ok(TcpListener::new(self.clone(), port, sizes, handles))
    }
}

impl<D: Device> State<D> {
    fn poll(&mut self, now_ns: u64) -> Option<u64> {
        let now = stack_time(now_ns);
        let Self { interface, sockets, device, .. } = self;
        device.exhausted = false;
        interface.poll_maintenance(now);
        let taken = (0..FRAMES_PER_POLL_MAX)
            .take_while(|_| interface.poll_ingress_single(now, device, sockets) != PollIngressSingleResult::None)
            .count();
        self.watch_silent_peers();
        let Self { interface, sockets, device, .. } = self;
        while interface.poll_egress(now, device, sockets) != PollResult::None {}
        self.remove_closed();
        if taken == FRAMES_PER_POLL_MAX {
            return Some(now_ns);
        }
        let exhausted = self.device.exhausted;
        self.interface.poll_at(now, &self.sockets).map(|next| match clock_time(next) {
            // Nothing moves before the device has room again (or, without that, the stack would spin).
            next_ns if exhausted || next_ns <= now_ns => now_ns + DEVICE_RETRY_NS,
            next_ns => next_ns,
        })
    }

    /// Starts or stops, per connection, the clock after which a peer that acknowledges nothing is given up.
    fn watch_silent_peers(&mut self) {
        let limit = stack_duration(UNACKNOWLEDGED_NS_MAX);
        for (_, socket) in self.sockets.iter_mut() {
            let Socket::Tcp(socket) = socket else { continue };
            let waits = match socket.state() {
                // A connecting socket's owner has a limit of its own.
                TcpState::Closed | TcpState::Listen | TcpState::SynSent => false,
                TcpState::Established | TcpState::CloseWait => socket.send_queue() > 0,
                _ => true,
            };
            let wanted = waits.then_some(limit);
            if socket.timeout() != wanted {
                socket.set_timeout(wanted);
            }
        }
    }

    /// Forgets the closing sockets that are done, and the oldest ones beyond the limit.
    fn remove_closed(&mut self) {
        let sockets = &mut self.sockets;
        let mut excess = self.closing.len().saturating_sub(CLOSING_MAX);
        let before = self.closing.len();
        self.closing.retain(|&handle| {
            let socket = sockets.get::<tcp::Socket<'_>>(handle);
            // A socket that still knows its peer has a reset to send.
            let done = match socket.state() {
                TcpState::Closed => socket.remote_endpoint().is_none(),
                state => state == TcpState::TimeWait,
            };
            let remove = done || excess > 0;
            excess = excess.saturating_sub(1);
            if remove {
                sockets.remove(handle);
            }
            !remove
        });
        self.socket_count -= before - self.closing.len();
    }

    /// Takes a socket over from its stream; it stays until its peer has closed too.
    pub(crate) fn let_close(&mut self, handle: SocketHandle) {
        self.closing.push(handle);
    }

    /// Adds a socket with our settings.
    pub(crate) fn add_socket(&mut self, sizes: BufferSizes) -> Result<SocketHandle, NetError> {
        if self.socket_count >= SOCKETS_MAX {
            return Err(NetError::TooManySockets);
        }
        let receive = tcp::SocketBuffer::new(vec![0; sizes.receive]);
        let transmit = tcp::SocketBuffer::new(vec![0; sizes.transmit]);
        let mut socket = tcp::Socket::new(receive, transmit);
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(stack_duration(ACKNOWLEDGE_DELAY_NS)));
        self.socket_count += 1;
        Ok(self.sockets.add(socket))
    }

    /// Removes a socket at once, without a word to its peer.
    pub(crate) fn remove_socket(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
        self.socket_count -= 1;
    }

    fn start_connecting(&mut self, address: Ipv4Addr, port: u16, sizes: BufferSizes) -> Result<SocketHandle, NetError> {
        let local_port = self.free_port();
        let handle = self.add_socket(sizes)?;
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        if socket.connect(self.interface.context(), (address, port), local_port).is_err() {
            self.remove_socket(handle);
            return Err(NetError::Address);
        }
        Ok(handle)
    }

    fn start_listening(
        &mut self,
        port: u16,
        backlog: usize,
        sizes: BufferSizes,
    ) -> Result<Vec<SocketHandle>, NetError> {
        if port == 0 {
            return Err(NetError::Address);
        }
        if self.tcp_sockets().any(|socket| socket.listen_endpoint().port == port) {
            return Err(NetError::PortInUse);
        }
        let mut handles = Vec::with_capacity(backlog);
        while handles.len() < backlog {
            match self.add_listening(port, sizes) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    handles.into_iter().for_each(|handle| self.remove_socket(handle));
                    return Err(error);
                }
            }
        }
        Ok(handles)
    }

    /// Adds one more listening socket for `port`.
    pub(crate) fn add_listening(&mut self, port: u16, sizes: BufferSizes) -> Result<SocketHandle, NetError> {
        let handle = self.add_socket(sizes)?;
        match self.sockets.get_mut::<tcp::Socket<'_>>(handle).listen(port) {
            Ok(()) => Ok(handle),
            Err(_) => {
                self.remove_socket(handle);
                Err(NetError::Address)
            }
        }
    }

    fn tcp_sockets(&self) -> impl Iterator<Item = &tcp::Socket<'static>> {
        self.sockets.iter().filter_map(|(_, socket)| match socket {
            Socket::Tcp(socket) => Some(socket),
            _ => None,
        })
    }

    /// A port that no socket uses; there are more of them than sockets.
    fn free_port(&mut self) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = EPHEMERAL_FIRST + (port - EPHEMERAL_FIRST + 1) % EPHEMERAL_COUNT;
            let used = |socket: &tcp::Socket<'_>| {
                socket.listen_endpoint().port == port || socket.local_endpoint().is_some_and(|local| local.port == port)
            };
            if !self.tcp_sockets().any(used) {
                return port;
            }
        }
    }
}
