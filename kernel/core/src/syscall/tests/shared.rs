//! Memory that ranks share: anonymous, and by name in `/dev/shm`.

use coppice_hal::frames::FramePool;
use coppice_hal::paging::Access;
use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use crate::limits::{SHARED_FILES_MAX, SHARED_MEMORY_SHARE};
use crate::memory::{Resolution, SHARED_BYTES_MAX};
use crate::process::testing::{Bench, MEMORY};

const RW: u64 = 3;
const SHARED: u64 = 1;
const PRIVATE: u64 = 2;
const ANONYMOUS: u64 = 0x20;
const PAGE: u64 = 4096;
/// Memory of a node of its own.
const BYTES: usize = 8 * 1024 * 1024;

fn errno(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn make(bench: &Bench, name: &str, length: u64) -> u64 {
    let file = bench.open(name, O_CREAT | O_EXCL | O_RDWR) as u64;
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, length]), 0);
    file
}

fn map(bench: &Bench, file: u64, length: u64, how: u64, protection: u64) -> u64 {
    let at = bench.call(nr::MMAP, &[0, length, protection, how, file, 0]);
    assert!(at > 0, "{at}");
    at.cast_unsigned()
}

fn store(bench: &Bench, at: u64, bytes: &[u8]) {
    assert!(bench.process.space.lock().write_bytes(at, bytes).is_ok());
}

fn load<const N: usize>(bench: &Bench, at: u64) -> [u8; N] {
    bench.process.space.lock().read_array(at).expect("mapped")
}

/// The signal that a touch gives.
fn signal(bench: &Bench, at: u64, access: Access) -> Option<u8> {
    match bench.process.space.lock().fault(at, access) {
        Resolution::Signal(signal) => Some(signal.number),
        Resolution::Ready => None,
        _ => panic!("neither"),
    }
}

fn size(bench: &Bench, file: u64) -> u64 {
    assert_eq!(bench.call(nr::FSTAT, &[file, MEMORY + 0x8000]), 0);
    u64::from_le_bytes(bench.get(0x8000 + 48, 8).try_into().expect("eight"))
}

#[test]
fn two_ranks_see_what_each_writes_to_a_file_they_map() {
    let one = Bench::with_memory(FramePool::for_host(BYTES), 2, &[]);
    let two = one.sibling(None);
    let file = make(&one, "/dev/shm/ring", 3 * PAGE);
    assert_eq!(two.open("/dev/shm/ring", O_CREAT | O_EXCL | O_RDWR), errno(Errno::EEXIST));
    let other = two.open("/dev/shm/ring", O_RDWR) as u64;
    let (here, there) = (map(&one, file, 3 * PAGE, SHARED, RW), map(&two, other, 3 * PAGE, SHARED, RW));
    assert_eq!(load(&two, there + PAGE), [0; 8]);
    store(&one, here + PAGE, b"from one");
    assert_eq!(&load(&two, there + PAGE), b"from one");
    store(&two, there + 2 * PAGE - 4, b"from two");
    assert_eq!(&load(&one, here + 2 * PAGE - 4), b"from two");
    // Reading and writing see the same.
    assert_eq!(two.call(nr::PREAD64, &[other, MEMORY + 0x1000, 8, PAGE]), 8);
    assert_eq!(two.get(0x1000, 8), b"from one");
    let at = two.put(0x2000, b"written");
    assert_eq!(two.call(nr::PWRITE64, &[other, at, 7, 5]), 7);
    assert_eq!(&load(&one, here + 5), b"written");
    // It is there for as long as anybody has it, whatever became of its name.
    assert_eq!(two.call(nr::UNLINK, &[two.text(0, "/dev/shm/ring")]), 0);
    assert_eq!(one.open("/dev/shm/ring", O_RDWR), errno(Errno::ENOENT));
    assert_eq!((one.call(nr::CLOSE, &[file]), two.call(nr::CLOSE, &[other])), (0, 0));
    store(&one, here, b"still");
    assert_eq!(&load(&two, there), b"still");
    assert!(one.world.lock().calls.is_empty(), "the I/O node has nothing to do with it");
}

