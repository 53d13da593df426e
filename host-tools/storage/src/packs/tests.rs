//! Packs to which things happen.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::thread;

use coppice_protocol::checkpoint::{OBJECT_BYTES_MAX, ObjectId};
use tempfile::TempDir;

use super::entry::{self, Contents, Entry};
use crate::limits::{PACK_BYTES_MAX, PACK_OBJECTS_MAX, PACKS_OPEN_MAX};
use crate::{Collected, Named, Storage, StorageError};

fn storage() -> (TempDir, Storage) {
    let dir = TempDir::new().expect("a directory");
    let storage = Storage::open(dir.path().join("storage")).expect("opens");
    (dir, storage)
}

/// Bytes that nothing makes shorter.
fn noise(seed: u32, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut noise);
    noise
}

fn pack(storage: &Storage, objects: &[Vec<u8>]) -> Vec<ObjectId> {
    let packing = storage.packing().expect("begins");
    let put = |bytes: &Vec<u8>| {
        let named = Named::new(bytes);
        packing.put(&named).expect("puts");
        named.id()
    };
    let ids = objects.iter().map(put).collect();
    packing.finish().expect("finishes");
    ids
}

fn packs(storage: &Storage) -> Vec<PathBuf> {
    let entries = fs::read_dir(storage.path().join("packs")).expect("reads");
    entries.map(|entry| entry.expect("reads").path()).collect()
}

fn temporary(storage: &Storage) -> usize {
    fs::read_dir(storage.path().join("temporary")).expect("reads").count()
}

fn collect(storage: &Storage, stays: &[ObjectId]) -> Collected {
    let mut collected = Collected::default();
    storage.take_out(|id| stays.contains(id), true, &mut collected).expect("collects");
    collected
}

#[test]
fn objects_that_are_put_together_are_in_one_file() {
    let (_dir, storage) = storage();
    let other = Storage::open(storage.path()).expect("opens");
    let objects = [noise(1, OBJECT_BYTES_MAX), Vec::new(), vec![7; 5000], b"a".to_vec(), vec![7; 5000]];
    let packing = storage.packing().expect("begins");
    for bytes in &objects {
        packing.put(&Named::new(bytes)).expect("puts");
    }
    let ids = objects.each_ref().map(|bytes| ObjectId::of(bytes));
    assert!(matches!(packing.put(&Named::new(&noise(1, OBJECT_BYTES_MAX + 1))), Err(StorageError::TooLong(_))));
    assert!(matches!(other.get(ids[0]), Err(StorageError::Missing(of)) if of == ids[0]), "it is not finished");
    packing.finish().expect("finishes");
    assert_eq!((packs(&storage).len(), temporary(&storage)), (1, 0));
    let length = fs::metadata(&packs(&storage)[0]).expect("is there").len();
    assert!(length < OBJECT_BYTES_MAX as u64 + 1000, "{length}");
    for storage in [&storage, &other, &Storage::open(storage.path()).expect("opens")] {
        for (bytes, id) in objects.iter().zip(ids) {
            assert!(storage.has(id).expect("looks"));
            assert_eq!(storage.get(id).expect("gets"), *bytes);
        }
    }
    // What is there is not put again, neither in a pack nor alone, by whomever.
    assert_eq!(other.put(&objects[0]).expect("puts"), ids[0]);
    pack(&other, &objects);
    pack(&Storage::open(storage.path()).expect("opens"), &objects);
    assert_eq!(packs(&storage).len(), 1);
    assert_eq!(fs::read_dir(storage.path().join("objects")).expect("reads").count(), 0);
}

#[test]
fn nothing_is_left_of_a_pack_that_is_not_finished() {
    let (_dir, storage) = storage();
    let packing = storage.packing().expect("begins");
    packing.put(&Named::new(b"a")).expect("puts");
    assert_eq!(temporary(&storage), 1);
    drop(packing);
    assert_eq!((packs(&storage).len(), temporary(&storage)), (0, 0));
    storage.packing().expect("begins").finish().expect("has nothing to do");
    assert_eq!(packs(&storage).len(), 0);
}

#[test]
fn what_is_too_much_for_a_pack_goes_to_the_next() {
    let (_dir, storage) = storage();
    let many: Vec<Vec<u8>> = (0..=PACK_OBJECTS_MAX).map(|number| number.to_le_bytes().to_vec()).collect();
    let ids = pack(&storage, &many);
    assert_eq!(packs(&storage).len(), 2);
    for (id, bytes) in ids.iter().zip(&many).step_by(1000).chain(ids.iter().zip(&many).skip(PACK_OBJECTS_MAX)) {
        assert_eq!(storage.get(*id).expect("gets"), *bytes);
    }
    let long: Vec<Vec<u8>> =
        (0..=PACK_BYTES_MAX / OBJECT_BYTES_MAX as u64).map(|number| noise(number as u32, OBJECT_BYTES_MAX)).collect();
    pack(&storage, &long);
    assert_eq!(packs(&storage).len(), 4);
    for path in packs(&storage) {
        assert!(fs::metadata(path).expect("is there").len() <= PACK_BYTES_MAX + (1 << 20));
    }
}

