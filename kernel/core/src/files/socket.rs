//! A socket of a program: a TCP or UDP socket of the node, and what the program asked of it.
//!
//! A stream may also be connected with the kernel itself ([`Socket::serve`]): then nothing of it goes through the
//! network.
//!
//! Whether it is ready is a word that the network keeps up to date ([`Tcp::level`]), so that looking costs one load,
//! however many are looked at. When it may have become more, the network wakes all who watch.

mod addressed;
pub(crate) mod record;
mod transfer;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

use coppice_endpoint::SocketError;
use spin::Once;

pub(crate) use self::addressed::Addressed;
use self::transfer::{put_bytes, put_datagram, take_bytes, take_datagram};
use super::readiness::{Level, Ready, Watchers};
use super::serial;
use super::service::{Servers, Service};
use super::socket_options::{Flags, Options};
use super::stream::{Shape, Sink, Source, Stream, Taken};
use crate::errno::Errno;
use crate::limits::{SOCKET_BYTES, SOCKET_KEEP_ALIVE_NS_MAX};
use crate::net::{Network, Tcp, Udp, permitted};
use crate::quota::{Charge, Quota};
use crate::sync::{LockLevel, Mutex};

/// Address and port.
type Name = (Ipv4Addr, u16);

/// What carries its bytes.
pub(crate) enum Transport {
    Tcp(Box<dyn Tcp>),
    Udp(Box<dyn Udp>),
}

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// Connections (`SOCK_STREAM`).
    Stream,
    /// Datagrams (`SOCK_DGRAM`).
    Datagrams,
}

/// See this module.
pub(crate) struct Socket {
    transport: Transport,
    /// Address of its peer as far as it is known without a look, or 0.
    peer_known: AtomicU32,
    /// What can be done with it.
    pub(crate) level: Level,
    watchers: Arc<Watchers>,
    /// Whom in the kernel it is connected with.
    served: Once<Served>,
    options: Mutex<Options>,
    /// Tells it from others.
    pub(crate) serial: u64,
    _charge: Charge,
}

/// What the kernel is at the other end of, and by which name the program has called it.
struct Served {
    service: Box<dyn Service>,
    peer: Name,
}

/// What a system call says of a failure in the network.
pub(crate) fn errno(error: SocketError) -> Errno {
    match error {
        SocketError::WouldBlock => Errno::EAGAIN,
        SocketError::InProgress => Errno::EINPROGRESS,
        SocketError::AlreadyInProgress => Errno::EALREADY,
        SocketError::AlreadyConnected => Errno::EISCONN,
        SocketError::NotConnected => Errno::ENOTCONN,
        SocketError::AddressInUse => Errno::EADDRINUSE,
        SocketError::AddressNotAvailable => Errno::EADDRNOTAVAIL,
        SocketError::NoDestination => Errno::EDESTADDRREQ,
        SocketError::Refused => Errno::ECONNREFUSED,
        SocketError::Reset => Errno::ECONNRESET,
        SocketError::TimedOut => Errno::ETIMEDOUT,
        SocketError::Unreachable => Errno::ENETUNREACH,
        SocketError::NoHost => Errno::EHOSTUNREACH,
        SocketError::Closed => Errno::EPIPE,
        SocketError::Invalid => Errno::EINVAL,
        SocketError::TooMany => Errno::ENFILE,
        SocketError::NoMemory => Errno::ENOBUFS,
        SocketError::MessageTooLong => Errno::EMSGSIZE,
        SocketError::NotPermitted => Errno::EACCES,
    }
}

impl Socket {
    /// A new one.
    ///
    /// # Errors
    /// `ENOMEM`. `ENFILE`: the node has too many.
    pub(crate) fn new(kind: SocketKind, network: &dyn Network, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge = quota.charge(SOCKET_BYTES)?;
        let transport = match kind {
            SocketKind::Stream => network.tcp().map(Transport::Tcp),
            SocketKind::Datagrams => network.udp().map(Transport::Udp),
        };
        Ok(Self::with(transport.map_err(errno)?, Options::default(), charge))
    }

