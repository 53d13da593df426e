//! Pipes, pairs and counters, as programs use them.

use alloc::vec;
use alloc::vec::Vec;

use coppice_hal::heap::block_bytes;
use coppice_protocol::control::Exit;
use coppice_protocol::syscalls as nr;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_oneof, proptest};

use crate::abi::signal::SignalAction;
use crate::errno::Errno;
use crate::files::OPEN_FILE_BYTES;
use crate::files::cache::{KNOWN_FILE_BYTES, WRITER_BYTES};
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES, READ_ONLY, pattern};

const NONBLOCK: u64 = flags::O_NONBLOCK as u64;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

/// The two descriptors that a call left at the start of the memory.
fn two(bench: &Bench) -> (u64, u64) {
    let bytes = bench.get(0, 8);
    let number = |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
    (number(0), number(4))
}

fn pipe(bench: &Bench, how: u64) -> (u64, u64) {
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, how]), 0);
    two(bench)
}

fn pair(bench: &Bench, kind: u64) -> (u64, u64) {
    assert_eq!(bench.call(nr::SOCKETPAIR, &[1, kind, 0, MEMORY]), 0);
    two(bench)
}

fn write(bench: &Bench, number: u64, bytes: &[u8]) -> i64 {
    let at = bench.put(0x1000, bytes);
    bench.call(nr::WRITE, &[number, at, bytes.len() as u64])
}

fn read(bench: &Bench, number: u64, length: usize) -> Result<Vec<u8>, i64> {
    let count = bench.call(nr::READ, &[number, MEMORY + 0x10_0000, length as u64]);
    if count < 0 { Err(count) } else { Ok(bench.get(0x10_0000, count as usize)) }
}

fn ignore_broken_pipes(bench: &Bench) {
    let ignore = SignalAction { handler: 1, ..SignalAction::default() };
    let action = bench.put(0x3000, ignore.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[13, action, 0, 8]), 0);
}

#[test]
fn a_pipe_carries_bytes_and_its_end() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::PIPE, &[MEMORY]), 0);
    let (reads, writes) = two(&bench);
    assert_eq!((reads, writes), (3, 4));
    assert_eq!(write(&bench, writes, b"hello"), 5);
    let number = bench.put(0x500, &[0; 4]);
    assert_eq!(bench.call(nr::IOCTL, &[reads, 0x541b, number]), 0);
    assert_eq!(bench.get(0x500, 4), 5_u32.to_le_bytes());
    assert_eq!(read(&bench, reads, 3).as_deref(), Ok(&b"hel"[..]));
    let copy = bench.call(nr::DUP, &[writes]) as u64;
    assert_eq!(bench.call(nr::CLOSE, &[writes]), 0);
    assert_eq!(write(&bench, copy, b"!"), 1);
    assert_eq!(bench.call(nr::CLOSE, &[copy]), 0);
    assert_eq!(read(&bench, reads, 9).as_deref(), Ok(&b"lo!"[..]));
    assert_eq!(read(&bench, reads, 9).as_deref(), Ok(&b""[..]));
}

#[test]
fn each_end_of_a_pipe_does_one_thing() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, 0);
    assert_eq!(write(&bench, reads, b"x"), error(Errno::EBADF));
    assert_eq!(read(&bench, writes, 1), Err(error(Errno::EBADF)));
    assert_eq!(bench.call(nr::PREAD64, &[reads, MEMORY, 1, 0]), error(Errno::ESPIPE));
    assert_eq!(bench.call(nr::LSEEK, &[reads, 0, 0]), error(Errno::ESPIPE));
    assert_eq!(bench.call(nr::FTRUNCATE, &[writes, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::FSYNC, &[writes]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::FCNTL, &[reads, 3]), 0);
    assert_eq!(bench.call(nr::FCNTL, &[writes, 3]), 1);
    assert_eq!(bench.call(nr::FCNTL, &[writes, 1032]), 65_536);
    assert_eq!(bench.call(nr::MMAP, &[0, 4096, 1, 1, reads, 0]), error(Errno::ENODEV));
    assert_eq!(bench.call(nr::FSTAT, &[reads, MEMORY]), 0);
    assert_eq!(bench.get(24, 4), 0o010_600_u32.to_le_bytes());
    assert_eq!(bench.call(nr::FSTATFS, &[reads, MEMORY]), 0);
}

