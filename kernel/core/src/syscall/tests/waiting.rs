//! Calls that let time pass or wait for input.

use coppice_protocol::syscalls as nr;

use crate::abi::io::PollEntry;
use crate::abi::time::timespec;
use crate::errno::Errno;
use crate::executor;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

/// How long `call` takes, ms.
fn elapsed_ms(call: impl FnOnce()) -> u64 {
    let start_ns = executor::now_ns();
    call();
    (executor::now_ns() - start_ns) / 1_000_000
}

#[test]
fn sleeping_takes_its_time() {
    let bench = Bench::new(&[]);
    let time = bench.put(0, timespec(3_000_000_000).bytes());
    assert_eq!(elapsed_ms(|| assert_eq!(bench.call(nr::NANOSLEEP, &[time, 0]), 0)), 3000);
    assert_eq!(elapsed_ms(|| assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[1, 0, time, 0]), 0)), 3000);
    // Until a time that has passed.
    assert_eq!(elapsed_ms(|| assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[1, 1, time, 0]), 0)), 0);
    // The time of a thread itself does not pass while it sleeps, and some clocks can be looked at only.
    for clock in [3, 4, 5, 6] {
        assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[clock, 0, 8, 0]), error(Errno::EOPNOTSUPP));
    }
    // Which clock a number below 0 is comes last.
    assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[u64::MAX, 0, 8, 0]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[u64::MAX, 0, time, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[77, 0, time, 0]), error(Errno::EINVAL));
    let wrong = bench.put(0, timespec(5).raw(8, &1_000_000_000_u64.to_le_bytes()).bytes());
    assert_eq!(bench.call(nr::NANOSLEEP, &[wrong, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::NANOSLEEP, &[3, 0]), error(Errno::EFAULT));
}

/// A process that went on from elsewhere has another clock than its node.
#[test]
fn a_process_waits_by_its_own_clock() {
    const DAY_NS: u64 = 86_400_000_000_000;
    let bench = Bench::new(&[]);
    let shown = || {
        assert_eq!(bench.call(nr::CLOCK_GETTIME, &[1, MEMORY]), 0);
        u64::from_le_bytes(bench.get(0, 8).try_into().expect("8 bytes"))
    };
    for now_ns in [DAY_NS, 1_000_000_000] {
        bench.process.clock.set(now_ns);
        let seconds = now_ns / 1_000_000_000;
        assert_eq!(shown(), seconds);
        assert_eq!(bench.call(nr::TIMES, &[0]) as u64 / 100, seconds);
        let time = |seconds: u64| [seconds.to_le_bytes(), [0; 8]].concat();
        let until = bench.put(64, &time(seconds + 3));
        assert_eq!(elapsed_ms(|| assert_eq!(bench.call(nr::CLOCK_NANOSLEEP, &[1, 1, until, 0]), 0)), 3000);
        assert_eq!(shown(), seconds + 3);
        let timer = bench.call(nr::TIMERFD_CREATE, &[1, 0]) as u64;
        let setting = bench.put(128, &[time(0), time(seconds + 5)].concat());
        assert_eq!(bench.call(nr::TIMERFD_SETTIME, &[timer, 1, setting, 0]), 0);
        assert_eq!(elapsed_ms(|| assert_eq!(bench.call(nr::READ, &[timer, MEMORY, 8]), 8)), 2000);
        // As a bit set waits: until a time.
        let until = bench.put(64, &time(seconds + 6));
        let waited = elapsed_ms(|| {
            assert_eq!(bench.call(nr::FUTEX, &[MEMORY, 9, 1, until, 0, 0xffff_ffff]), error(Errno::ETIMEDOUT));
        });
        assert_eq!(waited, 1000);
    }
}

#[test]
fn waiting_is_not_counted_as_processor_time() {
    let bench = Bench::new(&[]);
    let time = bench.put(0, timespec(5_000_000_000).bytes());
    assert_eq!(bench.call(nr::NANOSLEEP, &[time, 0]), 0);
    assert_eq!(bench.call(nr::CLOCK_GETTIME, &[1, MEMORY]), 0);
    assert!(bench.get(0, 1)[0] >= 5);
    assert_eq!(bench.call(nr::CLOCK_GETTIME, &[99, MEMORY]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::CLOCK_GETTIME, &[0, 1]), error(Errno::EFAULT));
}

