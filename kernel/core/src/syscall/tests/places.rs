//! Paths, directories, and what files are.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem::offset_of;

use coppice_protocol::ship::{Call, Location};
use coppice_protocol::syscalls as nr;

use crate::abi::{u16_at, u32_at, u64_at};
use crate::errno::Errno;
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY};

const AT_FDCWD: u64 = (-100_i64).cast_unsigned();
const AT_EMPTY_PATH: u64 = 0x1000;
const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
const STATUS: u64 = 0x8000;

fn error(errno: Errno) -> i64 {
    -i64::from(errno.0)
}

fn mode(bench: &Bench) -> u32 {
    u32_at(&bench.get(STATUS, 144), offset_of!(libc::stat, st_mode))
}

#[test]
fn relative_paths_start_where_they_should() {
    let bench = Bench::new(&[("/work/a", b"1"), ("/work/sub/b", b"22"), ("/top", b"333")]);
    assert_eq!(bench.open("a", flags::O_RDONLY), 3);
    assert_eq!(bench.open("sub/../a", flags::O_RDONLY), 4);
    let directory = bench.open("sub", flags::O_RDONLY | flags::O_DIRECTORY) as u64;
    let path = bench.text(0, "b");
    assert!(bench.call(nr::OPENAT, &[directory, path, 0]) > 0);
    assert_eq!(bench.call(nr::OPENAT, &[AT_FDCWD, path, 0]), error(Errno::ENOENT));
    assert_eq!(bench.call(nr::OPENAT, &[3, path, 0]), error(Errno::ENOTDIR));
    assert_eq!(bench.call(nr::OPENAT, &[77, path, 0]), error(Errno::EBADF));
    assert_eq!(bench.open("", flags::O_RDONLY), error(Errno::ENOENT));
    assert_eq!(bench.open("x".repeat(4096), flags::O_RDONLY), error(Errno::ENAMETOOLONG));
    assert_eq!(bench.call(nr::OPEN, &[5, 0, 0]), error(Errno::EFAULT));
}

/// Any bytes but zeros and slashes are a name, for every call that takes or gives one.
#[test]
fn names_are_bytes() {
    const NAMES: [&[u8]; 4] = [b"\xff\xfe", b"\xc3", b"\n\x1b[2J", "\u{feff}ü".as_bytes()];
    let bench = Bench::new(&[("/work/a", b"1")]);
    let text_of = |length: i64| bench.get(0x4000, usize::try_from(length).expect("no error"));
    for name in NAMES {
        let path = [b"/work/", name].concat();
        assert!(bench.open(name, flags::O_CREAT | flags::O_RDWR) > 0, "{name:?}");
        assert!(bench.world.lock().files.contains_key(&path), "{name:?}");
        assert_eq!(bench.call(nr::STAT, &[bench.text(0, name), MEMORY + STATUS]), 0, "{name:?}");
        assert_eq!(bench.call(nr::NEWFSTATAT, &[AT_FDCWD, bench.text(0, &path), MEMORY + STATUS, 0]), 0, "{name:?}");
        // In a directory of that name.
        let below = [b"/dir", name, b"/", name].concat();
        assert!(bench.open(&below, flags::O_CREAT | flags::O_RDWR) > 0, "{name:?}");
        assert_eq!(bench.call(nr::CHDIR, &[bench.text(0, [b"/dir", name].concat())]), 0, "{name:?}");
        let length = bench.call(nr::GETCWD, &[MEMORY + 0x4000, 100]);
        assert_eq!(text_of(length), [b"/dir", name, b"\0"].concat());
        assert!(bench.open(name, flags::O_RDONLY) > 0, "{name:?}");
        // In the kernel's own directory.
        let shared = [b"/dev/shm/", name].concat();
        assert!(bench.open(&shared, flags::O_CREAT | flags::O_RDWR) > 0, "{name:?}");
        let directory = bench.open("/dev/shm", flags::O_RDONLY | flags::O_DIRECTORY) as u64;
        let listed = text_of(bench.call(nr::GETDENTS64, &[directory, MEMORY + 0x4000, 1000]));
        assert!(listed.windows(name.len()).any(|part| part == name), "{name:?}");
        assert_eq!(bench.call(nr::UNLINK, &[bench.text(0, &shared)]), 0, "{name:?}");
        let label = bench.call(nr::MEMFD_CREATE, &[bench.text(0, name), 0]);
        let path = bench.text(0, alloc::format!("/proc/self/fd/{label}"));
        let length = bench.call(nr::READLINK, &[path, MEMORY + 0x4000, 100]);
        assert_eq!(text_of(length), [b"/memfd:", name, b" (deleted)"].concat());
        assert_eq!(bench.call(nr::CHDIR, &[bench.text(0, "/work")]), 0);
        // What the I/O node is asked is what the program said.
        for (number, arguments) in [
            (nr::SYMLINK, [bench.text(0, name), bench.text(0x100, name)]),
            (nr::RENAME, [bench.text(0x200, name), bench.text(0x300, [name, name].concat())]),
        ] {
            assert_eq!(bench.call(number, &arguments), error(Errno::EOPNOTSUPP));
        }
        let at = |path: Vec<u8>| Location { directory: None, path: path.into() };
        let (of_name, of_both) = (at([b"/work/", name].concat()), at([b"/work/", name, name].concat()));
        let world = bench.world.lock();
        let [.., link, rename] = &world.calls[..] else { panic!("two calls") };
        assert_eq!(*link, Call::SymbolicLink { target: name.into(), at: of_name.clone() });
        assert_eq!(*rename, Call::Rename { from: of_name, to: of_both, flags: 0 });
    }
}

