//! Whether what the I/O node says of a file that is opened is so, and what becomes of a lease.

use alloc::sync::Arc;

use coppice_protocol::lease::{FileId, Grant, Lease};
use coppice_protocol::ship::{Call, FileStatus, Handle};
use coppice_protocol::syscalls as nr;

use super::Leaseholder;
use crate::files::{OpenFile, Shipped, flags};
use crate::limits::FILES_KNOWN_MAX;
use crate::memory::{FileChange, FileIdentity};
use crate::process::testing::Bench;

const PATH: &str = "/work/a";

/// A file of ten bytes, which whoever opens it has alone.
fn bench() -> Bench {
    let bench = Bench::new(&[(PATH, b"0123456789")]);
    {
        let mut world = bench.world.lock();
        (world.lease, world.version) = (Some(Lease::Sole), 1);
    }
    bench
}

fn open(bench: &Bench, flags: u32) -> u64 {
    u64::try_from(bench.open(PATH, flags)).expect("it opens")
}

/// What a file was when it was opened.
fn status(bench: &Bench, file: u64) -> FileStatus {
    let file = bench.process.files.lock().get(file as i32).expect("it is open");
    file.as_shipped().expect("it is a file").status
}

fn write(bench: &Bench, file: u64, offset: u64, bytes: &[u8]) -> i64 {
    let at = bench.put(0, bytes);
    bench.call(nr::PWRITE64, &[file, at, bytes.len() as u64, offset])
}

/// Two ranks of a node open a file at a time, and what comes for the first is looked at last.
#[test]
fn a_lease_that_was_given_back_is_not_had_by_an_earlier_one_that_comes_late() {
    let bench = Bench::new(&[]);
    let cache = &bench.process.job.cache;
    let (id, status) = (FileId { device: 1, inode: 2 }, FileStatus { device: 1, inode: 2, ..FileStatus::default() });
    let opened = |number| {
        let grant = Grant { lease: Lease::Sole, number, known: 1, version: number };
        cache.opened(&status, Some((grant, &[])), cache.opening().expect("memory"))
    };
    let file = opened(2);
    assert_eq!(file.lease(), Some(2));
    cache.recall(&bench.process.client, id, 2);
    assert_eq!(file.lease(), None);
    assert_eq!(opened(1).lease(), None, "another writes to it by now");
    assert_eq!(opened(3).lease(), Some(3));
}

/// The last handle of a file goes while the lease is wanted back and not all is written; for the I/O node another rank
/// has the file open by then, so that nothing ends with that handle.
#[test]
fn a_lease_that_is_wanted_is_given_back_by_who_closes_the_file() {
    let bench = bench();
    let cache = &bench.process.job.cache;
    let file = open(&bench, flags::O_RDWR);
    let was = status(&bench, file);
    assert_eq!(write(&bench, file, 10, b"more"), 4);
    cache.recall(&bench.process.client, FileId { device: was.device, inode: was.inode }, 1);
    cache.closed(FileIdentity { device: was.device, inode: was.inode });
    bench.rest();
    let calls = core::mem::take(&mut bench.world.lock().calls);
    let returned = calls.iter().filter(|call| matches!(call, Call::Return { number: 1, .. }));
    assert_eq!(returned.count(), 1, "{calls:?}");
}

/// A piece is being written with a handle that another rank may close meanwhile; the I/O node makes what comes at a
/// time in any order.
#[test]
fn a_handle_is_not_closed_while_something_is_being_written_with_it() {
    let bench = bench();
    let [first, second] = [(); 2].map(|()| open(&bench, flags::O_RDWR));
    assert_eq!(write(&bench, second, 10, b"more"), 4);
    let (cached, client, handle) = {
        let file = bench.process.files.lock().get(first as i32).expect("it is open");
        let shipped = file.as_shipped().expect("it is a file");
        (Arc::clone(shipped.cached().expect("it is known")), shipped.client().clone(), shipped.handle)
    };
    cached.write_back(true);
    assert!(!cached.stops_writing(&client, handle), "its write is under way");
    assert_eq!(bench.call(nr::CLOSE, &[first]), 0);
    bench.rest();
    assert!(cached.stops_writing(&client, handle));
    assert_eq!(bench.call(nr::FSYNC, &[second]), 0);
    assert_eq!(bench.file(PATH), b"0123456789more");
    // What is to be closed is used if there is no other.
    assert_eq!(write(&bench, second, 14, b"!"), 1);
    cached.is_left_by(client.owner());
    assert_eq!(bench.call(nr::FSYNC, &[second]), 0);
    assert_eq!(bench.file(PATH), b"0123456789more!");
}

/// Three ranks of a node open a file at a time, what comes for them comes in another order, and one writes
/// meanwhile.
#[test]
fn what_is_said_of_a_file_may_be_older_than_what_was_written_here_since() {
    let bench = Bench::new(&[]);
    let cache = &bench.process.job.cache;
    let identity = FileIdentity { device: 1, inode: 2 };
    let status = FileStatus { device: 1, inode: 2, size: 500, ..FileStatus::default() };
    let grant = |number, known| Grant { lease: Lease::Sole, number, known, version: number };
    let [first, second] = [(); 2].map(|()| cache.opening().expect("memory"));
    let file = cache.opened(&status, Some((grant(1, 1), &[])), first);
    assert_eq!(file.size(), Some(500));
    cache.changed(identity, &FileChange::Written(9000..9500));
    assert_eq!(file.size(), Some(9500));
    // Nothing was heard of the lease that was given between.
    cache.opened(&status, Some((grant(3, 2), &[])), second);
    assert_eq!(file.size(), None, "it is 9500 bytes long, and said to be of 500");
    let third = cache.opening().expect("memory");
    cache.opened(&FileStatus { size: 9500, ..status }, Some((grant(4, 3), &[])), third);
    assert_eq!(file.size(), Some(9500));
}