#[test]
fn what_does_not_wait_says_so() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, NONBLOCK);
    assert_eq!(bench.call(nr::FCNTL, &[reads, 3]) as u64, NONBLOCK);
    assert_eq!(read(&bench, reads, 1), Err(error(Errno::EAGAIN)));
    assert_eq!(write(&bench, writes, &vec![1; 100_000]), 65_536);
    assert_eq!(write(&bench, writes, b"x"), error(Errno::EAGAIN));
    // One end by fcntl, the other by ioctl.
    let (reads, writes) = pipe(&bench, 0);
    assert_eq!(bench.call(nr::FCNTL, &[reads, 4, NONBLOCK]), 0);
    assert_eq!(read(&bench, reads, 1), Err(error(Errno::EAGAIN)));
    let on = bench.put(0, &1_u32.to_le_bytes());
    assert_eq!(bench.call(nr::IOCTL, &[writes, 0x5421, on]), 0);
    assert_eq!(write(&bench, writes, &vec![1; 100_000]), 65_536);
}

#[test]
fn readers_and_writers_wait_for_each_other() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, 0);
    let at = bench.put(0x1000, b"late");
    let got = bench.call_during(nr::READ, &[reads, MEMORY + 0x2000, 10], &[(nr::WRITE, &[writes, at, 4], 4)]);
    assert_eq!((got, bench.get(0x2000, 4)), (4, b"late".to_vec()));
    let bytes = pattern(100_000);
    let at = bench.put(0x1000, &bytes);
    let into = MEMORY + 0x10_0000;
    let meanwhile: [(u32, &[u64], i64); 2] =
        [(nr::READ, &[reads, into, 50_000], 50_000), (nr::READ, &[reads, into + 50_000, 50_000], 50_000)];
    assert_eq!(bench.call_during(nr::WRITE, &[writes, at, 100_000], &meanwhile[..1]), 100_000);
    let [_, (_, arguments, expected)] = meanwhile;
    assert_eq!(bench.call(nr::READ, arguments), expected);
    assert!(bench.get(0x10_0000, 100_000) == bytes);
}

#[test]
fn closing_ends_the_others_wait() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, 0);
    assert_eq!(bench.call_during(nr::READ, &[reads, MEMORY, 1], &[(nr::CLOSE, &[writes], 0)]), 0);
    let (reads, writes) = pipe(&bench, 0);
    ignore_broken_pipes(&bench);
    let at = bench.put(0x1000, &pattern(70_000));
    // What was written before counts.
    let written = bench.call_during(nr::WRITE, &[writes, at, 70_000], &[(nr::CLOSE, &[reads], 0)]);
    assert_eq!(written, 65_536);
    assert_eq!(write(&bench, writes, b"x"), error(Errno::EPIPE));
}

#[test]
fn nobody_reading_means_sigpipe() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, 0);
    assert_eq!(bench.call(nr::CLOSE, &[reads]), 0);
    let at = bench.put(0x1000, b"x");
    let end = bench.try_call(nr::WRITE, &[writes, at, 1]).expect_err("SIGPIPE ends it");
    assert_eq!(end.exit, Exit::Signal(13));
    ignore_broken_pipes(&bench);
    assert_eq!(write(&bench, writes, b"x"), error(Errno::EPIPE));
}

#[test]
fn a_dropped_read_leaves_the_bytes_and_a_dropped_write_says_how_far_it_was() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, 0);
    let arguments = [reads, MEMORY + 0x2000, 5];
    assert_eq!(bench.drop_call(nr::READ, &arguments), (nr::READ.into(), true, 0));
    assert_eq!(write(&bench, writes, b"hello"), 5);
    assert_eq!(bench.call(nr::READ, &arguments), 5);
    let bytes = pattern(70_000);
    let at = bench.put(0x1000, &bytes);
    assert_eq!(bench.drop_call(nr::WRITE, &[writes, at, 70_000]), (nr::WRITE.into(), true, 65_536));
    let rest = read(&bench, reads, 100_000).expect("what was written");
    assert!(rest == bytes[..65_536]);
}

