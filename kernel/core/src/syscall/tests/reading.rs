//! Reads: whole, short, in parts, at offsets, into several ranges.

use alloc::vec;
use alloc::vec::Vec;

use coppice_protocol::limits::BULK_BYTES_MAX;
use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY, MEMORY_BYTES, READ_ONLY, pattern};

const BUFFER: u64 = 0x1000;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

#[test]
fn the_offset_moves_by_what_was_read_and_stops_at_the_end() {
    let bench = Bench::new(&[("/work/a", b"hello world")]);
    let file = bench.open("a", flags::O_RDONLY) as u64;
    assert_eq!(file, 3);
    assert_eq!(bench.call(nr::READ, &[file, MEMORY + BUFFER, 5]), 5);
    assert_eq!(bench.get(BUFFER, 5), b"hello");
    assert_eq!(bench.call(nr::READ, &[file, MEMORY + BUFFER, 100]), 6);
    assert_eq!(bench.get(BUFFER, 6), b" world");
    assert_eq!(bench.call(nr::READ, &[file, MEMORY + BUFFER, 100]), 0);
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 11);
}

#[test]
fn pread_is_exact_and_leaves_the_offset_alone() {
    let bench = Bench::new(&[("/a", &pattern(10_000))]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::PREAD64, &[file, MEMORY + BUFFER, 77, 5000]), 77);
    assert_eq!(bench.get(BUFFER, 77), pattern(10_000)[5000..5077]);
    assert_eq!(bench.call(nr::PREAD64, &[file, MEMORY + BUFFER, 77, 9990]), 10);
    assert_eq!(bench.call(nr::PREAD64, &[file, MEMORY + BUFFER, 77, 10_000]), 0);
    assert_eq!(bench.call(nr::PREAD64, &[file, MEMORY + BUFFER, 77, i64::MAX as u64]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::PREAD64, &[file, MEMORY + BUFFER, 77, i64::MAX as u64 - 77]), 0);
    assert_eq!(bench.call(nr::PREAD64, &[file, MEMORY + BUFFER, 77, u64::MAX]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::PREAD64, &[0, MEMORY + BUFFER, 77, 0]), error(Errno::ESPIPE));
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 0);
}

#[test]
fn long_reads_run_side_by_side_and_come_out_whole() {
    let bytes = pattern(9 * BULK_BYTES_MAX + 123);
    let bench = Bench::new(&[("/a", &bytes)]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    let read = bench.call(nr::READ, &[file, MEMORY + BUFFER, 2 * 1024 * 1024]);
    assert_eq!(read, bytes.len() as i64);
    assert!(bench.get(BUFFER, bytes.len()) == bytes);
    assert!((2..=4).contains(&bench.world.lock().under_way_max));
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), read);
}