#[test]
fn a_pack_that_is_damaged_has_nothing_else_in_it() {
    let (_dir, storage) = storage();
    let objects = [b"some text ".repeat(20), b"short".to_vec(), noise(3, 30)];
    let ids = pack(&storage, &objects);
    let [path] = &packs(&storage)[..] else { panic!("one pack") };
    let good = fs::read(path).expect("reads");
    let look = |what: &str| {
        for storage in [&storage, &Storage::open(storage.path()).expect("opens")] {
            for (bytes, id) in objects.iter().zip(&ids) {
                match storage.get(*id) {
                    Ok(read) => assert_eq!(read, *bytes, "{what}"),
                    Err(StorageError::Damaged(of) | StorageError::Missing(of)) => assert_eq!(of, *id),
                    Err(other) => panic!("{what}: {other}"),
                }
            }
        }
    };
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        fs::write(path, &bad).expect("writes");
        look(&format!("byte {at}"));
    }
    for length in 0..good.len() {
        fs::write(path, &good[..length]).expect("writes");
        look(&format!("{length} bytes"));
    }
    // A number of entries that there cannot be, with a check that is right.
    for count in [good.len() as u64, u64::MAX / 52, u64::MAX] {
        let count = count.to_le_bytes();
        let check = coppice_protocol::region::check(&count).to_le_bytes();
        fs::write(path, [&good[..], &count, &check, b"coppack1"].concat()).expect("writes");
        look("a count");
    }
    // Whoever puts one of them again makes it good.
    fs::write(path, "").expect("writes");
    assert!(!storage.has(ids[1]).expect("looks"));
    assert_eq!(storage.put(&objects[1]).expect("puts"), ids[1]);
    pack(&storage, &objects);
    for (bytes, id) in objects.iter().zip(&ids) {
        assert_eq!(storage.get(*id).expect("gets"), *bytes);
    }
    // Perhaps somebody can read it. It goes with the last checkpoint.
    assert_eq!(collect(&storage, &ids).objects, 0);
    assert_eq!(packs(&storage).len(), 2);
    storage.take_out(|_| false, false, &mut Collected::default()).expect("collects");
    assert_eq!(packs(&storage).len(), 0);
}

