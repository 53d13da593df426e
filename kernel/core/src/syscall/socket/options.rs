//! getsockopt(2), setsockopt(2): what MPI libraries, C libraries and common tools ask for. What has an effect has it;
//! what is a wish about speed or memory is remembered and told; everything else is `ENOPROTOOPT`.

mod netlink;

use super::names::put_value;
use super::{Kind, PROTOCOL_TCP, PROTOCOL_UDP, find};
use crate::abi::socket::{
    AF_INET, AF_UNIX, LINGER_BYTES, TcpInformation, linger, parse_length, parse_linger, tcp_information,
};
use crate::abi::time::{TIME_BYTES, parse_timeval, timeval};
use crate::errno::Errno;
use crate::files::pair::PairKind;
use crate::files::socket::{Socket, SocketKind};
use crate::files::socket_options::{Flags, Options};
use crate::process::{Caller, Immediate};
use crate::syscall::Arguments;
use crate::syscall::pipe::socket_type;

/// Levels.
const SOL_SOCKET: u32 = 1;
const IPPROTO_IP: u32 = 0;

/// `SO_*`.
mod so {
    pub(super) const DEBUG: u32 = 1;
    pub(super) const REUSEADDR: u32 = 2;
    pub(super) const TYPE: u32 = 3;
    pub(super) const ERROR: u32 = 4;
    pub(super) const DONTROUTE: u32 = 5;
    pub(super) const BROADCAST: u32 = 6;
    /// The highest that Linux has.
    pub(super) const LAST: u32 = 83;
    pub(super) const SNDBUF: u32 = 7;
    pub(super) const RCVBUF: u32 = 8;
    pub(super) const KEEPALIVE: u32 = 9;
    pub(super) const OOBINLINE: u32 = 10;
    pub(super) const PRIORITY: u32 = 12;
    pub(super) const LINGER: u32 = 13;
    pub(super) const REUSEPORT: u32 = 15;
    pub(super) const PEERCRED: u32 = 17;
    pub(super) const RCVLOWAT: u32 = 18;
    pub(super) const SNDLOWAT: u32 = 19;
    pub(super) const RCVTIMEO: u32 = 20;
    pub(super) const SNDTIMEO: u32 = 21;
    pub(super) const ACCEPTCONN: u32 = 30;
    pub(super) const PROTOCOL: u32 = 38;
    pub(super) const DOMAIN: u32 = 39;
}

/// `TCP_*`.
mod tcp {
    pub(super) const NODELAY: u32 = 1;
    pub(super) const MAXSEG: u32 = 2;
    pub(super) const CORK: u32 = 3;
    pub(super) const KEEPIDLE: u32 = 4;
    pub(super) const KEEPINTVL: u32 = 5;
    pub(super) const KEEPCNT: u32 = 6;
    pub(super) const SYNCNT: u32 = 7;
    pub(super) const LINGER2: u32 = 8;
    pub(super) const DEFER_ACCEPT: u32 = 9;
    pub(super) const INFO: u32 = 11;
    pub(super) const QUICKACK: u32 = 12;
    pub(super) const CONGESTION: u32 = 13;
    pub(super) const USER_TIMEOUT: u32 = 18;
}

/// `IP_*`.
mod ip {
    pub(super) const TOS: u32 = 1;
    pub(super) const TTL: u32 = 2;
}

/// Longest time of `TCP_KEEPIDLE` and `TCP_KEEPINTVL`, s, and most of `TCP_KEEPCNT` and `TCP_SYNCNT`, as on Linux:
/// `EINVAL`.
const KEEP_S_MAX: u32 = 32_767;
const KEEP_COUNT_MAX: u32 = 127;
/// Largest `SO_SNDBUF` and `SO_RCVBUF`, bytes, as on Linux: more is cut. Twice as much is told.
const BUFFER_BYTES_MAX: u32 = 212_992;
/// Bounds of `TCP_MAXSEG`, bytes, as on Linux: `EINVAL`.
const SEGMENT_BYTES: core::ops::RangeInclusive<u32> = 88..=32_767;
/// What is told of segments that nothing was asked of, bytes.
const SEGMENT_BYTES_DEFAULT: u32 = 536;
/// What controls congestion.
const CONGESTION: &[u8; 16] = b"cubic\0\0\0\0\0\0\0\0\0\0\0";

