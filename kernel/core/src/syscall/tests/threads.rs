//! Threads of one process that use the same things at once.

use alloc::vec::Vec;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::ship::Call;
use coppice_protocol::syscalls as nr;

use crate::abi::io::{EPOLL_EVENT_BYTES, epoll_event};
use crate::errno::Errno;
use crate::files::flags::{O_APPEND, O_RDONLY, O_WRONLY};
use crate::process::testing::{Bench, MEMORY, pattern};

const LONG: usize = 3 * BULK_BYTES_MAX + 5;
const POLLIN: u32 = 1;
const ONE_SHOT: u32 = 1 << 30;

/// Puts two long texts into memory. Gives their addresses.
fn put_two(bench: &Bench) -> [u64; 2] {
    [(0x1000, b'a'), (0x1000 + LONG as u64, b'b')].map(|(at, letter)| bench.put(at, &[letter].repeat(LONG)))
}

/// Whether bytes are one text and then the other.
fn is_one_then_other(bytes: &[u8]) -> bool {
    let changes = bytes.windows(2).filter(|two| two[0] != two[1]).count();
    let first = bytes.iter().filter(|byte| **byte == b'a').count();
    (bytes.len(), first, changes) == (2 * LONG, LONG, 1)
}

#[test]
fn what_two_threads_write_comes_one_after_the_other() {
    for how in [O_WRONLY, O_WRONLY | O_APPEND] {
        let bench = Bench::new(&[("/a", b"")]);
        let file = bench.open("/a", how) as u64;
        let [one, other] = put_two(&bench);
        let all = LONG as u64;
        let written = bench.side_by_side([(nr::WRITE, &[file, one, all]), (nr::WRITE, &[file, other, all])]);
        assert_eq!(written, [Some(LONG as i64); 2]);
        assert!(is_one_then_other(&bench.file("/a")), "{how:#o}");
        assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 2 * LONG as i64);
    }
}

#[test]
fn what_two_threads_print_comes_out_whole() {
    let bench = Bench::new(&[]);
    let [one, other] = put_two(&bench);
    let all = LONG as u64;
    let printed = bench.side_by_side([(nr::WRITE, &[1, one, all]), (nr::WRITE, &[1, other, all])]);
    assert_eq!(printed, [Some(LONG as i64); 2]);
    assert!(is_one_then_other(&bench.world.lock().output));
}

#[test]
fn what_two_threads_read_is_read_once() {
    let bench = Bench::new(&[("/a", &pattern(2 * LONG))]);
    let file = bench.open("/a", O_RDONLY) as u64;
    let (one, other, all) = (MEMORY + 0x1000, MEMORY + 0x1000 + LONG as u64, LONG as u64);
    let read = bench.side_by_side([(nr::READ, &[file, one, all]), (nr::READ, &[file, other, all])]);
    assert_eq!(read, [Some(LONG as i64); 2]);
    let (first, second) = (bench.get(0x1000, LONG), bench.get(0x1000 + all, LONG));
    let halves = pattern(2 * LONG);
    let halves = halves.split_at(LONG);
    assert!((&*first, &*second) == halves || (&*second, &*first) == halves);
}

#[test]
fn seeking_waits_for_whoever_reads() {
    let bench = Bench::new(&[("/a", &pattern(2 * LONG))]);
    let file = bench.open("/a", O_RDONLY) as u64;
    let calls: [(u32, &[u64]); 3] =
        [(nr::READ, &[file, MEMORY + 0x1000, 100]), (nr::LSEEK, &[file, 11, 1]), (nr::LSEEK, &[file, 0, 1])];
    assert_eq!(bench.side_by_side(calls), [Some(100), Some(111), Some(111)]);
    assert_eq!(
        bench.side_by_side([(nr::READ, &[file, MEMORY, 1]), (nr::LSEEK, &[file, 5, 9])]),
        [Some(1), Some(-i64::from(Errno::EINVAL.0))]
    );
}

