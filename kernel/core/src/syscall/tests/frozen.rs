//! Each call that waits, in a process that is made data and made again while it does.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use coppice_protocol::syscalls::{self as nr, CALLS, Interruption, Kind, SystemCall};

use crate::abi::io::PollEntry;
use crate::abi::socket::{NAME_BYTES, name};
use crate::abi::time::timespec;
use crate::errno::Errno;
use crate::net::Network;
use crate::process::testing::{Bench, MEMORY};

/// Places in the program's memory.
const FIRST: u64 = 0x100;
const SECOND: u64 = 0x200;
const THIRD: u64 = 0x300;
const BYTES: u64 = 0x1000;
const INTO: u64 = 0x10_0000;
const LIMIT: u64 = 0x400;
const LARGE: u64 = 200_000;

const SECOND_NS: u64 = 1_000_000_000;

/// A call that waits, what happens when its process is there again, and what comes of it then.
struct Case {
    arguments: Vec<u64>,
    meanwhile: Box<dyn FnOnce(&Bench)>,
    result: i64,
}

fn case(arguments: &[u64], result: i64, meanwhile: impl FnOnce(&Bench) + 'static) -> Case {
    Case { arguments: arguments.to_vec(), meanwhile: Box::new(meanwhile), result }
}

fn two(bench: &Bench) -> (u64, u64) {
    let bytes = bench.get(0, 8);
    let number = |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    (number(0), number(4))
}

fn pipe(bench: &Bench) -> (u64, u64) {
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0]), 0);
    two(bench)
}

/// A pair of streams, or of datagrams.
fn pair(bench: &Bench, kind: u64) -> (u64, u64) {
    assert_eq!(bench.call(nr::SOCKETPAIR, &[1, kind, 0, MEMORY]), 0);
    two(bench)
}

fn write(bench: &Bench, number: u64, bytes: &[u8]) {
    let at = bench.put(0x5_0000, bytes);
    assert_eq!(bench.call(nr::WRITE, &[number, at, bytes.len() as u64]), bytes.len() as i64);
}

fn drain(bench: &Bench, number: u64, bytes: u64) {
    let mut left = bytes;
    while left > 0 {
        let read = bench.call(nr::READ, &[number, MEMORY + INTO, left]);
        left -= u64::try_from(read).ok().filter(|read| *read > 0).expect("some");
    }
}

/// Pieces of memory, for calls that take those.
fn pieces(bench: &Bench, length: u64) -> u64 {
    bench.put(SECOND, &[(MEMORY + BYTES).to_le_bytes(), length.to_le_bytes()].concat())
}

/// A `struct msghdr`, and behind it a count, as sendmmsg(2) has it.
fn message(bench: &Bench, length: u64) -> u64 {
    let at = pieces(bench, length);
    let words: [u64; 8] = [0, 0, at, 1, 0, 0, 0, 0];
    bench.put(THIRD, &words.map(u64::to_le_bytes).concat())
}

fn limit(bench: &Bench, seconds: u64) -> u64 {
    bench.put(LIMIT, timespec(seconds * SECOND_NS).bytes())
}

fn poll_entry(bench: &Bench, number: u64) -> u64 {
    let entry = PollEntry { descriptor: number as i32, events: 1, happened: 0 };
    bench.put(FIRST, entry.record().bytes())
}

fn stream(bench: &Bench) -> u64 {
    bench.call(nr::SOCKET, &[2, 1, 0]).cast_unsigned()
}

/// A socket that accepts connections, one of which may wait for that, and its name.
fn listening(bench: &Bench) -> (u64, u64) {
    let socket = stream(bench);
    let at = bench.put(FIRST, name((Ipv4Addr::LOCALHOST, PORT)).bytes());
    assert_eq!(bench.call(nr::BIND, &[socket, at, NAME_BYTES as u64]), 0);
    assert_eq!(bench.call(nr::LISTEN, &[socket, 1]), 0);
    (socket, at)
}

/// A set with one descriptor, as select(2) has it.
fn set_of(bench: &Bench, number: u64) -> u64 {
    let mut set = vec![0; 128];
    set[number as usize / 8] |= 1 << (number % 8);
    bench.put(FIRST, &set)
}

fn poller(bench: &Bench, number: u64) -> u64 {
    let poller = bench.call(nr::EPOLL_CREATE1, &[0]).cast_unsigned();
    let event = bench.put(FIRST, &[&1_u32.to_le_bytes()[..], &77_u64.to_le_bytes()].concat());
    assert_eq!(bench.call(nr::EPOLL_CTL, &[poller, 1, number, event]), 0);
    poller
}

