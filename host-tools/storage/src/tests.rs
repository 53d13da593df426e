//! A storage directory to which things happen.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coppice_protocol::checkpoint::{Listing, OBJECT_BYTES_MAX, ObjectId, Part, PartOf};
use coppice_protocol::ids::{JobId, ProgramId, Rank};
use serde_json::json;
use tempfile::TempDir;

use crate::{Manifest, ManifestPart, PartKind, Storage, StorageError};

const JOB: JobId = JobId(7);

fn storage() -> (TempDir, Storage) {
    let dir = TempDir::new().expect("a directory");
    let storage = Storage::open(dir.path().join("storage")).expect("opens");
    (dir, storage)
}

fn file_of(storage: &Storage, id: ObjectId) -> PathBuf {
    let name = id.to_string();
    storage.path().join("objects").join(&name[..2]).join(name)
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).expect("reads").count()
}

/// Keeps a part, in lists of two objects.
fn part(storage: &Storage, of: PartOf, objects: &[&[u8]]) -> ManifestPart {
    let ids: Vec<ObjectId> = objects.iter().map(|bytes| storage.put(bytes).expect("puts")).collect();
    let mut next = None;
    for (index, objects) in ids.chunks(2).enumerate().rev() {
        let record_bytes = if index == 0 { 1 } else { 0 };
        let listing = Listing { record_bytes, objects: objects.to_vec(), next };
        next = Some(storage.put(&listing.bytes().expect("encodes")).expect("puts"));
    }
    Part { of, object: next.expect("some objects") }.into()
}

fn manifest(number: u32, parts: Vec<ManifestPart>) -> Manifest {
    Manifest {
        version: Manifest::VERSION,
        job: JOB,
        number,
        time_ns: u64::MAX,
        submission: json!({"arguments": ["a", 1.5, null], "large": u64::MAX}),
        program: ProgramId([0xab; 32]),
        program_bytes: 5,
        ranks: 2,
        ranks_per_node: 2,
        barriers: 3,
        pause_us: 4,
        pages: 5,
        bytes: 6,
        parts,
    }
}

#[test]
fn an_object_is_what_was_put_and_is_put_once() {
    let (_dir, storage) = storage();
    let random: Vec<u8> = blake3::Hasher::new().update(b"seed").finalize_xof().bytes(OBJECT_BYTES_MAX);
    for bytes in [&b""[..], b"a", &[0; OBJECT_BYTES_MAX], &random] {
        let id = storage.put(bytes).expect("puts");
        assert_eq!(id, ObjectId::of(bytes));
        assert_eq!(storage.get(id).expect("gets"), bytes);
        let before = fs::metadata(file_of(&storage, id)).expect("is there").ino();
        assert_eq!(storage.put(bytes).expect("puts"), id);
        assert_eq!(fs::metadata(file_of(&storage, id)).expect("is there").ino(), before, "written again");
    }
    storage.settle().expect("settles");
    assert_eq!(files(&storage.path().join("temporary")), 0);
    let length = |bytes: &[u8]| fs::metadata(file_of(&storage, ObjectId::of(bytes))).expect("is there").len();
    assert_eq!(length(&random), 1 + OBJECT_BYTES_MAX as u64);
    assert!(length(&[0; OBJECT_BYTES_MAX]) < 100);
    let long = vec![0; OBJECT_BYTES_MAX + 1];
    assert!(matches!(storage.put(&long), Err(StorageError::TooLong(_))));
    // Only its user sees what was in programs' memory.
    for (path, mode) in [("", 0o700), ("objects", 0o700), ("jobs", 0o700), ("temporary", 0o700), ("format", 0o600)] {
        let path = storage.path().join(path);
        assert_eq!(fs::metadata(&path).expect("is there").permissions().mode() & 0o777, mode, "{path:?}");
    }
}

trait Bytes {
    fn bytes(self, count: usize) -> Vec<u8>;
}