#[test]
fn a_call_that_waits_keeps_its_file_when_the_number_gets_another() {
    let bench = Bench::new(&[("/a", b"from the file")]);
    assert_eq!(bench.call(nr::PIPE, &[MEMORY]), 0);
    let file = bench.open("/a", O_RDONLY) as u64;
    let text = bench.text(0x200, "through the pipe");
    let read = bench.wait_while(nr::READ, &[3, MEMORY + 0x100, 16], |bench| {
        assert_eq!(bench.call(nr::DUP2, &[file, 3]), 3);
        assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
        assert_eq!(bench.call(nr::WRITE, &[4, text, 16]), 16);
    });
    assert_eq!(read, Some(16));
    assert_eq!(bench.get(0x100, 16), b"through the pipe");
    assert_eq!(bench.call(nr::READ, &[3, MEMORY + 0x100, 4]), 4);
    assert_eq!(bench.get(0x100, 4), b"from");
}

#[test]
fn a_pipe_whose_numbers_cannot_be_told_is_none() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::PIPE, &[0x8000]), -i64::from(Errno::EFAULT.0));
    assert_eq!(bench.call(nr::PIPE, &[MEMORY]), 0);
    assert_eq!(bench.get(0, 8), [3_i32.to_le_bytes(), 4_i32.to_le_bytes()].concat());
}

#[test]
fn a_page_that_two_threads_touch_is_fetched_once() {
    let bench = Bench::new(&[("/a", &pattern(4096))]);
    let file = bench.open("/a", O_RDONLY) as u64;
    let at = bench.call(nr::MMAP, &[0, 4096, 1, 2, file, 0]).cast_unsigned();
    assert_eq!(bench.call(nr::SOCKETPAIR, &[1, 1, 0, MEMORY]), 0);
    let reads = || bench.world.lock().calls.iter().filter(|call| matches!(call, Call::Read { .. })).count();
    let sent = bench.side_by_side([(nr::WRITE, &[4, at, 100]), (nr::WRITE, &[4, at + 200, 100])]);
    assert_eq!((sent, reads()), ([Some(100); 2], 1));
}

/// An epoll and a pipe, which is watched for reading; the epoll's descriptor is 3, the pipe's are 4 and 5.
fn watching(events: u32) -> Bench {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::EPOLL_CREATE1, &[0]), 3);
    assert_eq!(bench.call(nr::PIPE, &[MEMORY]), 0);
    let event = bench.put(0x100, epoll_event(events, 77).bytes());
    assert_eq!(bench.call(nr::EPOLL_CTL, &[3, 1, 4, event]), 0);
    bench
}

fn two_waits(bench: &Bench, limit_ms: u64) -> Vec<i64> {
    let waits: [(u32, &[u64]); 2] =
        [(nr::EPOLL_WAIT, &[3, MEMORY + 0x200, 1, limit_ms]), (nr::EPOLL_WAIT, &[3, MEMORY + 0x300, 1, limit_ms])];
    bench.side_by_side(waits).into_iter().flatten().collect()
}

#[test]
fn what_is_asked_for_once_is_told_to_one_thread() {
    let bench = watching(POLLIN | ONE_SHOT);
    bench.call(nr::WRITE, &[5, MEMORY, 1]);
    let mut told = two_waits(&bench, 10);
    told.sort_unstable();
    assert_eq!(told, [0, 1]);
}

#[test]
fn what_stays_ready_is_told_to_all_threads() {
    let bench = watching(POLLIN);
    bench.call(nr::WRITE, &[5, MEMORY, 1]);
    assert_eq!(two_waits(&bench, u64::MAX), [1, 1]);
}

#[test]
fn events_that_cannot_be_told_are_not_lost() {
    let bench = watching(POLLIN | ONE_SHOT);
    bench.call(nr::WRITE, &[5, MEMORY, 1]);
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[3, 0x8000, 1, 0]), -i64::from(Errno::EFAULT.0));
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[3, MEMORY + 0x200, 1, 0]), 1);
    assert_eq!(bench.get(0x200, EPOLL_EVENT_BYTES), epoll_event(POLLIN, 77).bytes());
}
