//! Sockets: making, naming and connecting them. TCP and UDP over IPv4 is what the network has; pairs (socketpair(2))
//! and netlink's take the same calls as far as they mean something for them.
//!
//! What waits tells the program only when all it has to tell can be written: the program's memory for it is made ready
//! before something is taken from the socket.

mod messages;
mod names;
mod options;

pub(super) use messages::{receive_from, receive_message, receive_messages, send_message, send_messages, send_to};
pub(super) use names::{local_name, peer_name};
pub(super) use options::{get_option, set_option};

use alloc::sync::Arc;

use self::names::{
    LocalName, Place, local_name_argument, name_argument, netlink_name_argument, read_local_name, read_name,
    read_netlink_name,
};
use super::Arguments;
use super::pipe::{install, socket_flags, socket_type};
use super::stream::{deadline_ns, wait};
use crate::abi::netlink::{self, AF_NETLINK};
use crate::abi::socket::{AF_INET, name};
use crate::errno::Errno;
use crate::files::netlink::Netlink;
use crate::files::pair::{PairEnd, PairKind};
use crate::files::socket::{Socket, SocketKind};
use crate::files::{Descriptor, OPEN_FILE_BYTES, Object, OpenFile, flags};
use crate::process::{Awaited, Caller, Failure, Immediate};

/// `IPPROTO_TCP`.
const PROTOCOL_TCP: u32 = 6;
/// `IPPROTO_UDP`.
const PROTOCOL_UDP: u32 = 17;

