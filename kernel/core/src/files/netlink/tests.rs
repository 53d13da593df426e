//! Requests and answers, without calls around them.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::{any, prop_assert, proptest};

use super::Netlink;
use crate::abi::netlink::{HEADER_BYTES, Header, Messages, Name, aligned, attribute, flags, kind, link};
use crate::abi::u32_at;
use crate::errno::Errno;
use crate::files::readiness::Ready;
use crate::files::stream::{Stream, copy_from};
use crate::limits::{CHANNEL_MESSAGES_MAX, NETLINK_BYTES_MAX, NETLINK_REQUEST_BYTES_MAX};
use crate::net::Network;
use crate::net::testing::two_nodes;
use crate::quota::tests::quota;

fn socket() -> Netlink {
    let [(stack, _), _] = two_nodes();
    let network: Arc<dyn Network> = Arc::new(stack);
    Netlink::new(true, &network, &quota()).expect("memory")
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut messages = Messages::default();
    messages.add(Header { length: 0, kind, flags, sequence: 9, port: 0 }, |message| message.raw(body));
    messages.bytes().to_vec()
}

fn put(socket: &Netlink, bytes: &[u8]) -> Result<usize, Errno> {
    socket.put(bytes.len(), &mut copy_from(bytes))
}

/// Reads an answer: the headers of its messages, with what is behind each.
fn read(socket: &Netlink) -> Result<Vec<(Header, Vec<u8>)>, Errno> {
    let mut bytes = Vec::new();
    socket.take(usize::MAX, false, &mut |part| {
        bytes.extend_from_slice(part);
        part.len()
    })?;
    let (mut messages, mut rest) = (Vec::new(), &bytes[..]);
    while let Some(header) = Header::parse(rest) {
        let length = header.length as usize;
        messages.push((header, rest[HEADER_BYTES..length].to_vec()));
        rest = &rest[aligned(length)..];
    }
    assert!(rest.is_empty());
    Ok(messages)
}

fn kinds(socket: &Netlink) -> Vec<u16> {
    read(socket).expect("an answer").iter().map(|(header, _)| header.kind).collect()
}

/// What the one answer says that is an error or says that all is well.
fn outcome(socket: &Netlink) -> i32 {
    let messages = read(socket).expect("an answer");
    let [(header, body)] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((header.kind, header.sequence), (kind::ERROR, 9));
    u32_at(body, 0).cast_signed()
}

const DUMP: u16 = flags::REQUEST | flags::DUMP;

#[test]
fn all_are_told_with_an_end() {
    let socket = socket();
    for (asked, told) in
        [(kind::GET_LINK, vec![16, 16, 3]), (kind::GET_ADDRESS, vec![20, 20, 3]), (kind::GET_ROUTE, vec![24, 3])]
    {
        let bytes = request(asked, DUMP | flags::ACK, &[0]);
        assert_eq!(put(&socket, &bytes), Ok(bytes.len()));
        let answer = read(&socket).expect("an answer");
        assert_eq!(answer.iter().map(|(header, _)| header.kind).collect::<Vec<_>>(), told);
        let fields = |header: &Header| (header.flags, header.sequence, header.port);
        assert!(answer.iter().all(|(header, _)| fields(header) == (flags::MULTI, 9, socket.name().port)));
        assert_eq!(read(&socket), Err(Errno::EAGAIN));
    }
    // There is nothing of IPv6.
    assert!(put(&socket, &request(kind::GET_ADDRESS, DUMP, &[10])).is_ok());
    assert_eq!(kinds(&socket), [kind::DONE]);
    // Several in one message are answered one by one.
    let both = [request(kind::GET_LINK, DUMP, &[0]), request(kind::GET_ROUTE, DUMP, &[2])].concat();
    assert_eq!(put(&socket, &both), Ok(both.len()));
    assert_eq!((kinds(&socket), kinds(&socket)), (vec![16, 16, 3], vec![24, 3]));
}

#[test]
fn one_interface_is_told_by_its_index_or_name() {
    let socket = socket();
    let ask = |index: u32, name: &[u8]| {
        let mut messages = Messages::default();
        messages.add(Header { length: 0, kind: kind::GET_LINK, flags: 1, sequence: 9, port: 0 }, |message| {
            message.raw(&[&[0; 4], &index.to_le_bytes()[..], &[0; 8]].concat());
            message.attribute(link::NAME, name);
        });
        assert!(put(&socket, messages.bytes()).is_ok());
        read(&socket).expect("an answer").remove(0)
    };
    for (index, name, expected) in [(2, &b""[..], &b"eth0\0"[..]), (0, b"lo\0", b"lo\0"), (0, b"eth0", b"eth0\0")] {
        let (header, body) = ask(index, name);
        assert_eq!((header.kind, header.flags), (kind::LINK, 0));
        assert_eq!(attribute(&body[16..], link::NAME), Some(expected));
    }
    for (index, name) in [(3, &b"lo"[..]), (0, b"eth1"), (u32::MAX, b"")] {
        let (header, body) = ask(index, name);
        assert_eq!((header.kind, u32_at(&body, 0).cast_signed()), (kind::ERROR, -i32::from(Errno::ENODEV.0)));
    }
}