impl Bytes for blake3::OutputReader {
    fn bytes(mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

#[test]
fn what_is_damaged_or_missing_is_said_to_be() {
    let (_dir, storage) = storage();
    let long = b"some text ".repeat(1000);
    for bytes in [&b"short"[..], &long] {
        let id = storage.put(bytes).expect("puts");
        let path = file_of(&storage, id);
        let good = fs::read(&path).expect("reads");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, bad).expect("writes");
            // A bit that means nothing may be one of the frame's.
            match storage.get(id) {
                Err(StorageError::Damaged(of)) => assert_eq!(of, id),
                Ok(read) => assert_eq!(read, bytes),
                Err(other) => panic!("{other}"),
            }
        }
        for length in 0..good.len() {
            fs::write(&path, &good[..length]).expect("writes");
            assert!(matches!(storage.get(id), Err(StorageError::Damaged(of)) if of == id), "{length}");
        }
        // Whoever puts it again makes it good, if its length shows that it is not.
        fs::write(&path, "").expect("writes");
        storage.put(bytes).expect("puts");
        assert_eq!(fs::read(&path).expect("reads"), good);
        fs::write(&path, [&good[..], &[0; OBJECT_BYTES_MAX + 1]].concat()).expect("writes");
        assert!(matches!(storage.get(id), Err(StorageError::Damaged(_))));
        fs::remove_file(&path).expect("removes");
        assert!(matches!(storage.get(id), Err(StorageError::Missing(of)) if of == id));
        fs::create_dir(&path).expect("makes");
        assert!(matches!(storage.get(id), Err(StorageError::Damaged(_))));
        fs::remove_dir(&path).expect("removes");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("links");
        assert!(matches!(storage.get(id), Err(StorageError::Damaged(_))));
    }
    let bomb = [&[1], &zstd::bulk::compress(&vec![0; 64 << 20], 19).expect("compresses")[..]].concat();
    let id = storage.put(b"bomb").expect("puts");
    fs::write(file_of(&storage, id), bomb).expect("writes");
    assert!(matches!(storage.get(id), Err(StorageError::Damaged(_))));
}

#[test]
fn what_is_there_is_known_without_reading_it() {
    let (_dir, storage) = storage();
    let there = storage.put(b"there").expect("puts");
    assert!(storage.has(there).expect("looks"));
    assert!(!storage.has(ObjectId::of(b"nowhere")).expect("looks"));
    // An empty file is no object, and neither is a directory.
    fs::write(file_of(&storage, there), "").expect("writes");
    assert!(!storage.has(there).expect("looks"));
    fs::remove_file(file_of(&storage, there)).expect("removes");
    fs::create_dir(file_of(&storage, there)).expect("makes");
    assert!(!storage.has(there).expect("looks"));
}

#[test]
fn a_directory_of_another_version_or_of_something_else_is_refused() {
    let (_dir, storage) = storage();
    drop(Storage::open(storage.path()).expect("it is ours"));
    fs::write(storage.path().join("format"), "coppice-checkpoints 2\n").expect("writes");
    let refused = Storage::open(storage.path()).expect_err("is refused");
    assert!(matches!(refused, StorageError::Version { .. }));
    let text = refused.to_string();
    assert!(text.contains("'coppice-checkpoints 2\\n'") && !text.contains('\n'), "{text}");
    let other = TempDir::new().expect("a directory");
    fs::write(other.path().join("thesis.tex"), "").expect("writes");
    assert!(matches!(Storage::open(other.path()), Err(StorageError::NotOurs(_))));
    assert_eq!(files(other.path()), 1, "nothing was made in it");
    // One whose maker was killed in the middle.
    let begun = TempDir::new().expect("a directory");
    fs::create_dir(begun.path().join("objects")).expect("makes");
    drop(Storage::open(begun.path()).expect("is finished"));
    assert_eq!(fs::read(begun.path().join("format")).expect("is there"), b"coppice-checkpoints 1\n");
    let file = begun.path().join("format");
    let text = Storage::open(&file).expect_err("no directory").to_string();
    assert!(text.starts_with("cannot make '") && !text.contains("os error"), "{text}");
}

#[test]
fn what_the_killed_left_is_swept() {
    let (_dir, storage) = storage();
    // The names that this process gives its own files next.
    for number in 0..50 {
        let name = format!("{}-{number}", std::process::id());
        fs::write(storage.path().join("temporary").join(name), "half").expect("writes");
    }
    let id = storage.put(b"a").expect("finds another name");
    assert_eq!(files(&storage.path().join("temporary")), 50);
    assert_eq!(storage.sweep().expect("sweeps"), 50);
    assert_eq!((files(&storage.path().join("temporary")), storage.get(id).expect("gets")), (0, b"a".to_vec()));
    assert_eq!(storage.sweep().expect("sweeps"), 0);
}

