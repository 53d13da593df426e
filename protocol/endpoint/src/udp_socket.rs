//! A program's UDP socket: what Linux's socket calls do, without waiting. The rules are those of [`crate::TcpSocket`].
//!
//! Datagrams to this node's own addresses are handed over in memory; one that goes over the wire must fit into one
//! packet, as nothing is sent in pieces.

mod record;

use alloc::sync::Arc;
use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU16;
use core::task::Waker;

use coppice_protocol::ids::JobNode;
use smoltcp::phy::Device;

use crate::SocketError;
use crate::accounts::{block_bytes, zeroed};
use crate::cell::{Cell, Readiness};
use crate::datagrams::{Datagram, HEADERS_BYTES, Number, Socket};
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAM_OVERHEAD_BYTES};
use crate::local::Name;
use crate::stack::Stack;
use crate::stack::net::Net;

/// A UDP socket of a program. Dropping it closes it: what was sent still goes, what was received is wiped.
pub struct UdpSocket<D: Device> {
    stack: Stack<D>,
    cell: Arc<Cell>,
    number: Number,
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length, bytes.
    pub length: usize,
    /// Who sent it: address and port.
    pub source: (Ipv4Addr, u16),
}

impl<D: Device> UdpSocket<D> {
    /// A new socket without a name.
    ///
    /// # Errors
    /// [`SocketError::TooMany`].
    pub fn new(stack: &Stack<D>) -> Result<Self, SocketError> {
        let cell = Arc::new(Cell::new(Readiness { writable: true, ..Readiness::NONE }));
        let number = stack.with_net(|net| {
            let ticket = net.ticket()?;
            Ok(net.datagrams.add(Socket::new(Arc::clone(&cell), ticket)))
        })?;
        Ok(Self { stack: stack.clone(), cell, number })
    }

    /// Calls `f` with the socket, which is there as long as this is.
    fn with<R>(&self, f: impl FnOnce(&mut Socket) -> R) -> Result<R, SocketError> {
        self.stack.with_net(|net| net.datagrams.get_mut(self.number).map(f)).ok_or(SocketError::Invalid)
    }

    /// Gives the socket a name: one of this node's addresses or all (0.0.0.0), and a port or any (0). With `reuse`
    /// (SO_REUSEADDR) the port may be in use by others that have it too; the one that fits a datagram best gets it.
    ///
    /// # Errors
    /// [`SocketError::AddressNotAvailable`] if the address is not this node's, [`SocketError::AddressInUse`],
    /// [`SocketError::Invalid`] if it has a name.
    pub fn bind(&self, address: Ipv4Addr, port: u16, reuse: bool) -> Result<(), SocketError> {
        self.stack.with_net(|net| {
            if net.datagrams.get_mut(self.number).is_none_or(|socket| socket.claim.is_some()) {
                return Err(SocketError::Invalid);
            }
            if !address.is_unspecified() && !net.is_own(address) && !net.is_broadcast(address) {
                return Err(SocketError::AddressNotAvailable);
            }
            net.bind_datagrams(self.number, (address, port), reuse)
        })
    }

    /// From now on datagrams come from `peer` only, and go there if nothing else is said; `None` ends that. What came
    /// from others before stays.
    ///
    /// # Errors
    /// [`SocketError::NoHost`] and [`SocketError::Unreachable`] if there is no such node in the job,
    /// [`SocketError::Invalid`] for port 0,
    /// [`SocketError::NotPermitted`] if that is all stations and [`Self::set_broadcast`] did not allow it,
    /// [`SocketError::AddressInUse`] if no port is free for a socket without a name.
    pub fn connect(&self, peer: Option<(Ipv4Addr, u16)>) -> Result<(), SocketError> {
        self.stack.with_net(|net| {
            let peer = peer.map(|peer| net.destination(self.number, peer)).transpose()?;
            if peer.is_some() {
                net.ensure_port(self.number)?;
            }
            let socket = net.datagrams.get_mut(self.number).ok_or(SocketError::Invalid)?;
            (socket.peer, socket.error) = (peer, None);
            socket.update(false);
            Ok(())
        })
    }