/// Where an option that is on or off is remembered.
fn flag(level: u32, option: u32) -> Option<Flags> {
    Some(match (level, option) {
        (SOL_SOCKET, so::REUSEADDR) => Flags::REUSE_ADDRESS,
        (SOL_SOCKET, so::REUSEPORT) => Flags::REUSE_PORT,
        (SOL_SOCKET, so::KEEPALIVE) => Flags::KEEP_ALIVE,
        (SOL_SOCKET, so::BROADCAST) => Flags::BROADCAST,
        (SOL_SOCKET, so::OOBINLINE) => Flags::URGENT_IN_LINE,
        (SOL_SOCKET, so::DONTROUTE) => Flags::NO_ROUTE,
        (PROTOCOL_TCP, tcp::NODELAY) => Flags::NO_DELAY,
        (PROTOCOL_TCP, tcp::CORK) => Flags::CORK,
        (PROTOCOL_TCP, tcp::QUICKACK) => Flags::QUICK_ACKNOWLEDGE,
        _ => return None,
    })
}

/// The socket, if it has options of this level. That comes before whether there is a value.
fn of_level(socket: &Socket, level: u32) -> Result<&Socket, Errno> {
    let has = match socket.kind() {
        SocketKind::Stream => matches!(level, SOL_SOCKET | IPPROTO_IP | PROTOCOL_TCP),
        SocketKind::Datagrams => matches!(level, SOL_SOCKET | IPPROTO_IP | PROTOCOL_UDP),
    };
    if !has { Err(Errno::ENOPROTOOPT) } else { Ok(socket) }
}

/// setsockopt(2).
pub(in crate::syscall) fn set_option(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    let (level, option, address) = (a.uint(1), a.uint(2), a.get(3));
    let length = usize::try_from(a.int(4)).map_err(|_| Errno::EINVAL)?;
    let enough = |needed: usize| if length < needed { Err(Errno::EINVAL) } else { Ok(()) };
    let socket = match Kind::of(&file)? {
        Kind::Network(socket) => of_level(socket, level)?,
        Kind::Pair(end) if level == SOL_SOCKET => {
            enough(size_of::<u32>())?;
            let mut options = end.options();
            set_local_option(caller, &mut options, option, (address, length))?;
            end.set_options(options);
            return Ok(0);
        }
        Kind::Pair(_) => return Err(Errno::EOPNOTSUPP.into()),
        Kind::Netlink(socket) => return netlink::set(caller, socket, (level, option), (address, length)).map(|()| 0),
    };
    match (level, option) {
        (SOL_SOCKET, so::LINGER) => {
            enough(LINGER_BYTES)?;
            let seconds = parse_linger(&caller.get(address)?);
            socket.change_options(|options| {
                options.flags.set(Flags::LINGER, seconds.is_some());
                options.linger_s = seconds.unwrap_or(options.linger_s);
            });
        }
        (SOL_SOCKET, so::RCVTIMEO | so::SNDTIMEO) => {
            enough(TIME_BYTES)?;
            let bytes: [u8; TIME_BYTES] = caller.get(address)?;
            let timeout_ns = parse_timeval(&bytes).map_err(|_| Errno::EDOM)?;
            socket.change_options(|options| match option {
                so::RCVTIMEO => options.receive_timeout_ns = timeout_ns,
                _ => options.send_timeout_ns = timeout_ns,
            });
        }
        (PROTOCOL_TCP, tcp::CONGESTION) => {
            let name: [u8; 5] = caller.get(address)?;
            if !CONGESTION.starts_with(&name) {
                return Err(Errno::ENOENT.into());
            }
        }
        _ => {
            let value = if level == IPPROTO_IP && length < 4 {
                // They may be one byte, or none, which is 0.
                if length == 0 { 0 } else { caller.get::<1>(address)?[0].into() }
            } else {
                enough(4)?;
                u32::from_le_bytes(caller.get(address)?)
            };
            let mut options = socket.options();
            set_number(&mut options, (level, option), value)?;
            socket.change_options(|current| *current = options);
        }
    }
    Ok(0)
}

