//! Options of netlink sockets: those of sockets as pairs have them, time limits, and groups, in which nothing is ever
//! said.

use super::{SOL_SOCKET, number_of_local, set_local_option, so};
use crate::abi::netlink::{AF_NETLINK, LEVEL};
use crate::abi::time::{TIME_BYTES, parse_timeval, timeval};
use crate::errno::Errno;
use crate::files::netlink::Netlink;
use crate::process::{Caller, Immediate};
use crate::syscall::pipe::socket_type;

/// `NETLINK_ADD_MEMBERSHIP` and `NETLINK_DROP_MEMBERSHIP`.
const JOIN: u32 = 1;
const LEAVE: u32 = 2;
/// `NETLINK_EXT_ACK`: errors may come with more than their numbers.
const EXTENDED: u32 = 11;

/// Sets an option.
pub(super) fn set(
    caller: Caller<'_>,
    socket: &Netlink,
    (level, option): (u32, u32),
    (address, length): (u64, usize),
) -> Immediate<()> {
    let enough = |needed: usize| if length < needed { Err(Errno::EINVAL) } else { Ok(()) };
    enough(size_of::<u32>())?;
    match (level, option) {
        (SOL_SOCKET, so::RCVTIMEO | so::SNDTIMEO) => {
            enough(TIME_BYTES)?;
            let bytes: [u8; TIME_BYTES] = caller.get(address)?;
            let timeout_ns = parse_timeval(&bytes).map_err(|_| Errno::EDOM)?;
            socket.change_options(|options| match option {
                so::RCVTIMEO => options.receive_timeout_ns = timeout_ns,
                _ => options.send_timeout_ns = timeout_ns,
            });
        }
        (SOL_SOCKET, option) => {
            let mut options = socket.options();
            set_local_option(caller, &mut options, option, (address, length))?;
            socket.change_options(|current| *current = options);
        }
        (LEVEL, JOIN | LEAVE) => socket.join(u32::from_le_bytes(caller.get(address)?), option == JOIN)?,
        (LEVEL, EXTENDED) => {}
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(())
}

/// Calls `put` with an option's value.
pub(super) fn get(
    socket: &Netlink,
    (level, option): (u32, u32),
    put: impl FnOnce(&[u8]) -> Immediate<()>,
) -> Immediate<()> {
    let options = socket.options();
    match (level, option) {
        (SOL_SOCKET, so::RCVTIMEO) => put(timeval(options.receive_timeout_ns).bytes()),
        (SOL_SOCKET, so::SNDTIMEO) => put(timeval(options.send_timeout_ns).bytes()),
        (SOL_SOCKET, option) => {
            let kind = if socket.is_raw { socket_type::RAW } else { socket_type::DATAGRAM };
            put(&number_of_local((AF_NETLINK, kind), &options, option)?.to_le_bytes())
        }
        _ => Err(Errno::ENOPROTOOPT.into()),
    }
}