    fn with(transport: Transport, options: Options, charge: Charge) -> Self {
        let watchers = Arc::new(Watchers::new(charge.quota()));
        let waker = Waker::from(Arc::clone(&watchers));
        let level = match &transport {
            Transport::Tcp(tcp) => {
                tcp.register(&waker);
                tcp.level()
            }
            Transport::Udp(udp) => {
                udp.register(&waker);
                udp.level()
            }
        };
        Self {
            level: level.into(),
            transport,
            peer_known: AtomicU32::new(0),
            watchers,
            served: Once::new(),
            options: Mutex::new(LockLevel::Fact, options),
            serial: serial(),
            _charge: charge,
        }
    }

    /// What it is for.
    pub(crate) fn kind(&self) -> SocketKind {
        match self.transport {
            Transport::Tcp(_) => SocketKind::Stream,
            Transport::Udp(_) => SocketKind::Datagrams,
        }
    }

    /// # Errors
    /// `EOPNOTSUPP`: datagrams have no connections.
    fn tcp(&self) -> Result<&dyn Tcp, Errno> {
        match &self.transport {
            Transport::Tcp(tcp) => Ok(&**tcp),
            Transport::Udp(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.service().map_or_else(|| self.watchers.watch(waker), |service| service.watch(waker))
    }

    /// Whom in the kernel it is connected with.
    pub(crate) fn service(&self) -> Option<&dyn Service> {
        self.served.get().map(|served| &*served.service)
    }

    /// See [`super::OpenFile::ready`]: what [`Self::level`] does not say.
    pub(crate) fn ready(&self) -> Ready {
        self.service().map_or_else(Ready::empty, Service::ready)
    }

    /// It is connected with the kernel from now on, which `peer` is the name of, unless it is connected already.
    fn serve(&self, service: Box<dyn Service>, peer: Name) {
        self.served.call_once(|| Served { service, peer });
        self.level.set(0, Level::LOOK_CLOSER);
        self.watchers.notify();
    }

    /// How often those who watch it were, or would have been, told of something. Nobody counts that for those that are
    /// connected with the kernel.
    pub(crate) fn changes(&self) -> Option<u64> {
        match &self.transport {
            _ if self.service().is_some() => None,
            Transport::Tcp(tcp) => Some(tcp.changes()),
            Transport::Udp(udp) => Some(udp.changes()),
        }
    }

    /// Gives it a name.
    ///
    /// # Errors
    /// `EACCES`: the port is the cluster's. Others as [`Tcp::bind`].
    pub(crate) fn bind(&self, address: Ipv4Addr, port: u16) -> Result<(), Errno> {
        if !permitted::bind(port) {
            return Err(Errno::EACCES);
        }
        let reuse = self.options.lock().flags.intersects(Flags::REUSE_ADDRESS | Flags::REUSE_PORT);
        let bound = match &self.transport {
            Transport::Tcp(tcp) => tcp.bind(address, port, reuse),
            Transport::Udp(udp) => udp.bind(address, port, reuse),
        };
        bound.map_err(errno)
    }

    /// Accepts connections from now on.
    ///
    /// # Errors
    /// As [`Tcp::listen`]; `EOPNOTSUPP`: it is for datagrams.
    pub(crate) fn listen(&self, backlog: usize) -> Result<(), Errno> {
        self.tcp()?.listen(backlog).map_err(errno)
    }

    /// The next connection; what was asked of the listener holds for it too.
    ///
    /// # Errors
    /// As [`Tcp::accept`], and `ENOMEM`; `EOPNOTSUPP`: it is for datagrams.
    pub(crate) fn accept(&self, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge = quota.charge(SOCKET_BYTES)?;
        let tcp = self.tcp()?.accept().map_err(errno)?;
        let accepted = Self::with(Transport::Tcp(tcp), self.options(), charge);
        // Later on it may not be told any more.
        accepted.peer_address();
        Ok(accepted)
    }

    /// Connects to a peer, or says how far an earlier call has come.
    ///
    /// # Errors
    /// As [`Tcp::connect`], and [`Servers::connect`]; `ECONNREFUSED` also if it is not for programs.
    pub(crate) fn connect(
        &self,
        (network, servers): (&dyn Network, &dyn Servers),
        (address, port): Name,
    ) -> Result<(), Errno> {
        if self.service().is_some() {
            return Err(Errno::EISCONN);
        }
        let is_here = network.address() == Some(address) || address.is_loopback() || address.is_unspecified();
        if let Transport::Tcp(tcp) = &self.transport
            && is_here
            && servers.has(port)
        {
            let own = network.address().unwrap_or(Ipv4Addr::LOCALHOST);
            match tcp.bind(own, 0, false) {
                // It has a name already.
                Ok(()) | Err(SocketError::Invalid) => {}
                Err(error) => return Err(errno(error)),
            }
            self.serve(servers.connect(port)?, (address, port));
            return Ok(());
        }
        let connected = match &self.transport {
            Transport::Tcp(tcp) if permitted::connect(network.address(), address, port) => tcp.connect(address, port),
            Transport::Tcp(_) => Err(SocketError::Refused),
            Transport::Udp(udp) => udp.connect(Some((address, port))),
        };
        if matches!(connected, Ok(()) | Err(SocketError::InProgress)) {
            self.peer_known.store(address.to_bits(), Ordering::Relaxed);
        }
        connected.map_err(errno)
    }

    /// Takes datagrams from anybody again.
    ///
    /// # Errors
    /// `EAFNOSUPPORT`: a connection is ended otherwise.
    pub(crate) fn disconnect(&self) -> Result<(), Errno> {
        match &self.transport {
            Transport::Tcp(_) => Err(Errno::EAFNOSUPPORT),
            Transport::Udp(udp) => {
                self.peer_known.store(0, Ordering::Relaxed);
                udp.connect(None).map_err(errno)
            }
        }
    }

    /// Says that nothing more is received, or sent, or both.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn shut_down(&self, reading: bool, writing: bool) -> Result<(), Errno> {
        if let Some(service) = self.service() {
            service.shut_down(reading, writing);
            return Ok(());
        }
        let shut = match &self.transport {
            Transport::Tcp(tcp) => tcp.shutdown(reading, writing),
            Transport::Udp(udp) => udp.shutdown(reading, writing),
        };
        shut.map_err(errno)
    }

    /// Its own name.
    pub(crate) fn local(&self) -> (Ipv4Addr, u16) {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.local(),
            Transport::Udp(udp) => udp.local(),
        }
    }

