//! What a manifest takes up, and what becomes of that.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::limits::{MANIFEST_BYTES_MAX, MANIFEST_PATH_BYTES_MAX};
use super::{Entry, Manifest};
use crate::ship::{Call, FileStatus, Handle, Known, Location, Timestamp};

fn at(path: &str) -> Location {
    Location { directory: None, path: path.into() }
}

fn status(inode: u64, mode: u32) -> Known {
    Known::Status(FileStatus { inode, mode, ..FileStatus::default() }.into())
}

fn stat(path: &str, known: Known) -> Entry {
    Entry::of(&Call::Stat { at: at(path), follow: true }, known, b"", true).expect("it can be asked again")
}

#[test]
fn what_can_be_asked_again_is_an_entry() {
    let open = |path: &str, flags| Call::Open { at: at(path), flags, mode: 0 };
    let opened = Known::Opened { handle: Handle(3), status: FileStatus::default().into(), grant: None };
    for (flags, follow) in [(0, true), (0o400_000, false)] {
        let entry = Entry::of(&open("/a", flags), opened.clone(), b"all of a short file", false).expect("an entry");
        assert!(entry.is_so(&Known::Status(FileStatus::default().into()), b"", false));
        assert_eq!(entry.call, Call::Stat { at: at("/a"), follow });
        assert_eq!(entry.known, Known::Status(FileStatus::default().into()));
    }
    let missing = Entry::of(&open("/a", 0), Known::Failed(2), b"", true).expect("an entry");
    assert_eq!(missing.call, open("/a", 0));
    assert!(Entry::of(&Call::ReadLink(at("/a")), Known::Data, b"there", true).is_some());
    let long = format!("/{}", "x".repeat(MANIFEST_PATH_BYTES_MAX));
    let below = Location { directory: Some(Handle(1)), path: "/a".into() };
    for call in [
        Call::Stat { at: at("a"), follow: true },
        Call::Stat { at: at(&long), follow: true },
        Call::Stat { at: below, follow: true },
        Call::HandleStat(Handle(1)),
        Call::Close(Handle(1)),
    ] {
        assert_eq!(Entry::of(&call, status(1, 0), b"", true), None, "{call:?}");
    }
}

#[test]
fn when_a_file_was_read_last_makes_it_no_other() {
    let was = FileStatus { size: 3, ..FileStatus::default() };
    let entry = stat("/a", Known::Status(was.into()));
    let at = Timestamp { seconds: 5, nanoseconds: 6 };
    assert!(entry.is_so(&Known::Status(FileStatus { accessed: at, ..was }.into()), b"", true));
    assert!(!entry.is_so(&Known::Status(FileStatus { changed: at, ..was }.into()), b"", true));
    assert!(!entry.is_so(&Known::Status(was.into()), b"", false));
    assert!(!entry.is_so(&Known::Failed(2), b"", true));
}

#[test]
fn it_grows_at_its_end_and_is_another_when_it_shrinks() {
    let mut manifest = Manifest::new(1);
    let names = ["/a", "/b", "/c"];
    for name in names {
        manifest.add(stat(name, status(1, 0o100_644)), 2);
        manifest.add(stat(name, status(1, 0o100_644)), 2);
    }
    let paths = |manifest: &Manifest| manifest.entries().iter().map(|entry| entry.call.clone()).collect::<Vec<_>>();
    let calls = names.map(|name| Call::Stat { at: at(name), follow: true });
    assert_eq!((manifest.made(), paths(&manifest)), (1, calls.to_vec()));
    let before = Arc::clone(manifest.entries());
    manifest.are_untrue(&[1, 77], 5);
    assert_eq!((manifest.made(), paths(&manifest)), (5, vec![calls[0].clone(), calls[2].clone()]));
    assert_eq!(before.len(), 3, "who has it has it whole");
    for name in ["/a", "/c"] {
        manifest.add(stat(name, status(1, 0o100_644)), 6);
    }
    assert_eq!((manifest.made(), manifest.entries().len()), (5, 2), "what stays is found where it is");
    manifest.are_untrue(&[], 6);
    assert_eq!(manifest.made(), 5);
    // An answer that is another now comes again, and at the second time no more.
    manifest.add(stat("/a", status(2, 0o100_644)), 7);
    assert_eq!((manifest.made(), manifest.entries().len()), (7, 1));
    manifest.add(stat("/a", status(2, 0o100_644)), 8);
    assert_eq!((manifest.made(), manifest.entries().len()), (7, 2));
    manifest.add(stat("/a", status(3, 0o100_644)), 8);
    manifest.add(stat("/a", status(3, 0o100_644)), 9);
    assert_eq!((manifest.made(), manifest.entries().len()), (8, 1));
    // Directories in which anything is made are left out at once.
    manifest.add(stat("/d", status(9, 0o040_755)), 10);
    manifest.are_untrue(&[1], 11);
    manifest.add(stat("/d", status(9, 0o040_755)), 12);
    assert_eq!((manifest.made(), manifest.entries().len()), (11, 1));
}

#[test]
fn all_of_it_fits_into_a_message_and_what_nobody_asks_any_more_goes() {
    let mut manifest = Manifest::new(1);
    let entry = |number: u32| stat(&format!("/a/path/that/is/rather/long/{number}"), Known::Failed(2));
    let mut number = 0;
    while manifest.refused == 0 {
        manifest.add(entry(number), 2);
        number += 1;
    }
    let bytes = postcard::to_allocvec(&**manifest.entries()).expect("plain data").len();
    assert!(bytes <= MANIFEST_BYTES_MAX + 8 && bytes > MANIFEST_BYTES_MAX * 9 / 10, "{bytes}");
    let most = manifest.entries().len();
    for _ in 0..most {
        assert_eq!(manifest.made(), 1);
        manifest.add(entry(number), 2);
        number += 1;
    }
    assert_eq!((manifest.made(), manifest.entries().len()), (2, 0));
}