/// A thread's name is bytes; where it stands in a line, what would end that is escaped as Linux does.
#[test]
fn the_name_of_a_thread_is_bytes() {
    const PR_SET_NAME: u64 = 15;
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::PRCTL, &[PR_SET_NAME, bench.text(0, b"a\xff\n\\b")]), 0);
    let read = |path: &str| {
        let file = bench.open(path, flags::O_RDONLY) as u64;
        let length = bench.call(nr::READ, &[file, MEMORY + 0x4000, 4096]);
        bench.get(0x4000, usize::try_from(length).expect("no error"))
    };
    assert_eq!(read("/proc/self/comm"), b"a\xff\n\\b\n");
    assert!(read("/proc/self/status").starts_with(b"Name:\ta\xff\\n\\\\b\nUmask:\t"));
    assert!(read("/proc/self/stat").starts_with(b"1002 (a\xff\\n\\\\b) R 1 "));
}

#[test]
fn the_working_directory_moves() {
    let bench = Bench::new(&[("/work/a", b"1"), ("/work/sub/b", b"22")]);
    let path = bench.text(0, "sub/.");
    assert_eq!(bench.call(nr::CHDIR, &[path]), 0);
    assert_eq!(bench.call(nr::GETCWD, &[MEMORY + 0x100, 100]), 10);
    assert_eq!(bench.get(0x100, 10), b"/work/sub\0");
    assert_eq!(bench.call(nr::GETCWD, &[MEMORY + 0x100, 9]), error(Errno::ERANGE));
    assert!(bench.open("b", flags::O_RDONLY) > 0);
    let path = bench.text(0, "b");
    assert_eq!(bench.call(nr::CHDIR, &[path]), error(Errno::ENOTDIR));
    let path = bench.text(0, "/dev");
    assert_eq!(bench.call(nr::CHDIR, &[path]), 0);
    assert!(bench.open("null", flags::O_RDWR) > 0);
    assert!(bench.open("../work/a", flags::O_RDONLY) > 0);
    let work = bench.open("/work", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::FCHDIR, &[work]), 0);
    assert!(bench.open("a", flags::O_RDONLY) > 0);
    assert_eq!(bench.call(nr::FCHDIR, &[0]), error(Errno::ENOTDIR));
}

#[test]
fn files_are_what_the_io_node_says_and_streams_are_pipes() {
    let bench = Bench::new(&[("/work/a", b"12345")]);
    let path = bench.text(0, "a");
    assert_eq!(bench.call(nr::STAT, &[path, MEMORY + STATUS]), 0);
    let by_path = bench.get(STATUS, 144);
    assert_eq!(u64_at(&by_path, offset_of!(libc::stat, st_size)), 5);
    let file = bench.open("a", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::FSTAT, &[file, MEMORY + STATUS]), 0);
    assert_eq!(bench.get(STATUS, 144), by_path);
    let empty = bench.text(0, "");
    assert_eq!(bench.call(nr::NEWFSTATAT, &[file, empty, MEMORY + STATUS, AT_EMPTY_PATH]), 0);
    assert_eq!(bench.get(STATUS, 144), by_path);
    assert_eq!(bench.call(nr::NEWFSTATAT, &[file, empty, MEMORY + STATUS, 0]), error(Errno::ENOENT));
    assert_eq!(bench.call(nr::NEWFSTATAT, &[file, empty, MEMORY + STATUS, 4]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::NEWFSTATAT, &[AT_FDCWD, empty, MEMORY + STATUS, AT_EMPTY_PATH]), 0);
    assert_eq!(mode(&bench), 0o040_755);
    for number in 0..3 {
        assert_eq!(bench.call(nr::FSTAT, &[number, MEMORY + STATUS]), 0);
        assert_eq!(mode(&bench), 0o010_600);
    }
    assert_eq!(bench.call(nr::STATX, &[file, empty, AT_EMPTY_PATH, 0x7ff, MEMORY + STATUS]), 0);
    assert_eq!(u64_at(&bench.get(STATUS, 256), offset_of!(libc::statx, stx_size)), 5);
    assert_eq!(bench.call(nr::STATX, &[file, empty, 0x6000, 0, MEMORY + STATUS]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::FSTAT, &[file, 8]), error(Errno::EFAULT));
}

