//! What a region has of a checkpoint is stored as a node would store it, and found in the region by its names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coppice_io_node::machine::{RegionAnswer, RegionOrder, RegionWork};
use coppice_io_node::regions::{PullBy, Regions};
use coppice_protocol::checkpoint::{LISTED_MAX, Listing, OBJECT_BYTES_MAX, ObjectId, PartOf};
use coppice_protocol::ids::Rank;
use coppice_protocol::pset::Pulled;
use coppice_protocol::region::{Section, State, Table, index};

use super::file::{Region, part};
use super::{FROM, list, pull, start, storage};
use crate::common::{JOB, run};

/// Bytes that do not become shorter.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

static LOOKS: AtomicU64 = AtomicU64::new(0);

#[test]
fn several_threads_store_what_one_does() {
    run(async {
        let pset = start().await;
        let stored = storage(&pset);
        let mut region = Region::new(&pset, 3);
        let objects: Vec<Vec<u8>> = (0..40).map(|seed| noise(seed * 2, 5000 - seed as usize)).collect();
        let sections = region.new_objects(&objects.iter().map(Vec::as_slice).collect::<Vec<_>>());
        region.fill(FROM, vec![part(PartOf::Node(3), sections)]);
        let order = RegionOrder { request: 7, node: region.node, work: RegionWork::Pull(FROM) };
        let regions = Regions::open(Some(&pset.dir.path().join("regions")));
        // Goes on by 1 ns whenever it is looked at.
        let clock = || Duration::from_nanos(LOOKS.fetch_add(1, Ordering::Relaxed));
        for threads in [8, 1] {
            let (mut last, mut times) = (0, 0);
            let answer = regions.carry_out(&order, &stored, &PullBy { threads, clock }, &mut |(stored, all)| {
                assert!(stored > last && stored <= all && all == 40, "{stored} of {all}, after {last}");
                (last, times) = (stored, times + 1);
            });
            let RegionAnswer::Pulled(Ok(Pulled { parts, hash_ns })) = answer else { panic!("{answer:?}") };
            let names: Vec<_> = objects.iter().map(|bytes| ObjectId::of(bytes)).collect();
            assert_eq!(list(&stored, &parts[0]).1, names);
            assert!(threads > 1 || times == 40, "{times}");
            assert!(threads > 1 || hash_ns == 40, "{hash_ns}");
        }
    });
}

#[test]
fn what_lies_in_a_region_is_stored_and_found_there_by_its_names() {
    run(async {
        let mut pset = start().await;
        let stored = storage(&pset);
        let mut region = Region::new(&pset, 3);
        let (pages, text) = (noise(1, OBJECT_BYTES_MAX), b"the same again".to_vec());
        let [here, gone] = [b"kept and still here".as_slice(), b"kept and not here"]
            .map(|bytes| (stored.put(bytes).unwrap(), bytes.to_vec()));
        let mut first = region.new_objects(&[b"a record of twenty b", &pages, b"", &text]);
        first.push(Section::Known(here.0, Some(region.write(&here.1))));
        first.push(Section::Known(gone.0, None));
        let second = region.new_objects(&[&text, b"shared"]);
        let parts = vec![part(PartOf::Rank(Rank(5)), first), part(PartOf::Node(3), second)];
        let filled = region.fill(FROM, parts);

        let pulled = pull(&mut pset, region.node, FROM).await.unwrap();
        assert_eq!(pulled.iter().map(|part| part.of).collect::<Vec<_>>(), [PartOf::Rank(Rank(5)), PartOf::Node(3)]);
        let (record_bytes, objects, lists) = list(&stored, &pulled[0]);
        assert_eq!((record_bytes, lists.len()), (20, 1));
        let expected = [b"a record of twenty b".to_vec(), pages, Vec::new(), text.clone(), here.1, gone.1.clone()];
        assert_eq!(objects, expected.each_ref().map(|bytes| ObjectId::of(bytes)));
        for (object, bytes) in objects.iter().zip(&expected) {
            assert_eq!(stored.get(*object).unwrap(), *bytes);
            assert_eq!(region.get(FROM.slot, *object), (*bytes != gone.1).then(|| bytes.clone()));
        }
        let (_, of_second, more) = list(&stored, &pulled[1]);
        assert_eq!(of_second, [ObjectId::of(&text), ObjectId::of(b"shared")]);
        assert_eq!(region.get(FROM.slot, of_second[1]).unwrap(), b"shared");
        for list in [lists, more].concat() {
            assert_eq!(region.get(FROM.slot, list), Some(stored.get(list).unwrap()));
        }
        let slot = region.slot(FROM.slot).unwrap();
        assert_eq!((slot.state, slot.job, slot.table), (State::Drained, JOB, filled.table));
        let entries = 8 * index::ENTRY_BYTES as u64;
        let (index, room) = (slot.index, filled.index);
        assert_eq!((index.offset, index.bytes), (room.offset, entries), "the same text is there once");

        // Who asks once more gets the same.
        assert_eq!(pull(&mut pset, region.node, FROM).await.unwrap(), pulled);
        assert_eq!(region.slot(FROM.slot), Some(slot));
    });
}

