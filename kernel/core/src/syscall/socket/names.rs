//! Names of sockets in the program's memory: as arguments, getsockname(2), getpeername(2), and the places where calls
//! that wait put them.

use core::net::Ipv4Addr;

use coppice_hal::paging::Access;

use super::{Kind, find};
use crate::abi::netlink::{self, AF_NETLINK};
use crate::abi::socket::{
    AF_INET, AF_UNIX, AF_UNSPEC, NAME_BYTES, NAME_BYTES_MAX, family, name, parse_length, parse_name,
};
use crate::errno::Errno;
use crate::memory::CopyError;
use crate::process::{Awaited, Caller, Failure, Immediate};
use crate::syscall::Arguments;

/// Whether a name can be so long.
fn check_length(length: i32) -> Result<(), Errno> {
    if (NAME_BYTES as i32..=NAME_BYTES_MAX).contains(&length) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// The address of a name of that length. One that is too short is read all the same, as on Linux.
fn checked(caller: Caller<'_>, address: u64, length: i32) -> Immediate<u64> {
    if (1..NAME_BYTES as i32).contains(&length) {
        caller.process.space.lock().read_bytes(address, &mut [0; NAME_BYTES][..length as usize])?;
    }
    check_length(length)?;
    Ok(address)
}

/// The name in an argument of bind(2), which may also be of no family if it is 0.0.0.0.
pub(super) fn name_argument(caller: Caller<'_>, address: u64, length: i32) -> Immediate<(Ipv4Addr, u16)> {
    let bytes = caller.get(checked(caller, address, length)?)?;
    let name = parse_name(&bytes);
    match family(&bytes) {
        AF_INET => Ok(name),
        AF_UNSPEC if name.0.is_unspecified() => Ok(name),
        _ => Err(Errno::EAFNOSUPPORT.into()),
    }
}

/// The name in an argument of a call that waits; `None`: one of no family.
pub(super) async fn read_name(caller: Caller<'_>, address: u64, length: i32) -> Awaited<Option<(Ipv4Addr, u16)>> {
    if (1..NAME_BYTES as i32).contains(&length) {
        caller.read(address, &mut [0; NAME_BYTES][..length as usize]).await?;
    }
    check_length(length)?;
    let bytes = caller.read_array(address).await?;
    match family(&bytes) {
        AF_INET => Ok(Some(parse_name(&bytes))),
        AF_UNSPEC => Ok(None),
        _ => Err(Errno::EAFNOSUPPORT.into()),
    }
}

/// A name that a socket of this node could have (unix(7)). None has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalName {
    /// A path.
    Path,
    /// Any other.
    Abstract,
}

impl LocalName {
    /// What is said of it, as there is no such socket.
    pub(super) fn error(self) -> Errno {
        match self {
            Self::Path => Errno::ENOENT,
            Self::Abstract => Errno::ECONNREFUSED,
        }
    }
}

/// Room for any name.
type Room = [u8; NAME_BYTES_MAX as usize];

/// As much of it as a name takes that is so long.
///
/// # Errors
/// `EINVAL`: no name is.
fn room(bytes: &mut Room, length: i32) -> Result<&mut [u8], Errno> {
    usize::try_from(length).ok().and_then(|length| bytes.get_mut(..length)).ok_or(Errno::EINVAL)
}

/// Which name of a socket of this node it is; `None`: it is something else.
fn parse_local_name(name: &[u8]) -> Option<LocalName> {
    /// A name without a path, and one with the longest, bytes.
    const LENGTHS: core::ops::RangeInclusive<usize> = 3..=110;
    match *name {
        [low, high, first, ..] if u16::from_le_bytes([low, high]) == AF_UNIX && LENGTHS.contains(&name.len()) => {
            Some(if first == 0 { LocalName::Abstract } else { LocalName::Path })
        }
        _ => None,
    }
}

/// Reads the name of a socket of this node; `None`: it is something else.
pub(super) async fn read_local_name(caller: Caller<'_>, address: u64, length: i32) -> Awaited<Option<LocalName>> {
    let mut bytes: Room = [0; NAME_BYTES_MAX as usize];
    let name = room(&mut bytes, length)?;
    caller.read(address, name).await?;
    Ok(parse_local_name(name))
}

/// The name in an argument of bind(2).
pub(super) fn local_name_argument(caller: Caller<'_>, address: u64, length: i32) -> Immediate<Option<LocalName>> {
    let mut bytes: Room = [0; NAME_BYTES_MAX as usize];
    let name = room(&mut bytes, length)?;
    caller.process.space.lock().read_bytes(address, name)?;
    Ok(parse_local_name(name))
}

