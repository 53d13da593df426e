//! What calls make the kernel keep and take for a moment is no more than what was charged for it.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicUsize, Ordering};

use coppice_endpoint::{Lender, Stack, UserConfig};
use coppice_hal::heap::measure;
use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::Call;
use coppice_protocol::syscalls as nr;

use crate::abi::io::epoll_event;
use crate::abi::socket::{NAME_BYTES, name};
use crate::errno::Errno;
use crate::executor;
use crate::files::flags;
use crate::limits::WATCHERS_FREE;
use crate::net::testing::{End, two_nodes};
use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES, pattern};
use crate::quota::Charge;
use crate::syscall::ranges::SMALL_PART_BYTES;

/// So often something is made.
const TIMES: u64 = 200;

/// Descriptors that are there before: the numbers of more are charged.
const DESCRIPTORS: u64 = 256;

/// What was lent, bytes.
#[derive(Default)]
struct Lent(AtomicUsize);

impl Lender for Lent {
    fn lend(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    fn take_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A process that has all descriptors that are not charged, its stack, and who lends memory to that.
fn bench() -> (Bench, Stack<End>, Arc<Lent>) {
    let [(stack, _), _] = two_nodes();
    let lent = Arc::new(Lent::default());
    stack.borrow_from(Arc::clone(&lent) as Arc<dyn Lender>);
    let wipe = |bytes: &mut [u8]| bytes.fill(0);
    let reserved_ports = RangeInclusive::new(1, 0);
    // So little that most buffers are of the least size.
    stack.set_user_config(UserConfig { buffer_bytes: 2 << 20, reserved_ports, wipe });
    let bench = Bench::new(&[]).sibling(Some(Arc::new(stack.clone())));
    while bench.call(nr::DUP, &[1]) < DESCRIPTORS.cast_signed() - 1 {}
    (bench, stack, lent)
}

/// What `make` keeps, and what it is charged with, bytes each time.
fn kept(make: impl Fn(&Bench, u64)) -> (usize, usize) {
    let (bench, _stack, lent) = bench();
    // Whatever grows at the first time.
    make(&bench, 0);
    bench.rest();
    let charged = || bench.process.node.quota.taken() + lent.0.load(Ordering::Relaxed);
    let before = charged();
    let ((), taken) = measure(|| {
        (1..=TIMES).for_each(|number| make(&bench, number));
        bench.rest();
        bench.world.lock().calls.clear();
        bench.world.lock().calls.shrink_to_fit();
    });
    let kept = usize::try_from(taken.kept_bytes).unwrap_or(0);
    (kept / TIMES as usize, (charged() - before) / TIMES as usize)
}

fn call(bench: &Bench, number: u32, arguments: &[u64]) -> u64 {
    let result = bench.call(number, arguments);
    u64::try_from(result).unwrap_or_else(|_| panic!("call {number}: {result}"))
}

fn named(bench: &Bench, port: u16) -> u64 {
    bench.put(0x100, name((Ipv4Addr::LOCALHOST, port)).bytes())
}

fn bind(bench: &Bench, kind: u64, port: u16) -> u64 {
    let socket = call(bench, nr::SOCKET, &[2, kind, 0]);
    call(bench, nr::BIND, &[socket, named(bench, port), NAME_BYTES as u64]);
    socket
}

/// Makes something, for the so manieth time.
type Make = dyn Fn(&Bench, u64);

#[test]
fn no_object_takes_more_than_it_is_charged_with() {
    const LISTENER: u64 = 254;
    let objects: &[(&str, &Make)] = &[
        ("pipe", &|bench, _| assert_eq!(call(bench, nr::PIPE2, &[MEMORY, 0]), 0)),
        ("packets", &|bench, _| assert_eq!(call(bench, nr::PIPE2, &[MEMORY, flags::O_DIRECT.into()]), 0)),
        ("pair", &|bench, _| assert_eq!(call(bench, nr::SOCKETPAIR, &[1, 1, 0, MEMORY]), 0)),
        ("messages", &|bench, _| assert_eq!(call(bench, nr::SOCKETPAIR, &[1, 2, 0, MEMORY]), 0)),
        ("counter", &|bench, _| assert!(call(bench, nr::EVENTFD2, &[0, 0]) > 0)),
        ("timer", &|bench, number| {
            let timer = call(bench, nr::TIMERFD_CREATE, &[1, 0]);
            let setting = [0, 0, 1_000_000 + number, 0].map(u64::to_le_bytes).concat();
            call(bench, nr::TIMERFD_SETTIME, &[timer, 0, bench.put(0, &setting), 0]);
        }),
        ("signals", &|bench, _| {
            let set = bench.put(0, &1_u64.to_le_bytes());
            call(bench, nr::SIGNALFD4, &[u64::MAX, set, 8, 0]);
        }),
        ("poller", &|bench, _| assert!(call(bench, nr::EPOLL_CREATE1, &[0]) > 0)),
        ("interest", &|bench, number| {
            let poller = if number == 0 { call(bench, nr::EPOLL_CREATE1, &[0]) } else { DESCRIPTORS };
            let event = bench.put(0, epoll_event(1, number).bytes());
            let file = call(bench, nr::EVENTFD2, &[0, 0]);
            call(bench, nr::EPOLL_CTL, &[poller, 1, file, event]);
        }),
        ("poller of one file", &|bench, number| {
            let (poller, file) = (call(bench, nr::EPOLL_CREATE1, &[0]), call(bench, nr::EVENTFD2, &[0, 0]));
            call(bench, nr::EPOLL_CTL, &[poller, 1, file, bench.put(0, epoll_event(1, number).bytes())]);
        }),
        ("poller in a poller", &|bench, _| {
            let [outer, inner] = [(); 2].map(|()| call(bench, nr::EPOLL_CREATE1, &[0]));
            assert_eq!(call(bench, nr::EPOLL_CTL, &[outer, 1, inner, bench.put(0, epoll_event(1, 0).bytes())]), 0);
        }),
        ("open device", &|bench, _| assert!(bench.open("/dev/null", flags::O_RDWR) > 0)),
        ("open text", &|bench, _| assert!(bench.open("/proc/self/maps", flags::O_RDONLY) > 0)),
        ("shared file", &|bench, number| {
            let path = format!("/dev/shm/{number:0250}");
            assert!(bench.open(&path, flags::O_CREAT | flags::O_RDWR) > 0);
        }),
        ("closed shared file", &|bench, number| {
            let path = format!("/dev/shm/{number}");
            let file = bench.open(&path, flags::O_CREAT | flags::O_RDWR);
            call(bench, nr::CLOSE, &[file.cast_unsigned()]);
        }),
        ("name", &|bench, number| {
            if number == 0 {
                let file = bench.open("/dev/shm/a", flags::O_CREAT | flags::O_RDWR);
                call(bench, nr::CLOSE, &[file.cast_unsigned()]);
            }
            let (from, to) = (bench.text(0, "/dev/shm/a"), bench.text(0x100, format!("/dev/shm/{number:0250}")));
            call(bench, nr::LINK, &[from, to]);
        }),
        ("memory file", &|bench, _| {
            let label = bench.text(0, "x".repeat(240));
            call(bench, nr::MEMFD_CREATE, &[label, 2]);
        }),
        ("netlink", &|bench, _| assert!(call(bench, nr::SOCKET, &[16, 3, 0]) > 0)),
        ("answers", &|bench, _| {
            let socket = call(bench, nr::SOCKET, &[16, 3, 0]);
            let all = [20, 0x301 << 16 | 18, 0, 0, 0_u32].map(u32::to_le_bytes).concat();
            for _ in 0..40 {
                call(bench, nr::WRITE, &[socket, bench.put(0, &all), 20]);
            }
        }),
        ("socket", &|bench, _| assert!(call(bench, nr::SOCKET, &[2, 1, 0]) > 0)),
        ("bound socket", &|bench, number| assert!(bind(bench, 1, 1000 + number as u16) > 0)),
        ("listener", &|bench, number| {
            call(bench, nr::LISTEN, &[bind(bench, 1, 1000 + number as u16), 10]);
        }),
        ("datagrams", &|bench, number| assert!(bind(bench, 2, 1000 + number as u16) > 0)),
        ("connection", &|bench, number| {
            if number == 0 {
                let listener = bind(bench, 1, 999);
                call(bench, nr::DUP2, &[listener, LISTENER]);
                call(bench, nr::LISTEN, &[LISTENER, 1000]);
            }
            let socket = call(bench, nr::SOCKET, &[2, 1, 0]);
            call(bench, nr::CONNECT, &[socket, named(bench, 999), NAME_BYTES as u64]);
        }),
        ("waiting connection", &|bench, number| {
            if number == 0 {
                let listener = bind(bench, 1, 999);
                call(bench, nr::DUP2, &[listener, LISTENER]);
                call(bench, nr::LISTEN, &[LISTENER, 1]);
            }
            let socket = call(bench, nr::SOCKET, &[2, 1 | u64::from(flags::O_NONBLOCK), 0]);
            let connected = bench.call(nr::CONNECT, &[socket, named(bench, 999), NAME_BYTES as u64]);
            assert!([0, -i64::from(Errno::EINPROGRESS.0)].contains(&connected));
        }),
    ];
    let mut excess = Vec::new();
    for (what, make) in objects {
        let (kept, charged) = kept(make);
        if kept > charged {
            excess.push(format!("{what}: {kept} bytes, charged with {charged}"));
        }
    }
    assert!(excess.is_empty(), "{excess:#?}");
}

/// Charges all that can be charged.
fn exhaust(bench: &Bench) -> Charge {
    let mut all = bench.process.node.quota.charge(0).expect("nothing");
    [1 << 20, 1 << 10, 1].into_iter().for_each(|bytes| while all.grow(bytes).is_ok() {});
    all
}

/// Has the process map the first `length` bytes of a file at the I/O node.
fn map(bench: &Bench, path: &str, length: u64) -> u64 {
    const PRIVATE: u64 = 2;
    let file = bench.open(path, flags::O_RDONLY).cast_unsigned();
    call(bench, nr::MMAP, &[0, length, 3, PRIVATE, file, 0])
}

/// What is charged more while a call waits for the I/O node than before, bytes.
fn charged_meanwhile(bench: &Bench, number: u32, arguments: &[u64]) -> usize {
    let quota = &bench.process.node.quota;
    let (before, mut during) = (quota.taken(), 0);
    bench.world.lock().stuck_from = Some(0);
    assert_eq!(bench.wait_while(number, arguments, |_| during = quota.taken()), None);
    during - before
}

/// How long the reads were that came to the I/O node.
fn reads(bench: &Bench) -> Vec<u32> {
    let of = |call: &Call| if let Call::Read { length, .. } = call { Some(*length) } else { None };
    bench.world.lock().calls.iter().filter_map(of).collect()
}

#[test]
fn pages_that_are_read_are_charged() {
    let bench = Bench::new(&[("/a", &pattern(1 << 20))]);
    let mapped = map(&bench, "/a", 1 << 20);
    call(&bench, nr::PIPE2, &[MEMORY, 0]);
    let charged = charged_meanwhile(&bench, nr::WRITE, &[5, mapped + 5000, 1]);
    assert_eq!(charged, BULK_BYTES_MAX);
}

#[test]
fn with_nothing_to_be_charged_pages_are_read_one_at_a_time() {
    let bytes = pattern(1 << 20);
    let bench = Bench::new(&[("/a", &bytes)]);
    let mapped = map(&bench, "/a", 1 << 20);
    call(&bench, nr::PIPE2, &[MEMORY, 0]);
    let all = exhaust(&bench);
    assert_eq!(call(&bench, nr::WRITE, &[5, mapped + 5000, 1]), 1);
    assert_eq!(reads(&bench), [4096]);
    drop(all);
    // Threads are charged before, so that they can be made.
    let pages: Vec<_> = [0x2_0000, 0x4_0000, 0x6_0000].map(|at| mapped + at).into();
    let states = pages.iter().map(|_| bench.process.threads.add([0; 16], 1, &bench.process.node.quota).expect("room"));
    let states: Vec<_> = states.collect();
    let all = exhaust(&bench);
    bench.world.lock().under_way_max = 0;
    assert!(pages.iter().zip(&states).all(|(at, state)| bench.begin(state, nr::WRITE, &[5, *at, 1])));
    bench.rest();
    assert_eq!(bench.world.lock().under_way_max, 1);
    assert_eq!(reads(&bench), [4096; 4]);
    drop(all);
    assert_eq!(call(&bench, nr::READ, &[4, MEMORY, 10]), 4);
    let mut read = bench.get(0, 4);
    read[1..].sort_unstable();
    let mut expected = [5000, 0x2_0000, 0x4_0000, 0x6_0000].map(|at| bytes[at]);
    expected[1..].sort_unstable();
    assert_eq!(read, expected);
}

#[test]
fn what_is_spliced_to_and_from_files_is_charged() {
    const PIPE_BYTES: usize = 65_536;
    for with_memory in [true, false] {
        let bench = Bench::new(&[("/a", &pattern(PIPE_BYTES)), ("/b", b"")]);
        call(&bench, nr::PIPE2, &[MEMORY, 0]);
        call(&bench, nr::PIPE2, &[MEMORY, 0]);
        bench.put(0, &vec![7; PIPE_BYTES]);
        assert_eq!(call(&bench, nr::WRITE, &[4, MEMORY, PIPE_BYTES as u64]), PIPE_BYTES as u64);
        let (from, to) = (bench.open("/a", flags::O_RDONLY), bench.open("/b", flags::O_WRONLY));
        let into = [from.cast_unsigned(), 0, 6, 0, PIPE_BYTES as u64, 0];
        let out = [3, 0, to.cast_unsigned(), 0, PIPE_BYTES as u64, 0];
        if with_memory {
            assert!(charged_meanwhile(&bench, nr::SPLICE, &into) >= PIPE_BYTES);
            let bench = Bench::new(&[("/b", b"")]);
            call(&bench, nr::PIPE2, &[MEMORY, 0]);
            assert_eq!(call(&bench, nr::WRITE, &[4, MEMORY, PIPE_BYTES as u64]), PIPE_BYTES as u64);
            let to = bench.open("/b", flags::O_WRONLY).cast_unsigned();
            assert!(charged_meanwhile(&bench, nr::SPLICE, &[3, 0, to, 0, PIPE_BYTES as u64, 0]) >= PIPE_BYTES);
        } else {
            let all = exhaust(&bench);
            assert_eq!(call(&bench, nr::SPLICE, &into), SMALL_PART_BYTES as u64);
            assert_eq!(call(&bench, nr::SPLICE, &out), SMALL_PART_BYTES as u64);
            drop(all);
            assert_eq!(bench.file("/b"), [7; SMALL_PART_BYTES]);
            assert_eq!(call(&bench, nr::READ, &[3, MEMORY, 1 << 20]), (PIPE_BYTES - SMALL_PART_BYTES) as u64);
        }
    }
}

/// However little memory there is, what is left of a packet stays.
#[test]
fn a_packet_that_is_spliced_in_small_parts_is_whole() {
    let bench = Bench::new(&[("/b", b"")]);
    call(&bench, nr::PIPE2, &[MEMORY, flags::O_DIRECT.into()]);
    bench.put(0, &pattern(3 * SMALL_PART_BYTES));
    assert_eq!(call(&bench, nr::WRITE, &[4, MEMORY, 3 * SMALL_PART_BYTES as u64]), 3 * SMALL_PART_BYTES as u64);
    let to = bench.open("/b", flags::O_WRONLY).cast_unsigned();
    let all = exhaust(&bench);
    for _ in 0..3 {
        assert_eq!(call(&bench, nr::SPLICE, &[3, 0, to, 0, 1000, 0]), SMALL_PART_BYTES as u64);
    }
    drop(all);
    assert_eq!(bench.file("/b"), pattern(3 * SMALL_PART_BYTES));
}

#[test]
fn with_nothing_to_be_charged_one_part_is_under_way() {
    let bytes = pattern(2000);
    let bench = Bench::new(&[("/a", &bytes), ("/b", b"")]);
    let (from, to) = (bench.open("/a", flags::O_RDONLY) as u64, bench.open("/b", flags::O_WRONLY) as u64);
    let all = exhaust(&bench);
    bench.world.lock().under_way_max = 0;
    assert_eq!(call(&bench, nr::READ, &[from, MEMORY, 2000]), 2000);
    assert_eq!(call(&bench, nr::WRITE, &[to, MEMORY, 2000]), 2000);
    assert_eq!(call(&bench, nr::LSEEK, &[from, 0, 0]), 0);
    assert_eq!(call(&bench, nr::SENDFILE, &[to, from, 0, 500]), SMALL_PART_BYTES as u64);
    drop(all);
    assert_eq!(bench.world.lock().under_way_max, 1);
    assert!(bench.file("/b")[..2000] == bytes);
}

#[test]
fn what_calls_keep_while_they_wait_for_the_programs_memory_is_charged() {
    let bench = || Bench::new(&[("/a", &pattern(4096))]);
    // A page that is read, and a byte for each page that is asked about.
    let other = bench();
    let page = map(&other, "/a", 4096);
    assert_eq!(charged_meanwhile(&other, nr::MINCORE, &[MEMORY, 1000 * 4096, page]), 4096 + 1024);
    // A page that is read, and what is behind a structure that is known.
    let other = bench();
    let file = other.open("/a", flags::O_RDONLY).cast_unsigned();
    call(&other, nr::MMAP, &[MEMORY + MEMORY_BYTES, 4096, 3, 0x12, file, 0]);
    let path = other.text(0, "/b");
    let how = MEMORY + MEMORY_BYTES - 24;
    assert_eq!(charged_meanwhile(&other, nr::OPENAT2, &[0, path, how, 24 + 1000]), 4096 + 1024);
}

/// However long a text or a listing is, no more is taken for a part of it than for that part.
#[test]
fn long_texts_and_listings_take_no_more_than_what_is_read_of_them() {
    const SHORT: u64 = 500;
    let bench = Bench::new(&[]);
    for number in 0..1000 {
        let at = 0x4000_0000 + number * 0x2000;
        call(&bench, nr::MMAP, &[at, 4096, 1, 0x32, u64::MAX, 0]);
        let file = bench.open(format!("/dev/shm/{number:0200}"), flags::O_CREAT | flags::O_RDWR);
        call(&bench, nr::CLOSE, &[file.cast_unsigned()]);
    }
    let maps = bench.open("/proc/self/maps", flags::O_RDONLY).cast_unsigned();
    let names = bench.open("/dev/shm", flags::O_RDONLY | flags::O_DIRECTORY).cast_unsigned();
    for (number, file) in [(nr::READ, maps), (nr::GETDENTS64, names)] {
        // Whatever the first call makes.
        call(&bench, number, &[file, MEMORY, SHORT]);
        for _ in 0..5 {
            let (read, taken) = measure(|| call(&bench, number, &[file, MEMORY, SHORT]));
            assert!((400..=SHORT).contains(&read), "{read}");
            assert!(taken.most_bytes <= 16 * 1024, "{taken:?} for call {number}");
        }
    }
    let mut text = 0;
    call(&bench, nr::LSEEK, &[maps, 0, 0]);
    while let read @ 1.. = call(&bench, nr::READ, &[maps, MEMORY + text, SHORT]) {
        text += read;
    }
    let whole = bench.get(0, text as usize);
    assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), 1002);
    assert_eq!(call(&bench, nr::PREAD64, &[maps, MEMORY, 1 << 20, 0]), text);
    assert!(bench.get(0, text as usize) == whole);
}

