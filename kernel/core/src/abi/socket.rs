//! Sockets' names, messages and options: `struct sockaddr_in`, `struct msghdr`, `struct linger`, `struct tcp_info`.

use core::net::Ipv4Addr;

use super::{Record, u16_at, u32_at, u64_at};
use crate::errno::Errno;

/// `AF_UNSPEC`: of no family.
pub(crate) const AF_UNSPEC: u16 = 0;
/// `AF_UNIX`: within this node.
pub(crate) const AF_UNIX: u16 = 1;
/// `AF_INET`: IPv4.
pub(crate) const AF_INET: u16 = 2;

/// Length of `struct sockaddr_in`, bytes.
pub(crate) const NAME_BYTES: usize = 16;

/// Longest name that is taken, bytes (`struct sockaddr_storage`): `EINVAL`.
pub(crate) const NAME_BYTES_MAX: i32 = 128;

/// `struct sockaddr_in` → address and port; the family is another matter.
pub(crate) fn parse_name(bytes: &[u8; NAME_BYTES]) -> (Ipv4Addr, u16) {
    let address = Ipv4Addr::from_bits(u32_at(bytes, 4).swap_bytes());
    (address, u16_at(bytes, 2).swap_bytes())
}

/// The family of a `struct sockaddr`.
pub(crate) fn family(bytes: &[u8; NAME_BYTES]) -> u16 {
    u16_at(bytes, 0)
}

/// `struct sockaddr_in`.
pub(crate) fn name((address, port): (Ipv4Addr, u16)) -> Record<NAME_BYTES> {
    Record::new().u16(0, AF_INET).raw(2, &port.to_be_bytes()).raw(4, &address.octets())
}

/// Length of `struct msghdr`, bytes.
pub(crate) const MESSAGE_BYTES: usize = 56;
/// Length of `struct mmsghdr`, bytes.
pub(crate) const COUNTED_MESSAGE_BYTES: usize = 64;
/// Where `msg_len` is in `struct mmsghdr`.
pub(crate) const COUNT_AT: u64 = 56;
/// Where `msg_namelen` is in `struct msghdr`.
pub(crate) const NAME_LENGTH_AT: u64 = 8;
/// Where `msg_controllen` is in `struct msghdr`; `msg_flags` follows.
pub(crate) const CONTROL_LENGTH_AT: u64 = 40;

/// `struct msghdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) name: u64,
    pub(crate) name_length: u32,
    /// The iovec: address and entries.
    pub(crate) ranges: u64,
    pub(crate) range_count: u64,
    pub(crate) control_length: u64,
}

impl Message {
    /// From the program's bytes.
    pub(crate) fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Self {
        Self {
            name: u64_at(bytes, 0),
            name_length: u32_at(bytes, 8),
            ranges: u64_at(bytes, 16),
            range_count: u64_at(bytes, 24),
            control_length: u64_at(bytes, 40),
        }
    }
}

/// What recvmsg(2) leaves from `msg_controllen` on: nothing beside the bytes, and `msg_flags`.
pub(crate) fn received(flags: u32) -> Record<12> {
    Record::new().u32(8, flags)
}

/// Length of `struct linger`, bytes.
pub(crate) const LINGER_BYTES: usize = 8;

/// `struct linger` → seconds, if it is on.
pub(crate) fn parse_linger(bytes: &[u8; LINGER_BYTES]) -> Option<u32> {
    (u32_at(bytes, 0) != 0).then(|| u32_at(bytes, 4))
}

/// `struct linger`.
pub(crate) fn linger(is_on: bool, seconds: u32) -> Record<LINGER_BYTES> {
    Record::new().u32(0, is_on.into()).u32(4, seconds)
}

/// Length of `struct tcp_info` as far as it is told, bytes.
pub(crate) const TCP_INFORMATION_BYTES: usize = 104;

/// What is told of a connection; everything else of a `struct tcp_info` is zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpInformation {
    /// `TCP_ESTABLISHED` and so on.
    pub(crate) state: u8,
    /// Longest segments, bytes.
    pub(crate) segment_bytes: u32,
    /// Bytes that wait for an acknowledgement.
    pub(crate) unacknowledged: u32,
    /// Room for bytes that come, bytes.
    pub(crate) receive_space: u32,
}

/// `struct tcp_info`.
pub(crate) fn tcp_information(of: &TcpInformation) -> Record<TCP_INFORMATION_BYTES> {
    let segments = of.unacknowledged.div_ceil(of.segment_bytes.max(1));
    Record::new()
        .raw(0, &[of.state])
        .u32(16, of.segment_bytes)
        .u32(20, of.segment_bytes)
        .u32(24, segments)
        .u32(96, of.receive_space)
}

/// A length that a program passes as `socklen_t` by address.
///
/// # Errors
/// `EINVAL`: negative.
pub(crate) fn parse_length(bytes: [u8; 4]) -> Result<usize, Errno> {
    usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};
    use core::net::Ipv4Addr;

    use super::super::{u16_at, u32_at};
    use super::*;

    #[test]
    fn layouts_are_the_hosts() {
        assert_eq!(NAME_BYTES, size_of::<libc::sockaddr_in>());
        let bytes = name((Ipv4Addr::new(10, 64, 0, 1), 0x1234)).into_bytes();
        assert_eq!(u16_at(&bytes, offset_of!(libc::sockaddr_in, sin_family)), libc::AF_INET as u16);
        assert_eq!(u16_at(&bytes, offset_of!(libc::sockaddr_in, sin_port)), 0x1234_u16.to_be());
        assert_eq!(u32_at(&bytes, offset_of!(libc::sockaddr_in, sin_addr)), 0x0a40_0001_u32.to_be());
        assert_eq!(parse_name(&bytes), (Ipv4Addr::new(10, 64, 0, 1), 0x1234));
        assert_eq!((AF_UNIX, AF_INET, AF_UNSPEC), (libc::AF_UNIX as u16, libc::AF_INET as u16, 0));
        assert_eq!(NAME_BYTES_MAX as usize, size_of::<libc::sockaddr_storage>());

        assert_eq!(MESSAGE_BYTES, size_of::<libc::msghdr>());
        assert_eq!(COUNTED_MESSAGE_BYTES, size_of::<libc::mmsghdr>());
        assert_eq!(COUNT_AT as usize, offset_of!(libc::mmsghdr, msg_len));
        assert_eq!(NAME_LENGTH_AT as usize, offset_of!(libc::msghdr, msg_namelen));
        assert_eq!(CONTROL_LENGTH_AT as usize, offset_of!(libc::msghdr, msg_controllen));
        assert_eq!(offset_of!(libc::msghdr, msg_flags), offset_of!(libc::msghdr, msg_controllen) + 8);
        assert_eq!((offset_of!(libc::msghdr, msg_iov), offset_of!(libc::msghdr, msg_iovlen)), (16, 24));

        assert_eq!(LINGER_BYTES, size_of::<libc::linger>());
        assert_eq!(parse_linger(&linger(true, 7).into_bytes()), Some(7));
        assert_eq!(parse_linger(&linger(false, 7).into_bytes()), None);
    }
}
