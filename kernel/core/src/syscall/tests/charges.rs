//! What programs make the kernel keep is charged with no less than the heap takes for it.

use coppice_hal::heap::held_bytes;
use coppice_protocol::syscalls as nr;

use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

/// Objects made before it is looked what one takes: what grows now and then has grown.
const FIRST: u64 = 16;
/// Objects made then.
const MORE: u64 = 112;

/// Makes objects one after the other, and holds what they take against what they are charged with.
fn hold(what: &str, bench: &Bench, make: impl Fn(&Bench, u64)) {
    (0..FIRST).for_each(|number| make(bench, number));
    let quota = &bench.process.node.quota;
    let before = (held_bytes(), quota.taken());
    (FIRST..FIRST + MORE).for_each(|number| make(bench, number));
    let held = (held_bytes() - before.0).max(0) as u64 / MORE;
    let charged = (quota.taken() - before.1) as u64 / MORE;
    assert!(held > 0 && held <= charged, "{what}: {held} bytes held each, {charged} charged");
}

/// Descriptors that a process has before: more are charged, and their table need not grow for all that comes.
const DESCRIPTORS: usize = 600;

/// A process whose descriptors are charged.
fn bench() -> Bench {
    let bench = Bench::new(&[]);
    let number = bench.call(nr::EVENTFD2, &[0, 0]) as u64;
    for _ in 0..DESCRIPTORS {
        assert!(bench.call(nr::DUP, &[number]) > 0);
    }
    bench
}

/// Makes a call that is to succeed.
fn made(bench: &Bench, number: u32, arguments: &[u64]) -> u64 {
    let result = bench.call(number, arguments);
    assert!(result >= 0, "{number}: {result}");
    result as u64
}

#[test]
fn descriptors_and_what_is_behind_them() {
    const NONBLOCK: u64 = flags::O_NONBLOCK as u64;
    const O_DIRECT: u64 = flags::O_DIRECT as u64;
    let fill = |bench: &Bench, bytes: u64| {
        let number = u32::from_le_bytes(bench.get(4, 4).try_into().expect("four bytes"));
        let _ = made(bench, nr::WRITE, &[number.into(), MEMORY + 4096, bytes]);
    };
    let with = |call: u32, arguments: &[u64]| {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        move |bench: &Bench, _: u64| {
            let _ = made(bench, call, &all);
        }
    };
    let path = |bench: &Bench, path: &str, opened_with: u32| {
        let at = bench.text(0x1000, path);
        let _ = made(bench, nr::OPEN, &[at, opened_with.into(), 0o600]);
    };
    hold("pipe", &bench(), with(nr::PIPE2, &[MEMORY, 0]));
    hold("pipe of packets", &bench(), with(nr::PIPE2, &[MEMORY, O_DIRECT]));
    hold("pipe with a byte", &bench(), |bench, number| {
        with(nr::PIPE2, &[MEMORY, 0])(bench, number);
        fill(bench, 1);
    });
    hold("pair of streams", &bench(), with(nr::SOCKETPAIR, &[1, 1, 0, MEMORY]));
    hold("pair of datagrams", &bench(), with(nr::SOCKETPAIR, &[1, 2, 0, MEMORY]));
    hold("pair of packets", &bench(), with(nr::SOCKETPAIR, &[1, 5, 0, MEMORY]));
    hold("counter", &bench(), with(nr::EVENTFD2, &[0, NONBLOCK]));
    hold("timer file", &bench(), with(nr::TIMERFD_CREATE, &[1, 0]));
    hold("timer file that runs", &bench(), |bench, _| {
        let number = made(bench, nr::TIMERFD_CREATE, &[1, 0]);
        let when = bench.put(0, &[0, 0, 1000_u64, 0].map(u64::to_le_bytes).concat());
        let _ = made(bench, nr::TIMERFD_SETTIME, &[number, 0, when, 0]);
    });
    hold("signal file", &bench(), |bench, _| {
        let set = bench.put(0, &(1_u64 << 9).to_le_bytes());
        let _ = made(bench, nr::SIGNALFD4, &[u64::MAX, set, 8, 0]);
    });
    hold("epoll", &bench(), with(nr::EPOLL_CREATE1, &[0]));
    hold("stream socket", &bench(), with(nr::SOCKET, &[2, 1, 0]));
    hold("datagram socket", &bench(), with(nr::SOCKET, &[2, 2, 0]));
    hold("memory file", &bench(), |bench, _| {
        let name = bench.text(0, "memory");
        let _ = made(bench, nr::MEMFD_CREATE, &[name, 0]);
    });
    hold("shared file", &bench(), |bench, number| {
        path(bench, &std::format!("/dev/shm/{number}"), flags::O_RDWR | flags::O_CREAT);
    });
    hold("device", &bench(), |bench, _| path(bench, "/dev/null", 0));
    hold("text", &bench(), |bench, _| path(bench, "/proc/self/stat", 0));
}

#[test]
fn what_epoll_watches() {
    let bench = bench();
    let poller = made(&bench, nr::EPOLL_CREATE1, &[0]);
    hold("watched counter", &bench, |bench, _| {
        let number = made(bench, nr::EVENTFD2, &[0, 0]);
        let event = bench.put(0, &[1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        let _ = made(bench, nr::EPOLL_CTL, &[poller, 1, number, event]);
    });
}

#[test]
fn areas() {
    let bench = bench();
    // Neighbours have different rights, so that each is an area of its own.
    let quota = &bench.process.node.quota;
    bench.process.space.lock().share_room(1, quota);
    let fill = |bench: &Bench, number: u64| {
        let _ = made(bench, nr::MMAP, &[0, 4096, 1 + number % 2 * 2, 0x22, 0, 0]);
    };
    (0..crate::limits::AREAS_FREE as u64).for_each(|number| fill(&bench, number));
    hold("area", &bench, fill);
}

#[test]
fn signals_and_timers() {
    let bench = bench();
    let all = bench.put(0, &u64::MAX.to_le_bytes());
    let _ = made(&bench, nr::RT_SIGPROCMASK, &[0, all, 0, 8]);
    let pid = made(&bench, nr::GETPID, &[]);
    let send = |bench: &Bench, _: u64| {
        let mut information = [0; 128];
        information[8..12].copy_from_slice(&(-1_i32).to_le_bytes());
        let information = bench.put(0, &information);
        let _ = made(bench, nr::RT_SIGQUEUEINFO, &[pid, 40, information]);
    };
    (0..crate::limits::SIGNALS_FREE as u64).for_each(|number| send(&bench, number));
    hold("signal", &bench, send);
    // There may be no more of them than 64.
    let timers = self::bench();
    let before = (held_bytes(), timers.process.node.quota.taken());
    for number in 0..60 {
        let _ = made(&timers, nr::TIMER_CREATE, &[1, 0, MEMORY]);
        let when = timers.put(0x100, &[0, 0, 1000 + number, 0].map(u64::to_le_bytes).concat());
        let _ = made(&timers, nr::TIMER_SETTIME, &[number, 0, when, 0]);
    }
    let (held, charged) = (held_bytes() - before.0, timers.process.node.quota.taken() - before.1);
    assert!(held > 0 && held.unsigned_abs() <= charged, "60 timers: {held} bytes held, {charged} charged");
}