#[test]
fn a_manifest_is_what_was_written() {
    let (_dir, storage) = storage();
    assert_eq!(storage.jobs().expect("reads"), []);
    assert!(storage.manifests(JOB).expect("reads").is_empty());
    assert!(matches!(storage.manifest(JOB, 1), Err(StorageError::NoManifest { job: JOB, number: 1 })));
    let rank = part(&storage, PartOf::Rank(Rank(1)), &[b"a", b"b", b"c"]);
    let node = part(&storage, PartOf::Node(0), &[b"d"]);
    assert_eq!((rank.of, rank.number, rank.to_string()), (PartKind::Rank, 1, "rank 1".to_owned()));
    assert_eq!(Part::from(node).of, PartOf::Node(0));
    for number in [10, 2] {
        storage.write_manifest(&manifest(number, vec![rank, node])).expect("writes");
    }
    let again = storage.write_manifest(&manifest(2, Vec::new()));
    assert!(matches!(again, Err(StorageError::ManifestExists { job: JOB, number: 2 })));
    assert_eq!(storage.manifest(JOB, 2).expect("reads"), manifest(2, vec![rank, node]));
    fs::write(storage.path().join("jobs/7/notes.txt"), "").expect("writes");
    fs::write(storage.path().join("jobs/7/03.json"), "").expect("writes");
    fs::create_dir(storage.path().join("jobs/other")).expect("makes");
    assert_eq!(storage.jobs().expect("reads"), [JOB]);
    let numbers: Vec<u32> = storage.manifests(JOB).expect("reads").into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [2, 10]);
    let text = fs::read_to_string(storage.path().join("jobs/7/2.json")).expect("reads");
    let value: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
    assert_eq!(value["manifest"]["program"], "ab".repeat(32));
    assert_eq!(value["manifest"]["parts"][1]["of"], "node");
}

#[test]
fn a_damaged_manifest_hides_no_other() {
    let (_dir, storage) = storage();
    for number in [1, 2, 3] {
        storage.write_manifest(&manifest(number, vec![part(&storage, PartOf::Node(0), &[b"x"])])).expect("writes");
    }
    let path = storage.path().join("jobs/7/2.json");
    let good = fs::read(&path).expect("reads");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, bad).expect("writes");
        let read = storage.manifest(JOB, 2);
        assert!(matches!(read, Err(StorageError::DamagedManifest { job: JOB, number: 2, .. })) || read.is_ok(), "{at}");
        assert!(read.is_err() || read.is_ok_and(|read| read.number == 2 && read.barriers == 3), "{at}");
    }
    fs::write(&path, &good[..good.len() / 2]).expect("writes");
    let all = storage.manifests(JOB).expect("reads");
    let whole: Vec<(u32, bool)> = all.iter().map(|(number, manifest)| (*number, manifest.is_ok())).collect();
    assert_eq!(whole, [(1, true), (2, false), (3, true)]);
    // Nobody knows what it reaches.
    assert!(matches!(storage.collect(), Err(StorageError::DamagedManifest { number: 2, .. })));
    fs::copy(storage.path().join("jobs/7/1.json"), &path).expect("copies");
    let text = storage.manifest(JOB, 2).expect_err("is another's").to_string();
    assert!(text.contains("it is checkpoint 1 of job 7") && text.ends_with("delete it"), "{text}");
    storage.delete(JOB, 2).expect("deletes");
    assert_eq!(storage.collect().expect("collects").objects, 0);
    let mut later = manifest(5, Vec::new());
    later.version = 2;
    storage.write_manifest(&later).expect("writes");
    let text = storage.manifest(JOB, 5).expect_err("is later").to_string();
    assert!(text.contains("version 2"), "{text}");
}

/// What is said of a checkpoint that is not whole, and why it is not.
#[track_caller]
fn not_whole(verified: crate::Result<()>) -> (String, StorageError) {
    let error = verified.expect_err("is not whole");
    let text = error.to_string();
    let StorageError::NotWhole { why, .. } = error else { panic!("{text}") };
    (text, *why)
}

#[test]
fn a_checkpoint_is_verified_object_by_object() {
    let (_dir, storage) = storage();
    let objects: [&[u8]; 5] = [b"record", b"page 1", b"page 2", b"page 3", b"page 4"];
    let rank = part(&storage, PartOf::Rank(Rank(1)), &objects);
    let node = part(&storage, PartOf::Node(0), &[b"node"]);
    let whole = manifest(1, vec![node, rank]);
    storage.verify(&whole).expect("is whole");
    let mut all: Vec<ObjectId> = objects.iter().map(|bytes| ObjectId::of(bytes)).collect();
    let mut next = Some(rank.object);
    while let Some(id) = next {
        all.push(id);
        next = Listing::read(&storage.get(id).expect("gets")).expect("is a list").next;
    }
    assert_eq!(all.len(), 5 + 3);
    for id in all {
        let path = file_of(&storage, id);
        let good = fs::read(&path).expect("reads");
        fs::remove_file(&path).expect("removes");
        let (text, why) = not_whole(storage.verify(&whole));
        assert!(matches!(why, StorageError::Missing(of) if of == id) && text.contains("at rank 1"), "{text}");
        fs::write(&path, [&good[..good.len() - 1], b"?"].concat()).expect("writes");
        let (text, why) = not_whole(storage.verify(&whole));
        assert!(matches!(why, StorageError::Damaged(of) if of == id), "{text}");
        fs::write(&path, good).expect("writes");
    }
    storage.verify(&whole).expect("is whole again");
    let object = ObjectId::of(b"page 1");
    let no_list = manifest(1, vec![ManifestPart { of: PartKind::Node, number: 0, object }]);
    assert!(storage.verify(&no_list).is_err());
    // Its record would be longer than all it has.
    let empty = Listing { record_bytes: 1, ..Listing::default() };
    let object = storage.put(&empty.bytes().expect("encodes")).expect("puts");
    assert!(storage.verify(&manifest(1, vec![ManifestPart { object, ..node }])).is_err());
}