/// Maps the file `/a` right behind the memory, so that only what lies before is there.
fn map_at_edge(bench: &Bench) {
    const FIXED: u64 = 0x10;
    let file = bench.open("/a", flags::O_RDWR) as u64;
    let edge = MEMORY + MEMORY_BYTES;
    assert_eq!(bench.call(nr::MMAP, &[edge, 8192, 3, 2 | FIXED, file, 0]) as u64, edge);
}

#[test]
fn bytes_that_cannot_be_given_stay() {
    let bench = Bench::new(&[("/a", &[7; 8192])]);
    let (reads, writes) = pipe(&bench, NONBLOCK);
    assert_eq!(write(&bench, writes, b"hello"), 5);
    assert_eq!(bench.call(nr::READ, &[reads, READ_ONLY, 5]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::READ, &[reads, 8, 5]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::WRITE, &[writes, 8, 5]), error(Errno::EFAULT));
    // The end of the writable memory: as many as go there.
    let edge = MEMORY + MEMORY_BYTES;
    assert_eq!(bench.call(nr::READ, &[reads, edge - 2, 5]), 2);
    // Memory that must be fetched first.
    map_at_edge(&bench);
    assert_eq!(bench.call(nr::READ, &[reads, edge - 1, 5]), 1);
    assert_eq!(bench.call(nr::READ, &[reads, edge, 5]), 2);
    assert_eq!(bench.call(nr::WRITE, &[1, edge - 1, 4]), 4);
    assert_eq!(bench.world.lock().output, b"llo\x07");
    assert_eq!(read(&bench, reads, 5), Err(error(Errno::EAGAIN)));
}

#[test]
fn several_ranges_are_one_write_and_one_read() {
    let bench = Bench::new(&[]);
    let (reads, writes) = pipe(&bench, 0);
    bench.put(0x1000, b"abcdefgh");
    let range = |address: u64, length: u64| [address.to_le_bytes(), length.to_le_bytes()].concat();
    let two = bench.put(0, &[range(MEMORY + 0x1000, 2), range(MEMORY + 0x1005, 3)].concat());
    assert_eq!(bench.call(nr::WRITEV, &[writes, two, 2]), 5);
    let two = bench.put(0, &[range(MEMORY + 0x2000, 1), range(0, 0), range(MEMORY + 0x2010, 9)].concat());
    assert_eq!(bench.call(nr::READV, &[reads, two, 3]), 5);
    assert_eq!((bench.get(0x2000, 2), bench.get(0x2010, 5)), (b"a\0".to_vec(), b"bfgh\0".to_vec()));
}

#[test]
fn files_can_be_sent_into_a_pipe() {
    let content = pattern(150_000);
    let bench = Bench::new(&[("/a", &content)]);
    let (reads, writes) = pipe(&bench, NONBLOCK);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::SENDFILE, &[writes, file, 0, 200_000]), 65_536);
    assert!(read(&bench, reads, 70_000).is_ok_and(|bytes| bytes == content[..65_536]));
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 65_536);
    assert_eq!(bench.call(nr::SENDFILE, &[file, reads, 0, 10]), error(Errno::EBADF));
}

#[test]
fn a_pair_talks_both_ways() {
    let bench = Bench::new(&[]);
    let (one, other) = pair(&bench, 1);
    assert_eq!(write(&bench, one, b"ping"), 4);
    assert_eq!(read(&bench, other, 9).as_deref(), Ok(&b"ping"[..]));
    assert_eq!(write(&bench, other, b"pong"), 4);
    assert_eq!(read(&bench, one, 9).as_deref(), Ok(&b"pong"[..]));
    assert_eq!(bench.call(nr::FSTAT, &[one, MEMORY]), 0);
    assert_eq!(bench.get(24, 4), 0o140_777_u32.to_le_bytes());
    assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
    assert_eq!(read(&bench, one, 9).as_deref(), Ok(&b""[..]));
}