/// A file that more wait for than it has memory for.
#[test]
fn a_poller_that_cannot_be_registered_looks_now_and_then() {
    const POLLERS: u64 = WATCHERS_FREE as u64 + 1;
    let bench = Bench::new(&[]);
    let file = call(&bench, nr::EVENTFD2, &[0, 0]);
    for number in 0..POLLERS {
        let poller = call(&bench, nr::EPOLL_CREATE1, &[0]);
        assert_eq!(poller, file + 1 + number);
        call(&bench, nr::EPOLL_CTL, &[poller, 1, file, bench.put(0, epoll_event(1, number).bytes())]);
    }
    // One that watches the last of them.
    let outer = call(&bench, nr::EPOLL_CREATE1, &[0]);
    assert_eq!(outer, file + 1 + POLLERS);
    call(&bench, nr::EPOLL_CTL, &[outer, 1, outer - 1, bench.put(0, epoll_event(1, POLLERS).bytes())]);
    let all = exhaust(&bench);
    let wait = |number: u64, timeout_ms: u64| [file + 1 + number, MEMORY, 4, timeout_ms];
    for number in 0..=POLLERS {
        let start_ns = executor::now_ns();
        assert_eq!(call(&bench, nr::EPOLL_WAIT, &wait(number, 50)), 0);
        assert!((50_000_000..60_000_000).contains(&(executor::now_ns() - start_ns)));
    }
    let one = bench.put(0x100, &1_u64.to_le_bytes());
    let last = wait(POLLERS - 1, 1000);
    assert_eq!(bench.call_during(nr::EPOLL_WAIT, &last, &[(nr::WRITE, &[file, one, 8], 8)]), 1);
    assert_eq!(call(&bench, nr::EPOLL_WAIT, &wait(POLLERS, 1000)), 1);
    // Looked at or registered, it is told as long as it is so.
    assert_eq!(call(&bench, nr::EPOLL_WAIT, &last), 1);
    drop(all);
    assert_eq!(call(&bench, nr::EPOLL_WAIT, &last), 1);
    assert_eq!(call(&bench, nr::READ, &[file, MEMORY, 8]), 8);
    assert_eq!(call(&bench, nr::EPOLL_WAIT, &wait(POLLERS - 1, 0)), 0);
    assert_eq!(bench.call_during(nr::EPOLL_WAIT, &last, &[(nr::WRITE, &[file, one, 8], 8)]), 1);
}
