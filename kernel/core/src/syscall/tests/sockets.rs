//! Sockets, as programs on two nodes use them.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicBool, Ordering};

use coppice_endpoint::{Lender, Stack, UserConfig};
use coppice_protocol::control::Exit;
use coppice_protocol::ids::{JobNode, NodeId, PsetId};
use coppice_protocol::overlay::{Metric, Peers};
use coppice_protocol::syscalls as nr;

use crate::abi::socket::{NAME_BYTES, name, parse_name};
use crate::errno::Errno;
use crate::files::{DESCRIPTORS_MAX, OPEN_FILE_BYTES, flags};
use crate::net::testing::{End, Traces, two_nodes};
use crate::process::testing::{Bench, MEMORY, pattern};

const STREAM: u64 = 1;
const NONBLOCK: u64 = flags::O_NONBLOCK as u64;
const SECOND_NS: u64 = 1_000_000_000;

/// Places in the program's memory.
const NAME: u64 = 0x100;
const LENGTH: u64 = 0x200;
const ENTRIES: u64 = 0x300;
const BYTES: u64 = 0x1000;
const INTO: u64 = 0x10_0000;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

/// A process on each of two nodes.
struct Two {
    one: Bench,
    other: Bench,
    stacks: [Stack<End>; 2],
    traces: Arc<Traces>,
}

fn two() -> Two {
    let [(here, traces), (there, _)] = two_nodes();
    let bench = |stack: &Stack<End>| Bench::new(&[]).sibling(Some(Arc::new(stack.clone())));
    Two { one: bench(&here), other: bench(&there), stacks: [here, there], traces }
}

fn socket(bench: &Bench, how: u64) -> u64 {
    u64::try_from(bench.call(nr::SOCKET, &[2, STREAM | how, 0])).expect("a descriptor")
}

fn put_name(bench: &Bench, address: Ipv4Addr, port: u16) -> u64 {
    bench.put(NAME, name((address, port)).bytes())
}

fn bind(bench: &Bench, s: u64, port: u16) -> i64 {
    let at = put_name(bench, Ipv4Addr::UNSPECIFIED, port);
    bench.call(nr::BIND, &[s, at, NAME_BYTES as u64])
}

fn connect(bench: &Bench, s: u64, address: Ipv4Addr, port: u16) -> i64 {
    let at = put_name(bench, address, port);
    bench.call(nr::CONNECT, &[s, at, NAME_BYTES as u64])
}

/// What getsockname(2) or getpeername(2) says.
fn ask_name(bench: &Bench, call: u32, s: u64) -> Result<(Ipv4Addr, u16), i64> {
    let (at, length_at) = (put_name(bench, Ipv4Addr::BROADCAST, 9), bench.put(LENGTH, &16_u32.to_le_bytes()));
    match bench.call(call, &[s, at, length_at]) {
        0 => Ok(parse_name(&bench.get(NAME, NAME_BYTES).try_into().expect("its length"))),
        failed => Err(failed),
    }
}

/// Polls a descriptor, between two that are none, without a time limit. Gives what happened.
fn poll(bench: &Bench, s: u64, events: u16) -> u16 {
    let entry = |number: i32| [&number.to_le_bytes()[..], &events.to_le_bytes(), &[0x55; 2]].concat();
    let at = bench.put(ENTRIES, &[entry(-1), entry(s as i32), entry(-1)].concat());
    assert_eq!(bench.call(nr::POLL, &[at, 3, u64::MAX]), 1);
    let bytes = bench.get(ENTRIES + 8 + 6, 2);
    u16::from_le_bytes([bytes[0], bytes[1]])
}

fn option(bench: &Bench, s: u64, level: u64, which: u64) -> i64 {
    let length_at = bench.put(LENGTH, &4_u32.to_le_bytes());
    match bench.call(nr::GETSOCKOPT, &[s, level, which, MEMORY + NAME, length_at]) {
        0 => i64::from(u32::from_le_bytes(bench.get(NAME, 4).try_into().expect("its length"))),
        failed => failed,
    }
}