/// A file that takes socket calls.
#[derive(Clone, Copy)]
enum Kind<'a> {
    /// A socket of the network.
    Network(&'a Socket),
    /// One end of a pair.
    Pair(&'a PairEnd),
    /// One that tells of the network's interfaces.
    Netlink(&'a Netlink),
}

impl<'a> Kind<'a> {
    /// # Errors
    /// `ENOTSOCK`.
    fn of(file: &'a OpenFile) -> Result<Self, Errno> {
        match &file.object {
            Object::Socket(socket) => Ok(Self::Network(socket)),
            Object::Pair(end) => Ok(Self::Pair(end)),
            Object::Netlink(netlink) => Ok(Self::Netlink(netlink)),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// The socket of the network, for calls that are about connections; nothing else is such a thing.
    ///
    /// # Errors
    /// What Linux says of something else.
    fn network(self) -> Result<&'a Socket, Errno> {
        match self {
            Self::Network(socket) => Ok(socket),
            Self::Pair(end) if end.kind != PairKind::Datagrams => Err(Errno::EINVAL),
            Self::Pair(_) | Self::Netlink(_) => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// The open file of a descriptor.
fn find(caller: Caller<'_>, number: i32) -> Result<Arc<OpenFile>, Errno> {
    let file = caller.file(number)?;
    if file.is_path() { Err(Errno::EBADF) } else { Ok(file) }
}

/// socket(2).
pub(super) fn socket(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let (domain, kind, protocol) = (a.uint(0), a.uint(1), a.uint(2));
    let opened_with = socket_flags(kind)? | flags::O_RDWR;
    if domain == u32::from(AF_NETLINK) {
        return netlink_socket(caller, kind & socket_type::MASK, protocol, opened_with);
    }
    if domain != u32::from(AF_INET) {
        return Err(Errno::EAFNOSUPPORT.into());
    }
    let kind = match (kind & socket_type::MASK, protocol) {
        (socket_type::STREAM, 0 | PROTOCOL_TCP) => SocketKind::Stream,
        (socket_type::DATAGRAM, 0 | PROTOCOL_UDP) => SocketKind::Datagrams,
        (socket_type::STREAM | socket_type::DATAGRAM, _) => return Err(Errno::EPROTONOSUPPORT.into()),
        _ => return Err(Errno::ESOCKTNOSUPPORT.into()),
    };
    caller.process.files.lock().check_room()?;
    let node = &caller.process.node;
    let socket = Socket::new(kind, &*node.network, &node.quota)?;
    Ok(install(caller, Object::Socket(socket), opened_with)?.cast_unsigned().into())
}

fn netlink_socket(caller: Caller<'_>, kind: u32, protocol: u32, opened_with: u32) -> Immediate {
    let is_raw = match kind {
        socket_type::RAW => true,
        socket_type::DATAGRAM => false,
        _ => return Err(Errno::ESOCKTNOSUPPORT.into()),
    };
    if protocol != netlink::ROUTE {
        return Err(Errno::EPROTONOSUPPORT.into());
    }
    caller.process.files.lock().check_room()?;
    let node = &caller.process.node;
    let socket = Netlink::new(is_raw, &node.network, &node.quota)?;
    Ok(install(caller, Object::Netlink(socket), opened_with)?.cast_unsigned().into())
}

/// bind(2).
pub(super) fn bind(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    match Kind::of(&file)? {
        Kind::Network(socket) => {
            let (address, port) = name_argument(caller, a.get(1), a.int(2))?;
            socket.bind(address, port)?;
            Ok(0)
        }
        Kind::Pair(_) => {
            // There are no names for it, but a name that cannot be read is told first.
            local_name_argument(caller, a.get(1), a.int(2))?;
            Err(Errno::EINVAL.into())
        }
        Kind::Netlink(socket) => {
            socket.bind(netlink_name_argument(caller, a.get(1), a.int(2))?)?;
            Ok(0)
        }
    }
}

/// listen(2).
pub(super) fn listen(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    // As on Linux, whose backlog is without a sign.
    Kind::of(&file)?.network()?.listen(a.uint(1) as usize)?;
    Ok(0)
}

/// shutdown(2).
pub(super) fn shutdown(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    let kind = Kind::of(&file)?;
    let (reading, writing) = match a.uint(1) {
        0 => (true, false),
        1 => (false, true),
        2 => (true, true),
        _ => return Err(Errno::EINVAL.into()),
    };
    match kind {
        Kind::Network(socket) => socket.shut_down(reading, writing)?,
        Kind::Pair(end) => end.shut_down(reading, writing),
        Kind::Netlink(_) => return Err(Errno::EOPNOTSUPP.into()),
    }
    Ok(0)
}

/// connect(2). One that is dropped while it waits goes on connecting, as one that is interrupted on Linux; made again,
/// it waits on.
pub(super) async fn connect(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    let socket = match Kind::of(&file)? {
        Kind::Network(socket) => socket,
        // A pair is connected, but who shall be its new peer is looked for first, and nobody has a name.
        Kind::Pair(_) => {
            let name = read_local_name(caller, a.get(1), a.int(2)).await?;
            return Err(name.map_or(Errno::EINVAL, LocalName::error).into());
        }
        Kind::Netlink(socket) => {
            // Whether it is the kernel's or no name any more: there is nobody else to be connected with.
            if read_netlink_name(caller, a.get(1), a.int(2)).await?.is_some() {
                socket.port();
            }
            return Ok(0);
        }
    };
    let Some((address, port)) = read_name(caller, a.get(1), a.int(2)).await? else {
        return Ok(socket.disconnect().map(|()| 0)?);
    };
    let node = &caller.process.node;
    let attempt = || socket.connect((&*node.network, &*node.servers), (address, port));
    let deadline_ns = deadline_ns(caller, &file, |options| options.send_timeout_ns);
    match attempt() {
        Err(Errno::EINPROGRESS | Errno::EALREADY) if deadline_ns > 0 => {
            let waiting = || match attempt() {
                Err(Errno::EINPROGRESS | Errno::EALREADY) => Err(Errno::EAGAIN),
                other => other,
            };
            match wait(caller, &file, deadline_ns, waiting).await {
                Err(Failure::Errno(Errno::EAGAIN)) => Err(Errno::EINPROGRESS.into()),
                other => other.map(|()| 0),
            }
        }
        other => Ok(other.map(|()| 0)?),
    }
}

/// accept(2).
pub(super) async fn accept(caller: Caller<'_>, a: &Arguments) -> Awaited {
    accept_with(caller, a, 0).await
}

/// accept4(2).
pub(super) async fn accept4(caller: Caller<'_>, a: &Arguments) -> Awaited {
    find(caller, a.int(0))?;
    if a.uint(3) & socket_type::MASK != 0 {
        return Err(Errno::EINVAL.into());
    }
    accept_with(caller, a, socket_flags(a.uint(3))?).await
}

async fn accept_with(caller: Caller<'_>, a: &Arguments, opened_with: u32) -> Awaited {
    let file = find(caller, a.int(0))?;
    let socket = Kind::of(&file)?.network()?;
    let place = Place::prepare(caller, a.get(1), a.get(2)).await?;
    let deadline_ns = deadline_ns(caller, &file, |options| options.receive_timeout_ns);
    let attempt = || {
        caller.process.files.lock().check_room()?;
        let quota = &caller.process.node.quota;
        Ok((quota.charge(OPEN_FILE_BYTES)?, socket.accept(quota)?))
    };
    let (charge, accepted) = wait(caller, &file, deadline_ns, attempt).await?;
    let peer = accepted.peer().unwrap_or((core::net::Ipv4Addr::UNSPECIFIED, 0));
    // Other threads are to see it only when nothing can go wrong any more.
    place.tell(caller, name(peer).bytes())?;
    let file = OpenFile::object(Object::Socket(accepted), opened_with | flags::O_RDWR);
    file.charge(charge);
    let descriptor = Descriptor { file: Arc::new(file), close_on_exec: opened_with & flags::O_CLOEXEC != 0 };
    Ok(caller.process.files.lock().insert(descriptor, 0)?.cast_unsigned().into())
}
