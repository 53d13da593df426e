//! What is kept against a file system that is small enough to be looked at as a whole.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use coppice_protocol::ship::{Call, FileStatus, Handle, Keeping, Known, Location};
use proptest::prelude::{Strategy, prop_assert_eq, proptest};

use super::place::{Place, entries};
use super::table::{Table, Told};
use crate::errno::Errno;
use crate::limits::{KEPT_PATH_BYTES_MAX, NAMES_KEPT_MAX};
use crate::memory::FileIdentity;
use crate::quota::tests::quota;

const KEEPING: Keeping = Keeping { number: 1, is_plain: true, attributes: true };

fn at(path: &str) -> Location {
    Location { directory: None, path: path.into() }
}

fn stat(path: &str) -> Place {
    Place::of(&Call::Stat { at: at(path), follow: true }, None).expect("it can be kept")
}

fn keep(table: &mut Table, path: &str, keeping: Keeping, told: Result<&Told, Errno>, at_ns: u64) {
    let charge = quota().charge(100).expect("memory");
    table.keep(&stat(path), keeping, told, (at_ns, charge));
}

fn file(inode: u64) -> FileStatus {
    FileStatus { inode, links: 1, mode: 0o100_644, ..FileStatus::default() }
}

#[test]
fn paths_that_lead_to_the_same_are_one_if_no_link_can_be_on_the_way() {
    let straight = |path| stat(path).is_straight();
    assert!(straight("/a") && straight("//a/./b") && straight("/a..b"));
    assert!(!straight("/a/../b") && !straight("/a/") && !straight("/a/.") && !straight("/") && !straight("/a/.."));
    assert_eq!(stat("//a/./b").path(), b"/a/b");
    let place = |at, below: Option<&str>| Place::of(&Call::ReadLink(at), below.map(str::as_bytes));
    assert!(place(at("a"), None).is_none() && place(at("a"), Some("/b")).is_none());
    let long = format!("/{}", "a".repeat(KEPT_PATH_BYTES_MAX));
    assert!(place(at(&long), None).is_none());
    let relative = |path: &str| Location { directory: Some(Handle(1)), path: path.into() };
    let below = |path: &str| place(relative(path), Some("/b")).map(|place| place.path().to_vec());
    assert_eq!(below("a/./c"), Some(b"/b/a/c".to_vec()));
    assert!(place(relative("a"), None).is_none(), "nobody knows where");
    for path in ["", ".", "..", "a/", "../b", "a/../c", "/a", &long[1..]] {
        assert_eq!(below(path), None, "{path}");
    }
}

#[test]
fn records_that_make_no_sense_have_no_names() {
    let mut record = [0; 24];
    record[16] = 24;
    record[19..21].copy_from_slice(b"ab");
    assert_eq!(entries(&record).collect::<Vec<_>>(), [b"ab"]);
    for length in [0_u8, 5, 18, 25, 255] {
        record[16] = length;
        assert!(entries(&record).take(10).all(|name| name != b"ab"), "{length}");
    }
    assert_eq!(entries(&record[..17]).count(), 0);
}

#[test]
fn what_is_kept_is_believed_for_a_while_and_there_is_so_much_of_it() {
    let mut table = Table::default();
    keep(&mut table, "/a", KEEPING, Ok(&Told::Status(file(1))), 10);
    keep(&mut table, "/b", KEEPING, Err(Errno::ENOENT), 10);
    let unplain = Keeping { is_plain: false, ..KEEPING };
    keep(&mut table, "/l/c", unplain, Ok(&Told::Status(file(2))), 10);
    for (path, told) in
        [("/a", Ok(Told::Status(file(1)))), ("/b", Err(Errno::ENOENT)), ("/l/c", Ok(Told::Status(file(2))))]
    {
        assert_eq!((table.find(&stat(path), 10), table.find(&stat(path), 11)), (Some(told), None));
    }
    let written = Keeping { attributes: false, ..KEEPING };
    keep(&mut table, "/w", written, Ok(&Told::Status(file(3))), 10);
    keep(&mut table, "/l/w", Keeping { is_plain: false, ..written }, Ok(&Told::Status(file(3))), 10);
    assert_eq!((table.find(&stat("/w"), 0), table.find(&stat("/l/w"), 0)), (None, None), "somebody writes it");
    for number in 0..NAMES_KEPT_MAX {
        keep(&mut table, &format!("/{number}"), KEEPING, Err(Errno::ENOENT), 10);
    }
    assert_eq!(table.find(&stat("/a"), 0), None);
    assert!(table.find(&stat(&format!("/{}", NAMES_KEPT_MAX - 1)), 0).is_some());
}

/// What is done to a file system.
#[derive(Clone, Debug)]
enum Step {
    Look(String),
    Make(String),
    Create(String),
    Remove(String),
    Open(String),
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec(0..2_u8, 1..4)
        .prop_map(|names| names.iter().map(|name| format!("/{}", char::from(b'a' + name))).collect())
}

