//! poll(2), select(2) and epoll(7) on what becomes ready by itself or is made so.

use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::syscalls as nr;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};

use crate::abi::io::{EPOLL_EVENT_BYTES, PollEntry, epoll_event, parse_epoll_event};
use crate::errno::Errno;
use crate::executor;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY, READ_ONLY};

pub(super) const IN: u32 = 1;
pub(super) const OUT: u32 = 4;
const ERR: u32 = 8;
const HUP: u32 = 16;
const RDHUP: u32 = 0x2000;
pub(super) const ET: u32 = 1 << 31;
const ONESHOT: u32 = 1 << 30;
const EXCLUSIVE: u32 = 1 << 28;

pub(super) const ADD: u64 = 1;
pub(super) const DEL: u64 = 2;
const MOD: u64 = 3;

pub(super) fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

pub(super) fn pair(bench: &Bench) -> (u64, u64) {
    assert_eq!(bench.call(nr::SOCKETPAIR, &[1, 1 | u64::from(flags::O_NONBLOCK), 0, MEMORY]), 0);
    let bytes = bench.get(0, 8);
    (bytes[0].into(), bytes[4].into())
}

fn pipe(bench: &Bench) -> (u64, u64) {
    assert_eq!(bench.call(nr::PIPE, &[MEMORY]), 0);
    let bytes = bench.get(0, 8);
    (bytes[0].into(), bytes[4].into())
}

pub(super) fn send(bench: &Bench, number: u64, count: usize) {
    let at = bench.put(0x1000, &vec![1; count]);
    assert_eq!(bench.call(nr::WRITE, &[number, at, count as u64]), count as i64);
}

pub(super) fn drain(bench: &Bench, number: u64) -> i64 {
    bench.call(nr::READ, &[number, MEMORY + 0x1000, 0x8000])
}

pub(super) fn poll(bench: &Bench, entries: &[(u64, u32)], timeout_ms: i32) -> (i64, Vec<u32>) {
    for (index, (descriptor, events)) in entries.iter().enumerate() {
        let entry = PollEntry { descriptor: *descriptor as i32, events: *events as u16, happened: 0xffff };
        bench.put(8 * index as u64, entry.record().bytes());
    }
    let timeout = i64::from(timeout_ms).cast_unsigned();
    let ready = bench.call(nr::POLL, &[MEMORY, entries.len() as u64, timeout]);
    let happened = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| PollEntry::parse(bytes).happened.into());
    (ready, bench.get(0, 8 * entries.len()).chunks(8).map(happened).collect())
}

pub(super) fn control(bench: &Bench, epoll: u64, operation: u64, number: u64, events: u32) -> i64 {
    let event = bench.put(0x200, epoll_event(events, number | 1 << 40).bytes());
    bench.call(nr::EPOLL_CTL, &[epoll, operation, number, event])
}

/// What epoll tells without waiting, by descriptor.
pub(super) fn told(bench: &Bench, epoll: u64, limit: usize) -> Vec<(u64, u32)> {
    let count = bench.call(nr::EPOLL_WAIT, &[epoll, MEMORY, limit as u64, 0]);
    assert!((0..=limit as i64).contains(&count), "{count}");
    let event = |bytes: &[u8]| {
        let (events, data) = parse_epoll_event(bytes.first_chunk().expect("a whole event"));
        (data & !(1 << 40), events)
    };
    bench.get(0, count as usize * EPOLL_EVENT_BYTES).chunks(EPOLL_EVENT_BYTES).map(event).collect()
}

