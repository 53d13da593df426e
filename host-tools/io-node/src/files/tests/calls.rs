//! Metadata, lists, names: each call against the host's own.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;

use coppice_protocol::limits::HANDLES_PER_RANK_MAX;
use coppice_protocol::ship::{Handle, TimeChange, Timestamp};
use rustix::fs::{OFlags, RawDir};
use rustix::io::Errno;

use super::{Bench, at, below};

/// A record of getdents64(2): inode, position behind it, type, name.
type Record = (u64, u64, u8, Vec<u8>);

fn records(bytes: &[u8]) -> Vec<Record> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let number = |range: std::ops::Range<usize>| u64::from_le_bytes(rest[range].try_into().unwrap());
        let length = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
        let name = rest[19..length].split(|byte| *byte == 0).next().unwrap();
        found.push((number(0..8), number(8..16), rest[18], name.to_vec()));
        rest = &rest[length..];
    }
    found
}

fn list(bench: &Bench, directory: Handle, position: u64, length: u32) -> Result<(Vec<Record>, u64), Errno> {
    let (bytes, next) = bench.files.list(directory, position, length)?.run()?;
    assert!(bytes.len() <= length as usize);
    Ok((records(&bytes), next))
}

#[test]
fn lists_are_the_hosts() {
    let bench = Bench::new();
    std::fs::create_dir(bench.host("dir")).unwrap();
    for index in 0..300 {
        bench.write(&format!("dir/file with a name {index}"), "");
    }
    bench.link("dir/link", "x");
    std::fs::create_dir(bench.host("dir/sub")).unwrap();
    let host = std::fs::File::open(bench.host("dir")).unwrap();
    let mut buffer = Vec::with_capacity(65_536);
    let mut expected = Vec::new();
    let mut direct = RawDir::new(&host, buffer.spare_capacity_mut());
    while let Some(entry) = direct.next() {
        let entry = entry.unwrap();
        let kind = entry.file_type().as_raw_mode() >> 12;
        expected.push((entry.ino(), entry.next_entry_cookie(), kind as u8, entry.file_name().to_bytes().to_vec()));
    }
    let handle = bench.open("dir", OFlags::DIRECTORY).unwrap();
    // In one piece, and in small ones.
    assert_eq!(list(&bench, handle, 0, 65_536).unwrap().0, expected);
    let (mut position, mut found) = (0, Vec::new());
    loop {
        let (records, next) = list(&bench, handle, position, 256).unwrap();
        if records.is_empty() {
            break;
        }
        assert_eq!(records.last().unwrap().1, next);
        found.extend(records);
        position = next;
    }
    assert_eq!(found, expected);
    // From the middle, again, and in any order.
    for index in [200, 3, 100, 200] {
        assert_eq!(list(&bench, handle, expected[index].1, 65_536).unwrap().0, expected[index + 1..]);
    }
    assert_eq!(list(&bench, handle, 0, 8).unwrap_err(), Errno::INVAL);
    let file = bench.open("dir/file with a name 1", OFlags::RDONLY).unwrap();
    assert_eq!(list(&bench, file, 0, 100).unwrap_err(), Errno::NOTDIR);
    let path = bench.open("dir", OFlags::PATH).unwrap();
    assert_eq!(list(&bench, path, 0, 4096).unwrap_err(), Errno::BADF);
}

#[test]
fn nothing_lies_above_the_root() {
    let bench = Bench::new();
    let handle = bench.open("/..", OFlags::DIRECTORY).unwrap();
    let own = std::fs::metadata(bench.host("")).unwrap().ino();
    let found = list(&bench, handle, 0, 4096).unwrap().0;
    let inodes: HashSet<u64> = found.iter().map(|record| record.0).collect();
    assert_eq!((found.len(), inodes), (2, HashSet::from([own])));
}

#[test]
fn status_is_the_hosts() {
    let bench = Bench::new();
    bench.write("file", "12345");
    bench.link("link", "file");
    let host = std::fs::metadata(bench.host("file")).unwrap();
    for path in ["file", "link"] {
        let status = bench.files.stat(&at(path), true).unwrap();
        assert_eq!((status.device, status.inode, status.mode), (host.dev(), host.ino(), host.mode()));
        assert_eq!((status.links, status.size, status.blocks), (host.nlink(), 5, host.blocks()));
        assert_eq!((status.user, status.group, status.special_device), (host.uid(), host.gid(), host.rdev()));
        assert_eq!(u64::from(status.block_size), host.blksize());
        assert_eq!(
            (status.modified.seconds, i64::from(status.modified.nanoseconds)),
            (host.mtime(), host.mtime_nsec())
        );
        assert_eq!((status.changed.seconds, i64::from(status.changed.nanoseconds)), (host.ctime(), host.ctime_nsec()));
        assert_eq!(
            (status.accessed.seconds, i64::from(status.accessed.nanoseconds)),
            (host.atime(), host.atime_nsec())
        );
        assert_eq!(status.created.is_some(), host.created().is_ok());
    }
    let link = bench.files.stat(&at("link"), false).unwrap();
    assert_eq!(link.inode, std::fs::symlink_metadata(bench.host("link")).unwrap().ino());
    let handle = bench.open("file", OFlags::RDONLY).unwrap();
    assert_eq!(bench.files.handle_stat(handle).unwrap().inode, host.ino());
    let direct = rustix::fs::statfs(bench.host("file")).unwrap();
    for status in [bench.files.file_system(&at("link")).unwrap(), bench.files.handle_file_system(handle).unwrap()] {
        assert_eq!((status.kind, status.blocks), (direct.f_type as u64, direct.f_blocks));
        assert_eq!((status.block_size, status.name_bytes_max), (direct.f_bsize as u64, direct.f_namelen as u64));
    }
}