/// A handler for `SIGUSR1`, which does nothing.
fn handler(bench: &Bench) {
    use crate::abi::signal::SignalAction;
    let action = SignalAction { handler: 0x9000, flags: SignalAction::RESTORER, restorer: 0x9100, mask: 0 };
    let at = bench.put(FIRST, action.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[10, at, 0, 8]), 0);
}

fn send_signal(bench: &Bench) {
    let identity = &bench.process.identity;
    let info = crate::abi::signal::SignalInfo::user(10, identity.pid, 0);
    assert!(bench.process.send(crate::process::signals::Target::Process, info).is_ok());
}

const INTERRUPTED: i64 = -(Errno::EINTR.0 as i64);

/// How a call is made to wait. Every call that a signal can interrupt is here.
fn case_of(name: &str, bench: &Bench) -> Case {
    let into = MEMORY + INTO;
    let from = bench.put(BYTES, &[7; 1000]);
    match name {
        "read" => {
            let (reads, writes) = pipe(bench);
            case(&[reads, into, 100], 3, move |bench| write(bench, writes, b"abc"))
        }
        "readv" | "preadv2" => {
            let (reads, writes) = pipe(bench);
            let at = pieces(bench, 100);
            let offset = if name == "readv" { 0 } else { u64::MAX };
            case(&[reads, at, 1, offset, 0, 0], 3, move |bench| write(bench, writes, b"abc"))
        }
        "write" => {
            let (reads, writes) = pipe(bench);
            // Part of it is in the pipe when it is held.
            case(&[writes, from, LARGE], LARGE as i64, move |bench| drain(bench, reads, LARGE))
        }
        "writev" | "pwritev2" => {
            let (reads, writes) = pipe(bench);
            let at = pieces(bench, LARGE);
            let offset = if name == "writev" { 0 } else { u64::MAX };
            case(&[writes, at, 1, offset, 0, 0], LARGE as i64, move |bench| drain(bench, reads, LARGE))
        }
        "sendfile" => {
            let (reads, writes) = pipe(bench);
            let file = bench.open("/file", 0).cast_unsigned();
            case(&[writes, file, 0, LARGE], LARGE as i64, move |bench| drain(bench, reads, LARGE))
        }
        "poll" => {
            let (reads, writes) = pipe(bench);
            let at = poll_entry(bench, reads);
            case(&[at, 1, u64::MAX], 1, move |bench| write(bench, writes, b"x"))
        }
        "ppoll" => {
            let (reads, writes) = pipe(bench);
            let (at, limit) = (poll_entry(bench, reads), limit(bench, 1000));
            case(&[at, 1, limit, 0, 8], 1, move |bench| write(bench, writes, b"x"))
        }
        "select" | "pselect6" => {
            let (reads, writes) = pipe(bench);
            let at = set_of(bench, reads);
            case(&[reads + 1, at, 0, 0, 0, 0], 1, move |bench| write(bench, writes, b"x"))
        }
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => {
            let (reads, writes) = pipe(bench);
            let poller = poller(bench, reads);
            let limit = if name == "epoll_pwait2" { limit(bench, 1000) } else { u64::MAX };
            case(&[poller, into, 8, limit, 0, 8], 1, move |bench| write(bench, writes, b"x"))
        }
        "pause" => {
            handler(bench);
            case(&[], INTERRUPTED, send_signal)
        }
        "rt_sigsuspend" => {
            handler(bench);
            let none = bench.put(SECOND, &[0; 8]);
            case(&[none, 8], INTERRUPTED, send_signal)
        }
        "rt_sigtimedwait" => {
            let wanted = bench.put(SECOND, &(1_u64 << 9).to_le_bytes());
            case(&[wanted, 0, 0, 8], 10, send_signal)
        }
        "nanosleep" => {
            let limit = limit(bench, 1000);
            case(&[limit, 0], 0, |_| {
                assert!(crate::executor::run_to_end(crate::executor::sleep(1000 * SECOND_NS)).is_ok())
            })
        }
        "clock_nanosleep" => {
            let limit = limit(bench, 1000);
            case(&[1, 0, limit, 0], 0, |_| {
                assert!(crate::executor::run_to_end(crate::executor::sleep(1000 * SECOND_NS)).is_ok());
            })
        }
        "futex" => {
            let word = bench.put(SECOND, &5_u32.to_le_bytes());
            case(&[word, 128, 5, 0], 0, move |bench| assert_eq!(bench.call(nr::FUTEX, &[word, 129, 1]), 1))
        }
        "recvfrom" => {
            let (one, other) = pair(bench, 1);
            case(&[one, into, 100, 0, 0, 0], 3, move |bench| write(bench, other, b"abc"))
        }
        "recvmsg" => {
            let (one, other) = pair(bench, 1);
            let at = message(bench, 100);
            case(&[one, at, 0], 3, move |bench| write(bench, other, b"abc"))
        }
        "recvmmsg" => {
            let (one, other) = pair(bench, 2);
            let at = message(bench, 100);
            // One message is there when it is held, the other comes later.
            write(bench, other, b"abc");
            bench.put(THIRD + 64, &bench.get(THIRD, 64));
            case(&[one, at, 2, 0, 0], 2, move |bench| write(bench, other, b"defg"))
        }
        "sendto" => {
            let (one, other) = pair(bench, 1);
            case(&[one, from, 3 * LARGE, 0, 0, 0], 3 * LARGE as i64, move |bench| drain(bench, other, 3 * LARGE))
        }
        "sendmsg" => {
            let (one, other) = pair(bench, 1);
            let at = message(bench, 3 * LARGE);
            case(&[one, at, 0], 3 * LARGE as i64, move |bench| drain(bench, other, 3 * LARGE))
        }
        "sendmmsg" => {
            let (one, other) = pair(bench, 1);
            let at = message(bench, 3 * LARGE);
            bench.put(THIRD + 64, &bench.get(THIRD, 64));
            case(&[one, at, 2, 0], 2, move |bench| drain(bench, other, 6 * LARGE))
        }
        "splice" | "tee" => {
            let (from, feeds) = pipe(bench);
            let (_, to) = pipe(bench);
            let arguments = if name == "tee" { vec![from, to, 100, 0] } else { vec![from, 0, to, 0, 100, 0] };
            case(&arguments, 3, move |bench| write(bench, feeds, b"abc"))
        }
        "vmsplice" => {
            let (reads, writes) = pipe(bench);
            let at = pieces(bench, 100);
            case(&[reads, at, 1, 0], 3, move |bench| write(bench, writes, b"abc"))
        }
        "accept" | "accept4" => {
            let (listening, at) = listening(bench);
            let made = listening as i64 + 2;
            case(&[listening, 0, 0, 0], made, move |bench| {
                assert_eq!(bench.call(nr::CONNECT, &[stream(bench), at, 16]), 0)
            })
        }
        "connect" => {
            // There is room for one that waits to be accepted.
            let (listening, at) = listening(bench);
            assert_eq!(bench.call(nr::CONNECT, &[stream(bench), at, 16]), 0);
            let calls = stream(bench);
            case(&[calls, at, 16], 0, move |bench| assert!(bench.call(nr::ACCEPT, &[listening, 0, 0]) > 0))
        }
        "fcntl" => {
            const F_OFD_SETLK: u64 = 37;
            const F_OFD_SETLKW: u64 = 38;
            let lock = |kind: u16| [kind.to_le_bytes().to_vec(), vec![0; 30]].concat();
            let [has, wants] = [0; 2].map(|_| bench.open("/file", 2).cast_unsigned());
            let (write, free) = (bench.put(SECOND, &lock(1)), bench.put(THIRD, &lock(2)));
            assert_eq!(bench.call(nr::FCNTL, &[has, F_OFD_SETLK, write]), 0);
            case(&[wants, F_OFD_SETLKW, write], 0, move |bench| {
                assert_eq!(bench.call(nr::FCNTL, &[has, F_OFD_SETLK, free]), 0);
            })
        }
        "flock" => {
            const LOCK_EX: u64 = 2;
            const LOCK_UN: u64 = 8;
            let [has, wants] = [0; 2].map(|_| bench.open("/file", 2).cast_unsigned());
            assert_eq!(bench.call(nr::FLOCK, &[has, LOCK_EX]), 0);
            case(&[wants, LOCK_EX], 0, move |bench| assert_eq!(bench.call(nr::FLOCK, &[has, LOCK_UN]), 0))
        }
        _ => panic!("{name} waits, and nobody says how it is frozen"),
    }
}