fn send(bench: &Bench, s: u64, bytes: &[u8]) -> i64 {
    let at = bench.put(BYTES, bytes);
    bench.call(nr::WRITE, &[s, at, bytes.len() as u64])
}

fn receive(bench: &Bench, s: u64, length: usize) -> Result<Vec<u8>, i64> {
    let count = bench.call(nr::READ, &[s, MEMORY + INTO, length as u64]);
    if count < 0 { Err(count) } else { Ok(bench.get(INTO, count as usize)) }
}

/// A listening socket at any port, and which one.
fn listener(bench: &Bench) -> (u64, u16) {
    let s = socket(bench, 0);
    assert_eq!(bind(bench, s, 0), 0);
    let (_, port) = ask_name(bench, nr::GETSOCKNAME, s).expect("its name");
    assert_eq!(bench.call(nr::LISTEN, &[s, 5]), 0);
    (s, port)
}

/// A connection from one node to the other: both ends.
fn connection(two: &Two) -> (u64, u64) {
    let (listening, port) = listener(&two.other);
    let s = socket(&two.one, 0);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), 0);
    let accepted = two.other.call(nr::ACCEPT, &[listening, 0, 0]);
    assert_eq!(two.other.call(nr::CLOSE, &[listening]), 0);
    (s, u64::try_from(accepted).expect("a descriptor"))
}

#[test]
fn a_connection_is_made_as_mpich_makes_it() {
    let two = two();
    let listening = socket(&two.other, NONBLOCK);
    assert_eq!(bind(&two.other, listening, 0), 0);
    let (address, port) = ask_name(&two.other, nr::GETSOCKNAME, listening).expect("before it listens");
    assert!(address.is_unspecified() && port > 0);
    assert_eq!(two.other.call(nr::LISTEN, &[listening, 128]), 0);
    assert_eq!(two.other.call(nr::ACCEPT, &[listening, 0, 0]), error(Errno::EAGAIN));

    let s = socket(&two.one, NONBLOCK);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), error(Errno::EINPROGRESS));
    assert_eq!(ask_name(&two.one, nr::GETPEERNAME, s), Err(error(Errno::ENOTCONN)));
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), error(Errno::EALREADY));
    assert_eq!(poll(&two.one, s, 4), 4);
    assert_eq!(ask_name(&two.one, nr::GETPEERNAME, s), Ok((JobNode(1).address(), port)));
    assert_eq!(option(&two.one, s, 1, 4), 0);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), 0);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), error(Errno::EISCONN));

    assert_eq!(poll(&two.other, listening, 1), 1);
    let (at, length_at) = (MEMORY + NAME, two.other.put(LENGTH, &16_u32.to_le_bytes()));
    let accepted = two.other.call(nr::ACCEPT4, &[listening, at, length_at, NONBLOCK]) as u64;
    let peer = parse_name(&two.other.get(NAME, NAME_BYTES).try_into().expect("its length"));
    assert_eq!(Ok(peer), ask_name(&two.one, nr::GETSOCKNAME, s));
    assert_eq!(peer.0, JobNode(0).address());
    assert_eq!(send(&two.one, s, b"there"), 5);
    assert_eq!(poll(&two.other, accepted, 1), 1);
    assert_eq!(receive(&two.other, accepted, 9).as_deref(), Ok(&b"there"[..]));
    assert_eq!(send(&two.other, accepted, b"and back"), 8);
    assert_eq!(poll(&two.one, s, 1), 1);
    assert_eq!(receive(&two.one, s, 99).as_deref(), Ok(&b"and back"[..]));
}