#[test]
fn many_objects_take_several_lists() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 0);
        let objects: Vec<ObjectId> = (0..3_u8).map(|byte| ObjectId::of(&[byte])).collect();
        let sections = region.new_objects(&[&[0], &[1], &[2]]);
        let many: Vec<Section> = sections.iter().cycle().copied().take(2 * LISTED_MAX + 5).collect();
        region.fill(FROM, vec![part(PartOf::Rank(Rank(0)), many), part(PartOf::Rank(Rank(1)), Vec::new())]);
        // It has a record without objects, which is none.
        let table = Table { job: JOB, key: FROM.key, parts: vec![part(PartOf::Rank(Rank(0)), Vec::new())] };
        region.fill_for(FROM, &table, 1000);
        let refused = pull(&mut pset, region.node, FROM).await.unwrap_err();
        assert!(refused.contains("table"), "{refused}");

        let many = sections.iter().cycle().copied().take(2 * LISTED_MAX + 5).collect();
        let mut empty = part(PartOf::Rank(Rank(1)), Vec::new());
        empty.record_bytes = 0;
        region.fill(FROM, vec![part(PartOf::Rank(Rank(0)), many), empty]);
        let pulled = pull(&mut pset, region.node, FROM).await.unwrap();
        let (record_bytes, listed, lists) = list(&storage(&pset), &pulled[0]);
        assert_eq!((record_bytes, lists.len()), (20, 3));
        assert!(listed.iter().eq(objects.iter().cycle().take(2 * LISTED_MAX + 5)));
        assert_eq!(list(&storage(&pset), &pulled[1]).1, []);
        for object in objects.into_iter().chain(lists) {
            assert!(region.get(FROM.slot, object).is_some());
        }
    });
}

#[test]
fn what_has_no_room_in_the_index_is_found_in_the_storage_alone() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 9);
        let sections = region.new_objects(&[b"record", b"pages"]);
        let ids = [ObjectId::of(b"record"), ObjectId::of(b"pages")];
        let parts = vec![part(PartOf::Rank(Rank(0)), sections)];
        let table = Table { job: JOB, key: FROM.key, parts };
        let entries = index::ENTRY_BYTES as u64;
        for (room, found) in [(3 * entries, 2), (2 * entries, 2), (2 * entries - 1, 1), (0, 0)] {
            let slot = region.fill_for(FROM, &table, room);
            let pulled = pull(&mut pset, region.node, FROM).await.unwrap();
            let stored = storage(&pset);
            let (_, objects, _) = list(&stored, &pulled[0]);
            assert_eq!(objects, ids);
            assert_eq!(ids.iter().filter(|id| region.get(FROM.slot, **id).is_some()).count(), found, "{room}");
            assert_eq!(region.get(FROM.slot, pulled[0].object), None);
            // Nothing is written beyond it.
            let beyond = region.read(slot.index.offset + room, 10_000);
            assert!(beyond.iter().all(|byte| *byte == 0));
        }
    });
}

#[test]
fn what_the_host_has_no_room_for_is_said_and_stays_in_the_region() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 1);
        let sections = region.new_objects(&[b"record", b"pages"]);
        region.fill(FROM, vec![part(PartOf::Rank(Rank(0)), sections)]);
        // Something that is no directory, where one is wanted for the list.
        let names = [b"record".as_slice(), b"pages"].map(ObjectId::of);
        let listing = Listing { record_bytes: 20, objects: names.to_vec(), next: None };
        let name = ObjectId::of(&listing.bytes().unwrap()).to_string();
        let path = storage(&pset).path().to_owned();
        std::fs::write(path.join("objects").join(&name[..2]), "").unwrap();
        let reason = pull(&mut pset, region.node, FROM).await.unwrap_err();
        assert!(reason.contains(&name) && !reason.contains('\n'), "{reason}");
        assert_eq!(region.slot(FROM.slot).unwrap().state, State::Local);
        assert_eq!(std::fs::read_dir(path.join("packs")).unwrap().count(), 0, "nothing of it is there");
        assert_eq!(std::fs::read_dir(path.join("temporary")).unwrap().count(), 0);
        std::fs::remove_file(path.join("objects").join(&name[..2])).unwrap();
        pull(&mut pset, region.node, FROM).await.unwrap();
        assert_eq!(region.slot(FROM.slot).unwrap().state, State::Drained);
    });
}
