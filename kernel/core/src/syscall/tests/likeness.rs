//! What Linux says at the edges: limits that are run into, locks of the wrong mode, files that change while they are
//! mapped, peers that are gone.

use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};
use crate::syscall::abi::signal::SignalAction;

const NONBLOCK: u64 = flags::O_NONBLOCK as u64;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

/// prlimit64(2) of the own process.
fn limit(bench: &Bench, resource: u64, soft: u64, hard: u64) -> i64 {
    let new = bench.put(0x2000, &[soft.to_le_bytes(), hard.to_le_bytes()].concat());
    bench.call(nr::PRLIMIT64, &[0, resource, new, 0])
}

fn ignore(bench: &Bench, signal: u64) {
    let ignore = SignalAction { handler: 1, ..SignalAction::default() };
    let action = bench.put(0x3000, ignore.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[signal, action, 0, 8]), 0);
}

fn write(bench: &Bench, number: u64, bytes: &[u8]) -> i64 {
    let at = bench.put(0x1000, bytes);
    bench.call(nr::WRITE, &[number, at, bytes.len() as u64])
}

fn pair(bench: &Bench, kind: u64) -> (u64, u64) {
    assert_eq!(bench.call(nr::SOCKETPAIR, &[1, kind | NONBLOCK, 0, MEMORY]), 0);
    let bytes = bench.get(0, 8);
    (u64::from(bytes[0]), u64::from(bytes[4]))
}

#[test]
fn what_a_program_maps_shows_what_it_writes() {
    let bench = Bench::new(&[("/a", &[7; 9000])]);
    let file = bench.open("/a", flags::O_RDWR) as u64;
    let shared = bench.call(nr::MMAP, &[0, 12288, 1, 1, file, 0]) as u64;
    let private = bench.call(nr::MMAP, &[0, 12288, 3, 2, file, 0]) as u64;
    let shows = |address: u64, expected: &[u8]| {
        bench.world.lock().output.clear();
        assert_eq!(bench.call(nr::WRITE, &[1, address, expected.len() as u64]), expected.len() as i64);
        assert_eq!(bench.world.lock().output, expected);
    };
    shows(shared + 100, &[7; 4]);
    shows(private + 100, &[7; 4]);
    // The program's own page stays its own.
    let own = bench.put(0x1000, b"mine");
    assert_eq!(bench.call(nr::PREAD64, &[file, private + 4096, 4, 0]), 4);
    assert_eq!(bench.call(nr::PWRITE64, &[file, own, 4, 100]), 4);
    assert_eq!(bench.call(nr::PWRITE64, &[file, own, 4, 4096]), 4);
    shows(shared + 100, b"mine");
    shows(private + 100, b"mine");
    shows(shared + 4096, b"mine");
    shows(private + 4096, &[7; 4]);
    // What is no longer in the file is nowhere.
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, 4096]), 0);
    for mapping in [shared, private] {
        shows(mapping + 100, b"mine");
        assert_eq!(bench.call(nr::WRITE, &[1, mapping + 4096, 4]), error(Errno::EFAULT));
    }
}

#[test]
fn files_grow_no_longer_than_their_limit() {
    const FSIZE: u64 = 1;
    const XFSZ: u64 = 25;
    let bench = Bench::new(&[("/a", b"")]);
    ignore(&bench, XFSZ);
    let file = bench.open("/a", flags::O_RDWR) as u64;
    assert_eq!(limit(&bench, FSIZE, 6, 10), 0);
    assert_eq!(write(&bench, file, b"01234567"), 6);
    assert_eq!(write(&bench, file, b"8"), error(Errno::EFBIG));
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, 7]), error(Errno::EFBIG));
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, 3]), 0);
    assert_eq!(limit(&bench, FSIZE, 11, 11), error(Errno::EPERM));
    assert_eq!(limit(&bench, FSIZE, 8, 5), error(Errno::EINVAL));
    assert_eq!(limit(&bench, FSIZE, 10, 10), 0);
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, 10]), 0);
    assert_eq!(bench.file("/a").len(), 10);
}

#[test]
fn too_long_a_file_is_a_signal() {
    let bench = Bench::new(&[("/a", b"")]);
    let file = bench.open("/a", flags::O_RDWR) as u64;
    assert_eq!(limit(&bench, 1, 0, 0), 0);
    let at = bench.put(0x1000, b"x");
    let end = bench.try_call(nr::WRITE, &[file, at, 1]).expect_err("SIGXFSZ");
    assert_eq!(end.exit, coppice_protocol::control::Exit::Signal(25));
}