#[test]
fn nothing_is_left_of_what_was_deleted_and_all_of_the_others() {
    let (_dir, storage) = storage();
    let first = manifest(1, vec![part(&storage, PartOf::Node(0), &[b"both", b"one", b"first"])]);
    let second = manifest(2, vec![part(&storage, PartOf::Node(0), &[b"both", b"one", b"second"])]);
    for manifest in [&first, &second] {
        storage.write_manifest(manifest).expect("writes");
    }
    // Of one that was not finished.
    storage.put(b"nobody's").expect("puts");
    let collected = storage.collect().expect("collects");
    assert_eq!(collected.objects, 1);
    assert!(matches!(storage.get(ObjectId::of(b"nobody's")), Err(StorageError::Missing(_))));
    storage.delete(JOB, 1).expect("deletes");
    assert!(matches!(storage.delete(JOB, 1), Err(StorageError::NoManifest { .. })));
    storage.verify(&second).expect("is whole");
    // The object of its own, and its two lists.
    assert_eq!(storage.collect().expect("collects").objects, 3);
    storage.verify(&second).expect("is whole");
    assert!(matches!(storage.get(ObjectId::of(b"first")), Err(StorageError::Missing(_))));
    // One that cannot be followed keeps what others may have, until it is deleted.
    let list = file_of(&storage, second.parts[0].object);
    fs::remove_file(list).expect("removes");
    assert!(matches!(storage.collect(), Err(StorageError::NotWhole { number: 2, .. })));
    storage.get(ObjectId::of(b"second")).expect("is kept");
    storage.delete(JOB, 2).expect("deletes");
    assert_eq!(storage.jobs().expect("reads"), []);
    // Without the list that was removed.
    assert_eq!(storage.collect().expect("collects").objects, 4);
    let objects = fs::read_dir(storage.path().join("objects")).expect("reads");
    assert_eq!(objects.map(|directory| files(&directory.expect("reads").path())).sum::<usize>(), 0);
}

#[test]
fn several_put_the_same_at_once() {
    let (_dir, storage) = storage();
    let other = Storage::open(storage.path()).expect("opens");
    let objects: Vec<Vec<u8>> = (0..200_u32).map(|number| number.to_le_bytes().repeat(100)).collect();
    std::thread::scope(|scope| {
        for storage in [&storage, &storage, &other, &other] {
            scope.spawn(|| {
                for object in &objects {
                    let id = storage.put(object).expect("puts");
                    assert_eq!(storage.get(id).expect("gets"), *object);
                }
                storage.settle().expect("settles");
            });
        }
    });
    assert_eq!(files(&storage.path().join("temporary")), 0);
}

#[test]
fn that_one_is_verified_is_noted_of_it_alone() {
    let (_dir, storage) = storage();
    let one = manifest(1, Vec::new());
    storage.write_manifest(&one).expect("writes");
    assert!(!storage.is_verified(JOB, 1));
    storage.note_verified(&one).expect("notes");
    assert!(storage.is_verified(JOB, 1) && !storage.is_verified(JOB, 2) && !storage.is_verified(JobId(8), 1));
    assert_eq!(storage.manifests(JOB).expect("lists").len(), 1, "the note is none");
    // What was written over, or is another's, is not what was verified.
    let other = Manifest { pages: 6, ..one.clone() };
    assert!(matches!(storage.note_verified(&other), Err(StorageError::NoManifest { job: JOB, number: 1 })));
    let file = storage.path().join("jobs/7/1.json");
    let (whole, note) = (fs::read(&file).expect("reads"), file.with_extension("verified"));
    fs::write(&file, b"{}").expect("writes");
    assert!(!storage.is_verified(JOB, 1));
    fs::write(&file, whole).expect("writes");
    assert!(storage.is_verified(JOB, 1));
    for damaged in [&b""[..], b"\n", b"0\n", &[b'0'; 64], &[b'0'; 100]] {
        fs::write(&note, damaged).expect("writes");
        assert!(!storage.is_verified(JOB, 1));
    }
    // The note goes with it, and with the last of the job its directory.
    storage.delete(JOB, 1).expect("deletes");
    assert!(storage.jobs().expect("lists").is_empty());
    assert!(matches!(storage.note_verified(&one), Err(StorageError::NoManifest { .. })));
}