#[test]
fn links_are_read() {
    let bench = Bench::new();
    bench.link("link", "../any where\n");
    bench.write("file", "");
    assert_eq!(bench.files.read_link(&at("link")).unwrap(), b"../any where\n");
    assert_eq!(bench.files.read_link(&at("file")).unwrap_err(), Errno::INVAL);
    assert_eq!(bench.files.read_link(&at("none")).unwrap_err(), Errno::NOENT);
    let link = bench.open("link", OFlags::PATH | OFlags::NOFOLLOW).unwrap();
    assert_eq!(bench.files.read_link(&below(link, "")).unwrap(), b"../any where\n");
    assert_eq!(bench.open("link", OFlags::NOFOLLOW).unwrap_err(), Errno::LOOP);
}

#[test]
fn times_and_modes() {
    let bench = Bench::new();
    bench.write("file", "");
    bench.link("link", "file");
    let to = |seconds| TimeChange::To(Timestamp { seconds, nanoseconds: 123_456_789 });
    bench.files.change_times(&at("link"), to(-5), to(1 << 33), true).unwrap();
    bench.files.change_times(&at("link"), to(7), TimeChange::Omit, false).unwrap();
    let host = std::fs::metadata(bench.host("file")).unwrap();
    assert_eq!((host.atime(), host.mtime(), host.mtime_nsec()), (-5, 1 << 33, 123_456_789));
    assert_eq!(std::fs::symlink_metadata(bench.host("link")).unwrap().atime(), 7);
    let handle = bench.open("file", OFlags::RDONLY).unwrap();
    bench.files.handle_change_times(handle, TimeChange::Omit, TimeChange::Now).unwrap();
    let host = std::fs::metadata(bench.host("file")).unwrap();
    assert!(host.atime() == -5 && host.mtime() < 1 << 33);
    let bad = TimeChange::To(Timestamp { seconds: 0, nanoseconds: 1_000_000_000 });
    assert_eq!(bench.files.change_times(&at("file"), bad, bad, true).unwrap_err(), Errno::INVAL);
    bench.files.change_mode(&at("link"), 0o1604).unwrap();
    assert_eq!(std::fs::metadata(bench.host("file")).unwrap().mode() & 0o7777, 0o1604);
    bench.files.handle_change_mode(handle, 0o444).unwrap();
    assert_eq!(std::fs::metadata(bench.host("file")).unwrap().mode() & 0o7777, 0o444);
    bench.files.set_flags(handle, OFlags::NOATIME.bits() | OFlags::APPEND.bits()).unwrap();
    let path = bench.open("file", OFlags::PATH).unwrap();
    assert_eq!(bench.files.handle_change_mode(path, 0o777).unwrap_err(), Errno::BADF);
    assert_eq!(bench.files.handle_change_times(path, TimeChange::Now, TimeChange::Now).unwrap_err(), Errno::BADF);
}

#[test]
fn access_is_checked() {
    let bench = Bench::new();
    bench.write("file", "");
    bench.link("dangling", "none");
    let handle = bench.open("file", OFlags::PATH).unwrap();
    bench.files.access(&below(handle, ""), 6, 0x1000).unwrap();
    assert_eq!(bench.files.access(&below(handle, ""), 1, 0x1000).unwrap_err(), Errno::ACCESS);
    assert_eq!(bench.files.access(&below(Handle(77), ""), 0, 0x1000).unwrap_err(), Errno::BADF);
    bench.files.access(&at("file"), 0, 0).unwrap();
    bench.files.access(&at("file"), 6, 0x200).unwrap();
    assert_eq!(bench.files.access(&at("file"), 1, 0).unwrap_err(), Errno::ACCESS);
    assert_eq!(bench.files.access(&at("file"), 8, 0).unwrap_err(), Errno::INVAL);
    assert_eq!(bench.files.access(&at("file"), 0, 0x8000).unwrap_err(), Errno::INVAL);
    assert_eq!(bench.files.access(&at("dangling"), 0, 0).unwrap_err(), Errno::NOENT);
    bench.files.access(&at("dangling"), 0, 0x100).unwrap();
}

#[test]
fn renames_by_flags() {
    let bench = Bench::new();
    bench.write("a", "a");
    bench.write("b", "b");
    assert_eq!(bench.files.rename(&at("a"), &at("b"), 1).unwrap_err(), Errno::EXIST);
    bench.files.rename(&at("a"), &at("b"), 2).unwrap();
    assert_eq!(std::fs::read_to_string(bench.host("a")).unwrap(), "b");
    for flags in [3, 4, 8] {
        assert_eq!(bench.files.rename(&at("a"), &at("b"), flags).unwrap_err(), Errno::INVAL);
    }
}

#[test]
fn handles_have_a_limit_and_an_end() {
    let bench = Bench::new();
    bench.write("file", "");
    let first = bench.open("file", OFlags::RDONLY).unwrap();
    for _ in 1..HANDLES_PER_RANK_MAX {
        bench.open("/", OFlags::PATH).unwrap();
    }
    // Refused before anything is made or cut.
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC;
    assert_eq!(bench.open("new", flags).unwrap_err(), Errno::MFILE);
    assert!(!bench.host("new").exists());
    bench.files.close(first).unwrap();
    assert_eq!(bench.files.close(first).unwrap_err(), Errno::BADF);
    let next = bench.open("new", flags).unwrap();
    assert_ne!(next, first);
    assert_eq!(bench.files.stat(&below(first, "x"), true).unwrap_err(), Errno::BADF);
    assert_eq!(bench.files.stat(&below(next, "x"), true).unwrap_err(), Errno::NOTDIR);
    assert!(bench.files.stat(&below(first, "/new"), true).is_ok());
}