#[test]
fn the_kernels_own_entries_are_what_programs_expect() {
    let bench = Bench::new(&[("/work/a", b"1")]);
    let stat = |path: &str, how: u64| {
        let path = bench.text(0, path);
        let result = bench.call(nr::NEWFSTATAT, &[AT_FDCWD, path, MEMORY + STATUS, how]);
        if result == 0 { Ok(mode(&bench)) } else { Err(result) }
    };
    assert_eq!(stat("/dev/null", 0), Ok(0o020_666));
    assert_eq!(u64_at(&bench.get(STATUS, 144), offset_of!(libc::stat, st_rdev)), libc::makedev(1, 3));
    assert_eq!(stat("/proc/self/exe", 0), Ok(0o100_755));
    assert_eq!(stat("/proc/self/exe", AT_SYMLINK_NOFOLLOW), Ok(0o120_777));
    assert_eq!(stat("/proc", 0), Ok(0o040_555));
    assert_eq!(stat("/dev/stdin", 0), Ok(0o010_600));
    assert_eq!(stat("/proc/kcore", 0), Err(error(Errno::ENOENT)));
    let read_link = |path: &str| {
        let path = bench.text(0, path);
        let length = bench.call(nr::READLINK, &[path, MEMORY + 0x100, 100]);
        if length < 0 { Err(length) } else { Ok(bench.get(0x100, length as usize)) }
    };
    assert_eq!(read_link("/proc/self/exe"), Ok(b"/work/bin/test".to_vec()));
    assert_eq!(read_link("/proc/self"), Ok(b"1002".to_vec()));
    assert_eq!(read_link("/dev/null"), Err(error(Errno::EINVAL)));
    let path = bench.text(0, "/dev/new");
    assert_eq!(bench.call(nr::MKDIR, &[path, 0o777]), error(Errno::ENOENT));
    let path = bench.text(0, "/dev/null");
    assert_eq!(bench.call(nr::UNLINK, &[path]), error(Errno::EROFS));
    assert_eq!(bench.call(nr::ACCESS, &[path, 2]), 0);
    assert_eq!(bench.call(nr::ACCESS, &[path, 1]), error(Errno::EACCES));
    assert_eq!(bench.call(nr::ACCESS, &[path, 8]), error(Errno::EINVAL));
}

#[test]
fn names_of_nodes_are_the_kernels_and_the_rest_of_etc_the_roots() {
    let files: [(&str, &[u8]); 3] = [("/etc/hosts", b"other"), ("/etc/hostname", b"other"), ("/etc/passwd", b"root")];
    let bench = Bench::with_size(3, &files);
    let mut text = Vec::new();
    let hosts = bench.open("/etc/hosts", flags::O_RDONLY) as u64;
    loop {
        let length = bench.call(nr::READ, &[hosts, MEMORY + 0x1000, 20]);
        if length == 0 {
            break;
        }
        text.extend(bench.get(0x1000, length as usize));
    }
    assert_eq!(bench.call(nr::LSEEK, &[hosts, 0, 2]), text.len() as i64);
    let text = String::from_utf8(text).expect("letters");
    let words: Vec<&str> = text.split_whitespace().collect();
    let expected = ["127.0.0.1", "localhost", "10.128.0.1", "node0", "10.128.0.2", "node1", "10.128.0.3", "node2"];
    assert_eq!(words, expected);
    assert_eq!(bench.call(nr::FSTAT, &[hosts, MEMORY + 0x1000]), 0);
    assert_eq!(bench.get(0x1000 + 48, 8), (text.len() as u64).to_le_bytes());
    let name = bench.open("/etc/hostname", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::READ, &[name, MEMORY + 0x1000, 20]), 6);
    assert_eq!(bench.get(0x1000, 6), b"node2\n");
    assert_eq!(bench.open("/etc/hosts", flags::O_WRONLY), error(Errno::EACCES));
    let path = bench.text(0, "/etc/hosts");
    assert_eq!(bench.call(nr::UNLINK, &[path]), error(Errno::EROFS));
    assert!(bench.world.lock().calls.is_empty());
    let passwords = bench.open("/etc/passwd", flags::O_RDONLY) as u64;
    assert_eq!(bench.call(nr::READ, &[passwords, MEMORY + 0x1000, 20]), 4);
}