#[test]
fn messages_are_read_one_by_one() {
    let bench = Bench::new(&[("/a", &[7; 8192])]);
    for kind in [2, 5] {
        let (one, other) = pair(&bench, kind | NONBLOCK);
        assert_eq!(write(&bench, one, b"first"), 5);
        assert_eq!(write(&bench, one, b"second"), 6);
        assert_eq!(write(&bench, one, &vec![0; 300_000]), error(Errno::EMSGSIZE));
        assert_eq!(bench.call(nr::READ, &[other, READ_ONLY, 9]), error(Errno::EFAULT));
        // Half of the buffer must be fetched first; the message is not torn.
        map_at_edge(&bench);
        let edge = MEMORY + MEMORY_BYTES;
        assert_eq!(bench.call(nr::READ, &[other, edge - 2, 4]), 4);
        assert_eq!(bench.call(nr::WRITE, &[1, edge - 2, 4]), 4);
        assert_eq!(read(&bench, other, 9).as_deref(), Ok(&b"second"[..]));
        assert_eq!(read(&bench, other, 9), Err(error(Errno::EAGAIN)));
    }
    assert_eq!(bench.world.lock().output, b"firsfirs");
}

#[test]
fn only_pairs_there_are_can_be_made() {
    let bench = Bench::new(&[]);
    for (family, kind, protocol, expected) in [
        (1, 4, 0, Errno::ESOCKTNOSUPPORT),
        (1, 1, 7, Errno::EPROTONOSUPPORT),
        (1, 1 | 0x10, 0, Errno::EINVAL),
        (2, 1, 0, Errno::EOPNOTSUPP),
        (10, 1, 0, Errno::EAFNOSUPPORT),
        (16, 2, 0, Errno::EAFNOSUPPORT),
    ] {
        assert_eq!(bench.call(nr::SOCKETPAIR, &[family, kind, protocol, MEMORY]), error(expected), "{family} {kind}");
    }
}

#[test]
fn numbers_that_cannot_be_written_are_not_taken() {
    let bench = Bench::new(&[]);
    let before = bench.process.node.quota.taken();
    assert_eq!(bench.call(nr::PIPE2, &[READ_ONLY, 0]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::SOCKETPAIR, &[1, 1, 0, 1]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0o200]), error(Errno::EINVAL));
    assert_eq!(bench.process.node.quota.taken(), before);
    assert_eq!(pipe(&bench, flags::O_CLOEXEC.into()), (3, 4));
    assert_eq!(bench.call(nr::FCNTL, &[3, 1]), 1);
}

#[test]
fn the_last_descriptor_is_not_half_a_pipe() {
    let bench = Bench::new(&[]);
    for _ in 3..1023 {
        assert!(bench.call(nr::DUP, &[0]) > 0);
    }
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0]), error(Errno::EMFILE));
    assert_eq!(bench.call(nr::EVENTFD2, &[0, 0]), 1023);
    assert_eq!(bench.call(nr::EVENTFD2, &[0, 0]), error(Errno::EMFILE));
    assert_eq!(bench.call(nr::EPOLL_CREATE1, &[0]), error(Errno::EMFILE));
}

#[test]
fn memory_for_objects_is_limited_and_comes_back() {
    let bench = Bench::new(&[]);
    let some = bench.process.node.quota.charge(64 * 1024).expect("memory");
    let mut rest = bench.process.node.quota.charge(0).expect("nothing");
    while rest.grow(64 * 1024).is_ok() {}
    drop(some);
    let made = (0..500).take_while(|_| bench.call(nr::PIPE2, &[MEMORY, 0]) == 0).count();
    assert!((1..20).contains(&made), "{made}");
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0]), error(Errno::ENOMEM));
    let before = bench.process.node.quota.taken();
    assert_eq!(bench.call(nr::CLOSE_RANGE, &[3, 1000, 0]), 0);
    assert!(bench.process.node.quota.taken() < before);
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, 0]), 0);
}

