//! Reading and writing.

use coppice_protocol::ship::Handle;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Bench, at, below};
use crate::files::{ReadStart, WriteAt};

fn read(bench: &Bench, file: Handle, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
    match bench.files.read(file, offset, length)? {
        ReadStart::Done(bytes) => Ok(bytes),
        ReadStart::Waits(read) => read.finish(),
    }
}

fn write(bench: &Bench, file: Handle, at: WriteAt, bytes: &[u8]) -> Result<(usize, u64), Errno> {
    bench.files.write(file, at)?.run(bytes)
}

const NEW: OFlags = OFlags::CREATE.union(OFlags::RDWR);

#[test]
fn offsets_are_exact() {
    let bench = Bench::new();
    let file = bench.open("file", NEW).unwrap();
    assert_eq!(write(&bench, file, WriteAt::Offset(3), b"abc").unwrap(), (3, 6));
    assert_eq!(read(&bench, file, 0, 100).unwrap(), b"\0\0\0abc");
    assert_eq!(read(&bench, file, 4, 1).unwrap(), b"b");
    assert_eq!(read(&bench, file, 6, 10).unwrap(), b"");
    assert_eq!(read(&bench, file, 1 << 40, 10).unwrap(), b"");
    assert_eq!(read(&bench, file, 0, 0).unwrap(), b"");
    assert_eq!(read(&bench, file, u64::MAX, 10).unwrap_err(), Errno::INVAL);
    assert_eq!(write(&bench, file, WriteAt::Offset(u64::MAX), b"x").unwrap_err(), Errno::INVAL);
    assert_eq!(write(&bench, file, WriteAt::Offset(0), b"").unwrap(), (0, 0));
    // Longer than a reply can be: as much as it can.
    bench.files.handle_truncate(file, 1 << 20).unwrap();
    assert_eq!(read(&bench, file, 0, u32::MAX).unwrap().len(), coppice_protocol::limits::BULK_BYTES_MAX);
}

#[test]
fn appends_go_to_the_end() {
    let bench = Bench::new();
    bench.write("file", "12");
    // The flag is the node's business: a write at an offset goes there even so.
    let file = bench.open("file", OFlags::RDWR | OFlags::APPEND).unwrap();
    assert_eq!(write(&bench, file, WriteAt::End, b"34").unwrap(), (2, 4));
    std::fs::write(bench.host("file"), "1234567").unwrap();
    assert_eq!(write(&bench, file, WriteAt::End, b"8").unwrap(), (1, 8));
    assert_eq!(write(&bench, file, WriteAt::Offset(0), b"x").unwrap(), (1, 1));
    assert_eq!(std::fs::read_to_string(bench.host("file")).unwrap(), "x2345678");
}

#[test]
fn wrong_files_say_so() {
    let bench = Bench::new();
    bench.write("file", "x");
    let dir = bench.open("/", OFlags::RDONLY).unwrap();
    let path = bench.open("file", OFlags::PATH).unwrap();
    let read_only = bench.open("file", OFlags::RDONLY).unwrap();
    let write_only = bench.open("file", OFlags::WRONLY).unwrap();
    assert_eq!(read(&bench, dir, 0, 1).unwrap_err(), Errno::ISDIR);
    assert_eq!(read(&bench, path, 0, 1).unwrap_err(), Errno::BADF);
    assert_eq!(read(&bench, write_only, 0, 1).unwrap_err(), Errno::BADF);
    assert_eq!(read(&bench, Handle(99), 0, 1).unwrap_err(), Errno::BADF);
    for file in [dir, path, read_only] {
        assert_eq!(write(&bench, file, WriteAt::Offset(0), b"y").unwrap_err(), Errno::BADF);
    }
    assert_eq!(bench.files.handle_truncate(read_only, 0).unwrap_err(), Errno::INVAL);
    assert_eq!(bench.files.handle_truncate(path, 0).unwrap_err(), Errno::BADF);
    assert_eq!(bench.files.truncate(&at("/"), 0).unwrap_err(), Errno::ISDIR);
    assert_eq!(bench.files.truncate(&at("file"), u64::MAX).unwrap_err(), Errno::INVAL);
    assert_eq!(bench.files.synchronise(path, false).unwrap().run().unwrap_err(), Errno::BADF);
}

#[test]
fn holes_are_found() {
    let bench = Bench::new();
    let file = bench.open("file", NEW).unwrap();
    bench.files.allocate(file, 0, 0, 4096).unwrap().run().unwrap();
    write(&bench, file, WriteAt::Offset(0), &[1; 4096]).unwrap();
    write(&bench, file, WriteAt::Offset(1 << 20), b"far").unwrap();
    let direct = std::fs::File::open(bench.host("file")).unwrap();
    for (offset, hole) in [(0, false), (0, true), (5000, false), (5000, true)] {
        let from = if hole { rustix::fs::SeekFrom::Hole(offset) } else { rustix::fs::SeekFrom::Data(offset) };
        let expected = rustix::fs::seek(&direct, from);
        assert_eq!(bench.files.seek_data(file, offset, hole), expected, "{offset} {hole}");
    }
    assert_eq!(bench.files.seek_data(file, 1 << 21, false).unwrap_err(), Errno::NXIO);
    assert_eq!(bench.files.seek_data(file, u64::MAX, false).unwrap_err(), Errno::NXIO);
    assert_eq!(bench.files.allocate(file, 0, 0, 0).unwrap().run().unwrap_err(), Errno::INVAL);
    bench.files.synchronise(file, true).unwrap().run().unwrap();
    bench.files.synchronise(file, false).unwrap().run().unwrap();
}

#[test]
fn nameless_files_get_names() {
    let bench = Bench::new();
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let file = match bench.open("/", flags) {
        Ok(file) => file,
        // Not every file system has them.
        Err(Errno::OPNOTSUPP) => return,
        Err(error) => panic!("{error}"),
    };
    write(&bench, file, WriteAt::Offset(0), b"text").unwrap();
    assert_eq!(std::fs::read_dir(bench.host("")).unwrap().count(), 0);
    bench.files.link(&below(file, ""), &at("named"), false).unwrap();
    assert_eq!(std::fs::read_to_string(bench.host("named")).unwrap(), "text");
    assert_eq!(bench.open("/", OFlags::TMPFILE).unwrap_err(), Errno::INVAL);
    assert_eq!(bench.open("named", flags).unwrap_err(), Errno::NOTDIR);
}

#[test]
fn modes_are_as_given() {
    let bench = Bench::new();
    // But for set-user-id, which no file of the host gets.
    for (mode, given) in [(0o000, 0o000), (0o644, 0o644), (0o777, 0o777), (0o4755, 0o755)] {
        let path = format!("file{mode}");
        bench.files.open(&at(&path), NEW.bits(), mode).unwrap();
        bench.files.make_directory(&at(&format!("dir{mode}")), mode & 0o777).unwrap();
        assert_eq!(bench.files.stat(&at(&path), true).unwrap().mode & 0o7777, given);
        assert_eq!(bench.files.stat(&at(&format!("dir{mode}")), true).unwrap().mode & 0o7777, mode & 0o777);
    }
}
