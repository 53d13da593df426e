//! Netlink: names of its sockets, its messages (netlink(7)), and those about interfaces, addresses and routes
//! (rtnetlink(7)). A message is a header, a structure that depends on its type, and attributes.

use alloc::vec::Vec;

use super::{Record, u16_at, u32_at};

/// `AF_NETLINK`.
pub(crate) const AF_NETLINK: u16 = 16;
/// `NETLINK_ROUTE`: interfaces, addresses and routes.
pub(crate) const ROUTE: u32 = 0;
/// `SOL_NETLINK`.
pub(crate) const LEVEL: u32 = 270;

/// Length of `struct sockaddr_nl`, bytes.
pub(crate) const NAME_BYTES: usize = 12;

/// What a socket is called: its port, which is the kernel's if 0, and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) port: u32,
    pub(crate) groups: u32,
}

impl Name {
    /// `struct sockaddr_nl` → name; the family is another matter.
    pub(crate) fn parse(bytes: &[u8; NAME_BYTES]) -> Self {
        Self { port: u32_at(bytes, 4), groups: u32_at(bytes, 8) }
    }

    /// `struct sockaddr_nl`.
    pub(crate) fn record(self) -> Record<NAME_BYTES> {
        Record::new().u16(0, AF_NETLINK).u32(4, self.port).u32(8, self.groups)
    }
}

/// Types of messages.
pub(crate) mod kind {
    /// `NLMSG_ERROR`: what became of a request.
    pub(crate) const ERROR: u16 = 2;
    /// `NLMSG_DONE`: behind the last of several.
    pub(crate) const DONE: u16 = 3;
    /// `RTM_BASE`: those before are about messages.
    pub(crate) const FIRST: u16 = 16;
    /// `RTM_MAX`.
    pub(crate) const LAST: u16 = 123;
    /// `RTM_NEWLINK`.
    pub(crate) const LINK: u16 = 16;
    /// `RTM_GETLINK`.
    pub(crate) const GET_LINK: u16 = 18;
    /// `RTM_NEWADDR`.
    pub(crate) const ADDRESS: u16 = 20;
    /// `RTM_GETADDR`.
    pub(crate) const GET_ADDRESS: u16 = 22;
    /// `RTM_NEWROUTE`.
    pub(crate) const ROUTE: u16 = 24;
    /// `RTM_GETROUTE`.
    pub(crate) const GET_ROUTE: u16 = 26;

    /// Whether it asks and does not change anything.
    pub(crate) const fn gets(kind: u16) -> bool {
        kind & 3 == 2
    }
}

/// Flags of messages (`NLM_F_*`).
pub(crate) mod flags {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const MULTI: u16 = 0x2;
    pub(crate) const ACK: u16 = 0x4;
    /// Of a request to get: all there are. One bit of the two is enough.
    pub(crate) const DUMP: u16 = 0x300;
    /// Of an error: of the request only the header is there.
    pub(crate) const CAPPED: u16 = 0x100;
}

/// Attributes of links (`IFLA_*`).
pub(crate) mod link {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const BROADCAST: u16 = 2;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const QUEUE: u16 = 13;
    pub(crate) const STATE: u16 = 16;
}

/// Attributes of addresses (`IFA_*`).
pub(crate) mod address {
    pub(crate) const ADDRESS: u16 = 1;
    pub(crate) const LOCAL: u16 = 2;
    pub(crate) const LABEL: u16 = 3;
    pub(crate) const BROADCAST: u16 = 4;
    pub(crate) const FLAGS: u16 = 8;
}

/// Attributes of routes (`RTA_*`).
pub(crate) mod route {
    pub(crate) const DESTINATION: u16 = 1;
    pub(crate) const INTERFACE: u16 = 4;
    pub(crate) const SOURCE: u16 = 7;
    pub(crate) const TABLE: u16 = 15;
}

/// Length of `struct nlmsghdr`, bytes.
pub(crate) const HEADER_BYTES: usize = 16;
/// Length of the header of an attribute, bytes.
const ATTRIBUTE_BYTES: usize = 4;

/// Lengths of `struct ifinfomsg`, `struct ifaddrmsg` and `struct rtmsg`, bytes.
pub(crate) const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const ROUTE_BYTES: usize = 12;

/// Where a message or an attribute that is so long ends for the next one.
pub(crate) const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// `struct nlmsghdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of the message with this, bytes.
    pub(crate) length: u32,
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) port: u32,
}

impl Header {
    /// From the bytes of a message, if there are so many.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        Some(Self {
            length: u32_at(bytes, 0),
            kind: u16_at(bytes, 4),
            flags: u16_at(bytes, 6),
            sequence: u32_at(bytes, 8),
            port: u32_at(bytes, 12),
        })
    }
}

/// The attribute of this type among these, if it is there.
pub(crate) fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    /// What a type is without its two flags.
    const TYPE: u16 = 0x3fff;
    loop {
        let header = bytes.get(..ATTRIBUTE_BYTES)?;
        let length = usize::from(u16_at(header, 0));
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        if u16_at(header, 2) & TYPE == kind {
            return Some(value);
        }
        bytes = bytes.get(aligned(length)..)?;
    }
}

/// `struct ifinfomsg`.
pub(crate) fn link_message(kind: u16, index: u32, flags: u32) -> Record<LINK_BYTES> {
    Record::new().u16(2, kind).u32(4, index).u32(8, flags)
}