#[test]
fn poll_sees_both_ends_change() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench);
    assert_eq!(poll(&bench, &[(reads, IN), (writes, OUT), (writes, IN)], 0), (1, vec![0, OUT, 0]));
    send(&bench, writes, 65_536);
    assert_eq!(poll(&bench, &[(reads, IN), (writes, OUT)], -1), (1, vec![IN, 0]));
    assert_eq!(bench.call(nr::CLOSE, &[writes]), 0);
    assert_eq!(poll(&bench, &[(reads, IN)], 0), (1, vec![IN | HUP]));
    while drain(&bench, reads) > 0 {}
    assert_eq!(poll(&bench, &[(reads, 0)], 0), (1, vec![HUP]));
    let (reads, writes) = pipe(&bench);
    assert_eq!(bench.call(nr::CLOSE, &[reads]), 0);
    assert_eq!(poll(&bench, &[(writes, 0), (writes, OUT)], 0), (2, vec![ERR, OUT | ERR]));
    let (one, other) = pair(&bench);
    assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
    assert_eq!(poll(&bench, &[(one, IN | OUT | RDHUP)], 0), (1, vec![IN | OUT | HUP | RDHUP]));
}

#[test]
fn poll_waits_for_whichever_comes_first() {
    let bench = Bench::new(&[]);
    let ((first, _), (second, writes)) = (pipe(&bench), pipe(&bench));
    let at = bench.put(0x1000, b"x");
    for (index, number) in [first, second].into_iter().enumerate() {
        let entry = PollEntry { descriptor: number as i32, events: IN as u16, happened: 0 };
        bench.put(0x100 + 8 * index as u64, entry.record().bytes());
    }
    let arguments = [MEMORY + 0x100, 2, u64::MAX];
    assert_eq!(bench.drop_call(nr::POLL, &arguments), (nr::POLL.into(), true, 0));
    assert_eq!(bench.call_during(nr::POLL, &arguments, &[(nr::WRITE, &[writes, at, 1], 1)]), 1);
    assert_eq!(bench.get(0x108 + 6, 2), [1, 0]);
    // With a time limit, and standard input that says nothing.
    assert_eq!(drain(&bench, second), 1);
    let input = PollEntry { descriptor: 0, events: IN as u16, happened: 0 };
    bench.put(0x100, input.record().bytes());
    let start_ns = executor::now_ns();
    assert_eq!(bench.call(nr::POLL, &[MEMORY + 0x100, 2, 3000]), 0);
    assert!((3_000_000_000..3_200_000_000).contains(&(executor::now_ns() - start_ns)));
    let arguments = [MEMORY + 0x100, 2, u64::MAX];
    assert_eq!(bench.call_during(nr::POLL, &arguments, &[(nr::WRITE, &[writes, at, 1], 1)]), 1);
    bench.world.lock().input.push_back(b"line".to_vec());
    assert_eq!(poll(&bench, &[(0, IN), (second, IN)], 0), (2, vec![IN, IN]));
}

#[test]
fn input_is_noticed_while_waiting_and_asked_for_again_when_it_was_read() {
    let bench = Bench::new(&[]);
    assert_eq!(poll(&bench, &[(0, IN)], 0), (0, vec![0]));
    bench.world.lock().input.push_back(b"abc".to_vec());
    assert_eq!(poll(&bench, &[(0, IN)], -1), (1, vec![IN]));
    assert_eq!(poll(&bench, &[(0, IN)], 0), (1, vec![IN]));
    assert_eq!(drain(&bench, 0), 3);
    assert_eq!(poll(&bench, &[(0, IN)], 0), (0, vec![0]));
    // It is asked once, however long that takes.
    let asked = bench.world.lock().calls.len();
    assert_eq!(poll(&bench, &[(0, IN)], 60_000), (0, vec![0]));
    let more = bench.world.lock().calls.len() - asked;
    assert!((1..=3).contains(&more), "{more}");
}

#[test]
fn select_waits_too() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench);
    let at = bench.put(0x1000, b"x");
    let set = bench.put(0x100, &(1_u64 << reads).to_le_bytes());
    let arguments = [reads + 1, set, 0, set + 8, 0];
    bench.put(0x108, &[0xff; 8]);
    assert_eq!(bench.call(nr::SELECT, &[64, set, 0, set + 8, 0]), error(Errno::EBADF));
    bench.put(0x108, &(1_u64 << reads).to_le_bytes());
    assert_eq!(bench.drop_call(nr::SELECT, &arguments), (nr::SELECT.into(), true, 0));
    assert_eq!(bench.call_during(nr::SELECT, &arguments, &[(nr::WRITE, &[writes, at, 1], 1)]), 1);
    assert_eq!(bench.get(0x100, 16), [(1_u64 << reads).to_le_bytes(), [0; 8]].concat());
    // The end counts as something to read.
    assert_eq!(bench.call(nr::CLOSE, &[writes]), 0);
    assert_eq!(drain(&bench, reads), 1);
    assert_eq!(bench.call(nr::SELECT, &arguments[..3]), 1);
}

