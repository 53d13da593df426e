//! What Linux says at the edges: limits that are run into, locks of the wrong mode, files that change while they are
//! mapped, peers that are gone.

use coppice_protocol::syscalls as nr;

use crate::abi::signal::SignalAction;
use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

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
    let left_unread = |kind| {
        let (one, other) = pair(&bench, kind);
        assert_eq!(write(&bench, one, b"never read"), 10);
        assert_eq!(write(&bench, other, b"last"), 4);
        assert_eq!(bench.call(nr::CLOSE, &[other]), 0);
        one
    };
    let read = |one| bench.call(nr::READ, &[one, MEMORY, 100]);
    let reset = error(Errno::ECONNRESET);
    // Bytes come before the error, messages behind it.
    let one = left_unread(1);
    assert_eq!((read(one), read(one), read(one)), (4, reset, 0));
    assert_eq!(write(&bench, one, b"x"), error(Errno::EPIPE));
    let one = left_unread(5);
    assert_eq!((read(one), read(one), read(one)), (reset, 4, 0));
    assert_eq!(write(&bench, one, b"x"), error(Errno::EPIPE));
    let one = left_unread(5);
    assert_eq!((write(&bench, one, b""), write(&bench, one, b"")), (reset, error(Errno::EPIPE)));
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
    assert_eq!(bench.call(nr::WRITE, &[one, 8, 300]), error(Errno::EFAULT), "it is read before it is sent");
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
    assert!(bench.open(path(4095), flags::O_RDONLY) >= 0);
    assert_eq!(bench.open(path(4096), flags::O_RDONLY), error(Errno::ENAMETOOLONG));
}

#[test]
fn what_is_wrong_first_is_told() {
    let bench = Bench::new(&[("/work/a", b"0123456789"), ("/work/d/a", b"")]);
    let call = |number, arguments: &[u64]| bench.call(number, arguments);
    let invalid = error(Errno::EINVAL);
    // A range that comes round is no range, whatever it is to become; one that ends too high is looked at last.
    assert_eq!(call(nr::MPROTECT, &[MEMORY, u64::MAX, 32]), error(Errno::ENOMEM));
    assert_eq!(call(nr::MPROTECT, &[MEMORY, 1 << 60, 32]), invalid);
    assert_eq!(call(nr::MPROTECT, &[MEMORY, 1 << 60, 1]), error(Errno::ENOMEM));
    assert_eq!(call(nr::MPROTECT, &[MEMORY, 0, 0x300_0000]), invalid);
    // What has no places, before what the parts are and whether it may be read at all.
    assert_eq!(call(nr::PIPE2, &[MEMORY, NONBLOCK]), 0);
    let illegal = error(Errno::ESPIPE);
    assert_eq!(call(nr::PREADV2, &[3, MEMORY, 1025, 8192, u64::MAX, 0]), illegal);
    assert_eq!(call(nr::PREAD64, &[4, MEMORY, 1, 0]), illegal);
    assert_eq!((call(nr::PWRITE64, &[3, MEMORY, 1, 0]), call(nr::PWRITEV, &[3, 8, 1, 0])), (illegal, illegal));
    assert_eq!((call(nr::LSEEK, &[3, 0, 5]), call(nr::LSEEK, &[3, 0, 0])), (invalid, illegal));
    assert_eq!((call(nr::FADVISE64, &[3, 0, 0, 9]), call(nr::EVENTFD2, &[0, 0])), (illegal, 5));
    assert_eq!((call(nr::FADVISE64, &[5, 0, 0, 9]), call(nr::FADVISE64, &[5, 0, 0, 4])), (invalid, 0));
    // Where a transfer ends, before how it is to be made.
    let file = bench.open("/work/a", flags::O_RDWR) as u64;
    let part = [MEMORY.to_le_bytes(), 8_u64.to_le_bytes()].concat();
    let parts = bench.put(0x1000, &part);
    let at = i64::MAX as u64;
    assert_eq!(call(nr::PREADV2, &[file, parts, 1, at, 0, 0x8_0000]), invalid);
    assert_eq!(call(nr::PWRITEV2, &[file, parts, 1, at, 0, 0x8_0000]), invalid);
    assert_eq!(call(nr::PREADV2, &[file, parts, 1, 0, 0, 0x8_0000]), error(Errno::EOPNOTSUPP));
    // A kind of mapping that is none, before what is to be mapped.
    let directory = bench.open("/work/d", flags::O_DIRECTORY) as u64;
    assert_eq!(call(nr::MMAP, &[0, 4096, 1, 4, directory, 0]), invalid);
    assert_eq!(call(nr::MMAP, &[0, 4096, 1, 2, directory, 0]), error(Errno::ENODEV));
    // What an option is, before whether there is a value for it.
    let (one, _) = pair(&bench, 1);
    for option in [3, 4, 38, 39] {
        assert_eq!(call(nr::SETSOCKOPT, &[one, 1, option, MEMORY, 4]), error(Errno::ENOPROTOOPT), "{option}");
    }
}

