//! Writes: whole, short, in parts, appending; copies between files.

use alloc::vec::Vec;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES, pattern};

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn offset(bench: &Bench, file: u64) -> i64 {
    bench.call(nr::LSEEK, &[file, 0, 1])
}

#[test]
fn long_writes_run_side_by_side_and_arrive_whole() {
    let bench = Bench::new(&[("/a", b"")]);
    let bytes = pattern(9 * BULK_BYTES_MAX + 5);
    let at = bench.put(0x1000, &bytes);
    let file = bench.open("/a", flags::O_WRONLY) as u64;
    assert_eq!(bench.call(nr::WRITE, &[file, at, bytes.len() as u64]), bytes.len() as i64);
    assert!(bench.file("/a") == bytes);
    assert!((2..=4).contains(&bench.world.lock().under_way_max));
    assert_eq!(offset(&bench, file), bytes.len() as i64);
}

#[test]
fn a_gap_ends_a_write_and_nothing_behind_it_counts() {
    let bench = Bench::new(&[("/a", b"")]);
    let at = bench.put(0x1000, &pattern(6 * BULK_BYTES_MAX));
    let file = bench.open("/a", flags::O_WRONLY) as u64;
    bench.world.lock().fails_from = Some((2 * BULK_BYTES_MAX as u64, Errno::ENOSPC));
    let length = 6 * BULK_BYTES_MAX as u64;
    assert_eq!(bench.call(nr::WRITE, &[file, at, length]), 2 * BULK_BYTES_MAX as i64);
    assert_eq!(offset(&bench, file), 2 * BULK_BYTES_MAX as i64);
    assert_eq!(bench.call(nr::WRITE, &[file, at, length]), error(Errno::ENOSPC));
    bench.world.lock().fails_from = None;
    bench.world.lock().write_bytes_max = Some(1000);
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, length, 0]), 1000);
    assert_eq!(offset(&bench, file), 2 * BULK_BYTES_MAX as i64);
}

#[test]
fn pwrite_is_exact() {
    let bench = Bench::new(&[("/a", b"0123456789")]);
    let at = bench.put(0x1000, b"xyz");
    let file = bench.open("/a", flags::O_RDWR) as u64;
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 3, 4]), 3);
    assert_eq!(bench.file("/a"), b"0123xyz789");
    assert_eq!(offset(&bench, file), 0);
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 3, u64::MAX]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::PWRITE64, &[1, at, 3, 0]), error(Errno::ESPIPE));
    assert!(bench.world.lock().output.is_empty());
}

#[test]
fn appending_goes_to_the_end_wherever_that_is() {
    let bench = Bench::new(&[("/a", b"start")]);
    let at = bench.put(0x1000, b"+end");
    let file = bench.open("/a", flags::O_WRONLY | flags::O_APPEND) as u64;
    bench.world.lock().files.insert("/a".into(), b"changed start".to_vec());
    assert_eq!(bench.call(nr::WRITE, &[file, at, 4]), 4);
    assert_eq!(bench.file("/a"), b"changed start+end");
    assert_eq!(offset(&bench, file), 17);
    // As on Linux, whatever the offset says.
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 4, 0]), 4);
    assert_eq!(bench.file("/a"), b"changed start+end+end");
    assert_eq!(bench.call(nr::FCNTL, &[file, 4, 0]), 0);
    assert_eq!(bench.call(nr::PWRITE64, &[file, at, 4, 0]), 4);
    assert_eq!(bench.file("/a"), b"+endged start+end+end");
}

#[test]
fn copies_of_descriptors_share_the_offset() {
    let bench = Bench::new(&[("/a", b"")]);
    let at = bench.put(0x1000, b"abcd");
    let file = bench.open("/a", flags::O_WRONLY) as u64;
    let copy = bench.call(nr::DUP, &[file]) as u64;
    let other = bench.open("/a", flags::O_WRONLY) as u64;
    assert_eq!(bench.call(nr::WRITE, &[file, at, 2]), 2);
    assert_eq!(bench.call(nr::WRITE, &[copy, at, 4]), 4);
    assert_eq!(bench.file("/a"), b"ababcd");
    assert_eq!(offset(&bench, other), 0);
}

#[test]
fn memory_that_ends_makes_a_short_write() {
    let bench = Bench::new(&[("/a", b"")]);
    let file = bench.open("/a", flags::O_WRONLY) as u64;
    assert_eq!(bench.call(nr::WRITE, &[file, MEMORY + MEMORY_BYTES - 10, 100]), 10);
    assert_eq!(offset(&bench, file), 10);
    assert_eq!(bench.call(nr::WRITE, &[file, MEMORY + MEMORY_BYTES, 100]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::WRITE, &[file, MEMORY, u64::MAX]), error(Errno::EFAULT));
    assert_eq!(bench.call(nr::WRITE, &[file, 0, 0]), 0);
}

