//! More of what Linux says at the edges, of objects that have no file.

use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

const NONBLOCK: u64 = flags::O_NONBLOCK as u64;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

#[test]
fn nothing_is_written_to_what_takes_nothing() {
    let bench = Bench::new(&[]);
    let timer = bench.call(nr::TIMERFD_CREATE, &[1, NONBLOCK]) as u64;
    let poller = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    for file in [timer, poller] {
        assert_eq!(bench.call(nr::WRITE, &[file, MEMORY, 0]), error(Errno::EINVAL));
        assert_eq!(bench.call(nr::PWRITE64, &[file, MEMORY, 0, 0]), error(Errno::ESPIPE));
    }
}

#[test]
fn what_may_not_be_written_cannot_be_sealed() {
    const ADD_SEALS: u64 = 1033;
    let bench = Bench::new(&[("/work/a", b"x")]);
    let (reads, writes) = (bench.open("/work/a", flags::O_RDONLY) as u64, bench.open("/work/a", flags::O_RDWR) as u64);
    assert_eq!(bench.call(nr::FCNTL, &[reads, ADD_SEALS, 2]), error(Errno::EPERM));
    assert_eq!(bench.call(nr::FCNTL, &[writes, ADD_SEALS, 2]), error(Errno::EINVAL));
}

#[test]
fn one_empty_message_that_is_left_is_not_missed() {
    let bench = Bench::new(&[]);
    for (empty, expected) in [(1, Errno::EPIPE), (2, Errno::ECONNRESET)] {
        assert_eq!(bench.call(nr::SOCKETPAIR, &[1, 5 | NONBLOCK, 0, MEMORY]), 0);
        let ends = bench.get(0, 8);
        let (one, other) = (u64::from(ends[0]), u64::from(ends[4]));
        for _ in 0..empty {
            assert_eq!(bench.call(nr::WRITE, &[one, MEMORY, 0]), 0);
        }
        assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
        assert_eq!(bench.call(nr::SENDTO, &[one, MEMORY, 1, 0x4000, 0, 0]), error(expected));
    }
}