    /// Sends one datagram of `length` bytes, which `fill` writes, to `to` or to whom the socket is connected. `fill`
    /// must not call into the stack; if it fails, nothing is sent.
    ///
    /// # Errors
    /// The pending error if there is one, once. [`SocketError::WouldBlock`] if too much of this socket is still to go,
    /// [`SocketError::NoDestination`], [`SocketError::NoHost`], [`SocketError::Unreachable`],
    /// [`SocketError::MessageTooLong`], [`SocketError::NoMemory`], [`SocketError::Closed`] if it was shut down,
    /// [`SocketError::Invalid`] for port 0. [`SocketError::NotPermitted`] as for [`Self::connect`]. What `fill` says.
    pub fn send_with<E: From<SocketError>>(
        &self,
        length: usize,
        to: Option<(Ipv4Addr, u16)>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.stack.with_net(|net| net.send_datagram(self.number, length, to, fill))?;
        self.stack.kick();
        Ok(())
    }

    /// Has `take` read the next datagram where it lies and say whether it is done with it: then it is wiped, else it
    /// stays. `take` must not call into the stack.
    ///
    /// # Errors
    /// The pending error if there is one, once. [`SocketError::WouldBlock`] if there is no datagram;
    /// [`SocketError::Closed`] if there will be none.
    pub fn receive_with(&self, take: impl FnOnce(&[u8]) -> bool) -> Result<Received, SocketError> {
        self.with(|socket| {
            if let Some(error) = socket.error.take() {
                socket.update(false);
                return Err(error);
            }
            let Some(first) = socket.first() else {
                return Err(if socket.read_shut { SocketError::Closed } else { SocketError::WouldBlock });
            };
            let received = Received { length: first.bytes.len(), source: first.peer };
            if take(&first.bytes) {
                socket.drop_first();
            }
            Ok(received)
        })?
    }

    /// Says whether it may send to all stations (SO_BROADCAST).
    pub fn set_broadcast(&self, may: bool) {
        // It is there.
        let _ = self.with(|socket| socket.broadcasts = may);
    }

    /// The length of the next datagram (FIONREAD), bytes; 0 if there is none.
    pub fn first_bytes(&self) -> usize {
        self.with(|socket| socket.first_bytes()).unwrap_or_default()
    }

    /// Says that nothing more will be received, or sent, or both.
    ///
    /// # Errors
    /// [`SocketError::NotConnected`]; it is done nevertheless, as on Linux.
    pub fn shutdown(&self, read: bool, write: bool) -> Result<(), SocketError> {
        self.with(|socket| {
            socket.read_shut |= read;
            socket.write_shut |= write;
            socket.update(true);
            socket.peer.map(|_| ()).ok_or(SocketError::NotConnected)
        })?
    }

    /// Its own address and port, 0.0.0.0 and 0 if it has none.
    pub fn local(&self) -> (Ipv4Addr, u16) {
        self.stack.with_net(|net| {
            let own = net.job_address().unwrap_or(Ipv4Addr::LOCALHOST);
            let Some(socket) = net.datagrams.get_mut(self.number) else { return (Ipv4Addr::UNSPECIFIED, 0) };
            let port = socket.claim.as_ref().map_or(0, |claim| claim.port());
            match socket.peer {
                Some((peer, _)) if socket.address.is_unspecified() => {
                    (if peer.is_loopback() { Ipv4Addr::LOCALHOST } else { own }, port)
                }
                _ => (socket.address, port),
            }
        })
    }

    /// Whom it is connected to.
    pub fn peer(&self) -> Option<(Ipv4Addr, u16)> {
        self.with(|socket| socket.peer).ok().flatten()
    }

    /// Takes the pending error (SO_ERROR).
    pub fn take_error(&self) -> Option<SocketError> {
        let taken = self.with(|socket| {
            let error = socket.error.take();
            socket.update(false);
            error
        });
        taken.ok().flatten()
    }

    /// What can be done with it now. Takes no lock.
    pub fn readiness(&self) -> Readiness {
        self.cell.get()
    }

    /// The readiness as the bits of poll(2), now and later, for those who look at many sockets often.
    pub fn level(&self) -> Arc<AtomicU16> {
        self.cell.level()
    }

    /// How often the readiness may have become more so far: who watched before and watches again finds out whether
    /// something was missed.
    pub fn changes(&self) -> u64 {
        self.cell.changes()
    }

