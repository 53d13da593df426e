//! What is wiped is gone from the file and the host's disk, and what stays is whole.

use coppice_protocol::checkpoint::{ObjectId, PartOf};
use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::pset::ToPset;
use coppice_protocol::region::{BLOCK_BYTES, HEADER_BYTES, SLOTS, Section, SlotKey, State, Table, header_offset};

use super::file::{Region, blocks_of, part};
use super::{FROM, list, pull, pulled, start, storage, wipe, wiped};
use crate::common::{JOB, Pset, run};

const OTHER: JobId = JobId(99);
const NEWER: SlotKey = SlotKey { slot: 2, key: 0xdef };

fn of_rank(sections: Vec<Section>) -> Vec<coppice_protocol::region::TablePart> {
    vec![part(PartOf::Rank(Rank(0)), sections)]
}

/// A region with a checkpoint, and a newer one that has an object of the older one, too.
fn shared(pset: &Pset) -> (Region, Section) {
    let mut region = Region::new(pset, 0);
    let older = region.new_objects(&[b"record", &[1; 9000], &[2; 9000]]);
    let Section::New(both) = older[1] else { panic!("it is new") };
    region.fill(FROM, of_rank(older));
    let both = Section::Known(ObjectId::of(&[1; 9000]), Some(both));
    let mut newer = region.new_objects(&[b"newer record"]);
    newer.push(both);
    region.fill(NEWER, of_rank(newer));
    (region, both)
}

#[test]
fn nothing_is_left_of_what_was_wiped_and_all_of_what_stays() {
    run(async {
        let mut pset = start().await;
        let (region, both) = shared(&pset);
        pull(&mut pset, region.node, FROM).await.unwrap();
        let parts = pull(&mut pset, region.node, NEWER).await.unwrap();
        let before = region.on_disk();
        assert_eq!(wipe(&mut pset, region.node, Some(JOB), Some(NEWER)).await, None);
        let slot = region.slot(NEWER.slot).unwrap();
        let table = Table::read(&region.read(slot.table.offset, slot.table.bytes), &slot, super::file::REGION_BYTES);
        let table = table.unwrap();
        assert!(table.extents().any(|extent| Some(extent) == both.extent()));
        let stays = blocks_of(table.extents().chain([slot.table, slot.index]));
        assert_eq!(region.used(), stays);
        assert!(region.on_disk() < before, "the host has the room again");
        assert!(region.read(header_offset(FROM.slot), HEADER_BYTES).iter().all(|byte| *byte == 0));
        // All that stays is found, and once more.
        for object in list(&storage(&pset), &parts[0]).1 {
            assert!(region.get(NEWER.slot, object).is_some());
        }
        assert_eq!(pull(&mut pset, region.node, NEWER).await.unwrap(), parts);
        assert_eq!(wipe(&mut pset, region.node, None, None).await, None);
        assert_eq!((region.used(), region.slot(NEWER.slot)), (vec![], None));
        assert!(region.on_disk() <= BLOCK_BYTES);
    });
}

#[test]
fn another_jobs_checkpoints_stay() {
    run(async {
        let mut pset = start().await;
        let (mut region, _) = shared(&pset);
        let theirs = region.new_objects(&[b"theirs"]);
        let table = Table { job: OTHER, key: 5, parts: of_rank(theirs) };
        let slot = region.fill_for(SlotKey { slot: 3, key: 5 }, &table, table.index_bytes_max());
        // What is to stay and is not there keeps nothing.
        let but = Some(SlotKey { key: 1, ..NEWER });
        assert_eq!(wipe(&mut pset, region.node, Some(JOB), but).await, None);
        assert_eq!(region.used(), blocks_of(table.extents().chain([slot.table])));
        let slots: Vec<u8> = (0..SLOTS).filter(|number| region.slot(*number).is_some()).collect();
        assert_eq!(slots, [3]);
        assert_eq!(wipe(&mut pset, region.node, Some(JOB), None).await, None);
        assert_eq!(region.slot(3), Some(slot));
    });
}