/// The name of a netlink socket in an argument of bind(2).
pub(super) fn netlink_name_argument(caller: Caller<'_>, address: u64, length: i32) -> Immediate<netlink::Name> {
    let mut bytes: Room = [0; NAME_BYTES_MAX as usize];
    let name = room(&mut bytes, length)?;
    caller.process.space.lock().read_bytes(address, name)?;
    Ok(parse_netlink_name(name)?.ok_or(Errno::EINVAL)?)
}

/// The name of a netlink socket in an argument of a call that waits, which is about nobody but the kernel; `None`: one
/// of no family.
pub(super) async fn read_netlink_name(caller: Caller<'_>, address: u64, length: i32) -> Awaited<Option<netlink::Name>> {
    let mut bytes: Room = [0; NAME_BYTES_MAX as usize];
    let name = room(&mut bytes, length)?;
    caller.read(address, name).await?;
    match parse_netlink_name(name)? {
        // To speak with others is for whoever is privileged.
        Some(name) if name != netlink::Name::default() => Err(Errno::EPERM.into()),
        other => Ok(other),
    }
}

/// A name of a netlink socket; `None`: it is of no family.
fn parse_netlink_name(name: &[u8]) -> Result<Option<netlink::Name>, Errno> {
    let family = name.first_chunk().map(|family| u16::from_le_bytes(*family));
    match (family, name.first_chunk()) {
        (Some(AF_UNSPEC), _) => Ok(None),
        (Some(AF_NETLINK), Some(name)) => Ok(Some(netlink::Name::parse(name))),
        _ => Err(Errno::EINVAL),
    }
}

/// Writes as much of a value as there is room for, and its length, to where a program wants them.
pub(super) fn put_value(caller: Caller<'_>, address: u64, length_at: u64, value: &[u8]) -> Immediate<()> {
    let room = parse_length(caller.get(length_at)?)?;
    caller.put(address, &value[..value.len().min(room)])?;
    caller.put(length_at, &(value.len() as u32).to_le_bytes())
}

/// getsockname(2).
pub(in crate::syscall) fn local_name(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    match Kind::of(&file)? {
        Kind::Network(socket) => put_value(caller, a.get(1), a.get(2), name(socket.local()).bytes())?,
        Kind::Pair(_) => put_value(caller, a.get(1), a.get(2), &AF_UNIX.to_le_bytes())?,
        Kind::Netlink(socket) => put_value(caller, a.get(1), a.get(2), socket.name().record().bytes())?,
    }
    Ok(0)
}

/// getpeername(2).
pub(in crate::syscall) fn peer_name(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    match Kind::of(&file)? {
        Kind::Network(socket) => put_value(caller, a.get(1), a.get(2), name(socket.peer()?).bytes())?,
        Kind::Pair(_) => put_value(caller, a.get(1), a.get(2), &AF_UNIX.to_le_bytes())?,
        Kind::Netlink(_) => put_value(caller, a.get(1), a.get(2), netlink::Name::default().record().bytes())?,
    }
    Ok(0)
}

/// Makes memory ready to be written without waiting.
pub(super) async fn make_ready(caller: Caller<'_>, address: u64, length: usize) -> Awaited<()> {
    loop {
        let touched = caller.process.space.lock().touch(address, length, Access::WRITE);
        match touched {
            Ok(()) => return Ok(()),
            Err(CopyError::Fetch { fetch, .. }) => caller.fetch_for_copy(&fetch).await?,
            Err(CopyError::Fault { .. }) => return Err(Errno::EFAULT.into()),
            Err(CopyError::OutOfMemory) => return Err(Failure::OutOfMemory),
        }
    }
}

/// Where a call that waits is to put a name, if the program wants to know it.
pub(super) struct Place(Option<(u64, u64)>);

impl Place {
    /// The memory at `address`, for as many bytes as the number at `length_at` says, is made ready.
    pub(super) async fn prepare(caller: Caller<'_>, address: u64, length_at: u64) -> Awaited<Self> {
        if address == 0 {
            return Ok(Self(None));
        }
        let room = parse_length(caller.read_array(length_at).await?)?;
        make_ready(caller, address, room.min(NAME_BYTES)).await?;
        make_ready(caller, length_at, 4).await?;
        Ok(Self(Some((address, length_at))))
    }

    /// Puts a name there.
    pub(super) fn tell(&self, caller: Caller<'_>, name: &[u8]) -> Immediate<()> {
        self.0.map_or(Ok(()), |(address, length_at)| put_value(caller, address, length_at, name))
    }
}