#[test]
fn nobody_listening_is_told_by_so_error() {
    let two = two();
    let s = socket(&two.one, NONBLOCK);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), 5000), error(Errno::EINPROGRESS));
    assert_eq!(poll(&two.one, s, 4), 4 | 8 | 0x10);
    assert_eq!(ask_name(&two.one, nr::GETPEERNAME, s), Err(error(Errno::ENOTCONN)));
    assert_eq!(option(&two.one, s, 1, 4), i64::from(Errno::ECONNREFUSED.0));
    assert_eq!(option(&two.one, s, 1, 4), 0);
    let waits = socket(&two.one, 0);
    assert_eq!(connect(&two.one, waits, JobNode(1).address(), 5000), error(Errno::ECONNREFUSED));
    assert_eq!(connect(&two.one, waits, Ipv4Addr::new(11, 0, 0, 1), 5000), error(Errno::ENETUNREACH));
}

#[test]
fn a_listener_that_is_shut_down_has_nothing_to_read() {
    let two = two();
    let (listening, _) = listener(&two.one);
    assert_eq!(two.one.call(nr::SHUTDOWN, &[listening, 0]), 0);
    assert_eq!((poll(&two.one, listening, 1), poll(&two.one, listening, 5)), (0x10, 0x14));
    assert_eq!(two.one.call(nr::ACCEPT, &[listening, 0, 0]), error(Errno::EINVAL));
}

#[test]
fn bytes_come_as_they_were_sent() {
    let two = two();
    let (one, other) = connection(&two);
    let bytes = pattern(600_000);
    for (from, s, to, t) in [(&two.one, one, &two.other, other), (&two.other, other, &two.one, one)] {
        for (bench, number) in [(from, s), (to, t)] {
            assert_eq!(bench.call(nr::FCNTL, &[number, 4, NONBLOCK]), 0);
        }
        let (mut sent, mut received) = (0, Vec::new());
        while received.len() < bytes.len() {
            let count = send(from, s, &bytes[sent..]);
            assert!(count >= 0 || count == error(Errno::EAGAIN), "{count}");
            sent += usize::try_from(count).unwrap_or(0);
            assert_eq!(poll(to, t, 1), 1);
            received.extend(receive(to, t, 100_000).expect("bytes"));
        }
        assert!(received == bytes);
    }
}

#[test]
fn what_waits_can_be_dropped_and_made_again() {
    let two = two();
    // Nobody answers there.
    let s = socket(&two.one, 0);
    let at = put_name(&two.one, JobNode(2).address(), 5000);
    assert_eq!(two.one.drop_call(nr::CONNECT, &[s, at, 16]), (nr::CONNECT.into(), true, 0));
    assert_eq!(two.one.call(nr::FCNTL, &[s, 4, NONBLOCK]), 0);
    assert_eq!(connect(&two.one, s, JobNode(2).address(), 5000), error(Errno::EALREADY));

    let (listening, port) = listener(&two.other);
    assert_eq!(two.other.drop_call(nr::ACCEPT, &[listening, 0, 0]), (nr::ACCEPT.into(), true, 0));
    let s = socket(&two.one, 0);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), 0);
    let accepted = two.other.call(nr::ACCEPT, &[listening, 0, 0]) as u64;
    let arguments = [accepted, MEMORY + INTO, 5, 0x100, 0, 0];
    assert_eq!(send(&two.one, s, b"he"), 2);
    // MSG_WAITALL has two of five.
    assert_eq!(two.other.drop_call(nr::RECVFROM, &arguments), (nr::RECVFROM.into(), true, 2));
    assert_eq!(send(&two.one, s, b"llo"), 3);
    assert_eq!(receive(&two.other, accepted, 9).as_deref(), Ok(&b"llo"[..]));
    // As much as goes into both nodes' buffers, and the rest waits.
    let at = two.one.put(BYTES, &vec![7; 900_000]);
    let (call, is_behind, done) = two.one.drop_call(nr::WRITE, &[s, at, 900_000]);
    assert!((call, is_behind) == (nr::WRITE.into(), true) && (100_000..900_000).contains(&done), "{done}");
}

