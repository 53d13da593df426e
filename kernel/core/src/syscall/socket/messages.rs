//! send(2) and recv(2) in all their forms. The network and pairs are the same here: a [`Stream`] of bytes, or of
//! messages. Datagrams of the network have names besides: whom they are for, and whom they are from.

use core::net::Ipv4Addr;

use super::names::{LocalName, Place, make_ready, read_local_name, read_name, read_netlink_name};
use super::{Kind, find};
use crate::abi::netlink;
use crate::abi::socket::{
    CONTROL_LENGTH_AT, COUNT_AT, COUNTED_MESSAGE_BYTES, MESSAGE_BYTES, Message, NAME_LENGTH_AT, name, received,
};
use crate::abi::time::parse_timespec;
use crate::clock;
use crate::errno::Errno;
use crate::files::netlink::Netlink;
use crate::files::pair::PairKind;
use crate::files::socket::{Addressed, SocketKind};
use crate::files::stream::{Shape, Stream};
use crate::files::{Object, OpenFile};
use crate::process::{Awaited, Caller, Failure, Immediate};
use crate::syscall::Arguments;
use crate::syscall::ranges::Ranges;
use crate::syscall::stream::{How, discard, read_stream, write_stream};

/// `MSG_*`.
mod msg {
    pub(super) const OOB: u32 = 0x1;
    pub(super) const PEEK: u32 = 0x2;
    pub(super) const TRUNC: u32 = 0x20;
    pub(super) const DONTWAIT: u32 = 0x40;
    pub(super) const WAITALL: u32 = 0x100;
    pub(super) const ERRQUEUE: u32 = 0x2000;
    pub(super) const NOSIGNAL: u32 = 0x4000;
    pub(super) const WAITFORONE: u32 = 0x1_0000;
    pub(super) const FASTOPEN: u32 = 0x2000_0000;
}

/// Most messages of sendmmsg(2) and recvmmsg(2), as on Linux; more are cut.
const MESSAGES_MAX: u32 = 1024;

/// Address and port.
type Name = (Ipv4Addr, u16);

/// Who sent something.
#[derive(Clone, Copy)]
enum Sender {
    /// Somebody in the network.
    Network(Name),
    /// The kernel, to a netlink socket.
    Kernel,
}

/// Tells who sent something, if that is known.
fn tell(place: &Place, caller: Caller<'_>, from: Option<Sender>) -> Immediate<()> {
    match from {
        None => place.tell(caller, &[]),
        Some(Sender::Network(from)) => place.tell(caller, name(from).bytes()),
        Some(Sender::Kernel) => place.tell(caller, netlink::Name::default().record().bytes()),
    }
}