#[test]
fn listings_go_on_where_they_stopped() {
    let bench = Bench::new(&[]);
    let directory = bench.open("/dev", flags::O_RDONLY | flags::O_DIRECTORY) as u64;
    let mut names = Vec::new();
    loop {
        let length = bench.call(nr::GETDENTS64, &[directory, MEMORY, 64]);
        assert!(length >= 0);
        if length == 0 {
            break;
        }
        let bytes = bench.get(0, length as usize);
        let mut at = 0;
        while at < bytes.len() {
            let name = &bytes[at + 19..];
            let end = name.iter().position(|byte| *byte == 0).expect("a terminating zero");
            names.push(String::from_utf8_lossy(&name[..end]).into_owned());
            at += usize::from(u16_at(&bytes, at + 16));
        }
    }
    let expected =
        [".", "..", "fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"];
    assert_eq!(names, expected);
    assert_eq!(bench.call(nr::LSEEK, &[directory, 0, 0]), 0);
    assert_eq!(bench.call(nr::GETDENTS64, &[directory, MEMORY, 10]), error(Errno::EINVAL));
    assert_eq!(bench.call(nr::GETDENTS64, &[0, MEMORY, 100]), error(Errno::ENOTDIR));
}

#[test]
fn the_mask_is_taken_off_new_modes() {
    let bench = Bench::new(&[]);
    assert_eq!(bench.call(nr::UMASK, &[0o77]), 0o22);
    let path = bench.text(0, "/new");
    assert!(bench.call(nr::OPEN, &[path, (flags::O_CREAT | flags::O_WRONLY).into(), 0o7666]) > 0);
    let path = bench.text(0, "d");
    assert_eq!(bench.call(nr::MKDIR, &[path, 0o777]), error(Errno::EOPNOTSUPP));
    let world = bench.world.lock();
    let modes: Vec<u32> = world
        .calls
        .iter()
        .filter_map(|call| match call {
            Call::Open { mode, .. } | Call::MakeDirectory { mode, .. } => Some(*mode),
            _ => None,
        })
        .collect();
    assert_eq!(modes, [0o7600, 0o700]);
}

/// What the kernel makes is found from the root's descriptor as from the root, and nothing else is.
#[test]
fn the_kernels_own_is_below_the_roots_descriptor() {
    let bench = Bench::new(&[("/work/a", b"1")]);
    let root = bench.open("/", flags::O_RDONLY | flags::O_DIRECTORY) as u64;
    let work = bench.open("/work", flags::O_RDONLY | flags::O_DIRECTORY) as u64;
    let at = |directory: u64, path: &str| bench.call(nr::OPENAT, &[directory, bench.text(0, path), 0]);
    let read = |file: i64| {
        let length = bench.call(nr::READ, &[file.cast_unsigned(), MEMORY + 0x4000, 4096]);
        bench.get(0x4000, usize::try_from(length).expect("no error"))
    };
    assert_eq!(read(at(root, "sys/devices/system/cpu/cpu0/topology/core_cpus")), b"1\n");
    assert_eq!(read(at(root, "./work/../proc/../work/a")), b"1");
    assert_eq!(at(root, "proc/none"), error(Errno::ENOENT));
    assert_eq!((read(at(work, "a")), at(work, "sys/devices")), (b"1".to_vec(), error(Errno::ENOENT)));
    let cores = at(root, "sys/devices/system/cpu").cast_unsigned();
    assert_eq!(read(at(cores, "cpu0/topology/package_cpus_list")), b"0\n");
    assert_eq!(read(bench.open("/sys/devices/system/node/node0/cpumap", 0)), b"1\n");
    let total = |path: &str| {
        let text = alloc::string::String::from_utf8(read(bench.open(path, 0))).expect("letters");
        let line = text.lines().find(|line| line.contains("MemTotal:")).expect("a line");
        line.split_whitespace().rev().nth(1).expect("a number").parse::<u64>().expect("a number")
    };
    assert_eq!(total("/sys/devices/system/node/node0/meminfo"), total("/proc/meminfo"));
}