#[test]
fn open_files_take_memory_too() {
    let bench = Bench::new(&[("/work/a", b"abc")]);
    let quota = &bench.process.node.quota;
    // Of a file at the I/O node, its path is kept, too, what is known of it, and who writes it.
    let shipped = block_bytes(7) + KNOWN_FILE_BYTES + WRITER_BYTES;
    for (path, path_bytes) in [(bench.text(0, "/work/a"), shipped), (bench.text(100, "/dev/null"), 0)] {
        let before = quota.taken();
        assert_eq!(bench.call(nr::OPEN, &[path, 0, 0]), 3);
        assert_eq!(quota.taken(), before + OPEN_FILE_BYTES + path_bytes);
        // A second descriptor is the same open file.
        assert_eq!(bench.call(nr::DUP, &[3]), 4);
        assert_eq!(bench.call(nr::CLOSE, &[3]), 0);
        assert_eq!(quota.taken(), before + OPEN_FILE_BYTES + path_bytes);
        assert_eq!(bench.call(nr::CLOSE, &[4]), 0);
        assert_eq!(quota.taken(), before);
        let mut all = quota.charge(0).expect("nothing");
        while all.grow(OPEN_FILE_BYTES).is_ok() {}
        assert_eq!(bench.call(nr::OPEN, &[path, 0, 0]), error(Errno::ENOMEM));
    }
}

#[test]
fn counters_count() {
    let bench = Bench::new(&[]);
    let event = bench.call(nr::EVENTFD2, &[3, NONBLOCK]) as u64;
    assert_eq!(write(&bench, event, &4_u64.to_le_bytes()), 8);
    assert_eq!(write(&bench, event, &[1; 100]), 8);
    assert_eq!(write(&bench, event, &[1; 7]), error(Errno::EINVAL));
    assert_eq!(write(&bench, event, &[0xff; 8]), error(Errno::EINVAL));
    let sum = 7 + u64::from_le_bytes([1; 8]);
    assert_eq!(read(&bench, event, 8), Ok(sum.to_le_bytes().to_vec()));
    assert_eq!(read(&bench, event, 8), Err(error(Errno::EAGAIN)));
    assert_eq!(read(&bench, event, 7), Err(error(Errno::EINVAL)));
    assert_eq!(bench.call(nr::EVENTFD2, &[3, 2]), error(Errno::EINVAL));
    let event = bench.call(nr::EVENTFD, &[0]) as u64;
    let one = bench.put(0x1000, &1_u64.to_le_bytes());
    assert_eq!(bench.call_during(nr::READ, &[event, MEMORY, 8], &[(nr::WRITE, &[event, one, 8], 8)]), 8);
    assert_eq!(bench.get(0, 8), 1_u64.to_le_bytes());
}

/// Writes and reads; what came out and what went in.
fn run(kind: u64, steps: Vec<(bool, usize)>) -> (Vec<u8>, Vec<u8>) {
    let bench = Bench::new(&[]);
    let (reads, writes) = match kind {
        0 => pipe(&bench, NONBLOCK),
        kind => pair(&bench, [1, 2, 5][kind as usize - 1] | NONBLOCK),
    };
    let keeps_apart = kind >= 2;
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (writing, length) in steps {
        if writing {
            let bytes = pattern(length);
            match write(&bench, writes, &bytes) {
                count @ 0.. => sent.extend_from_slice(&bytes[..count as usize]),
                errno => assert_eq!(errno, error(Errno::EAGAIN)),
            }
        } else if let Ok(bytes) = read(&bench, reads, if keeps_apart { 100_000 } else { length }) {
            received.extend_from_slice(&bytes);
        }
    }
    (received, sent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn streams_keep_their_bytes_whatever_is_asked(
        kind in 0_u64..4,
        steps in proptest::collection::vec((any::<bool>(), prop_oneof![0_usize..300, 0_usize..90_000]), 1..20),
    ) {
        // A thread is a core of its own: what a case leaves there ends with it.
        let (received, sent) = std::thread::spawn(move || run(kind, steps)).join().expect("no panic");
        prop_assert!(sent.starts_with(&received));
    }
}
