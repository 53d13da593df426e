//! The network as programs use it, without the type of the device it runs on.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU16;
use core::task::Waker;

use coppice_endpoint::record::{NotQuiet, TcpRecord};
use coppice_endpoint::{JobNetwork, SocketError, Stack, TcpSocket, UdpSocket};
use coppice_protocol::ids::JobNode;
use coppice_protocol::world::{NetworkTag, NodeRange};
use smoltcp::phy::Device;

use super::{Again, Card, Udp};
use crate::executor;
use crate::random;
use crate::sync::{LockLevel, passing};

/// What makes sockets.
pub trait Network: Send + Sync {
    /// This node's address in the job that is here.
    fn address(&self) -> Option<Ipv4Addr>;

    /// Largest IP packet in that job's network, bytes.
    fn mtu(&self) -> Option<usize>;

    /// Whether that job has this tag.
    fn is_in_job(&self, tag: NetworkTag) -> bool;

    /// Sockets are in this job's network from now on; see [`Stack::enter_job`]. It is left when what the job left in
    /// the kernel is wiped ([`super::Dial::scrub_connections`]).
    fn enter_job(&self, job: JobNetwork);

    /// Nodes have come to this job's network; see [`Stack::join_job`].
    fn join_job(&self, tag: NetworkTag, first: u32, nodes: &[NodeRange], kept: Box<dyn Send + Sync>) -> Option<u32>;

    /// How many nodes the network of the job that is here has.
    fn nodes(&self) -> Option<u32>;

    /// A node of this job is gone: connections with its programs are broken off; see [`Stack::break_off`].
    fn break_off(&self, tag: NetworkTag, node: JobNode);

    /// A new TCP socket. It obeys whoever has it; what programs may do with theirs is said in
    /// [`crate::net::permitted`].
    ///
    /// # Errors
    /// [`SocketError::TooMany`].
    fn tcp(&self) -> Result<Box<dyn Tcp>, SocketError>;

    /// A new UDP socket, as [`Self::tcp`].
    ///
    /// # Errors
    /// [`SocketError::TooMany`].
    fn udp(&self) -> Result<Box<dyn Udp>, SocketError>;

    /// What it does for sockets that are made again from records.
    fn again(&self) -> &dyn Again;
}

/// A TCP socket: what [`TcpSocket`] does, whose words hold here. Nothing waits.
pub trait Tcp: Send + Sync {
    /// See [`TcpSocket::bind`].
    ///
    /// # Errors
    /// As there.
    fn bind(&self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<(), SocketError>;

    /// See [`TcpSocket::listen`].
    ///
    /// # Errors
    /// As there.
    fn listen(&self, backlog: usize) -> Result<(), SocketError>;

    /// See [`TcpSocket::accept`].
    ///
    /// # Errors
    /// As there.
    fn accept(&self) -> Result<Box<dyn Tcp>, SocketError>;

    /// See [`TcpSocket::connect`].
    ///
    /// # Errors
    /// As there.
    fn connect(&self, address: Ipv4Addr, port: u16) -> Result<(), SocketError>;

    /// See [`TcpSocket::shutdown`].
    ///
    /// # Errors
    /// As there.
    fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError>;

    /// See [`TcpSocket::send_with`].
    ///
    /// # Errors
    /// As there.
    fn send(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<usize, SocketError>;

    /// See [`TcpSocket::receive_with`].
    ///
    /// # Errors
    /// As there.
    fn receive(&self, take: &mut dyn FnMut(&[u8]) -> usize) -> Result<usize, SocketError>;

    /// Copies what was received and leaves it there; see [`TcpSocket::receive`].
    ///
    /// # Errors
    /// As there.
    fn peek(&self, buffer: &mut [u8]) -> Result<usize, SocketError>;

    /// See [`TcpSocket::local`].
    fn local(&self) -> (Ipv4Addr, u16);

    /// See [`TcpSocket::peer`].
    fn peer(&self) -> Option<(Ipv4Addr, u16)>;

    /// See [`TcpSocket::take_error`].
    fn take_error(&self) -> Option<SocketError>;

    /// See [`TcpSocket::is_listening`].
    fn is_listening(&self) -> bool;

    /// See [`TcpSocket::level`].
    fn level(&self) -> Arc<AtomicU16>;

    /// See [`TcpSocket::changes`].
    fn changes(&self) -> u64;

    /// See [`TcpSocket::register`].
    fn register(&self, watcher: &Waker);

    /// See [`TcpSocket::record`].
    ///
    /// # Errors
    /// As there.
    fn record(&self) -> Result<TcpRecord, NotQuiet>;

    /// See [`TcpSocket::record_holds`].
    fn record_holds(&self) -> (usize, usize);

    /// See [`TcpSocket::forget`].
    fn forget(self: Box<Self>);

    /// See [`TcpSocket::received`].
    fn received(&self) -> usize;

    /// See [`TcpSocket::unsent`].
    fn unsent(&self) -> usize;

    /// See [`TcpSocket::capacities`].
    fn capacities(&self) -> Option<(usize, usize)>;

    /// See [`TcpSocket::set_linger`].
    fn set_linger(&self, abort: bool);

    /// See [`TcpSocket::set_keep_alive`].
    fn set_keep_alive(&self, interval_ns: Option<u64>);
}

impl<D: Card + Send + 'static> Network for Stack<D> {
    fn address(&self) -> Option<Ipv4Addr> {
        let _passing = passing(LockLevel::Network);
        self.job_address()
    }

    fn mtu(&self) -> Option<usize> {
        let _passing = passing(LockLevel::Network);
        self.job_mtu()
    }

    fn is_in_job(&self, tag: NetworkTag) -> bool {
        let _passing = passing(LockLevel::Network);
        Self::is_in_job(self, tag)
    }

    fn enter_job(&self, job: JobNetwork) {
        let _passing = passing(LockLevel::Network);
        self.with_device(Card::keep);
        Self::enter_job(self, job, u64::from_le_bytes(random::bytes()), executor::now_ns());
    }

    fn join_job(&self, tag: NetworkTag, first: u32, nodes: &[NodeRange], kept: Box<dyn Send + Sync>) -> Option<u32> {
        let _passing = passing(LockLevel::Network);
        Self::join_job(self, tag, first, nodes, kept)
    }

    fn nodes(&self) -> Option<u32> {
        let _passing = passing(LockLevel::Network);
        self.job_nodes()
    }

    fn break_off(&self, tag: NetworkTag, node: JobNode) {
        let _passing = passing(LockLevel::Network);
        Self::break_off(self, tag, node);
    }

    fn tcp(&self) -> Result<Box<dyn Tcp>, SocketError> {
        Ok(Box::new(TcpSocket::new(self)?))
    }

    fn udp(&self) -> Result<Box<dyn Udp>, SocketError> {
        Ok(Box::new(UdpSocket::new(self)?))
    }

    fn again(&self) -> &dyn Again {
        self
    }
}

impl<D: Device + Send + 'static> Tcp for TcpSocket<D> {
    fn bind(&self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::bind(self, address, port, reuse)
    }