#[test]
fn epoll_tells_levels() {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let (one, other) = pair(&bench);
    assert_eq!(control(&bench, epoll, ADD, one, IN), 0);
    assert_eq!(told(&bench, epoll, 10), []);
    send(&bench, other, 3);
    for _ in 0..3 {
        assert_eq!(told(&bench, epoll, 10), [(one, IN)]);
    }
    assert_eq!(control(&bench, epoll, MOD, one, IN | OUT), 0);
    assert_eq!(told(&bench, epoll, 10), [(one, IN | OUT)]);
    assert_eq!(drain(&bench, one), 3);
    assert_eq!(told(&bench, epoll, 10), [(one, OUT)]);
    assert_eq!(control(&bench, epoll, DEL, one, 0), 0);
    assert_eq!(told(&bench, epoll, 10), []);
    assert_eq!(control(&bench, epoll, ADD, one, 0), 0);
    assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
    assert_eq!(told(&bench, epoll, 10), [(one, HUP)]);
}

#[test]
fn epoll_tells_edges_once_and_again_when_more_comes() {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let (one, other) = pair(&bench);
    send(&bench, other, 1);
    assert_eq!(control(&bench, epoll, ADD, one, IN | ET), 0);
    assert_eq!(told(&bench, epoll, 10), [(one, IN)]);
    assert_eq!(told(&bench, epoll, 10), []);
    send(&bench, other, 1);
    assert_eq!(told(&bench, epoll, 10), [(one, IN)]);
    assert_eq!(drain(&bench, one), 2);
    assert_eq!(told(&bench, epoll, 10), []);
    // Asking anew tells anew.
    send(&bench, other, 1);
    assert_eq!(told(&bench, epoll, 10), [(one, IN)]);
    assert_eq!(control(&bench, epoll, MOD, one, IN | ET), 0);
    assert_eq!(told(&bench, epoll, 10), [(one, IN)]);
}

#[test]
fn epoll_tells_once_what_it_is_to_tell_once() {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE, &[1]) as u64;
    let (one, other) = pair(&bench);
    assert_eq!(control(&bench, epoll, ADD, one, IN | ONESHOT), 0);
    send(&bench, other, 1);
    assert_eq!(told(&bench, epoll, 10), [(one, IN)]);
    send(&bench, other, 1);
    assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
    assert_eq!(told(&bench, epoll, 10), []);
    assert_eq!(control(&bench, epoll, MOD, one, IN | ONESHOT), 0);
    assert_eq!(told(&bench, epoll, 10), [(one, IN | HUP)]);
    assert_eq!(told(&bench, epoll, 10), []);
}

#[test]
fn epoll_goes_round_and_forgets_what_is_closed() {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let pairs: Vec<_> = (0..4).map(|_| pair(&bench)).collect();
    for (one, other) in &pairs {
        assert_eq!(control(&bench, epoll, ADD, *one, IN), 0);
        send(&bench, *other, 1);
    }
    let numbers = |told: Vec<(u64, u32)>| told.into_iter().map(|(number, _)| number).collect::<Vec<_>>();
    assert_eq!(numbers(told(&bench, epoll, 3)), [pairs[0].0, pairs[1].0, pairs[2].0]);
    assert_eq!(numbers(told(&bench, epoll, 3)), [pairs[3].0, pairs[0].0, pairs[1].0]);
    let charged = bench.process.node.quota.taken();
    let copy = bench.call(nr::DUP, &[pairs[0].0]) as u64;
    assert_eq!(bench.call(nr::CLOSE, &[pairs[0].0]), 0);
    assert_eq!(numbers(told(&bench, epoll, 9)).len(), 4);
    assert_eq!(bench.call(nr::CLOSE, &[copy]), 0);
    assert_eq!(numbers(told(&bench, epoll, 9)).len(), 3);
    assert!(bench.process.node.quota.taken() < charged);
    // The number stands for another file now, which is another matter.
    let (again, _) = pair(&bench);
    assert_eq!(again, pairs[0].0);
    assert_eq!(control(&bench, epoll, MOD, again, IN), error(Errno::ENOENT));
    assert_eq!(control(&bench, epoll, ADD, again, IN), 0);
}