#[test]
fn several_ranges_are_written_in_order() {
    let bench = Bench::new(&[("/a", b"")]);
    let file = bench.open("/a", flags::O_WRONLY) as u64;
    let (one, two) = (bench.put(0x1000, b"one"), bench.put(0x2000, b"two"));
    let ranges: Vec<u8> = [two, 3, one, 3].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let vector = bench.put(0x3000, &ranges);
    assert_eq!(bench.call(nr::WRITEV, &[file, vector, 2]), 6);
    assert_eq!(bench.call(nr::PWRITEV, &[file, vector, 1, 10]), 3);
    assert_eq!(bench.file("/a"), b"twoone\0\0\0\0two");
    assert_eq!(bench.call(nr::PWRITEV2, &[file, vector, 1, 0, 0, 0x10]), 3);
    assert_eq!(bench.file("/a"), b"twoone\0\0\0\0twotwo");
}

#[test]
fn sendfile_copies_and_moves_one_offset() {
    let bytes = pattern(5 * BULK_BYTES_MAX + 9);
    let bench = Bench::new(&[("/from", &bytes), ("/to", b"")]);
    let from = bench.open("/from", flags::O_RDONLY) as u64;
    let to = bench.open("/to", flags::O_WRONLY) as u64;
    assert_eq!(bench.call(nr::SENDFILE, &[to, from, 0, 1 << 40]), bytes.len() as i64);
    assert!(bench.file("/to") == bytes);
    assert_eq!((offset(&bench, from), offset(&bench, to)), (bytes.len() as i64, bytes.len() as i64));
    assert_eq!(bench.call(nr::SENDFILE, &[to, from, 0, 1 << 40]), 0);
    let at = bench.put(0x1000, &100_u64.to_le_bytes());
    assert_eq!(bench.call(nr::SENDFILE, &[1, from, at, 50]), 50);
    assert_eq!(bench.world.lock().output, bytes[100..150]);
    assert_eq!(bench.get(0x1000, 8), 150_u64.to_le_bytes());
    assert_eq!(offset(&bench, from), bytes.len() as i64);
    assert_eq!(bench.call(nr::SENDFILE, &[to, 0, 0, 10]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::SENDFILE, &[from, from, 0, 10]), error(Errno::EBADF));
}

#[test]
fn copy_file_range_copies_and_refuses_overlaps() {
    let bench = Bench::new(&[("/from", b"0123456789"), ("/to", b"")]);
    let from = bench.open("/from", flags::O_RDWR) as u64;
    let to = bench.open("/to", flags::O_WRONLY) as u64;
    let at = bench.put(0x1000, &4_u64.to_le_bytes());
    assert_eq!(bench.call(nr::COPY_FILE_RANGE, &[from, at, to, 0, 3, 0]), 3);
    assert_eq!(bench.call(nr::COPY_FILE_RANGE, &[from, 0, to, 0, 100, 0]), 10);
    assert_eq!(bench.file("/to"), b"4560123456789");
    assert_eq!(bench.get(0x1000, 8), 7_u64.to_le_bytes());
    let again = bench.open("/from", flags::O_RDWR) as u64;
    bench.put(0x1000, &2_u64.to_le_bytes());
    assert_eq!(bench.call(nr::COPY_FILE_RANGE, &[from, at, again, 0, 8, 0]), error(Errno::EINVAL));
    // What overlaps must be there.
    assert_eq!(bench.call(nr::COPY_FILE_RANGE, &[from, 0, again, 0, 8, 0]), 0);
    assert_eq!(bench.call(nr::COPY_FILE_RANGE, &[from, at, to, 0, 1, 1]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::COPY_FILE_RANGE, &[from, at, 1, 0, 1, 0]), error(Errno::EINVAL));
}

#[test]
fn what_cannot_be_written_is_not() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let reader = bench.open("a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::WRITE, &[reader, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::WRITE, &[0, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::WRITE, &[55, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::FTRUNCATE, &[reader, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::FTRUNCATE, &[reader, u64::MAX]), error(Errno::EINVAL));
    let writer = bench.open("a", flags::O_WRONLY) as u64;
    assert_eq!(bench.call(nr::FTRUNCATE, &[writer, 3]), 0);
    assert_eq!(bench.file("/work/a"), b"x\0\0");
}