#[test]
fn waiting_ends_when_the_time_asked_for_is_over() {
    let two = two();
    let (one, _) = connection(&two);
    let time = two.one.put(BYTES, &[3_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat());
    assert_eq!(two.one.call(nr::SETSOCKOPT, &[one, 1, 20, time, 16]), 0);
    let since_ns = crate::clock::monotonic_ns();
    assert_eq!(receive(&two.one, one, 1), Err(error(Errno::EAGAIN)));
    let waited_ns = crate::clock::monotonic_ns() - since_ns;
    assert!((3 * SECOND_NS..4 * SECOND_NS).contains(&waited_ns), "{waited_ns}");
}

#[test]
fn a_peer_that_is_gone_means_sigpipe() {
    let two = two();
    let (one, other) = connection(&two);
    assert_eq!(two.other.call(nr::CLOSE, &[other]), 0);
    assert_eq!(poll(&two.one, one, 0x2000), 0x2000);
    assert_eq!(receive(&two.one, one, 1).as_deref(), Ok(&b""[..]));
    // The first is answered by a reset.
    assert_eq!(send(&two.one, one, b"x"), 1);
    assert_eq!(poll(&two.one, one, 0), 8 | 0x10);
    assert_eq!(option(&two.one, one, 1, 4), i64::from(Errno::EPIPE.0));
    let at = two.one.put(BYTES, b"x");
    const NOSIGNAL: u64 = 0x4000;
    assert_eq!(two.one.call(nr::SENDTO, &[one, at, 1, NOSIGNAL, 0, 0]), error(Errno::EPIPE));
    let end = two.one.try_call(nr::WRITE, &[one, at, 1]).expect_err("SIGPIPE ends it");
    assert_eq!(end.exit, Exit::Signal(13));
}

#[test]
fn connections_of_a_killed_process_are_broken_off() {
    let two = two();
    let (one, other) = connection(&two);
    assert_eq!(send(&two.one, one, b"x"), 1);
    let Two { one: killed, other: peer, stacks, .. } = two;
    killed.process.files.lock().break_connections();
    drop(killed);
    assert_eq!(poll(&peer, other, 1) & 8, 8);
    assert_eq!(stacks[0].user_sockets(), 0);
}

#[test]
fn the_clusters_ports_are_refused_without_a_packet() {
    let two = two();
    let own = JobNode(0).address();
    let stations = [JobNode(1).address(), own, Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED];
    let ports = stations.into_iter().flat_map(|address| (7001..=7003).map(move |port| (address, port)));
    let sent = || two.traces.sent.load(Ordering::Relaxed);
    let before = sent();
    for (address, port) in ports.chain([(JobNode(1).address(), 7004)]) {
        for how in [0, NONBLOCK] {
            let s = socket(&two.one, how);
            assert_eq!(connect(&two.one, s, address, port), error(Errno::ECONNREFUSED), "{address}:{port}");
            assert_eq!(two.one.call(nr::CLOSE, &[s]), 0);
        }
    }
    // What is not in the job is not there at all.
    let io_nodes = [0, 1, 1000].map(|pset| PsetId(pset).address());
    for address in io_nodes.into_iter().chain([3, 4, 5].map(|node| NodeId(node).address())) {
        let s = socket(&two.one, 0);
        assert_eq!(connect(&two.one, s, address, 80), error(Errno::ENETUNREACH), "{address}");
    }
    for address in [JobNode(3), JobNode(4_000_000)].map(JobNode::address) {
        let s = socket(&two.one, 0);
        assert_eq!(connect(&two.one, s, address, 80), error(Errno::EHOSTUNREACH), "{address}");
    }
    two.one.rest();
    assert_eq!(sent(), before);
    for port in 7001..=7004 {
        let s = socket(&two.one, 0);
        assert_eq!(bind(&two.one, s, port), error(Errno::EACCES));
    }
    // The kernel itself may have the port of its server.
    let served = two.one.process.node.network.tcp().expect("a socket");
    assert_eq!(served.bind(Ipv4Addr::UNSPECIFIED, 7004, false), Ok(()));
    assert_eq!(served.listen(1), Ok(()));
    let s = socket(&two.one, 0);
    assert_eq!(connect(&two.one, s, own, 7004), 0);
}

#[test]
fn a_full_table_of_descriptors_loses_no_connection() {
    let two = two();
    let (listening, port) = listener(&two.other);
    let s = socket(&two.one, 0);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), port), 0);
    while two.other.call(nr::DUP, &[listening]) >= 0 {}
    assert_eq!(two.other.call(nr::SOCKET, &[2, STREAM, 0]), error(Errno::EMFILE));
    assert_eq!(two.other.call(nr::ACCEPT, &[listening, 0, 0]), error(Errno::EMFILE));
    let last = DESCRIPTORS_MAX as u64 - 1;
    assert_eq!(two.other.call(nr::CLOSE, &[last]), 0);
    assert_eq!(two.other.call(nr::ACCEPT, &[listening, 0, 0]) as u64, last);
    assert_eq!(send(&two.one, s, b"x"), 1);
    assert_eq!(receive(&two.other, last, 9).as_deref(), Ok(&b"x"[..]));
}

