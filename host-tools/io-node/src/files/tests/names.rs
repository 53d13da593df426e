//! Names are bytes: any but zeros and slashes, in paths, in links and in what is told of them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use coppice_protocol::ship::Location;
use proptest::prelude::*;
use rustix::fs::OFlags;

use super::Bench;
use crate::files::{Files, Root};

/// A name: often no UTF-8, sometimes what would do harm where it is shown.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("in a name", |byte| !matches!(byte, 0 | b'/'));
    prop::collection::vec(byte, 1..40).prop_filter("a name of its own", |name| name != b"." && name != b"..")
}

fn at(parts: &[&[u8]]) -> Location {
    Location { directory: None, path: [b"/", &*parts.join(&b'/')].concat().into() }
}

fn host(bench: &Bench, parts: &[&[u8]]) -> PathBuf {
    bench.host("").join(OsStr::from_bytes(&parts.join(&b'/')))
}

/// The names in a directory, as a program gets them.
fn names(files: &Files, directory: &Location) -> Vec<Vec<u8>> {
    let (handle, _) = files.open(directory, OFlags::DIRECTORY.bits(), 0).expect("opened");
    let (mut names, mut position) = (Vec::new(), 0);
    loop {
        let (records, next) = files.list(handle, position, 4096).expect("a directory").run().expect("listed");
        let mut rest = &records[..];
        while !rest.is_empty() {
            let length = usize::from(u16::from_le_bytes([rest[16], rest[17]]));
            let name = rest[19..length].split(|byte| *byte == 0).next().expect("a zero behind it");
            names.push(name.to_vec());
            rest = &rest[length..];
        }
        if records.is_empty() {
            break;
        }
        position = next;
    }
    files.close(handle).expect("open");
    names.retain(|name| name != b"." && name != b"..");
    names.sort();
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_call_takes_any_name(directory in name(), one in name(), other in name(), text in name()) {
        prop_assume!(one != other);
        let bench = Bench::new();
        let (dir, one_at, other_at) = (at(&[&directory]), at(&[&directory, &one]), at(&[&directory, &other]));
        bench.files.make_directory(&dir, 0o755).expect("made");
        prop_assert_eq!(bench.files.resolve(&dir).expect("a directory"), dir.path.clone());
        let created = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let (handle, status) = bench.files.open(&one_at, created.bits(), 0o644).expect("made");
        bench.files.close(handle).expect("open");
        prop_assert!(host(&bench, &[&directory, &one]).is_file());
        prop_assert_eq!(bench.files.stat(&one_at, false).expect("there").inode, status.inode);
        prop_assert_eq!(names(&bench.files, &dir), [one.clone()]);
        bench.files.link(&one_at, &other_at, false).expect("linked");
        let mut both = [one.clone(), other.clone()];
        both.sort();
        prop_assert_eq!(names(&bench.files, &dir), both);
        bench.files.remove(&one_at, false).expect("removed");
        bench.files.rename(&other_at, &one_at, 0).expect("renamed");
        bench.files.symbolic_link(&text, &other_at).expect("linked");
        prop_assert_eq!(bench.files.read_link(&other_at).expect("a link"), text.clone());
        let on_host = std::fs::read_link(host(&bench, &[&directory, &other])).expect("a link");
        prop_assert_eq!(on_host.into_os_string().into_vec(), text);
        // Through a link with such a text.
        bench.files.remove(&other_at, false).expect("removed");
        bench.files.symbolic_link(&one, &other_at).expect("linked");
        prop_assert_eq!(bench.files.stat(&other_at, true).expect("there").inode, status.inode);
    }

    #[test]
    fn a_root_and_a_programs_file_may_have_any_name(name in name()) {
        let bench = Bench::new();
        let path = bench.dir.path().join(OsString::from_vec(name.clone()));
        prop_assume!(!path.exists());
        std::fs::create_dir(&path).expect("made");
        std::fs::write(path.join(OsString::from_vec(name.clone())), "12345").expect("written");
        let files = super::files_in(Root::open(&path).expect("opened"));
        prop_assert_eq!(files.stat(&at(&[&name]), true).expect("there").size, 5);
        let file = path.join(OsString::from_vec(name));
        let (_, bytes) = crate::files::Source::open(file.as_os_str().as_bytes()).expect("opened");
        prop_assert_eq!(bytes, 5);
    }
}