#[test]
fn epoll_waits_and_is_polled_itself() {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let (one, other) = pair(&bench);
    let at = bench.put(0x1000, b"x");
    let wait = [epoll, MEMORY, 10, u64::MAX];
    assert_eq!(control(&bench, epoll, ADD, one, IN), 0);
    let start_ns = executor::now_ns();
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[epoll, MEMORY, 10, 1500]), 0);
    assert_eq!((executor::now_ns() - start_ns) / 1_000_000, 1500);
    assert_eq!(bench.drop_call(nr::EPOLL_WAIT, &wait), (nr::EPOLL_WAIT.into(), true, 0));
    assert_eq!(bench.call_during(nr::EPOLL_WAIT, &wait, &[(nr::WRITE, &[other, at, 1], 1)]), 1);
    assert_eq!(poll(&bench, &[(epoll, IN)], -1), (1, vec![IN]));
    assert_eq!(bench.call(nr::EPOLL_PWAIT, &[epoll, MEMORY, 1, 0, 0, 8]), 1);
    assert_eq!(drain(&bench, one), 1);
    assert_eq!(poll(&bench, &[(epoll, IN)], 0), (0, vec![0]));
    let entry = PollEntry { descriptor: epoll as i32, events: IN as u16, happened: 0 };
    let entry = bench.put(0x100, entry.record().bytes());
    assert_eq!(bench.call_during(nr::POLL, &[entry, 1, u64::MAX], &[(nr::WRITE, &[other, at, 1], 1)]), 1);
    // A file that comes while somebody waits.
    assert_eq!(control(&bench, epoll, DEL, one, 0), 0);
    let event = bench.put(0x200, epoll_event(IN, 0).bytes());
    assert_eq!(bench.call_during(nr::EPOLL_WAIT, &wait, &[(nr::EPOLL_CTL, &[epoll, ADD, one, event], 0)]), 1);
}

#[test]
fn epoll_notices_input() {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    assert_eq!(control(&bench, epoll, ADD, 0, IN), 0);
    assert_eq!(control(&bench, epoll, ADD, 1, OUT | ET), 0);
    assert_eq!(told(&bench, epoll, 10), [(1, OUT)]);
    bench.world.lock().input.push_back(b"abc".to_vec());
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[epoll, MEMORY, 10, u64::MAX]), 1);
    assert_eq!(told(&bench, epoll, 10), [(0, IN)]);
    assert_eq!(drain(&bench, 0), 3);
    assert_eq!(told(&bench, epoll, 10), []);
}

#[test]
fn events_that_cannot_be_told_stay() {
    let bench = Bench::new(&[("/a", &[7; 8192])]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let (one, other) = pair(&bench);
    assert_eq!(control(&bench, epoll, ADD, one, IN | ET), 0);
    send(&bench, other, 1);
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[epoll, READ_ONLY, 1, 0]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[epoll, 16, 1, 0]), error(Errno::EFAULT));
    let file = bench.open("/a", flags::O_RDWR) as u64;
    let map = bench.call(nr::MMAP, &[0, 8192, 3, 2, file, 0]) as u64;
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[epoll, map + 4090, 1, 0]), 1);
}