#[test]
fn the_first_path_is_looked_up_before_the_second_is_wrong() {
    let bench = Bench::new(&[("/work/a", b"x"), ("/work/d/a", b"x")]);
    let at = u64::from((-100_i32).cast_unsigned());
    let long = bench.text(0x4000, alloc::format!(".{}a", "/".repeat(4095)));
    let none = bench.text(0x6000, "");
    let from = |path: &str| bench.text(0x1000, path);
    let link = |path: &str, to| bench.call(nr::LINKAT, &[at, from(path), at, to, 0]);
    assert_eq!((link("missing", long), link("missing", 8)), (error(Errno::ENOENT), error(Errno::ENOENT)));
    assert_eq!((link("a", long), link("a", 8)), (error(Errno::ENAMETOOLONG), error(Errno::EFAULT)));
    let rename = |path: &str, to| bench.call(nr::RENAME, &[from(path), to]);
    assert_eq!((rename("missing/b", long), rename("missing/b/", 8)), (error(Errno::ENOENT), error(Errno::ENOENT)));
    assert_eq!((rename("missing", long), rename("d//b", none)), (error(Errno::ENAMETOOLONG), error(Errno::ENOENT)));
    // No path at all is an empty one for those who ask what a file is, and for nobody else.
    let file = bench.open("/work/a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::NEWFSTATAT, &[file, 0, MEMORY, 0x1000]), 0);
    assert_eq!(bench.call(nr::FACCESSAT2, &[file, 0, 0, 0x1000]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::READLINKAT, &[file, 0, MEMORY, 100]), error(Errno::EFAULT));
    let empty = bench.text(0x6000, "");
    assert_eq!(bench.call(nr::READLINKAT, &[at, empty, MEMORY, 100]), error(Errno::ENOENT));
    assert_eq!(bench.call(nr::FCHOWNAT, &[file, 0, u64::MAX, u64::MAX, 0x1000]), error(Errno::EFAULT));
}

#[test]
fn open_files_keep_the_flags_they_were_opened_with() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let kept = |opened_with: u32| {
        let file = bench.open("/work/a", opened_with) as u64;
        bench.call(nr::FCNTL, &[file, 3, 0]) as u32
    };
    let how = flags::O_RDWR | flags::O_NOFOLLOW | flags::O_SYNC;
    assert_eq!(kept(how | flags::O_CLOEXEC), how | flags::O_LARGEFILE);
    assert_eq!(kept(flags::O_PATH | flags::O_NOFOLLOW), flags::O_PATH | flags::O_NOFOLLOW);
}

#[test]
fn a_range_may_shrink_whatever_lies_behind_its_first_page() {
    let bench = Bench::new(&[]);
    let map = bench.call(nr::MMAP, &[0, 4 * 4096, 3, 0x22, u64::MAX, 0]) as u64;
    assert_eq!(bench.call(nr::MPROTECT, &[map + 4096, 4096, 1]), 0);
    assert_eq!(bench.call(nr::MUNMAP, &[map + 2 * 4096, 4096]), 0);
    assert_eq!(bench.call(nr::MREMAP, &[map, 4 * 4096, 4 * 4096, 0]), map as i64);
    assert_eq!(bench.call(nr::MREMAP, &[map, 4 * 4096, 3 * 4096, 0]), map as i64);
    assert_eq!(bench.call(nr::MREMAP, &[map + 3 * 4096, 4096, 4096, 0]), error(Errno::EFAULT));
}

