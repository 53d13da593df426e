//! Files that are mapped privately: what is told of them, and which pages they take.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use core::sync::atomic::Ordering;

use coppice_protocol::lease::Lease;
use coppice_protocol::syscalls as nr;

use super::{PAGE, PATH, PRIVATE, READ_WRITE, bench, open, peek, poke, read, write};
use crate::files::flags;
use crate::process::testing::{Bench, MEMORY, pattern, pool};

#[test]
fn what_is_mapped_is_told_with_its_file() {
    let bench = Bench::new(&[("/work/a\nb", &[1; 10_000])]);
    let file = bench.open("a\nb", flags::O_RDWR) as u64;
    let private = bench.call(nr::MMAP, &[0, 4096, 5, 2, file, 4096]);
    let shared = bench.call(nr::MMAP, &[0, 8192, 3, 1, file, 0]);
    let maps = bench.open("/proc/self/maps", flags::O_RDONLY) as u64;
    let length = bench.call(nr::READ, &[maps, MEMORY, 4096]);
    let text = String::from_utf8(bench.get(0, length as usize)).expect("text");
    for (start, bytes, rest) in [(private, 4096, " r-xp 00001000 "), (shared, 8192, " rw-s 00000000 ")] {
        let line = text.lines().find(|line| line.starts_with(&format!("{start:08x}-{:08x}{rest}", start + bytes)));
        let line = line.unwrap_or_else(|| panic!("none for {start:#x}: {text}"));
        assert_eq!(line.find("/work/a\\012b"), Some(73), "where Linux has it: {line}");
    }
}

/// What ranks map of a file privately is in memory once, with what is kept of it, until one of them writes to it.
#[test]
fn ranks_that_map_a_file_privately_share_its_pages() {
    const PAGES: u64 = 20;
    let length = (PAGES * PAGE) as usize - 100;
    let bytes = pattern(length);
    let bench = bench(Some(Lease::Sole), &bytes);
    let other = bench.sibling(None);
    let (file, others) = (open(&bench), open(&other));
    let users = || u64::from(pool().usage().user);
    let one = bench.call(nr::MMAP, &[0, PAGES * PAGE, READ_WRITE, PRIVATE, file, 0]) as u64;
    let came = |bench: &Bench| bench.process.account.major_faults.load(Ordering::Relaxed);
    assert_eq!(peek(&bench, one, length), Some(bytes.clone()));
    assert!(came(&bench) > 0, "they had to come");
    assert_eq!(read(&bench, file, 0, 5000), bytes[..5000]);
    let before = users();
    let two = other.call(nr::MMAP, &[0, PAGES * PAGE, READ_WRITE, PRIVATE, others, 0]) as u64;
    let again = bench.call(nr::MMAP, &[0, 2 * PAGE, 1, PRIVATE, file, 5 * PAGE]) as u64;
    assert_eq!(peek(&other, two, length), Some(bytes.clone()));
    assert_eq!(peek(&bench, again, 5), Some(bytes[5 * PAGE as usize..][..5].to_vec()));
    assert_eq!(read(&bench, file, 0, 5000), bytes[..5000]);
    assert_eq!(users(), before, "nothing is there twice");
    assert_eq!(came(&other), 0, "they were here");
    assert_eq!(peek(&other, two + length as u64, 100), Some(vec![0; 100]), "behind its end");

    assert!(poke(&other, two + 5000, b"own"));
    assert_eq!(users(), before + 1);
    assert_eq!(peek(&bench, one + 5000, 3), Some(bytes[5000..5003].to_vec()));
    assert_eq!(read(&bench, file, 5000, 3), bytes[5000..5003]);
    write(&bench, file, 0, b"new");
    write(&bench, file, 5000, b"too");
    assert_eq!((peek(&bench, one, 3), peek(&other, two, 3)), (Some(b"new".to_vec()), Some(b"new".to_vec())));
    let (here, there) = (peek(&bench, one + 5000, 3), peek(&other, two + 5000, 3));
    assert_eq!((here, there), (Some(b"too".to_vec()), Some(b"own".to_vec())));

    // What is kept goes when memory is short; what is mapped stays.
    assert_eq!(bench.call(nr::FSYNC, &[file]), 0);
    while bench.process.node.retention.give_back() {}
    assert_eq!(peek(&other, two + 9 * PAGE, 10), Some(bytes[9 * PAGE as usize..][..10].to_vec()));
    assert!(poke(&other, two + 9 * PAGE, b"mine") && poke(&bench, one + 9 * PAGE, b"ours"));
    assert_eq!(peek(&other, two + 9 * PAGE, 4), Some(b"mine".to_vec()));
    let written = bench.file(PATH);
    assert_eq!((&written[..3], &written[5000..5003]), (&b"new"[..], &b"too"[..]));
    assert_eq!(written[9 * PAGE as usize..], bytes[9 * PAGE as usize..]);
}