/// Lists lie behind the index, of which the header of a drained slot says nothing.
#[test]
fn lists_of_many_objects_go_too() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 0);
        let sections = region.new_objects(&[b"record"]);
        let many = sections.iter().cycle().copied().take(4000).collect();
        let slot = region.fill(FROM, of_rank(many));
        assert!(slot.index.blocks().len() > 2);
        let parts = pull(&mut pset, region.node, FROM).await.unwrap();
        assert!(region.get(FROM.slot, parts[0].object).is_some());
        assert!(region.slot(FROM.slot).unwrap().index.blocks().len() < slot.index.blocks().len());
        // Of what no slot has, everything stays.
        let nobodys = region.write(b"nobody's");
        assert_eq!(wipe(&mut pset, region.node, Some(JOB), None).await, None);
        assert_eq!(region.used(), blocks_of([nobodys]));
    });
}

#[test]
fn what_is_filled_for_another_job_and_what_no_slot_has_stays() {
    run(async {
        let mut pset = start().await;
        let (mut region, _) = shared(&pset);
        let filled = region.write(b"an object of the slot that is filled");
        let key = SlotKey { slot: 1, key: 77 };
        region.filling(key, OTHER);
        region.write_header(3, b"damaged, and so the node's");
        assert_eq!(wipe(&mut pset, region.node, Some(JOB), None).await, None);
        assert_eq!(region.used(), blocks_of([filled]));
        assert_eq!(region.slot(1).map(|slot| slot.state), Some(State::Filling));
        assert!(region.read(header_offset(3), 8).starts_with(b"damaged"));
        // Nobody fills one any more.
        assert_eq!(wipe(&mut pset, region.node, None, None).await, None);
        assert!(region.used().is_empty());
        assert!(region.read(header_offset(0), HEADER_BYTES * u64::from(SLOTS)).iter().all(|byte| *byte == 0));
    });
}

#[test]
fn nothing_is_left_of_what_was_given_up_while_it_was_filled() {
    for job in [Some(JOB), None] {
        run(async {
            let mut pset = start().await;
            let (mut region, _) = shared(&pset);
            let _ = pull(&mut pset, region.node, FROM).await.unwrap();
            let parts = pull(&mut pset, region.node, NEWER).await.unwrap();
            let there = region.used();
            region.write(b"an object of the slot that was filled");
            region.filling(SlotKey { slot: 1, key: 77 }, JOB);
            assert_eq!(wipe(&mut pset, region.node, job, Some(NEWER)).await, None);
            assert!(region.used().iter().all(|block| there.contains(block)), "{:?} and not {there:?}", region.used());
            assert_eq!((region.slot(1), region.slot(FROM.slot)), (None, None));
            assert_eq!(pull(&mut pset, region.node, NEWER).await.unwrap(), parts);
            assert_eq!(wipe(&mut pset, region.node, Some(JOB), None).await, None);
            assert!(region.used().is_empty());
        });
    }
}

#[test]
fn of_a_damaged_slot_goes_what_is_known() {
    run(async {
        let mut pset = start().await;
        let (region, _) = shared(&pset);
        let slot = region.slot(FROM.slot).unwrap();
        region.damage(slot.table.offset + 1);
        let before = region.used();
        assert_eq!(wipe(&mut pset, region.node, Some(JOB), Some(NEWER)).await, None);
        let gone = blocks_of([slot.table]);
        assert!(region.used().iter().eq(before.iter().filter(|block| !gone.contains(block))));
        assert_eq!(region.slot(FROM.slot), None);
        // Nobody has the rest.
        assert_eq!(wipe(&mut pset, region.node, None, None).await, None);
        assert!(region.used().is_empty());
    });
}

#[test]
fn what_is_being_pulled_is_wiped_when_it_is_pulled() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 0);
        let objects: Vec<Vec<u8>> = (0..40_u8).map(|byte| vec![byte | 64; 100_000]).collect();
        let sections = region.new_objects(&objects.iter().map(Vec::as_slice).collect::<Vec<_>>());
        region.fill(FROM, of_rank(sections));
        for round in 0..3 {
            pset.send(ToPset::Pull { request: 7, node: region.node, from: FROM }).await;
            if round == 2 {
                pset.send(ToPset::Wipe { request: 8, node: region.node, job: None, but: None }).await;
            }
        }
        pset.send(ToPset::Pull { request: 7, node: region.node, from: FROM }).await;
        for _ in 0..3 {
            let parts = pulled(&mut pset).await.unwrap();
            let (_, ids, _) = list(&storage(&pset), &parts[0]);
            assert!(ids.iter().copied().eq(objects.iter().map(|bytes| ObjectId::of(bytes))));
        }
        assert_eq!(wiped(&mut pset).await, None);
        assert!(pulled(&mut pset).await.unwrap_err().contains("no checkpoint"));
        assert!(region.used().is_empty());
    });
}