#[test]
fn counters_say_of_themselves_what_linux_has_them_say() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let counter = bench.call(nr::EVENTFD2, &[1, NONBLOCK]) as u32;
    let ask = |number: u32| {
        let entry = [number.to_le_bytes(), 0x7fff_u32.to_le_bytes()].concat();
        let at = bench.put(0x1000, &entry);
        assert_eq!(bench.call(nr::POLL, &[at, 1, 0]), 1);
        bench.get(0x1006, 1)[0]
    };
    assert_eq!(ask(counter), 0x05);
    // What stands for a place only has nothing to say to poll, and everything to select.
    let place = bench.open("/work/a", flags::O_PATH) as u32;
    assert_eq!(ask(place), 0x20);
    let set = bench.put(0x2000, &(1_u64 << place).to_le_bytes());
    let no_time = bench.put(0x3000, &[0; 16]);
    assert_eq!(bench.call(nr::SELECT, &[64, set, 0, 0, no_time]), 1);
}

#[test]
fn a_pipe_has_what_is_in_it_as_long_as_it_is_there() {
    const FIONREAD: u64 = 0x541b;
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::PIPE2, &[MEMORY, NONBLOCK]), 0);
    assert_eq!(write(&bench, 4, b"unread"), 6);
    assert_eq!(bench.call(nr::CLOSE, &[3]), 0);
    assert_eq!(bench.call(nr::IOCTL, &[4, FIONREAD, MEMORY]), 0);
    assert_eq!(bench.get(0, 4), [6, 0, 0, 0]);
    // An epoll knows no such question, and says so in its way.
    let poller = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    assert_eq!(bench.call(nr::IOCTL, &[poller, FIONREAD, MEMORY]), error(Errno::EINVAL));
}

#[test]
fn a_timer_that_sends_nothing_goes_on_telling_its_time() {
    let bench = Bench::new(&[]);
    let event = bench.put(0x1000, &[&[0; 12][..], &1_u32.to_le_bytes(), &[0; 48]].concat());
    let created = bench.call(nr::TIMER_CREATE, &[1, event, MEMORY + 0x100]);
    assert_eq!(created, 0);
    let id = u64::from(bench.get(0x100, 1)[0]);
    let set = |seconds: u64| {
        let time = bench.put(0x2000, &[[0; 8], [0; 8], seconds.to_le_bytes(), [0; 8]].concat());
        assert_eq!(bench.call(nr::TIMER_SETTIME, &[id, 0, time, MEMORY + 0x3000]), 0);
        u64::from(bench.get(0x3010, 1)[0])
    };
    assert_eq!(set(200), 0);
    assert!((199..=200).contains(&set(0)));
    assert!((199..=200).contains(&set(0)), "switched off, and told all the same");
}

#[test]
fn a_lock_of_an_open_file_needs_a_mode() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let neither = bench.open("/work/a", 3) as u64;
    assert_eq!(bench.call(nr::FLOCK, &[neither, 2 | 4]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::FLOCK, &[neither, 8]), 0);
}

#[test]
fn open_files_lock_each_other_out() {
    const SETLK: u64 = 6;
    const OFD_SETLK: u64 = 37;
    const OFD_SETLKW: u64 = 38;
    let bench = Bench::new(&[("/work/a", b"0123456789")]);
    let file = || bench.open("/work/a", flags::O_RDWR) as u64;
    let (one, other) = (file(), file());
    let busy = error(Errno::EAGAIN);
    let flock = |file, how: u64| bench.call(nr::FLOCK, &[file, how | 4]);
    assert_eq!((flock(one, 1), flock(other, 1), flock(other, 2)), (0, 0, busy));
    assert_eq!(flock(one, 2), 0, "what could not be made exclusive is gone");
    assert_eq!((flock(other, 1), bench.call(nr::CLOSE, &[one]), flock(other, 2)), (busy, 0, 0));
    let one = file();
    let record = |kind: u16, start: i64, length: i64| {
        let (start, length) = (start.to_le_bytes(), length.to_le_bytes());
        bench.put(0x1000, &[&kind.to_le_bytes()[..], &[0; 6], &start, &length, &[0; 8]].concat())
    };
    let set = |file, command, kind, start, length| bench.call(nr::FCNTL, &[file, command, record(kind, start, length)]);
    assert_eq!((set(one, SETLK, 1, 0, 4), set(other, SETLK, 1, 2, 4)), (0, 0), "both are the process's");
    assert_eq!((set(other, OFD_SETLK, 0, 5, 5), set(other, OFD_SETLK, 0, 6, 0)), (busy, 0));
    // Who asks is told what is in the way: of a range up to the end, by nobody in particular.
    assert_eq!(bench.call(nr::FCNTL, &[one, 5, record(1, 0, 0)]), 0);
    assert_eq!(bench.get(0x1000, 28), [&[0; 8][..], &[6], &[0; 15], &[0xff; 4]].concat());
    // A wait that is given up has taken nothing, and one for what is free takes it.
    let waiting = [one, OFD_SETLKW, record(1, 8, 1)];
    assert_eq!(bench.drop_call(nr::FCNTL, &waiting).2, 0);
    assert_eq!((bench.call(nr::CLOSE, &[other]), bench.call(nr::FCNTL, &waiting)), (0, 0));
    let other = file();
    assert_eq!((set(other, SETLK, 1, 8, 1), set(other, SETLK, 1, 0, 8)), (busy, 0));
}

