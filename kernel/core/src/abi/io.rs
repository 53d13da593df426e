//! Reading and writing: `struct iovec`, `struct pollfd`, `struct linux_dirent64`.

use alloc::vec::Vec;

use super::{Record, u16_at, u32_at, u64_at};

/// Length of `struct iovec`, bytes.
pub(crate) const IOVEC_BYTES: usize = 16;
/// Length of `struct pollfd`, bytes.
pub(crate) const POLLFD_BYTES: usize = 8;
/// Where the name starts in `struct linux_dirent64`.
const DIRENT_NAME: usize = 19;

/// `struct iovec` → address and length.
pub(crate) fn parse_iovec(bytes: &[u8]) -> (u64, u64) {
    (u64_at(bytes, 0), u64_at(bytes, 8))
}

/// `struct pollfd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollEntry {
    /// Descriptor; negative ones are skipped.
    pub(crate) descriptor: i32,
    /// What is asked for.
    pub(crate) events: u16,
    /// What is the case.
    pub(crate) happened: u16,
}

impl PollEntry {
    /// From the program's bytes.
    #[inline]
    pub(crate) fn parse(bytes: &[u8; POLLFD_BYTES]) -> Self {
        Self { descriptor: u32_at(bytes, 0).cast_signed(), events: u16_at(bytes, 4), happened: u16_at(bytes, 6) }
    }

    /// Writes what is the case into the program's bytes.
    #[inline]
    pub(crate) fn tell(bytes: &mut [u8; POLLFD_BYTES], happened: u16) {
        bytes[6..].copy_from_slice(&happened.to_le_bytes());
    }

    /// To the program's bytes.
    #[cfg(test)]
    pub(crate) fn record(&self) -> Record<POLLFD_BYTES> {
        Record::new().u32(0, self.descriptor.cast_unsigned()).u16(4, self.events).u16(6, self.happened)
    }
}

/// Length of `struct epoll_event`, which is packed, bytes.
pub(crate) const EPOLL_EVENT_BYTES: usize = 12;

/// `struct epoll_event` → events and data.
pub(crate) fn parse_epoll_event(bytes: &[u8; EPOLL_EVENT_BYTES]) -> (u32, u64) {
    (u32_at(bytes, 0), u64_at(bytes, 4))
}

/// `struct epoll_event`.
pub(crate) fn epoll_event(events: u32, data: u64) -> Record<EPOLL_EVENT_BYTES> {
    Record::new().u32(0, events).u64(4, data)
}

/// Appends a `struct linux_dirent64` if it fits into `limit` bytes with what is there. Returns whether it did.
pub(crate) fn push_dirent(out: &mut Vec<u8>, limit: usize, inode: u64, next: u64, kind: u8, name: &[u8]) -> bool {
    let length = (DIRENT_NAME + name.len() + 1).next_multiple_of(8);
    let Ok(record_length) = u16::try_from(length) else { return false };
    if out.len() + length > limit {
        return false;
    }
    let start = out.len();
    out.extend_from_slice(&inode.to_le_bytes());
    out.extend_from_slice(&next.to_le_bytes());
    out.extend_from_slice(&record_length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(name);
    out.resize(start + length, 0);
    true
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::mem::{offset_of, size_of};

    use super::super::{u16_at, u64_at};
    use super::{
        DIRENT_NAME, EPOLL_EVENT_BYTES, IOVEC_BYTES, POLLFD_BYTES, PollEntry, epoll_event, parse_epoll_event,
        parse_iovec, push_dirent,
    };

    #[test]
    fn layouts_are_the_hosts() {
        assert_eq!(IOVEC_BYTES, size_of::<libc::iovec>());
        assert_eq!((offset_of!(libc::iovec, iov_base), offset_of!(libc::iovec, iov_len)), (0, 8));
        let mut bytes = [0; 16];
        bytes[0] = 7;
        bytes[8] = 9;
        assert_eq!(parse_iovec(&bytes), (7, 9));

        assert_eq!(EPOLL_EVENT_BYTES, size_of::<libc::epoll_event>());
        assert_eq!((offset_of!(libc::epoll_event, events), offset_of!(libc::epoll_event, u64)), (0, 4));
        assert_eq!(parse_epoll_event(&epoll_event(7, 1 << 40).into_bytes()), (7, 1 << 40));

        assert_eq!(POLLFD_BYTES, size_of::<libc::pollfd>());
        let entry = PollEntry { descriptor: -2, events: 3, happened: 4 };
        let mut b = entry.record().into_bytes();
        assert_eq!(u16_at(&b, offset_of!(libc::pollfd, events)), 3);
        assert_eq!(u16_at(&b, offset_of!(libc::pollfd, revents)), 4);
        assert_eq!(PollEntry::parse(&b), entry);
        PollEntry::tell(&mut b, 0x1234);
        assert_eq!(PollEntry::parse(&b), PollEntry { happened: 0x1234, ..entry });
    }

    #[test]
    fn directory_entries_have_the_hosts_layout_and_do_not_overflow() {
        assert_eq!(DIRENT_NAME, offset_of!(libc::dirent64, d_name));
        let mut out = Vec::new();
        assert!(push_dirent(&mut out, 64, 5, 1, 4, b"null"));
        assert_eq!(out.len(), 24);
        assert_eq!(u64_at(&out, offset_of!(libc::dirent64, d_ino)), 5);
        assert_eq!(u64_at(&out, offset_of!(libc::dirent64, d_off)), 1);
        assert_eq!(u16_at(&out, offset_of!(libc::dirent64, d_reclen)), 24);
        assert_eq!(out[offset_of!(libc::dirent64, d_type)], 4);
        assert_eq!(&out[DIRENT_NAME..], b"null\0");
        assert!(push_dirent(&mut out, 64, 6, 2, 4, b"zero"));
        assert!(!push_dirent(&mut out, 64, 6, 3, 4, b"urandom"));
        assert_eq!(out.len(), 48);
    }
}
