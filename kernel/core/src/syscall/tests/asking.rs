//! `/proc/coppice/checkpoint`: asking for checkpoints, and being told of them.

use alloc::string::String;
use alloc::sync::Arc;

use coppice_protocol::syscalls as nr;

use crate::abi::io::{EPOLL_EVENT_BYTES, PollEntry, epoll_event, parse_epoll_event};
use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};
use crate::sync::atomic::{AtomicU32, Ordering};

const PATH: &str = "/proc/coppice/checkpoint";
const IN: u32 = 1;
const OUT: u32 = 4;

fn open(bench: &Bench, how: u32) -> u64 {
    u64::try_from(bench.open(PATH, how)).expect("it is there")
}

/// The line, anew.
fn line(bench: &Bench, number: u64) -> String {
    let count = bench.call(nr::PREAD64, &[number, MEMORY + 0x1000, 100, 0]);
    String::from_utf8(bench.get(0x1000, usize::try_from(count).expect("it is read"))).expect("text")
}

fn ask(bench: &Bench, number: u64) {
    assert_eq!(bench.call(nr::WRITE, &[number, MEMORY, 3]), 3);
}

fn poll_entry(bench: &Bench, number: u64, events: u32) -> u64 {
    let entry = PollEntry { descriptor: number as i32, events: events as u16, happened: 0xffff };
    bench.put(0x100, entry.record().bytes())
}

fn polled(bench: &Bench, number: u64) -> u32 {
    let entry = poll_entry(bench, number, IN | OUT);
    assert!(bench.call(nr::POLL, &[entry, 1, 0]) >= 0);
    PollEntry::parse(bench.get(0x100, 8).first_chunk().expect("one")).happened.into()
}

#[test]
fn who_writes_asks_and_who_reads_is_told() {
    let bench = Bench::new(&[]);
    let told = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&told);
    bench.process.job.asks.say(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let (asks, reads) = (open(&bench, flags::O_WRONLY | flags::O_TRUNC), open(&bench, flags::O_RDONLY));
    assert_eq!(bench.call(nr::WRITE, &[asks, MEMORY, 0]), 0);
    assert_eq!(line(&bench, reads), "asked 0 made 0\n");
    ask(&bench, asks);
    ask(&bench, asks);
    assert_eq!(told.load(Ordering::Relaxed), 1, "it is the same one");
    assert_eq!(line(&bench, reads), "asked 1 made 0\n");
    bench.process.job.asks.made(1);
    ask(&bench, asks);
    assert_eq!(told.load(Ordering::Relaxed), 2);
    // As programs read it that read to the end.
    assert_eq!(bench.call(nr::READ, &[reads, MEMORY, 100]), 15);
    assert_eq!(bench.get(0, 15), b"asked 2 made 1\n");
    assert_eq!(bench.call(nr::READ, &[reads, MEMORY, 100]), 0);
    assert_eq!(bench.call(nr::LSEEK, &[reads, 0, 0]), 0);
    assert_eq!(bench.call(nr::READ, &[reads, MEMORY, 100]), 15);
    assert_eq!(bench.call(nr::LSEEK, &[reads, 0, 2]), 15);
    let error = |errno: Errno| -i64::from(errno.0);
    assert_eq!(bench.call(nr::WRITE, &[reads, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::READ, &[asks, MEMORY, 1]), error(Errno::EBADF));
}

#[test]
fn it_can_be_polled() {
    let bench = Bench::new(&[]);
    let number = open(&bench, flags::O_RDWR);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]).cast_unsigned();
    let event = bench.put(0x200, epoll_event(IN, 7).bytes());
    assert_eq!(bench.call(nr::EPOLL_CTL, &[epoll, 1, number, event]), 0);
    let told = |bench: &Bench| {
        let count = bench.call(nr::EPOLL_WAIT, &[epoll, MEMORY, 4, 0]);
        let events = bench.get(0, EPOLL_EVENT_BYTES);
        (count == 1).then(|| parse_epoll_event(events.first_chunk().expect("one")))
    };
    assert_eq!((polled(&bench, number), told(&bench)), (IN | OUT, Some((IN, 7))), "it was not read yet");
    line(&bench, number);
    assert_eq!((polled(&bench, number), told(&bench)), (OUT, None));
    ask(&bench, number);
    assert_eq!((polled(&bench, number), told(&bench)), (IN | OUT, Some((IN, 7))));
    line(&bench, number);
    assert_eq!((polled(&bench, number), told(&bench)), (OUT, None));
    bench.process.job.asks.made(1);
    assert_eq!((polled(&bench, number), told(&bench)), (IN | OUT, Some((IN, 7))));
}

#[test]
fn a_process_that_is_made_again_has_it_open_and_is_told() {
    let bench = Bench::new(&[]);
    let number = open(&bench, flags::O_RDWR);
    ask(&bench, number);
    assert_eq!(line(&bench, number), "asked 1 made 0\n");
    let entry = poll_entry(&bench, number, IN);
    // Whoever polls is told, for what was read is not known any more.
    let (bench, result) = bench.frozen_in_network(nr::POLL, &[entry, 1, u64::MAX], |_| {});
    assert_eq!(result, Some(1));
    bench.process.job.asks.made(1);
    assert_eq!(line(&bench, number), "asked 1 made 1\n");
    ask(&bench, number);
    assert_eq!(line(&bench, number), "asked 2 made 1\n");
}
