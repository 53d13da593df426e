//! Bytes and datagrams between a program's memory and what carries them.

use core::net::Ipv4Addr;

use coppice_endpoint::SocketError;

use super::{Name, errno};
use crate::errno::Errno;
use crate::files::stream::{Sink, Source, Taken};
use crate::net::{Tcp, Udp};

/// Takes bytes of a connection.
pub(super) fn take_bytes(tcp: &dyn Tcp, limit: usize, peek: bool, sink: &mut Sink<'_>) -> Result<Taken, Errno> {
    if peek {
        let mut bytes = crate::files::buffer(limit.min(tcp.received()).max(1))?;
        let length = tcp.peek(&mut bytes).map_err(errno)?;
        let copied = if length > 0 { sink(&bytes[..length]) } else { 0 };
        return Ok(Taken { copied, length });
    }
    let mut left = limit;
    let taken = tcp.receive(&mut |bytes| {
        let taken = sink(&bytes[..bytes.len().min(left)]);
        left -= taken;
        taken
    });
    taken.map(|copied| Taken { copied, length: copied }).map_err(errno)
}

/// Puts bytes into a connection.
pub(super) fn put_bytes(tcp: &dyn Tcp, length: usize, source: &mut Source<'_>) -> Result<usize, Errno> {
    let mut left = length;
    let put = tcp.send(&mut |slot| {
        let count = slot.len().min(left);
        let filled = source(&mut slot[..count]);
        left -= filled;
        filled
    });
    put.map_err(|error| match error {
        // Why it is closed is told first.
        SocketError::Closed => errno(tcp.take_error().unwrap_or(error)),
        error => errno(error),
    })
}

/// Takes the next datagram, and says who sent it.
pub(super) fn take_datagram(
    udp: &dyn Udp,
    limit: usize,
    peek: bool,
    sink: &mut Sink<'_>,
) -> Result<(Taken, Option<Name>), Errno> {
    let mut copied = 0;
    let received = udp.receive(&mut |bytes| {
        let wanted = &bytes[..bytes.len().min(limit)];
        copied = if wanted.is_empty() { 0 } else { sink(wanted) };
        !peek && copied == wanted.len()
    });
    match received {
        Ok(received) => Ok((Taken { copied, length: received.length }, Some(received.source))),
        // Nothing more will be received.
        Err(SocketError::Closed) => Ok((Taken { copied: 0, length: 0 }, None)),
        Err(error) => Err(errno(error)),
    }
}

/// Sends a datagram to this name, or to the one that the socket is connected with.
pub(super) fn put_datagram(
    udp: &dyn Udp,
    length: usize,
    to: Option<Name>,
    source: &mut Source<'_>,
) -> Result<usize, Errno> {
    let sent = udp.send(length, to, &mut |room| source(room) == length);
    if matches!(sent, Err(SocketError::NoDestination | SocketError::Invalid)) && udp.local().1 == 0 {
        // Whoever tries to send has a port from then on, as on Linux.
        let _ = udp.bind(Ipv4Addr::UNSPECIFIED, 0, false);
    }
    Ok(if sent.map_err(errno)? { length } else { 0 })
}