fn calls_that_wait() -> impl Iterator<Item = &'static SystemCall> {
    CALLS.iter().filter(|call| call.interruption != Interruption::Waits)
}

fn bench() -> Bench {
    Bench::new(&[("/file", &vec![3; LARGE as usize])])
}

#[test]
fn every_call_that_waits_goes_on_when_its_process_is_made_again() {
    for call in calls_that_wait() {
        let bench = bench();
        let Case { arguments, meanwhile, result } = case_of(call.name, &bench);
        let (bench, made) = bench.frozen_while(call.number, &arguments, |bench| meanwhile(bench));
        assert_eq!(made, Some(result), "{}", call.name);
        // It is a process as before.
        let (reads, writes) = pipe(&bench);
        write(&bench, writes, b"all is well");
        drain(&bench, reads, 11);
    }
}

/// Another thread closes what a call is about while it waits, and has the number stand for something else.
#[test]
fn every_call_is_about_what_it_was_about_when_its_process_is_made_again() {
    for call in calls_that_wait().filter(|call| call.arguments.first() == Some(&Kind::Fd)) {
        let bench = bench();
        let Case { arguments, meanwhile, result } = case_of(call.name, &bench);
        let number = arguments[0];
        let begun = move |bench: &Bench| {
            let (reads, writes) = pipe(bench);
            assert_eq!(bench.call(nr::DUP2, &[reads, number]), number as i64);
            assert_eq!([reads, writes].map(|end| bench.call(nr::CLOSE, &[end])), [0; 2]);
        };
        let (bench, made) = bench.frozen_when_begun(call.number, &arguments, begun, |bench| meanwhile(bench));
        assert_eq!(made, Some(result), "{}", call.name);
        // What it was about is gone now, and its number stands for what it was given.
        let into = MEMORY + INTO;
        assert_eq!(bench.call(nr::READ, &[number, into, 1]), 0, "{}", call.name);
    }
}

