//! What is not there, or damaged, is not pulled: that is said in one line, and nothing is changed.

use coppice_protocol::checkpoint::{ObjectId, PartOf};
use coppice_protocol::ids::{NodeId, Rank};
use coppice_protocol::region::{SLOTS, Section, SlotKey, State, Table, header_offset};

use super::file::{Region, part};
use super::{FROM, pull, start, wipe};
use crate::common::{JOB, Pset, run};

async fn assert_refused(pset: &mut Pset, node: NodeId, from: SlotKey, words: &[&str]) {
    let reason = pull(pset, node, from).await.unwrap_err();
    let has_all = words.iter().all(|word| reason.contains(word));
    assert!(has_all && reason.contains(&node.to_string()) && !reason.contains('\n'), "{reason}: {words:?}");
}

#[test]
fn what_was_damaged_is_not_stored() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 12);
        let node = region.node;
        let sections = region.new_objects(&[b"record", &[7; 5000]]);
        let Section::New(pages) = sections[1] else { panic!("it is new") };
        let slot = region.fill(FROM, vec![part(PartOf::Rank(Rank(0)), sections)]);
        let before = region.read(slot.index.offset, slot.index.bytes);
        for (offset, words) in [
            (pages.offset + 4321, vec![format!("damaged at {}", pages.offset)]),
            (slot.table.offset + 3, vec!["damaged".into(), "table".into()]),
            (header_offset(FROM.slot) + 20, vec!["no checkpoint, or is damaged".into()]),
            (3, vec!["damaged".into(), "version".into()]),
        ] {
            region.damage(offset);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_refused(&mut pset, node, FROM, &words).await;
            region.damage(offset);
            assert_eq!(region.slot(FROM.slot), Some(slot), "nothing else is there");
            assert_eq!(region.read(slot.index.offset, slot.index.bytes), before);
        }
        pull(&mut pset, node, FROM).await.unwrap();
    });
}

#[test]
fn only_what_is_meant_is_pulled() {
    run(async {
        let mut pset = start().await;
        let mut region = Region::new(&pset, 12);
        let node = region.node;
        let sections = region.new_objects(&[b"record"]);
        let slot = region.fill(FROM, vec![part(PartOf::Rank(Rank(0)), sections)]);
        assert_refused(&mut pset, node, SlotKey { key: 5, ..FROM }, &["slot 0", "another", "0xabc instead of 0x5"])
            .await;
        for slot in [1, SLOTS, u8::MAX] {
            assert_refused(&mut pset, node, SlotKey { slot, ..FROM }, &[&format!("slot {slot}"), "no checkpoint"])
                .await;
        }
        let filled = SlotKey { slot: 1, key: 6 };
        region.filling(filled, JOB);
        assert_refused(&mut pset, node, filled, &["slot 1", "no checkpoint"]).await;
        // What is kept is kept, or it is of no use.
        let id = ObjectId::of(b"collected");
        let known = Section::Known(id, Some(region.write(b"collected")));
        let of_known = SlotKey { slot: 2, key: 7 };
        region.fill(of_known, vec![part(PartOf::Rank(Rank(0)), vec![known])]);
        assert_refused(&mut pset, node, of_known, &[&id.to_string(), "not kept any more"]).await;
        // The answer has to be a message.
        let parts = vec![part(PartOf::Node(0), vec![known]); coppice_io_node::limits::REGION_PARTS_MAX + 1];
        let table = Table { job: JOB, key: 8, parts };
        region.fill_for(SlotKey { slot: 3, key: 8 }, &table, 0);
        assert_refused(&mut pset, node, SlotKey { slot: 3, key: 8 }, &["16385 parts"]).await;
        assert_eq!(region.slot(0), Some(slot));
        assert!((0..SLOTS).all(|number| region.slot(number).is_some_and(|slot| slot.state != State::Drained)));
    });
}

#[test]
fn a_node_without_a_region_has_nothing_to_pull_and_nothing_to_wipe() {
    run(async {
        let mut pset = start().await;
        let short = Region::new(&pset, 1);
        short.file.set_len(5000).unwrap();
        for node in [NodeId(1), NodeId(2)] {
            assert_refused(&mut pset, node, FROM, &["no region"]).await;
            assert_eq!(wipe(&mut pset, node, None, None).await, None);
        }
        let regions = pset.dir.path().join("regions");
        std::fs::create_dir(regions.join("3")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", regions.join("4")).unwrap();
        for (node, words) in [(NodeId(3), "directory"), (NodeId(4), "symbolic links")] {
            assert_refused(&mut pset, node, FROM, &[words]).await;
            assert!(wipe(&mut pset, node, None, None).await.unwrap().contains(words));
        }
        // Where there is no directory for them either.
        let mut pset = Pset::start_with_storage(|_| {}).await;
        assert_refused(&mut pset, NodeId(1), FROM, &["no region"]).await;
        assert_eq!(wipe(&mut pset, NodeId(1), None, None).await, None);
    });
}

#[test]
fn without_a_directory_for_checkpoints_nothing_is_pulled() {
    run(async {
        let mut pset = Pset::start_with_regions(None).await;
        let mut region = Region::new(&pset, 0);
        let sections = region.new_objects(&[b"record"]);
        region.fill(FROM, vec![part(PartOf::Rank(Rank(0)), sections)]);
        assert_eq!(pull(&mut pset, region.node, FROM).await.unwrap_err(), "this I/O node keeps no checkpoints");
        assert!(wipe(&mut pset, region.node, None, None).await.unwrap().contains("keeps no checkpoints"));
        assert_eq!(region.slot(FROM.slot).unwrap().state, State::Local);
    });
}