#[test]
fn a_futex_waits_for_its_time_limit_only() {
    let bench = Bench::new(&[]);
    let word = bench.put(0x100, &7_u32.to_le_bytes());
    let limit = bench.put(0, timespec(2_000_000_000).bytes());
    assert_eq!(bench.call(nr::FUTEX, &[word, 128, 8, limit]), error(Errno::EAGAIN));
    let wait = || assert_eq!(bench.call(nr::FUTEX, &[word, 128, 7, limit]), error(Errno::ETIMEDOUT));
    assert_eq!(elapsed_ms(wait), 2000);
    assert_eq!(bench.call(nr::FUTEX, &[word, 129, 1]), 0);
    assert_eq!(bench.call(nr::FUTEX, &[word + 1, 129, 1]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::FUTEX, &[0x8000, 1, 1]), error(Errno::EFAULT));
}

fn poll(bench: &Bench, entries: &[(i32, u16)], timeout_ms: i32) -> i64 {
    for (index, (descriptor, events)) in entries.iter().enumerate() {
        let entry = PollEntry { descriptor: *descriptor, events: *events, happened: 0xffff };
        bench.put(8 * index as u64, entry.record().bytes());
    }
    let timeout = i64::from(timeout_ms).cast_unsigned();
    bench.call(nr::POLL, &[MEMORY, entries.len() as u64, timeout])
}

fn happened(bench: &Bench, index: u64) -> u16 {
    bench.get(8 * index, 8).first_chunk().map_or(0, |bytes| PollEntry::parse(bytes).happened)
}

#[test]
fn polling_tells_what_is_ready() {
    let bench = Bench::new(&[("/a", b"x")]);
    let file = bench.open("/a", flags::O_RDWR) as i32;
    assert_eq!(poll(&bench, &[(file, 5), (1, 5), (-1, 5), (99, 5), (0, 1)], -1), 3);
    assert_eq!(
        [0, 1, 2, 3, 4].map(|index| happened(&bench, index)),
        [5, 4, 0, 0x20, 0],
        "file, output, none, no such, input"
    );
    assert_eq!(elapsed_ms(|| assert_eq!(poll(&bench, &[], 500), 0)), 500);
    let empty = || assert_eq!(poll(&bench, &[(0, 1)], 700), 0);
    assert!((700..1100).contains(&elapsed_ms(empty)));
    bench.world.lock().input.push_back(b"x".to_vec());
    assert_eq!(poll(&bench, &[(0, 1)], -1), 1);
    assert_eq!(happened(&bench, 0), 1);
    assert_eq!(bench.call(nr::POLL, &[MEMORY, 5000, 0]), error(Errno::EINVAL));
}

#[test]
fn selecting_tells_what_is_ready() {
    let bench = Bench::new(&[]);
    let (read, write, time) = (MEMORY, MEMORY + 8, MEMORY + 16);
    bench.put(0, &[1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    bench.put(16, &[0; 16]);
    assert_eq!(bench.call(nr::SELECT, &[3, read, write, 0, time]), 2);
    assert_eq!(bench.get(0, 16), [0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    bench.world.lock().input.push_back(b"x".to_vec());
    bench.put(0, &[1]);
    assert_eq!(bench.call(nr::SELECT, &[1, read, 0, 0, 0]), 1);
    assert_eq!(bench.get(0, 1), [1]);
    bench.put(0, &[0x80]);
    assert_eq!(bench.call(nr::SELECT, &[8, read, 0, 0, 0]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::SELECT, &[u64::MAX, read, 0, 0, 0]), error(Errno::EINVAL));
    let limit = bench.put(16, timespec(2_000_000_000).bytes());
    assert_eq!(elapsed_ms(|| assert_eq!(bench.call(nr::PSELECT6, &[0, 0, 0, 0, limit, 0]), 0)), 2000);
    assert_eq!(bench.get(16, 16), [0; 16]);
}