    /// Its peer's name.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn peer(&self) -> Result<(Ipv4Addr, u16), Errno> {
        if let Some(served) = self.served.get() {
            return Ok(served.peer);
        }
        let peer = match &self.transport {
            Transport::Tcp(tcp) => tcp.peer(),
            Transport::Udp(udp) => udp.peer(),
        };
        peer.ok_or(Errno::ENOTCONN)
    }

    /// Its peer's address, if that is in the network. A connection keeps it, which may be over by now.
    fn peer_address(&self) -> Option<Ipv4Addr> {
        if self.service().is_some() {
            return None;
        }
        match self.peer_known.load(Ordering::Relaxed) {
            0 => {
                let (address, _) = self.peer().ok()?;
                self.peer_known.store(address.to_bits(), Ordering::Relaxed);
                Some(address)
            }
            known => Some(Ipv4Addr::from_bits(known)),
        }
    }

    /// Takes the error that waits to be told.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        let error = match &self.transport {
            Transport::Tcp(tcp) => tcp.take_error(),
            Transport::Udp(udp) => udp.take_error(),
        };
        error.map(errno)
    }

    /// Whether it accepts connections.
    pub(crate) fn is_listening(&self) -> bool {
        self.tcp().is_ok_and(Tcp::is_listening)
    }

    /// Bytes that can be read; of the next datagram, if it is for those.
    pub(crate) fn held(&self) -> usize {
        if let Some(service) = self.service() {
            return service.held();
        }
        match &self.transport {
            Transport::Tcp(tcp) => tcp.received(),
            Transport::Udp(udp) => udp.first_bytes(),
        }
    }

    /// Bytes that the peer's node has not acknowledged yet.
    pub(crate) fn unsent(&self) -> usize {
        self.tcp().map_or(0, Tcp::unsent)
    }

    /// Room for bytes received and sent, if it has any yet.
    pub(crate) fn capacities(&self) -> Option<(usize, usize)> {
        self.tcp().ok()?.capacities()
    }

    /// What it is, as `TCP_INFO` has it.
    pub(crate) fn state(&self) -> u8 {
        const ESTABLISHED: u8 = 1;
        const CONNECTING: u8 = 2;
        const CLOSED: u8 = 7;
        const PEER_CLOSED: u8 = 8;
        const LISTENING: u8 = 10;
        match Ready::from_bits_truncate(self.level.bits()) {
            _ if self.service().is_some() => ESTABLISHED,
            _ if self.is_listening() => LISTENING,
            ready if ready.contains(Ready::HANG_UP) => CLOSED,
            _ if self.peer().is_err() => CONNECTING,
            ready if ready.contains(Ready::READ_HANG_UP) => PEER_CLOSED,
            _ => ESTABLISHED,
        }
    }

    /// Has the connection broken off when it is closed.
    pub(crate) fn break_off_when_closed(&self) {
        if let Ok(tcp) = self.tcp() {
            tcp.set_linger(true);
        }
    }

    /// What was asked of it.
    pub(crate) fn options(&self) -> Options {
        *self.options.lock()
    }

    /// Asks something else of it.
    pub(crate) fn change_options(&self, change: impl FnOnce(&mut Options)) {
        let (before, after) = {
            let mut options = self.options.lock();
            let before = *options;
            change(&mut options);
            (before, *options)
        };
        let tcp = match &self.transport {
            Transport::Tcp(tcp) => tcp,
            Transport::Udp(udp) => return udp.set_broadcast(after.flags.contains(Flags::BROADCAST)),
        };
        if before.aborts() != after.aborts() {
            tcp.set_linger(after.aborts());
        }
        if before.keep_alive_s() != after.keep_alive_s() {
            // More often than asked for: a peer that is gone is noticed by all in the same time.
            let interval_ns = |seconds: u32| (u64::from(seconds) * 1_000_000_000).min(SOCKET_KEEP_ALIVE_NS_MAX);
            tcp.set_keep_alive(after.keep_alive_s().map(interval_ns));
        }
    }
}

impl Stream for Socket {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        if let Some(service) = self.service() {
            return service.take(limit, peek, sink);
        }
        match &self.transport {
            Transport::Tcp(tcp) => take_bytes(&**tcp, limit, peek, sink),
            Transport::Udp(udp) => take_datagram(&**udp, limit, peek, sink).map(|(taken, _)| taken),
        }
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        if let Some(service) = self.service() {
            return service.put(length, source);
        }
        match &self.transport {
            Transport::Tcp(tcp) => put_bytes(&**tcp, length, source),
            Transport::Udp(udp) => put_datagram(&**udp, length, None, source),
        }
    }

    fn receiver(&self) -> Option<Ipv4Addr> {
        self.peer_address()
    }

    fn sender(&self) -> Option<Ipv4Addr> {
        self.peer_address()
    }

    fn shape(&self) -> Shape {
        match self.transport {
            Transport::Tcp(_) => Shape::Bytes,
            Transport::Udp(_) => Shape::Messages,
        }
    }
}