/// What can be sent to and received from.
enum Peer<'a> {
    /// A socket of the network.
    Network(Addressed<'a>),
    /// One end of a pair.
    Pair(&'a dyn Stream),
    /// The kernel.
    Kernel(&'a Netlink),
}

impl<'a> Peer<'a> {
    /// What is sent is for `to`, if there is a choice.
    ///
    /// # Errors
    /// `ENOTSOCK`, or that `to` is not for programs.
    fn of(file: &'a OpenFile, to: Option<Name>) -> Result<Self, Errno> {
        match &file.object {
            Object::Socket(socket) => Ok(Self::Network(Addressed::new(socket, to))),
            Object::Netlink(netlink) => Ok(Self::Kernel(netlink)),
            _ => {
                Kind::of(file)?;
                file.as_stream().map(Self::Pair).ok_or(Errno::ENOTSOCK)
            }
        }
    }

    fn stream(&self) -> &dyn Stream {
        match self {
            Self::Network(addressed) => addressed,
            Self::Pair(end) => *end,
            Self::Kernel(netlink) => *netlink,
        }
    }

    /// Who sent what was received last, if that can be told.
    fn from(&self) -> Option<Sender> {
        match self {
            Self::Network(addressed) => addressed.from().map(Sender::Network),
            Self::Pair(_) => None,
            Self::Kernel(_) => Some(Sender::Kernel),
        }
    }
}

/// Whom the bytes of a call are for, if it says so. What is connected is sent to its peer, whatever name is given; but
/// streams and datagrams of a pair take none.
async fn destination(caller: Caller<'_>, file: &OpenFile, address: u64, length: i32) -> Awaited<Option<Name>> {
    let kind = Kind::of(file)?;
    if address == 0 || length == 0 {
        return Ok(None);
    }
    match kind {
        Kind::Network(socket) if socket.kind() == SocketKind::Datagrams => read_name(caller, address, length).await,
        Kind::Pair(end) => match (end.kind, read_local_name(caller, address, length).await?) {
            (PairKind::Stream, _) => Err(Errno::EISCONN.into()),
            (PairKind::Sequence, _) => Ok(None),
            (PairKind::Datagrams, name) => Err(name.map_or(Errno::EINVAL, LocalName::error).into()),
        },
        Kind::Network(_) => Ok(None),
        Kind::Netlink(_) => match read_netlink_name(caller, address, length).await? {
            Some(_) => Ok(None),
            None => Err(Errno::EINVAL.into()),
        },
    }
}

async fn send(caller: Caller<'_>, file: &OpenFile, ranges: &mut Ranges, to: Option<Name>, flags: u32) -> Awaited {
    let peer = Peer::of(file, to)?;
    let stream = peer.stream();
    let is_stream = matches!(&file.object, Object::Socket(socket) if socket.kind() == SocketKind::Stream);
    if flags & msg::OOB != 0 || flags & msg::FASTOPEN != 0 && is_stream {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let mut how = How { quiet: flags & msg::NOSIGNAL != 0, ..How::writing(caller, file) };
    if flags & msg::DONTWAIT != 0 {
        how.deadline_ns = 0;
    }
    // An empty message is one. No bytes at all are none, but it is told whether any could be sent.
    if ranges.left() == 0 && stream.shape() == Shape::Bytes {
        how.deadline_ns = 0;
        return match write_stream(caller, file, stream, ranges, how).await {
            Err(Failure::Errno(Errno::EAGAIN)) => Ok(0),
            other => other,
        };
    }
    write_stream(caller, file, stream, ranges, how).await
}

/// What was received.
struct Received {
    /// What the call returns.
    told: u64,
    /// What `msg_flags` says.
    flags: u32,
    /// Who sent it, if that is told.
    from: Option<Sender>,
}

async fn receive(caller: Caller<'_>, file: &OpenFile, ranges: &mut Ranges, flags: u32) -> Awaited<Received> {
    let peer = Peer::of(file, None)?;
    let stream = peer.stream();
    if flags & msg::OOB != 0 {
        return Err(if matches!(peer, Peer::Kernel(_)) { Errno::EOPNOTSUPP } else { Errno::EINVAL }.into());
    }
    if flags & msg::ERRQUEUE != 0 {
        return Err(Errno::EAGAIN.into());
    }
    let peek = flags & msg::PEEK != 0;
    let mut how = How { peek, all: flags & msg::WAITALL != 0 && !peek, ..How::reading(caller, file) };
    if flags & msg::DONTWAIT != 0 {
        how.deadline_ns = 0;
    }
    let is_bytes = stream.shape() == Shape::Bytes;
    let is_connection = is_bytes && matches!(file.object, Object::Socket(_));
    if is_connection && flags & msg::TRUNC != 0 && !peek {
        let told = discard(caller, file, stream, ranges.left(), how).await?;
        return Ok(Received { told, flags: 0, from: None });
    }
    let taken = read_stream(caller, file, stream, ranges, how).await?;
    let is_cut = !is_bytes && taken.length > taken.copied;
    let told = if is_cut && flags & msg::TRUNC != 0 { taken.length } else { taken.copied };
    Ok(Received { told: told as u64, flags: if is_cut { msg::TRUNC } else { 0 }, from: peer.from() })
}

/// sendto(2).
pub(in crate::syscall) async fn send_to(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    let to = destination(caller, &file, a.get(4), a.int(5)).await?;
    let mut ranges = Ranges::one(a.get(1), a.get(2))?;
    send(caller, &file, &mut ranges, to, a.uint(3)).await
}

/// recvfrom(2). What is connected has no names with its bytes.
pub(in crate::syscall) async fn receive_from(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    let place = Place::prepare(caller, a.get(4), a.get(5)).await?;
    let mut ranges = Ranges::one(a.get(1), a.get(2))?;
    let received = receive(caller, &file, &mut ranges, a.uint(3)).await?;
    tell(&place, caller, received.from)?;
    Ok(received.told)
}

/// sendmsg(2). Nothing but bytes can be sent.
pub(in crate::syscall) async fn send_message(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    send_one(caller, &file, a.get(1), a.uint(2)).await
}

async fn send_one(caller: Caller<'_>, file: &OpenFile, address: u64, flags: u32) -> Awaited {
    Kind::of(file)?;
    let message = Message::parse(&caller.read_array::<MESSAGE_BYTES>(address).await?);
    if message.control_length > 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut ranges = Ranges::read(caller, message.ranges, message.range_count).await?;
    let to = destination(caller, file, message.name, message.name_length.cast_signed()).await?;
    send(caller, file, &mut ranges, to, flags).await
}

/// recvmsg(2).
pub(in crate::syscall) async fn receive_message(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    receive_one(caller, &file, a.get(1), a.uint(2)).await
}

async fn receive_one(caller: Caller<'_>, file: &OpenFile, address: u64, flags: u32) -> Awaited {
    Kind::of(file)?;
    let message = Message::parse(&caller.read_array::<MESSAGE_BYTES>(address).await?);
    make_ready(caller, address, MESSAGE_BYTES).await?;
    let place = Place::prepare(caller, message.name, address + NAME_LENGTH_AT).await?;
    let mut ranges = Ranges::read(caller, message.ranges, message.range_count).await?;
    let got = receive(caller, file, &mut ranges, flags).await?;
    tell(&place, caller, got.from)?;
    caller.put(address + CONTROL_LENGTH_AT, received(got.flags).bytes())?;
    Ok(got.told)
}

/// sendmmsg(2).
pub(in crate::syscall) async fn send_messages(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    let (mut done, _) = caller.messages_before(|| u64::MAX);
    while done < u64::from(a.uint(2).min(MESSAGES_MAX)) {
        let address = a.get(1).wrapping_add(done * COUNTED_MESSAGE_BYTES as u64);
        let sent = async {
            make_ready(caller, address, COUNTED_MESSAGE_BYTES).await?;
            send_one(caller, &file, address, a.uint(3)).await
        };
        match count(caller, address, sent.await)? {
            Ok(()) => done += 1,
            Err(_) if done > 0 => break,
            Err(failure) => return Err(failure),
        }
        caller.moved(done);
    }
    Ok(done)
}

/// recvmmsg(2). As on Linux, its time limit is looked at behind each message only.
pub(in crate::syscall) async fn receive_messages(caller: Caller<'_>, a: &Arguments) -> Awaited {
    let file = find(caller, a.int(0))?;
    let timeout_ns = match a.get(4) {
        0 => u64::MAX,
        address => parse_timespec(&caller.read_array(address).await?)?,
    };
    let (mut done, deadline_ns) = caller.messages_before(|| clock::monotonic_ns().saturating_add(timeout_ns));
    let mut flags = a.uint(3) & !msg::WAITFORONE;
    if done > 0 && a.uint(3) & msg::WAITFORONE != 0 {
        flags |= msg::DONTWAIT;
    }
    while done < u64::from(a.uint(2).min(MESSAGES_MAX)) {
        let address = a.get(1).wrapping_add(done * COUNTED_MESSAGE_BYTES as u64);
        let taken = async {
            make_ready(caller, address, COUNTED_MESSAGE_BYTES).await?;
            receive_one(caller, &file, address, flags).await
        };
        match count(caller, address, taken.await)? {
            Ok(()) => done += 1,
            Err(_) if done > 0 => break,
            Err(failure) => return Err(failure),
        }
        caller.moved(done);
        if a.uint(3) & msg::WAITFORONE != 0 {
            flags |= msg::DONTWAIT;
        }
        if clock::monotonic_ns() >= deadline_ns {
            break;
        }
    }
    Ok(done)
}

/// Writes down the bytes of one message of several.
fn count(caller: Caller<'_>, address: u64, result: Awaited) -> Awaited<Result<(), Failure>> {
    match result {
        Ok(bytes) => {
            caller.put(address + COUNT_AT, &(bytes as u32).to_le_bytes())?;
            Ok(Ok(()))
        }
        Err(failure) if failure.leaves_part() => Ok(Err(failure)),
        Err(failure) => Err(failure),
    }
}
