//! A socket of a program: a TCP socket of the node, and what the program asked of it.
//!
//! Whether it is ready is a word that the network keeps up to date ([`Tcp::level`]), so that looking costs one load,
//! however many are looked at. When it may have become more, the network wakes all who watch.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::task::Waker;

use coppice_endpoint::SocketError;
use spin::Mutex;

use super::readiness::{Level, Ready, Watchers};
use super::serial;
use super::socket_options::{Flags, Options};
use super::stream::{Sink, Source, Stream, Taken};
use crate::errno::Errno;
use crate::limits::{OBJECT_BYTES, SOCKET_KEEP_ALIVE_NS_MAX};
use crate::net::{Network, Tcp, permitted};
use crate::quota::{Charge, Quota};

/// See this module.
pub(crate) struct Socket {
    tcp: Box<dyn Tcp>,
    /// What can be done with it.
    pub(crate) level: Level,
    watchers: Arc<Watchers>,
    options: Mutex<Options>,
    /// Tells it from others.
    pub(crate) serial: u64,
    _charge: Charge,
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
        SocketError::Closed => Errno::EPIPE,
        SocketError::Invalid => Errno::EINVAL,
        SocketError::TooMany => Errno::ENFILE,
        SocketError::NoMemory => Errno::ENOBUFS,
        SocketError::MessageTooLong => Errno::EMSGSIZE,
    }
}

impl Socket {
    /// A new one.
    ///
    /// # Errors
    /// `ENOMEM`. `ENFILE`: the node has too many.
    pub(crate) fn new(network: &dyn Network, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge = quota.charge(OBJECT_BYTES)?;
        Ok(Self::with(network.tcp().map_err(errno)?, Options::default(), charge))
    }

    fn with(tcp: Box<dyn Tcp>, options: Options, charge: Charge) -> Self {
        let watchers = Arc::new(Watchers::new());
        tcp.register(&Waker::from(Arc::clone(&watchers)));
        Self {
            level: tcp.level().into(),
            tcp,
            watchers,
            options: Mutex::new(options),
            serial: serial(),
            _charge: charge,
        }
    }

    /// See [`super::OpenFile::watch`].
    pub(crate) fn watch(&self, waker: &Waker) {
        self.watchers.watch(waker);
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
        self.tcp.bind(address, port, reuse).map_err(errno)
    }

    /// Accepts connections from now on.
    ///
    /// # Errors
    /// As [`Tcp::listen`].
    pub(crate) fn listen(&self, backlog: usize) -> Result<(), Errno> {
        self.tcp.listen(backlog).map_err(errno)
    }

    /// The next connection; what was asked of the listener holds for it too.
    ///
    /// # Errors
    /// As [`Tcp::accept`], and `ENOMEM`.
    pub(crate) fn accept(&self, quota: &Arc<Quota>) -> Result<Self, Errno> {
        let charge = quota.charge(OBJECT_BYTES)?;
        let tcp = self.tcp.accept().map_err(errno)?;
        Ok(Self::with(tcp, self.options(), charge))
    }

    /// Connects to a peer, or says how far an earlier call has come.
    ///
    /// # Errors
    /// As [`Tcp::connect`]; `ECONNREFUSED` also if it is not for programs.
    pub(crate) fn connect(&self, network: &dyn Network, address: Ipv4Addr, port: u16) -> Result<(), Errno> {
        if !permitted::connect(network.address(), address, port) {
            return Err(Errno::ECONNREFUSED);
        }
        self.tcp.connect(address, port).map_err(errno)
    }

    /// Says that nothing more is received, or sent, or both.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn shut_down(&self, reading: bool, writing: bool) -> Result<(), Errno> {
        self.tcp.shutdown(reading, writing).map_err(errno)
    }

    /// Its own name.
    pub(crate) fn local(&self) -> (Ipv4Addr, u16) {
        self.tcp.local()
    }

    /// Its peer's name.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub(crate) fn peer(&self) -> Result<(Ipv4Addr, u16), Errno> {
        self.tcp.peer().ok_or(Errno::ENOTCONN)
    }

    /// Takes the error that waits to be told.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.tcp.take_error().map(errno)
    }

    /// Whether it accepts connections.
    pub(crate) fn is_listening(&self) -> bool {
        self.tcp.is_listening()
    }

    /// Bytes that can be read.
    pub(crate) fn held(&self) -> usize {
        self.tcp.received()
    }

    /// Bytes that the peer's node has not acknowledged yet.
    pub(crate) fn unsent(&self) -> usize {
        self.tcp.unsent()
    }

    /// Room for bytes received and sent, if it has any yet.
    pub(crate) fn capacities(&self) -> Option<(usize, usize)> {
        self.tcp.capacities()
    }

    /// What it is, as `TCP_INFO` has it.
    pub(crate) fn state(&self) -> u8 {
        const ESTABLISHED: u8 = 1;
        const CONNECTING: u8 = 2;
        const CLOSED: u8 = 7;
        const PEER_CLOSED: u8 = 8;
        const LISTENING: u8 = 10;
        match Ready::from_bits_truncate(self.level.bits()) {
            _ if self.is_listening() => LISTENING,
            ready if ready.contains(Ready::HANG_UP) => CLOSED,
            _ if self.tcp.peer().is_none() => CONNECTING,
            ready if ready.contains(Ready::READ_HANG_UP) => PEER_CLOSED,
            _ => ESTABLISHED,
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
        if before.aborts() != after.aborts() {
            self.tcp.set_linger(after.aborts());
        }
        if before.keep_alive_s() != after.keep_alive_s() {
            // More often than asked for: a peer that is gone is noticed by all in the same time.
            let interval_ns = |seconds: u32| (u64::from(seconds) * 1_000_000_000).min(SOCKET_KEEP_ALIVE_NS_MAX);
            self.tcp.set_keep_alive(after.keep_alive_s().map(interval_ns));
        }
    }
}

impl Stream for Socket {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        if peek {
            let mut bytes = super::buffer(limit.min(self.tcp.received()).max(1))?;
            let length = self.tcp.peek(&mut bytes).map_err(errno)?;
            let copied = if length > 0 { sink(&bytes[..length]) } else { 0 };
            return Ok(Taken { copied, length });
        }
        let mut left = limit;
        let taken = self.tcp.receive(&mut |bytes| {
            let taken = sink(&bytes[..bytes.len().min(left)]);
            left -= taken;
            taken
        });
        taken.map(|copied| Taken { copied, length: copied }).map_err(errno)
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        let mut left = length;
        let put = self.tcp.send(&mut |slot| {
            let count = slot.len().min(left);
            let filled = source(&mut slot[..count]);
            left -= filled;
            filled
        });
        put.map_err(errno)
    }
}