const PORT: u16 = 4711;

fn datagrams(bench: &Bench) -> u64 {
    let socket = bench.call(nr::SOCKET, &[2, 2, 0]).cast_unsigned();
    let at = bench.put(FIRST, name((Ipv4Addr::LOCALHOST, PORT)).bytes());
    assert_eq!(bench.call(nr::BIND, &[socket, at, NAME_BYTES as u64]), 0);
    socket
}

/// An epoll that has told everything of a socket that has a datagram, and tells changes only.
fn told_of_a_datagram() -> (Bench, u64) {
    const EDGE: u32 = 1 << 31;
    let bench = Bench::new(&[]);
    let socket = datagrams(&bench);
    let poller = bench.call(nr::EPOLL_CREATE1, &[0]).cast_unsigned();
    let event = bench.put(FIRST, &[&(EDGE | 1).to_le_bytes()[..], &77_u64.to_le_bytes()].concat());
    assert_eq!(bench.call(nr::EPOLL_CTL, &[poller, 1, socket, event]), 0);
    let waits = [poller, MEMORY + INTO, 8, 0];
    assert_eq!(bench.call(nr::EPOLL_WAIT, &waits), 0);
    send(&*bench.process.node.network);
    assert_eq!([0; 2].map(|_| bench.call(nr::EPOLL_WAIT, &waits)), [1, 0]);
    (bench, poller)
}

fn send(network: &dyn Network) {
    let socket = network.udp().expect("room");
    let sent = socket.send(1, Some((Ipv4Addr::LOCALHOST, PORT)), &mut |bytes| {
        bytes.fill(7);
        true
    });
    assert_eq!(sent, Ok(true));
}

#[test]
fn what_was_told_of_a_socket_is_not_told_again() {
    let (bench, poller) = told_of_a_datagram();
    let forever = [poller, MEMORY + INTO, 8, u64::MAX];
    let (_bench, made) = bench.frozen_while(nr::EPOLL_WAIT, &forever, |bench| send(&*bench.process.node.network));
    assert_eq!(made, Some(1));
}

#[test]
fn what_came_over_a_socket_while_its_process_was_data_is_told() {
    let (bench, poller) = told_of_a_datagram();
    let forever = [poller, MEMORY + INTO, 8, u64::MAX];
    let (bench, made) = bench.frozen_in_network(nr::EPOLL_WAIT, &forever, send);
    assert_eq!((made, bench.call(nr::EPOLL_WAIT, &[poller, MEMORY + INTO, 8, 0])), (Some(1), 0));
}