#[test]
fn a_private_mapping_keeps_its_writes_to_itself() {
    let bench = Bench::with_memory(FramePool::for_host(BYTES), 1, &[]);
    let file = make(&bench, "/dev/shm/a", PAGE);
    let (shared, private) = (map(&bench, file, PAGE, SHARED, RW), map(&bench, file, PAGE, PRIVATE, RW));
    store(&bench, shared, b"one");
    assert_eq!(&load(&bench, private), b"one");
    store(&bench, private + 1, b"x");
    assert_eq!((&load(&bench, private), &load(&bench, shared)), (b"oxe", b"one"));
    store(&bench, shared, b"two");
    assert_eq!(&load(&bench, private), b"oxe");
    // A private mapping may be made writable whatever the file was opened for, a shared one may not.
    let reader = bench.open("/dev/shm/a", O_RDONLY) as u64;
    let denied = errno(Errno::EACCES);
    assert_eq!(bench.call(nr::MMAP, &[0, PAGE, RW, SHARED, reader, 0]), denied);
    let shared = map(&bench, reader, PAGE, SHARED, 1);
    assert_eq!(bench.call(nr::MPROTECT, &[shared, PAGE, RW]), denied);
    let private = map(&bench, reader, PAGE, PRIVATE, 1);
    assert_eq!(bench.call(nr::MPROTECT, &[private, PAGE, RW]), 0);
    store(&bench, private, b"mine");
    assert_eq!(&load(&bench, shared), b"two");
}

#[test]
fn what_is_cut_off_is_gone_from_every_rank() {
    let one = Bench::with_memory(FramePool::for_host(BYTES), 2, &[]);
    let two = one.sibling(None);
    let file = make(&one, "/dev/shm/a", 3 * PAGE);
    let other = two.open("/dev/shm/a", O_RDWR) as u64;
    let (here, there) = (map(&one, file, 4 * PAGE, SHARED, RW), map(&two, other, 4 * PAGE, PRIVATE, RW));
    assert_eq!(signal(&one, here + 3 * PAGE, Access::READ), Some(7), "SIGBUS beyond the end");
    for page in 0..3 {
        store(&one, here + page * PAGE, &[7; 16]);
        assert_eq!(load(&two, there + page * PAGE), [7; 16]);
    }
    store(&two, there + PAGE, b"a copy");
    let used = one.process.node.frames.usage().user;
    assert_eq!(two.call(nr::FTRUNCATE, &[other, 8]), 0);
    for (bench, at) in [(&one, here), (&two, there)] {
        assert_eq!(load(bench, at), [7, 7, 7, 7, 7, 7, 7, 7, 0, 0]);
        assert_eq!(signal(bench, at + PAGE, Access::READ), Some(7));
        assert_eq!(signal(bench, at + 2 * PAGE, Access::WRITE), Some(7));
    }
    assert!(one.process.node.frames.usage().user < used, "frames are free at once");
    assert_eq!(one.call(nr::FTRUNCATE, &[file, 2 * PAGE]), 0);
    assert_eq!((load(&one, here + PAGE), load(&two, there + PAGE)), ([0; 16], [0; 16]));
}

#[test]
fn files_are_files() {
    let bench = Bench::with_memory(FramePool::for_host(BYTES), 1, &[]);
    let file = bench.open("/dev/shm/a", O_CREAT | O_RDWR) as u64;
    let at = bench.put(0x1000, b"hello");
    assert_eq!(bench.call(nr::WRITE, &[file, at, 5]), 5);
    assert_eq!(bench.call(nr::LSEEK, &[file, 3 * PAGE, 0]), 3 * PAGE as i64);
    assert_eq!(bench.call(nr::WRITE, &[file, at, 5]), 5);
    assert_eq!(size(&bench, file), 3 * PAGE + 5);
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 2]), 3 * PAGE as i64 + 5);
    assert_eq!(bench.call(nr::READ, &[file, MEMORY + 0x2000, 100]), 0);
    assert_eq!(bench.call(nr::LSEEK, &[file, 2, 0]), 2);
    assert_eq!(bench.call(nr::READ, &[file, MEMORY + 0x2000, 6]), 6);
    assert_eq!(bench.get(0x2000, 6), b"llo\0\0\0");
    let end = bench.open("/dev/shm/a", O_WRONLY | O_APPEND) as u64;
    assert_eq!(bench.call(nr::WRITE, &[end, at, 5]), 5);
    assert_eq!(size(&bench, file), 3 * PAGE + 10);
    assert_eq!(bench.call(nr::FALLOCATE, &[file, 0, 0, 5 * PAGE]), 0);
    assert_eq!(size(&bench, file), 5 * PAGE);
    assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
    assert_eq!(bench.call(nr::FCHMOD, &[file, 0o600]), 0);
    assert_eq!(bench.open("/dev/shm/a", O_TRUNC | O_RDWR), 5);
    assert_eq!(size(&bench, file), 0);
    // Names.
    let (a, b, nested) = (bench.text(0x100, "/dev/shm/a"), bench.text(0x200, "/dev/shm/b"), 0x300);
    assert_eq!(bench.call(nr::LINK, &[a, b]), 0);
    assert_eq!(bench.call(nr::LINK, &[a, b]), errno(Errno::EEXIST));
    assert_eq!(bench.call(nr::UNLINK, &[a]), 0);
    assert_eq!(bench.call(nr::STAT, &[a, MEMORY + 0x8000]), errno(Errno::ENOENT));
    assert_eq!(bench.call(nr::RENAME, &[b, a]), 0);
    assert_eq!(bench.call(nr::RENAME, &[a, bench.text(nested, "/work/a")]), errno(Errno::EXDEV));
    assert_eq!(bench.call(nr::ACCESS, &[a, 6]), 0);
    assert_eq!(bench.call(nr::MKDIR, &[b, 0o777]), errno(Errno::EPERM));
    assert_eq!(bench.call(nr::RMDIR, &[a]), errno(Errno::ENOTDIR));
    assert_eq!(bench.open("/dev/shm/a/b", O_CREAT | O_RDWR), errno(Errno::ENOENT));
    assert_eq!(bench.open("/dev/shm/a", O_DIRECTORY), errno(Errno::ENOTDIR));
    let directory = bench.open("/dev/shm", O_RDONLY | O_DIRECTORY) as u64;
    let listed = bench.call(nr::GETDENTS64, &[directory, MEMORY + 0x4000, 4096]);
    assert_eq!(listed, 24 + 24 + 24);
    assert_eq!(&bench.get(0x4000 + 48 + 19, 2), b"a\0");
    assert!(bench.world.lock().calls.is_empty());
}