/// One who writes has closed it and another reads it; then another node reads it, and it is opened to be written
/// again.
#[test]
fn who_opens_a_file_to_write_that_others_use_does_not_write_later() {
    let bench = Bench::new(&[]);
    let closer = &bench.process.closer;
    let status = FileStatus { device: 1, inode: 2, mode: 0o100_644, size: 1, ..FileStatus::default() };
    let opened = |handle, lease, opened_with| {
        let charge = bench.process.node.quota.charge(0).expect("nothing");
        let charged = ("/a".into(), charge, closer.cache().opening().expect("memory"));
        OpenFile::shipped((Handle(handle), status, lease), charged, opened_with, closer)
    };
    let grant = Grant { lease: Lease::Sole, number: 1, known: 1, version: 1 };
    let writes_later =
        |file: &OpenFile| file.as_shipped().and_then(Shipped::cached).is_some_and(|file| file.try_turn().is_some());
    let first = opened(1, Some((grant, &b"a"[..])), flags::O_RDWR);
    let _reader = opened(2, None, flags::O_RDONLY);
    assert!(writes_later(&first), "who reads without a lease of his own is no other node");
    drop(first);
    let again = opened(3, None, flags::O_RDWR);
    assert!(!writes_later(&again));
}

/// While a rank opens a file, another one on its node may write and close it: what the I/O node has said of it may be
/// older than that.
#[test]
fn what_is_said_of_a_file_when_it_is_opened_may_be_older_than_what_was_written() {
    let bench = bench();
    let cache = &bench.process.job.cache;
    let was = {
        let file = open(&bench, flags::O_RDONLY);
        let was = status(&bench, file);
        assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
        bench.rest();
        was
    };
    let open_as = |size, opening| {
        let status = FileStatus { size, ..was };
        let grant = Grant { lease: Lease::Sole, number: 1000, known: 1, version: 1 };
        cache.opened(&status, Some((grant, b"")), opening)
    };
    let opening = cache.opening().expect("there is memory");
    let file = open(&bench, flags::O_RDWR);
    assert_eq!(write(&bench, file, 10, b"more"), 4);
    assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
    bench.rest();
    assert_eq!(open_as(10, opening).size(), None, "14 or 10: it asks");
    cache.closed(FileIdentity { device: was.device, inode: was.inode });
    let opening = cache.opening().expect("there is memory");
    assert_eq!(open_as(14, opening).size(), Some(14), "nobody has written since it asked");
}

/// What was to be written later is written while the I/O node opens the file for another rank, and nothing was heard of
/// the lease that came before that one's.
#[test]
fn what_is_said_of_a_file_when_it_is_opened_may_be_older_than_what_was_written_later() {
    let bench = bench();
    let cache = &bench.process.job.cache;
    let file = open(&bench, flags::O_RDWR);
    let was = status(&bench, file);
    let open_as = |size, opening| {
        let grant = Grant { lease: Lease::Sole, number: 1000, known: 999, version: 1000 };
        cache.opened(&FileStatus { size, ..was }, Some((grant, b"")), opening).size()
    };
    assert_eq!(write(&bench, file, 10, b"more"), 4);
    let opening = cache.opening().expect("there is memory");
    assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
    assert_eq!(open_as(10, opening), None, "14 or 10: it asks");
    let opening = cache.opening().expect("there is memory");
    assert_eq!(open_as(14, opening), Some(14));
}

/// The one that was closed longest ago makes room for another.
#[test]
fn so_many_files_are_known_that_nobody_has_open() {
    let bench = Bench::new(&[]);
    let cache = &bench.process.job.cache;
    // All of it comes with the lease, but if it is not to be looked for here.
    let bytes_at = |inode, comes: &[u8]| {
        let status = FileStatus { device: 1, inode, size: 1, ..FileStatus::default() };
        let grant = Grant { lease: Lease::Shared, number: 1, known: 1, version: 1 };
        let file = cache.opened(&status, Some((grant, comes)), cache.opening().expect("memory"));
        let known = file.known_bytes(0, 1);
        cache.closed(FileIdentity { device: 1, inode });
        known
    };
    let most = FILES_KNOWN_MAX as u64;
    for inode in 0..most {
        assert_eq!(bytes_at(inode, b"a").as_deref(), Some(&b"a"[..]));
    }
    assert!(bytes_at(0, b"").is_some(), "it is used again");
    for inode in most..most + 2 {
        assert!(bytes_at(inode, b"a").is_some());
    }
    assert_eq!([0, 3, 1, 2].map(|inode| bytes_at(inode, b"").is_some()), [true, true, false, false]);
}

#[test]
fn what_was_written_to_any_file_is_there_in_a_while() {
    let bench = Bench::new(&[("/work/a", b""), ("/work/b", b"")]);
    bench.world.lock().lease = Some(Lease::Sole);
    let paths = ["/work/a", "/work/b"];
    let [first, second] = paths.map(|path| u64::try_from(bench.open(path, flags::O_RDWR)).expect("it opens"));
    for round in [&b"1"[..], b"2"] {
        assert_eq!((write(&bench, first, 0, round), write(&bench, second, 0, round)), (1, 1));
        assert!(paths.iter().all(|path| bench.file(path) != round), "it is written later");
        bench.rest();
        assert!(paths.iter().all(|path| bench.file(path) == round));
        // Nothing is written any more: whoever did so has gone.
        bench.rest();
    }
}
