//! Netlink sockets through their calls: names, requests, answers that are looked at, options, and a process that is
//! made data meanwhile.

use alloc::sync::Arc;
use alloc::vec::Vec;

use coppice_protocol::ids::JobNode;
use coppice_protocol::syscalls as nr;

use crate::abi::netlink::{AF_NETLINK, Name, address, attribute};
use crate::abi::{u16_at, u32_at};
use crate::errno::Errno;
use crate::net::testing::two_nodes;
use crate::process::testing::{Bench, MEMORY};

const NAME: u64 = 0x100;
const LENGTH: u64 = 0x180;
const REQUEST: u64 = 0x200;
const MESSAGE: u64 = 0x300;
const INTO: u64 = 0x1000;

const FAMILY: u64 = AF_NETLINK as u64;
const RAW: u64 = 3;
const PEEK: u64 = 2;
const TRUNC: u64 = 0x20;
const DONTWAIT: u64 = 0x40;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn bench() -> (Bench, u64) {
    let [(stack, _), _] = two_nodes();
    let bench = Bench::new(&[]).sibling(Some(Arc::new(stack)));
    let socket = u64::try_from(bench.call(nr::SOCKET, &[FAMILY, RAW, 0])).expect("a descriptor");
    (bench, socket)
}

/// Asks for all addresses, as getifaddrs(3) does.
fn ask(bench: &Bench, socket: u64) -> i64 {
    let words = [20, 0x301 << 16 | 22, 5, 0, 0_u32].map(u32::to_le_bytes).concat();
    let at = bench.put(REQUEST, &words);
    bench.call(nr::SENDTO, &[socket, at, 20, 0, 0, 0])
}

fn name(bench: &Bench, call: u32, socket: u64) -> Name {
    let length = bench.put(LENGTH, &12_u32.to_le_bytes());
    assert_eq!(bench.call(call, &[socket, MEMORY + NAME, length]), 0);
    let bytes = bench.get(NAME, 12);
    assert_eq!((u16_at(&bytes, 0), bench.get(LENGTH, 1)[0]), (AF_NETLINK, 12));
    Name::parse(bytes[..].try_into().expect("as long"))
}

/// Reads an answer whole.
fn read(bench: &Bench, socket: u64) -> Vec<u8> {
    let length = bench.call(nr::RECVFROM, &[socket, MEMORY + INTO, 4096, DONTWAIT, 0, 0]);
    bench.get(INTO, usize::try_from(length).expect("an answer"))
}

#[test]
fn there_are_sockets_for_routes_only() {
    let (bench, socket) = bench();
    for (kind, protocol, errno) in [
        (1, 0, Errno::ESOCKTNOSUPPORT),
        (5, 0, Errno::ESOCKTNOSUPPORT),
        (RAW, 16, Errno::EPROTONOSUPPORT),
        (RAW, 32, Errno::EPROTONOSUPPORT),
    ] {
        assert_eq!(bench.call(nr::SOCKET, &[FAMILY, kind, protocol]), error(errno));
    }
    assert!(bench.call(nr::SOCKET, &[FAMILY, 2 | 0o2_000_000, 0]) > 0);
    for (call, arguments) in [
        (nr::LISTEN, [socket, 1, 0, 0]),
        (nr::ACCEPT, [socket, 0, 0, 0]),
        (nr::SHUTDOWN, [socket, 2, 0, 0]),
        (nr::RECVFROM, [socket, MEMORY, 1, 1]),
        (nr::SENDTO, [socket, MEMORY, 1, 1]),
    ] {
        assert_eq!(bench.call(call, &arguments), error(Errno::EOPNOTSUPP), "{call}");
    }
    assert_eq!(bench.call(nr::LSEEK, &[socket, 0, 0]), error(Errno::ESPIPE));
}

#[test]
fn names_are_the_programs_or_the_kernels() {
    let (bench, socket) = bench();
    assert_eq!(name(&bench, nr::GETSOCKNAME, socket), Name::default());
    let at = |port, groups| bench.put(NAME, Name { port, groups }.record().bytes());
    assert_eq!(bench.call(nr::BIND, &[socket, at(4321, 1), 11]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::BIND, &[socket, bench.put(NAME, &[2; 12]), 12]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::BIND, &[socket, at(4321, 1), 12]), 0);
    assert_eq!(bench.call(nr::BIND, &[socket, at(4322, 1), 12]), error(Errno::EINVAL));
    assert_eq!(name(&bench, nr::GETSOCKNAME, socket), Name { port: 4321, groups: 1 });
    assert_eq!(name(&bench, nr::GETPEERNAME, socket), Name::default());
    // Whom one speaks with is the kernel.
    assert_eq!(bench.call(nr::CONNECT, &[socket, at(0, 0), 12]), 0);
    assert_eq!(bench.call(nr::CONNECT, &[socket, at(1, 0), 12]), error(Errno::EPERM));
    assert_eq!(bench.call(nr::SENDTO, &[socket, MEMORY, 0, 0, at(0, 2), 12]), error(Errno::EPERM));
    assert_eq!(bench.call(nr::SENDTO, &[socket, MEMORY, 0, 0, at(0, 0), 12]), 0);
    assert_eq!(bench.call(nr::SENDTO, &[socket, MEMORY, 0, 0, at(0, 0), 2]), error(Errno::EINVAL));
    let other = bench.call(nr::SOCKET, &[FAMILY, RAW, 0]).cast_unsigned();
    assert_eq!(ask(&bench, other), 20);
    let port = name(&bench, nr::GETSOCKNAME, other).port;
    assert_eq!((port.cast_signed() < 0, u32_at(&read(&bench, other), 12)), (true, port));
}