    /// Has `watcher` woken whenever the readiness may have become more, until another one takes its place.
    pub fn register(&self, watcher: &Waker) {
        self.cell.watch(watcher);
    }
}

impl<D: Device> Drop for UdpSocket<D> {
    fn drop(&mut self) {
        self.cell.forget_watcher();
        self.stack.with_net(|net| {
            if let Some(claim) = net.datagrams.remove(self.number) {
                net.datagram_ports.release(claim);
            }
        });
    }
}

impl Net {
    fn bind_datagrams(&mut self, number: Number, (address, port): Name, reuse: bool) -> Result<(), SocketError> {
        let claim = self.datagram_ports.bind(address, port, reuse)?;
        self.datagrams.bind(number, address, claim);
        Ok(())
    }

    /// Gives a socket without a name a port, and says which one it has.
    fn ensure_port(&mut self, number: Number) -> Result<u16, SocketError> {
        let port = |net: &mut Self| net.datagrams.get_mut(number)?.claim.as_ref().map(|claim| claim.port());
        if port(self).is_none() {
            self.bind_datagrams(number, (Ipv4Addr::UNSPECIFIED, 0), false)?;
        }
        port(self).ok_or(SocketError::Invalid)
    }

    /// The address meant by `peer`, if a socket can send there.
    fn destination(&mut self, number: Number, (address, port): Name) -> Result<Name, SocketError> {
        let bound = self.datagrams.get_mut(number).map_or(Ipv4Addr::UNSPECIFIED, |socket| socket.address);
        // No address at all means this node.
        let address = if address.is_unspecified() { Ipv4Addr::LOCALHOST } else { address };
        if port == 0 {
            return Err(SocketError::Invalid);
        }
        if self.is_broadcast(address) {
            let may = self.datagrams.get_mut(number).is_some_and(|socket| socket.broadcasts);
            return if may { Ok((address, port)) } else { Err(SocketError::NotPermitted) };
        }
        if !self.is_own(address) {
            self.check_reachable(Some(bound), (address, port))?;
        }
        Ok((address, port))
    }

    fn send_datagram<E: From<SocketError>>(
        &mut self,
        number: Number,
        length: usize,
        to: Option<Name>,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let socket = self.datagrams.get_mut(number).ok_or(SocketError::Invalid)?;
        if let Some(error) = socket.error.take() {
            socket.update(false);
            return Err(error.into());
        }
        if socket.write_shut {
            return Err(SocketError::Closed.into());
        }
        let (to, bound, has_room) = (to.or(socket.peer), socket.address, socket.has_room());
        let to = to.ok_or(SocketError::NoDestination).and_then(|to| self.destination(number, to))?;
        let is_local = self.is_own(to.0);
        let mtu = self.sides.job.as_ref().map_or(0, |job| job.side.mtu);
        let longest = if is_local { DATAGRAM_BYTES_MAX } else { mtu.saturating_sub(HEADERS_BYTES) };
        if length > longest.min(DATAGRAM_BYTES_MAX) {
            return Err(SocketError::MessageTooLong.into());
        }
        if !has_room {
            return Err(SocketError::WouldBlock.into());
        }
        let port = self.ensure_port(number)?;
        let mut datagram = self.datagram(length, to)?;
        fill(&mut datagram.bytes)?;
        if !is_local {
            datagram.copies = self.is_broadcast(to.0).then_some(JobNode(0));
            self.datagrams.send(number, port, datagram)?;
            return Ok(());
        }
        let source = if bound.is_unspecified() { to.0 } else { bound };
        datagram.peer = (source, port);
        match self.datagrams.find(datagram.peer, to) {
            Some(receiver) => self.datagrams.deliver(receiver, datagram),
            None => self.datagrams.refused((source, port), to),
        }
        Ok(())
    }

    /// Room for a datagram, zeroed.
    pub(crate) fn datagram(&mut self, length: usize, peer: Name) -> Result<Datagram, SocketError> {
        let grant = self.accounts.grant(block_bytes(length) + DATAGRAM_OVERHEAD_BYTES)?;
        let bytes = zeroed(length).ok_or(SocketError::NoMemory)?;
        Ok(Datagram::new(bytes, peer, grant, self.wipe))
    }
}