#[test]
fn what_is_no_file_is_no_pack_and_in_nobodys_way() {
    let (_dir, storage) = storage();
    let names = [b"directory".as_slice(), b"link"]
        .map(|bytes| storage.path().join("packs").join(ObjectId::of(bytes).to_string()));
    fs::create_dir(&names[0]).expect("makes");
    std::os::unix::fs::symlink("/dev/zero", &names[1]).expect("links");
    let ids = pack(&storage, &[b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(storage.get(ids[0]).expect("gets"), b"a");
    assert!(!storage.has(ObjectId::of(b"c")).expect("looks"));
    assert_eq!(collect(&storage, &ids[1..]).objects, 1);
    assert_eq!(collect(&storage, &[]).objects, 1);
    assert_eq!(packs(&storage).len(), 2, "they are nobody's");
}

#[test]
fn one_that_cannot_be_written_takes_nothing_with_it_but_its_own_pack() {
    let (_dir, storage) = storage();
    let packing = storage.packing().expect("begins");
    packing.put(&Named::new(b"before")).expect("puts");
    // As on a disk that is full for a moment: no file is made any more, and the one there was is lost.
    packing.lose_file();
    assert!(packing.put(&Named::new(b"lost")).is_err());
    for bytes in [&b"behind"[..], b"lost"] {
        packing.put(&Named::new(bytes)).expect("puts again");
    }
    packing.finish().expect("finishes");
    for bytes in [&b"behind"[..], b"lost"] {
        assert_eq!(storage.get(ObjectId::of(bytes)).expect("gets"), bytes);
    }
    assert!(matches!(storage.get(ObjectId::of(b"before")), Err(StorageError::Missing(_))));
    assert_eq!((packs(&storage).len(), temporary(&storage)), (1, 0));
}

#[test]
fn objects_go_from_more_packs_than_are_open_at_once() {
    let (_dir, storage) = storage();
    let kept: Vec<ObjectId> = (0..2 * PACKS_OPEN_MAX + 3)
        .map(|number| {
            pack(&storage, &[format!("kept {number}").into_bytes(), format!("gone {number}").into_bytes()])[0]
        })
        .collect();
    assert_eq!(collect(&storage, &kept).objects as usize, kept.len());
    assert!(kept.iter().all(|id| storage.get(*id).is_ok()));
    assert_eq!(collect(&storage, &kept), Collected::default());
}

#[test]
fn what_is_taken_out_is_wiped_and_the_others_stay() {
    let (_dir, storage) = storage();
    let other = Storage::open(storage.path()).expect("opens");
    let objects: Vec<Vec<u8>> = (0..4).map(|number| noise(number, 20_000)).collect();
    let ids = pack(&storage, &objects);
    assert_eq!(other.get(ids[1]).expect("gets"), objects[1], "it is known there, too");
    let [path] = &packs(&storage)[..] else { panic!("one pack") };
    let has = |bytes: &[u8]| fs::read(path).expect("reads").windows(bytes.len()).any(|part| part == bytes);
    let collected = collect(&storage, &[ids[0], ids[2]]);
    assert_eq!((collected.objects, collected.bytes), (2, 2 * 20_001));
    for (number, bytes) in objects.iter().enumerate() {
        let stays = number % 2 == 0;
        assert_eq!((has(&bytes[..100]), has(&bytes[10_000..10_100]), has(&bytes[19_900..])), (stays, stays, stays));
        for storage in [&storage, &other] {
            assert_eq!(storage.has(ids[number]).expect("looks"), stays);
            match storage.get(ids[number]) {
                Ok(read) => assert!(stays && read == *bytes),
                Err(error) => assert!(!stays && matches!(error, StorageError::Missing(_)), "{error}"),
            }
        }
    }
    assert_eq!(collect(&storage, &[ids[0], ids[2]]), Collected::default());
    // What was taken out is put again by those who knew it.
    pack(&other, &objects);
    assert_eq!(packs(&storage).len(), 2);
    for (bytes, id) in objects.iter().zip(&ids) {
        assert_eq!((storage.get(*id).expect("gets"), other.get(*id).expect("gets")), (bytes.clone(), bytes.clone()));
    }
    assert_eq!(collect(&storage, &ids[1..2]).objects, 3);
    assert_eq!(packs(&storage).len(), 1, "one has nothing left");
    assert_eq!(collect(&storage, &[]).objects, 1);
    assert_eq!(packs(&storage).len(), 0);
}

#[test]
fn one_that_is_being_taken_out_is_not_there() {
    let (_dir, storage) = storage();
    let objects: Vec<Vec<u8>> = (0..2).map(|number| noise(number, 500)).collect();
    let ids = pack(&storage, &objects);
    let [path] = &packs(&storage)[..] else { panic!("one pack") };
    // As those leave it who are killed in the middle.
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opens");
    let Contents { entries_at, entries } = entry::read_all(&file).expect("reads").expect("a pack");
    let going = Entry { is_going: true, ..entries[1].1 };
    std::os::unix::fs::FileExt::write_all_at(&file, &going.bytes(), entries_at + Entry::BYTES as u64).expect("writes");
    for storage in [&storage, &Storage::open(storage.path()).expect("opens")] {
        assert!(storage.has(ids[0]).expect("looks") && !storage.has(ids[1]).expect("looks"));
        assert!(matches!(storage.get(ids[1]), Err(StorageError::Missing(_))));
    }
    storage.put(&objects[1]).expect("puts");
    // Its bytes go, though it is one that stays.
    assert_eq!(collect(&storage, &ids).objects, 0);
    let left = fs::read(path).expect("reads");
    assert!(!left.windows(50).any(|part| part == &objects[1][..50]));
    assert_eq!(entry::read_all(&File::open(path).expect("opens")).expect("reads").expect("a pack").entries.len(), 1);
    assert_eq!(storage.get(ids[1]).expect("gets"), objects[1]);
}

#[test]
fn threads_put_into_one_pack() {
    let (_dir, storage) = storage();
    let objects: Vec<Vec<u8>> = (0..200).map(|number| noise(number % 150, 3000)).collect();
    let packing = storage.packing().expect("begins");
    thread::scope(|scope| {
        for part in [0, 1, 2, 3] {
            let (packing, objects) = (&packing, &objects);
            scope.spawn(move || {
                for object in objects.iter().skip(part).step_by(4) {
                    packing.put(&Named::new(object)).expect("puts");
                }
            });
        }
    });
    packing.finish().expect("finishes");
    for object in &objects {
        assert_eq!(storage.get(ObjectId::of(object)).expect("gets"), *object);
    }
    let [path] = &packs(&storage)[..] else { panic!("one pack") };
    let length = fs::metadata(path).expect("is there").len();
    assert_eq!(length, 150 * (3001 + Entry::BYTES as u64) + entry::END_BYTES as u64, "each once");
}