#[test]
fn limits_say_no() {
    let bench = Bench::with_memory(FramePool::for_host(BYTES), 1, &[]);
    let file = make(&bench, "/dev/shm/a", 0);
    let limit = u64::from(bench.process.node.frames.total_frames() / SHARED_MEMORY_SHARE) * PAGE;
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, SHARED_BYTES_MAX + 1]), errno(Errno::EFBIG));
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, SHARED_BYTES_MAX]), 0, "holes cost nothing");
    let at = bench.put(0x1000, b"x");
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 1, SHARED_BYTES_MAX]), errno(Errno::EFBIG));
    assert_eq!(bench.call(nr::FALLOCATE, &[file, 0, 0, limit + PAGE]), errno(Errno::ENOSPC));
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 1, limit * 2]), errno(Errno::ENOSPC));
    let shown = map(&bench, file, 1 << 40, SHARED | 0x4000, RW);
    assert_eq!(signal(&bench, shown + limit * 2, Access::WRITE), Some(7));
    assert_eq!(bench.call(nr::STATFS, &[bench.text(0, "/dev/shm"), MEMORY + 0x8000]), 0);
    let blocks = bench.get(0x8000, 120);
    let word = |index: usize| u64::from_le_bytes(blocks[index * 8..index * 8 + 8].try_into().expect("eight"));
    assert_eq!((word(0), word(2), word(3)), (0x0102_1994, limit / PAGE, 0));
    assert_eq!(bench.call(nr::FTRUNCATE, &[file, 0]), 0);
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 1, limit * 2]), 1, "what was given back can be had again");
    assert_eq!(bench.open(alloc::format!("/dev/shm/{}", "n".repeat(256)), O_CREAT), errno(Errno::ENAMETOOLONG));
    for number in 1..SHARED_FILES_MAX {
        let file = bench.open(alloc::format!("/dev/shm/{number}"), O_CREAT | O_RDWR);
        assert!(file > 0);
        bench.call(nr::CLOSE, &[file as u64]);
    }
    assert_eq!(bench.open("/dev/shm/more", O_CREAT), errno(Errno::ENOSPC));
}