#[test]
fn nothing_to_tell_needs_no_place_to_be_told() {
    let bench = Bench::new(&[]);
    let counter = bench.call(nr::EVENTFD2, &[1, NONBLOCK]) as u64;
    let poller = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let event = bench.put(0x1000, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bench.call(nr::EPOLL_CTL, &[poller, 1, counter, event]), 0);
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[poller, 8, 64, 0]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::READ, &[counter, MEMORY, 8]), 8);
    assert_eq!(bench.call(nr::EPOLL_WAIT, &[poller, 8, 64, 0]), 0);
}

#[test]
fn options_of_a_pair_are_told_again() {
    let bench = Bench::new(&[]);
    let (one, other) = pair(&bench, 1);
    let set = |option, value: u32, length| {
        let at = bench.put(0x1000, &[value.to_le_bytes(), [0; 4]].concat());
        bench.call(nr::SETSOCKOPT, &[one, 1, option, at, length])
    };
    let get = |file, option| {
        let length = bench.put(0x2000, &8_u32.to_le_bytes());
        assert_eq!(bench.call(nr::GETSOCKOPT, &[file, 1, option, MEMORY + 0x3000, length]), 0, "{option}");
        bench.get(0x3000, 1)[0]
    };
    for (option, value) in [(2, 1), (5, 1), (9, 1), (12, 5), (18, 9)] {
        assert_eq!((set(option, value, 4), get(one, option)), (0, value as u8), "{option}");
    }
    assert_eq!((get(other, 2), get(other, 18)), (0, 1), "the other end is asked for itself");
    assert_eq!((set(15, 1, 4), set(15, 0, 4)), (error(Errno::EOPNOTSUPP), 0));
    assert_eq!((set(13, 1, 4), set(13, 1, 8), get(one, 13)), (error(Errno::EINVAL), 0, 1));
    let (datagrams, _) = pair(&bench, 2);
    let listen = |file| bench.call(nr::LISTEN, &[file, 1]);
    assert_eq!((listen(one), listen(datagrams)), (error(Errno::EINVAL), error(Errno::EOPNOTSUPP)));
}

