//! Sockets that are connected with the kernel itself.

use core::net::Ipv4Addr;

use coppice_protocol::syscalls as nr;

use crate::abi::socket::{NAME_BYTES, name, parse_name};
use crate::errno::Errno;
use crate::files::{Object, flags};
use crate::process::testing::{Bench, ECHO_BYTES_MAX, ECHO_PORT, MEMORY};

const STREAM: u64 = 1;
const NONBLOCK: u64 = flags::O_NONBLOCK as u64;
const READ: u16 = 1;
const WRITE: u16 = 4;

/// Places in the program's memory.
const NAME: u64 = 0x100;
const LENGTH: u64 = 0x200;
const ENTRY: u64 = 0x300;
const BYTES: u64 = 0x1000;
const INTO: u64 = 0x2000;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn socket(bench: &Bench, how: u64) -> u64 {
    u64::try_from(bench.call(nr::SOCKET, &[2, STREAM | how, 0])).expect("a descriptor")
}

fn connect(bench: &Bench, s: u64, address: Ipv4Addr, port: u16) -> i64 {
    let at = bench.put(NAME, name((address, port)).bytes());
    bench.call(nr::CONNECT, &[s, at, NAME_BYTES as u64])
}

fn connected(bench: &Bench, how: u64) -> u64 {
    let s = socket(bench, how);
    assert_eq!(connect(bench, s, Ipv4Addr::LOCALHOST, ECHO_PORT), 0);
    s
}

fn send(bench: &Bench, s: u64, bytes: &[u8]) -> i64 {
    let at = bench.put(BYTES, bytes);
    bench.call(nr::SENDTO, &[s, at, bytes.len() as u64, 0, 0, 0])
}

fn receive(bench: &Bench, s: u64, length: u64, how: u64) -> Result<alloc::vec::Vec<u8>, i64> {
    let count = bench.call(nr::RECVFROM, &[s, MEMORY + INTO, length, how, 0, 0]);
    if count < 0 { Err(count) } else { Ok(bench.get(INTO, count as usize)) }
}

fn poll(bench: &Bench, s: u64, events: u16) -> u16 {
    let at = bench.put(ENTRY, &[&(s as u32).to_le_bytes()[..], &events.to_le_bytes(), &[0; 2]].concat());
    bench.call(nr::POLL, &[at, 1, 0]);
    let bytes = bench.get(ENTRY + 6, 2);
    u16::from_le_bytes([bytes[0], bytes[1]])
}

fn asked_name(bench: &Bench, call: u32, s: u64) -> (Ipv4Addr, u16) {
    let length_at = bench.put(LENGTH, &16_u32.to_le_bytes());
    assert_eq!(bench.call(call, &[s, MEMORY + NAME, length_at]), 0);
    parse_name(&bench.get(NAME, NAME_BYTES).try_into().expect("as long"))
}

#[test]
fn what_is_said_is_heard_and_answered_at_once() {
    let bench = Bench::new(&[]);
    for how in [0, NONBLOCK] {
        let s = connected(&bench, how);
        assert_eq!(poll(&bench, s, READ | WRITE), WRITE);
        assert_eq!(send(&bench, s, b"hello"), 5);
        assert_eq!(poll(&bench, s, READ | WRITE), READ | WRITE);
        const PEEK: u64 = 2;
        assert_eq!(receive(&bench, s, 3, PEEK).as_deref(), Ok(&b"hel"[..]));
        assert_eq!(receive(&bench, s, 100, 0).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(bench.call(nr::CLOSE, &[s]), 0);
    }
}

#[test]
fn it_has_names_and_is_connected_once() {
    let bench = Bench::new(&[]);
    let s = connected(&bench, 0);
    assert_eq!(asked_name(&bench, nr::GETPEERNAME, s), (Ipv4Addr::LOCALHOST, ECHO_PORT));
    assert_ne!(asked_name(&bench, nr::GETSOCKNAME, s).1, 0);
    assert_eq!(connect(&bench, s, Ipv4Addr::LOCALHOST, ECHO_PORT), error(Errno::EISCONN));
    assert_eq!(connect(&bench, s, Ipv4Addr::LOCALHOST, 9), error(Errno::EISCONN));
    let other = socket(&bench, 0);
    assert_eq!(connect(&bench, other, Ipv4Addr::LOCALHOST, ECHO_PORT + 1), error(Errno::ECONNREFUSED));
    assert_eq!(connect(&bench, other, Ipv4Addr::LOCALHOST, ECHO_PORT), 0);
}

#[test]
fn who_finds_no_room_waits() {
    let bench = Bench::new(&[]);
    let s = connected(&bench, NONBLOCK);
    let all = [7; ECHO_BYTES_MAX + 10];
    assert_eq!(send(&bench, s, &all), ECHO_BYTES_MAX as i64);
    assert_eq!(send(&bench, s, b"x"), error(Errno::EAGAIN));
    assert_eq!(poll(&bench, s, READ | WRITE), READ);
    assert_eq!(receive(&bench, s, 1000, 0).map(|bytes| bytes.len()), Ok(ECHO_BYTES_MAX));
    assert_eq!(receive(&bench, s, 1000, 0), Err(error(Errno::EAGAIN)));
}

#[test]
fn it_is_there_again_when_its_process_was_data() {
    let bench = Bench::new(&[]);
    let s = connected(&bench, 0);
    let waiting = [s, MEMORY + INTO, 100, 0, 0, 0];
    let (bench, result) = bench.frozen_while(nr::RECVFROM, &waiting, |bench| {
        assert_eq!(send(bench, s, b"later"), 5);
    });
    assert_eq!((result, bench.get(INTO, 5)), (Some(5), b"later".to_vec()));
    assert_eq!(asked_name(&bench, nr::GETPEERNAME, s), (Ipv4Addr::LOCALHOST, ECHO_PORT));
    assert_eq!((send(&bench, s, b"more"), poll(&bench, s, READ)), (4, READ));
}

/// Whoever it is connected with may have something else to say to a process that is made again, and may have to be
/// asked for it.
#[test]
fn who_watches_it_looks_again_when_its_process_was_data() {
    let bench = Bench::new(&[]);
    let (watched, other) = (connected(&bench, 0), connected(&bench, 0));
    let poller = u64::try_from(bench.call(nr::EPOLL_CREATE1, &[0])).expect("a descriptor");
    let wanted = bench.put(ENTRY, &[&u32::from(READ).to_le_bytes()[..], &[0; 8]].concat());
    assert_eq!(bench.call(nr::EPOLL_CTL, &[poller, 1, watched, wanted]), 0);
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[poller, MEMORY + INTO, 1, 0]), 0);
    let to_be_looked_at = |bench: &Bench| {
        let file = bench.process.files.lock().get(poller as i32).expect("it is open");
        let Object::Poller(poller) = &file.object else { panic!("it is one") };
        poller.queued()
    };
    assert_eq!(to_be_looked_at(&bench), 0);
    let (_bench, result) = bench.frozen_while(nr::RECVFROM, &[other, MEMORY + INTO, 100, 0, 0, 0], |bench| {
        assert_eq!((to_be_looked_at(bench), send(bench, other, b"later")), (1, 5));
    });
    assert_eq!(result, Some(5));
}