#[test]
fn shared_memory_without_a_name_is_mappings_own() {
    let bench = Bench::with_memory(FramePool::for_host(BYTES), 1, &[]);
    let at = bench.call(nr::MMAP, &[0, 4 * PAGE, RW, SHARED | ANONYMOUS, u64::MAX, 0]).cast_unsigned();
    assert_eq!(load(&bench, at), [0; 8]);
    store(&bench, at + PAGE, b"kept");
    // Not needed is not gone: unlike private memory.
    assert_eq!(bench.call(nr::MADVISE, &[at, 4 * PAGE, 4]), 0);
    assert_eq!(&load(&bench, at + PAGE), b"kept");
    assert_eq!(bench.call(nr::MPROTECT, &[at, 2 * PAGE, 1]), 0);
    assert_eq!(signal(&bench, at + PAGE, Access::WRITE), Some(11));
    assert_eq!(bench.call(nr::MPROTECT, &[at, 2 * PAGE, RW]), 0);
    store(&bench, at + PAGE, b"more");
    let moved = bench.call(nr::MREMAP, &[at, 4 * PAGE, 8 * PAGE, 1 | 2, 0x3000_0000]).cast_unsigned();
    assert_eq!((moved, &load(&bench, moved + PAGE)), (0x3000_0000, b"more"));
    assert_eq!(signal(&bench, moved + 4 * PAGE, Access::READ), Some(7), "it has not grown with its mapping");
    assert_eq!(bench.call(nr::MUNMAP, &[moved, PAGE]), 0);
    assert_eq!(&load(&bench, moved + PAGE), b"more");
    let frames = bench.process.node.frames;
    let used = frames.usage().user;
    assert_eq!(bench.call(nr::MUNMAP, &[moved + PAGE, 7 * PAGE]), 0);
    // It is out of reach at once, and taken apart in the background.
    while bench.process.node.retention.reaper().step() {}
    assert!(frames.usage().user < used);
}

#[test]
fn nothing_is_left_when_the_last_rank_has_gone() {
    let one = Bench::with_memory(FramePool::for_host(BYTES), 2, &[]);
    let two = one.sibling(None);
    let file = make(&one, "/dev/shm/a", 64 * PAGE);
    let at = map(&one, file, 64 * PAGE, SHARED, RW);
    for page in 0..64 {
        store(&one, at + page * PAGE, b"secret");
    }
    let memory = match &one.process.files.lock().get(file as i32).expect("open").object {
        crate::files::Object::Shared(file) => alloc::sync::Arc::downgrade(&file.memory),
        _ => panic!("not shared memory"),
    };
    drop(one);
    assert_eq!(two.open("/dev/shm/a", O_RDWR), 3, "the other rank finds it");
    assert_eq!(memory.strong_count(), 1);
    drop(two);
    assert_eq!(memory.strong_count(), 0);
}

#[test]
fn only_files_of_the_job_on_this_node_are_there() {
    let one = Bench::new(&[("/dev/shm/a", b"the host's")]);
    assert_eq!(one.open("/dev/shm/a", O_RDONLY), errno(Errno::ENOENT));
    make(&one, "/dev/shm/a", 1);
    let other = Bench::new(&[]);
    assert_eq!(other.open("/dev/shm/a", O_RDONLY), errno(Errno::ENOENT));
    assert!(one.world.lock().calls.is_empty());
}

#[test]
fn who_sleeps_at_shared_memory_is_woken_through_any_mapping_of_it() {
    const WAIT: u64 = 0;
    const WAKE: u64 = 1;
    const REQUEUE: u64 = 4;
    const OWN: u64 = 128;
    let bench = Bench::new(&[]);
    let file = make(&bench, "/dev/shm/a", 2 * PAGE);
    let (here, there) = (map(&bench, file, 2 * PAGE, SHARED, RW), map(&bench, file, 2 * PAGE, SHARED, RW));
    let (word, same, other) = (here + PAGE + 8, there + PAGE + 8, there + 8);
    let wakes: [(u32, &[u64], i64); 4] = [
        (nr::FUTEX, &[other, WAKE, 1], 0),
        (nr::FUTEX, &[same, WAKE | OWN, 1], 0),
        (nr::FUTEX, &[same, 10, 1, 0, 0, 2], 1),
        (nr::FUTEX, &[same, WAKE, 1], 0),
    ];
    assert_eq!(bench.call_during(nr::FUTEX, &[word, 9, 0, 0, 0, 6], &wakes[..3]), 0);
    assert_eq!(bench.call(nr::FUTEX, wakes[3].1), wakes[3].2, "nobody sleeps any more");
    // Moved to another word, and woken there.
    let wakes: [(u32, &[u64], i64); 4] = [
        (nr::FUTEX, &[same, REQUEUE, 0, 1, other, 1], errno(Errno::EAGAIN)),
        (nr::FUTEX, &[same, REQUEUE, 0, 1, other, 0], 1),
        (nr::FUTEX, &[word, WAKE, 1], 0),
        (nr::FUTEX, &[here + 8, WAKE, 1], 1),
    ];
    assert_eq!(bench.call_during(nr::FUTEX, &[word, WAIT, 0, 0], &wakes), 0);
    // Who stops waiting is not counted.
    let limit = bench.put(0x100, &[1_u64.to_le_bytes(), [0; 8]].concat());
    assert_eq!(bench.call(nr::FUTEX, &[word, WAIT, 0, limit]), errno(Errno::ETIMEDOUT));
    assert_eq!(bench.call(nr::FUTEX, &[word, WAKE, 1]), 0);
}
