//! Descriptors: numbers, copies, flags, closing.

use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

#[test]
fn a_handle_goes_back_when_its_last_descriptor_does() {
    let bench = Bench::new(&[("/a", b"x")]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    let copy = bench.call(nr::DUP, &[file]) as u64;
    assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
    bench.rest();
    assert_eq!(bench.world.lock().open_count(), 1);
    assert_eq!(bench.call(nr::CLOSE, &[copy]), 0);
    bench.rest();
    assert_eq!(bench.world.lock().open_count(), 0);
    assert_eq!(bench.call(nr::CLOSE, &[copy]), error(Errno::EBADF));
}

#[test]
fn a_mapping_keeps_its_file_open() {
    let bench = Bench::new(&[("/a", b"mapped bytes")]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    let map = bench.call(nr::MMAP, &[0, 4096, 1, 2, file, 0]);
    assert!(map > 0, "{map}");
    assert_eq!(bench.call(nr::CLOSE, &[file]), 0);
    bench.rest();
    assert_eq!(bench.world.lock().open_count(), 1);
    // The call reads its buffer from the mapping, which is fetched first.
    assert_eq!(bench.call(nr::WRITE, &[1, map as u64, 6]), 6);
    assert_eq!(bench.world.lock().output, b"mapped");
    assert_eq!(bench.call(nr::MUNMAP, &[map as u64, 4096]), 0);
    bench.rest();
    assert_eq!(bench.world.lock().open_count(), 0);
}

#[test]
fn what_cannot_be_mapped_is_not() {
    let bench = Bench::new(&[("/work/a", b"x")]);
    let writer = bench.open("a", flags::O_WRONLY) as u64;
    let reader = bench.open("a", flags::O_RDONLY) as u64;
    let directory = bench.open("/work", flags::O_RDONLY) as u64;
    let map = |protection, how, file, offset| bench.call(nr::MMAP, &[0, 4096, protection, how, file, offset]);
    assert_eq!(map(1, 2, writer, 0), error(Errno::EACCES));
    assert_eq!(map(3, 1, reader, 0), error(Errno::EACCES));
    assert_eq!(map(1, 2, directory, 0), error(Errno::ENODEV));
    assert_eq!(map(1, 2, 1, 0), error(Errno::EACCES));
    assert_eq!(map(1, 2, 77, 0), error(Errno::EBADF));
    assert_eq!(map(1, 2, reader, 1), error(Errno::EINVAL));
}

#[test]
fn dup2_replaces_and_dup3_refuses_itself() {
    let bench = Bench::new(&[("/a", b"x")]);
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::DUP2, &[file, 1]), 1);
    assert_eq!(bench.call(nr::READ, &[1, MEMORY, 1]), 1);
    assert_eq!(bench.call(nr::DUP2, &[file, file]), file as i64);
    assert_eq!(bench.call(nr::DUP2, &[77, 77]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::DUP3, &[file, file, 0]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::DUP2, &[file, 5000]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::DUP3, &[file, 9, flags::O_CLOEXEC.into()]), 9);
    assert_eq!(bench.call(nr::FCNTL, &[9, 1, 0]), 1);
    assert_eq!(bench.call(nr::FCNTL, &[9, 0, 100]), 100);
    assert_eq!(bench.call(nr::FCNTL, &[100, 1, 0]), 0);
    assert_eq!(bench.call(nr::FCNTL, &[9, 1030, 100]), 101);
    assert_eq!(bench.call(nr::FCNTL, &[101, 1, 0]), 1);
    assert_eq!(bench.call(nr::FCNTL, &[9, 0, 1024]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::CLOSE_RANGE, &[3, u64::from(u32::MAX), 0]), 0);
    assert_eq!(bench.call(nr::FCNTL, &[100, 1, 0]), error(Errno::EBADF));
    assert_eq!(bench.call(nr::CLOSE_RANGE, &[5, 3, 0]), error(Errno::EINVAL));
}

#[test]
fn the_number_of_descriptors_is_limited_and_nothing_leaks() {
    let bench = Bench::new(&[("/a", b"x")]);
    for _ in 3..1024 {
        assert!(bench.call(nr::DUP, &[0]) > 0);
    }
    assert_eq!(bench.call(nr::DUP, &[0]), error(Errno::EMFILE));
    assert_eq!(bench.open("/a", flags::O_RDONLY), error(Errno::EMFILE));
    assert_eq!(bench.world.lock().open_count(), 0);
}

#[test]
fn nothing_is_a_terminal() {
    let bench = Bench::new(&[("/a", b"123456")]);
    for number in 0..3 {
        assert_eq!(bench.call(nr::IOCTL, &[number, 0x5401, MEMORY]), error(Errno::ENOTTY));
        assert_eq!(bench.call(nr::IOCTL, &[number, 0x5413, MEMORY]), error(Errno::ENOTTY));
    }
    let file = bench.open("/a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::LSEEK, &[file, 2, 0]), 2);
    assert_eq!(bench.call(nr::IOCTL, &[file, 0x541b, MEMORY]), 0);
    assert_eq!(bench.get(0, 4), 4_u32.to_le_bytes());
}
