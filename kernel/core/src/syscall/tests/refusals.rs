//! What Linux refuses though it could be done: names for what is connected, and copies between file systems.

use alloc::format;

use coppice_protocol::syscalls as nr;

use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

const NONBLOCK: u64 = flags::O_NONBLOCK as u64;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

#[test]
fn ends_of_pairs_take_names_as_on_linux() {
    let inet = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, name, length, expected) in [
        (1, &inet[..], 16, Err(Errno::EISCONN)),
        (1, &inet[..], 0, Ok(4)),
        (1, &inet[..], 129, Err(Errno::EINVAL)),
        (2, &inet[..], 16, Err(Errno::EINVAL)),
        (2, &inet[..], -1, Err(Errno::EINVAL)),
        (2, &[1, 0], 2, Err(Errno::EINVAL)),
        (2, b"\x01\0/nobody\0", 11, Err(Errno::ENOENT)),
        (2, b"\x01\0\0nobody", 9, Err(Errno::ECONNREFUSED)),
        (5, &inet[..], 16, Ok(4)),
    ] {
        let bench = Bench::new(&[]);
        assert_eq!(bench.call(nr::SOCKETPAIR, &[1, kind | NONBLOCK, 0, MEMORY]), 0);
        let end = u64::from(bench.get(0, 1)[0]);
        let name = bench.put(0x1000, name);
        let sent = bench.call(nr::SENDTO, &[end, MEMORY, 4, 0, name, i64::from(length).cast_unsigned()]);
        assert_eq!(sent, expected.unwrap_or_else(error), "kind {kind}, name of {length}");
    }
}

#[test]
fn ends_of_pairs_are_neither_bound_nor_connected() {
    let inet = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    for kind in [1, 2, 5] {
        let bench = Bench::new(&[]);
        assert_eq!(bench.call(nr::SOCKETPAIR, &[1, kind | NONBLOCK, 0, MEMORY]), 0);
        let end = u64::from(bench.get(0, 1)[0]);
        for (name, length, bound, connected) in [
            (Some(&inet[..]), 16, Errno::EINVAL, Errno::EINVAL),
            (Some(&inet[..]), 3, Errno::EINVAL, Errno::EINVAL),
            (None, 0, Errno::EINVAL, Errno::EINVAL),
            (None, 3, Errno::EFAULT, Errno::EFAULT),
            (None, 129, Errno::EINVAL, Errno::EINVAL),
            (Some(b"\x01\0/nobody\0"), 11, Errno::EINVAL, Errno::ENOENT),
            (Some(b"\x01\0\0nobody"), 9, Errno::EINVAL, Errno::ECONNREFUSED),
        ] {
            let at = name.map_or(8, |name| bench.put(0x1000, name));
            let say = format!("kind {kind}, name {name:?} of {length}");
            assert_eq!(bench.call(nr::BIND, &[end, at, length]), error(bound), "{say}");
            assert_eq!(bench.call(nr::CONNECT, &[end, at, length]), error(connected), "{say}");
        }
        let accepted = if kind == 2 { Errno::EOPNOTSUPP } else { Errno::EINVAL };
        assert_eq!(bench.call(nr::ACCEPT, &[end, 0, 0]), error(accepted), "kind {kind}");
    }
}

#[test]
fn nothing_is_copied_between_file_systems() {
    let bench = Bench::new(&[("/a", b"1234")]);
    let file = bench.open("/a", flags::O_RDWR) as u64;
    let memory = bench.open("/dev/shm/b", flags::O_CREAT | flags::O_RDWR) as u64;
    let other = bench.open("/dev/shm/c", flags::O_CREAT | flags::O_RDWR) as u64;
    let copy = |from, to| bench.call(nr::COPY_FILE_RANGE, &[from, 0, to, 0, 4, 0]);
    assert_eq!((copy(file, memory), copy(memory, file)), (error(Errno::EXDEV), error(Errno::EXDEV)));
    assert_eq!(copy(memory, other), 0);
    // What is only a place is no file, whatever the other one is.
    let place = bench.open("/a", flags::O_PATH) as u64;
    let directory = bench.open("/", flags::O_RDONLY) as u64;
    assert_eq!((copy(directory, place), copy(place, directory)), (error(Errno::EBADF), error(Errno::EBADF)));
    // sendfile(2) does.
    assert_eq!(bench.call(nr::SENDFILE, &[memory, file, 0, 4]), 4);
}