#[test]
fn descriptors_end_at_their_limit() {
    const NOFILE: u64 = 7;
    let bench = Bench::new(&[]);
    assert_eq!(limit(&bench, NOFILE, 5, 8), 0);
    assert_eq!(bench.call(nr::DUP2, &[0, 5]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::FCNTL, &[0, 0, 5]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::POLL, &[MEMORY, 6, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::POLL, &[MEMORY, 5, 0]), 0);
    assert_eq!(bench.call(nr::DUP, &[0]), 3);
    assert_eq!(bench.call(nr::DUP, &[0]), 4);
    assert_eq!(bench.call(nr::DUP, &[0]), error(Errno::EMFILE));
    assert_eq!(limit(&bench, NOFILE, 9, 9), error(Errno::EPERM));
    assert_eq!(limit(&bench, NOFILE, 8, 8), 0);
    assert_eq!(bench.call(nr::DUP2, &[0, 7]), 7);
}

#[test]
fn memory_ends_at_its_limit() {
    const DATA: u64 = 2;
    const AS: u64 = 9;
    let map = |bench: &Bench, pages: u64, protection: u64| {
        bench.call(nr::MMAP, &[0, pages * 4096, protection, 0x22, u64::MAX, 0])
    };
    let bench = Bench::new(&[]);
    let all = 64 * 1024 * 1024;
    assert_eq!(limit(&bench, AS, all, all), 0);
    assert_eq!(map(&bench, all / 4096, 1), error(Errno::ENOMEM));
    assert!(map(&bench, 1, 1) > 0);
    let bench = Bench::new(&[]);
    assert_eq!(limit(&bench, DATA, 0, all), 0);
    assert_eq!(map(&bench, 1, 3), error(Errno::ENOMEM));
    let readable = map(&bench, 1, 1);
    assert!(readable > 0);
    assert_eq!(bench.call(nr::MPROTECT, &[readable as u64, 4096, 3]), error(Errno::ENOMEM));
}

#[test]
fn locks_need_a_descriptor_of_their_mode() {
    let bench = Bench::new(&[("/a", b"0123456789")]);
    let lock = |file: u64, command: u64, kind: u16, whence: u16, start: i64, length: i64, pid: u32| {
        let (kind, whence) = (kind.to_le_bytes(), whence.to_le_bytes());
        let (start, length) = (start.to_le_bytes(), length.to_le_bytes());
        let bytes = [&kind[..], &whence, &[0; 4], &start, &length, &pid.to_le_bytes(), &[0; 4]].concat();
        bench.call(nr::FCNTL, &[file, command, bench.put(0x1000, &bytes)])
    };
    let (reads, writes) = (bench.open("/a", flags::O_RDONLY) as u64, bench.open("/a", flags::O_WRONLY) as u64);
    assert_eq!(lock(reads, 6, 1, 0, 0, 0, 0), error(Errno::EBADF));
    assert_eq!(lock(writes, 6, 0, 0, 0, 0, 0), error(Errno::EBADF));
    assert_eq!((lock(reads, 6, 0, 0, 0, 0, 0), lock(writes, 6, 1, 0, 0, 0, 0)), (0, 0));
    assert_eq!((lock(reads, 5, 1, 0, 0, 0, 0), lock(reads, 5, 2, 0, 0, 0, 0)), (0, error(Errno::EINVAL)));
    assert_eq!((lock(reads, 6, 2, 2, -10, 0, 0), lock(reads, 6, 2, 2, -11, 0, 0)), (0, error(Errno::EINVAL)));
    assert_eq!(lock(reads, 6, 2, 0, 0, -1, 0), error(Errno::EINVAL));
    assert_eq!(lock(reads, 6, 2, 0, i64::MAX, 2, 0), error(Errno::EOVERFLOW));
    assert_eq!(lock(reads, 37, 2, 0, 0, 0, 1), error(Errno::EINVAL));
}

#[test]
fn a_peer_that_left_something_unread_resets() {
    let bench = Bench::new(&[]);
    ignore(&bench, 13);
    for kind in [1, 5] {
        let (one, other) = pair(&bench, kind);
        assert_eq!(write(&bench, one, b"never read"), 10);
        assert_eq!(write(&bench, other, b"last"), 4);
        assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
        assert_eq!(bench.call(nr::READ, &[one, MEMORY, 100]), 4);
        assert_eq!(bench.call(nr::READ, &[one, MEMORY, 100]), error(Errno::ECONNRESET));
        assert_eq!(bench.call(nr::READ, &[one, MEMORY, 100]), 0);
        assert_eq!(write(&bench, one, b"x"), error(Errno::EPIPE));
    }
}

#[test]
fn a_datagram_to_nobody_is_refused() {
    let bench = Bench::new(&[]);
    let (one, other) = pair(&bench, 2);
    assert_eq!(write(&bench, one, b""), 0);
    assert_eq!(bench.call(nr::READ, &[other, MEMORY, 100]), 0);
    assert_eq!(bench.call(nr::READ, &[other, MEMORY, 100]), error(Errno::EAGAIN));
    assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
    assert_eq!(bench.call(nr::READ, &[one, MEMORY, 100]), error(Errno::EAGAIN));
    assert_eq!(write(&bench, one, b"x"), error(Errno::ECONNREFUSED));
    assert_eq!(write(&bench, one, b"x"), error(Errno::ENOTCONN));
}

#[test]
fn pipes_are_as_large_as_they_are_told_to_be() {
    const SET: u64 = 1031;
    const GET: u64 = 1032;
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, NONBLOCK]), 0);
    let set = |bytes: u64| bench.call(nr::FCNTL, &[4, SET, bytes]);
    assert_eq!(bench.call(nr::FCNTL, &[3, GET, 0]), 65536);
    assert_eq!((set(5000), bench.call(nr::FCNTL, &[3, GET, 0])), (8192, 8192));
    assert_eq!(bench.call(nr::WRITE, &[4, MEMORY, 20_000]), 8192);
    assert_eq!((set(1), set(1 << 20)), (error(Errno::EBUSY), 1 << 20));
    assert_eq!((set((1 << 20) + 1), set(u64::from(u32::MAX))), (error(Errno::EPERM), error(Errno::EINVAL)));
    assert_eq!(bench.call(nr::WRITE, &[4, MEMORY, 100_000]), 100_000);
}

#[test]
fn a_path_may_have_as_many_bytes_as_on_linux() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let path = |length: usize| alloc::format!(".{}a", "/".repeat(length - 2));
    assert!(bench.open(&path(4095), flags::O_RDONLY) >= 0);
    assert_eq!(bench.open(&path(4096), flags::O_RDONLY), error(Errno::ENAMETOOLONG));
}