#[test]
fn what_has_no_offset_may_say_so_or_not() {
    let bench = Bench::new(&[("/work/a", b"0123456789")]);
    let call = |number, arguments: &[u64]| bench.call(number, arguments);
    let invalid = error(Errno::EINVAL);
    let counter = call(nr::EVENTFD2, &[1, NONBLOCK]) as u64;
    let timer = call(nr::TIMERFD_CREATE, &[1, NONBLOCK]) as u64;
    assert_eq!((call(nr::LSEEK, &[counter, 100, 0]), call(nr::LSEEK, &[timer, 100, 2])), (0, 0));
    // What they give has its length, unless it is asked for in no parts.
    assert_eq!((call(nr::READ, &[counter, MEMORY, 0]), call(nr::READ, &[timer, MEMORY, 0])), (invalid, invalid));
    assert_eq!((call(nr::READV, &[counter, MEMORY, 0]), call(nr::READV, &[timer, MEMORY, 0])), (0, 0));
    let far = [timer, 0, i64::MAX as u64 - 100, 4096];
    assert_eq!(call(nr::FALLOCATE, &far), error(Errno::ENODEV));
    let file = bench.open("/work/a", flags::O_RDWR) as u64;
    assert_eq!(call(nr::READAHEAD, &[file, 0, u64::MAX]), invalid);
    assert_eq!((call(nr::SYNC_FILE_RANGE, &[file, 0, 0, 8]), call(nr::SYNC_FILE_RANGE, &[file, 5, u64::MAX, 0])), {
        (invalid, invalid)
    });
    assert_eq!(call(nr::SYNC_FILE_RANGE, &[file, 0, 0, 2]), 0);
    assert_eq!(call(nr::SYNC_FILE_RANGE, &[timer, 0, 0, 2]), error(Errno::ESPIPE));
    // Where a pipe's bytes go is looked at before the pipe.
    assert_eq!(call(nr::PIPE2, &[MEMORY, NONBLOCK]), 0);
    let ends = bench.get(0, 8);
    let (reads, writes) = (u64::from(ends[0]), u64::from(ends[4]));
    let at = bench.put(0x1000, &(-1_i64).to_le_bytes());
    assert_eq!(call(nr::SPLICE, &[reads, 0, file, at, 10, 2]), invalid);
    assert_eq!(call(nr::SPLICE, &[file, 0, reads, at, 10, 2]), error(Errno::ESPIPE));
    assert_eq!(call(nr::SPLICE, &[file, 0, reads, 0, 10, 2]), error(Errno::EBADF));
    assert_eq!(call(nr::SPLICE, &[file, 8, writes, 0, 10, 2]), error(Errno::EFAULT));
    // Whoever asks who is told gets an answer in the way that C libraries ask.
    assert_eq!((call(nr::FCNTL, &[file, 16, MEMORY]), bench.get(0, 8)), (0, [0; 8].to_vec()));
}

#[test]
fn pages_before_a_hole_count_first() {
    const POPULATE_WRITE: u64 = 23;
    let bench = Bench::new(&[]);
    let map = bench.call(nr::MMAP, &[0, 3 * 4096, 1, 0x22, u64::MAX, 0]) as u64;
    assert_eq!(bench.call(nr::MUNMAP, &[map + 2 * 4096, 4096]), 0);
    let populate = |length| bench.call(nr::MADVISE, &[map, length, POPULATE_WRITE]);
    assert_eq!(populate(3 * 4096), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::MPROTECT, &[map, 2 * 4096, 3]), 0);
    assert_eq!((populate(3 * 4096), populate(2 * 4096)), (error(Errno::ENOMEM), 0));
}

#[test]
fn where_a_file_is_sent_comes_after_where_it_comes_from() {
    let bench = Bench::new(&[("/work/a", b"0123456789")]);
    let file = bench.open("/work/a", flags::O_RDONLY) as u64;
    let at = bench.put(0x1000, &(-4096_i64).to_le_bytes());
    let send = |to, from, at| bench.call(nr::SENDFILE, &[to, from, at, 10]);
    assert_eq!((send(99, file, at), send(99, file, 0)), (error(Errno::EINVAL), error(Errno::EBADF)));
    assert_eq!((send(99, 98, 8), send(file, file, 0)), (error(Errno::EFAULT), error(Errno::EBADF)));
    let counter = bench.call(nr::EVENTFD2, &[0, NONBLOCK]) as u64;
    assert_eq!((send(1, counter, at), send(1, counter, 0)), (error(Errno::ESPIPE), error(Errno::EINVAL)));
}

#[test]
fn who_only_looks_at_an_epoll_is_not_interrupted() {
    let bench = Bench::new(&[]);
    let handler = SignalAction { handler: 0x1000, ..SignalAction::default() };
    let action = bench.put(0x3000, handler.record().bytes());
    assert_eq!(bench.call(nr::RT_SIGACTION, &[10, action, 0, 8]), 0);
    let set = bench.put(0x2000, &(1_u64 << 9).to_le_bytes());
    assert_eq!(bench.call(nr::RT_SIGPROCMASK, &[0, set, 0, 8]), 0);
    let pid = bench.call(nr::GETPID, &[]) as u64;
    assert_eq!(bench.call(nr::KILL, &[pid, 10]), 0);
    let poller = bench.call(nr::EPOLL_CREATE1, &[0]) as u64;
    let none = bench.put(0x2100, &[0; 8]);
    let look = || bench.call(nr::EPOLL_PWAIT, &[poller, MEMORY, 4, 0, none, 8]);
    assert_eq!((look(), look()), (0, 0));
}