    fn listen(&self, backlog: usize) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::listen(self, backlog)
    }

    fn accept(&self) -> Result<Box<dyn Tcp>, SocketError> {
        let _passing = passing(LockLevel::Network);
        Ok(Box::new(Self::accept(self)?))
    }

    fn connect(&self, address: Ipv4Addr, port: u16) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::connect(self, address, port)
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::shutdown(self, read, write)
    }

    fn send(&self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Result<usize, SocketError> {
        let _passing = passing(LockLevel::Network);
        self.send_with(fill)
    }

    fn receive(&self, take: &mut dyn FnMut(&[u8]) -> usize) -> Result<usize, SocketError> {
        let _passing = passing(LockLevel::Network);
        self.receive_with(take)
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<usize, SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::receive(self, buffer, true)
    }

    fn local(&self) -> (Ipv4Addr, u16) {
        let _passing = passing(LockLevel::Network);
        Self::local(self)
    }

    fn peer(&self) -> Option<(Ipv4Addr, u16)> {
        let _passing = passing(LockLevel::Network);
        Self::peer(self)
    }

    fn take_error(&self) -> Option<SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::take_error(self)
    }

    fn is_listening(&self) -> bool {
        let _passing = passing(LockLevel::Network);
        Self::is_listening(self)
    }

    fn level(&self) -> Arc<AtomicU16> {
        let _passing = passing(LockLevel::Network);
        Self::level(self)
    }

    fn changes(&self) -> u64 {
        let _passing = passing(LockLevel::Network);
        Self::changes(self)
    }

    fn register(&self, watcher: &Waker) {
        let _passing = passing(LockLevel::Network);
        Self::register(self, watcher);
    }

    fn record(&self) -> Result<TcpRecord, NotQuiet> {
        let _passing = passing(LockLevel::Network);
        Self::record(self)
    }

    fn record_holds(&self) -> (usize, usize) {
        let _passing = passing(LockLevel::Network);
        Self::record_holds(self)
    }

    fn forget(self: Box<Self>) {
        let _passing = passing(LockLevel::Network);
        Self::forget(*self);
    }

    fn received(&self) -> usize {
        let _passing = passing(LockLevel::Network);
        Self::received(self)
    }

    fn unsent(&self) -> usize {
        let _passing = passing(LockLevel::Network);
        Self::unsent(self)
    }

    fn capacities(&self) -> Option<(usize, usize)> {
        let _passing = passing(LockLevel::Network);
        Self::capacities(self)
    }

    fn set_linger(&self, abort: bool) {
        let _passing = passing(LockLevel::Network);
        Self::set_linger(self, abort);
    }

    fn set_keep_alive(&self, interval_ns: Option<u64>) {
        let _passing = passing(LockLevel::Network);
        Self::set_keep_alive(self, interval_ns);
    }
}