/// Has memory to lend, or not.
struct Sometimes(AtomicBool);

impl Lender for Sometimes {
    fn lend(&self, _bytes: usize) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn take_back(&self, _bytes: usize) {}
}

#[test]
fn memory_that_is_gone_is_an_error() {
    let two = two();
    let wipe = |bytes: &mut [u8]| bytes.fill(0);
    let (s, again) = (socket(&two.one, 0), socket(&two.one, 0));
    two.stacks[0].set_user_config(UserConfig { buffer_bytes: 4096, reserved_ports: RangeInclusive::new(1, 0), wipe });
    assert_eq!(connect(&two.one, s, JobNode(1).address(), 5000), error(Errno::ENOBUFS));
    two.stacks[0].set_user_config(UserConfig {
        buffer_bytes: 1 << 20,
        reserved_ports: RangeInclusive::new(1, 0),
        wipe,
    });
    let lender = Arc::new(Sometimes(AtomicBool::new(false)));
    two.stacks[0].borrow_from(Arc::clone(&lender) as Arc<dyn Lender>);
    assert_eq!(connect(&two.one, s, JobNode(1).address(), 5000), error(Errno::ENOBUFS));
    lender.0.store(true, Ordering::Relaxed);
    assert_eq!(connect(&two.one, again, JobNode(1).address(), 5000), error(Errno::ECONNREFUSED));
    let quota = &two.one.process.node.quota;
    let mut charges = Vec::new();
    for bytes in [1 << 20, OPEN_FILE_BYTES] {
        charges.extend(core::iter::from_fn(|| quota.charge(bytes).ok()));
    }
    assert_eq!(two.one.call(nr::SOCKET, &[2, STREAM, 0]), error(Errno::ENOMEM));
    drop(charges);
    assert!(two.one.call(nr::SOCKET, &[2, STREAM, 0]) > 0);
}

/// What a rank is said to have sent to other nodes, and received.
fn moved(bench: &Bench) -> (u64, u64) {
    let values = bench.process.deeds().0;
    (values[Metric::BytesSent as usize], values[Metric::BytesReceived as usize])
}

