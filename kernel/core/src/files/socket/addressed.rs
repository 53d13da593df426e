//! Whom datagrams are for, and whom they are from.

use core::net::Ipv4Addr;

use super::transfer::{put_datagram, take_datagram};
use super::{Name, Socket, SocketKind, Transport};
use crate::errno::Errno;
use crate::files::stream::{Shape, Sink, Source, Stream, Taken};
use crate::sync::{LockLevel, Mutex};

/// A socket's bytes or datagrams, with those whom datagrams are for and from.
pub(crate) struct Addressed<'a> {
    socket: &'a Socket,
    /// Whom datagrams are for, if not for whom the socket is connected to.
    to: Option<Name>,
    /// Who sent the last one.
    from: Mutex<Option<Name>>,
}

impl<'a> Addressed<'a> {
    /// What is put is for `to`, if it is said so and the socket is for datagrams.
    pub(crate) fn new(socket: &'a Socket, to: Option<Name>) -> Self {
        let to = to.filter(|_| socket.kind() == SocketKind::Datagrams);
        Self { socket, to, from: Mutex::new(LockLevel::Fact, None) }
    }

    /// Who sent the datagram that was taken last.
    pub(crate) fn from(&self) -> Option<Name> {
        *self.from.lock()
    }
}

impl Stream for Addressed<'_> {
    fn take(&self, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
        match &self.socket.transport {
            Transport::Tcp(_) => self.socket.take(limit, peek, sink),
            Transport::Udp(udp) => {
                let (taken, from) = take_datagram(&**udp, limit, peek, sink)?;
                *self.from.lock() = from;
                Ok(taken)
            }
        }
    }

    fn put(&self, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
        match &self.socket.transport {
            Transport::Tcp(_) => self.socket.put(length, source),
            Transport::Udp(udp) => put_datagram(&**udp, length, self.to, source),
        }
    }

    fn receiver(&self) -> Option<Ipv4Addr> {
        self.to.map(|(address, _)| address).or_else(|| self.socket.peer_address())
    }

    fn sender(&self) -> Option<Ipv4Addr> {
        match self.socket.kind() {
            SocketKind::Stream => self.socket.peer_address(),
            SocketKind::Datagrams => self.from().map(|(address, _)| address),
        }
    }

    fn shape(&self) -> Shape {
        self.socket.shape()
    }
}