#[test]
fn wrong_arguments_of_epoll_are_refused() {
    let bench = Bench::new(&[("/a", b"x")]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[flags::O_CLOEXEC.into()]) as u64;
    let (one, _) = pair(&bench);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    let other = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let cases = [
        (epoll, ADD, file, IN, Errno::EPERM),
        (epoll, ADD, epoll, IN, Errno::EINVAL),
        (epoll, ADD, other, IN | EXCLUSIVE, Errno::EINVAL),
        (epoll, ADD, 99, IN, Errno::EBADF),
        (99, ADD, one, IN, Errno::EBADF),
        (one, ADD, epoll, IN, Errno::EINVAL),
        (epoll, MOD, one, IN, Errno::ENOENT),
        (epoll, DEL, one, IN, Errno::ENOENT),
        (epoll, 4, one, IN, Errno::EINVAL),
        (epoll, ADD, one, IN | EXCLUSIVE | ONESHOT, Errno::EINVAL),
    ];
    for (epoll, operation, number, events, expected) in cases {
        assert_eq!(control(&bench, epoll, operation, number, events), error(expected), "{operation} {number}");
    }
    assert_eq!(control(&bench, epoll, ADD, one, IN | EXCLUSIVE), 0);
    assert_eq!(control(&bench, epoll, ADD, one, IN), error(Errno::EEXIST));
    assert_eq!(control(&bench, epoll, MOD, one, IN), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::EPOLL_CTL, &[epoll, ADD, one, 8]), error(Errno::EFAULT));
    for (arguments, expected) in [
        ([epoll, MEMORY, 0, 0], Errno::EINVAL),
        ([epoll, MEMORY, u64::MAX, 0], Errno::EINVAL),
        ([one, MEMORY, 1, 0], Errno::EINVAL),
        ([99, MEMORY, 1, 0], Errno::EBADF),
    ] {
        assert_eq!(bench.call(nr::EPOLL_WAIT, &arguments), error(expected));
    }
    assert_eq!(bench.call(nr::EPOLL_CREATE, &[0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::EPOLL_CREATE1, &[1]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::READ, &[epoll, MEMORY, 8]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::WRITE, &[epoll, MEMORY, 8]), error(Errno::EINVAL));
}

/// Does things to pairs of sockets, and compares what epoll and poll say of them.
fn compare(steps: Vec<(u8, usize, bool)>) {
    let bench = Bench::new(&[]);
    let epoll = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let mut pairs: Vec<_> = (0..4).map(|_| pair(&bench)).collect();
    let mut watched = [0_u32; 4];
    for (step, index, flag) in steps {
        let (one, other) = pairs[index];
        let events = if flag { IN } else { IN | OUT | RDHUP };
        match step {
            0 if watched[index] == 0 => {
                assert_eq!(control(&bench, epoll, ADD, one, events), 0);
                watched[index] = events;
            }
            1 if watched[index] != 0 => {
                assert_eq!(control(&bench, epoll, MOD, one, events), 0);
                watched[index] = events;
            }
            2 if watched[index] != 0 => {
                assert_eq!(control(&bench, epoll, DEL, one, 0), 0);
                watched[index] = 0;
            }
            3 => send(&bench, other, 1),
            4 => drop(drain(&bench, one)),
            5 => {
                for number in [one, other] {
                    assert_eq!(bench.call(nr::CLOSE, &[number]), 0);
                }
                pairs[index] = pair(&bench);
                watched[index] = 0;
            }
            _ => {}
        }
        let mut by_epoll = told(&bench, epoll, 10);
        by_epoll.sort_unstable();
        let asked: Vec<_> = (0..4).map(|index| (pairs[index].0, watched[index])).collect();
        let mut by_poll: Vec<_> = asked.iter().filter(|(_, events)| *events != 0).copied().collect();
        let (_, happened) = poll(&bench, &by_poll, 0);
        by_poll.iter_mut().zip(happened).for_each(|(entry, happened)| entry.1 = happened);
        by_poll.retain(|(_, happened)| *happened != 0);
        by_poll.sort_unstable();
        assert_eq!(by_epoll, by_poll);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What level-triggered epoll tells is what poll tells, whatever happened before.
    #[test]
    fn epoll_and_poll_agree(steps in proptest::collection::vec((0_u8..6, 0_usize..4, any::<bool>()), 1..60)) {
        // A thread is a core of its own: what a case leaves there ends with it.
        prop_assert!(std::thread::spawn(move || compare(steps)).join().is_ok());
    }
}
