//! Datagram sockets as programs use them, without the type of the device they run on.

use crate::sync::{LockLevel, passing};
use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU16;
use core::task::Waker;

use coppice_endpoint::record::{NotQuiet, UdpRecord};
use coppice_endpoint::{Received, SocketError, UdpSocket};
use smoltcp::phy::Device;

/// A UDP socket: what [`UdpSocket`] does, whose words hold here. Nothing waits.
pub trait Udp: Send + Sync {
    /// See [`UdpSocket::bind`].
    ///
    /// # Errors
    /// As there.
    fn bind(&self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<(), SocketError>;

    /// See [`UdpSocket::connect`].
    ///
    /// # Errors
    /// As there.
    fn connect(&self, peer: Option<(Ipv4Addr, u16)>) -> Result<(), SocketError>;

    /// See [`UdpSocket::send_with`]. False: `fill` gave up, and nothing was sent.
    ///
    /// # Errors
    /// As there.
    fn send(
        &self,
        length: usize,
        to: Option<(Ipv4Addr, u16)>,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<bool, SocketError>;

    /// See [`UdpSocket::receive_with`].
    ///
    /// # Errors
    /// As there.
    fn receive(&self, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<Received, SocketError>;

    /// See [`UdpSocket::set_broadcast`].
    fn set_broadcast(&self, may: bool);

    /// See [`UdpSocket::first_bytes`].
    fn first_bytes(&self) -> usize;

    /// See [`UdpSocket::shutdown`].
    ///
    /// # Errors
    /// As there.
    fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError>;

    /// See [`UdpSocket::local`].
    fn local(&self) -> (Ipv4Addr, u16);

    /// See [`UdpSocket::peer`].
    fn peer(&self) -> Option<(Ipv4Addr, u16)>;

    /// See [`UdpSocket::take_error`].
    fn take_error(&self) -> Option<SocketError>;

    /// See [`UdpSocket::level`].
    fn level(&self) -> Arc<AtomicU16>;

    /// See [`UdpSocket::changes`].
    fn changes(&self) -> u64;

    /// See [`UdpSocket::register`].
    fn register(&self, watcher: &Waker);

    /// See [`UdpSocket::record`].
    ///
    /// # Errors
    /// As there.
    fn record(&self) -> Result<UdpRecord, NotQuiet>;

    /// See [`UdpSocket::record_holds`].
    fn record_holds(&self) -> (usize, usize);
}

/// Why nothing was sent.
enum Unsent {
    Refused(SocketError),
    GivenUp,
}

impl From<SocketError> for Unsent {
    fn from(error: SocketError) -> Self {
        Self::Refused(error)
    }
}

impl<D: Device + Send + 'static> Udp for UdpSocket<D> {
    fn bind(&self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::bind(self, address, port, reuse)
    }

    fn connect(&self, peer: Option<(Ipv4Addr, u16)>) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::connect(self, peer)
    }

    fn send(
        &self,
        length: usize,
        to: Option<(Ipv4Addr, u16)>,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<bool, SocketError> {
        let _passing = passing(LockLevel::Network);
        match self.send_with(length, to, |room| if fill(room) { Ok(()) } else { Err(Unsent::GivenUp) }) {
            Ok(()) => Ok(true),
            Err(Unsent::GivenUp) => Ok(false),
            Err(Unsent::Refused(error)) => Err(error),
        }
    }

    fn receive(&self, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<Received, SocketError> {
        let _passing = passing(LockLevel::Network);
        self.receive_with(take)
    }

    fn set_broadcast(&self, may: bool) {
        let _passing = passing(LockLevel::Network);
        Self::set_broadcast(self, may);
    }

    fn first_bytes(&self) -> usize {
        let _passing = passing(LockLevel::Network);
        Self::first_bytes(self)
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError> {
        let _passing = passing(LockLevel::Network);
        Self::shutdown(self, read, write)
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

    fn record(&self) -> Result<UdpRecord, NotQuiet> {
        let _passing = passing(LockLevel::Network);
        Self::record(self)
    }

    fn record_holds(&self) -> (usize, usize) {
        let _passing = passing(LockLevel::Network);
        Self::record_holds(self)
    }
}