/// `struct ifaddrmsg`.
pub(crate) fn address_message([family, prefix, flags, scope]: [u8; 4], index: u32) -> Record<ADDRESS_BYTES> {
    Record::new().raw(0, &[family, prefix, flags, scope]).u32(4, index)
}

/// `struct rtmsg`: family, lengths of destination and source, type of service, table, protocol, scope, type.
pub(crate) fn route_message(fields: [u8; 8]) -> Record<ROUTE_BYTES> {
    Record::new().raw(0, &fields)
}

/// Messages under construction, one behind the other.
#[derive(Default)]
pub(crate) struct Messages(Vec<u8>);

impl Messages {
    /// Adds a message with what `fill` puts behind its header. Its length is found out.
    pub(crate) fn add(&mut self, header: Header, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        let Header { kind, flags, sequence, port, .. } = header;
        let record: Record<HEADER_BYTES> = Record::new().u16(4, kind).u16(6, flags).u32(8, sequence).u32(12, port);
        self.0.extend_from_slice(record.bytes());
        fill(self);
        let length = (self.0.len() - start) as u32;
        self.0[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.align();
    }

    /// Puts bytes into the message that is being added.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Puts an attribute there.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = (ATTRIBUTE_BYTES + value.len()) as u16;
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(&kind.to_le_bytes());
        self.0.extend_from_slice(value);
        self.align();
    }

    /// Puts a name there, with a zero at its end.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat());
    }

    fn align(&mut self) {
        self.0.resize(aligned(self.0.len()), 0);
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use core::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn layouts_are_the_hosts() {
        assert_eq!(NAME_BYTES, size_of::<libc::sockaddr_nl>());
        let name = Name { port: 7, groups: 9 };
        let bytes = name.record().into_bytes();
        assert_eq!(u16_at(&bytes, offset_of!(libc::sockaddr_nl, nl_family)), libc::AF_NETLINK as u16);
        assert_eq!(u32_at(&bytes, offset_of!(libc::sockaddr_nl, nl_pid)), 7);
        assert_eq!(u32_at(&bytes, offset_of!(libc::sockaddr_nl, nl_groups)), 9);
        assert_eq!(Name::parse(&bytes), name);
        assert_eq!((ROUTE as i32, LEVEL as i32), (libc::NETLINK_ROUTE, libc::SOL_NETLINK));

        assert_eq!(HEADER_BYTES, size_of::<libc::nlmsghdr>());
        assert_eq!(offset_of!(libc::nlmsghdr, nlmsg_type), 4);
        assert_eq!(offset_of!(libc::nlmsghdr, nlmsg_pid), 12);
        assert_eq!(ATTRIBUTE_BYTES, size_of::<libc::nlattr>());
        assert_eq!((i32::from(flags::ACK), i32::from(flags::DUMP)), (libc::NLM_F_ACK, libc::NLM_F_DUMP));
        assert_eq!(i32::from(flags::MULTI), libc::NLM_F_MULTI);
        let kinds = [kind::GET_LINK, kind::GET_ADDRESS, kind::GET_ROUTE];
        assert_eq!(kinds, [libc::RTM_GETLINK, libc::RTM_GETADDR, libc::RTM_GETROUTE]);
        assert!(kinds.iter().all(|kind| kind::gets(*kind)) && !kind::gets(kind::LINK));
        assert_eq!([link::NAME, link::MTU, link::QUEUE], [libc::IFLA_IFNAME, libc::IFLA_MTU, libc::IFLA_TXQLEN]);
        assert_eq!(link::STATE, libc::IFLA_OPERSTATE);
        assert_eq!([address::LOCAL, address::BROADCAST], [libc::IFA_LOCAL, libc::IFA_BROADCAST]);
        assert_eq!([route::INTERFACE, route::SOURCE], [libc::RTA_OIF, libc::RTA_PREFSRC]);
    }

    #[test]
    fn what_is_put_in_is_found() {
        let mut messages = Messages::default();
        let header = Header { length: 0, kind: 16, flags: 2, sequence: 5, port: 6 };
        messages.add(header, |message| {
            message.raw(&[1; 8]);
            message.text(3, "lo");
            message.attribute(4, &7_u32.to_le_bytes());
        });
        messages.add(header, |message| message.raw(&[2]));
        let first = Header::parse(messages.bytes()).expect("a header");
        assert_eq!(first, Header { length: 16 + 8 + 8 + 8, ..header });
        let second = &messages.bytes()[aligned(first.length as usize)..];
        assert_eq!(Header::parse(second).map(|header| header.length), Some(17));
        assert_eq!(messages.bytes().len(), 40 + 20);
        let attributes = &messages.bytes()[24..40];
        assert_eq!(attribute(attributes, 3), Some(&b"lo\0"[..]));
        assert_eq!(attribute(attributes, 4), Some(&[7, 0, 0, 0][..]));
        assert_eq!(attribute(attributes, 5), None);
    }

    #[test]
    fn damaged_attributes_are_none() {
        for bytes in [&[0, 0, 3, 0][..], &[3, 0, 3, 0], &[9, 0, 3, 0, 1], &[4, 0], &[0xff, 0xff, 3, 0]] {
            assert_eq!(attribute(bytes, 3), None, "{bytes:?}");
        }
        assert_eq!(Header::parse(&[0; 15]), None);
    }
}