#[test]
fn an_answer_is_looked_at_cut_and_read() {
    let (bench, socket) = bench();
    assert_eq!(ask(&bench, socket), 20);
    let from = |flags: u64, bytes: u64| {
        let length = bench.put(LENGTH, &12_u32.to_le_bytes());
        bench.call(nr::RECVFROM, &[socket, MEMORY + INTO, bytes, flags, MEMORY + NAME, length])
    };
    let whole = from(PEEK | TRUNC, 0);
    assert!((100..300).contains(&whole), "{whole}");
    assert_eq!((from(PEEK, 4096), from(PEEK, 16)), (whole, 16));
    let sender = bench.get(NAME, 12);
    assert_eq!((u16_at(&sender, 0), u32_at(&sender, 4)), (AF_NETLINK, 0));
    // recvmsg(2) says that it was cut, and that there is nothing beside it.
    let pieces = bench.put(0x400, &[MEMORY + INTO, 40].map(u64::to_le_bytes).concat());
    let words = [MEMORY + NAME, 128, pieces, 1, 0, 0, 0].map(u64::to_le_bytes).concat();
    let message = bench.put(MESSAGE, &words);
    assert_eq!(bench.call(nr::RECVMSG, &[socket, message, PEEK]), 40);
    assert_eq!((u32_at(&bench.get(MESSAGE, 56), 8), bench.get(MESSAGE + 48, 1)[0]), (12, 0x20));
    let bytes = read(&bench, socket);
    assert_eq!(bytes.len() as i64, whole);
    let second = &bytes[u32_at(&bytes, 0) as usize..];
    let own = attribute(&second[24..u32_at(second, 0) as usize], address::LOCAL);
    assert_eq!((second[17], own), (9, Some(&JobNode(0).address().octets()[..])));
    assert_eq!(from(DONTWAIT, 100), error(Errno::EAGAIN));
}

#[test]
fn options_are_those_of_sockets() {
    let (bench, socket) = bench();
    let get = |option: u64| {
        let length = bench.put(LENGTH, &4_u32.to_le_bytes());
        assert_eq!(bench.call(nr::GETSOCKOPT, &[socket, 1, option, MEMORY + NAME, length]), 0);
        u32_at(&bench.get(NAME, 4), 0)
    };
    // SO_TYPE, SO_PROTOCOL, SO_DOMAIN, SO_ERROR.
    assert_eq!([3, 38, 39, 4].map(get), [3, 0, 16, 0]);
    let value = bench.put(NAME, &32_768_u32.to_le_bytes());
    let set = |level: u64, option: u64| bench.call(nr::SETSOCKOPT, &[socket, level, option, value, 4]);
    assert_eq!((set(1, 7), set(1, 8), get(7)), (0, 0, 212_992));
    // NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK, a group that is none.
    assert_eq!([set(270, 11), set(270, 12), set(270, 1)], [0, error(Errno::ENOPROTOOPT), error(Errno::EINVAL)]);
    // A time limit is one.
    let half = bench.put(NAME, &[0, 500_000].map(u64::to_le_bytes).concat());
    assert_eq!(bench.call(nr::SETSOCKOPT, &[socket, 1, 20, half, 16]), 0);
    assert_eq!(bench.call(nr::RECVFROM, &[socket, MEMORY + INTO, 10, 0, 0, 0]), error(Errno::EAGAIN));
}

#[test]
fn answers_are_there_when_the_process_is_made_again() {
    let bench = Bench::new(&[]);
    let socket = bench.call(nr::SOCKET, &[FAMILY, RAW, 0]).cast_unsigned();
    assert_eq!(bench.call(nr::BIND, &[socket, bench.put(NAME, Name { port: 7, groups: 0 }.record().bytes()), 12]), 0);
    assert_eq!(ask(&bench, socket), 20);
    let expected = u64::try_from(bench.call(nr::RECVFROM, &[socket, MEMORY, 0, PEEK | TRUNC, 0, 0])).expect("bytes");
    let waits = bench.call(nr::SOCKET, &[FAMILY, 2, 0]).cast_unsigned();
    let into = [waits, MEMORY + INTO, 4096, 0, 0, 0];
    let (bench, made) = bench.frozen_while(nr::RECVFROM, &into, |bench| assert_eq!(ask(bench, waits), 20));
    assert_eq!(made, Some(expected.cast_signed()));
    assert_eq!(read(&bench, socket).len() as u64, expected);
    assert_eq!(name(&bench, nr::GETSOCKNAME, socket), Name { port: 7, groups: 0 });
    // It still tells, and still can be waited for.
    assert_eq!(ask(&bench, socket), 20);
    assert_eq!(u32_at(&read(&bench, socket), 12), 7);
    let entry = bench.put(NAME, &[&(socket as u32).to_le_bytes()[..], &[5, 0, 0, 0]].concat());
    assert_eq!((bench.call(nr::POLL, &[entry, 1, 0]), bench.get(NAME + 6, 1)[0]), (1, 4));
}