#[test]
fn what_is_not_known_or_allowed_is_an_error_with_the_request() {
    let socket = socket();
    for (asked, how, errno) in [
        (kind::LINK, flags::REQUEST, Errno::EPERM),
        (17, flags::REQUEST | flags::DUMP, Errno::EPERM),
        (30, DUMP, Errno::EOPNOTSUPP),
        (kind::GET_ADDRESS, flags::REQUEST, Errno::EOPNOTSUPP),
        (kind::LAST + 1, flags::REQUEST, Errno::EOPNOTSUPP),
        (kind::GET_LINK, flags::REQUEST, Errno::EINVAL),
    ] {
        let bytes = request(asked, how, &[0, 1, 2, 3]);
        assert_eq!(put(&socket, &bytes), Ok(bytes.len()));
        let answer = read(&socket).expect("an answer");
        let [(header, body)] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((header.kind, header.flags, &body[4..]), (kind::ERROR, 0, &bytes[..]));
        assert_eq!(u32_at(body, 0).cast_signed(), -i32::from(errno.0), "{asked}");
    }
    // That all is well is said if it is asked.
    assert!(put(&socket, &request(1, flags::REQUEST | flags::ACK, &[])).is_ok());
    assert_eq!(outcome(&socket), 0);
    for silent in [request(1, flags::REQUEST, &[]), request(kind::GET_LINK, flags::DUMP, &[0]), vec![0; 40], vec![1]] {
        assert_eq!(put(&socket, &silent), Ok(silent.len()));
        assert_eq!(read(&socket), Err(Errno::EAGAIN));
    }
}

#[test]
fn what_waits_unread_has_a_limit() {
    let socket = socket();
    let bytes = request(kind::GET_LINK, DUMP, &[0]);
    let answers = (0..).take_while(|_| put(&socket, &bytes).is_ok()).count();
    assert!((2..=CHANNEL_MESSAGES_MAX).contains(&answers));
    assert_eq!(put(&socket, &bytes), Err(Errno::ENOBUFS));
    assert!(socket.held() <= NETLINK_BYTES_MAX);
    assert_eq!(kinds(&socket), [16, 16, 3]);
    assert!(put(&socket, &bytes).is_ok());
    assert_eq!(put(&socket, &vec![0; NETLINK_REQUEST_BYTES_MAX + 1]), Err(Errno::EMSGSIZE));
    // Bytes, too.
    let socket = self::socket();
    let bytes = request(kind::LINK, flags::REQUEST, &[7; 4000]);
    let answers = (0..).take_while(|_| put(&socket, &bytes).is_ok()).count();
    assert_eq!(answers, NETLINK_BYTES_MAX / (bytes.len() + HEADER_BYTES + 4));
}

#[test]
fn it_can_be_read_when_there_is_an_answer() {
    let socket = socket();
    let ready = || Ready::from_bits(socket.level.bits());
    assert_eq!(ready(), Some(Ready::WRITE));
    assert!(put(&socket, &request(kind::GET_LINK, DUMP, &[0])).is_ok());
    assert_eq!(ready(), Some(Ready::WRITE | Ready::READ));
    assert_eq!(kinds(&socket).len(), 3);
    assert_eq!(ready(), Some(Ready::WRITE));
}

#[test]
fn names_are_chosen_once() {
    let (one, other) = (socket(), socket());
    assert_eq!(one.name(), Name::default());
    assert_eq!(one.bind(Name { port: 77, groups: 1 }), Ok(()));
    assert_eq!(one.bind(Name { port: 77, groups: 5 }), Ok(()));
    assert_eq!([0, 78].map(|port| one.bind(Name { port, groups: 0 })), [Err(Errno::EINVAL); 2]);
    assert_eq!(one.name(), Name { port: 77, groups: 5 });
    assert_eq!((one.join(2, true), one.join(1, false)), (Ok(()), Ok(())));
    assert_eq!([0, 33].map(|group| one.join(group, true)), [Err(Errno::EINVAL); 2]);
    assert_eq!(one.name().groups, 6);
    assert_eq!(other.bind(Name::default()), Ok(()));
    let port = other.name().port;
    assert!(port.cast_signed() < 0 && port == other.port());
    assert_ne!(port, socket().port());
}

proptest! {
    #[test]
    fn no_request_panics(kind in 0_u16..130, flags in any::<u16>(), body in any::<Vec<u8>>(), cut in any::<u8>()) {
        let socket = socket();
        let mut bytes = request(kind, flags, &body);
        bytes.truncate(bytes.len() - usize::from(cut).min(bytes.len()));
        prop_assert!(put(&socket, &bytes).is_ok());
        prop_assert!(put(&socket, &body).is_ok());
        while read(&socket).is_ok() {}
    }
}