#[test]
fn several_ranges_are_filled_in_order() {
    let bench = Bench::new(&[("/a", &pattern(3000))]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    let ranges: Vec<u8> = [MEMORY + 0x3000, 1000, 0, 0, MEMORY + 0x2000, 1500, MEMORY + 0x1000, 4096]
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect();
    let vector = bench.put(0x8000, &ranges);
    assert_eq!(bench.call(nr::READV, &[file, vector, 4]), 3000);
    let all = pattern(3000);
    assert_eq!(bench.get(0x3000, 1000), all[..1000]);
    assert_eq!(bench.get(0x2000, 1500), all[1000..2500]);
    assert_eq!(bench.get(0x1000, 500), all[2500..]);
    assert_eq!(bench.call(nr::PREADV, &[file, vector, 1, 2990]), 10);
    assert_eq!(bench.call(nr::PREADV2, &[file, vector, 1, u64::MAX, 0, 0]), 0);
    assert_eq!(bench.call(nr::PREADV2, &[file, vector, 1, 0, 0, 8]), error(Errno::EOPNOTSUPP));
    assert_eq!(bench.call(nr::READV, &[file, vector, 1025]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::READV, &[file, vector, 0]), 0);
    assert_eq!(bench.call(nr::READV, &[file, u64::MAX - 3, 1]), error(Errno::EFAULT));
}

#[test]
fn memory_that_ends_makes_a_short_read_and_wild_memory_none() {
    let bench = Bench::new(&[("/a", &pattern(10_000))]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    let almost_at_the_end = MEMORY + MEMORY_BYTES - 100;
    assert_eq!(bench.call(nr::READ, &[file, almost_at_the_end, 1000]), 100);
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 100);
    for address in [0, READ_ONLY, 0x7fff_0000_0000] {
        assert_eq!(bench.call(nr::READ, &[file, address, 10]), error(Errno::EFAULT), "{address:#x}");
    }
    for (address, length) in [(MEMORY, u64::MAX), (u64::MAX, 1), (0xffff_8000_0000_0000, 10), (MEMORY, 1 << 47)] {
        assert_eq!(bench.call(nr::READ, &[file, address, length]), error(Errno::EFAULT), "{address:#x}");
    }
    assert_eq!(bench.call(nr::LSEEK, &[file, 0, 1]), 100);
}

#[test]
fn what_cannot_be_read_is_not() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let writer = bench.open("a", flags::O_WRONLY) as u64;
    let directory = bench.open("/work", flags::O_RDONLY | flags::O_DIRECTORY) as u64;
    let path = bench.open("a", flags::O_PATH) as u64;
    assert_eq!(bench.call(nr::READ, &[writer, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::READ, &[directory, MEMORY, 1]), error(Errno::EISDIR));
    assert_eq!(bench.call(nr::READ, &[path, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::READ, &[99, MEMORY, 1]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::READ, &[1, MEMORY, 1]), error(Errno::EBADF));
}

#[test]
fn standard_input_gives_what_there_is() {
    let bench = Bench::new(&[]);
    bench.world.lock().input.extend([b"one".to_vec(), b"two more".to_vec()]);
    assert_eq!(bench.call(nr::READ, &[0, MEMORY, 100]), 3);
    assert_eq!(bench.call(nr::READ, &[0, MEMORY, 4]), 4);
    assert_eq!(bench.get(0, 4), b"two ");
    assert_eq!(bench.call(nr::READ, &[0, MEMORY, 100]), 4);
    assert_eq!(bench.call(nr::READ, &[0, MEMORY, 100]), 0);
    assert_eq!(bench.call(nr::LSEEK, &[0, 0, 0]), error(Errno::ESPIPE));
    assert_eq!(bench.call(nr::FCNTL, &[0, 4, flags::O_NONBLOCK.into()]), 0);
    bench.world.lock().input_goes_on = true;
    assert_eq!(bench.call(nr::READ, &[0, MEMORY, 100]), error(Errno::EAGAIN));
}

#[test]
fn devices_and_texts_are_made_by_the_kernel() {
    let bench = Bench::new(&[]);
    let zero = bench.open("/dev/zero", flags::O_RDWR) as u64;
    bench.put(0x4000, &pattern(5000));
    assert_eq!(bench.call(nr::READ, &[zero, MEMORY + 0x4000, 5000]), 5000);
    assert_eq!(bench.get(0x4000, 5000), vec![0; 5000]);
    let null = bench.open("/dev/null", flags::O_RDWR) as u64;
    assert_eq!(bench.call(nr::READ, &[null, MEMORY, 10]), 0);
    assert_eq!(bench.call(nr::WRITE, &[null, MEMORY, 1 << 40]), 0x7fff_f000);
    let full = bench.open("/dev/full", flags::O_WRONLY) as u64;
    assert_eq!(bench.call(nr::WRITE, &[full, MEMORY, 1]), error(Errno::ENOSPC));
    let arguments = bench.open("/proc/self/cmdline", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::READ, &[arguments, MEMORY, 100]), 9);
    assert_eq!(bench.get(0, 9), b"test\0one\0");
    let maps = bench.open("/proc/self/maps", flags::O_RDONLY) as u64;
    let length = bench.call(nr::READ, &[maps, MEMORY, 4096]);
    let text = bench.get(0, length as usize);
    assert_eq!(
        core::str::from_utf8(&text),
        Ok("10000000-10400000 rw-p 00000000 00:00 0\n20000000-20001000 r--p 00000000 00:00 0\n")
    );
    assert_eq!(bench.open("/proc/nonsense", flags::O_RDONLY), error(Errno::ENOENT));
    assert_eq!(bench.open("/dev/tty", flags::O_RDONLY), error(Errno::ENXIO));
}