/// Sets an option of what is not in the network, and as it is: what was asked is told again.
fn set_local_option(
    caller: Caller<'_>,
    options: &mut Options,
    option: u32,
    (address, length): (u64, usize),
) -> Immediate<()> {
    let value = u32::from_le_bytes(caller.get(address)?);
    match option {
        so::TYPE | so::PROTOCOL | so::DOMAIN | so::ERROR | so::ACCEPTCONN | so::SNDLOWAT | so::PEERCRED => {
            Err(Errno::ENOPROTOOPT.into())
        }
        // Others would have to find it by a name.
        so::REUSEPORT if value != 0 => Err(Errno::EOPNOTSUPP.into()),
        so::LINGER if length < LINGER_BYTES => Err(Errno::EINVAL.into()),
        so::LINGER => {
            let seconds = parse_linger(&caller.get(address)?);
            options.flags.set(Flags::LINGER, seconds.is_some());
            options.linger_s = seconds.unwrap_or(options.linger_s);
            Ok(())
        }
        _ => match set_number(options, (SOL_SOCKET, option), value) {
            Err(Errno::ENOPROTOOPT) if option <= so::LAST => Ok(()),
            done => Ok(done?),
        },
    }
}

/// Sets an option that is a number.
fn set_number(options: &mut Options, (level, option): (u32, u32), value: u32) -> Result<(), Errno> {
    let in_bounds = |first: u32, last: u32| {
        if (first..=last).contains(&value) { Ok(value) } else { Err(Errno::EINVAL) }
    };
    if let Some(flag) = flag(level, option) {
        options.flags.set(flag, value != 0);
        return Ok(());
    }
    match (level, option) {
        (SOL_SOCKET, so::RCVBUF) => options.receive_bytes = value.min(BUFFER_BYTES_MAX) * 2,
        (SOL_SOCKET, so::SNDBUF) => options.send_bytes = value.min(BUFFER_BYTES_MAX) * 2,
        (SOL_SOCKET, so::RCVLOWAT) => options.receive_low = value.max(1),
        (SOL_SOCKET, so::PRIORITY) => options.priority = in_bounds(0, 6).map_err(|_| Errno::EPERM)?,
        (SOL_SOCKET, so::DEBUG) if value == 0 => {}
        (SOL_SOCKET, so::DEBUG) => return Err(Errno::EACCES),
        (PROTOCOL_TCP, tcp::KEEPIDLE) => options.keep_idle_s = in_bounds(1, KEEP_S_MAX)?,
        (PROTOCOL_TCP, tcp::KEEPINTVL) => options.keep_interval_s = in_bounds(1, KEEP_S_MAX)?,
        (PROTOCOL_TCP, tcp::KEEPCNT) => options.keep_count = in_bounds(1, KEEP_COUNT_MAX)?,
        (PROTOCOL_TCP, tcp::SYNCNT) => options.tries = in_bounds(1, KEEP_COUNT_MAX)?,
        (PROTOCOL_TCP, tcp::MAXSEG) if value == 0 => options.segment_bytes = 0,
        (PROTOCOL_TCP, tcp::MAXSEG) => options.segment_bytes = in_bounds(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end())?,
        (PROTOCOL_TCP, tcp::LINGER2) => options.closing_s = value,
        (PROTOCOL_TCP, tcp::DEFER_ACCEPT) => options.defer_s = value,
        (PROTOCOL_TCP, tcp::USER_TIMEOUT) => options.user_timeout_ms = in_bounds(0, i32::MAX.cast_unsigned())?,
        (IPPROTO_IP, ip::TOS) => options.service = value & 0xff,
        (IPPROTO_IP, ip::TTL) if value == u32::MAX => options.hops = Options::default().hops,
        (IPPROTO_IP, ip::TTL) => options.hops = in_bounds(1, 255)?,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// getsockopt(2).
pub(in crate::syscall) fn get_option(caller: Caller<'_>, a: &Arguments) -> Immediate {
    let file = find(caller, a.int(0))?;
    let kind = Kind::of(&file)?;
    if let Kind::Network(socket) = kind {
        // Of what is no option at all, Linux says one thing here and another when it is set.
        of_level(socket, a.uint(1)).map_err(|_| Errno::EOPNOTSUPP)?;
    }
    let (option, address, length_at) = ((a.uint(1), a.uint(2)), a.get(3), a.get(4));
    let put = |value: &[u8]| put_value(caller, address, length_at, cut(caller, length_at, value)?);
    match (kind, option) {
        (Kind::Network(socket), (SOL_SOCKET, so::LINGER)) => {
            let options = socket.options();
            put(linger(options.flags.contains(Flags::LINGER), options.linger_s).bytes())?;
        }
        (Kind::Network(socket), (SOL_SOCKET, so::RCVTIMEO)) => {
            put(timeval(socket.options().receive_timeout_ns).bytes())?
        }
        (Kind::Network(socket), (SOL_SOCKET, so::SNDTIMEO)) => put(timeval(socket.options().send_timeout_ns).bytes())?,
        (Kind::Network(socket), (PROTOCOL_TCP, tcp::INFO)) => put(tcp_information(&information(socket)).bytes())?,
        (Kind::Network(_), (PROTOCOL_TCP, tcp::CONGESTION)) => put(CONGESTION)?,
        (Kind::Network(socket), (SOL_SOCKET, so::ERROR)) => {
            // The error is gone once it was told, so it is taken when it can be.
            put(&[0; 4])?;
            let error = socket.take_error().map_or(0, |errno| u32::from(errno.0));
            put(&error.to_le_bytes())?;
        }
        (Kind::Pair(end), (SOL_SOCKET, so::ERROR)) => {
            put(&[0; 4])?;
            let error = end.take_error().map_or(0, |errno| u32::from(errno.0));
            put(&error.to_le_bytes())?;
        }
        (Kind::Network(socket), option) => put(&number(socket, option)?.to_le_bytes())?,
        (Kind::Pair(end), (SOL_SOCKET, so::LINGER)) => {
            let options = end.options();
            put(linger(options.flags.contains(Flags::LINGER), options.linger_s).bytes())?;
        }
        (Kind::Pair(end), (SOL_SOCKET, option)) => {
            let kind = match end.kind {
                PairKind::Stream => socket_type::STREAM,
                PairKind::Datagrams => socket_type::DATAGRAM,
                PairKind::Sequence => socket_type::SEQUENCE,
            };
            put(&number_of_local((AF_UNIX, kind), &end.options(), option)?.to_le_bytes())?;
        }
        (Kind::Pair(_), _) => return Err(Errno::EOPNOTSUPP.into()),
        (Kind::Netlink(socket), option) => netlink::get(socket, option, put)?,
    }
    Ok(0)
}

/// As much of a value as there is room for: the length that is told is that of what was written.
fn cut<'a>(caller: Caller<'_>, length_at: u64, value: &'a [u8]) -> Immediate<&'a [u8]> {
    let room = parse_length(caller.get(length_at)?)?;
    Ok(&value[..value.len().min(room)])
}

/// An option that is a number.
fn number(socket: &Socket, (level, option): (u32, u32)) -> Result<u32, Errno> {
    let options = socket.options();
    if let Some(flag) = flag(level, option) {
        return Ok(options.flags.contains(flag).into());
    }
    let room = |asked: u32, of: fn((usize, usize)) -> usize| match (asked, socket.capacities()) {
        (0, Some(capacities)) => u32::try_from(of(capacities)).unwrap_or(u32::MAX),
        (0, None) => BUFFER_BYTES_MAX,
        (asked, _) => asked,
    };
    Ok(match (level, option) {
        (SOL_SOCKET, so::TYPE) => match socket.kind() {
            SocketKind::Stream => socket_type::STREAM,
            SocketKind::Datagrams => socket_type::DATAGRAM,
        },
        (SOL_SOCKET, so::DOMAIN) => AF_INET.into(),
        (SOL_SOCKET, so::PROTOCOL) => match socket.kind() {
            SocketKind::Stream => PROTOCOL_TCP,
            SocketKind::Datagrams => PROTOCOL_UDP,
        },
        (SOL_SOCKET, so::ACCEPTCONN) => socket.is_listening().into(),
        (SOL_SOCKET, so::RCVBUF) => room(options.receive_bytes, |(received, _)| received),
        (SOL_SOCKET, so::SNDBUF) => room(options.send_bytes, |(_, sent)| sent),
        (SOL_SOCKET, so::RCVLOWAT) => options.receive_low,
        (SOL_SOCKET, so::SNDLOWAT) => 1,
        (SOL_SOCKET, so::PRIORITY) => options.priority,
        (SOL_SOCKET, so::DEBUG) => 0,
        (PROTOCOL_TCP, tcp::MAXSEG) if options.segment_bytes > 0 => options.segment_bytes,
        (PROTOCOL_TCP, tcp::MAXSEG) => SEGMENT_BYTES_DEFAULT,
        (PROTOCOL_TCP, tcp::KEEPIDLE) => options.keep_idle_s,
        (PROTOCOL_TCP, tcp::KEEPINTVL) => options.keep_interval_s,
        (PROTOCOL_TCP, tcp::KEEPCNT) => options.keep_count,
        (PROTOCOL_TCP, tcp::SYNCNT) => options.tries,
        (PROTOCOL_TCP, tcp::LINGER2) => options.closing_s,
        (PROTOCOL_TCP, tcp::DEFER_ACCEPT) => options.defer_s,
        (PROTOCOL_TCP, tcp::USER_TIMEOUT) => options.user_timeout_ms,
        (IPPROTO_IP, ip::TOS) => options.service,
        (IPPROTO_IP, ip::TTL) => options.hops,
        (SOL_SOCKET | IPPROTO_IP | PROTOCOL_TCP, _) => return Err(Errno::ENOPROTOOPT),
        _ => return Err(Errno::EOPNOTSUPP),
    })
}

/// The same of what is not in the network, but of this family and type.
fn number_of_local((family, kind): (u16, u32), options: &Options, option: u32) -> Result<u32, Errno> {
    Ok(match option {
        so::TYPE => kind,
        so::DOMAIN => family.into(),
        so::RCVBUF | so::SNDBUF => BUFFER_BYTES_MAX,
        so::ERROR | so::PROTOCOL | so::ACCEPTCONN | so::DEBUG => 0,
        so::RCVLOWAT => options.receive_low,
        so::SNDLOWAT => 1,
        so::PRIORITY => options.priority,
        _ => {
            return flag(SOL_SOCKET, option)
                .map_or(Err(Errno::ENOPROTOOPT), |flag| Ok(options.flags.contains(flag).into()));
        }
    })
}

/// What TCP_INFO tells.
fn information(socket: &Socket) -> TcpInformation {
    TcpInformation {
        state: socket.state(),
        segment_bytes: SEGMENT_BYTES_DEFAULT,
        unacknowledged: u32::try_from(socket.unsent()).unwrap_or(u32::MAX),
        receive_space: socket.capacities().map_or(0, |(received, _)| u32::try_from(received).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Errno, IPPROTO_IP, Options, ip, set_number};

    #[test]
    fn minus_one_hop_is_as_many_as_there_are_by_default() {
        let mut options = Options::default();
        let mut set = |value: i32| set_number(&mut options, (IPPROTO_IP, ip::TTL), value.cast_unsigned());
        assert_eq!((set(5), set(0), set(256)), (Ok(()), Err(Errno::EINVAL), Err(Errno::EINVAL)));
        assert_eq!(set(-1), Ok(()));
        assert_eq!(options.hops, Options::default().hops);
    }
}