fn step() -> impl Strategy<Value = Step> {
    proptest::prop_oneof![
        6 => path().prop_map(Step::Look),
        1 => path().prop_map(Step::Make),
        1 => path().prop_map(Step::Create),
        1 => path().prop_map(Step::Remove),
        1 => path().prop_map(Step::Open),
    ]
}

/// Directories and files, with what they are: each has changed so often.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, FileStatus>,
    made: u64,
}

impl Model {
    fn look(&self, path: &str) -> Result<Told, Errno> {
        if let Some(status) = self.nodes.get(path) {
            return Ok(Told::Status(*status));
        }
        let mut above = path;
        while let Some(slash) = above.rfind('/').filter(|slash| *slash > 0) {
            above = &above[..slash];
            if self.nodes.get(above).is_some_and(|status| status.mode & 0o100_000 != 0) {
                return Err(Errno::ENOTDIR);
            }
        }
        Err(Errno::ENOENT)
    }

    fn parent(path: &str) -> &str {
        path.rfind('/').map_or("", |slash| &path[..slash])
    }

    /// A directory has other entries now.
    fn touch(&mut self, path: &str) {
        if let Some(status) = self.nodes.get_mut(Self::parent(path)) {
            status.size += 1;
        }
    }

    fn can_have(&self, path: &str) -> bool {
        let parent = Self::parent(path);
        let is_directory = parent.is_empty() || self.nodes.get(parent).is_some_and(|at| at.mode & 0o040_000 != 0);
        is_directory && !self.nodes.contains_key(path)
    }

    fn make(&mut self, path: &str, mode: u32) -> FileStatus {
        self.made += 1;
        let status = FileStatus { inode: self.made, links: 1, mode, ..FileStatus::default() };
        self.nodes.insert(path.into(), status);
        self.touch(path);
        status
    }
}

fn opened(status: FileStatus) -> Known {
    Known::Opened { handle: Handle(1), status: alloc::boxed::Box::new(status), grant: None }
}

proptest! {
    /// Whatever is kept is so.
    #[test]
    fn what_is_kept_is_what_is_there(steps in proptest::collection::vec(step(), 1..200)) {
        let (mut table, mut model) = (Table::default(), Model::default());
        for step in steps {
            match step {
                Step::Look(path) => {
                    let told = model.look(&path);
                    keep(&mut table, &path, KEEPING, told.as_ref().map_err(|errno| *errno), 1);
                }
                Step::Make(path) if model.can_have(&path) => {
                    model.make(&path, 0o040_755);
                    let call = Call::MakeDirectory { at: at(&path), mode: 0 };
                    table.changed(&call, &stat(&path), &Known::Done);
                }
                Step::Create(path) if model.can_have(&path) => {
                    let known = opened(model.make(&path, 0o100_644));
                    table.changed(&Call::Open { at: at(&path), flags: 0o101, mode: 0 }, &stat(&path), &known);
                }
                Step::Open(path) => {
                    if let Some(status) = model.nodes.get_mut(&path).filter(|status| status.mode & 0o100_000 != 0) {
                        status.size += 1;
                        let known = opened(*status);
                        table.changed(&Call::Open { at: at(&path), flags: 1, mode: 0 }, &stat(&path), &known);
                    }
                }
                Step::Remove(path) => {
                    let below = format!("{path}/");
                    let is_empty = !model.nodes.keys().any(|other| other.starts_with(&below));
                    if is_empty && let Some(status) = model.nodes.remove(&path) {
                        model.touch(&path);
                        let call = Call::Remove { at: at(&path), directory: status.mode & 0o040_000 != 0 };
                        table.changed(&call, &stat(&path), &Known::Done);
                    }
                }
                _ => {}
            }
            for number in 0..14_u8 {
                // All paths of up to three names.
                let (length, bits) = match number {
                    0..2 => (1, number),
                    2..6 => (2, number - 2),
                    _ => (3, number - 6),
                };
                let path: String = (0..length).map(|at| format!("/{}", char::from(b'a' + (bits >> at & 1)))).collect();
                if let Some(told) = table.find(&stat(&path), 0) {
                    prop_assert_eq!(told, model.look(&path), "{}", path);
                }
            }
        }
    }
}

/// A file without a name goes with its last handle, and a directory that is made then may have its number.
#[test]
fn what_has_no_name_is_not_known_by_its_number() {
    let mut table = Table::default();
    let identity = FileIdentity { device: 0, inode: 7 };
    let since = || (1, quota().charge(1).expect("memory"));
    table.keep_status(&file(7), since());
    assert!(table.status(identity, 0).is_some());
    table.keep_status(&FileStatus { links: 0, ..file(7) }, since());
    assert_eq!(table.status(identity, 0), None);
    table.keep_status(&file(7), since());
    let directory = FileStatus { mode: 0o040_755, ..file(7) };
    table.keep_status(&directory, since());
    assert_eq!(table.status(identity, 0), Some(directory));
}