#[test]
fn bytes_to_and_from_other_nodes_are_counted() {
    const PEEK: u64 = 2;
    let two = two();
    let (one, other) = connection(&two);
    assert_eq!(send(&two.one, one, b"there"), 5);
    assert_eq!((moved(&two.one), moved(&two.other)), ((5, 0), (0, 0)));
    assert_eq!(two.other.call(nr::RECVFROM, &[other, MEMORY, 3, PEEK, 0, 0]), 3);
    assert_eq!(moved(&two.other), (0, 0), "it was only looked at");
    assert_eq!(receive(&two.other, other, 3).as_deref(), Ok(&b"the"[..]));
    assert_eq!(two.other.call(nr::RECVFROM, &[other, MEMORY, 9, 0, 0, 0]), 2);
    assert_eq!((moved(&two.one), moved(&two.other)), ((5, 0), (0, 5)));
    // What the peer has sent is read although it is gone.
    assert_eq!(send(&two.other, other, b"end"), 3);
    assert_eq!(two.other.call(nr::CLOSE, &[other]), 0);
    two.one.rest();
    assert_eq!(receive(&two.one, one, 9).as_deref(), Ok(&b"end"[..]));
    assert_eq!((moved(&two.one), moved(&two.other)), ((5, 3), (3, 5)));
    // Into a pipe, and out of it.
    let (one, other) = connection(&two);
    assert_eq!(two.one.call(nr::PIPE, &[MEMORY]), 0);
    let [from, into] = [0, 4].map(|at| u64::from(two.one.get(at, 1)[0]));
    assert_eq!(two.one.call(nr::WRITE, &[into, MEMORY, 7]), 7);
    assert_eq!(two.one.call(nr::SPLICE, &[from, 0, one, 0, 7, 0]), 7);
    assert_eq!(send(&two.other, other, b"back"), 4);
    assert_eq!(two.one.call(nr::SPLICE, &[one, 0, into, 0, 9, 0]), 4);
    assert_eq!((moved(&two.one), moved(&two.other)), ((12, 7), (7, 5)));
}

#[test]
fn it_is_known_to_which_nodes_bytes_were_sent_while_somebody_wants_to_know() {
    let two = two();
    let (one, _) = connection(&two);
    assert_eq!(send(&two.one, one, b"nobody wants to know"), 20);
    assert_eq!(two.one.process.sent_to.so_far(), Peers::none());
    two.one.process.measure(true);
    assert_eq!(send(&two.one, one, b"there"), 5);
    assert_eq!(send(&two.one, one, b"!"), 1);
    let mut peers = Peers::none();
    peers.add(two.one.process.job.world.id_of(JobNode(1)), 6);
    assert_eq!(two.one.process.sent_to.so_far(), peers);
    assert_eq!(send(&two.one, one, b"?"), 1);
    two.one.process.measure(false);
    assert_eq!(two.one.process.sent_to.so_far(), Peers::none());
}

#[test]
fn what_stays_on_its_node_is_not_counted() {
    let two = two();
    for address in [Ipv4Addr::LOCALHOST, JobNode(0).address()] {
        let (listening, port) = listener(&two.one);
        let s = socket(&two.one, 0);
        assert_eq!(connect(&two.one, s, address, port), 0);
        let accepted = two.one.call(nr::ACCEPT, &[listening, 0, 0]) as u64;
        assert_eq!(send(&two.one, s, b"here"), 4);
        assert_eq!(receive(&two.one, accepted, 9).as_deref(), Ok(&b"here"[..]));
    }
    assert_eq!(moved(&two.one), (0, 0));
}

#[test]
fn datagrams_count_by_whom_they_are_for_and_from() {
    const DATAGRAMS: u64 = 2;
    let two = two();
    let datagrams = |bench: &Bench| {
        let s = u64::try_from(bench.call(nr::SOCKET, &[2, DATAGRAMS, 0])).expect("a descriptor");
        assert_eq!(bind(bench, s, 0), 0);
        let (_, port) = ask_name(bench, nr::GETSOCKNAME, s).expect("its name");
        (s, port)
    };
    let ((one, own_port), (other, port)) = (datagrams(&two.one), datagrams(&two.other));
    let send_to = |address, port| {
        let name = put_name(&two.one, address, port);
        two.one.call(nr::SENDTO, &[one, MEMORY + BYTES, 6, 0, name, NAME_BYTES as u64])
    };
    assert_eq!(send_to(JobNode(1).address(), port), 6);
    assert_eq!(send_to(JobNode(0).address(), own_port), 6);
    assert_eq!(two.other.call(nr::RECVFROM, &[other, MEMORY + INTO, 9, 0, 0, 0]), 6);
    assert_eq!(two.one.call(nr::RECVFROM, &[one, MEMORY + INTO, 9, 0, 0, 0]), 6);
    assert_eq!((moved(&two.one), moved(&two.other)), ((6, 0), (0, 6)));
}
